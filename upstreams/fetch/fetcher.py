"""The fetcher: guarded requests, from the first check to the last byte of the answer.

    URL judged -> proxy? no: looked up once, every address judged, one of them connected to
                        yes: name judged, tunnel
    -> TLS for the name -> one request -> one answer of at most 64 KiB, unless more was agreed on

A connection carries one request. Such requests are rare, and a connection that is not kept cannot be mixed up.
"""

import os
import ssl
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final
from urllib.parse import urlencode
from weakref import WeakValueDictionary

import msgspec
import trio

from upstreams.fetch.guard import FetchTarget, IsOwnListener, judge_addresses, judge_behind_proxy, judge_url
from upstreams.fetch.model import Allowed, Fetched, FetchFailed, Resolve
from upstreams.fetch.network import (
    AnyStream,
    Dial,
    ProxyRefusal,
    Wire,
    connect,
    connect_through,
    dial,
    reason,
    system_trust,
)
from upstreams.fetch.proxies import Proxy, ProxyUnusable, proxy_for

if TYPE_CHECKING:
    from types import ModuleType

MAX_BODY_BYTES: Final = 64 << 10
MAX_FIELDS: Final = 100
FORM: Final = "application/x-www-form-urlencoded"
MAX_HEAD_BYTES: Final = 32 << 10
"""Bytes of the head, and of interim answers before it."""
MAX_PIECES: Final = 4096
"""Chunks of one body. Tiny ones take a thousand times the time of what is in them."""
MAX_AT_ONCE: Final = 64
MAX_AT_ONE: Final = 8
"""Requests at once to one origin, so that one that never answers does not keep others from being asked."""


