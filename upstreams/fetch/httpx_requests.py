"""One request by httpx, over a connection that is made for it: all that is used of httpx and httpcore.

httpx builds the request, httpcore frames it and the answer. They open no connection, follow nothing, read no cookies
and no environment, and log nothing (lines of httpx hold URLs, those of httpcore hold headers).
"""

import logging
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from typing import Any, Final

import httpcore
import httpx

from hub.wire.mcp import HUB_NAME, HUBD_VERSION
from upstreams.fetch.guard import FetchTarget
from upstreams.fetch.model import Fetched
from upstreams.fetch.network import Wire

ERRORS: Final = (
    httpx.HTTPError,
    httpx.InvalidURL,
    httpx.StreamError,
    httpcore.ConnectionNotAvailable,
    httpcore.NetworkError,
    httpcore.ProtocolError,
    httpcore.TimeoutException,
    httpcore.UnsupportedProtocol,
    ValueError,  # of header fields that cannot be sent
)
"""The errors that `answer_to` raises when there is no answer that is one."""
_OWN: Final = {"user-agent": f"{HUB_NAME}/{HUBD_VERSION}", "accept-encoding": "identity", "connection": "close"}

Fields = list[tuple[bytes, bytes]]
Reader = Callable[[int, Fields, AsyncIterator[bytes]], Awaitable[Fetched]]

for _name in ("httpx", "httpcore"):
    logging.getLogger(_name).setLevel(logging.CRITICAL)


async def answer_to(
    method: str,
    target: FetchTarget,
    headers: Mapping[str, str],
    body: bytes | None,
    wire: Wire,
    tls: ssl.SSLContext,
    read: Reader,
) -> Fetched:
    """The value that `read` makes of status, header fields and body (as it came) of the answer to one request over
    `wire`.

    Raises:
        ERRORS, and what `wire` and `read` raise. `read` has to read to the end, or not at all.
    """
    url = httpx.URL(
        scheme="https" if target.secure else "http",
        host=target.host,
        port=target.port,
        raw_path=target.path.encode("ascii"),
    )
    transport = _Transport(wire, tls)
    client = httpx.AsyncClient(transport=transport, trust_env=False, follow_redirects=False, timeout=None)
    async with client:
        request = client.build_request(method, url, headers={"accept": "*/*", **headers, **_OWN}, content=body)
        response = await client.send(request, stream=True)
        try:
            return await read(response.status_code, transport.fields, response.aiter_raw())
        finally:
            await response.aclose()


class _Transport(httpx.AsyncBaseTransport):
    """Has httpcore do one request over `wire`, and keeps the fields of the answer away from httpx: it would take apart
    `Location` and `Set-Cookie`, which nobody here wants."""

    def __init__(self, wire: Wire, tls: ssl.SSLContext) -> None:
        self._pool = httpcore.AsyncConnectionPool(
            ssl_context=tls, max_connections=1, max_keepalive_connections=0, network_backend=_Backend(wire)
        )
        self.fields: Fields = []

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        url = request.url
        assert isinstance(request.stream, httpx.AsyncByteStream)
        answer = await self._pool.handle_async_request(
            httpcore.Request(
                method=request.method,
                url=httpcore.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path),
                headers=request.headers.raw,
                content=request.stream,
            )
        )
        self.fields = answer.headers
        return httpx.Response(answer.status, stream=_Body(answer))

    async def aclose(self) -> None:
        await self._pool.aclose()


class _Body(httpx.AsyncByteStream):
    def __init__(self, answer: httpcore.Response) -> None:
        self._answer = answer

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for piece in self._answer.aiter_stream():
            yield piece

    async def aclose(self) -> None:
        await self._answer.aclose()


class _Backend(httpcore.AsyncNetworkBackend):
    """Has one connection to give, which is there already."""

    def __init__(self, wire: Wire) -> None:
        self._wires = [wire]

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        if not self._wires:
            raise httpcore.ConnectError
        return _Stream(self._wires.pop())


class _Stream(httpcore.AsyncNetworkStream):
    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return await self._wire.receive()

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        if buffer:
            await self._wire.send(buffer)

    async def aclose(self) -> None:
        self._wire.close()

    async def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.AsyncNetworkStream:
        await self._wire.start_tls(ssl_context, server_hostname or "")
        return self

    def get_extra_info(self, info: str) -> Any:
        return None
