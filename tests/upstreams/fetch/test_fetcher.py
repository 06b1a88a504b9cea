"""Guarded requests over real sockets: TLS of a test's own authority, a scripted server, a scripted proxy."""

import gzip
import logging
import socket
import ssl
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing
from cryptography import x509

from tests.support.authority import Authority
from tests.support.http_peer import Handler, HttpPeer, PeerRequest, Talk, http_peer
from tests.support.processes import free_port
from tests.support.proxy_peer import proxy_peer
from upstreams.fetch.fetcher import MAX_BODY_BYTES, Fetcher
from upstreams.fetch.terms_and_answers import Allowed, Fetched, FetchFailed

NAME = "as.example"
MINE = Allowed(private_hosts=frozenset({NAME}))
LOCAL = Allowed(private_hosts=frozenset({"127.0.0.1"}), loopback_http=True)
SECRET = "s3cret"


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


@pytest.fixture(scope="module")
def server_tls(authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> ssl.SSLContext:
    return authority.server(tmp_path_factory.mktemp("tls"), x509.DNSName(NAME))


class Names:
    """A resolver that says what it is told, one list of addresses after the other, and counts."""

    def __init__(self, *answers: Sequence[str] | OSError) -> None:
        self.answers = list(answers) or [["127.0.0.1"]]
        self.asked: list[str] = []

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        self.asked.append(host)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        await trio.lowlevel.checkpoint()
        if isinstance(answer, OSError):
            raise answer
        return answer


class Dialled:
    """Connects to loopback in place of every address, and notes what the address was."""

    def __init__(self, *refused: str) -> None:
        self.addresses: list[str] = []
        self.refused = refused

    async def __call__(self, address: str, port: int) -> trio.SocketStream:
        self.addresses.append(address)
        if address in self.refused:
            raise ConnectionRefusedError(111, "Connection refused")
        return await trio.open_tcp_stream("127.0.0.1", port)


async def as_it_is(request: PeerRequest, talk: Talk) -> None:
    await talk.reply({"path": request.target})


def fetcher_for(authority: Authority, *answers: Sequence[str] | OSError, **more: Any) -> Fetcher:
    return Fetcher({}, **{"resolve": Names(*answers), "tls": authority.trust, **more})


async def answered(handler: Handler, **more: Any) -> Fetched:
    """The answer of a server on loopback without TLS."""
    async with http_peer(handler) as peer:
        return await Fetcher({}, **more).get(peer.url, LOCAL)


async def failure(handler: Handler, **more: Any) -> FetchFailed:
    async with http_peer(handler) as peer:
        with pytest.raises(FetchFailed) as caught:
            await Fetcher({}, **more).get(peer.url, LOCAL)
    assert SECRET not in caught.value.text
    assert not caught.value.refused
    return caught.value


# --- what is asked ----------------------------------------------------------------------------------------------------


@pytest.mark.covers("SEC-45")
async def test_over_tls(authority: Authority, server_tls: ssl.SSLContext) -> None:
    async with http_peer(as_it_is, tls=server_tls, host=NAME) as peer:
        fetcher = fetcher_for(authority)
        for _ in range(2):
            fetched = await fetcher.get(peer.url + "?a=%2F&b", MINE, headers={"authorization": "Basic x"})
            assert fetched.status == 200
            assert fetched.json_object() == {"path": "/mcp?a=%2F&b"}
            assert fetched.headers["content-type"] == "application/json"
        assert peer.connections == 2
    assert peer.requests[0].method == "GET"
    assert peer.requests[0].headers == {
        "host": f"{NAME}:{peer.port}",
        "accept": "application/json",
        "authorization": "Basic x",
        "user-agent": peer.requests[0].headers["user-agent"],
        "accept-encoding": "identity",
        "connection": "close",
    }
    in_order = "host accept authorization user-agent accept-encoding connection"
    assert " ".join(peer.requests[0].headers) == in_order
    assert peer.requests[0].headers["user-agent"].startswith("hubd/")


async def test_forms_and_json() -> None:
    async with http_peer(as_it_is) as peer:
        fetcher = Fetcher({})
        await fetcher.post_form(
            peer.url, [("a", "1 2"), ("b", "ü&"), ("a", "3")], LOCAL, headers={"accept": "text/plain"}
        )
        await fetcher.post_json(peer.url, {"a": [1]}, LOCAL)
    form, json = peer.requests
    assert (form.method, form.body) == ("POST", b"a=1+2&b=%C3%BC%26&a=3")
    assert form.headers["content-type"] == "application/x-www-form-urlencoded"
    assert (json.method, json.body, json.headers["content-type"]) == ("POST", b'{"a":[1]}', "application/json")
    assert (form.headers["accept"], json.headers["accept"]) == ("text/plain", "application/json")


async def test_what_cannot_be_sent_is_not_sent() -> None:
    async with http_peer(as_it_is) as peer:
        fetcher = Fetcher({})
        for attempt in (
            lambda: fetcher.post_form(peer.url, [("a", "\ud800")], LOCAL),
            lambda: fetcher.post_json(peer.url, "\ud800", LOCAL),
            lambda: fetcher.get(peer.url, LOCAL, headers={"x": "a\r\nb: c"}),
            lambda: fetcher.get(peer.url, LOCAL, headers={"x": "\u20ac"}),
        ):
            with pytest.raises(FetchFailed) as caught:
                await attempt()
            assert not caught.value.sent
    assert not peer.requests


async def test_any_status_is_an_answer_and_nothing_is_followed() -> None:
    async def handler(request: PeerRequest, talk: Talk) -> None:
        await talk.reply(
            status=int(request.target.removeprefix("/")),
            body=b"no",
            headers={"Location": "http://[broken", "Set-Cookie": "a=b", "WWW-Authenticate": "Bearer"},
        )

    async with http_peer(handler) as peer:
        fetcher = Fetcher({})
        for status in (200, 301, 302, 303, 307, 308, 400, 401, 404, 500, 599):
            fetched = await fetcher.get(f"http://127.0.0.1:{peer.port}/{status}", LOCAL)
            assert (fetched.status, fetched.body) == (status, b"no")
            assert fetched.headers["location"] == "http://[broken"
            assert fetched.json_object() is None
    assert not any("cookie" in request.headers for request in peer.requests)
    assert len(peer.requests) == 11


async def test_fields_of_one_name_are_joined() -> None:
    async def handler(request: PeerRequest, talk: Talk) -> None:
        await talk.raw(
            b"HTTP/1.1 401 No\r\nWWW-Authenticate: Basic\r\nContent-Length: 0\r\nwww-authenticate: B\xe9\r\n\r\n"
        )

    fetched = await answered(handler)
    assert fetched.headers["www-authenticate"] == "Basic, B\xe9"


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n1;x=y\r\n}\r\n0\r\nX: y\r\n\r\n",
        b"HTTP/1.1 103 Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}",
        b"HTTP/1.0 200 OK\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nContent-Encoding: Identity\r\nContent-Length: 2\r\n\r\n{}",
    ],
)
async def test_framings_of_an_answer(answer: bytes) -> None:
    async def handler(request: PeerRequest, talk: Talk) -> None:
        await talk.raw(answer)
        await talk.close()

    assert (await answered(handler)).json_object() == {}


