"""After a restart of the hub, hosts on `hubd connect` hear of the lists that differ, and of no others."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.support.commands import run_hubd
from tests.support.processes import HUBD, own_directories

LIMIT_S = 120
SERVER = """
import json, sys
names = open(sys.argv[1]).read().split()
tools = [{"name": name, "inputSchema": {"type": "object"}} for name in names]
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    reply = {"jsonrpc": "2.0", "id": message["id"]}
    if message["method"] == "initialize":
        can = {"tools": {}, "prompts": {}}
        about = {"name": "s", "version": "1"}
        version = message["params"]["protocolVersion"]
        reply["result"] = {"protocolVersion": version, "capabilities": can, "serverInfo": about}
    elif message["method"] == "tools/list":
        reply["result"] = {"tools": tools}
    elif message["method"] == "prompts/list":
        reply["result"] = {"prompts": [{"name": "p"}]}
    elif message["method"] == "tools/call":
        reply["result"] = {"content": [], "structuredContent": {"done": message["params"]["name"]}}
    elif message["method"] == "ping":
        reply["result"] = {}
    else:
        reply["error"] = {"code": -32601, "message": "no"}
    print(json.dumps(reply), flush=True)
"""


class Host:
    """A host on `hubd connect`, which starts its hub. `roots`: where it works, if it is asked."""

    def __init__(self, env, roots=()):
        pipe = subprocess.PIPE
        argv = [HUBD, "connect", "--host", "desk"]
        self._popen = subprocess.Popen(argv, stdin=pipe, stdout=pipe, env=env, text=True)
        self._limit = threading.Timer(LIMIT_S, self._popen.kill)
        self._limit.start()
        self._id = 0
        self.told = []
        """Methods of the notifications that came."""
        self.roots = [{"uri": uri} for uri in roots]
        self.answers = True
        self.question = None
        """The last one, by its id."""

    def begin(self):
        """The handshake."""
        capabilities = {"roots": {}} if self.roots else {}
        about = {"name": "desk", "version": "1"}
        self.ask("initialize", protocolVersion="2025-11-25", capabilities=capabilities, clientInfo=about)
        self.say(method="notifications/initialized")

    def say(self, **message):
        self._popen.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        self._popen.stdin.flush()

    def hear(self):
        line = self._popen.stdout.readline()
        assert line, "the shim has ended"
        message = json.loads(line)
        if "id" not in message:
            self.told.append(message["method"])
        elif message.get("method") == "roots/list":
            self.question = message["id"]
            if self.answers:
                self.answer()
        return message

    def answer(self):
        self.say(id=self.question, result={"roots": self.roots})
        self.question = None

    def ask(self, method, **params):
        self._id += 1
        self.say(id=self._id, method=method, params=params)
        while (message := self.hear()).get("id") != self._id or "method" in message:
            pass
        return message.get("result")

    def close(self):
        self._popen.stdin.close()
        self._popen.wait(30)
        self._popen.stdout.close()
        self._limit.cancel()


@pytest.fixture
def place(tmp_path):
    """The environment of a hub whose one server offers the tools named in a file."""
    env = own_directories(tmp_path)
    (tmp_path / "server.py").write_text(SERVER)
    (tmp_path / "tools").write_text("one two")
    args = json.dumps([str(tmp_path / "server.py"), str(tmp_path / "tools")])
    config = Path(env["XDG_CONFIG_HOME"], "hubd", "hubd.toml")
    config.parent.mkdir(parents=True)
    server = f"[upstreams.files]\ncommand = {json.dumps(sys.executable)}\nargs = {args}\n"
    config.write_text(f'listen = "127.0.0.1:0"\n{server}')
    yield env
    run_hubd(["stop"], env)


def kill_hub(env):
    os.kill(int(Path(env["XDG_RUNTIME_DIR"], "hubd", "hubd.lock").read_text()), signal.SIGKILL)


def names(host):
    return [tool["name"] for tool in host.ask("tools/list")["tools"]]


def call_twice(host):
    """Until the hub has said its digests: a task of it does, while it answers lists at once, but not calls."""
    for _ in range(2):
        assert host.ask("tools/call", name="files__one", arguments={})["structuredContent"] == {"done": "one"}


@pytest.mark.covers("F-H-22")
def test_only_lists_that_differ_are_announced(place, tmp_path):
    with contextlib.closing(Host(place)) as host:
        host.begin()
        for _ in range(3):
            assert names(host) == ["files__one", "files__two"]
        call_twice(host)
        host.told.clear()
        for _ in range(2):
            kill_hub(place)
            for _ in range(3):  # by the second answer of the new hub the first ones have passed whatever came before
                assert names(host) == ["files__one", "files__two"]
            call_twice(host)
            assert host.told == []
        (tmp_path / "tools").write_text("one three")
        kill_hub(place)
        while "notifications/tools/list_changed" not in host.told:
            host.ask("ping")
        assert names(host) == ["files__one", "files__three"]
        assert set(host.told) == {"notifications/tools/list_changed"}


@pytest.fixture
def shop(place, tmp_path):
    """A folder with a server of its own, which the user allows; its tools are named in a file there."""
    shop = tmp_path / "shop"
    shop.mkdir()
    (shop / "tools").write_text("buy sell")
    entry = {"command": sys.executable, "args": [str(tmp_path / "server.py"), str(shop / "tools")]}
    (shop / ".mcp.json").write_text(json.dumps({"mcpServers": {"till": entry}}))
    run_hubd(["trust", shop, "--yes"], place, check=True)
    return shop


BOTH = ["files__one", "files__two", "till__buy", "till__sell"]


def works_in_project(host):
    """Until the host is shown the server of its project; it asks for no list."""
    while (host.ask("tools/call", name="till__buy", arguments={}) or {}).get("structuredContent") != {"done": "buy"}:
        pass


@contextlib.contextmanager
def at_work(place, shop):
    """A host that works in `shop`, which only its roots say, and has seen all lists."""
    with contextlib.closing(Host(place, [shop.as_uri()])) as host:
        host.begin()
        while names(host) != BOTH:
            while "notifications/tools/list_changed" not in host.told:
                host.ask("ping")
            host.told.clear()
        works_in_project(host)
        for _ in range(2):  # by then the hub has said what it shows
            names(host)
        host.told.clear()
        yield host


@pytest.mark.covers("F-H-22")
def test_the_lists_of_a_project_that_roots_name_are_not_announced_if_they_are_equal(place, shop):
    with at_work(place, shop) as host:
        for _ in range(2):
            kill_hub(place)
            works_in_project(host)
            for _ in range(3):
                assert names(host) == BOTH
            assert host.told == []
        (shop / "tools").write_text("buy lend")
        kill_hub(place)
        works_in_project(host)
        while "notifications/tools/list_changed" not in host.told:
            host.ask("ping")
        assert names(host) == ["files__one", "files__two", "till__buy", "till__lend"]
        assert set(host.told) == {"notifications/tools/list_changed"}


@pytest.mark.covers("F-H-22")
def test_a_host_that_asks_before_it_is_known_where_it_works_is_told_of_what_it_asked_for(place, shop):
    with at_work(place, shop) as host:
        host.answers = False
        kill_hub(place)
        while host.question is None:
            host.ask("ping")
        assert names(host) == BOTH[:2]
        host.answer()
        works_in_project(host)
        while "notifications/tools/list_changed" not in host.told:
            host.ask("ping")
        for _ in range(3):
            assert names(host) == BOTH
