"""Two hosts with two profiles on one pool of real servers: one profile is edited under load, and only its host is told;
what it hides cannot be reached; tokens, the command line and HTTP choose as the file says."""

import contextlib
import http.client
import itertools
import json
import shutil
import subprocess
import threading
from time import perf_counter
from urllib.parse import urlsplit

import pytest

from tests.real.recorded import OFFICIAL, table
from tests.support.attached import INITIALIZE, Host, hubd
from tests.support.processes import HUBD, running_hub

pytestmark = pytest.mark.real

LISTED = "notifications/tools/list_changed"
CALLS_PER_S = 50
"""Of each of the two hosts."""
EDITS = 6
CODING = """
[profiles.coding]
hosts = ["cursor"]
servers = ["everything"]
tools = ["everything__echo", {more}]
[profiles.coding.override.everything__get-sum]
fix = {{ a = 40 }}
[profiles.reading]
hosts = ["codex"]
servers = ["files", "everything"]
tools = ["files__read_*", "everything__echo"]
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("shown").resolve()


def config(folder, more='"everything__get-sum"'):
    node = shutil.which("node")
    return "\n".join(
        [
            "startup_grace_s = 60",  # lists wait for both
            table("everything", command=node, args=[str(OFFICIAL / "server-everything" / "dist" / "index.js")]),
            table("files", command=node, args=[str(OFFICIAL / "server-filesystem" / "dist" / "index.js"), str(folder)]),
            CODING.format(more=more),
        ]
    )


@pytest.fixture(scope="module")
def hub(tmp_path_factory, folder):
    with running_hub(tmp_path_factory.mktemp("hub"), config(folder)) as hub:
        yield hub


class Attached:
    """A host on the unix socket that remembers what it is told."""

    def __init__(self, hub, **preamble):
        self.host = Host(hub, **preamble)
        self.ids = itertools.count(1)
        self.heard = []
        self.ask("initialize", INITIALIZE)
        self.host.send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def ask(self, method, params=None):
        id = next(self.ids)
        self.host.ask(id, method, params or {})
        while True:
            message = self.host.receive()
            assert message is not None, "the hub hung up"
            if message.get("id") == id:
                return message
            self.heard.append(message.get("method"))

    def names(self):
        return sorted(tool["name"] for tool in self.ask("tools/list")["result"]["tools"])

    def call(self, name, **arguments):
        return self.ask("tools/call", {"name": name, "arguments": arguments})

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.host.__exit__()


class Caller(threading.Thread):
    """Calls one tool at its pace."""

    def __init__(self, attached):
        super().__init__(daemon=True)
        self.attached, self.calls, self.failed, self.ended = attached, 0, [], threading.Event()
        self.start()

    def run(self):
        due = perf_counter()
        while not self.ended.wait(max(0.0, due - perf_counter())):
            answer = self.attached.call("everything__echo", message="x")
            self.calls += 1
            if "result" not in answer or answer["result"].get("isError"):
                self.failed.append(answer)
            due = max(due + 1 / CALLS_PER_S, perf_counter() - 0.1)

    def stop(self):
        self.ended.set()
        self.join(60)


@pytest.mark.covers("EP-8")
def test_a_profile_edited_under_load_disturbs_only_its_own_host(hub, folder):
    with Attached(hub, host="cursor") as cursor, Attached(hub, host="codex") as codex:
        assert cursor.names() == ["everything__echo", "everything__get-sum"]
        assert "everything__echo" in codex.names()
        callers = [Caller(each) for each in (cursor, codex)]
        wanted = ['"everything__get-sum"', '"everything__get-env"']
        for number in range(1, EDITS + 1):
            hub.config.write_text(config(folder, wanted[number % 2]))
            assert hubd(hub, "reload").returncode == 0
        for caller in callers:
            caller.stop()
        assert min(caller.calls for caller in callers) > 0
        assert [caller.failed for caller in callers] == [[], []]
        cursor.ask("ping")
        codex.ask("ping")
        assert cursor.heard.count(LISTED) == EDITS
        assert codex.heard.count(LISTED) == 0
        hub.config.write_text(config(folder))
        assert "restart codex" not in hubd(hub, "reload").stdout
        with Attached(hub, host="other") as other:
            assert len(other.names()) > len(codex.names())
            assert other.heard == []


@pytest.mark.covers("EP-4")
def test_what_is_hidden_cannot_be_reached(hub, folder):
    (folder / "note.txt").write_text("x")
    with Attached(hub, host="cursor") as cursor, Attached(hub, host="other") as other:
        everything, unknown = other.names(), cursor.call("nobody__x")["error"]
        for name in {*everything} - {*cursor.names()}:
            error = cursor.call(name)["error"]
            assert (error["code"], error["message"].replace(name, "nobody__x")) == (unknown["code"], unknown["message"])
        completed = {"ref": {"type": "ref/prompt", "name": "files__none"}, "argument": {"name": "a", "value": ""}}
        assert cursor.ask("completion/complete", completed)["error"]["code"] == -32602
        assert all("files" not in name for name in cursor.names())
        assert not [each for each in cursor.ask("resources/list")["result"]["resources"] if "note.txt" in each["uri"]]
        read = cursor.ask("resources/read", {"uri": f"file://{folder}/note.txt"})
        nowhere = cursor.ask("resources/read", {"uri": "none://note.txt"})
        assert read["error"]["code"] == nowhere["error"]["code"]


@pytest.mark.covers("EP-6")
def test_a_fixed_argument_reaches_a_real_server(hub):
    with Attached(hub, host="cursor") as cursor:
        [tool] = [each for each in cursor.ask("tools/list")["result"]["tools"] if each["name"].endswith("sum")]
        assert list(tool["inputSchema"]["properties"]) == ["b"]
        assert tool["inputSchema"]["required"] == ["b"]
        assert "42" in json.dumps(cursor.call("everything__get-sum", b=2)["result"]["content"])
        refused = cursor.call("everything__get-sum", a=1, b=2)["result"]
        assert refused["isError"]
        assert refused["content"][0]["text"] == '"a" is fixed by profile coding; leave it out'


@pytest.mark.covers("EP-1")
def test_the_command_line_and_urls_choose(hub):
    with Attached(hub, host="codex", profile="coding") as named:
        assert named.names() == ["everything__echo", "everything__get-sum"]
    with Host(hub, host="codex", profile="nothing") as refused:
        refused.ask(1, "initialize", INITIALIZE)
        text = refused.receive()["error"]["message"]
        assert text == "There is no profile 'nothing' in this hub; there are: coding, reading"
    done = subprocess.run(
        [HUBD, "connect", "--profile", "coding", "--upstream", "files"], env=hub.env, capture_output=True, check=False
    )
    assert done.returncode == 2
    assert b"give --upstream or --profile, not both" in done.stderr


def posted(hub, path, token):
    """The status and the names of tools that a modern host gets at a path."""
    parts = urlsplit(hub.url)
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "cursor", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": meta}})
    headers = {
        "Authorization": f"Bearer {token}",
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": "2026-07-28",
        "Mcp-Method": "tools/list",
    }
    with contextlib.closing(http.client.HTTPConnection(parts.hostname, parts.port, timeout=60)) as connection:
        connection.request("POST", path, body, headers)
        response = connection.getresponse()
        data = response.read()
    if response.status != 200:
        return response.status, data
    return 200, sorted(tool["name"] for tool in json.loads(data)["result"]["tools"])


@pytest.mark.covers("EP-1", "EP-2")
def test_a_token_of_one_profile_opens_nothing_else(hub):
    coding = (200, ["everything__echo", "everything__get-sum"])
    bound = hubd(hub, "token", "new", "ci", "--profile", "coding", "--config", hub.config)
    assert bound.returncode == 0, bound
    token = bound.stdout.split()[0]
    assert posted(hub, "/mcp", token) == coding
    assert posted(hub, "/mcp/~coding", token) == coding
    for path in ("/mcp/~reading", "/mcp/~default", "/mcp/files", "/mcp/everything", "/mcp/~nothing"):
        assert posted(hub, path, token)[0] == 404, path
    everything = posted(hub, "/mcp", hub.token)[1]
    assert "everything__get-env" in everything, "no name that a host gives itself chooses"
    assert posted(hub, "/mcp/~coding", hub.token) == coding
    assert posted(hub, "/mcp/~nothing", hub.token)[0] == 404
    labelled = hubd(hub, "token", "new", "desk", "--host", "codex", "--config", hub.config).stdout.split()[0]
    assert "files__read_file" in posted(hub, "/mcp", labelled)[1]
    assert "everything__get-env" not in posted(hub, "/mcp", labelled)[1]
    assert posted(hub, "/mcp/~coding", labelled) == coding
    refused = hubd(hub, "token", "new", "x", "--profile", "nothing", "--config", hub.config)
    assert refused.returncode == 1
    assert "there is no profile 'nothing'; there are: coding, reading" in refused.stderr