# --- addresses --------------------------------------------------------------------------------------------------------


@pytest.mark.covers("SEC-44")
async def test_a_name_that_changes_its_address_gains_nothing(authority: Authority, server_tls: ssl.SSLContext) -> None:
    names, dialled = Names(["1.1.1.1", "2606:4700::1"], ["127.0.0.1"]), Dialled("1.1.1.1")
    fetcher = Fetcher({}, resolve=names, tls=authority.trust, dial=dialled)
    async with http_peer(as_it_is, tls=server_tls, host=NAME) as peer:
        assert (await fetcher.get(peer.url, Allowed())).status == 200
        assert names.asked == [NAME]
        assert dialled.addresses == ["1.1.1.1", "2606:4700::1"]
        with pytest.raises(FetchFailed, match="private") as caught:
            await fetcher.get(peer.url, Allowed())
        assert caught.value.refused
        assert len(dialled.addresses) == 2


@pytest.mark.covers("SEC-44")
async def test_ways_to_write_loopback_lead_nowhere() -> None:
    dialled = Dialled()
    fetcher = Fetcher({}, dial=dialled)  # the resolver of the system
    hosts = ["0177.0.0.1", "2130706433", "127.1", "0x7f.1", "0", "127.0.0.1", "[::1]", "[::ffff:7f00:1]", "localhost"]
    for host in hosts:
        with pytest.raises(FetchFailed, match="private") as caught:
            await fetcher.get(f"https://{host}/", Allowed())
        assert caught.value.refused
    with pytest.raises(FetchFailed, match="link-local"):
        await fetcher.get("https://0xa9fea9fe/", Allowed(frozenset({"0xa9fea9fe"})))
    assert not dialled.addresses


