"""Projects with real processes: `hubd connect` in a folder, `hubd trust`, a real server, and a real SDK over HTTP."""

import contextlib
import json
import sys

import psutil
import pytest

from hub.wire.mcp import L4
from tests.support.attached import children, hubd
from tests.support.attached import upstream as scripted
from tests.support.processes import HUBD, PYTHON_1, ROOT, running, running_hub
from tests.support.rooted import Rooted

DEMO = {"command": sys.executable, "args": ["-I", "-m", "upstreams.demo"]}
FILES = {
    ".mcp.json": json.dumps({"mcpServers": {"shop": DEMO}}),
    ".hubd.toml": f"[upstreams.shop]\ncommand = {json.dumps(sys.executable)}\nargs = ['-I', '-m', 'upstreams.demo']\n",
}
COMMON = scripted("common", {})
CHANGED = "notifications/tools/list_changed"
ROOTED = ROOT / "tests" / "real" / "hosts" / "rooted.py"


class Shim:
    """A host that speaks through `hubd connect`."""

    def __init__(self, process):
        self._process = process
        self._id = 0
        self._changed = False
        about = {"name": "host", "version": "1"}
        self.ask("initialize", {"protocolVersion": L4, "capabilities": {}, "clientInfo": about})
        self._send({"method": "notifications/initialized"})

    def _send(self, message):
        self._process.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    def _receive(self):
        message = json.loads(self._process.wait_for("^{.*")[0])
        self._changed |= message.get("method") == CHANGED
        return message

    def ask(self, method, params):
        self._id += 1
        self._send({"id": self._id, "method": method, "params": params})
        while (message := self._receive()).get("id") != self._id:
            pass
        return message

    def tools(self):
        return {tool["name"] for tool in self.ask("tools/list", {})["result"]["tools"]}

    def servers(self):
        return {name.partition("__")[0] for name in self.tools()}

    def wait_for_servers(self, *names):
        """Until it is shown just these; it looks again whenever it hears that something changed."""
        while self.servers() != set(names):
            while not self._changed:
                self._receive()
            self._changed = False


HOST = "import subprocess, sys; sys.exit(subprocess.call(sys.argv[1:]))"
"""A host, which is no parent of the person's commands."""


@contextlib.contextmanager
def connected(hub, directory, *options):
    directory.mkdir(parents=True, exist_ok=True)
    log = directory.parent / f"{directory.name}.log"
    from_a_shell = ["sh", "-c", '"$@"; exit', "sh"]  # else the host and this process are one program
    argv = [*from_a_shell, sys.executable, "-c", HOST, HUBD, "connect", *options]
    with running(argv, log, env=hub.env, cwd=directory) as process:
        yield Shim(process)


def demos(hub):
    """The processes of the project's server, and where they are at work."""
    return {each: each.cwd() for each in children(hub) if "upstreams.demo" in each.cmdline()}


def status(hub):
    return json.loads(hubd(hub, "status", "--json").stdout)


def done(command):
    assert command.returncode == 0, command.stderr
    return command.stdout


@pytest.mark.parametrize("name", FILES)
def test_a_project_from_its_first_host_to_the_end_of_trust(tmp_path, name):
    shop = tmp_path / "shop"
    shop.mkdir()
    (shop / name).write_text(FILES[name])
    with (
        running_hub(tmp_path, COMMON) as hub,
        connected(hub, shop / "src") as inside,
        connected(hub, tmp_path / "elsewhere") as outside,
    ):
        assert inside.tools() == outside.tools() == {"common__echo"}
        assert demos(hub) == {}, "nothing is started that was not allowed"
        assert any(f"hubd trust {shop}" in warning for warning in status(hub)["warnings"])

        assert "upstreams.demo" in done(hubd(hub, "trust", shop, "--yes"))
        inside.wait_for_servers("common", "shop")
        assert outside.tools() == {"common__echo"}
        call = {"name": "shop__echo", "arguments": {"text": "hello"}}
        assert inside.ask("tools/call", call)["result"]["content"][0]["text"] == "hello"
        assert outside.ask("tools/call", call)["error"]["code"] == -32602
        look_at_it(hub, shop, inside)

        (shop / name).write_text(FILES[name] + " ")
        while not status(hub)["warnings"]:
            pass
        assert "shop__echo" in inside.tools(), "what was allowed goes on"
        [process] = demos(hub)
        done(hubd(hub, "untrust", shop))
        inside.wait_for_servers("common")
        assert psutil.wait_procs([process], timeout=30)[1] == []
        assert status(hub)["projects"] == []


