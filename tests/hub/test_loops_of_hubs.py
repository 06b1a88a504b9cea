"""Hubs that are configured as their own upstreams, directly or in a ring."""

import contextlib
import json
import subprocess

import pytest

from hub.linux.child_marks import MARKER, MAX_DEPTH
from tests.support.attached import DEMO, hubd
from tests.support.looking import servers, until, until_connected
from tests.support.processes import HUBD, free_port, own_directories, running_hub


def tools(hub):
    return {tool["name"] for tool in json.loads(hubd(hub, "tools", "--json").stdout)}


def depth(hub):
    """How many hubs the longest name of a tool leads through."""
    return max(name.count("next__") for name in tools(hub))


def is_cut(hub):
    """Whether it has found that a server of its own leads back to it."""
    return any("leads back to this hub" in str(row["last_error"]) for row in servers(hub.env).values())


def web(name, port):
    return f'[upstreams.{name}]\nurl = "http://127.0.0.1:{port}/mcp"\n'


@pytest.mark.covers("F-D-17")
@pytest.mark.parametrize("way", ["connect", "http"])
def test_a_hub_that_is_its_own_upstream_says_so(tmp_path, way):
    port = free_port()
    if way == "connect":
        loop = f'[upstreams.me]\ncommand = "{HUBD}"\nargs = ["connect"]\n'
        loop += "[upstreams.me.env]\n" + f'XDG_RUNTIME_DIR = "{tmp_path / "run"}"\n'
    else:
        loop = web("me", port)
    with listening(tmp_path, DEMO + loop, port) as hub:
        me = until(hub.env, lambda upstreams: upstreams["me"]["state"] == "failed")["me"]
        assert "me leads back to this hub: remove" in me["last_error"]
        assert all(name.startswith("demo__") for name in tools(hub))
        done = hubd(hub, "call", "me__demo__add", "a=2", "b=40")
        assert done.returncode == 1
        assert hubd(hub, "call", "demo__add", "a=2", "b=40").stdout.strip() == "2 + 40 = 42"


@pytest.mark.covers("F-D-17")
def test_a_ring_of_three_is_cut(tmp_path):
    """Each has a demo and the next one; the ring is closed last, by the one that started first."""
    ports = [free_port() for _ in range(3)]
    with contextlib.ExitStack() as stack:
        hubs = []
        for at in range(3):
            following = web("next", ports[(at + 1) % 3])
            hubs.append(stack.enter_context(listening(tmp_path / str(at), DEMO + following, ports[at])))
        for hub in hubs:
            hubd(hub, "restart", "next")
        until(hubs[0].env, lambda _: any(is_cut(hub) for hub in hubs) and all(depth(hub) <= 3 for hub in hubs))
        for hub in hubs:
            assert hubd(hub, "call", "demo__add", "a=2", "b=40").stdout.strip() == "2 + 40 = 42"
            assert depth(hub) <= 3


@pytest.mark.covers("F-D-17")
def test_a_chain_is_no_ring(tmp_path):
    port = free_port()
    with (
        listening(tmp_path / "b", DEMO, port) as _,
        listening(tmp_path / "a", web("far", port) + web("twice", port), free_port()) as near,
    ):
        until_connected(near.env)
        assert hubd(near, "call", "far__demo__add", "a=2", "b=40").stdout.strip() == "2 + 40 = 42"
        assert "twice__demo__add" in tools(near)


@pytest.mark.covers("F-D-17")
def test_hubs_that_start_each_other_come_to_an_end(tmp_path):
    mark = ",".join(f"{number}.1.elsewhere.token.1" for number in range(MAX_DEPTH + 1))
    env = {**own_directories(tmp_path), MARKER: mark}
    done = subprocess.run([HUBD, "serve", "--stdio"], env=env, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 78
    assert "does the configuration of one start a hub?" in done.stderr


@contextlib.contextmanager
def listening(directory, config, port):
    directory.mkdir(exist_ok=True)
    with running_hub(directory, config, auth="none", listen=f"127.0.0.1:{port}") as hub:
        yield hub
