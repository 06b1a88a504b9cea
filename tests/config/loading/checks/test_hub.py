"""Small judgements about settings; `test_resolve_values` shows the others through whole files."""

from pathlib import Path
from typing import Any

import pytest

from config.diagnostics import ConfigError
from config.loading.assemble import load_all
from config.loading.checks.hub import problems_of_hub
from config.loading.checks.oauth import problems_of_oauth, problems_of_oauth_in_hub
from config.loading.checks.upstream import problems_of_upstream, warnings_of_upstream
from config.loading.parse_addresses import is_loopback
from config.secret_references import references_of
from config.secrets.fill_secret_values import resolve_references
from config.security_settings import IdentityProvider, OAuthConfig, UpstreamOAuth
from config.setting_declarations import Secret
from config.settings import HubConfig, Timeouts, UpstreamConfig


@pytest.mark.covers("SEC-01")
@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1", True),
        ("127.5.5.5", True),
        ("::1", True),
        ("localhost", True),
        ("0.0.0.0", False),
        ("::", False),
        ("", False),
        ("192.168.1.1", False),
        ("localhost.evil.test", False),
    ],
)
def test_loopback_is_what_only_this_machine_reaches(host, expected):
    assert is_loopback(host) is expected


@pytest.mark.covers("G-11")
@pytest.mark.parametrize(
    ("settings", "key", "text"),
    [
        ({"roots": ()}, "roots", "empty"),
        ({"roots": ("/home/me",)}, "roots", "file:///"),
        ({"roots": ("file:///ok", "https://example.com/")}, "roots", "file:///"),
        ({"roots": ("file://elsewhere/share",)}, "roots", "file:///"),
        ({"roots": ("file:///a b",)}, "roots", "file:///"),
        ({"roots": "host", "session_mode": "singleton"}, "roots", "allows only one"),
        ({"roots": "host", "session_mode": "shared"}, "roots", "allows only one"),
        ({"roots": "host", "client_features": "none"}, "roots", "no effect"),
        ({"timeouts": Timeouts(session_idle=0)}, "session_idle", "above 0"),
        ({"timeouts": Timeouts(session_idle=-1)}, "session_idle", "above 0"),
    ],
)
def test_sharing_that_cannot_be(settings, key, text):
    [problem] = problems_of_upstream(UpstreamConfig(command="x", **settings))
    assert problem.keys[-1] == key
    assert text in str(problem)


@pytest.mark.parametrize(
    "settings",
    [
        {"roots": ("file:///home/me", "file://localhost/c:/x%20y")},
        {"roots": ("file:///home/me",), "session_mode": "singleton"},
        {"roots": "host", "session_mode": "per_host"},
        {"roots": "host", "across_principals": True},
        {"session_mode": "singleton", "across_principals": True},
        {"client_features": "none", "roots": ("file:///home/me",)},
    ],
)
def test_sharing_that_can_be(settings):
    assert not list(problems_of_upstream(UpstreamConfig(command="x", **settings)))


@pytest.mark.parametrize(
    ("settings", "key"),
    [
        ({"park_ttl_s": -1}, "park_ttl_s"),
        ({"park_total_s": float("inf")}, "park_total_s"),
        ({"park_ttl_s": 100, "park_total_s": 99}, "park_total_s"),
        ({"synthetic_progress_s": -0.1}, "synthetic_progress_s"),
    ],
)
def test_times_that_cannot_be(settings, key):
    [problem] = problems_of_hub(HubConfig(**settings))
    assert problem.keys == (key,)


@pytest.mark.parametrize(
    ("command", "is_warned"),
    [("npx -y foo", True), ("npx", False), ("/opt/my program", False), ("./my program", False), (None, False)],
)
def test_a_command_that_holds_its_arguments(command, is_warned):
    upstream = UpstreamConfig(command=command)
    assert ['command = "npx"' in str(warning) for warning in warnings_of_upstream(upstream)] == [True] * is_warned
    assert list(warnings_of_upstream(UpstreamConfig(command=command, disabled=True))) == []


@pytest.mark.covers("F-C-02")
@pytest.mark.parametrize(
    ("settings", "keys"),
    [
        ({"command": "\ud800"}, ("command",)),
        ({"command": "x", "args": ("caf\udce9",)}, ("args",)),
        ({"command": "x", "cwd": "/caf\udce9", "disabled": True}, ("cwd",)),
        ({"command": "x", "env": {"A": Secret("\udcff")}}, ("env", "A")),
        ({"url": "http://h/", "headers": {"A": Secret("\udcff")}, "disabled": True}, ("headers", "A")),
    ],
)
def test_what_is_not_utf_8_is_refused(settings, keys):
    [problem] = problems_of_upstream(UpstreamConfig(**settings))
    assert problem.keys == keys
    assert "UTF-8" in str(problem)


@pytest.mark.covers("I-5")
@pytest.mark.parametrize("size", [0, -1, (64 << 20) - 1, (1 << 40) + 1])
def test_a_budget_of_memory_is_neither_tiny_nor_endless(size):
    [problem] = problems_of_hub(HubConfig(global_buffer_bytes=size))
    assert "64 MiB" in str(problem)


@pytest.mark.parametrize("size", [64 << 20, 256 << 20, 1 << 40])
def test_a_budget_of_memory(size):
    assert not list(problems_of_hub(HubConfig(global_buffer_bytes=size)))


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