async def test_the_hub_does_not_ask_itself() -> None:
    asked: list[tuple[str, int]] = []

    def own(address: str, port: int) -> bool:
        asked.append((address, port))
        return True

    with pytest.raises(FetchFailed, match="this hub itself"):
        await Fetcher({}, is_own_listener=own).get("http://localhost:8765/", LOCAL)
    assert asked[0] in (("127.0.0.1", 8765), ("::1", 8765))


@pytest.mark.covers("F-R-17")
async def test_a_name_without_address(authority: Authority) -> None:
    fetcher = fetcher_for(authority, socket.gaierror(-2, SECRET))
    with pytest.raises(FetchFailed, match="host name does not resolve") as caught:
        await fetcher.get(f"https://{NAME}/{SECRET}", MINE)
    assert (caught.value.refused, caught.value.sent) == (False, False)
    assert caught.value.text == f"https://{NAME} cannot be reached: its host name does not resolve"


async def test_all_addresses_refuse(authority: Authority) -> None:
    dialled = Dialled("1.1.1.1", "1.0.0.1")
    fetcher = fetcher_for(authority, ["1.1.1.1", "1.0.0.1"], dial=dialled)
    with pytest.raises(FetchFailed, match="connection refused") as caught:
        await fetcher.get(f"https://{NAME}/", Allowed())
    assert not caught.value.sent
    assert dialled.addresses == ["1.1.1.1", "1.0.0.1"]


async def test_an_address_that_says_nothing_does_not_take_all_the_time(
    authority: Authority, server_tls: ssl.SSLContext
) -> None:
    class Silent(Dialled):
        async def __call__(self, address: str, port: int) -> trio.SocketStream:
            if address == "1.1.1.1":
                await trio.sleep_forever()
            return await super().__call__(address, port)

    clock = trio.testing.MockClock(rate=100)  # not autojump: real sockets are waited for, too

    async def both() -> None:
        async with http_peer(as_it_is, tls=server_tls, host=NAME) as peer:
            fetcher = fetcher_for(authority, ["1.1.1.1", "1.0.0.1"], dial=Silent(), timeout_s=1e6)
            assert (await fetcher.get(peer.url, Allowed())).status == 200

    await trio.to_thread.run_sync(lambda: trio.run(both, clock=clock))


# --- TLS --------------------------------------------------------------------------------------------------------------


