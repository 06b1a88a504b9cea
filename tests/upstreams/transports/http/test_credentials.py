"""Credentials asked for with each request: when they are renewed, what is sent once more, and where nothing is sent."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from math import inf

import pytest
import trio

from hub.link.hub_errors import UpstreamDenied, UpstreamUnauthorized
from hub.wire.jsonrpc import encode_request, raw
from tests.support.http_peer import Handler, HttpPeer, PeerRequest, Talk, http_peer
from upstreams.transports.connect_to_url import parse_url
from upstreams.transports.http.client import HttpClient

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
NO = b'HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Bearer realm="x"\r\nContent-Length: 2\r\n\r\nno'
TOO_LITTLE = (
    b'HTTP/1.1 403 Forbidden\r\nWWW-Authenticate: Bearer error="insufficient_scope", scope="write"\r\n'
    b"Content-Length: 0\r\n\r\n"
)
FORBIDDEN = b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n"


class Wallet:
    """A credential that gets `tokens`, one after the other, and then none."""

    def __init__(self, *tokens: str, first: str = "", due: float = inf) -> None:
        self._left = list(tokens)
        self.authorization = first
        self.due = due
        self.told: list[tuple[str, str]] = []

    async def renew(self) -> None:
        self._next()
        self.due = inf

    async def replace_refused(self, shown: str, challenges: Sequence[str]) -> bool:
        await trio.lowlevel.checkpoint()
        self.told.append((shown, *challenges))
        if shown == self.authorization:  # nobody got another one meanwhile
            self._next()
        return True

    async def widen_scope(self, shown: str, challenges: Sequence[str], operation: str) -> bool:
        self.told.append((operation, *challenges))
        if not self._left:
            raise UpstreamDenied("notes lets nobody write", upstream="notes")
        self._next()
        return True

    def _next(self) -> None:
        if not self._left:
            raise UpstreamUnauthorized("notes needs you to sign in", upstream="notes")
        self.authorization = f"Bearer {self._left.pop(0)}"


def wanting(token: str, refusal: bytes = NO) -> Handler:
    """Lets this token in."""

    async def handler(request: PeerRequest, talk: Talk) -> None:
        await talk.raw(OK if request.headers.get("authorization") == f"Bearer {token}" else refusal)

    return handler


@asynccontextmanager
async def client_of(handler: Handler, wallet: Wallet) -> AsyncIterator[tuple[HttpClient, HttpPeer]]:
    async with http_peer(handler) as peer:
        client = HttpClient("notes", parse_url(peer.url), {"X-Team": "a"}, credential=wallet)
        try:
            yield client, peer
        finally:
            client.close()


async def fetch(client: HttpClient, body: bytes = b"{}") -> bytes:
    with await client.request("POST", body=body) as reply:
        return await reply.read()


def shown(peer: HttpPeer) -> list[str]:
    return [request.headers.get("authorization", "") for request in peer.requests]


async def test_without_a_token_none_is_shown_until_the_server_asks() -> None:
    wallet = Wallet("a")
    async with client_of(wanting("a"), wallet) as (client, peer):
        assert await fetch(client, b"12345") == b"ok"
        assert await fetch(client) == b"ok"
    assert shown(peer) == ["", "Bearer a", "Bearer a"]
    assert [request.body for request in peer.requests] == [b"12345", b"12345", b"{}"]
    assert wallet.told == [("", 'Bearer realm="x"')]
    assert all(request.headers["x-team"] == "a" for request in peer.requests)


async def test_a_token_that_is_due_is_renewed_before_it_is_sent() -> None:
    wallet = Wallet("b", first="Bearer a", due=trio.current_time())
    async with client_of(wanting("b"), wallet) as (client, peer):
        assert await fetch(client) == b"ok"
        wallet.due = trio.current_time() + 1000
        assert await fetch(client) == b"ok"
    assert shown(peer) == ["Bearer b", "Bearer b"]


async def test_fifty_calls_that_are_refused_together_get_one_token_and_are_sent_once_more_each() -> None:
    wallet = Wallet("b", first="Bearer a")
    async with client_of(wanting("b"), wallet) as (client, peer), trio.open_nursery() as nursery:
        for _ in range(50):
            nursery.start_soon(fetch, client)
    assert sorted(shown(peer)) == ["Bearer a"] * 50 + ["Bearer b"] * 50
    assert wallet.told == [("Bearer a", 'Bearer realm="x"')] * 50


async def test_a_second_refusal_is_judged_and_nothing_is_sent_a_third_time() -> None:
    wallet = Wallet("b", "c", first="Bearer a")
    async with client_of(wanting("z"), wallet) as (client, peer):
        with await client.request("POST", body=b"{}") as reply:
            assert reply.status == 401
    assert shown(peer) == ["Bearer a", "Bearer b"]
    assert [told[0] for told in wallet.told] == ["Bearer a", "Bearer b"]


async def test_where_a_person_has_to_sign_in_the_call_says_so_and_its_connection_is_closed() -> None:
    wallet = Wallet()
    async with client_of(wanting("z"), wallet) as (client, peer):
        with pytest.raises(UpstreamUnauthorized, match="needs you to sign in"):
            await fetch(client)
        assert not client._active
        assert len(peer.requests) == 1


async def test_a_call_that_lacks_a_scope_names_what_it_is() -> None:
    body = encode_request(7, "tools/call", {"name": raw("write"), "arguments": raw({})})
    wallet = Wallet("more", first="Bearer less")
    async with client_of(wanting("more", TOO_LITTLE), wallet) as (client, peer):
        assert await fetch(client, body) == b"ok"
        wallet.authorization = "Bearer less"
        with pytest.raises(UpstreamDenied):
            await fetch(client, encode_request(8, "tools/list", {}))
    assert [told[0] for told in wallet.told] == ["write", "tools/list"]
    assert shown(peer) == ["Bearer less", "Bearer more", "Bearer less"]


async def test_a_refusal_for_any_other_reason_asks_for_no_other_token() -> None:
    wallet = Wallet("b", first="Bearer a")
    async with client_of(wanting("b", FORBIDDEN), wallet) as (client, peer):
        with await client.request("POST", body=b"{}") as reply:
            assert reply.status == 403
    assert (shown(peer), wallet.told) == (["Bearer a"], [])


async def test_streams_and_goodbyes_show_the_token_too() -> None:
    wallet = Wallet("b", first="Bearer a")
    async with client_of(wanting("b"), wallet) as (client, peer):
        for method in ("GET", "DELETE"):
            with await client.request(method, resend=True) as reply:
                assert reply.status == 200
    assert shown(peer) == ["Bearer a", "Bearer b", "Bearer b"]
