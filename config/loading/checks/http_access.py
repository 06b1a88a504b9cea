"""Checks of who is let in over HTTP (`auth`, `[access]`), beyond types and bounds. Pure. Problems show no token and no
secret.
"""

import re
from collections.abc import Collection, Iterator
from contextlib import suppress
from datetime import date
from typing import Final
from urllib.parse import urlsplit

from config.diagnostics import Problem
from config.loading.parse_addresses import is_address, is_loopback, split_plain
from config.profile_settings import profile_problem
from config.security_settings import SECRET_HEADER, AccessConfig, AccessIssuer, AccessToken, TrustedProxy
from config.settings import MIN_TOKEN, TOKEN, HubConfig

ISSUER_NAME: Final = re.compile(r"[a-z0-9-]{1,32}")
TAKEN: Final = ("local", "proxy")
"""Names that begin the principals of others, so that no issuer has them."""
TOKEN_NAME: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
TOKEN_NAME_RULE: Final = "lower-case letters, digits, dots, dashes and underscores, at most 64"
PRINCIPAL: Final = re.compile(r"[!-~]{1,256}")
LABEL: Final = re.compile(r"[!-~]{1,64}")
SCOPE: Final = re.compile(r"[!#-\[\]-~]{1,256}")
"""One scope (RFC 6749 3.3)."""
_FIELD = re.compile(r"[A-Za-z][A-Za-z0-9-]{0,63}")
_FIELDS_IN_USE: Final = frozenset(
    {"accept", "authorization", "connection", "content-length", "content-type", "cookie", "expect", "host", "origin"}
    | {"last-event-id", "te", "transfer-encoding", "upgrade", SECRET_HEADER.lower()}
)
TOKEN_RULE: Final = (
    f"must be {MIN_TOKEN} or more letters, digits or characters of ._~+/- without spaces; "
    "`openssl rand -hex 32` makes one"
)


def problems_of_access(config: HubConfig, *, is_open: bool) -> Iterator[Problem]:
    """Problems of who could reach the hub, and who is let in. `is_open`: `listen` is not on loopback."""
    if config.auth == "none" and is_open:
        yield Problem("auth", f'"none" is allowed on loopback only, and listen is {config.listen}; write "token"')
    if is_open and not config.behind_tls_proxy:
        text = f"{config.listen} can be reached from other machines, and hubd has no TLS: take a loopback address,"
        yield Problem("listen", f"{text} or set behind_tls_proxy = true if a proxy you trust ends TLS before it")
    access = config.access
    yield from _problems_of_oauth(config)
    yield from _problems_of_issuers(access)
    yield from _problems_of_tokens(access, config.profiles)
    if config.auth == "proxy" or access.proxy != TrustedProxy():
        yield from (each.below("access", "proxy") for each in _problems_of_proxy(access.proxy))


def warnings_of_access(config: HubConfig) -> Iterator[Problem]:
    """Warnings about settings of `[access]` without effect."""
    access = config.access
    if access.issuers and config.auth != "oauth":
        yield Problem("access.issuers", f'has no effect with auth = "{config.auth}"; write auth = "oauth"')
    if access.proxy != TrustedProxy() and config.auth != "proxy":
        yield Problem("access.proxy", f'has no effect with auth = "{config.auth}"; write auth = "proxy"')
    if access.tokens and config.auth == "none":
        yield Problem("access.tokens", 'has no effect with auth = "none"')


def token_problem(token: AccessToken, profiles: Collection[str]) -> Problem | None:
    """The flaw of a token of a host, wherever it is kept; None: nothing. `profiles`: the configured ones."""
    if not TOKEN_NAME.fullmatch(token.name):
        return Problem("name", f"a token has a name of its own: {TOKEN_NAME_RULE}")
    if token.principal and not PRINCIPAL.fullmatch(token.principal):
        return Problem("principal", "must be printable ASCII without spaces, at most 256 characters")
    if token.host and not LABEL.fullmatch(token.host):
        return Problem("host", "must be printable ASCII without spaces, at most 64 characters")
    if token.expires and day(token.expires) is None:
        return Problem("expires", "must be a day, such as 2027-01-01")
    if token.profile and (unknown := profile_problem(token.profile, profiles)):
        return Problem("profile", unknown)
    return None


def day(text: str) -> date | None:
    """The day that a text of the form 2027-01-01 means; None: it is none."""
    with suppress(ValueError):
        return date.fromisoformat(text) if re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", text) else None
    return None