@pytest.mark.covers("SEC-45")
@pytest.mark.parametrize(
    ("names", "days", "trusted", "why"),
    [
        ([x509.DNSName(NAME)], -1, True, "expired"),
        ([x509.DNSName("other.example")], 1, True, "not valid for"),
        ([x509.DNSName(NAME)], 1, False, "unable to get local issuer|self-signed"),
    ],
)
async def test_tls_that_does_not_verify(
    authority: Authority, tmp_path: Path, names: list[x509.GeneralName], days: int, trusted: bool, why: str
) -> None:
    fetcher = fetcher_for(authority if trusted else Authority())
    async with http_peer(as_it_is, tls=authority.server(tmp_path, *names, days=days), host=NAME) as peer:
        with pytest.raises(FetchFailed, match=f"certificate is not trusted.*({why})") as caught:
            await fetcher.get(peer.url, MINE)
        assert (caught.value.refused, caught.value.sent) == (False, False)
    assert not peer.requests


@pytest.mark.covers("SEC-45")
async def test_tls_that_is_too_old(authority: Authority, tmp_path: Path) -> None:
    old = authority.server(tmp_path, x509.DNSName(NAME))
    with pytest.warns(DeprecationWarning, match="TLSv1_1"):
        old.minimum_version = old.maximum_version = ssl.TLSVersion.TLSv1_1
    old.set_ciphers("ALL:@SECLEVEL=0")
    async with http_peer(as_it_is, tls=old, host=NAME) as peer:
        with pytest.raises(FetchFailed, match="TLS failed"):
            await fetcher_for(authority).get(peer.url, MINE)
    assert not peer.requests


async def test_a_server_that_speaks_no_tls(authority: Authority) -> None:
    async def plain(stream: trio.SocketStream) -> None:
        await stream.receive_some(10)
        await stream.send_all(b"HTTP/1.1 400 No\r\n\r\n")

    listener = (await trio.open_tcp_listeners(0, host="127.0.0.1"))[0]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.serve_listeners, plain, [listener])
        with pytest.raises(FetchFailed, match="TLS failed") as caught:
            await fetcher_for(authority).get(f"https://{NAME}:{listener.socket.getsockname()[1]}/", MINE)
        nursery.cancel_scope.cancel()
    assert not caught.value.sent


# --- answers that are none --------------------------------------------------------------------------------------------


def saying(*pieces: bytes, close: bool = True) -> Handler:
    async def handler(request: PeerRequest, talk: Talk) -> None:
        for piece in pieces:
            await talk.raw(piece)
        await (talk.close() if close else talk.hang())

    return handler


OK = b"HTTP/1.1 200 OK\r\n"


@pytest.mark.parametrize(
    "answer",
    [
        OK + b"Content-Length: %d\r\n\r\n" % (MAX_BODY_BYTES + 1),
        OK + b"Content-Length: " + b"9" * 4000 + b"\r\n\r\n",
        OK + b"Content-Length: " + b"9" * 18 + b"\r\n\r\n",
        OK + b"\r\n" + b"x" * (MAX_BODY_BYTES + 1),
        OK + b"Transfer-Encoding: chunked\r\n\r\n" + b"1\r\nx\r\n" * (MAX_BODY_BYTES + 1),
        OK + b"Transfer-Encoding: chunked\r\n\r\n%x\r\n" % (1 << 20) + b"x" * (1 << 20),
        OK + b"Transfer-Encoding: chunked\r\n\r\n1;" + b"x" * 90_000 + b"\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\n" * 20_000,
        OK + b"X: y\r\n" * 101 + b"Content-Length: 0\r\n\r\n",
        OK + b"X: " + b"y" * 40_000 + b"\r\nContent-Length: 0\r\n\r\n",
        OK + b"X: " + b"y" * 400_000,
    ],
    ids=range(11),
)
@pytest.mark.covers("SEC-44")
async def test_answers_that_are_too_large(answer: bytes) -> None:
    failed = await failure(saying(answer))
    assert failed.text.endswith(("sends more than an answer may have", "does not answer in proper HTTP"))
    assert failed.sent