async def look_up(host: str, port: int) -> Sequence[str]:
    """The addresses of `host` by the system's resolver, the best first. Raises OSError if there are none."""
    found = await trio.socket.getaddrinfo(host, port, type=trio.socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


class Fetcher:
    """Guarded requests of one process. Cheap to make; httpx is imported by the first request."""

    def __init__(
        self,
        environ: Mapping[str, str] = os.environ,
        *,
        timeout_s: float = 10.0,
        max_body_bytes: int = MAX_BODY_BYTES,
        is_own_listener: IsOwnListener = lambda address, port: False,
        resolve: Resolve = look_up,
        tls: Callable[[], ssl.SSLContext] = system_trust,
        dial: Dial = dial,
    ) -> None:
        """`environ` says which proxies there are. `timeout_s` is the time of one request, from look-up to last byte;
        `max_body_bytes` the size of one answer. `is_own_listener(address, port)`: the hub itself listens there.
        `resolve`, `tls` and `dial` are for tests."""
        self._environ = environ
        self._timeout_s = timeout_s
        self._max_body_bytes = max_body_bytes
        self._is_own_listener = is_own_listener
        self._resolve = resolve
        self._tls = tls
        self._dial = dial
        self._turns = trio.CapacityLimiter(MAX_AT_ONCE)
        self._turns_at: WeakValueDictionary[str, trio.CapacityLimiter] = WeakValueDictionary()
        self._closed = False

    async def get(self, url: str, allowed: Allowed, *, headers: Mapping[str, str] | None = None) -> Fetched:
        """The answer to GET, whatever its status; redirects are not followed.

        Raises:
            FetchFailed: there is none.
        """
        return await self._request("GET", url, allowed, {"accept": "application/json", **(headers or {})}, None)

    async def post_form(
        self, url: str, fields: Sequence[tuple[str, str]], allowed: Allowed, *, headers: Mapping[str, str] | None = None
    ) -> Fetched:
        """The answer to a POST of `fields` as a form. As `get`."""
        try:
            body = urlencode(fields).encode("ascii")
        except UnicodeEncodeError:
            raise FetchFailed("A form with half a surrogate pair in it cannot be sent") from None
        return await self._request("POST", url, allowed, _content_headers(FORM, headers), body)

    async def post_json(
        self, url: str, body: object, allowed: Allowed, *, headers: Mapping[str, str] | None = None
    ) -> Fetched:
        """The answer to a POST of `body` as JSON. As `get`."""
        try:
            data = msgspec.json.encode(body)
        except UnicodeEncodeError:
            raise FetchFailed("JSON with half a surrogate pair in it cannot be sent") from None
        return await self._request("POST", url, allowed, _content_headers("application/json", headers), data)

    async def judge(self, url: str, allowed: Allowed) -> None:
        """Raise unless `url` may be asked: judges it as a request would, and asks nothing but for its address.

        Raises:
            FetchFailed: it may not be asked, or its host has no address.
        """
        target = judge_url(url, allowed)
        try:
            if proxy_for(self._environ, target.secure, target.host, target.port) is not None:
                judge_behind_proxy(target, allowed)
                return
            with trio.fail_after(self._timeout_s):
                addresses = await self._resolve(target.host, target.port)
        except (OSError, ValueError) as error:
            raise FetchFailed(f"{target.origin} cannot be reached: {reason(error)}") from None
        except trio.TooSlowError:
            raise FetchFailed(
                f"the address of {target.origin} is not found within {self._timeout_s:g} seconds"
            ) from None
        judge_addresses(target, allowed, addresses, self._is_own_listener)

    async def close(self) -> None:
        """Ask nobody any more. Requests that run belong to their callers, and nothing else is open."""
        self._closed = True
        await trio.lowlevel.checkpoint()

    # --- one request --------------------------------------------------------------------------------------------------

    async def _request(
        self, method: str, url: str, allowed: Allowed, headers: Mapping[str, str], body: bytes | None
    ) -> Fetched:
        target = judge_url(url, allowed)
        if self._closed:
            raise FetchFailed(f"{target.origin} is not asked: the hub is ending")
        wire: Wire | None = None
        try:
            with trio.fail_after(self._timeout_s):
                turns_there = self._turns_at.setdefault(target.origin, trio.CapacityLimiter(MAX_AT_ONE))
                async with turns_there, self._turns:
                    httpx_requests, tls = await trio.to_thread.run_sync(self._load)
                    wire = Wire(await self._connect(target, allowed, tls), target.origin, MAX_HEAD_BYTES)
                    try:
                        return await self._exchange(httpx_requests, method, target, headers, body, wire, tls)
                    finally:
                        wire.close()
        except trio.TooSlowError:
            text = f"{target.origin} does not answer within {self._timeout_s:g} seconds"
            raise FetchFailed(text, sent=wire is not None and wire.sent) from None

    def _load(self) -> tuple["ModuleType", ssl.SSLContext]:
        """Load the parts that take long at the first time, and that no request needs before: for a thread."""
        from upstreams.fetch import httpx_requests

        return httpx_requests, self._tls()

    async def _connect(self, target: FetchTarget, allowed: Allowed, tls: ssl.SSLContext) -> AnyStream:
        try:
            proxy: Proxy | None = proxy_for(self._environ, target.secure, target.host, target.port)
            if proxy is not None:
                judge_behind_proxy(target, allowed)
                return await connect_through(proxy, tls, target.host, target.port)
            addresses = await self._resolve(target.host, target.port)
        except (ProxyUnusable, ProxyRefusal) as error:
            raise FetchFailed(f"{target.origin} cannot be reached: {error}") from None
        except (OSError, ValueError) as error:
            raise FetchFailed(f"{target.origin} cannot be reached: {reason(error)}") from None
        checked = judge_addresses(target, allowed, addresses, self._is_own_listener)
        return await connect(self._dial, checked, target.port, target.origin)

    async def _exchange(
        self,
        by: "ModuleType",
        method: str,
        target: FetchTarget,
        headers: Mapping[str, str],
        body: bytes | None,
        wire: Wire,
        tls: ssl.SSLContext,
    ) -> Fetched:
        async def read(status: int, fields: list[tuple[bytes, bytes]], pieces: AsyncIterator[bytes]) -> Fetched:
            known = _headers(target, status, fields, self._max_body_bytes)
            return Fetched(status, known, await _body(target, pieces, wire, self._max_body_bytes))

        try:
            fetched: Fetched = await by.answer_to(method, target, headers, body, wire, tls, read)
        except by.ERRORS:
            what = "does not answer in proper HTTP" if wire.answered else "closes the connection without an answer"
            raise FetchFailed(f"{target.origin} {what}", sent=wire.sent) from None
        return fetched


def _content_headers(content_type: str, headers: Mapping[str, str] | None) -> Mapping[str, str]:
    return {"accept": "application/json", **(headers or {}), "content-type": content_type}


def _headers(target: FetchTarget, status: int, fields: list[tuple[bytes, bytes]], most: int) -> Mapping[str, str]:
    """The header fields of an answer that may be read on."""
    if status < 200:
        raise FetchFailed(f"{target.origin} does not answer in proper HTTP", sent=True)
    if len(fields) > MAX_FIELDS:
        raise _too_large(target)
    values: dict[str, list[str]] = {}
    for name, value in fields:
        values.setdefault(name.decode("latin-1").lower(), []).append(value.decode("latin-1"))
    headers = {name: ", ".join(each) for name, each in values.items()}
    if headers.get("content-encoding", "identity").strip().lower() != "identity":
        raise FetchFailed(f"{target.origin} compresses its answer, though only plain answers are accepted", sent=True)
    length = headers.get("content-length", "0")
    if length.isdigit() and (len(length) > 10 or int(length) > most):
        raise _too_large(target)
    return headers


async def _body(target: FetchTarget, pieces: AsyncIterator[bytes], wire: Wire, most: int) -> bytes:
    """The whole body. One that is too large is not left in the middle, or generators of the libraries would be lost."""
    wire.limit(2 * most)  # chunks have frames
    body = bytearray()
    pieces_left = max(MAX_PIECES, most >> 9)
    async for piece in pieces:
        body += piece
        pieces_left -= 1
        if len(body) > most or pieces_left < 0:
            wire.limit(-1)
    if len(body) > most:
        raise _too_large(target)
    return bytes(body)


def _too_large(target: FetchTarget) -> FetchFailed:
    return FetchFailed(f"{target.origin} sends more than an answer may have", sent=True, too_large=True)
