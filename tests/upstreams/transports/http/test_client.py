"""The HTTP client against a peer that misbehaves byte by byte."""

import gzip
import re
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from ipaddress import ip_address
from pathlib import Path

import pytest
import trio
from cryptography import x509

from hub.link.hub_errors import Executed, ResultTooLarge, UpstreamLost, UpstreamProtocolError, UpstreamUnavailable
from hub.wire.http.request_parser import MAX_HEAD_BYTES
from tests.support.authority import Authority
from tests.support.http_peer import Handler, HttpPeer, PeerRequest, Talk, http_peer
from tests.support.steps import counting
from upstreams.transports.connect_to_url import parse_url
from upstreams.transports.http.client import PIECE_BYTES, HttpClient
from upstreams.transports.http.response_parser import ResponseChunks

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


@asynccontextmanager
async def client_of(handler: Handler, **headers: str) -> AsyncIterator[tuple[HttpClient, HttpPeer]]:
    async with http_peer(handler) as peer:
        client = HttpClient("far", parse_url(peer.url), headers)
        try:
            yield client, peer
        finally:
            client.close()


async def ok(request: PeerRequest, talk: Talk) -> None:
    await talk.raw(OK)


def saying(*answers: bytes) -> Handler:
    """Answers with these bytes, one answer per request, the last again and again."""
    left = list(answers)

    async def handler(request: PeerRequest, talk: Talk) -> None:
        await talk.raw(left.pop(0) if len(left) > 1 else left[0])

    return handler


async def fetch(client: HttpClient, body: bytes = b"{}", *, resend: bool = False) -> bytes:
    with await client.request("POST", body=body, resend=resend) as reply:
        return await reply.read()


# --- whole exchanges -------------------------------------------------------------------------------------------------


async def test_one_connection_carries_many_requests() -> None:
    async with client_of(ok, Authorization="Bearer x") as (client, peer):
        for _ in range(3):
            assert await fetch(client, b"12345") == b"ok"
        assert peer.connections == 1
        request = peer.requests[0]
    assert (request.method, request.target, request.body) == ("POST", "/mcp", b"12345")
    assert request.headers["authorization"] == "Bearer x"
    assert request.headers["host"] == f"127.0.0.1:{peer.port}"
    assert request.headers["accept-encoding"] == "identity"


async def test_a_configuration_cannot_set_what_is_the_hubs() -> None:
    mine = {"Content-Length": "7", "accept": "x", "Mcp-Session-Id": "x", "HOST": "x", "X-Api-Key": "k\n"}
    async with client_of(ok, **mine) as (client, peer):
        await fetch(client)
        headers = peer.requests[0].headers
    assert headers["x-api-key"] == "k"
    assert headers["content-length"] == "2"
    assert not {"accept", "mcp-session-id"} & headers.keys()


@pytest.mark.parametrize("headers", [{"X": "a\r\nY: b"}, {"X Y": "a"}, {"": "a"}, {"X": "\u20ac"}])
def test_a_header_that_cannot_be_sent_is_refused(headers: dict[str, str]) -> None:
    with pytest.raises(ValueError):
        HttpClient("far", parse_url("http://x/"), headers)


@pytest.mark.parametrize(
    ("text", "authority", "target"),
    [
        ("http://h/mcp", "h", "/mcp"),
        ("https://h:443", "h", "/"),
        ("http://h:8080/a b?c=d e", "h:8080", "/a%20b?c=d%20e"),
        ("http://[::1]:8080/%2F#f", "[::1]:8080", "/%2F"),
        ("https://B\u00fccher.example/\u00e9", "xn--bcher-kva.example", "/%C3%A9"),
    ],
)
def test_urls(text: str, authority: str, target: str) -> None:
    url = parse_url(text)
    assert (url.authority, url.target) == (authority, target)


@pytest.mark.parametrize("text", ["ftp://h/", "h/mcp", "http://", "http://u:p@h/", "http://h:99999/"])
def test_urls_refused(text: str) -> None:
    with pytest.raises(ValueError):
        parse_url(text)