async def test_the_largest_answer() -> None:
    body = b"x" * MAX_BODY_BYTES
    assert (await answered(saying(OK + b"Content-Length: %d\r\n\r\n" % len(body) + body))).body == body
    assert (await answered(saying(OK + b"\r\n" + body))).body == body


@pytest.mark.parametrize(
    "coding", [b"gzip", b"GZIP", b"br", b"identity, gzip", b"gzip\r\nContent-Encoding: identity", b"zstd"]
)
async def test_compressed_answers_are_not_read(coding: bytes) -> None:
    data = gzip.compress(b"{}")
    failed = await failure(
        saying(OK + b"Content-Encoding: %b\r\nContent-Length: %d\r\n\r\n" % (coding, len(data)) + data)
    )
    assert "compresses its answer" in failed.text


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"HTTP/1.1",
        b"<html>s3cret</html>",
        b"SSH-2.0-s3cret\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\ns3c",
        b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\ns3cret\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: s3cret\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX s3cret\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: \x00s3cret\r\n\r\n",
        b"HTTP/1.1 099 s3cret\r\n\r\n",
    ],
    ids=range(13),
)
async def test_answers_that_are_no_http(answer: bytes) -> None:
    failed = await failure(saying(answer))
    assert failed.sent
    assert failed.text.endswith(("does not answer in proper HTTP", "closes the connection without an answer"))


@pytest.mark.parametrize("pieces", [(), (b"HTTP/1.1 200 OK\r\nX: ",), (OK + b"Content-Length: 9\r\n\r\nab",)])
async def test_an_answer_that_does_not_end(pieces: Sequence[bytes]) -> None:
    failed = await failure(saying(*pieces, close=False), timeout_s=0.05)
    assert failed.text.endswith("does not answer within 0.05 seconds")


async def test_a_body_that_trickles() -> None:
    async def handler(request: PeerRequest, talk: Talk) -> None:
        await talk.raw(OK + b"\r\n")
        with trio.move_on_after(5):
            while True:
                await talk.raw(b"x")
                await trio.sleep(0.001)

    assert "within 0.1 seconds" in (await failure(handler, timeout_s=0.1)).text


async def test_look_ups_and_turns_count(autojump_clock: trio.abc.Clock) -> None:
    """Resolvers that never answer, more requests than may run at once: each ends in time."""

    async def silent(host: str, port: int) -> Sequence[str]:
        await trio.sleep_forever()
        raise AssertionError

    fetcher = Fetcher({}, resolve=silent, timeout_s=7)
    ended = []

    async def one() -> None:
        with pytest.raises(FetchFailed, match="does not answer within 7 seconds") as caught:
            await fetcher.get(f"https://{NAME}/", MINE)
        ended.append(caught.value.sent)

    async with trio.open_nursery() as nursery:
        for _ in range(20):
            nursery.start_soon(one)
    assert ended == [False] * 20
    assert trio.current_time() < 15


async def test_origins_that_never_answer_keep_no_other_from_being_asked(autojump_clock: trio.abc.Clock) -> None:
    """One that is asked by many, and many that are asked by one each."""

    async def silent(host: str, port: int) -> Sequence[str]:
        if host != "good.example":
            await trio.sleep_forever()
        raise OSError("it was asked")

    fetcher = Fetcher({}, resolve=silent, timeout_s=7)

    async def one(origin: str) -> None:
        with pytest.raises(FetchFailed, match="does not answer within 7 seconds"):
            await fetcher.get(f"https://{origin}/", MINE)

    async with trio.open_nursery() as nursery:
        for at in range(40):
            nursery.start_soon(one, NAME)
            nursery.start_soon(one, f"as{at}.example")
        await trio.testing.wait_all_tasks_blocked()
        with pytest.raises(FetchFailed, match="cannot be reached"):
            await fetcher.get("https://good.example/", MINE)
        assert trio.current_time() == 0
    assert not fetcher._turns_at, "nothing is kept of origins that nobody asks"


