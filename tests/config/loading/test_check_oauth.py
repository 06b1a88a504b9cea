"""Settings of signing in: what does not fit together is told by the setting's name, and secrets may be references."""

from pathlib import Path
from typing import Any

import pytest

from config.errors import ConfigError
from config.loading.assemble import load_all
from config.loading.check_oauth import problems_of_oauth, problems_of_oauth_in_hub
from config.references import references_of, resolve_references
from config.setting import Secret
from config.settings import UpstreamConfig
from config.tables.oauth import IdentityProvider, OAuthConfig, UpstreamOAuth

AT = "https://id.example"
SECRET = {"client_id": "a", "client_secret": Secret("s"), "issuer": AT}


def found(**settings: Any) -> list[str]:
    upstream = UpstreamConfig(url="https://notes.example/mcp", oauth=UpstreamOAuth(**settings))
    return [".".join(problem.keys) for problem in problems_of_oauth(upstream)]


@pytest.mark.parametrize(
    "settings",
    [
        {},
        SECRET,
        {**SECRET, "grant": "client_credentials"},
        {"client_id": "a", "private_key": Secret("k"), "issuer": AT, "token_auth": "private_key_jwt"},
        {"scopes": ("read", "repo:write"), "max_scopes": ("repo:*", "!repo:admin")},
        {"extra": {"audience": "x", "access_type": "offline"}},
        {"redirect_uri": "http://127.0.0.1:3118/callback"},
        {"redirect_uri": "http://[::1]:3118/"},
        {"grant": "none"},
        {"account": "each"},
    ],
)
def test_what_fits_together_is_no_problem(settings: dict[str, Any]) -> None:
    assert found(**settings) == []


@pytest.mark.parametrize(
    ("settings", "where"),
    [
        ({"client_secret": Secret("s"), "issuer": AT}, "oauth.client_id"),
        ({"client_id": "a", "client_secret": Secret("s")}, "oauth.issuer"),
        ({"client_id": "a", "private_key": Secret("k")}, "oauth.issuer"),
        ({**SECRET, "private_key": Secret("k")}, "oauth.private_key"),
        ({**SECRET, "token_auth": "none"}, "oauth.token_auth"),
        ({**SECRET, "token_auth": "private_key_jwt"}, "oauth.private_key"),
        ({"client_id": "a", "token_auth": "client_secret_post"}, "oauth.client_secret"),
        ({"grant": "client_credentials", "client_id": "a", "issuer": AT}, "oauth.grant"),
        ({"grant": "id_jag"}, "oauth.grant"),
        ({**SECRET, "grant": "client_credentials", "account": "each"}, "oauth.account"),
        ({"scopes": ("two words",)}, "oauth.scopes"),
        ({"scopes": ('quo"te',)}, "oauth.scopes"),
        ({"max_scopes": ("é",)}, "oauth.max_scopes"),
        ({"extra": {"state": "mine"}}, "oauth.extra.state"),
        ({"extra": {"response_mode": "fragment"}}, "oauth.extra.response_mode"),
        ({"extra": {f"x{number}": "" for number in range(17)}}, "oauth.extra"),
        ({"issuer": "ftp://id.example"}, "oauth.issuer"),
        ({"issuer": "https://u:p@id.example"}, "oauth.issuer"),
        ({"issuer": "https://id.example/#x"}, "oauth.issuer"),
        ({"metadata_url": "https://id.example:port/"}, "oauth.metadata_url"),
        ({"resource": "https://notes.example/ mcp"}, "oauth.resource"),
        ({"redirect_uri": "http://evil.example:80/cb"}, "oauth.redirect_uri"),
        ({"redirect_uri": "http://127.0.0.1/cb"}, "oauth.redirect_uri"),
        ({"redirect_uri": "http://127.0.0.1:3118/cb#x"}, "oauth.redirect_uri"),
    ],
)
def test_what_does_not_is_told_with_the_setting(settings: dict[str, Any], where: str) -> None:
    assert where in found(**settings)


@pytest.mark.parametrize(
    ("hub", "where"),
    [
        (OAuthConfig(client_metadata_url="https://h.example/"), "oauth.client_metadata_url"),
        (OAuthConfig(client_metadata_url="http://h.example/c.json"), "oauth.client_metadata_url"),
        (OAuthConfig(redirect_uri="http://hub.example/oauth/callback"), "oauth.redirect_uri"),
        (OAuthConfig(client_name=""), "oauth.client_name"),
        (OAuthConfig(client_name="a\x07b"), "oauth.client_name"),
        (OAuthConfig(idp=IdentityProvider(issuer=AT)), "oauth.idp"),
        (OAuthConfig(idp=IdentityProvider(issuer="nowhere", client_id="a")), "oauth.idp.issuer"),
    ],
)
def test_the_hubs_own_settings_are_checked_too(hub: OAuthConfig, where: str) -> None:
    assert where in [".".join(problem.keys) for problem in problems_of_oauth_in_hub(hub)]
    assert not list(problems_of_oauth_in_hub(OAuthConfig(redirect_uri="http://127.0.0.1:9/oauth/callback")))


def test_the_secret_of_a_sign_in_may_be_a_reference_or_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("from a file\n")
    (tmp_path / "key").chmod(0o600)
    (tmp_path / "hubd.toml").write_text(
        f"""
        [oauth.idp]
        issuer = "https://idp.example"
        client_id = "${{IDP}}"
        [upstreams.notes]
        url = "https://notes.example/mcp"
        [upstreams.notes.oauth]
        client_id = "${{NOTES_ID}}"
        client_secret = "${{file:{tmp_path}/key}}"
        issuer = "{AT}"
        [upstreams.later]
        url = "https://later.example/mcp"
        oauth = {{ client_id = "b", client_secret = "${{secret:LATER}}", issuer = "{AT}" }}
        """
    )
    config = load_all(tmp_path / "hubd.toml", {"NOTES_ID": "a", "IDP": "hub"}).config
    assert config.oauth.idp.client_id == "hub"
    oauth = config.upstreams["notes"].oauth
    assert (oauth.client_id, oauth.client_secret) == ("a", Secret("from a file"))
    later = config.upstreams["later"]
    (reference,) = references_of(later)
    assert resolve_references(later, {reference: "kept"}).oauth.client_secret == Secret("kept")
    assert "kept" not in repr(resolve_references(later, {reference: "kept"}))


def test_what_is_missing_below_it_is_told_with_file_and_line(tmp_path: Path) -> None:
    path = tmp_path / "hubd.toml"
    path.write_text('[upstreams.notes]\nurl = "https://n.example"\n[upstreams.notes.oauth]\nclient_secret = "s"\n')
    with pytest.raises(ConfigError) as caught:
        load_all(path, {})
    text = str(caught.value)
    assert f"{path}, line 3: upstreams.notes.oauth.client_id" in text