async def test_parallel_requests_have_a_connection_each_and_leave_them_to_others() -> None:
    release = trio.Event()

    async def handler(request: PeerRequest, talk: Talk) -> None:
        await release.wait()
        await talk.raw(OK)

    async with client_of(handler) as (client, peer):
        async with trio.open_nursery() as nursery:
            for _ in range(5):
                nursery.start_soon(fetch, client)
            await peer.until(lambda: len(peer.requests) == 5)
            release.set()
        assert peer.connections == 5
        await fetch(client)
        assert peer.connections == 5


CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n1;x=y\r\nd\r\n0\r\n\r\n"


@pytest.mark.parametrize(
    ("answer", "body"),
    [
        (OK, b"ok"),
        (b"HTTP/1.1 200 OK\r\ncontent-length:2\r\n\r\nok", b"ok"),
        (CHUNKED, b"abcd"),
        (b"HTTP/1.1 204 No Content\r\n\r\n", b""),
        (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + OK, b"ok"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 200000\r\n\r\n" + b"x" * 200_000, b"x" * 200_000),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", b""),
    ],
)
@pytest.mark.parametrize("step", [1, 7, 1 << 20])
async def test_every_framing_however_it_is_cut(answer: bytes, body: bytes, step: int) -> None:
    if step == 1 and len(answer) > 1000:
        step = 999

    async def handler(request: PeerRequest, talk: Talk) -> None:
        for at in range(0, len(answer), step):
            await talk.raw(answer[at : at + step])

    async with client_of(handler) as (client, peer):
        for _ in range(3):
            assert await fetch(client) == body
        assert peer.connections == 1


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok",
        b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\nKeep-Alive: timeout=1\r\nContent-Length: 2\r\n\r\nok",
    ],
)
async def test_a_connection_that_will_close_is_not_kept(answer: bytes) -> None:
    async with client_of(saying(answer)) as (client, peer):
        await fetch(client)
        await fetch(client)
        assert peer.connections == 2


async def test_a_body_without_length_ends_with_the_connection() -> None:
    async def handler(request: PeerRequest, talk: Talk) -> None:
        await talk.raw(b"HTTP/1.1 200 OK\r\n\r\nall of it")
        await talk.close()

    async with client_of(handler) as (client, peer):
        assert await fetch(client) == b"all of it"
        assert await fetch(client) == b"all of it"
        assert peer.connections == 2


async def test_an_old_connection_is_not_used_again(autojump_clock: trio.abc.Clock) -> None:
    async with client_of(ok) as (client, peer):
        await fetch(client)
        await trio.sleep(4.5)
        await fetch(client)
        assert peer.connections == 2
        await trio.sleep(4.5)
        client.sweep()
        assert (client._active, client._idle) == (set(), [])


async def test_keep_alive_says_how_long(autojump_clock: trio.abc.Clock) -> None:
    answer = b"HTTP/1.1 200 OK\r\nKeep-Alive: timeout=30, max=5\r\nContent-Length: 2\r\n\r\nok"
    async with client_of(saying(answer)) as (client, peer):
        await fetch(client)
        await trio.sleep(28)
        await fetch(client)
        assert peer.connections == 1
        await trio.sleep(29.5)
        await fetch(client)
        assert peer.connections == 2


async def test_a_server_with_nagle_on_is_not_kept_waiting() -> None:
    async def handler(request: PeerRequest, talk: Talk) -> None:
        talk.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 0)
        await talk.raw(OK[:-2])
        await talk.raw(OK[-2:])

    async with client_of(handler) as (client, _):
        took = []
        for _ in range(60):
            start = trio.current_time()
            assert await fetch(client) == b"ok"
            took.append(trio.current_time() - start)
        assert sorted(took[30:])[5] < 0.03, "40 ms each, once delayed acknowledgements set in"