async def test_cancelled_in_the_middle() -> None:
    async def handler(request: PeerRequest, talk: Talk) -> None:
        await talk.raw(OK + b"Content-Length: 9\r\n\r\nab")
        scope.cancel()
        await talk.gone()
        gone.set()

    gone, scope = trio.Event(), trio.CancelScope()
    async with http_peer(handler) as peer:
        with scope:
            await Fetcher({}).get(peer.url, LOCAL)
        assert scope.cancelled_caught
        await gone.wait()


# --- proxies ----------------------------------------------------------------------------------------------------------


async def through_a_proxy(authority: Authority, peer: HttpPeer, environ: dict[str, str]) -> Fetched:
    names = Names(OSError(SECRET))
    try:
        return await Fetcher(environ, resolve=names, tls=authority.trust).get(peer.url, Allowed())
    finally:
        assert not names.asked  # the proxy looks names up


async def test_through_a_proxy(authority: Authority, server_tls: ssl.SSLContext) -> None:
    async with http_peer(as_it_is, tls=server_tls, host=NAME) as peer, proxy_peer() as proxy:
        proxy.routes[f"{NAME}:{peer.port}"] = peer.port
        environ = {"https_proxy": proxy.url.replace("//", "//me:s3cret@")}
        assert (await through_a_proxy(authority, peer, environ)).status == 200
    assert proxy.lines == [f"CONNECT {NAME}:{peer.port} HTTP/1.1"]
    assert "Proxy-Authorization: Basic bWU6czNjcmV0" in proxy.heads[0]
    assert "proxy-authorization" not in peer.requests[0].headers
    assert peer.requests[0].target == "/mcp"


@pytest.mark.covers("SEC-44")
async def test_names_and_addresses_are_judged_before_a_proxy_hears_of_them(authority: Authority) -> None:
    async with proxy_peer() as proxy:
        fetcher = Fetcher({"ALL_PROXY": proxy.url}, tls=authority.trust)
        for host in ("10.0.0.1", "[fd00::1]", "as", "as.internal", "169.254.169.254", "0xa9fea9fe"):
            with pytest.raises(FetchFailed, match=r"private|link-local") as caught:
                await fetcher.get(f"https://{host}/", Allowed())
            assert caught.value.refused
    assert not proxy.heads


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (b"HTTP/1.1 403 s3cret\r\n\r\n", r"the proxy 127.0.0.1:\d+ refuses to connect \(status 403\)"),
        (b"HTTP/1.1 407 s3cret\r\nContent-Length: 6\r\n\r\ns3cret", "wants a user name and a password"),
        (b"HTTP/1.1 502 s3cret\r\n\r\n", r"refuses to connect \(status 502\)"),
        (b"HTTP/1.1 301 s3cret\r\n\r\n", r"refuses to connect \(status 301\)"),
        (b"SSH-2.0-s3cret\r\n\r\n", "does not answer in HTTP"),
        (b"HTTP/1.1 200 OK\r\nX: s3", "closes the connection without an answer"),
        (b"HTTP/1.1 200 OK\r\n\r\ns3cret", "says more than was asked"),
        (b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 10_000, "more than an answer may have"),
        (b"", "closes the connection without an answer"),
    ],
    ids=range(9),
)
async def test_a_proxy_that_opens_no_tunnel(authority: Authority, answer: bytes, says: str) -> None:
    async def serve(stream: trio.SocketStream) -> None:
        async with stream:
            try:
                await stream.receive_some()
                await stream.send_all(answer)
                await stream.send_eof()
                async for _ in stream:
                    pass
            except (OSError, trio.BrokenResourceError):
                pass

    listener = (await trio.open_tcp_listeners(0, host="127.0.0.1"))[0]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.serve_listeners, serve, [listener])
        port = listener.socket.getsockname()[1]
        with pytest.raises(FetchFailed, match=says) as caught:
            await Fetcher({"https_proxy": f"127.0.0.1:{port}"}, tls=authority.trust).get(f"https://{NAME}/", Allowed())
        nursery.cancel_scope.cancel()
    assert (caught.value.refused, caught.value.sent) == (False, False)
    assert SECRET not in caught.value.text
    assert caught.value.text.startswith(f"https://{NAME} cannot be reached: the proxy 127.0.0.1:{port}")