def _problems_of_oauth(config: HubConfig) -> Iterator[Problem]:
    access = config.access
    if config.auth == "oauth" and not access.issuers:
        text = '"oauth" needs an authorization server: write [[access.issuers]] with name and issuer below it'
        yield Problem("auth", text)
    if config.auth == "oauth" and config.behind_tls_proxy and not (access.resource or config.allowed_hosts):
        text = 'is needed, since nothing says how hosts call this hub: write resource = "https://NAME/mcp"'
        yield Problem("access.resource", text)
    if access.resource and not (is_issuer(access.resource) and urlsplit(access.resource).path == "/mcp"):
        text = 'expected the URL that hosts have for this hub, such as "https://hub.example.com/mcp"'
        yield Problem("access.resource", f"{text}; http only for loopback")
    if access.step_up and config.auth != "oauth":
        yield Problem("access.step_up", f'has no effect with auth = "{config.auth}": only issuers give scopes')
    if not all(map(SCOPE.fullmatch, access.required_scopes)):
        yield Problem("access.required_scopes", "a scope is printable ASCII without spaces, quotes and \\")


def _problems_of_issuers(access: AccessConfig) -> Iterator[Problem]:
    names, urls, asked = set[str](), set[str](), 0
    for number, issuer in enumerate(access.issuers):
        keys = ("access", "issuers", str(number))
        yield from (each.below(*keys) for each in _problems_of_issuer(issuer))
        if issuer.name in names:
            yield Problem((*keys, "name"), f'"{issuer.name}" is the name of another issuer, too; give each its own')
        if issuer.issuer in urls:
            yield Problem((*keys, "issuer"), "another entry has the same issuer; join the two")
        names.add(issuer.name)
        urls.add(issuer.issuer)
        asked += bool(issuer.introspection.client_id)
        if asked > 1:
            text = "only one issuer can be asked about tokens, since a token is shown to no other; take this out"
            yield Problem((*keys, "introspection"), text)
            asked = 1


def _problems_of_issuer(issuer: AccessIssuer) -> Iterator[Problem]:
    if not ISSUER_NAME.fullmatch(issuer.name):
        yield Problem("name", "an issuer has a name of its own: lower-case letters, digits and dashes, at most 32")
    elif issuer.name in TAKEN:
        yield Problem("name", f'"{issuer.name}" names others; take another name')
    if not is_issuer(issuer.issuer):
        text = 'expected an https URL without query, such as "https://id.example.com"; http only for loopback'
        yield Problem("issuer", text)
    if not issuer.algorithms:
        yield Problem("algorithms", "is empty, so that no token counts; leave it out")
    for name in ("subject", "groups"):
        if not 1 <= len(getattr(issuer, name)) <= 128:
            yield Problem((name,), "expected the name of a claim")
    asked = issuer.introspection
    if bool(asked.client_id) != bool(asked.client_secret and asked.client_secret.reveal()):
        yield Problem("introspection", "needs both client_id and client_secret")


def is_issuer(url: str) -> bool:
    """True if `url` can be an issuer identifier (RFC 8414 2); http only for loopback."""
    parts = split_plain(url)
    if parts is None or "?" in url or "#" in url:
        return False
    return parts.scheme == "https" or (parts.scheme == "http" and is_loopback(str(parts.hostname)))


def _problems_of_tokens(access: AccessConfig, profiles: Collection[str]) -> Iterator[Problem]:
    names, texts = set[str](), set[str]()
    for number, token in enumerate(access.tokens):
        keys = ("access", "tokens", str(number))
        if (problem := token_problem(token, profiles)) is not None:
            yield problem.below(*keys)
        elif token.name in names:
            yield Problem((*keys, "name"), f'"{token.name}" is the name of another token, too; give each its own')
        text = "" if token.token is None else token.token.reveal()
        if not re.fullmatch(TOKEN, text):
            yield Problem((*keys, "token"), TOKEN_RULE)
        elif text in texts:
            yield Problem((*keys, "token"), "is that of another entry, too; each host needs its own")
        names.add(token.name)
        texts.add(text)


def _problems_of_proxy(proxy: TrustedProxy) -> Iterator[Problem]:
    if not _FIELD.fullmatch(proxy.header):
        text = 'expected the header field in which the proxy names the person, such as "X-Forwarded-User"'
        yield Problem("header", text)
    elif proxy.header.lower() in _FIELDS_IN_USE or proxy.header.lower().startswith("mcp-"):
        yield Problem("header", "means something else already; take another header field")
    if proxy.secret is not None and not re.fullmatch(TOKEN, proxy.secret.reveal()):
        yield Problem("secret", TOKEN_RULE)
    if proxy.secret is None and not proxy.peer_uid:
        text = f"without `secret`, which it sends as {SECRET_HEADER}, or `peer_uid`, the user that it runs as, every"
        yield Problem((), f"{text} program of this machine could say that it is the proxy")
    if not all(0 <= uid < 1 << 32 for uid in proxy.peer_uid):
        yield Problem("peer_uid", "expected numbers of users")
    if not all(map(is_address, proxy.peers)):
        yield Problem("peers", 'expected addresses such as "127.0.0.1"; no names and no networks')
