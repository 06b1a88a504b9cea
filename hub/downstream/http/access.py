"""Access to the HTTP listener: Host and Origin are checked first, then a bearer token.

Nothing here reads a body: a refusal is decided from the head alone, before anything else is done for the request. Which
paths beside MCP need no token is told by whoever makes `Access`. A page that a browser loaded from somewhere else is
kept out by Host and Origin; another program of this machine by the token.
"""

import errno
import hmac
import os
import re
import secrets
from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path
from typing import Final

from msgspec import Struct

from config.directories import make_dirs
from config.errors import ConfigError
from config.loading.safe_reading import read_private
from config.settings import TOKEN, HubConfig
from hub.link.interface import OWNER, Identity
from hub.net.http_message import EarlyReply, HttpRequest

MCP_PATH: Final = "/mcp"
LOOPBACK_NAMES: Final = ("localhost", "127.0.0.1", "[::1]")
TOKEN_BYTES: Final = 32
MAX_FILE_BYTES: Final = 4096
_TOKEN = re.compile(TOKEN)
_BEARER = re.compile(r"[Bb][Ee][Aa][Rr][Ee][Rr] +([A-Za-z0-9._~+/-]+=*)")
_NAME = re.compile(r"(\[[0-9a-f:.]+\]|[^:\[\]]+)(:[0-9]{1,5})?")


FORBIDDEN: Final = EarlyReply(
    403,
    b'{"jsonrpc":"2.0","error":{"code":-32600,"message":"Host or Origin refused: this hub answers to its own addresses'
    b' only. Add others to allowed_hosts or allowed_origins in its configuration"}}',
)
_UNAUTHORIZED = (
    b'{"jsonrpc":"2.0","error":{"code":-32600,"message":"This hub asks for a token: run `hubd token` and send what it'
    b' prints as `Authorization: Bearer TOKEN`"}}'
)
ANYBODY: Final = EarlyReply(0, b"")
"""No reply: the request is let in, whoever makes it; it has an identity only if its sender showed one."""
NO_TOKEN: Final = EarlyReply(401, _UNAUTHORIZED, (("WWW-Authenticate", 'Bearer realm="hubd"'),))
WRONG_TOKEN: Final = EarlyReply(
    401, _UNAUTHORIZED, (("WWW-Authenticate", 'Bearer realm="hubd", error="invalid_token"'),)
)


class Access:
    """The rules of one listener.

    `hosts` and `origins` come on top of the loopback names with `port`; an entry of `hosts` without a port means
    `port`, and one with 80 or 443 is met without it, too, as a proxy's hosts write it. `token` None: everyone who
    passes Host and Origin is the hub's owner (`auth = "none"`). `public` replies to requests that need no token, or by
    `ANYBODY` lets them in; it gives None for all others, and is not asked about `MCP_PATH`.
    """

    def __init__(
        self,
        *,
        port: int,
        hosts: Collection[str] = (),
        origins: Collection[str] = (),
        token: str | None = None,
        public: Callable[[HttpRequest], EarlyReply | None] = lambda request: None,
    ) -> None:
        self._public = public
        self._hosts = frozenset(_with_port(name.lower(), port) for name in (*LOOPBACK_NAMES, *hosts))
        self._hosts |= frozenset(name.rpartition(":")[0] for name in self._hosts if name.endswith((":80", ":443")))
        shown = "" if port == 80 else f":{port}"
        self._origins = frozenset((*(f"http://{name}{shown}" for name in LOOPBACK_NAMES), *origins))
        self._token = None if token is None else token.encode()
        self._identity = Identity(OWNER, "http")

    def check(self, request: HttpRequest) -> Identity | EarlyReply:
        """The identity of the sender, or the refusal: 403 for a wrong Host or Origin, 401 for a missing or wrong token.

        Values are compared whole, with the few that are allowed: nothing is parsed that could be read in two ways.
        Only the case of Host is ignored (RFC 9110 4.2.3).
        """
        headers = request.headers
        if headers.get("host", "").lower() not in self._hosts:
            return FORBIDDEN
        origin = headers.get("origin")
        if origin is not None and origin not in self._origins:
            return FORBIDDEN
        if self._token is None:
            return self._identity
        found = _BEARER.fullmatch(headers.get("authorization", ""))
        if found is None:
            return NO_TOKEN
        if not hmac.compare_digest(found[1].encode(), self._token):
            return WRONG_TOKEN
        return self._identity

    def guard(self, request: HttpRequest) -> EarlyReply | None:
        """`check` as the guard of an `HttpServer`: what it finds is left in `request.identity`."""
        found = self.check(request)
        if request.path != MCP_PATH and found is not FORBIDDEN and (reply := self._public(request)) is not None:
            if reply is not ANYBODY:
                return reply
            request.identity = None if isinstance(found, EarlyReply) else found
            return None
        if isinstance(found, EarlyReply):
            return found
        request.identity = found
        return None


