"""A real server that only a proxy reaches."""

import json
import os
from functools import partial

import pytest
import trio

from config.settings import UpstreamConfig
from hub.link.call_interface import Operation
from hub.wire.jsonrpc import Result, raw
from tests.real.recorded import OFFICIAL
from tests.support.http_fixture import TIMEOUTS, Ear, run
from tests.support.processes import free_port, running
from tests.support.proxy_peer import proxy_peer

SERVER = OFFICIAL / "server-everything" / "dist" / "index.js"


@pytest.fixture
def port(tmp_path):
    env = {**os.environ, "PORT": str(free := free_port())}
    with running(["node", SERVER, "streamableHttp"], tmp_path / "log", env=env, merged=True) as server:
        server.wait_for(f"port {free}")
        yield free


async def test_a_call_through_a_proxy(port):
    async with proxy_peer() as proxy, trio.open_nursery() as nursery:
        proxy.routes[f"far.example:{port}"] = port
        config = UpstreamConfig(url=f"http://far.example:{port}/mcp", headers={})
        session = await nursery.start(partial(run, config, environ={"http_proxy": proxy.url}))
        params = {"name": raw("echo"), "arguments": raw({"message": "through"})}
        reply = await session.call(Operation("tools/call", params), Ear(), TIMEOUTS)
        assert isinstance(reply, Result), reply
        assert "through" in json.loads(bytes(reply.value))["content"][0]["text"]
        nursery.cancel_scope.cancel()
    assert proxy.lines
    assert all(f" http://far.example:{port}/mcp " in line for line in proxy.lines)
