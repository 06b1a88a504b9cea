"""The way to a server behind a URL: its address, the proxy before it, TCP and TLS, and the configured headers that it
is sent."""

import re
import ssl
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

import trio
from msgspec.structs import replace

from hub.link.channel import watch_peer
from hub.wire.mcp import HUB_NAME, HUBD_VERSION
from upstreams.fetch import connection, proxy_tunnel
from upstreams.fetch.guard import FetchTarget, target_of
from upstreams.fetch.proxies import Proxy, proxy_for

CONNECT_S: Final = 10.0
TLS_S: Final = 5.0
HTTP: Final = {"http": False, "https": True}
WEBSOCKET: Final = {"ws": False, "wss": True}
"""Schemes, and whether TLS is spoken."""
_OWN_FIELDS: Final = frozenset(
    {"accept", "accept-encoding", "connection", "content-length", "content-type", "expect", "host", "keep-alive"}
    | {"last-event-id", "proxy-authorization", "te", "trailer", "transfer-encoding", "upgrade"}
)
"""Fields that the hub sets or never sends; in a configuration they are ignored, and so is `mcp-*`."""
_FIELD_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_FIELD_VALUE = re.compile(r"[\t\x20-\x7e\x80-\xff]*")


class Url(FetchTarget, frozen=True):
    """The address of an upstream, taken apart."""

    proxy: Proxy | None = None
    """The way to it."""

    def request_start(self, method: str, target: str) -> str:
        """The lines that begin a request for `target` (empty: the URL's own).

        A proxy is asked for http:// by the whole URL (RFC 9112 3.2.2), with its own credentials, since many open
        tunnels to port 443 alone. What goes through a tunnel does not know of it.
        """
        target = target or self.target
        if self.proxy is None or self.secure:
            return f"{method} {target} HTTP/1.1\r\n"
        known = self.proxy.authorization.decode("ascii")
        return f"{method} {self.origin}{target} HTTP/1.1\r\n" + (f"Proxy-Authorization: {known}\r\n" if known else "")


def parse_url(text: str, schemes: Mapping[str, bool] = HTTP) -> Url:
    """Take a URL of one of `schemes` apart. Raises ValueError: anything else, or user info in it; the text does not
    repeat the URL."""
    parts = urlsplit(text)
    if parts.scheme not in schemes or not parts.hostname:
        raise ValueError(f"not an {' or '.join(f'{scheme}://' for scheme in schemes)} URL")
    if parts.username is not None:
        raise ValueError("a user name or password in a URL is not supported; put an Authorization into its headers")
    secure = schemes[parts.scheme]
    host = parts.hostname if parts.hostname.isascii() else parts.hostname.encode("idna").decode("ascii")
    return Url(secure, host, parts.port or (443 if secure else 80), target_of(parts, has_query=bool(parts.query)))


def on_its_way(url: Url, environ: Mapping[str, str]) -> Url:
    """`url` with the proxy that `environ` has for it, if any. Raises ProxyUnusable: the variable that counts names
    none."""
    proxy = proxy_for(environ, url.secure, url.host, url.port)
    return url if proxy is None else replace(url, proxy=proxy)


class CannotConnect(Exception):
    """No connection could be made; the text says why, in words that tell no secrets."""


def fields_to_send(headers: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """The fields of a request, each by its name in lower case: who asks, and what is configured. Raises ValueError: one
    cannot be sent; the text does not repeat its value."""
    fields = {"user-agent": ("User-Agent", f"{HUB_NAME}/{HUBD_VERSION}")}
    for name, value in headers.items():
        if not _FIELD_NAME.fullmatch(name):
            raise ValueError(f"{name!r} cannot be the name of an HTTP header")
        value = value.strip(" \t\r\n")  # a token read from a file ends with a newline
        if not _FIELD_VALUE.fullmatch(value):
            raise ValueError(f"the value of the header {name} holds characters that cannot be sent")
        if name.lower() not in _OWN_FIELDS and not name.lower().startswith("mcp-"):
            fields[name.lower()] = name, value
    return fields


async def reach(
    url: Url, tls: ssl.SSLContext | None = None, *, within_s: float = CONNECT_S, tunnels: bool = False
) -> connection.AnyStream:
    """A new stream to the origin of `url`, or to its proxy, which is made to `tunnels` even without TLS. `tls` in place
    of the system's trust store. Raises CannotConnect: refused, timed out, name unknown, certificate not trusted.
    Cancellation: leaves nothing open."""
    stream: connection.AnyStream
    try:
        with trio.fail_after(within_s):
            if url.proxy is None:
                stream = await trio.open_tcp_stream(url.host, url.port)
            elif url.secure or tunnels:
                stream = await proxy_tunnel.connect_via(url.proxy, tls or connection.system_trust(), url.host, url.port)
            else:
                stream = await proxy_tunnel.reach(url.proxy, tls or connection.system_trust())
    except trio.TooSlowError:
        way = "" if url.proxy is None else f" through the proxy {url.proxy.authority}"
        raise CannotConnect(f"no connection{way} within {within_s:.0f} seconds") from None
    except proxy_tunnel.ProxyRefusal as error:
        raise CannotConnect(str(error)) from None
    except (OSError, ValueError) as error:
        raise CannotConnect(connection.reason(error)) from None
    watch_peer(connection.bottom(stream).socket)  # or a server that vanished would never be noticed
    return await _secure(stream, url, tls or connection.system_trust()) if url.secure else stream


async def _secure(stream: connection.AnyStream, url: Url, tls: ssl.SSLContext) -> connection.AnyStream:
    try:
        with trio.fail_after(TLS_S):
            return await connection.secure(stream, tls, url.host)
    except trio.TooSlowError:
        raise CannotConnect(f"no TLS handshake within {TLS_S:.0f} seconds") from None
    except trio.BrokenResourceError as error:
        raise CannotConnect(connection.reason(error)) from None
