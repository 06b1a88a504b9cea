"""Upstreams behind a proxy: tunnels for https, whole URLs for http, and what is said if the proxy does not want to."""

import json
import ssl
from functools import partial
from pathlib import Path

import pytest
import trio
from cryptography import x509

from config.setting_declarations import Secret
from config.settings import UpstreamConfig
from hub.link.call_interface import Operation
from hub.link.hub_errors import Executed, UpstreamUnavailable
from hub.wire.jsonrpc import Result, raw
from tests.support.authority import Authority
from tests.support.http_fixture import TEXT, TIMEOUTS, Ear, run
from tests.support.http_peer import PeerRequest, Script, Talk, http_peer
from tests.support.processes import free_port
from tests.support.proxy_peer import ProxyPeer, proxy_peer
from upstreams.session_contract import Session
from upstreams.transports.connect_to_url import Url, on_its_way, parse_url
from upstreams.transports.http.client import HttpClient

FAR = "far.example"
SECRET = "s3cret"


def config_for(port: int, host: str = FAR) -> UpstreamConfig:
    return UpstreamConfig(url=f"http://{host}:{port}/mcp?a=b", headers={"X-Key": Secret("k")})


async def call(session: Session) -> object:
    reply = await session.call(Operation("tools/call", {"name": raw("t"), "arguments": raw({})}), Ear(), TIMEOUTS)
    assert isinstance(reply, Result), reply
    return json.loads(bytes(reply.value))


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_http_through_a_proxy(era: str) -> None:
    async with http_peer(Script(era)) as peer, proxy_peer() as proxy, trio.open_nursery() as nursery:
        proxy.routes[f"{FAR}:{peer.port}"] = peer.port
        environ = {"http_proxy": proxy.url.replace("//", f"//me:{SECRET}@")}
        session = await nursery.start(partial(run, config_for(peer.port), environ=environ))
        assert await call(session) == TEXT
        nursery.cancel_scope.cancel()
    assert {line.split()[1] for line in proxy.lines} == {f"http://{FAR}:{peer.port}/mcp?a=b"}
    assert all("Proxy-Authorization: Basic bWU6czNjcmV0" in head for head in proxy.heads)
    assert all(request.target == "/mcp?a=b" for request in peer.requests)
    assert all(request.headers["host"] == f"{FAR}:{peer.port}" for request in peer.requests)
    assert not any("proxy-authorization" in request.headers for request in peer.requests)


def tunnelled(proxy: ProxyPeer, port: int, user: str = "") -> Url:
    environ = {"HTTPS_PROXY": proxy.url.replace("//", f"//{user}")}
    return on_its_way(parse_url(f"https://{FAR}:{port}/mcp"), environ)


async def ok(request: PeerRequest, talk: Talk) -> None:
    await talk.reply({"a": 1})


async def test_https_through_a_tunnel(tmp_path: Path) -> None:
    authority = Authority()
    async with http_peer(ok, tls=authority.server(tmp_path, x509.DNSName(FAR))) as peer, proxy_peer() as proxy:
        proxy.routes[f"{FAR}:{peer.port}"] = peer.port
        url = tunnelled(proxy, peer.port, f"me:{SECRET}@")
        client = HttpClient("far", url, {"Proxy-Authorization": "of the configuration"}, tls=authority.trust())
        for _ in range(3):
            with await client.request("POST", body=b"{}") as reply:
                assert await reply.read() == b'{"a":1}'
        client.close()
    assert proxy.lines == [f"CONNECT {FAR}:{peer.port} HTTP/1.1"]  # and is kept
    assert "Proxy-Authorization: Basic bWU6czNjcmV0" in proxy.heads[0]
    assert peer.connections == 1
    assert all(request.target == "/mcp" for request in peer.requests)
    assert not any("proxy-authorization" in request.headers for request in peer.requests)


async def refused(url: Url, tls: ssl.SSLContext | None = None) -> str:
    client = HttpClient("far", url, tls=tls, connect_s=5)
    with pytest.raises(UpstreamUnavailable) as caught:
        await client.request("POST", body=b"{}")
    client.close()
    assert caught.value.executed is Executed.NO
    assert SECRET not in str(caught.value)
    assert url.proxy is not None
    prefix = f"The server far cannot be reached at {url.origin}: "
    assert str(caught.value).startswith(prefix)
    return str(caught.value).removeprefix(prefix).replace(url.proxy.authority, "HOST:PORT")


