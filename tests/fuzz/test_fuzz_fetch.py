"""Malformed input at every entry point of guarded requests: a connection is made to allowed addresses only, and nothing
is raised but the one error of each.

`HUBD_FUZZ` is the number of inputs per entry point (`make fuzz`: 10 000).
"""

import os
import random
import socket
from collections.abc import Sequence
from contextlib import suppress
from ipaddress import ip_address

import pytest
import trio

from tests.fuzz.mutation import damaged
from upstreams.fetch.fetcher import MAX_BODY_BYTES, Fetcher
from upstreams.fetch.guard import Standing, is_loopback, standing
from upstreams.fetch.proxies import Proxy, ProxyUnusable, proxy_for
from upstreams.fetch.proxy_tunnel import ProxyRefusal, open_tunnel
from upstreams.fetch.strict_json import read_json_object
from upstreams.fetch.terms_and_answers import Allowed, FetchFailed

COUNT = int(os.environ.get("HUBD_FUZZ", "300"))

URLS = [
    b"https://as.example/.well-known/oauth-authorization-server?a=b",
    b"https://1.1.1.1:8443/x",
    b"https://[2606:4700::1111]/x",
    b"https://127.0.0.1:80/",
    b"https://0177.0.0.1/",
    b"https://[::ffff:169.254.169.254]/latest/meta-data",
    b"http://localhost:8080/token",
    b"https://corp.example/a#b",
    b"https://user:password@as.example/",
]
ADDRESSES = [
    b"1.1.1.1",
    b"2606:4700::1111",
    b"127.0.0.1",
    b"10.1.2.3",
    b"169.254.169.254",
    b"::ffff:10.0.0.1",
    b"64:ff9b::7f00:1",
    b"2002:a9fe:a9fe::1",
    b"fe80::1%eth0",
    b"fd00::1",
]
CORP = "corp.example"
ALLOWED = [Allowed(), Allowed(frozenset({CORP})), Allowed(frozenset({"127.0.0.1"}), loopback_http=True)]
ANSWERS = [
    b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 22\r\n\r\n{"issuer":"https://a"}',
    b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{"a":\r\n3;x=y\r\n1}\n\r\n0\r\nX: y\r\n\r\n',
    b"HTTP/1.1 302 Found\r\nLocation: https://127.0.0.1/\r\nSet-Cookie: a=b; Path=/\r\nContent-Length: 0\r\n\r\n",
    b'HTTP/1.1 100 Continue\r\n\r\nHTTP/1.0 401 No\r\nWWW-Authenticate: Bearer scope="a b"\r\n\r\nno',
    b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 3\r\n\r\n\x1f\x8b\x08",
]
OBJECTS = [
    b'{"issuer":"https://a","scopes":["a","b"],"n":1.5e3,"o":{"deep":[{"x":null}]},"u":"\\ud83d\\ude00"}',
    b'{"access_token":"t","expires_in":3600,"token_type":"Bearer"}',
]
PROXIES = [b"http://user:p%40ss@proxy.example:3128/", b"proxy.example:3128", b"https://[fd00::1]", b"socks5://p:1080"]
EXEMPT = [b"*.example,10.0.0.0/8 [fd00::1]:443, .corp.example:8443,127.0.0.1", b"*", b"fd00::/8"]
TUNNELS = [b"HTTP/1.1 200 Connection established\r\nVia: x\r\n\r\n", b"HTTP/1.0 407 No\r\nContent-Length: 2\r\n\r\nno"]


class NotConnected(OSError):
    """What every connection of the test ends with."""


@pytest.mark.covers("SEC-44")
async def test_urls_and_addresses() -> None:
    dice = random.Random(7)
    pool = [*ADDRESSES, *damaged(ADDRESSES, 200)]
    judged: list[tuple[str, Sequence[str], Allowed]] = []
    connected: list[str] = []

    async def resolve(host: str, port: int) -> Sequence[str]:
        addresses = [dice.choice(pool).decode("latin-1") for _ in range(dice.randint(0, 3))]
        judged.append((host, addresses, allowed))
        await trio.lowlevel.checkpoint()
        return addresses

    async def dial(address: str, port: int) -> trio.SocketStream:
        await trio.lowlevel.checkpoint()
        host, addresses, allowed = judged[-1]
        assert address in {str(ip_address(text.partition("%")[0])) for text in addresses}
        for text in addresses:  # all of them, not this one alone
            each = ip_address(text.partition("%")[0])
            local = allowed.loopback_http and is_loopback(each)
            assert standing(each) is not Standing.NEVER
            assert standing(each) is Standing.PUBLIC or host in allowed.private_hosts or local, (host, text)
        connected.append(address)
        raise NotConnected

    fetcher = Fetcher({}, resolve=resolve, dial=dial)
    for url in damaged(URLS, COUNT):
        allowed = dice.choice(ALLOWED)
        with pytest.raises(FetchFailed):
            await fetcher.get(url.decode("latin-1"), allowed)
    assert connected


async def test_answers() -> None:
    said: list[bytes] = []

    async def resolve(host: str, port: int) -> Sequence[str]:
        await trio.lowlevel.checkpoint()
        return ["127.0.0.1"]

    async def dial(address: str, port: int) -> trio.SocketStream:
        await trio.lowlevel.checkpoint()
        ours, theirs = socket.socketpair()
        with theirs:
            theirs.sendall(said.pop()[:100_000])
            theirs.shutdown(socket.SHUT_WR)
            trio_socket = trio.socket.from_stdlib_socket(ours)
            peers.append(theirs.dup())
        return trio.SocketStream(trio_socket)

    peers: list[socket.socket] = []
    fetcher = Fetcher({}, resolve=resolve, dial=dial)
    answered = 0
    for answer in damaged(ANSWERS, COUNT):
        said.append(answer)
        with suppress(FetchFailed):
            fetched = await fetcher.get("http://127.0.0.1/", ALLOWED[2])
            assert 200 <= fetched.status <= 999
            assert len(fetched.body) <= MAX_BODY_BYTES
            fetched.json_object()
            answered += 1
        while peers:
            peers.pop().close()
    assert answered


def test_objects() -> None:
    for data in damaged(OBJECTS, COUNT):
        value = read_json_object(data)
        assert value is None or isinstance(value, dict)


def test_proxies() -> None:
    exempt = list(damaged(EXEMPT, COUNT, 2))
    for number, data in enumerate(damaged(PROXIES, COUNT)):
        environ = {"HTTPS_PROXY": data.decode("latin-1"), "NO_PROXY": exempt[number].decode("latin-1")}
        for host in ("as.example", "10.0.0.1", "fd00::1", "localhost"):
            with suppress(ProxyUnusable):
                proxy = proxy_for(environ, True, host, 443)
                assert proxy is None or (host != "localhost" and 0 < proxy.port < 65536)


async def test_tunnels() -> None:
    opened = 0
    for data in damaged(TUNNELS, COUNT):
        ours, theirs = socket.socketpair()
        with theirs:
            theirs.sendall(data[:100_000])
            theirs.shutdown(socket.SHUT_WR)
            async with trio.SocketStream(trio.socket.from_stdlib_socket(ours)) as stream:
                with suppress(ProxyRefusal):
                    await open_tunnel(stream, Proxy(False, "p", 1), "as.example", 443)
                    opened += 1
    assert opened
