"""The embedded demo server: transcripts in both eras, and once as a real process."""

import json
import subprocess
import sys

import pytest

from hub.wire import jsonrpc, mcp
from tests.support.schemas import validate
from upstreams.demo.server import CLOCK_S, Demo

VERSIONS = (*mcp.LEGACY_VERSIONS, mcp.MODERN)
NOW = "2026-01-02 03:04:05+00:00"


class Client:
    """Talks to a `Demo` in one revision; every message either way is valid in it."""

    def __init__(self, version):
        self.version = version
        self.modern = version == mcp.MODERN
        self.demo = Demo(lambda: NOW)
        self.ids = 0
        self.methods = {}
        if not self.modern:
            self.request(
                "initialize", protocolVersion=version, capabilities={}, clientInfo={"name": "t", "version": "1"}
            )
            self.notify("notifications/initialized")

    def send(self, method, params, now=0.0, meta=None):
        """A request; all messages that come of it."""
        self.ids += 1
        stamp = {mcp.VERSION_KEY: mcp.MODERN, mcp.CLIENT_CAPABILITIES_KEY: {}} if self.modern else {}
        if stamp or meta:
            params = {**params, "_meta": {**stamp, **(meta or {})}}
        self.methods[self.ids] = method
        message = {"jsonrpc": "2.0", "id": self.ids, "method": method, "params": params}
        return self.read(self.demo.receive(json.dumps(message).encode(), now))

    def request(self, method, meta=None, **params):
        """A request that is answered at once; its result."""
        (answer,) = self.send(method, params, meta=meta)
        return answer["result"]

    def refused(self, method, **params):
        (answer,) = self.send(method, params)
        return answer["error"]

    def call(self, name, **arguments):
        return self.request("tools/call", name=name, arguments=arguments)

    def notify(self, method, **params):
        message = {"jsonrpc": "2.0", "method": method, "params": params}
        return self.read(self.demo.receive(json.dumps(message).encode(), 0.0))

    def tick(self, now):
        return self.read(self.demo.tick(now))

    def read(self, lines):
        messages = []
        for line in lines:
            message = json.loads(line)
            method = self.methods.get(message.get("id")) if "result" in message else None
            validate(line, self.version, sender="server", method=method)
            messages.append(message)
        return messages


@pytest.fixture(params=VERSIONS)
def client(request):
    return Client(request.param)


@pytest.fixture(params=(mcp.L4, mcp.MODERN))
def newest(request):
    """The newest revision of each era."""
    return Client(request.param)


# --- opening ----------------------------------------------------------------------------------------------------------


@pytest.mark.covers("V-14", "V-26")
@pytest.mark.parametrize(
    ("asked", "given"), [*((v, v) for v in mcp.LEGACY_VERSIONS), (mcp.MODERN, mcp.L4), ("x", mcp.L4)]
)
def test_initialize_settles_on_a_handshake_revision(asked, given):
    client = Client(mcp.L4)
    assert (
        client.request("initialize", protocolVersion=asked, capabilities={}, clientInfo={})["protocolVersion"] == given
    )


@pytest.mark.covers("V-1", "V-21", "V-27")
def test_discover_names_all_revisions_and_the_server():
    found = Client(mcp.MODERN).request("server/discover")
    assert found["supportedVersions"] == list(mcp.ALL_VERSIONS)
    assert found["_meta"][mcp.SERVER_INFO_KEY]["name"] == "hubd-demo"


@pytest.mark.covers("V-2")
def test_an_unknown_revision_is_refused_with_those_it_speaks():
    error = Client(mcp.MODERN).send("tools/list", {}, meta={mcp.VERSION_KEY: "2099-01-01"})[0]["error"]
    assert error["code"] == mcp.UNSUPPORTED_VERSION
    assert error["data"] == {"supported": list(mcp.ALL_VERSIONS), "requested": "2099-01-01"}


@pytest.mark.covers("B-10")
def test_a_modern_request_states_its_capabilities():
    error = Client(mcp.MODERN).send("tools/list", {}, meta={mcp.CLIENT_CAPABILITIES_KEY: None})[0]["error"]
    assert error["code"] == mcp.INVALID_PARAMS


def test_a_legacy_client_says_initialize_first():
    line = b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}'
    (answer,) = Demo(lambda: NOW).receive(line, 0.0)
    assert json.loads(answer)["error"]["code"] == mcp.INVALID_REQUEST


@pytest.mark.covers("V-5", "V-6")
def test_both_eras_take_turns_in_one_process():
    legacy, modern = Client(mcp.L3), Client(mcp.MODERN)
    modern.demo = legacy.demo
    assert "resultType" not in legacy.call("echo", text="a")
    assert modern.call("echo", text="b")["resultType"] == "complete"
    assert "resultType" not in legacy.call("echo", text="c")


