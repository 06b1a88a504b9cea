"""What records say of calls: how they ended, what is left out of URIs, times."""

import json
from types import SimpleNamespace

import pytest
from msgspec import Raw

from config.settings import UpstreamConfig
from hub.bridge.request_state import FirstRound
from hub.calls.chain import Intent, Target
from hub.catalog.upstream_entries import Route
from hub.link.call_interface import Identity, Interim, Operation
from hub.link.hub_errors import DeadlineExceeded, Overloaded, UpstreamLost
from hub.rules.audit.lines import Stamps, write_line
from hub.rules.audit.records import BEGIN, END, NOTE, Describe, Ending, strip_uri, sum_up
from hub.rules.policy.verdicts import UNRULED
from hub.wire.jsonrpc import Failure, Request, Result
from hub.wire.mcp import Kind, ListEntry, Snapshot

FORM = b'{"resultType":"input_required","inputRequests":{}}'
TASK = b'{"resultType":"task","taskId":"1"}'


def tool(**more):
    return {name: Raw(json.dumps(value).encode()) for name, value in {"name": "t", **more}.items()}


def snapshot(*tools):
    entries = tuple(ListEntry("t", fields) for fields in tools)
    return Snapshot("up", "2025-11-25", {}, {}, "", {Kind.TOOL: entries}, {}, local=True)


def an_intent(arguments=b'{"a":1}', *, host="cursor", config=None, **params):
    up = SimpleNamespace(name="up", config=config or UpstreamConfig(command="x"), snapshot=snapshot(tool()))
    caller = SimpleNamespace(identity=Identity("alice", host))
    its = {"arguments": Raw(arguments), **params}
    target = Target(up, Route("up", "t"), "up__t", None, Kind.TOOL)
    end = SimpleNamespace(caller=caller)
    return Intent(target, Request(1, "tools/call", its), Operation("tools/call", its), end, end)


def written(describe, record, offset=0.0):
    line, _ = write_line(describe.draft(record, offset), 1, "")
    return json.loads(line)


@pytest.mark.covers("AUD-01")
@pytest.mark.parametrize(
    ("outcome", "out", "kind", "executed"),
    [
        (Result(Raw(b'{"content":[]}')), "ok", "", ""),
        (Result(Raw(b'{"content":[],"isError":false}')), "ok", "", ""),
        (Result(Raw(b'{"isError": true,"content":[]}')), "error", "tool_error", ""),
        (
            Result(Raw(b'{"content":[{"type":"text","text":"%b"}],"isError":true}' % (b"x" * 200_000))),
            "error",
            *("tool_error", ""),
        ),
        (Result(Raw(b'{"structuredContent":{"isError":true},"content":[]}')), "ok", "", ""),
        (Result(Raw(b'{"isError":"perhaps"}')), "ok", "", ""),
        (Interim(Raw(FORM)), "asked", "", ""),
        (Interim(Raw(TASK)), "ok", "task", ""),
        (Failure(-32602, "Unknown"), "error", "-32602", ""),
        (Failure(-32042, "Visit a page"), "asked", "-32042", ""),
        (UpstreamLost("gone"), "unknown", "upstream_lost", "unknown"),
        (DeadlineExceeded("late"), "unknown", "upstream_timeout", "unknown"),
        (Overloaded("full"), "error", "overloaded", "no"),
        (ZeroDivisionError(), "error", "internal", ""),
        (None, "cancelled", "", ""),
    ],
    ids=range(15),
)
def test_how_a_call_ended(outcome, out, kind, executed):
    found = sum_up(outcome)
    assert (found.out, found.kind, found.executed) == (out, kind, executed)
    assert not isinstance(outcome, Result) or found.size == memoryview(outcome.value).nbytes


def test_what_the_hub_cuts_off_is_interrupted():
    assert sum_up(None, is_stopping=True).out == "interrupted"


@pytest.mark.covers("AUD-05")
@pytest.mark.parametrize(
    ("uri", "shown"),
    [
        ("https://a/b?token=x", "https://a/b"),
        ("https://a/b#x?y", "https://a/b"),
        ("https://me:secret@a/b", "https://a/b"),
        ("https://a/b@c", "https://a/b@c"),
        ("file:///a b", "file:///a b"),
        ("note:1", "note:1"),
    ],
)
def test_what_is_left_of_a_uri(uri, shown):
    assert strip_uri(uri) == shown


