"""The first list of a host whose `hubd connect` has to start the hub: real processes, one of which hangs. And what is
asked about tools meanwhile."""

import json
import sys
from time import perf_counter

import pytest
import trio

from config.security_settings import PolicyConfig
from tests.support.fakes import FakeUpstream
from tests.support.house import a_house
from tests.support.processes import HUBD, own_directories, running
from tests.support.restarts import wait_until_written

SERVERS = 6
GRACE_S = 40
"""Far longer than anything here takes."""
INITIALIZE = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "host", "version": "1"}}


def config(grace_s):
    demo = f"command = {json.dumps(sys.executable)}\nargs = ['-m', 'upstreams.demo']\n"
    tables = "".join(f"[upstreams.s{number}]\n{demo}" for number in range(SERVERS))
    hangs = '[upstreams.hangs]\ncommand = "sleep"\nargs = ["999"]\n'
    return f'listen = "127.0.0.1:0"\nstartup_grace_s = {grace_s}\n{tables}{hangs}'


@pytest.mark.covers("FH-7")
def test_a_server_that_hangs_delays_no_list_of_a_cold_start(tmp_path):
    env = own_directories(tmp_path)
    file = tmp_path / "xdg_config_home" / "hubd" / "hubd.toml"
    file.parent.mkdir()
    file.write_text(config(2))
    with running([HUBD, "serve"], tmp_path / "first.log", env=env, forked=True) as first:
        first.wait_for("/mcp")
        state = tmp_path / "xdg_state_home" / "hubd"
        for number in range(SERVERS):
            wait_until_written(state / "catalogue" / f"s{number}.json", "tools")
        wait_until_written(state / "memory.json", '"late":{"')
    file.write_text(config(GRACE_S))
    begun = perf_counter()
    with running([HUBD, "connect"], tmp_path / "connect.log", env=env, forked=True) as shim:
        try:
            for id, method, params in ((1, "initialize", INITIALIZE), (2, "tools/list", {})):
                message = {"jsonrpc": "2.0", "id": id, "method": method, "params": params}
                shim.write(json.dumps(message).encode() + b"\n")
                answer = shim.wait_for(f'"id":{id}\\b')
            assert perf_counter() - begun < GRACE_S / 2
            assert len(json.loads(answer.string)["result"]["tools"]) == SERVERS * 6
        finally:
            with running([HUBD, "stop"], tmp_path / "stop.log", env=env, forked=True) as stop:
                stop.exit_code()


@pytest.mark.parametrize("asked", ["policy", "explanation", "use"])
async def test_who_asks_about_tools_waits_as_the_first_list_does(autojump_clock, asked):
    files = FakeUpstream(tools=["read"])

    async def list_late(message, conversation):
        await trio.sleep(1)
        return files.answer(message)

    files.on["tools/list"] = list_late
    async with a_house({"files": files}, policy=PolicyConfig(deny=("files__write",))) as house:
        if asked == "policy":
            names = [row.name for row in (await house.api.policy()).rows]
        elif asked == "explanation":
            names = [(await house.api.explain_policy("files__read")).row.name]
        else:
            names = [each.name for each in (await house.api.tool_use()).tools]
        assert names == ["files__read"]