def _with_port(name: str, port: int) -> str:
    found = _NAME.fullmatch(name)
    if found is None:
        raise ConfigError(f"allowed_hosts: {name!r} is not NAME or NAME:PORT")
    return name if found[2] else f"{name}:{port}"


class WaysIn(Struct, frozen=True):
    """The URLs by which hosts reach a hub, as far as its own settings tell; each is let in by `Access`."""

    here: str | None
    """URL for programs of this machine; None: only the proxy reaches the hub."""
    proxied: tuple[str, ...]
    """URLs of the proxy that ends TLS."""


def ways_in(config: HubConfig, host: str, port: int) -> WaysIn:
    """The URLs of a hub that listens at `host` and `port`."""
    local = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    own = f"[{local}]:{port}" if ":" in local else f"{local}:{port}"
    names = [_with_port(name.lower(), port) for name in config.allowed_hosts]
    here = f"http://{own}/mcp" if own in (*names, *(_with_port(name, port) for name in LOOPBACK_NAMES)) else None
    if not config.behind_tls_proxy:
        return WaysIn(here, ())
    return WaysIn(here, tuple(f"https://{name.removesuffix(':443')}/mcp" for name in names if name != own))


def checked_token(text: str) -> str:
    """Check the setting `token`: a host must be able to send it.

    Raises:
        ConfigError: it is too short, or not what a bearer token may be; the text does not repeat it.
    """
    if not _TOKEN.fullmatch(text):
        raise ConfigError("token: must be 16 or more of A-Z a-z 0-9 . _ ~ + / -; `openssl rand -hex 32` makes one")
    return text


# --- the token's file -------------------------------------------------------------------------------------------------


def read_or_make_token(path: Path) -> str:
    """The bearer token kept in `path` (mode 0600), made at the first call: 256 random bits.

    Of several daemons that start at once, all get the same token.

    Raises:
        ConfigError: the file is not ours, is readable by others, or holds no token.
        OSError: it cannot be read or written.
    """
    try:
        return _read_token(path)
    except FileNotFoundError:
        _make_token(path)
        return _read_token(path)


def _read_token(path: Path) -> str:
    try:
        data, found = read_private(path, MAX_FILE_BYTES)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EINVAL, errno.EFBIG):
            raise ConfigError(f"{path}: {error.strerror}; delete it, and a new token is made") from None
        raise
    if found.st_uid != os.geteuid():
        raise ConfigError(f"{path} belongs to another user; delete it, and a new token is made")
    if found.st_mode & 0o077:
        raise ConfigError(f"{path} can be read by others; delete it for a new token, or run: chmod 600 {path}")
    text = data.decode("ascii", "replace").strip()
    if not _TOKEN.fullmatch(text):
        raise ConfigError(f"{path} holds no token (16 or more of A-Z a-z 0-9 . _ ~ + / -); delete it for a new one")
    return text


def replace_token(path: Path) -> None:
    """Replace the token kept in `path`, if there is one: another user may know it.

    Raises:
        OSError: it cannot be written. Then the old one is gone all the same, if that can be done.
    """
    if not os.path.lexists(path):
        return
    path.unlink()
    _make_token(path)


def _make_token(path: Path) -> None:
    make_dirs(str(path.parent))
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        with open(fd, "w", encoding="ascii") as file:
            file.write(secrets.token_urlsafe(TOKEN_BYTES) + "\n")
            file.flush()
            os.fsync(file.fileno())
        with suppress(FileExistsError):  # another daemon was first: its token it is
            os.link(draft, path)  # never replaces, and never shows half a token
    finally:
        draft.unlink()
