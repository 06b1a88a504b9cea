"""The fetcher: guarded requests, from the first check to the last byte of the answer.

    URL judged -> proxy? no: looked up once, every address judged, one of them connected to
                        yes: name judged, tunnel
    -> TLS for the name -> one request -> one answer of at most 64 KiB, unless more was agreed on

A connection carries one request. Such requests are rare, and a connection that is not kept cannot be mixed up.
"""

import os
import ssl
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING, Final
from urllib.parse import urlencode
from weakref import WeakValueDictionary

import msgspec
import trio

from upstreams.fetch import connection, proxy_tunnel
from upstreams.fetch.guard import FetchTarget, IsOwnListener, judge_addresses, judge_behind_proxy, judge_url
from upstreams.fetch.proxies import Proxy, ProxyUnusable, proxy_for
from upstreams.fetch.terms_and_answers import Allowed, Fetched, FetchFailed, Resolve

if TYPE_CHECKING:
    from types import ModuleType

MAX_BODY_BYTES: Final = 64 << 10
FORM: Final = "application/x-www-form-urlencoded"
JSON: Final = "application/json"
MAX_HEAD_BYTES: Final = 32 << 10
"""Bytes of the head, and of interim answers before it."""
MAX_AT_ONCE: Final = 64
MAX_AT_ONE: Final = 8
"""Requests at once to one origin, so that one that never answers does not keep others from being asked."""


async def look_up(host: str, port: int) -> Sequence[str]:
    """The addresses of `host` by the system's resolver, the best first. Raises OSError if there are none."""
    found = await trio.socket.getaddrinfo(host, port, type=trio.socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


@dataclass(eq=False, repr=False)
class Fetcher:
    """Guarded requests of one process. Cheap to make; httpx is imported by the first request. `resolve`, `tls` and
    `dial` are for tests."""

    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)
    """Says which proxies there are."""
    _: KW_ONLY
    timeout_s: float = 10.0
    """Time of one request, from look-up to last byte."""
    max_body_bytes: int = MAX_BODY_BYTES
    """The size of one answer."""
    is_own_listener: IsOwnListener = lambda address, port: False
    """True if the hub itself listens at an address and port."""
    resolve: Resolve = look_up
    tls: Callable[[], ssl.SSLContext] = connection.system_trust
    dial: connection.Dial = trio.open_tcp_stream

    def __post_init__(self) -> None:
        self._turns = trio.CapacityLimiter(MAX_AT_ONCE)
        self._turns_at: WeakValueDictionary[str, trio.CapacityLimiter] = WeakValueDictionary()

    async def get(self, url: str, allowed: Allowed, *, headers: Mapping[str, str] | None = None) -> Fetched:
        """The answer to GET, whatever its status; redirects are not followed. Raises FetchFailed: there is none."""
        return await self._request(url, allowed, {"accept": JSON, **(headers or {})}, None)

    async def post_form(
        self, url: str, fields: Sequence[tuple[str, str]], allowed: Allowed, *, headers: Mapping[str, str] | None = None
    ) -> Fetched:
        """The answer to a POST of `fields` as a form. As `get`."""
        try:
            body = urlencode(fields).encode("ascii")
        except UnicodeEncodeError:
            raise FetchFailed("A form with half a surrogate pair in it cannot be sent") from None
        sent = {"accept": JSON, **(headers or {}), "content-type": FORM}
        return await self._request(url, allowed, sent, body)

    async def post_json(self, url: str, body: object, allowed: Allowed) -> Fetched:
        """The answer to a POST of `body` as JSON. As `get`."""
        try:
            data = msgspec.json.encode(body)
        except UnicodeEncodeError:
            raise FetchFailed("JSON with half a surrogate pair in it cannot be sent") from None
        return await self.post_bytes(url, data, allowed)

    async def post_bytes(self, url: str, data: bytes, allowed: Allowed) -> Fetched:
        """The answer to a POST of this JSON. As `get`."""
        return await self._request(url, allowed, {"accept": JSON, "content-type": JSON}, data)

    async def judge(self, url: str, allowed: Allowed) -> None:
        """Raise unless `url` may be asked: judges it as a request would, and asks nothing but for its address. Raises
        FetchFailed: it may not be asked, or its host has no address."""
        target = judge_url(url, allowed)
        try:
            with trio.fail_after(self.timeout_s):
                await self._find_way(target, allowed)
        except trio.TooSlowError:
            text = f"the address of {target.origin} is not found within {self.timeout_s:g} seconds"
            raise FetchFailed(text) from None

    # --- one request --------------------------------------------------------------------------------------------------

    async def _request(self, url: str, allowed: Allowed, headers: Mapping[str, str], body: bytes | None) -> Fetched:
        """The answer to GET, or to a POST of `body`."""
        target = judge_url(url, allowed)
        wire: connection.Wire | None = None
        try:
            with trio.fail_after(self.timeout_s):
                turns_there = self._turns_at.setdefault(target.origin, trio.CapacityLimiter(MAX_AT_ONE))
                async with turns_there, self._turns:
                    httpx_requests, tls = await trio.to_thread.run_sync(self._load)
                    stream = await self._connect(target, allowed, tls)
                    with closing(connection.Wire(stream, target.origin, MAX_HEAD_BYTES)) as wire:
                        most = self.max_body_bytes
                        answer: Fetched = await httpx_requests.ask(target, headers, body, wire, tls, most)
                        return answer
        except trio.TooSlowError:
            text = f"{target.origin} does not answer within {self.timeout_s:g} seconds"
            raise FetchFailed(text, sent=wire is not None and wire.sent) from None

    def _load(self) -> tuple["ModuleType", ssl.SSLContext]:
        """Load the parts that take long at the first time, and that no request needs before: for a thread."""
        from upstreams.fetch import httpx_requests

        return httpx_requests, self.tls()

    async def _find_way(self, target: FetchTarget, allowed: Allowed) -> Proxy | Sequence[str]:
        """The proxy that a request goes through, or the addresses of its target; all of them may be asked."""
        try:
            if (proxy := proxy_for(self.environ, target.secure, target.host, target.port)) is not None:
                judge_behind_proxy(target, allowed)
                return proxy
            addresses = await self.resolve(target.host, target.port)
        except ProxyUnusable as error:
            raise FetchFailed(f"{target.origin} cannot be reached: {error}") from None
        except (OSError, ValueError) as error:
            raise FetchFailed(f"{target.origin} cannot be reached: {connection.reason(error)}") from None
        return judge_addresses(target, allowed, addresses, self.is_own_listener)

    async def _connect(self, target: FetchTarget, allowed: Allowed, tls: ssl.SSLContext) -> connection.AnyStream:
        if not isinstance(way := await self._find_way(target, allowed), Proxy):
            return await connection.connect(self.dial, way, target.port, target.origin)
        try:
            return await proxy_tunnel.connect_via(way, tls, target.host, target.port)
        except proxy_tunnel.ProxyRefusal as error:
            raise FetchFailed(f"{target.origin} cannot be reached: {error}") from None
