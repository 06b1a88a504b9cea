"""Every message that the hub has sent to the real servers and hosts of this folder, by the schemas. Runs last.

Before that, tests show that the recorders and the checks find mistakes.
"""

import json
import subprocess
import sys

import pytest

from hub.wire import mcp
from tests.real.tcp_relay import Piece
from tests.real.test_hosts import HOST_WAYS, SOME
from tests.real.traffic import TEE, HttpTraffic, Verdict, read_lines
from tests.support.everything import parameters_of

LISTS = {"tools/list", "resources/list", "resources/templates/list", "prompts/list"}
USES = {"tools/call", "resources/read", "prompts/get", "completion/complete"}
OPENING = {"legacy": {"initialize", "logging/setLevel"}, "modern": {"server/discover"}}
TOLD = {"notifications/progress", "notifications/message"}
LEAST = {
    # the hub's part, the kind of message and the era -> how many over each transport
    ("client", "request", "legacy"): 80,
    ("client", "request", "modern"): 200,
    ("client", "notification", "legacy"): 2,
    ("server", "result", "legacy"): 200,
    ("server", "result", "modern"): 150,
    ("server", "error", "legacy"): 4,
    ("server", "error", "modern"): 3,
    ("server", "notification", "legacy"): 50,
    ("server", "notification", "modern"): 40,
}


@pytest.fixture
def verdict(request, hub, records):
    """On all that was recorded. That is enough to judge by only if every host of this run's kind has run."""
    due = HOST_WAYS if request.node.get_closest_marker("everything") else SOME
    if not set(due) <= set(parameters_of(request, "report")):
        pytest.skip("judges what all tests of this folder have recorded: run them all")
    verdict = Verdict()
    for part, role in {"upstream": "client", "host": "server"}.items():
        for file in records.lines(part):
            read_lines(file, role, verdict)
        for name, relay in records.relays[part].items():
            HttpTraffic(role, verdict, name).read(list(relay.pieces))
    return verdict


def test_all_that_the_hub_said_is_valid(verdict):
    shown = "\n\n".join(verdict.invalid[:5])
    assert not verdict.invalid, f"{len(verdict.invalid)} invalid, {verdict.judged.total()} valid messages:\n{shown}"
    for era, opening in OPENING.items():
        assert {(era, method) for method in LISTS | USES | opening} <= verdict.results
        assert {(era, method) for method in LISTS | USES | opening | TOLD} <= verdict.questions


@pytest.mark.everything
def test_every_kind_of_message_was_said_often(verdict):
    for (role, kind, era), least in LEAST.items():
        for way in ("http", "stdio"):
            assert verdict.judged[role, way, era, kind] >= least, (role, way, era, kind)


# --- the tools --------------------------------------------------------------------------------------------------------

META = {
    "_meta": {"io.modelcontextprotocol/protocolVersion": mcp.MODERN, "io.modelcontextprotocol/clientCapabilities": {}}
}
OPEN = {"protocolVersion": mcp.L4, "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
OPENED = {"protocolVersion": mcp.L1, "capabilities": {}, "serverInfo": {"name": "x", "version": "1"}}
AUDIO = {"content": [{"type": "audio", "data": "", "mimeType": "a/b"}]}
TALK = [
    ("client", {"id": 1, "method": "initialize", "params": OPEN}),
    ("server", {"id": 1, "result": OPENED}),
    ("client", {"id": "a", "method": "tools/call", "params": {"name": "x"}}),
    ("server", {"method": "notifications/progress", "params": {"progressToken": 1, "progress": 1}}),
    ("server", {"id": "a", "result": {"content": []}}),
    ("client", {"id": 2, "method": "tools/list", "params": META}),
    ("server", {"id": 2, "result": {"resultType": "complete", "tools": [], "ttlMs": 0, "cacheScope": "private"}}),
]
"""Both eras on one connection."""
WRONG = {
    "a content type of a later revision": (4, {"id": "a", "result": AUDIO}),
    "a result of the other era": (6, {"id": 2, "result": {"tools": []}}),
    "a result of another request": (4, {"id": "a", "result": {"tools": []}}),
    "an answer to nobody": (4, {"id": "b", "result": {"content": []}}),
    "a notification of the wrong shape": (3, {"method": "notifications/progress", "params": {}}),
}


def tee_record(talk):
    signs = {"client": ">", "server": "<"}
    return "".join(f"7 {signs[sender]} {json.dumps({'jsonrpc': '2.0', **said})}\n" for sender, said in talk)


def http_pieces(talk):
    """Two connections in turn; what is not the answer to a POST comes as an event before it. Bytes come one by one."""
    open_streams, number, events = [], 0, b""
    for sender, said in talk:
        body = json.dumps({"jsonrpc": "2.0", **said}).encode()
        if sender == "client":
            number += 1
            head = b"POST /mcp HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n" % len(body)
            head += b"Mcp-Session-Id: s\r\n" if number == 2 else b""
            data = head + b"\r\n" + body
        elif "id" in said and not events:
            head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nMcp-Session-Id: s\r\n"
            data = head + b"Content-Length: %d\r\n\r\n" % len(body) + body
        elif "id" not in said:
            events = b"data: %b\n\n" % body
            continue
        else:
            events += b"data: %b\n\n" % body
            head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
            data = head + b"%x\r\n%b\r\n0\r\n\r\n" % (len(events), events)
            events = b""
        open_streams += [Piece(number % 2, sender == "client", bytes([byte])) for byte in data]
    return open_streams


@pytest.fixture(params=["stdio", "http"])
def judge(request, tmp_path):
    """What is found in a talk, with the hub as its server."""

    def judge(talk):
        verdict = Verdict()
        if request.param == "http":
            HttpTraffic("server", verdict, "made up").read(http_pieces(talk))
        else:
            (tmp_path / "record").write_text(tee_record(talk))
            read_lines(tmp_path / "record", "server", verdict)
        return verdict

    return judge


def test_the_judge_finds_nothing_wrong_with_what_is_right(judge):
    verdict = judge(TALK)
    assert verdict.invalid == []
    assert verdict.results == {("legacy", "initialize"), ("legacy", "tools/call"), ("modern", "tools/list")}
    assert verdict.judged.total() == 4


@pytest.mark.parametrize(("place", "said"), WRONG.values(), ids=WRONG)
def test_the_judge_finds_what_is_wrong(judge, place, said):
    verdict = judge([*TALK[:place], ("server", said), *TALK[place + 1 :]])
    assert len(verdict.invalid) == 1
    assert verdict.judged.total() == 3


def test_the_tee_changes_nothing_and_writes_all_lines_down(tmp_path):
    record = tmp_path / "record"
    program = "import sys; data = sys.stdin.buffer.read(); sys.stdout.buffer.write(data[::-1]); sys.exit(7)"
    said = b"\xff\r\n" + b"long" * 100_000 + b"\n\nrest"
    argv = [sys.executable, TEE, record, sys.executable, "-c", program]
    done = subprocess.run(argv, input=said, capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (7, said[::-1])
    lines = [line.split(b" ", 2)[1:] for line in record.read_bytes().split(b"\n")[:-1]]
    assert [line for sign, line in lines if sign == b">"] == said.split(b"\n")[:-1]
    assert [line for sign, line in lines if sign == b"<"] == said[::-1].split(b"\n")[:-1]
