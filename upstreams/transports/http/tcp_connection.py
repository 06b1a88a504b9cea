"""One connection to an upstream: its address, TCP and TLS, and bytes that are written without a checkpoint.

Only what a byte-level HTTP exchange needs; what the bytes mean is `client`'s.
"""

import os
import select
import socket
import ssl
from collections.abc import Mapping
from typing import Final, Protocol
from urllib.parse import urlsplit

import trio
from msgspec.structs import replace
from trio.lowlevel import wait_readable, wait_writable

from hub.link.channel import descriptor, rest_of, watch_peer
from hub.linux.socket_watch import socket_watch
from upstreams.fetch import connection, proxy_tunnel
from upstreams.fetch.guard import FetchTarget, target_of
from upstreams.fetch.proxies import Proxy, proxy_for

CONNECT_S: Final = 10.0
TLS_S: Final = 5.0
STALL_S: Final = 30.0
RECEIVE_BYTES: Final = 64 << 10
_QUICKACK: Final[int | None] = getattr(socket, "TCP_QUICKACK", None)  # Linux only


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


def parse_url(text: str) -> Url:
    """Take an http or https URL apart. Raises ValueError: anything else, or user info in it; the text does not repeat
    the URL."""
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("not an http:// or https:// URL")
    if parts.username is not None:
        raise ValueError("a user name or password in a URL is not supported; put an Authorization into its headers")
    secure = parts.scheme == "https"
    host = parts.hostname if parts.hostname.isascii() else parts.hostname.encode("idna").decode("ascii")
    return Url(secure, host, parts.port or (443 if secure else 80), target_of(parts, has_query=bool(parts.query)))


def on_its_way(url: Url, environ: Mapping[str, str]) -> Url:
    """`url` with the proxy that `environ` has for it, if any. Raises ProxyUnusable: the variable that counts names
    none."""
    proxy = proxy_for(environ, url.secure, url.host, url.port)
    return url if proxy is None else replace(url, proxy=proxy)


class CannotConnect(Exception):
    """No connection could be made; the text says why, in words that tell no secrets."""


class Died(Exception):
    """A connection ended too early. `sent`: the kernel took some of the request; `answered`: a byte came back."""

    def __init__(self, *, sent: bool, answered: bool) -> None:
        super().__init__()
        self.sent = sent
        self.answered = answered


class EventReader(Protocol):
    """Reads a connection when something has come, and while it lies idle."""

    def on_event(self, hung_up: bool) -> None:
        """Something may have come (`hub.linux.socket_watch`)."""

    def on_closed(self) -> None:
        """The connection was closed."""


