"""A hub that ends while hosts over HTTP are at work in a project, which only their roots say, and the hub after it."""

import contextlib
import http.client
import json
import signal
import sys

import pytest

from hub.wire.mcp import CLIENT_CAPABILITIES_KEY, MODERN, VERSION_KEY
from hub.wire.vocabulary import LIST_FLAGS
from tests.support.attached import hubd
from tests.support.processes import PYTHON_1, ROOT, free_port, running
from tests.support.restarts import TICK, a_run, kill, state
from tests.support.rooted import Rooted

ROOTED = ROOT / "tests" / "real" / "hosts" / "rooted.py"
CHANGED = [f"notifications/{kind}/list_changed" for kind in ("tools", "prompts", "resources")]
INITIALIZE = {
    "protocolVersion": "2025-11-25",
    "capabilities": {"roots": {"listChanged": True}},
    "clientInfo": {"name": "test", "version": "1"},
}
BOTH = ["files__one", "files__two", "till__buy", "till__sell"]


class Session:
    """A legacy host over HTTP, at work in `root`; each request has a connection of its own."""

    def __init__(self, root):
        self._root = root
        self._ids = iter(range(1, 1000))
        self._listening = None
        self.id = None
        self.hub = None

    def _connect(self):
        return http.client.HTTPConnection(self.hub.url.split("/")[2], timeout=60)

    def post(self, message):
        """The status and the message that a message is answered with."""
        headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
        if self.id is not None:
            headers["Mcp-Session-Id"] = self.id
        with contextlib.closing(self._connect()) as connection:
            connection.request("POST", "/mcp", json.dumps({"jsonrpc": "2.0", **message}), headers)
            response = connection.getresponse()
            text = response.read().decode()
        self.id = response.headers.get("Mcp-Session-Id", self.id)
        lines = [line.removeprefix("data:") for line in text.splitlines() if line.startswith("data:") and len(line) > 6]
        return response.status, json.loads(lines[-1] if lines else text or "null")

    def ask(self, method, **params):
        status, message = self.post({"id": next(self._ids), "method": method, "params": params})
        assert status == 200, message
        return message["result"]

    def names(self):
        return [tool["name"] for tool in self.ask("tools/list")["tools"]]

    @contextlib.contextmanager
    def listening(self):
        """With the stream on which it is told all that belongs to no request."""
        with contextlib.closing(self._connect()) as connection:
            connection.request("GET", "/mcp", headers={"Accept": "text/event-stream", "Mcp-Session-Id": self.id})
            with contextlib.closing(connection.getresponse()) as self._listening:
                assert self._listening.status == 200
                yield

    def hear(self):
        """The method of the next message of the stream; asked where it works, it says so."""
        while line := self._listening.readline().decode():
            if line.startswith("data:") and len(line) > 7:
                message = json.loads(line.removeprefix("data:"))
                if message["method"] == "roots/list":
                    assert self.post({"id": message["id"], "result": {"roots": [{"uri": self._root}]}})[0] == 202
                return message["method"]
        raise AssertionError("the stream has ended")


SERVER = """
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    result = {}
    if message["method"] == "initialize":
        about = {"name": "s", "version": "1"}
        version = message["params"]["protocolVersion"]
        result = {"protocolVersion": version, "capabilities": {"tools": {}, "prompts": {}}, "serverInfo": about}
    elif message["method"] == "tools/list":
        names = open(sys.argv[1]).read().split()
        result = {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in names]}
    elif message["method"] == "prompts/list":
        result = {"prompts": [{"name": "p"}]}
    elif message["method"] == "tools/call":
        result = {"content": [{"type": "text", "text": message["params"]["name"]}]}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"""


@pytest.fixture
def shop(tmp_path):
    """A folder with a server of its own, whose tools are named in a file there."""
    shop = tmp_path / "shop"
    shop.mkdir()
    (tmp_path / "server.py").write_text(SERVER)
    (tmp_path / "tools").write_text("one two")
    (shop / "tools").write_text("buy sell")
    entry = {"command": sys.executable, "args": [str(tmp_path / "server.py"), str(shop / "tools")]}
    (shop / ".mcp.json").write_text(json.dumps({"mcpServers": {"till": entry}}))
    return shop


def config(shop, *, chosen=("*",)):
    """A hub with one server for everybody, of which these tools are `chosen`; they are named in a file."""
    args = [str(shop.parent / "server.py"), str(shop.parent / "tools")]
    command = f"command = {json.dumps(sys.executable)}\nargs = {json.dumps(args)}\n"
    return f"[upstreams.files]\n{command}tools = {json.dumps(chosen)}\n"


def succeeds(command):
    assert command.returncode == 0, command.stderr


def choose(hub, shop, *tools):
    """Show other tools of the common server from now on, so that nothing but lists of tools differs."""
    hub.config.write_text(config(shop, chosen=tools))
    succeeds(hubd(hub, "reload"))


def kept(hub):
    """The journal of the sessions, as far as it is on disk."""
    with contextlib.suppress(FileNotFoundError):
        return json.loads(state(hub, "sessions.json").read_text())["sections"]
    return {}