# --- faults ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["HTTP_PROXY", "http_proxy", "ALL_PROXY"])
async def test_proxies_of_the_environment_are_not_used(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with client_of(saying(OK)) as (client, peer), http_peer(saying(OK)) as proxy:
        monkeypatch.setenv(name, proxy.url)
        assert await fetch(client) == b"ok"
        assert peer.connections == 1
        assert not proxy.connections


@pytest.mark.covers("F-R-18")
async def test_connection_refused() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    client = HttpClient("far", parse_url(f"http://127.0.0.1:{port}/mcp?secret=1"))
    with pytest.raises(UpstreamUnavailable, match=rf"at http://127\.0\.0\.1:{port}: connection refused$") as caught:
        await fetch(client)
    assert caught.value.executed is Executed.NO
    assert "secret" not in str(caught.value)


@pytest.mark.covers("F-R-17")
async def test_a_name_that_does_not_resolve(autojump_clock: trio.abc.Clock) -> None:
    class Resolver(trio.abc.HostnameResolver):
        async def getaddrinfo(self, *args: object) -> list:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

        async def getnameinfo(self, *args: object) -> tuple[str, str]:
            raise NotImplementedError

    trio.socket.set_custom_hostname_resolver(Resolver())
    client = HttpClient("far", parse_url("http://nowhere.invalid/mcp"))
    with pytest.raises(UpstreamUnavailable, match="does not resolve"):
        await fetch(client)


@pytest.mark.covers("F-R-17")
async def test_a_resolver_that_hangs(autojump_clock: trio.abc.Clock) -> None:
    class Resolver(trio.abc.HostnameResolver):
        async def getaddrinfo(self, *args: object) -> list:
            await trio.sleep_forever()
            return []

        async def getnameinfo(self, *args: object) -> tuple[str, str]:
            raise NotImplementedError

    trio.socket.set_custom_hostname_resolver(Resolver())
    client = HttpClient("far", parse_url("http://nowhere.invalid/mcp"))
    with pytest.raises(UpstreamUnavailable, match="no connection within 10 seconds"):
        await fetch(client)


HEAD = b"HTTP/1.1 200 OK\r\n"
MALFORMED = {
    "both lengths": HEAD + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
    "two lengths": HEAD + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\nok",
    "two lengths, one of them nothing": HEAD + b"Content-Length: 2\r\nContent-Length: 0\r\n\r\nok",
    "one length twice": HEAD + b"Content-Length: 2\r\ncontent-length:2\r\n\r\nok",
    "bad chunk": HEAD + b"Transfer-Encoding: chunked\r\n\r\nxyz\r\nok\r\n0\r\n\r\n",
    "bad chunk end": HEAD + b"Transfer-Encoding: chunked\r\n\r\n2\r\nokay\r\n0\r\n\r\n",
    "odd coding": HEAD + b"Transfer-Encoding: gzip, chunked\r\n\r\n",
    "interim flood": b"HTTP/1.1 102 Processing\r\n\r\n" * 20 + OK,
    "switched": b"HTTP/1.1 101 Switching Protocols\r\n\r\n",
    "second answer": OK + OK,
    "second answer to chunks": CHUNKED + OK,
    "answer behind nothing": b"HTTP/1.1 204 No Content\r\n\r\n" + OK,
    "bare line ends": HEAD.replace(b"\r\n", b"\n") + b"Content-Length: 2\n\nok",
    "one bare line end": HEAD + b"A: b\nContent-Length: 2\r\n\r\nok",
    "folded": HEAD + b"A: b\r\n c\r\nContent-Length: 2\r\n\r\nok",
    "control": HEAD + b"A: b\0c\r\nContent-Length: 2\r\n\r\nok",
    "not http": b"220 mail.example ESMTP\r\n\r\n",
    "no status": b"HTTP/1.1 \r\n\r\n",
    "low status": b"HTTP/1.1 099 X\r\n\r\n",
    "no colon": HEAD + b"what\r\n\r\n",
    "many fields": HEAD + b"A: b\r\n" * 101 + b"\r\n",
    "large head": HEAD + b"A: " + b"b" * MAX_HEAD_BYTES + b"\r\n\r\n",
    "endless head": HEAD + b"A: " + b"b" * 2 * MAX_HEAD_BYTES,
    "endless chunk header": HEAD + b"Transfer-Encoding: chunked\r\n\r\n1;" + b"x" * 2 * MAX_HEAD_BYTES,
    "crumbs": HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + b"1\r\nx\r\n" * 9000,
    "gzip": HEAD + b"Content-Encoding: gzip\r\nContent-Length: 40\r\n\r\n" + gzip.compress(b"x" * 100),
}


@pytest.mark.covers("F-R-12", "F-R-13", "F-R-15")
@pytest.mark.parametrize("answer", MALFORMED.values(), ids=MALFORMED.keys())
async def test_a_malformed_answer_costs_its_connection(answer: bytes) -> None:
    async with client_of(saying(answer, OK)) as (client, peer):
        with pytest.raises(UpstreamProtocolError) as caught:
            await fetch(client)
        assert caught.value.executed is Executed.UNKNOWN
        assert await fetch(client) == b"ok"
        assert [request.connection for request in peer.requests] == [0, 1]


@pytest.mark.covers("F-R-13")
async def test_a_never_ending_body() -> None:
    async def handler(request: PeerRequest, talk: Talk) -> None:
        await talk.raw(HEAD + b"Transfer-Encoding: chunked\r\n\r\n")
        while True:
            await talk.chunk(b"x" * 60_000)

    async with client_of(handler) as (client, _):
        with pytest.raises(ResultTooLarge, match="8388608 bytes") as caught:
            await fetch(client)
        assert caught.value.executed is Executed.YES


@pytest.mark.covers("F-R-13", "F-P-14")
async def test_many_small_chunks_are_taken_apart_a_piece_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    body = b"20\r\n" + b"x" * 32 + b"\r\n"
    times = 8 * PIECE_BYTES // len(body)
    answer = HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + body * times + b"0\r\n\r\n"
    async with client_of(saying(answer)) as (client, _):
        with counting() as steps:
            feed = ResponseChunks.feed

            def noted(self: ResponseChunks, data: bytes) -> bytes:
                steps.note(len(data))
                return feed(self, data)

            monkeypatch.setattr(ResponseChunks, "feed", noted)
            assert await fetch(client) == b"x" * 32 * times
    assert steps.most_bytes <= 2 * PIECE_BYTES


@pytest.mark.covers("F-R-15")
async def test_a_second_answer_behind_many_chunks_is_noticed() -> None:
    body = b"4000\r\n" + b"x" * 0x4000 + b"\r\n0\r\n\r\n"
    for more in (b"x", b"x" * 3 * PIECE_BYTES):
        async with client_of(saying(HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + body + more)) as (client, _):
            with pytest.raises(UpstreamProtocolError, match="more than one"):
                await fetch(client)


@pytest.mark.covers("F-R-13")
async def test_a_body_that_is_announced_as_too_large_is_not_read() -> None:
    async with client_of(saying(HEAD + b"Content-Length: 999999999999999\r\n\r\n", OK)) as (client, peer):
        with pytest.raises(ResultTooLarge):
            await fetch(client)
        assert await fetch(client) == b"ok"
        assert [request.connection for request in peer.requests] == [0, 1]


@pytest.mark.parametrize("cut", [True, False])
async def test_an_answer_cut_short_at_every_byte(cut: bool) -> None:
    answers = [answer[:at] for answer in (OK, CHUNKED) for at in range(len(answer))]
    left = list(answers)

    async def handler(request: PeerRequest, talk: Talk) -> None:
        await talk.raw(left.pop(0))
        await (talk.cut() if cut else talk.close())

    async with client_of(handler) as (client, peer):
        for _ in answers:
            with pytest.raises(UpstreamLost) as caught:
                await fetch(client, resend=True)
            assert caught.value.executed is Executed.UNKNOWN
        assert peer.connections == len(answers)


@pytest.mark.covers("F-R-19")
@pytest.mark.parametrize("resend", [True, False])
async def test_a_kept_connection_that_dies_on_reuse(resend: bool) -> None:
    async def handler(request: PeerRequest, talk: Talk) -> None:
        if request.connection == 0 and len(peer.requests) == 2:
            await talk.cut()
        else:
            await talk.raw(OK)

    async with client_of(handler) as (client, peer):
        await fetch(client)
        if resend:
            assert await fetch(client, resend=True) == b"ok"
        else:
            with pytest.raises(UpstreamLost):
                await fetch(client)
        assert len(peer.requests) == (3 if resend else 2)


@pytest.mark.covers("F-R-19")
async def test_a_kept_connection_found_closed_is_replaced_before_anything_is_sent() -> None:
    closed = trio.Event()

    async def handler(request: PeerRequest, talk: Talk) -> None:
        await talk.raw(OK)
        if request.connection == 0:
            await talk.close()
            closed.set()

    async with client_of(handler) as (client, peer):
        await fetch(client)
        await closed.wait()
        assert await fetch(client) == b"ok"
        assert len(peer.requests) == 2


async def test_an_early_refusal_of_a_large_body_is_read() -> None:
    async with trio.open_nursery() as nursery:
        listener = (await trio.open_tcp_listeners(0, host="127.0.0.1"))[0]

        async def refuse(stream: trio.SocketStream) -> None:
            await stream.receive_some(10)
            await stream.send_all(b"HTTP/1.1 413 Content Too Large\r\nContent-Length: 0\r\n\r\n")
            await stream.send_eof()
            while await stream.receive_some(65536):
                pass

        nursery.start_soon(trio.serve_listeners, refuse, [listener])
        client = HttpClient("far", parse_url(f"http://127.0.0.1:{listener.socket.getsockname()[1]}/"))
        with await client.request("POST", body=b"x" * 8_000_000) as reply:
            assert reply.status == 413
        client.close()
        nursery.cancel_scope.cancel()


async def test_cancelling_closes_the_connection_and_nothing_else() -> None:
    async def handler(request: PeerRequest, talk: Talk) -> None:
        if request.body == b"hang":
            await talk.hang()
            gone.set()
        else:
            await talk.raw(OK)

    gone = trio.Event()
    async with client_of(handler) as (client, peer):
        await fetch(client)
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(fetch, client, b"hang")
                await peer.until(lambda: len(peer.requests) == 2)
                scope.cancel()
        await gone.wait()
        assert await fetch(client) == b"ok"
        assert peer.connections == 2


async def test_leaving_an_answer_unread_closes_its_connection() -> None:
    async with client_of(ok) as (client, peer):
        with await client.request("POST", body=b"") as reply:
            assert reply.status == 200
        await fetch(client)
        assert peer.connections == 2


async def test_closing_the_client_ends_what_is_running() -> None:
    async def handler(request: PeerRequest, talk: Talk) -> None:
        await talk.hang()

    async with client_of(handler) as (client, peer), trio.open_nursery() as nursery:

        async def call() -> None:
            with pytest.raises(UpstreamLost):
                await fetch(client, resend=True)

        nursery.start_soon(call)
        await peer.until(lambda: len(peer.requests) == 1)
        client.close()
        with pytest.raises(UpstreamUnavailable):
            await fetch(client)


async def test_a_peer_that_reads_nothing(autojump_clock: trio.abc.Clock) -> None:
    listener = (await trio.open_tcp_listeners(0, host="127.0.0.1"))[0]
    client = HttpClient("far", parse_url(f"http://127.0.0.1:{listener.socket.getsockname()[1]}/"))
    with pytest.raises(UpstreamLost):
        await fetch(client, b"x" * 20_000_000)
    await listener.aclose()


# --- TLS -------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


LOOPBACK = x509.IPAddress(ip_address("127.0.0.1"))


async def test_tls(authority: Authority, tmp_path: Path) -> None:
    async with http_peer(ok, tls=authority.server(tmp_path, LOOPBACK)) as peer:
        client = HttpClient("far", parse_url(peer.url), tls=authority.trust())
        for _ in range(3):
            assert await fetch(client, b"x" * 100_000) == b"ok"
        assert peer.connections == 1
        client.close()


@pytest.mark.covers("F-R-19")
async def test_tls_connection_that_dies_on_reuse(authority: Authority, tmp_path: Path) -> None:
    async def handler(request: PeerRequest, talk: Talk) -> None:
        if len(peer.requests) == 2:
            await talk.cut()
        else:
            await talk.raw(OK)

    async with http_peer(handler, tls=authority.server(tmp_path, LOOPBACK)) as peer:
        client = HttpClient("far", parse_url(peer.url), tls=authority.trust())
        await fetch(client)
        assert await fetch(client, resend=True) == b"ok"
        client.close()


@pytest.mark.covers("F-R-16")
@pytest.mark.parametrize(
    ("names", "days", "trusted", "why"),
    [
        ([LOOPBACK], -1, True, "expired"),
        ([x509.DNSName("other.example")], 1, True, "127.0.0.1"),
        ([LOOPBACK], 1, False, "unable to get local issuer|self-signed"),
    ],
)
async def test_tls_that_does_not_verify(
    authority: Authority, tmp_path: Path, names: list[x509.GeneralName], days: int, trusted: bool, why: str
) -> None:
    async with http_peer(ok, tls=authority.server(tmp_path, *names, days=days)) as peer:
        client = HttpClient("far", parse_url(peer.url), tls=authority.trust() if trusted else None)
        with pytest.raises(UpstreamUnavailable, match=f"certificate is not trusted.*({why})") as caught:
            await fetch(client)
        assert caught.value.executed is Executed.NO
        assert not peer.requests


@pytest.mark.covers("F-R-16")
async def test_tls_to_a_peer_that_speaks_plain_http() -> None:
    async def plain(stream: trio.SocketStream) -> None:
        await stream.receive_some(10)
        await stream.send_all(OK)

    async with trio.open_nursery() as nursery:
        listener = (await trio.open_tcp_listeners(0, host="127.0.0.1"))[0]
        nursery.start_soon(trio.serve_listeners, plain, [listener])
        client = HttpClient("far", parse_url(f"https://127.0.0.1:{listener.socket.getsockname()[1]}/"))
        with pytest.raises(UpstreamUnavailable, match="TLS failed"):
            await fetch(client)
        nursery.cancel_scope.cancel()


@pytest.mark.covers("F-R-16")
async def test_tls_to_a_peer_that_says_nothing(autojump_clock: trio.abc.Clock) -> None:
    listener = (await trio.open_tcp_listeners(0, host="127.0.0.1"))[0]
    client = HttpClient("far", parse_url(f"https://127.0.0.1:{listener.socket.getsockname()[1]}/"))
    with pytest.raises(UpstreamUnavailable, match="no TLS handshake"):
        await fetch(client)
    await listener.aclose()


# --- headers that are refused -----------------------------------------------------------------------------------------


async def wants(talk: Talk, request: PeerRequest, token: str) -> None:
    """200 for this token, else 401."""
    is_known = request.headers["authorization"] == f"Bearer {token}"
    await talk.raw(OK if is_known else b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 2\r\n\r\nno")


@asynccontextmanager
async def renewing_client(
    handler: Handler, *given: str | None
) -> AsyncIterator[tuple[HttpClient, HttpPeer, list[Mapping[str, str]]]]:
    """A client that begins with the token `old` and gets `given`, one after the other; and what was refused."""
    left, refused = list(given), []

    async def renewed(headers: Mapping[str, str]) -> Mapping[str, str] | None:
        refused.append(headers)
        await trio.lowlevel.checkpoint()
        token = left.pop(0) if len(left) > 1 else left[0]
        return None if token is None else {"Authorization": f"Bearer {token}"}

    async with http_peer(handler) as peer:
        headers = {"Authorization": "Bearer old"}
        client = HttpClient("far", parse_url(peer.url), headers, renewed_headers=renewed)
        try:
            yield client, peer, refused
        finally:
            client.close()


async def test_what_was_refused_is_sent_once_more_with_new_headers() -> None:
    async def handler(request: PeerRequest, talk: Talk) -> None:
        await wants(talk, request, "new")

    async with renewing_client(handler, "new") as (client, peer, refused):
        assert await fetch(client, b"12345") == b"ok"
        assert [request.body for request in peer.requests] == [b"12345"] * 2
        assert await fetch(client) == b"ok"  # and they are kept
        assert len(peer.requests) == 3
        assert refused == [{"Authorization": "Bearer old"}]


@pytest.mark.parametrize("given", ["old", "wrong"])
async def test_a_second_refusal_stands(given: str) -> None:
    async def handler(request: PeerRequest, talk: Talk) -> None:
        await wants(talk, request, "new")

    async with renewing_client(handler, given) as (client, peer, refused):
        with await client.request("POST", body=b"{}") as reply:
            assert (reply.status, await reply.read()) == (401, b"no")
        assert len(peer.requests) == 2
        assert len(refused) == 1


@pytest.mark.parametrize("given", [None, "a\r\nX: b"])
async def test_without_headers_that_can_be_sent_the_refusal_stands(given: str | None) -> None:
    async def handler(request: PeerRequest, talk: Talk) -> None:
        await wants(talk, request, "new")

    async with renewing_client(handler, given) as (client, peer, _):
        with await client.request("POST", body=b"{}") as reply:
            assert (reply.status, await reply.read()) == (401, b"no")
        assert len(peer.requests) == 1


async def test_each_of_several_says_which_headers_were_refused() -> None:
    async def handler(request: PeerRequest, talk: Talk) -> None:
        await wants(talk, request, "new")

    async with renewing_client(handler, "new") as (client, _, refused), trio.open_nursery() as nursery:
        for _ in range(10):
            nursery.start_soon(fetch, client)
    assert refused == [{"Authorization": "Bearer old"}] * 10


async def test_an_empty_refusal_closes_no_connection_that_serves_another_by_now(nursery):
    refused, second_came, retried, ended = (trio.Event() for _ in range(4))

    async def serve(stream):
        async for body in requests_of(stream):
            if body == b"second":
                second_came.set()
                await retried.wait()
                await stream.send_all(
                    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
                )
                continue
            if refused.is_set():
                retried.set()
            await stream.send_all(b"HTTP/1.1 401 X\r\nContent-Length: 0\r\n\r\n")

    async def renew(headers):
        refused.set()
        await second_came.wait()
        return {"Authorization": "another"}

    [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
    nursery.start_soon(trio.serve_listeners, serve, [listener])
    url = parse_url(f"http://127.0.0.1:{listener.socket.getsockname()[1]}/")
    client = HttpClient("up", url, {"Authorization": "one"}, renewed_headers=renew)

    async def ask_first():
        with await client.request("POST", b"", b"first") as reply:
            assert reply.status == 401
        ended.set()

    nursery.start_soon(ask_first)
    await refused.wait()
    with await client.request("POST", b"", b"second") as reply:
        assert (reply.status, await reply.read()) == (200, b"{}")
    await ended.wait()
    client.close()


async def requests_of(stream):
    """The bodies of the requests that come on a stream."""
    data = b""
    while True:
        while b"\r\n\r\n" not in data:
            more = await stream.receive_some()
            if not more:
                return
            data += more
        head, _, data = data.partition(b"\r\n\r\n")
        length = int(re.search(rb"(?i)content-length: (\d+)", head)[1])
        while len(data) < length:
            data += await stream.receive_some()
        yield data[:length]
        data = data[length:]
