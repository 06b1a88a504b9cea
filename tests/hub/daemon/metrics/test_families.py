"""What is told of a hub: what hosts asked, what was sent, gauges, and upstreams that come and go."""

import random
import re
from types import SimpleNamespace

import pytest
import trio

from hub.daemon.loop_stalls import LoopWatchdog
from hub.daemon.metrics.families import GONE_S, Families
from hub.telemetry.prometheus_text import write
from hub.wire.jsonrpc import Failure
from hub.wire.mcp import L4
from tests.journeys.test_journey_reload import change
from tests.support.fakes import FakeUpstream
from tests.support.house import a_house

SAMPLE = re.compile(r"([a-z0-9_]+)(?:\{(.*)\})? (\S+)")


def families_of(house, **left_out):
    reloader = SimpleNamespace(counts={"ok": 2, "error": 0}, problem=None, reasons_left_out=lambda: left_out)
    return Families(house.hub, reloader, LoopWatchdog())


def read(families):
    """The samples, by name and labels."""
    text = b"".join(text for texts in write(families.tell()) for text in texts).decode()
    found = [SAMPLE.fullmatch(line).groups(default="") for line in text.splitlines() if line[0] != "#"]
    assert len({each[:2] for each in found}) == len(found), "no series stands there twice"
    return {(name, labels): float(value) for name, labels, value in found}


def of(samples, name):
    return {labels: value for (each, labels), value in samples.items() if each == name and value}


@pytest.mark.covers("OM-2")
async def test_what_hosts_asked_and_what_was_sent(autojump_clock):
    fake = FakeUpstream(tools=["write"], resources=["note://a"])
    async with a_house({"files": fake}) as house:
        families = families_of(house)
        host, other = await house.host("lines", L4), await house.host("http", L4)
        await host.names("tools")
        await host.call("files__write", {"a": 1})
        fake.on["tools/call"] = lambda message, conversation: {"content": [], "isError": True}
        await other.call("files__write", {"a": 2})
        await host.ask("tools/call", {"name": "files__nothing", "arguments": {}})
        await host.ask("ping")
        await host.ask("nothing/like/this")
        found = read(families)
        call = 'mcp_method_name="tools/call"'
        assert of(found, "mcp_server_operation_duration_seconds_count") == {
            f'{call},network_transport="unix"': 1,
            f'{call},error_type="tool_error",network_transport="tcp"': 1,
            f'{call},error_type="-32602",network_transport="unix"': 1,
            'mcp_method_name="tools/list",network_transport="unix"': 1,
            'mcp_method_name="ping",network_transport="unix"': 1,
            'mcp_method_name="_OTHER",error_type="-32601",network_transport="unix"': 1,
        }
        write_ = f'hubd_upstream="files",{call},gen_ai_tool_name="write"'
        assert of(found, "mcp_client_operation_duration_seconds_count") == {
            write_: 1,
            f'{write_},error_type="tool_error"': 1,
        }
        assert set(of(found, "hubd_call_bytes_total")) == {
            f'hubd_upstream="files",direction="{direction}"' for direction in ("in", "out")
        }
        assert of(found, "hubd_upstream_state") == {'hubd_upstream="files",state="connected"': 1}
        assert of(found, "hubd_tools") == of(found, "hubd_upstream_sessions") == {'hubd_upstream="files"': 1}
        assert of(found, "hubd_tools_tokens")['hubd_upstream="files"'] > 1
        assert of(found, "hubd_hosts") == {f'network_transport="{each}"': 1 for each in ("tcp", "unix")}
        assert of(found, "hubd_config_reloads_total") == {'outcome="ok"': 2}
        assert of(found, "hubd_config_ok") == {"": 1}
        assert of(found, "process_open_fds")[""] > 3
        assert abs(of(found, "process_start_time_seconds")[""] - trio_wall()) < 86_400
        assert of(found, "hubd_inbox_items") == {}
        assert of(read(families_of(house, mail="a token")), "hubd_inbox_items") == {'kind="secret"': 1}
        await host.leave()
        assert of(read(families), "mcp_server_session_duration_seconds_count") == {'network_transport="unix"': 1}


def trio_wall():
    from hub.app import WALL

    return WALL()


@pytest.mark.covers("OM-6")
@pytest.mark.parametrize("names", [300, pytest.param(10_000, marks=[pytest.mark.everything, pytest.mark.timeout(900)])])
async def test_a_peer_that_invents_names_and_codes_adds_few_series(autojump_clock, names):
    fake = FakeUpstream(tools=["write"])
    codes = iter(range(-50_000, -33_000))
    fake.on["tools/call"] = lambda message, conversation: Failure(next(codes), "no")
    async with a_house({"files": fake}) as house:
        families = families_of(house)
        host = await house.host("lines", L4)
        for each in range(names):
            await host.ask("tools/call", {"name": f"files__x{each}", "arguments": {}})
            await host.ask("tools/call", {"name": "files__write", "arguments": {}})
            await host.ask(f"x/{each}")
        found = read(families)
        assert len(of(found, "mcp_client_operation_duration_seconds_count")) <= 21
        assert len(of(found, "mcp_server_operation_duration_seconds_count")) <= 22


@pytest.mark.covers("OM-7")
@pytest.mark.parametrize("seed", range(3))
async def test_counters_never_fall_whatever_is_reloaded(autojump_clock, seed):
    chance = random.Random(seed)
    fakes = {name: FakeUpstream(tools=["write"]) for name in ("a", "b", "c")}
    async with a_house(fakes) as house:
        families, configs, before = families_of(house), dict(house.hub.config.upstreams), {}
        host = await house.host("lines", L4)
        for _ in range(12):
            name = chance.choice(list(configs))
            there = name in house.hub.config.upstreams
            await change(house, {name: None if there else configs[name]})
            await trio.sleep(chance.choice([1, 60, GONE_S / 2]))
            for each in house.hub.config.upstreams:
                await host.ask("tools/call", {"name": f"{each}__write", "arguments": {}})
            found = read(families)
            counted = {
                key: value for key, value in found.items() if key[0].endswith(("_total", "_count", "_sum", "_bucket"))
            }
            for key, value in counted.items():
                assert value >= before.get(key, 0), key
            before |= counted


@pytest.mark.covers("OM-7")
async def test_what_is_gone_is_told_for_an_hour(autojump_clock):
    async with a_house({"files": FakeUpstream(tools=["write"])}) as house:
        families, config = families_of(house), house.hub.config.upstreams["files"]
        host = await house.host("lines", L4)
        await host.call("files__write", {})
        await change(house, {"files": None})
        name = "mcp_client_operation_duration_seconds_count"
        assert list(of(read(families), name).values()) == [1]
        await trio.sleep(GONE_S - 1)
        assert list(of(read(families), name).values()) == [1]
        await trio.sleep(2)
        assert of(read(families), name) == of(read(families), "hubd_call_bytes_total") == {}
        await change(house, {"files": config})
        assert list(of(read(families), name).values()) == [1]