async def test_the_certificate_in_a_tunnel_is_verified(tmp_path: Path) -> None:
    authority = Authority()
    tls = authority.server(tmp_path, x509.DNSName("other.example"))
    async with http_peer(ok, tls=tls) as peer, proxy_peer() as proxy:
        proxy.routes[f"{FAR}:{peer.port}"] = peer.port
        said = await refused(tunnelled(proxy, peer.port), authority.trust())
    assert said.startswith("its certificate is not trusted")
    assert not peer.requests


@pytest.mark.parametrize(
    ("answer", "user", "says"),
    [
        (b"HTTP/1.1 403 No\r\n\r\n", "", "the proxy HOST:PORT refuses to connect (status 403)"),
        (
            b"HTTP/1.1 407 No\r\n\r\n",
            "",
            "the proxy HOST:PORT wants a user name and a password (status 407); "
            "write them into the URL of the proxy variable",
        ),
        (
            b"HTTP/1.1 407 No\r\n\r\n",
            f"me:{SECRET}@",
            "the proxy HOST:PORT wants other credentials (status 407); write them into the URL of the proxy variable",
        ),
        (b"SSH-2.0\r\n\r\n", "", "the proxy HOST:PORT does not answer in HTTP"),
    ],
)
async def test_a_proxy_that_opens_no_tunnel(answer: bytes, user: str, says: str) -> None:
    async with proxy_peer(answer) as proxy:
        assert await refused(tunnelled(proxy, 1, user)) == says


async def test_a_proxy_that_is_not_there() -> None:
    url = on_its_way(parse_url(f"http://{FAR}/mcp"), {"http_proxy": f"http://me:{SECRET}@127.0.0.1:{free_port()}"})
    assert await refused(url) == "the proxy HOST:PORT cannot be reached: connection refused"


async def test_a_proxy_that_says_nothing(autojump_clock: trio.abc.Clock) -> None:
    listener = (await trio.open_tcp_listeners(0, host="127.0.0.1"))[0]
    environ = {"https_proxy": f"127.0.0.1:{listener.socket.getsockname()[1]}"}
    said = await refused(on_its_way(parse_url(f"https://{FAR}/mcp"), environ))
    assert said == "no connection through the proxy HOST:PORT within 5 seconds"
    await listener.aclose()


async def test_a_proxy_that_does_not_forward() -> None:
    async with proxy_peer(b"HTTP/1.1 407 No\r\nContent-Length: 6\r\n\r\ns3cret") as proxy:
        with pytest.raises(UpstreamUnavailable, match=r"the proxy 127.0.0.1:\d+ wants a user name") as caught:
            await run(config_for(1), environ={"HTTP_PROXY": proxy.url})
        assert SECRET not in str(caught.value)


async def test_a_variable_that_names_no_proxy() -> None:
    with pytest.raises(UpstreamUnavailable, match="far cannot be reached: ALL_PROXY names a proxy of another kind"):
        await run(config_for(1), environ={"ALL_PROXY": "socks5://p:1"})


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_loopback_goes_straight(host: str) -> None:
    async with http_peer(Script("modern")) as peer, trio.open_nursery() as nursery:
        environ = {"ALL_PROXY": "http://127.0.0.1:1"}
        session = await nursery.start(partial(run, config_for(peer.port, host), environ=environ))
        assert await call(session) == TEXT
        nursery.cancel_scope.cancel()
    assert peer.requests[0].target == "/mcp?a=b"


def test_without_a_proxy_nothing_is_different() -> None:
    url = parse_url("http://far.example/mcp")
    assert on_its_way(url, {"NO_PROXY": "far.example", "HTTP_PROXY": "http://p:1"}) is url
    assert url.request_start("POST", "") == "POST /mcp HTTP/1.1\r\n"
    assert SECRET not in repr(on_its_way(url, {"HTTP_PROXY": f"http://me:{SECRET}@p:1"}))
