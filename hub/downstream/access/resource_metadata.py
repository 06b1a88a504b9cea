"""Metadata of this hub as a protected resource (RFC 9728): a function of the path alone, so that they tell nobody which
servers there are. Pure.

URLs come from the configuration, never from `Host`. The hub is no authorization server, and has no metadata of one.

Below them are the refusals of requests whose sender is not let in. All of one kind have one body: it tells nobody which
part of a credential was wrong. Pages of `allowed_origins` may read answers, and ask beforehand (CORS, Fetch 3.2).
"""

import re
from collections.abc import Sequence, Set
from typing import Final
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from config.errors import ConfigError
from config.settings import HubConfig
from hub.net.http_message import EarlyReply, HttpRequest

WELL_KNOWN: Final = "/.well-known/oauth-protected-resource"
MCP_PATH: Final = "/mcp"
_BELOW: Final = re.compile(r"/mcp(/[@~]?[A-Za-z0-9][A-Za-z0-9._-]{0,63})?")
HEADERS: Final = (("Cache-Control", "max-age=300"), ("Access-Control-Allow-Origin", "*"))


class ResourceMetadata:
    """The documents of one hub. `resource` is its URL, which ends with `/mcp`."""

    def __init__(self, resource: str, issuers: Sequence[str], scopes: Sequence[str]) -> None:
        self.resource = resource
        self._issuers = tuple(issuers)
        self._scopes = tuple(scope for scope in scopes if scope != "offline_access")
        parts = urlsplit(resource)
        self._root = f"{parts.scheme}://{parts.netloc}{WELL_KNOWN}"

    def resource_at(self, path: str) -> str:
        """The resource that a path is, which tokens for it name as their audience."""
        return self.resource + self._below(path)

    def url_for(self, path: str) -> str:
        """The place of the metadata of a path."""
        return f"{self._root}{MCP_PATH}{self._below(path)}"

    def is_opened_by(self, audiences: Set[str], path: str, more: Sequence[str] = ()) -> bool:
        """True if a token for these audiences opens a path: one for the hub opens all, one for a server that alone.
        `more`: audiences that mean the hub, too."""
        if self.resource in audiences or not audiences.isdisjoint(more):
            return True
        return path.startswith(f"{MCP_PATH}/") and self.resource_at(path) in audiences

    def _below(self, path: str) -> str:
        found = _BELOW.fullmatch(path)
        return "" if found is None else found[1] or ""

    def reply(self, request: HttpRequest) -> EarlyReply | None:
        """The document that a request asks for; None: it asks for none."""
        if request.method not in ("GET", "HEAD") or not request.path.startswith(WELL_KNOWN):
            return None
        path = request.path[len(WELL_KNOWN) :] or MCP_PATH
        if not _BELOW.fullmatch(path):
            return None
        request.reply_with(())  # anybody may read it, whatever the page is from
        document: dict[str, object] = {
            "resource": self.resource_at(path),
            "authorization_servers": self._issuers,
            "bearer_methods_supported": ["header"],
            "resource_name": "hubd",
        }
        if self._scopes:
            document["scopes_supported"] = self._scopes
        return EarlyReply(200, msgspec.json.encode(document), HEADERS)


LOOPBACK_NAMES: Final = ("localhost", "127.0.0.1", "[::1]")
_NAME = re.compile(r"(\[[0-9a-f:.]+\]|[^:\[\]]+)(:[0-9]{1,5})?")


class WaysIn(Struct, frozen=True):
    """The URLs by which hosts reach a hub; each is let in by `Access`."""

    here: str | None
    """URL for programs of this machine; None: only the proxy reaches the hub."""
    proxied: tuple[str, ...]
    """URLs of the proxy that ends TLS."""


def ways_in(config: HubConfig, host: str, port: int) -> WaysIn:
    """The URLs of a hub that listens at `host` and `port`."""
    local = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    own = f"[{local}]:{port}" if ":" in local else f"{local}:{port}"
    names = [with_port(name.lower(), port) for name in config.allowed_hosts]
    here = f"http://{own}/mcp" if own in (*names, *(with_port(name, port) for name in LOOPBACK_NAMES)) else None
    if not config.behind_tls_proxy:
        return WaysIn(here, ())
    return WaysIn(here, tuple(f"https://{name.removesuffix(':443')}/mcp" for name in names if name != own))


def resource_of(config: HubConfig, host: str, port: int) -> str:
    """The URL that tokens of authorization servers must be for: the configured one, else as hosts reach the hub."""
    if config.access.resource:
        return config.access.resource
    ways = ways_in(config, host, port)
    if ways.proxied:
        return ways.proxied[0]
    if config.allowed_hosts:
        return f"http://{with_port(config.allowed_hosts[0].lower(), port)}/mcp"
    return ways.here or f"http://{LOOPBACK_NAMES[1]}:{port}/mcp"


