"""Checks of the settings of signing in, beyond their types. Pure; as `check`, whose problems these are part of."""

import re
from collections.abc import Iterator, Mapping
from typing import Final
from urllib.parse import parse_qsl, urlsplit

from config.loading.safe_reading import Problem
from config.name_globs import problem_of
from config.references import NUL
from config.settings import ReplicaConfig, UpstreamConfig
from config.tables.oauth import OWN_PARAMETERS, OAuthConfig, UpstreamOAuth

MAX_EXTRA: Final = 16
MAX_TEXT: Final = 2048
LOOPBACK: Final = ("127.0.0.1", "localhost", "::1")
_SCOPE = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]{1,256}")
"""One scope (RFC 6749 3.3)."""
_VISIBLE = re.compile(r"[\x20-\x7e]*")


def problems_of_oauth(upstream: UpstreamConfig) -> Iterator[Problem]:
    """Problems of signing in at one upstream."""
    oauth = upstream.oauth
    yield from _problems_of_texts(oauth)
    yield from _problems_of_client(oauth)
    for name in ("scopes", "max_scopes"):
        if any(not _SCOPE.fullmatch(scope) for scope in getattr(oauth, name)):
            text = "holds what is no scope: visible ASCII without quotes, backslashes or spaces; write one for each"
            yield Problem(("oauth", name), text)
    if why := problem_of(oauth.max_scopes):
        yield Problem(("oauth", "max_scopes"), why)
    for name in oauth.extra:
        if name in OWN_PARAMETERS:
            text = f"{name} is not sent: the hub sets it itself, or it must not stand in a URL; take it out"
            yield Problem(("oauth", "extra", name), text)
    if len(oauth.extra) > MAX_EXTRA or any(len(key + value) > MAX_TEXT for key, value in oauth.extra.items()):
        yield Problem(
            ("oauth", "extra"), f"holds more than {MAX_EXTRA} parameters, or one of more than {MAX_TEXT} bytes"
        )


def problems_of_oauth_in_fleet(
    replica: ReplicaConfig, upstreams: Mapping[str, UpstreamConfig]
) -> Iterator[tuple[str, Problem]]:
    """Upstreams whose settings want people to sign in at one hub of several, with what is wrong about that."""
    if replica == ReplicaConfig():
        return
    for name, upstream in upstreams.items():
        is_wanted = upstream.oauth != UpstreamOAuth() and upstream.oauth.grant == "authorization_code"
        if is_wanted and upstream.url is not None and not upstream.disabled:
            text = (
                "has people sign in, and hubs with [replica] do not share sign-ins: each would ask them again; set"
                ' grant = "client_credentials" or "id_jag", or headers.Authorization in place of this table'
            )
            yield name, Problem(("oauth",), text)


def problems_of_oauth_in_hub(config: OAuthConfig) -> Iterator[Problem]:
    """Problems of what authorization servers are told of the hub."""
    for name in ("redirect_uri", "client_metadata_url"):
        if (value := getattr(config, name)) and (why := _flaw(value)):
            yield Problem(("oauth", name), why)
    if (url := config.client_metadata_url) and (not url.startswith("https://") or urlsplit(url).path in ("", "/")):
        text = "must be an https URL with a path, such as https://example.com/oauth/client.json"
        yield Problem(("oauth", "client_metadata_url"), text)
    if (uri := config.redirect_uri) and not (uri.startswith("https://") or urlsplit(uri).hostname in LOOPBACK):
        text = "must be https, or http at 127.0.0.1, localhost or [::1]: anybody on the way could read the codes"
        yield Problem(("oauth", "redirect_uri"), text)
    if not config.client_name or len(config.client_name) > 64 or not config.client_name.isprintable():
        yield Problem(("oauth", "client_name"), "must be 1 to 64 printable characters")
    if config.idp.issuer and (why := _flaw(config.idp.issuer)):
        yield Problem(("oauth", "idp", "issuer"), why)
    if bool(config.idp.issuer) != bool(config.idp.client_id):
        yield Problem(("oauth", "idp"), "needs both `issuer` and `client_id`")
    if config.idp.id_token is not None and not config.idp.issuer:
        yield Problem(("oauth", "idp", "issuer"), "is missing: id_token is shown to it")


def _problems_of_texts(oauth: UpstreamOAuth) -> Iterator[Problem]:
    for name in ("issuer", "metadata_url", "resource", "redirect_uri"):
        value = getattr(oauth, name)
        if value and NUL not in value and (why := _flaw(value)):
            yield Problem(("oauth", name), why)
    uri = urlsplit(oauth.redirect_uri) if oauth.redirect_uri and not _flaw(oauth.redirect_uri) else None
    if uri is not None and (uri.scheme != "http" or uri.hostname not in LOOPBACK or not uri.port):
        text = "must be http at 127.0.0.1, localhost or [::1] with a port, such as http://127.0.0.1:3118/callback"
        yield Problem(("oauth", "redirect_uri"), text)
    for name in ("client_id", "key_id"):
        if NUL not in getattr(oauth, name) and not _VISIBLE.fullmatch(getattr(oauth, name)[: MAX_TEXT + 1]):
            yield Problem(("oauth", name), "must be visible ASCII")


def _problems_of_client(oauth: UpstreamOAuth) -> Iterator[Problem]:
    proves = oauth.client_secret is not None or oauth.private_key is not None
    if oauth.client_secret is not None and oauth.private_key is not None:
        yield Problem(("oauth", "private_key"), "stands beside client_secret, and only one can be used; take one out")
    if proves and not oauth.client_id:
        yield Problem(("oauth", "client_id"), "is missing: a secret or key belongs to one")
    if proves and not oauth.issuer:
        text = "is missing: without it the first server that this one names would get the secret, or its proof"
        yield Problem(("oauth", "issuer"), f"{text}. `hubd auth NAME` prints the line to write")
    if oauth.token_auth == "none" and proves:
        yield Problem(("oauth", "token_auth"), '"none" makes no use of the secret or key; take one of them out')
    if oauth.token_auth == "private_key_jwt" and oauth.private_key is None:
        yield Problem(("oauth", "private_key"), 'is missing, and token_auth is "private_key_jwt"')
    if oauth.token_auth in ("client_secret_basic", "client_secret_post") and oauth.client_secret is None:
        yield Problem(("oauth", "client_secret"), f'is missing, and token_auth is "{oauth.token_auth}"')
    if oauth.grant in ("client_credentials", "id_jag") and not (oauth.client_id and oauth.issuer):
        yield Problem(("oauth", "grant"), f'"{oauth.grant}" needs client_id and issuer')
    if oauth.grant == "client_credentials" and not proves:
        yield Problem(("oauth", "grant"), '"client_credentials" needs client_secret or private_key')
    if oauth.grant != "authorization_code" and oauth.account == "each":
        yield Problem(("oauth", "account"), f'"each" means that people sign in, and grant = "{oauth.grant}" does not')


def _flaw(url: str) -> str:
    """The reason why a text is no URL that the hub may use; "": it is one."""
    expected = "expected an address such as https://example.com/path, without user name, fragment or spaces"
    if len(url) > MAX_TEXT or not url.isascii() or re.search(r"[\x00-\x20\x7f\\]", url):
        return expected
    try:
        parts = urlsplit(url)
        _ = parts.port
        parse_qsl(parts.query, max_num_fields=32)
    except ValueError:
        return expected
    sound = parts.scheme in ("http", "https") and parts.hostname and "@" not in parts.netloc and "#" not in url
    return "" if sound else expected