# --- lists and what they lead to --------------------------------------------------------------------------------------


def test_everything_listed_is_there(client):
    assert {tool["name"] for tool in client.request("tools/list")["tools"]} >= {"echo", "add", "countdown", "fail"}
    for resource in client.request("resources/list")["resources"]:
        (content,) = client.request("resources/read", uri=resource["uri"])["contents"]
        assert (content["uri"], content["mimeType"]) == (resource["uri"], resource["mimeType"])
        assert content["text"]
    for prompt in client.request("prompts/list")["prompts"]:
        arguments = {argument["name"]: "zebras" for argument in prompt.get("arguments", ())}
        found = client.request("prompts/get", name=prompt["name"], arguments=arguments)
        assert all(value in found["messages"][0]["content"]["text"] for value in arguments.values())
    (template,) = client.request("resources/templates/list")["resourceTemplates"]
    uri = template["uriTemplate"].replace("{name}", "J%C3%BCrgen")
    assert "Hello, Jürgen!" in client.request("resources/read", uri=uri)["contents"][0]["text"]


def test_tools_do_what_they_say(client):
    assert client.call("echo", text="h\u00e9\n")["content"][0]["text"] == "h\u00e9\n"
    assert client.call("add", a=2, b=0.5)["structuredContent"] == {"sum": 2.5}
    assert client.call("now")["content"][0]["text"] == NOW


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("echo", {}),
        ("add", {"a": True, "b": 1}),
        ("add", {"a": "1", "b": 1}),
        ("countdown", {"from": 0}),
        ("countdown", {"pause_s": 11}),
        ("fail", {}),
    ],
)
def test_a_tool_that_fails_says_so_in_its_result(newest, tool, arguments):
    answers = newest.send("tools/call", {"name": tool, "arguments": arguments})
    assert answers[-1]["result"]["isError"] is True


def test_completion_offers_what_begins_alike(client):
    ref = {"type": "ref/prompt", "name": "explain"}
    found = client.request("completion/complete", ref=ref, argument={"name": "topic", "value": "H"})
    assert found["completion"] == {"values": ["hubd"], "total": 1, "hasMore": False}
    ref = {"type": "ref/resource", "uri": "demo://greeting/{name}"}
    found = client.request("completion/complete", ref=ref, argument={"name": "name", "value": "a"})
    assert found["completion"]["values"] == ["Ada", "Alan"]


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("tools/call", {"name": "nosuch"}),
        ("tools/call", {"name": ["echo"]}),
        ("tools/call", {"name": "echo", "arguments": []}),
        ("prompts/get", {"name": "nosuch"}),
        ("prompts/get", {"name": "explain"}),
        ("resources/read", {"uri": {}}),
        ("completion/complete", {"ref": 1, "argument": {}}),
        ("completion/complete", {"ref": {"name": []}, "argument": {"name": {}}}),
    ],
)
def test_nonsense_is_refused_as_invalid_params(newest, method, params):
    assert newest.refused(method, **params)["code"] == mcp.INVALID_PARAMS


@pytest.mark.covers("S-8", "S-9")
def test_a_missing_resource_has_the_code_of_its_era(newest):
    error = newest.refused("resources/read", uri="demo://nosuch")
    assert error["code"] == (mcp.INVALID_PARAMS if newest.modern else mcp.RESOURCE_NOT_FOUND)
    assert error["data"] == {"uri": "demo://nosuch"}


def test_methods_of_the_other_era_do_not_exist():
    assert Client(mcp.MODERN).refused("ping")["code"] == mcp.METHOD_NOT_FOUND
    assert Client(mcp.L4).refused("subscriptions/listen")["code"] == mcp.METHOD_NOT_FOUND


def test_a_line_that_is_no_message_is_answered_with_an_error():
    (answer,) = Demo(lambda: NOW).receive(b"{nonsense", 0.0)
    assert json.loads(answer)["error"]["code"] == mcp.PARSE_ERROR


# --- time -------------------------------------------------------------------------------------------------------------


def countdown(client, start, meta=None):
    params = {"name": "countdown", "arguments": {"from": start, "pause_s": 2}}
    assert client.send("tools/call", params, now=10.0, meta=meta) == []
    return client.ids


@pytest.mark.covers("P-2")
def test_countdown_reports_every_step_and_answers_at_the_end(client):
    id = countdown(client, 2, meta={"progressToken": "p"})
    assert client.demo.due() == 12.0
    assert client.tick(11.9) == []
    (progress,) = client.tick(12.0)
    assert progress["params"] == {"progressToken": "p", "progress": 1, "total": 2, "message": "1 to go"}
    last, answer = client.tick(14.0)
    assert last["params"]["progress"] == 2
    assert (answer["id"], "Lift-off" in answer["result"]["content"][0]["text"]) == (id, True)
    assert client.demo.due() == float("inf")