class ClientConnection:
    """One TCP or TLS connection, carrying one exchange at a time. Plain TCP goes past trio's stream, to the descriptor.
    After every wait it is asked anew whether that is still open: its number may already belong to something else."""

    __slots__ = ("_fd", "_poll", "_stream", "_watch", "closed", "expires_at", "reader", "used")

    def __init__(self, stream: connection.AnyStream) -> None:
        self._stream = stream
        self._fd = descriptor(stream)
        self._poll: select.poll | None = None
        if self._fd is not None:
            self._poll = select.poll()
            self._poll.register(self._fd, select.POLLIN)
        self.used = False
        self.closed = False
        self.expires_at = float("inf")
        self._watch = socket_watch()
        self.reader: EventReader | None = None
        """The reader of what comes next; None: whoever sends a request reads the answer."""

    @property
    def is_plain(self) -> bool:
        """True if bytes go to the descriptor: no TLS."""
        return self._fd is not None

    def attach(self, reader: EventReader, party: object) -> None:
        """Let `reader` read what comes next, on a plain connection to the upstream `party`."""
        assert self._fd is not None
        self.reader = reader
        self._watch.add(self._fd, reader.on_event)

    def detach(self) -> None:
        """Leave what comes next to whoever sends a request."""
        if self.reader is not None and self._fd is not None:
            self._watch.remove(self._fd)
            self.reader = None

    def heed(self, *, bytes: bool) -> None:
        """Tell the reader that is attached of what comes, or only of the end."""
        assert self._fd is not None
        self._watch.heed(self._fd, bytes=bytes)

    def read(self, limit: int = RECEIVE_BYTES) -> bytes | None:
        """Some bytes that have come on a plain connection that is open; none when it has ended. None: nothing has."""
        assert self._fd is not None
        try:
            return os.read(self._fd, limit)
        except BlockingIOError:
            return None
        except OSError:
            return b""

    def write(self, pieces: tuple[bytes, ...]) -> int:
        """Send what the kernel takes at once of a whole request, on a plain connection; the number of bytes. Raises
        Died: not one byte was taken, and none will be."""
        assert self._fd is not None
        try:
            return os.writev(self._fd, pieces)
        except BlockingIOError:
            return 0
        except OSError:
            raise Died(sent=False, answered=False) from None

    async def send(self, *pieces: bytes) -> None:
        """Send a request, given in pieces; when it cannot, whatever was answered in the meantime can still be read.

        Raises Died: not one byte was taken."""
        if self._fd is None:
            try:
                with trio.fail_after(STALL_S):
                    await self._stream.send_all(b"".join(pieces))
            except (trio.BrokenResourceError, trio.ClosedResourceError, trio.TooSlowError):
                raise Died(sent=True, answered=False) from None
            return
        sent = 0 if self.closed else self.write(pieces)
        if sent < sum(map(len, pieces)):
            await self.send_rest(pieces, sent)

    async def send_rest(self, pieces: tuple[bytes, ...], sent: int) -> None:
        """Send a request, of which so many bytes were sent before, on a plain connection. Raises Died: as `send`."""
        assert self._fd is not None
        fd = self._fd
        try:
            while rest := rest_of(pieces, sent):
                with trio.fail_after(STALL_S):
                    await wait_writable(fd)
                if self.closed:
                    raise trio.ClosedResourceError
                sent += os.writev(fd, rest)
        except (trio.ClosedResourceError, trio.TooSlowError):
            raise Died(sent=sent > 0, answered=False) from None
        except OSError:
            if not sent:
                raise Died(sent=False, answered=False) from None
            # a server that refuses a large body answers and closes; its answer says more than a broken pipe

    async def receive(self, limit: int = RECEIVE_BYTES) -> bytes:
        """Some bytes; none when the peer has closed, or the connection broke."""
        try:
            if self._fd is None:
                return bytes(await self._stream.receive_some(limit))
            if self.closed:
                return b""
            await wait_readable(self._fd)
            return b"" if self.closed else os.read(self._fd, limit)
        except (OSError, trio.BrokenResourceError, trio.ClosedResourceError):
            return b""

    def acknowledge(self) -> None:
        """Acknowledge at once what has come.

        A server that writes head and body apart and has Nagle's algorithm on holds the body back until then, which
        would otherwise take 40 ms. The option does not last, so it is set before each wait for the rest of an answer.
        """
        if _QUICKACK is not None and not self.closed:
            self._socket().setsockopt(socket.IPPROTO_TCP, _QUICKACK, 1)

    def _socket(self) -> trio.socket.SocketType:
        return connection.bottom(self._stream).socket

    def usable(self, now: float) -> bool:
        """True if an idle connection looks fit for another request: not too old, not closed, nothing unasked for."""
        return now < self.expires_at and not self.closed and not (self._poll is not None and self._poll.poll(0))

    def close(self) -> None:
        """Close at once; who waits on it sees the end. Idempotent."""
        if self.closed:
            return
        self.closed = True
        reader = self.reader
        self.detach()
        self._socket().close()
        if reader is not None:
            reader.on_closed()


async def connect(url: Url, tls: ssl.SSLContext | None = None, *, within_s: float = CONNECT_S) -> ClientConnection:
    """A new connection to the origin of `url`, or to its proxy. `tls` in place of the system's trust store. Raises
    CannotConnect: refused, timed out, name unknown, certificate not trusted. Cancellation: leaves nothing open."""
    stream: connection.AnyStream
    try:
        with trio.fail_after(within_s):
            if url.proxy is None:
                stream = await trio.open_tcp_stream(url.host, url.port)
            elif url.secure:
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
    return ClientConnection(await _secure(stream, url, tls or connection.system_trust()) if url.secure else stream)


async def _secure(stream: connection.AnyStream, url: Url, tls: ssl.SSLContext) -> connection.AnyStream:
    try:
        with trio.fail_after(TLS_S):
            return await connection.secure(stream, tls, url.host)
    except trio.TooSlowError:
        raise CannotConnect(f"no TLS handshake within {TLS_S:.0f} seconds") from None
    except trio.BrokenResourceError as error:
        raise CannotConnect(connection.reason(error)) from None