def shows_token(config: HubConfig, url: str, resource: str) -> bool:
    """True if a host that opens `url` shows the hub's token there. It does not where it signs in, which it can at
    `resource` and below it alone, nor where a proxy says who it is."""
    if config.auth == "oauth":
        return url != resource and not url.startswith(f"{resource}/")
    if config.auth == "proxy":
        return not (config.behind_tls_proxy and url.startswith("https:"))
    return config.auth == "token"


def who_comes(config: HubConfig) -> str:
    """The way in which hosts without the hub's token are let in, as a clause; "": they are not."""
    if config.auth == "oauth":
        return f"hosts sign in at {' or '.join(issuer.issuer for issuer in config.access.issuers)}"
    return "the proxy says who comes" if config.auth == "proxy" else ""


def with_port(name: str, port: int) -> str:
    """An entry of `allowed_hosts` with its port.

    Raises:
        ConfigError: it is none.
    """
    found = _NAME.fullmatch(name)
    if found is None:
        raise ConfigError(f"allowed_hosts: {name!r} is not NAME or NAME:PORT")
    return name if found[2] else f"{name}:{port}"


RETRY: Final = (("Retry-After", "5"),)


def _body(text: str) -> bytes:
    return b'{"jsonrpc":"2.0","error":{"code":-32600,"message":"%b"}}' % text.encode()


FORBIDDEN: Final = EarlyReply(
    403,
    _body(
        "Host or Origin refused: this hub answers to its own addresses only. Add others to allowed_hosts or "
        "allowed_origins in its configuration"
    ),
)
_UNAUTHORIZED: Final = _body(
    "This hub asks for a token: run `hubd token` and send what it prints as `Authorization: Bearer TOKEN`. Only /livez "
    "and / answer without"
)
SIGN_IN: Final = _body(
    "This hub asks for a sign-in: its metadata name the authorization server. Programs of its owner send a token of "
    "`hubd token` as `Authorization: Bearer TOKEN`"
)
ANYBODY: Final = EarlyReply(0, b"")
"""No reply: the request is let in, whoever makes it; it has an identity only if its sender showed one."""
NO_TOKEN: Final = EarlyReply(401, _UNAUTHORIZED, (("WWW-Authenticate", 'Bearer realm="hubd"'),))
WRONG_TOKEN: Final = EarlyReply(
    401, _UNAUTHORIZED, (("WWW-Authenticate", 'Bearer realm="hubd", error="invalid_token"'),)
)
TOKEN_IN_QUERY: Final = EarlyReply(400, _body("A token is sent as `Authorization: Bearer TOKEN`, never in the address"))
NOT_THE_PROXY: Final = EarlyReply(
    400, _body("The header field that names a person counts once, from the trusted proxy alone, and is never empty")
)
NOT_NOW: Final = EarlyReply(
    503, _body("The authorization server cannot be asked now whether this token counts; try again later"), RETRY
)


def missing_scopes(scopes: str, metadata_url: str) -> EarlyReply:
    """403: the token counts, and lacks some of `scopes` (RFC 6750 3.1)."""
    challenge = f'Bearer realm="hubd", error="insufficient_scope", scope="{scopes}", resource_metadata="{metadata_url}"'
    return EarlyReply(403, _body("The token lacks scopes that this hub needs"), (("WWW-Authenticate", challenge),))


def sign_in(scopes: str, metadata_url: str, *, with_token: bool) -> EarlyReply:
    """401 that names the metadata of this hub (RFC 9728 5.1). `with_token`: one was sent, and does not count."""
    parts = ['Bearer realm="hubd"', f'resource_metadata="{metadata_url}"']
    if scopes:
        parts.append(f'scope="{scopes}"')
    if with_token:
        parts.append('error="invalid_token"')
    return EarlyReply(401, SIGN_IN, (("WWW-Authenticate", ", ".join(parts)),))


Fields = tuple[tuple[str, str], ...]
EXPOSED: Final = "WWW-Authenticate, Mcp-Session-Id"


def fields_for(origin: str) -> Fields:
    """Header fields of each answer to a page of `origin`, which must be an allowed one."""
    return (("Access-Control-Allow-Origin", origin), ("Access-Control-Expose-Headers", EXPOSED), ("Vary", "Origin"))


PREFLIGHT: Final = EarlyReply(
    204,
    b"",
    (
        ("Access-Control-Allow-Methods", "GET, POST, DELETE"),
        ("Access-Control-Allow-Headers", "Authorization, *"),
        ("Access-Control-Max-Age", "600"),
    ),
)