def test_times_are_of_the_day_in_utc():
    stamps = Stamps()
    assert [stamps.at(each) for each in (0.0, 1.0019, 1_763_803_020.5)] == [
        *(b"1970-01-01T00:00:00.000Z", b"1970-01-01T00:00:01.001Z", b"2025-11-22T09:17:00.500Z")
    ]
    assert [stamps.at(second)[17:19] for second in range(600)][-1] == b"59"


def test_another_definition_has_another_hash_in_the_next_record():
    describe, hashes = Describe(b"k"), []
    for description in ("a", "a", "b"):
        shown = snapshot(tool(description=description))
        hashes.append(written(describe, (BEGIN, an_intent(), UNRULED, shown, None, 1.0, None))["def"])
    assert hashes[0] == hashes[1] != hashes[2]


def test_an_end_without_its_beginning_says_all():
    describe, intent, shown = Describe(b"k"), an_intent(), snapshot(tool())
    alone = written(describe, (END, intent, 81, 2.0, UNRULED, None, None))
    assert (alone["name"], alone["sent"], alone["size"], alone["by"]) == ("up__t", 7, 81, "allow")
    written(describe, (BEGIN, intent, UNRULED, shown, None, 10.0, None))
    pair = written(describe, (END, intent, Ending("error", "x", "no", 3), 10.25, None, None, None))
    assert "name" not in pair
    assert (pair["out"], pair["kind"], pair["executed"], pair["ms"], pair["size"]) == ("error", "x", "no", 250, 3)


def test_a_clock_that_is_set_bends_times_and_no_duration():
    describe, intent, shown = Describe(b"k"), an_intent(), snapshot(tool())
    begin = written(describe, (BEGIN, intent, UNRULED, shown, None, 10.0, None), 1_000.0)
    end = written(describe, (END, intent, 1, 11.0, None, None, None), -3.0)
    assert (begin["t"], end["t"], end["ms"]) == ("1970-01-01T00:16:50.000Z", "1970-01-01T00:00:08.000Z", 1000)


def test_a_later_round_names_the_first():
    describe = Describe(b"k")
    describe.find_first = lambda state: FirstRound("0000002a", 7.0) if state == "sealed" else FirstRound("", 0.0)
    intent = an_intent(requestState=Raw(b'"sealed"'))
    found = written(describe, (BEGIN, intent, UNRULED, snapshot(tool()), None, 10.0, None))
    assert (found["first"], found["since"]) == ("0000002a", "1970-01-01T00:00:07.000Z")
    forged = an_intent(requestState=Raw(b'"forged"'))
    assert "first" not in written(describe, (BEGIN, forged, UNRULED, snapshot(tool()), None, 10.0, None))


@pytest.mark.covers("AUD-05")
@pytest.mark.parametrize("arguments", [b'{"a":"x secret"}', b"", b"[1", b'{"a":"\\ud800"}'])
def test_arguments_that_are_wanted_are_json_or_nothing(arguments):
    describe = Describe(b"k", lambda text: text.replace("secret", "***"))
    intent = an_intent(arguments, config=UpstreamConfig(command="x", arguments="full"))
    found = written(describe, (BEGIN, intent, UNRULED, snapshot(tool()), None, 10.0, None))
    assert found["arguments"] == ({"a": "x ***"} if b"secret" in arguments else None)


def test_names_that_peers_choose_are_cut():
    describe = Describe(b"k")
    found = written(describe, (BEGIN, an_intent(host="x\n" * 500), UNRULED, snapshot(tool()), None, 10.0, None))
    assert found["host"] == "x\n" * 100
    note = written(describe, (NOTE, "pin", {"up": "y" * 500, "ref": 0x12C7F3A9B2, "items": 3}, 1.0, None))
    assert (len(note["up"]), note["ref"], note["items"]) == (200, "c7f3a9b2", 3)


@pytest.mark.covers("AUD-05")
@pytest.mark.parametrize("kind", ["refuse", "ask", "approve", "deny", "revoke"])
def test_notes_hold_no_query_and_no_user(kind):
    note = (NOTE, kind, {"name": "https://me:secret@x.example/p?token=secret#secret"}, 0.0, None)
    assert written(Describe(b"k"), note)["name"] == "https://x.example/p"
    assert written(Describe(b"k"), (NOTE, kind, {"name": "a__b?c"}, 0.0, None))["name"] == "a__b?c"