def test_countdown_without_a_token_is_silent_until_the_end(client):
    countdown(client, 2)
    assert client.tick(12.0) == []
    assert len(client.tick(14.0)) == 1


def test_a_cancelled_countdown_is_never_answered(client):
    id = countdown(client, 2)
    client.notify("notifications/cancelled", requestId=["nonsense"])
    client.notify("notifications/cancelled", requestId=id)
    assert client.demo.due() == float("inf")
    assert client.tick(100.0) == []


# --- logs -------------------------------------------------------------------------------------------------------------


def logged(messages):
    return [message["params"]["level"] for message in messages if message.get("method") == "notifications/message"]


def test_legacy_logs_follow_the_level_set():
    client = Client(mcp.L4)
    touch = {"name": "touch", "arguments": {}}
    assert logged(client.send("tools/call", touch)) == []
    client.request("logging/setLevel", level="debug")
    assert logged(client.send("tools/call", touch)) == ["info"]
    assert client.refused("logging/setLevel", level="loud")["code"] == mcp.INVALID_PARAMS


@pytest.mark.covers("N-9")
def test_modern_logs_follow_the_level_of_the_request():
    client = Client(mcp.MODERN)
    fail = {"name": "fail", "arguments": {}}
    assert logged(client.send("tools/call", fail)) == []
    assert logged(client.send("tools/call", fail, meta={mcp.LOG_LEVEL_KEY: "critical"})) == []
    messages = client.send("tools/call", fail, meta={mcp.LOG_LEVEL_KEY: "info"})
    assert logged(messages[:-1]) == ["error"]


# --- subscriptions ----------------------------------------------------------------------------------------------------


def said(messages):
    return [
        (message["method"].removeprefix("notifications/"), message.get("params", {}).get("uri")) for message in messages
    ]


def test_a_legacy_subscriber_hears_of_changes_until_it_unsubscribes():
    client = Client(mcp.L4)
    client.request("resources/subscribe", uri="demo://counter")
    *notices, _ = client.send("tools/call", {"name": "touch"})
    assert said(notices) == [("resources/updated", "demo://counter"), ("resources/list_changed", None)]
    assert "demo://surprise" in {entry["uri"] for entry in client.request("resources/list")["resources"]}
    client.request("resources/unsubscribe", uri="demo://counter")
    *notices, _ = client.send("tools/call", {"name": "touch"})
    assert said(notices) == [("resources/list_changed", None)]
    assert json.loads(client.request("resources/read", uri="demo://counter")["contents"][0]["text"]) == {"touched": 2}
    assert "demo://surprise" not in {entry["uri"] for entry in client.request("resources/list")["resources"]}


@pytest.mark.covers("N-1", "N-2", "N-3")
def test_a_modern_listener_hears_exactly_what_it_asked_for():
    client = Client(mcp.MODERN)
    wanted = {"resourceSubscriptions": ["demo://counter"], "toolsListChanged": True}
    (first,) = client.send("subscriptions/listen", {"notifications": wanted})
    id = client.ids
    assert first["method"] == "notifications/subscriptions/acknowledged"
    assert first["params"]["notifications"] == {"resourceSubscriptions": ["demo://counter"]}
    (updated, answer) = client.send("tools/call", {"name": "touch"})
    assert updated["params"] == {"uri": "demo://counter", "_meta": {mcp.SUBSCRIPTION_KEY: id}}
    assert "result" in answer
    client.notify("notifications/cancelled", requestId=id)
    assert len(client.send("tools/call", {"name": "touch"})) == 1


def test_the_clock_ticks_while_somebody_watches():
    client = Client(mcp.L4)
    client.request("resources/subscribe", uri="demo://clock")
    assert client.demo.due() == CLOCK_S
    assert said(client.tick(CLOCK_S)) == [("resources/updated", "demo://clock")]
    client.request("resources/unsubscribe", uri="demo://clock")
    assert client.tick(2 * CLOCK_S) == []
    assert client.demo.due() == float("inf")


# --- the process ------------------------------------------------------------------------------------------------------


def test_the_process_answers_until_its_input_ends():
    lines = [
        b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18"}}',
        b'{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"now"}}',
    ]
    command = [sys.executable, "-I", "-m", "upstreams.demo"]
    done = subprocess.run(command, input=b"\n".join(lines) + b"\n", capture_output=True, timeout=60, check=True)
    answers = [jsonrpc.decode(line) for line in done.stdout.splitlines()]
    assert [answer.id for answer in answers] == [1, 2]
    assert done.stderr == b""
