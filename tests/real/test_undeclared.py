"""A server on the Python SDK 1.x, which declares no subscriptions and takes them, and which asks whoever calls."""

import http.client
import json
import subprocess
from urllib.parse import urlsplit

import pytest

from hub.wire.mcp import CLIENT_CAPABILITIES_KEY, CLIENT_INFO_KEY, MODERN, VERSION_KEY
from tests.real.recorded import SERVERS, table
from tests.support.looking import until_connected
from tests.support.processes import HUBD, PYTHON_1, running_hub

LIMIT_S = 60
BOARD = "old://board"
META = {VERSION_KEY: MODERN, CLIENT_CAPABILITIES_KEY: {}, CLIENT_INFO_KEY: {"name": "desk", "version": "1"}}


@pytest.fixture(scope="module")
def hub(tmp_path_factory):
    args = [str(SERVERS / "flows1_server.py"), "old"]
    servers = [
        table("old", command=str(PYTHON_1), args=args),
        table("asking", command=str(PYTHON_1), args=args, session_mode="per_host"),  # whose question it is, is certain
    ]
    with running_hub(tmp_path_factory.mktemp("hub"), "\n".join(["startup_grace_s = 60.0", *servers])) as hub:
        until_connected(hub.env, "old", "asking")
        yield hub


class Post:
    """One modern request over HTTP."""

    def __init__(self, hub, method, params, *, name=""):
        self.connection = http.client.HTTPConnection(urlsplit(hub.url).netloc, timeout=LIMIT_S)
        headers = {
            "Authorization": f"Bearer {hub.token}",
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            "MCP-Protocol-Version": MODERN,
            "Mcp-Method": method,
        } | ({"Mcp-Name": name} if name else {})
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": META}}
        self.connection.request("POST", "/mcp", json.dumps(body), headers)
        self.answer = self.connection.getresponse()

    def event(self):
        """The next message of the stream."""
        while not (line := self.answer.readline()).startswith(b"data:"):
            assert line, "the stream ended"
        return json.loads(line[5:])

    def whole(self):
        """The answer, as a body of its own or as the one message of a stream: calls that take long get a stream."""
        streamed = self.answer.headers["Content-Type"].startswith("text/event-stream")
        found = self.event() if streamed else json.loads(self.answer.read())
        self.connection.close()
        return found


def call(hub, tool, arguments):
    return Post(hub, "tools/call", {"name": tool, "arguments": arguments}, name=tool)


def test_a_modern_host_subscribes_at_a_server_that_declares_no_subscriptions(hub):
    wanted = {"notifications": {"resourceSubscriptions": [BOARD]}}
    stream = Post(hub, "subscriptions/listen", wanted)
    acknowledged = stream.event()
    assert acknowledged["params"]["notifications"]["resourceSubscriptions"] == [BOARD]
    call(hub, "old__touch", {}).whole()
    told = stream.event()
    assert (told["method"], told["params"]["uri"]) == ("notifications/resources/updated", BOARD)
    stream.connection.close()


def test_a_legacy_host_subscribes_at_a_server_that_declares_no_subscriptions(hub):
    host = subprocess.Popen(
        [HUBD, "connect", "--host", "desk"], env=hub.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with host:

        def say(**message):
            host.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
            host.stdin.flush()

        def until(wanted):
            while not wanted(message := json.loads(host.stdout.readline())):
                pass
            return message

        about = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "desk", "version": "1"}}
        say(id=0, method="initialize", params=about)
        until(lambda message: message.get("id") == 0)
        say(method="notifications/initialized")
        say(id=1, method="resources/subscribe", params={"uri": BOARD})
        assert until(lambda message: message.get("id") == 1)["result"] == {}
        say(id=2, method="tools/call", params={"name": "old__touch", "arguments": {}})
        told = until(lambda message: message.get("method") == "notifications/resources/updated")
        assert told["params"]["uri"] == BOARD
        host.stdin.close()


def test_a_modern_host_hears_what_a_failed_call_needed(hub):
    error = call(hub, "asking__sample", {"text": "hi"}).whole()["error"]
    assert (error["code"], error["data"]["requiredCapabilities"]) == (-32021, {"sampling": {}})
    assert "sample" in error["data"]["upstream"]["content"][0]["text"]
