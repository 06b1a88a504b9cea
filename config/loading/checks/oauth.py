"""Checks of signing in: at one upstream, and what authorization servers are told of the hub."""

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Final
from urllib.parse import parse_qsl, urlsplit

from config.diagnostics import Problem
from config.loading.checks.http_access import SCOPE
from config.loading.parse_addresses import split_plain
from config.name_globs import problem_of
from config.secret_references import NUL
from config.security_settings import OWN_PARAMETERS, OAuthConfig, UpstreamOAuth
from config.settings import LOOPBACK, ReplicaConfig, UpstreamConfig

MAX_EXTRA: Final = 16
MAX_TEXT: Final = 2048
_VISIBLE = re.compile(r"[\x20-\x7e]*")


def problems_of_oauth(upstream: UpstreamConfig) -> Iterator[Problem]:
    """Problems of signing in at one upstream."""
    oauth = upstream.oauth
    yield from _problems_of_texts(oauth)
    yield from _problems_of_client(oauth)
    for name in ("scopes", "max_scopes"):
        if not all(map(SCOPE.fullmatch, getattr(oauth, name))):
            text = "holds what is no scope: visible ASCII without quotes, backslashes or spaces; write one for each"
            yield Problem(("oauth", name), text)
    if why := problem_of(oauth.max_scopes):
        yield Problem("oauth.max_scopes", why)
    for name in oauth.extra:
        if name in OWN_PARAMETERS:
            text = f"{name} is not sent: the hub sets it itself, or it must not stand in a URL; take it out"
            yield Problem(("oauth", "extra", name), text)
    if len(oauth.extra) > MAX_EXTRA or any(len(key + value) > MAX_TEXT for key, value in oauth.extra.items()):
        yield Problem("oauth.extra", f"holds more than {MAX_EXTRA} parameters, or one of more than {MAX_TEXT} bytes")


def problems_of_oauth_in_fleet(
    replica: ReplicaConfig, upstreams: Mapping[str, UpstreamConfig]
) -> Iterator[tuple[str, Problem]]:
    """Upstreams whose settings want people to sign in at one hub of several, with what is wrong about that."""
    if replica == ReplicaConfig():
        return
    for name, upstream in upstreams.items():
        is_wanted = upstream.oauth != UpstreamOAuth() and upstream.oauth.grant == "authorization_code"
        if is_wanted and upstream.url is not None and not upstream.disabled:
            text = "has people sign in, and hubs with [replica] do not share sign-ins: each would ask them again; set"
            instead = 'grant = "client_credentials" or "id_jag", or headers.Authorization in place of this table'
            yield name, Problem("oauth", f"{text} {instead}")


def problems_of_oauth_in_hub(config: OAuthConfig) -> Iterator[Problem]:
    """Problems of what authorization servers are told of the hub."""
    for name in ("redirect_uri", "client_metadata_url"):
        if (value := getattr(config, name)) and not _is_address(value):
            yield Problem(("oauth", name), _ADDRESS)
    if (url := config.client_metadata_url) and (not url.startswith("https://") or urlsplit(url).path in ("", "/")):
        text = "must be an https URL with a path, such as https://example.com/oauth/client.json"
        yield Problem("oauth.client_metadata_url", text)
    if (uri := config.redirect_uri) and not (uri.startswith("https://") or urlsplit(uri).hostname in LOOPBACK):
        text = "must be https, or http at 127.0.0.1, localhost or [::1]: anybody on the way could read the codes"
        yield Problem("oauth.redirect_uri", text)
    if not config.client_name or len(config.client_name) > 64 or not config.client_name.isprintable():
        yield Problem("oauth.client_name", "must be 1 to 64 printable characters")
    if config.idp.issuer and not _is_address(config.idp.issuer):
        yield Problem("oauth.idp.issuer", _ADDRESS)
    if bool(config.idp.issuer) != bool(config.idp.client_id):
        yield Problem("oauth.idp", "needs both `issuer` and `client_id`")
    if config.idp.id_token is not None and not config.idp.issuer:
        yield Problem("oauth.idp.issuer", "is missing: id_token is shown to it")


def _problems_of_texts(oauth: UpstreamOAuth) -> Iterator[Problem]:
    for name in ("issuer", "metadata_url", "resource", "redirect_uri"):
        value = getattr(oauth, name)
        if value and NUL not in value and not _is_address(value):
            yield Problem(("oauth", name), _ADDRESS)
    uri = urlsplit(oauth.redirect_uri) if _is_address(oauth.redirect_uri) else None
    if uri is not None and (uri.scheme != "http" or uri.hostname not in LOOPBACK or not uri.port):
        text = "must be http at 127.0.0.1, localhost or [::1] with a port, such as http://127.0.0.1:3118/callback"
        yield Problem("oauth.redirect_uri", text)
    for name in ("client_id", "key_id"):
        if NUL not in getattr(oauth, name) and not _VISIBLE.fullmatch(getattr(oauth, name)[: MAX_TEXT + 1]):
            yield Problem(("oauth", name), "must be visible ASCII")


def _problems_of_client(oauth: UpstreamOAuth) -> Iterator[Problem]:
    has_secret, has_key = oauth.client_secret is not None, oauth.private_key is not None
    proves, auth, grant = has_secret or has_key, oauth.token_auth, oauth.grant
    unsaid = "is missing: without it the first server that this one names would get the secret, or its proof"
    is_named = bool(oauth.client_id and oauth.issuer)
    for is_wrong, name, text in (
        (has_secret and has_key, "private_key", "stands beside client_secret, and only one can be used; take one out"),
        (proves and not oauth.client_id, "client_id", "is missing: a secret or key belongs to one"),
        (proves and not oauth.issuer, "issuer", f"{unsaid}. `hubd auth NAME` prints the line to write"),
        (proves and auth == "none", "token_auth", '"none" makes no use of the secret or key; take one of them out'),
        (not has_key and auth == "private_key_jwt", "private_key", f'is missing, and token_auth is "{auth}"'),
        (not has_secret and "client_secret" in auth, "client_secret", f'is missing, and token_auth is "{auth}"'),
        (grant in ("client_credentials", "id_jag") and not is_named, "grant", f'"{grant}" needs client_id and issuer'),
        (grant == "client_credentials" and not proves, "grant", f'"{grant}" needs client_secret or private_key'),
    ):
        if is_wrong:
            yield Problem(("oauth", name), text)
    if grant != "authorization_code" and oauth.account == "each":
        yield Problem("oauth.account", f'"each" means that people sign in, and grant = "{grant}" does not')


_ADDRESS: Final = "expected an address such as https://example.com/path, without user name, fragment or spaces"


def _is_address(url: str) -> bool:
    """True if it is a URL that the hub may use."""
    parts = split_plain(url)
    if parts is None or len(url) > MAX_TEXT or "\\" in url or "#" in url:
        return False
    with suppress(ValueError):
        parse_qsl(parts.query, max_num_fields=32)
        return parts.scheme in ("http", "https")
    return False
