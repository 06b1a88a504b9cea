"""Tunnel of an HTTP proxy, opened with CONNECT (RFC 9110 9.3.6). A proxy gets its own credentials, and nothing of what
goes through."""

import re
import ssl
from typing import Final

import trio

from hub.wire.mcp import HUB_NAME, HUBD_VERSION
from upstreams.fetch.connection import AnyStream, close, reason, secure
from upstreams.fetch.proxies import Proxy, authority


async def reach(proxy: Proxy, tls: ssl.SSLContext) -> AnyStream:
    """A connection to `proxy` itself. `tls`: for one that is spoken to over TLS. Raises ProxyRefusal: there is none.
    Cancellation: leaves nothing open."""
    try:
        stream = await trio.open_tcp_stream(proxy.host, proxy.port)
        return await secure(stream, tls, proxy.host) if proxy.secure else stream
    except (OSError, ValueError, trio.BrokenResourceError) as error:
        raise ProxyRefusal(f"the proxy {proxy.authority} cannot be reached: {reason(error)}") from None


async def connect_via(proxy: Proxy, tls: ssl.SSLContext, host: str, port: int) -> AnyStream:
    """A connection to `host` at `port` that `proxy` makes. As `reach`. Raises ProxyRefusal: the proxy cannot be
    reached, or makes none."""
    stream = await reach(proxy, tls)
    try:
        await open_tunnel(stream, proxy, host, port)
    except trio.BrokenResourceError as error:
        close(stream)
        raise ProxyRefusal(f"the proxy {proxy.authority} cannot be used: {reason(error)}") from None
    except BaseException:
        close(stream)
        raise
    return stream


MAX_HEAD_BYTES: Final = 16 << 10
_STATUS: Final = re.compile(rb"HTTP/1\.[01] ([0-9]{3})(?: [^\r\n]*)?\r\n")


class ProxyRefusal(Exception):
    """The proxy opens no tunnel; the text names it and says why."""


async def open_tunnel(stream: trio.abc.Stream, proxy: Proxy, host: str, port: int) -> None:
    """Have `proxy`, which `stream` leads to, connect it to `host` at `port`; afterwards the stream is theirs. Raises
    ProxyRefusal: it does not; trio.BrokenResourceError: the connection to it broke. Cancellation: the stream is of no
    use then; time limits and closing are the caller's."""
    target = authority(host, port).encode("ascii")
    head = [b"CONNECT %b HTTP/1.1" % target, b"Host: %b" % target, f"User-Agent: {HUB_NAME}/{HUBD_VERSION}".encode()]
    if proxy.authorization:
        head.append(b"Proxy-Authorization: " + proxy.authorization)
    await stream.send_all(b"\r\n".join([*head, b"", b""]))
    answer = b""
    while b"\r\n\r\n" not in answer:
        if len(answer) > MAX_HEAD_BYTES:
            raise ProxyRefusal(f"the proxy {proxy.authority} answers with more than an answer may have")
        if not (more := await stream.receive_some(4096)):
            raise ProxyRefusal(f"the proxy {proxy.authority} closes the connection without an answer")
        answer += more
    if (status := _STATUS.match(answer)) is None:
        raise ProxyRefusal(f"the proxy {proxy.authority} does not answer in HTTP")
    if not status[1].startswith(b"2"):
        raise ProxyRefusal(refusal(proxy, int(status[1])))
    if not answer.endswith(b"\r\n\r\n") or answer.count(b"\r\n\r\n") > 1:
        raise ProxyRefusal(f"the proxy {proxy.authority} says more than was asked")


def refusal(proxy: Proxy, status: int) -> str:
    """The meaning of an answer by which `proxy` refuses: it answers with `status` in place of a tunnel."""
    if status == 407:
        wants = "other credentials" if proxy.authorization else "a user name and a password"
        return f"the proxy {proxy.authority} wants {wants} (status 407); write them into the URL of the proxy variable"
    return f"the proxy {proxy.authority} refuses to connect (status {status})"
