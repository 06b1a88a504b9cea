"""What records say of calls: how they ended, what is left out of URIs, times."""

import json

import pytest
from msgspec import Raw

from config.settings import UpstreamConfig
from hub.bridge.sealed_request_state import NO_ROUND, FirstRound
from hub.link.call_interface import Identity
from hub.rules.audit.lines import Stamps, write_lines
from hub.rules.audit.records import BEGIN, END, NOTE, Beginning, CallFacts, Describe
from hub.rules.policy.verdict import UNRULED
from hub.telemetry.operation_record import Ended
from hub.wire.mcp import Kind
from hub.wire.upstream_snapshot import ListEntry, Snapshot


def tool(**more):
    return {name: Raw(json.dumps(value).encode()) for name, value in {"name": "t", **more}.items()}


def snapshot(*tools):
    entries = tuple(ListEntry("t", fields) for fields in tools)
    return Snapshot("up", "2025-11-25", {}, {}, "", {Kind.TOOL: entries}, {}, local=True)


def begun(*, shown=None, host="cursor", **changes):
    who, shown, config = Identity("alice", host), shown or snapshot(tool()), UpstreamConfig(command="x")
    facts = CallFacts(1, "tools/call", Kind.TOOL, "up__t", "t", config, shown, who, UNRULED)
    its = {"ref": 1, "at": 10.0, "facts": facts, "digest": bytes(32), "size": 7, "first": NO_ROUND}
    return Beginning(**{**its, **changes})


def over(outcome="", executed="", size=0, *, at=12.0, is_task=False):
    key, who = ("up", "tools/call", "t"), Identity("alice", "cursor")
    return Ended(1, at, 1.0, key, "up__t", who, outcome, executed, 7, size, "unix", is_task=is_task)


def written(describe, record, offset=0.0):
    return json.loads(write_lines(describe.draft([record], offset), 0, "")[0])


def test_times_are_of_the_day_in_utc():
    stamps = Stamps()
    assert [stamps.at(each) for each in (0.0, 1.0019, 1_763_803_020.5)] == [
        *("1970-01-01T00:00:00.000Z", "1970-01-01T00:00:01.001Z", "2025-11-22T09:17:00.500Z")
    ]
    assert [stamps.at(second)[17:19] for second in range(600)][-1] == "59"


def test_another_definition_has_another_hash_in_the_next_record():
    describe, hashes = Describe(), []
    for description in ("a", "a", "b"):
        shown = snapshot(tool(description=description))
        hashes.append(written(describe, (BEGIN, begun(shown=shown), None))["def"])
    assert hashes[0] == hashes[1] != hashes[2]


def test_an_end_without_its_beginning_says_all():
    describe = Describe()
    alone = written(describe, (END, over(size=81), begun(), False, None))
    assert (alone["name"], alone["sent"], alone["size"], alone["by"]) == ("up__t", 7, 81, "allow")
    pair = written(describe, (END, over("x", "no", 3, at=10.25), 10.0, False, None))
    assert "name" not in pair
    assert (pair["out"], pair["kind"], pair["executed"], pair["ms"], pair["size"]) == ("error", "x", "no", 250, 3)


@pytest.mark.covers("AUD-01")
@pytest.mark.parametrize(
    ("ended", "said"),
    [
        (over(), {"out": "ok"}),
        (over(is_task=True), {"out": "ok", "kind": "task"}),
        (over("tool_error"), {"out": "error", "kind": "tool_error"}),
        (over("asked"), {"out": "asked"}),
        (over("cancelled"), {"out": "cancelled"}),
        (over("upstream_lost", "unknown"), {"out": "unknown", "kind": "upstream_lost", "executed": "unknown"}),
        (over("overloaded", "no"), {"out": "error", "kind": "overloaded", "executed": "no"}),
    ],
    ids=range(7),
)
def test_how_a_call_ended(ended, said):
    found = written(Describe(), (END, ended, 2.0, False, None))
    assert {name: found.get(name) for name in ("out", "kind", "executed")} == {"kind": None, "executed": None, **said}


def test_what_the_hub_cuts_off_is_interrupted():
    assert written(Describe(), (END, over("cancelled"), 2.0, True, None))["out"] == "interrupted"
    assert written(Describe(), (END, over(), 2.0, True, None))["out"] == "ok"


def test_a_clock_that_is_set_bends_times_and_no_duration():
    describe = Describe()
    begin = written(describe, (BEGIN, begun(), None), 1_000.0)
    end = written(describe, (END, over(at=11.0), 10.0, False, None), -3.0)
    assert (begin["t"], end["t"], end["ms"]) == ("1970-01-01T00:16:50.000Z", "1970-01-01T00:00:08.000Z", 1000)


def test_a_later_round_names_the_first():
    found = written(Describe(), (BEGIN, begun(first=FirstRound("0000002a", 7.0)), None))
    assert (found["first"], found["since"]) == ("0000002a", "1970-01-01T00:00:07.000Z")
    assert "first" not in written(Describe(), (BEGIN, begun(), None))


@pytest.mark.covers("AUD-05")
@pytest.mark.parametrize("arguments", [b'{"a":"x secret"}', b"", b"[1", b'{"a":"\\ud800"}'])
def test_arguments_that_are_wanted_are_json_or_nothing(arguments):
    describe = Describe(lambda text: text.replace("secret", "***"))
    found = written(describe, (BEGIN, begun(arguments=arguments), None))
    assert found["arguments"] == ({"a": "x ***"} if b"secret" in arguments else None)


def test_names_that_peers_choose_are_cut():
    describe = Describe()
    found = written(describe, (BEGIN, begun(host="x\n" * 500), None))
    assert found["host"] == "x\n" * 100
    note = written(describe, (NOTE, "pin", {"up": "y" * 500, "ref": 0x12C7F3A9B2, "items": 3}, 1.0, None))
    assert (len(note["up"]), note["ref"], note["items"]) == (200, "c7f3a9b2", 3)


@pytest.mark.covers("AUD-05")
@pytest.mark.parametrize("kind", ["refuse", "ask", "approve", "deny", "revoke"])
def test_notes_hold_no_query_and_no_user(kind):
    note = (NOTE, kind, {"name": "https://me:secret@x.example/p?token=secret#secret"}, 0.0, None)
    assert written(Describe(), note)["name"] == "https://x.example/p"
    assert written(Describe(), (NOTE, kind, {"name": "a__b?c"}, 0.0, None))["name"] == "a__b?c"