async def test_a_proxy_over_tls(authority: Authority, server_tls: ssl.SSLContext, tmp_path: Path) -> None:
    from ipaddress import ip_address

    heads: list[bytes] = []

    async def tunnel(stream: trio.SocketStream) -> None:
        secure = trio.SSLStream(stream, tls, server_side=True, https_compatible=True)
        heads.append(bytes(await secure.receive_some()))
        await secure.send_all(b"HTTP/1.0 200 OK\r\nVia: x\r\n\r\n")
        inner = trio.SSLStream(secure, server_tls, server_side=True, https_compatible=True)
        await inner.receive_some()
        await inner.send_all(OK + b"Content-Length: 2\r\n\r\n{}")
        await inner.aclose()

    tls = authority.server(tmp_path, x509.IPAddress(ip_address("127.0.0.1")))
    listener = (await trio.open_tcp_listeners(0, host="127.0.0.1"))[0]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.serve_listeners, tunnel, [listener])
        environ = {"HTTPS_PROXY": f"https://127.0.0.1:{listener.socket.getsockname()[1]}"}
        fetched = await Fetcher(environ, tls=authority.trust).get(f"https://{NAME}/x", Allowed())
        assert fetched.json_object() == {}
        nursery.cancel_scope.cancel()
    assert heads[0].startswith(b"CONNECT as.example:443 HTTP/1.1\r\nHost: as.example:443\r\n")


async def test_a_proxy_that_is_not_there_or_none(authority: Authority) -> None:
    port = free_port()
    environ = {"https_proxy": f"http://me:{SECRET}@127.0.0.1:{port}"}
    with pytest.raises(FetchFailed, match=rf"the proxy 127.0.0.1:{port} cannot be reached: connection refused"):
        await Fetcher(environ, tls=authority.trust).get(f"https://{NAME}/", Allowed())
    with pytest.raises(FetchFailed, match=r"https_proxy names a proxy of another kind") as caught:
        await Fetcher({"https_proxy": f"socks5://me:{SECRET}@p:1"}, tls=authority.trust).get(f"https://{NAME}/", MINE)
    assert SECRET not in caught.value.text


async def test_loopback_and_no_proxy_go_straight(authority: Authority, server_tls: ssl.SSLContext) -> None:
    everything = "http://127.0.0.1:1"
    async with http_peer(as_it_is) as peer:
        assert (await Fetcher({"ALL_PROXY": everything}).get(peer.url, LOCAL)).status == 200
    async with http_peer(as_it_is, tls=server_tls, host=NAME) as peer:
        environ = {"ALL_PROXY": everything, "NO_PROXY": f".example:{peer.port}"}
        fetched = await Fetcher(environ, resolve=Names(), tls=authority.trust).get(peer.url, MINE)
        assert fetched.status == 200


# --- what does not show -----------------------------------------------------------------------------------------------


async def test_nothing_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    async with http_peer(as_it_is) as peer:
        fetcher = Fetcher({})
        await fetcher.get(peer.url, LOCAL)  # imports the library
        caplog.set_level(logging.DEBUG)
        await fetcher.get(peer.url + f"?code={SECRET}", LOCAL, headers={"authorization": SECRET})
    assert not [record for record in caplog.records if record.name.startswith("http")]


def test_making_one_imports_nothing() -> None:
    code = (
        "import sys; from upstreams.fetch.fetcher import Fetcher; Fetcher(); "
        "print(*sorted({'httpx', 'httpcore', 'anyio', 'certifi'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "\n"