def wait_until_kept(hub, lists=None):
    """Until the journal has where the host works, and its lists there, in another run than those `lists`, if they are
    given; returns what the host was shown."""
    for _ in range(1200):
        for _, run, _, _, missed, view, workplace in kept(hub).get("kept", {}).values():
            shown = kept(hub)["lists"].get(run, {}).get(view)
            if workplace and not missed and shown and lists in (None, shown):
                return shown
        TICK.wait(0.05)
    raise AssertionError(kept(hub))


@pytest.mark.covers("F-H-22")
def test_a_host_over_http_is_told_of_the_lists_that_differ_and_of_no_others(tmp_path, shop):
    host = Session(shop.as_uri())
    with a_run(tmp_path, config(shop)) as host.hub:
        port = int(host.hub.url.split(":")[2].split("/")[0])
        succeeds(hubd(host.hub, "trust", shop, "--yes"))
        host.ask("initialize", **INITIALIZE)
        host.post({"method": "notifications/initialized"})
        with host.listening():
            assert [host.hear() for _ in range(4)] == ["roots/list", *CHANGED]
            assert host.names() == BOTH
            host.hub.process.signalled(signal.SIGTERM, patience_s=60)
        shown = wait_until_kept(host.hub)
    with a_run(tmp_path, config(shop), port) as host.hub:
        assert host.ask("tools/call", name="till__sell", arguments={})["content"][0]["text"] == "sell"
        with host.listening():
            assert host.hear() == "roots/list"
            assert host.names() == BOTH
            for chosen in (["one"], ["*"]):  # one announcement each, so that one too many is seen
                choose(host.hub, shop, *chosen)
                assert host.hear() == CHANGED[0]
            assert host.names() == BOTH
            wait_until_kept(host.hub, shown)
            kill(host.hub)
    (shop / "tools").write_text("buy lend")
    with a_run(tmp_path, config(shop), port) as host.hub, host.listening():
        assert {host.hear() for _ in range(2)} == {"roots/list", CHANGED[0]}
        assert host.names() == [*BOTH[:3], "till__lend"]


def modern(method, **params):
    """A request of a modern host that has roots, and the header fields that repeat a part of it."""
    capabilities = {"roots": {"listChanged": True}}
    params["_meta"] = {VERSION_KEY: MODERN, CLIENT_CAPABILITIES_KEY: capabilities}
    headers = {
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": MODERN,
        "Mcp-Method": method,
    }
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}), headers


def modern_names(hub):
    """The tools that a modern host is shown."""
    with contextlib.closing(http.client.HTTPConnection(hub.url.split("/")[2], timeout=60)) as connection:
        connection.request("POST", "/mcp", *modern("tools/list"))
        return [tool["name"] for tool in json.loads(connection.getresponse().read())["result"]["tools"]]


@contextlib.contextmanager
def modern_listening(hub):
    """The methods of what a modern host is told of lists, as they come."""
    body, headers = modern("subscriptions/listen", notifications=dict.fromkeys(LIST_FLAGS, True))
    with contextlib.closing(http.client.HTTPConnection(hub.url.split("/")[2], timeout=60)) as connection:
        connection.request("POST", "/mcp", body, headers)
        with contextlib.closing(connection.getresponse()) as response:
            assert response.status == 200
            lines = iter(response.readline, b"")
            yield (json.loads(line[5:])["method"] for line in lines if line.startswith(b"data:") and len(line) > 7)


@pytest.mark.covers("F-H-22")
def test_a_modern_host_over_http_is_not_asked_where_it_works_and_hears_of_what_changes(tmp_path, shop):
    port = free_port()
    for run in range(2):
        with a_run(tmp_path, config(shop), port) as hub:
            if not run:
                succeeds(hubd(hub, "trust", shop, "--yes"))
            with modern_listening(hub) as told:
                assert next(told) == "notifications/subscriptions/acknowledged"
                assert modern_names(hub) == BOTH[:2]
                for chosen in (["one"], ["*"]):  # one announcement each, so that one too many is seen
                    choose(hub, shop, *chosen)
                    assert next(told) == CHANGED[0]
                hub.process.signalled(signal.SIGKILL, patience_s=60)


@pytest.mark.real
@pytest.mark.covers("F-H-22")
def test_a_host_on_an_sdk_goes_on_in_its_project_and_hears_nothing(tmp_path, shop):
    with contextlib.ExitStack() as stack:
        with a_run(tmp_path, config(shop)) as hub:
            port = int(hub.url.split(":")[2].split("/")[0])
            succeeds(hubd(hub, "trust", shop, "--yes"))
            process = stack.enter_context(running([PYTHON_1, ROOTED, hub.url, shop.as_uri()], tmp_path / "host.log"))
            host = Rooted(process)
            while host.tell("tools") != BOTH:
                host.tell("changed")
            before = len(host.tell("heard"))
            hub.process.signalled(signal.SIGTERM, patience_s=60)
        with a_run(tmp_path, config(shop), port) as hub:
            assert host.tell("call", "till__sell")["content"][0]["text"] == "sell"
            assert host.tell("tools") == BOTH
            told = []
            for chosen in (["one"], ["*"]):  # one announcement each, so that one too many is seen
                choose(hub, shop, *chosen)
                told.append(CHANGED[0])
                while host.tell("heard")[before:].count(CHANGED[0]) < len(told):
                    host.tell("changed")
            assert host.tell("heard")[before:] == told