def look_at_it(hub, shop, inside):
    """Commands and further hosts agree on what a project is."""
    with connected(hub, shop.parent / "other", "--project", str(shop)) as second:
        assert second.tools() == inside.tools()
        [running_there] = demos(hub).values()
        assert running_there == str(shop)
        [project] = status(hub)["projects"]
        assert (project["root"], project["hosts"]) == (str(shop), 2)
        with connected(hub, shop / "src", "--upstream", project["endpoint"].removeprefix("/mcp/")) as third:
            assert third.tools() == inside.tools()
    upstream = f"shop{project['endpoint'].removeprefix('/mcp/')}"
    assert upstream in done(hubd(hub, "status"))
    assert "connected" in done(hubd(hub, "logs", upstream))
    done(hubd(hub, "restart", upstream))
    shown = done(hubd(hub, "config", "--effective", "--json", "--config", hub.config, "--project", shop / "src"))
    upstreams = {each["name"]: each for each in json.loads(shown)["upstreams"]}
    inside.wait_for_servers(*upstreams)
    settings = {setting["key"][-1]: setting["value"] for setting in upstreams["shop"]["settings"]}
    assert settings["command"] == sys.executable


def test_a_project_with_two_servers_of_one_name_uses_that_of_hubd(tmp_path):
    shop = tmp_path / "shop"
    shop.mkdir()
    (shop / ".mcp.json").write_text(json.dumps({"mcpServers": {"shop": {"command": "/nowhere"}, "more": DEMO}}))
    (shop / ".hubd.toml").write_text(FILES[".hubd.toml"] + "\n[upstreams.common]\ndisabled = true\n")
    own = tmp_path / "xdg_config_home" / "hubd" / "hubd.toml"
    own.parent.mkdir(parents=True)
    own.write_text(COMMON)  # commands read the user's own file
    with running_hub(tmp_path, COMMON) as hub, connected(hub, shop) as host:
        done(hubd(hub, "trust", shop, "--yes"))
        host.wait_for_servers("shop", "more")
        shown = done(hubd(hub, "config", "--effective", "--json", "--config", hub.config, "--project", shop))
        upstreams = {each["name"]: each for each in json.loads(shown)["upstreams"]}
        assert upstreams.keys() == {"shop", "more", "common"}
        [disabled] = [each for each in upstreams["common"]["settings"] if each["key"][-1] == "disabled"]
        assert (disabled["layer"], disabled["file"]) == ("project", str(shop / ".hubd.toml"))


@pytest.mark.covers("POL-12")
def test_nobody_vouches_for_another_program_under_the_name_of_a_server_of_the_user(tmp_path):
    (shop := tmp_path / "shop").mkdir()
    (shop / ".hubd.toml").write_text("[upstreams.common]\nargs = ['-I', '-m', 'upstreams.demo']\n")
    rules = '[policy]\nmode = "read-only"\n' + COMMON + '\nhints = { "*" = ["read-only"] }\n'
    own = tmp_path / "xdg_config_home" / "hubd" / "hubd.toml"
    own.parent.mkdir(parents=True)
    own.write_text(rules)  # commands read the user's own file
    with running_hub(tmp_path, rules) as hub, connected(hub, tmp_path / "elsewhere") as outside:
        trusted = hubd(hub, "trust", shop, "--yes")
        assert "your `hints` do not count" in trusted.stderr, trusted
        with connected(hub, shop) as inside:
            assert outside.tools() == {"common__echo"}
            assert inside.tools() == set()
            call = {"name": "common__echo", "arguments": {"text": "hello"}}
            assert inside.ask("tools/call", call)["error"]["code"] == -32602


@pytest.mark.real
def test_a_host_over_http_is_where_its_roots_are(tmp_path):
    shop = tmp_path / "shop"
    (shop / "src").mkdir(parents=True)
    (shop / ".mcp.json").write_text(FILES[".mcp.json"])
    with running_hub(tmp_path, COMMON, auth="none") as hub:
        done(hubd(hub, "trust", shop, "--yes"))
        argv = [PYTHON_1, ROOTED, hub.url]
        with (
            running([*argv, shop.as_uri()], tmp_path / "host.log") as process,
            running([*argv, tmp_path.as_uri()], tmp_path / "other.log") as elsewhere,
        ):
            host, other = Rooted(process), Rooted(elsewhere)
            host.wait_for_servers("common", "shop")
            assert host.tell("call", "shop__echo")["content"][0]["text"] == "hello"
            assert other.servers() == {"common"}
            host.tell("move", tmp_path.as_uri())
            host.wait_for_servers("common")
            host.tell("move", (shop / "src").as_uri())
            host.wait_for_servers("common", "shop")
