"""`hubd calls` of a real hub, and the line of `hubd status`."""

import io
import json
import re

import pytest
from msgspec import structs

from hub.cli.render.calls import call_table, cost_blocks, one_call, totals
from hub.cli.render.status import status
from hub.cli.render.terminal import UNLIMITED, Screen
from hub.control.answers import Status, UpstreamRow
from hub.control.call_messages import CallRow, CallTotals
from hub.control.overview_messages import CostRow
from tests.support.attached import hubd, said, upstream
from tests.support.processes import HUBD, running, running_hub
from tests.support.terminal import drawn, widest

SCRIPT = {"on": {"tools/call:die": [["exit", 3]]}}


def objects(hub, *words):
    return [json.loads(line) for line in said(hub, "calls", *words, "--json").splitlines()]


@pytest.mark.covers("SEE-1", "SEE-2")
def test_calls_are_listed_followed_and_shown(tmp_path):
    with running_hub(tmp_path, upstream("talker", SCRIPT) + "price = 0.25\n") as hub:
        assert "no call since the hub started" in hubd(hub, "calls").stderr
        assert said(hub, "calls", "--costs") == "no call was carried out since the hub started\n"
        assert "calls:" not in said(hub, "status")
        with running([HUBD, "calls", "-f"], tmp_path / "follow", env=hub.env, forked=True) as follower:
            assert hubd(hub, "call", "talker__echo").returncode == 0
            follower.wait_for(r" talker__echo .* ok ")
            assert hubd(hub, "call", "talker__die").returncode == 1
            follower.wait_for(r" talker__die .* upstream_lost\? ")
        echo, die = objects(hub)
        assert (echo["name"], echo["outcome"], echo["failed"], echo["cost"]) == ("talker__echo", "", False, 0.25)
        assert (die["outcome"], die["executed"], die["upstream"]) == ("upstream_lost", "unknown", "talker")
        assert objects(hub, "-n", "1") == objects(hub, "--failed") == objects(hub, "die") == [die]
        assert objects(hub, "--slower", "1d") == []
        assert objects(hub, "--since", "1d", "talker") == [echo, die]
        heads, first, second, note = said(hub, "calls").splitlines()
        assert heads.split() == ["TIME", "REF", "HOST", "CALL", "TOOK", "RESULT", "OUT", "COST"]
        assert first.split()[1] == echo["ref"]
        assert second.split()[1] == die["ref"]
        assert note == "? = nobody knows whether it was carried out"
        assert 'no server or tool talker__ech, and no call of such a one is kept; did you mean "talker__echo"?' in said(
            hub, "calls", "talker__ech", code=1
        )
        assert "servers are: talker" in json.loads(hubd(hub, "calls", "nosuch", "--json").stdout)["error"]["message"]
        assert "no host nobody is attached" in said(hub, "calls", "--host", "nobody", code=1)
        kept = "no call that is asked for among the last 1000"
        assert kept in hubd(hub, "calls", "talker", "--slower", "1d").stderr
        one = said(hub, "calls", die["ref"].upper())
        assert "talker__die" in one
        assert "upstream_lost?; nobody knows" in one
        assert re.search(r" sent +[0-9:.]+, after a wait of [0-9.]+ m?s\n", one)
        assert "first answer" not in one
        assert re.search(r" first answer +after [0-9.]+ m?s\n", said(hub, "calls", echo["ref"]))
        assert 0 <= echo["waited_s"] <= echo["first_answer_s"] <= echo["took_s"]
        assert die["first_answer_s"] is None
        assert json.loads(said(hub, "calls", echo["ref"], "--json"))["call"] == echo
        assert said(hub, "calls", "0" * 8, code=1).startswith("hubd: there is no call 00000000: the hub keeps the last")
        assert "expected a duration" in said(hub, "calls", "--slower", "much", code=2)
        heads, talker, together, prices = said(hub, "calls", "--costs").splitlines()
        assert prices == "all calls since the hub started, at the prices of now"
        assert heads.split() == ["HOST", "SERVER", "CALLS", "TOKENS", "OF", "RESULTS", "COST"]
        assert talker.split()[1:3] == ["talker", "2"]
        assert (together.split()[0], together.split()[-1]) == ("together", "0.5")
        assert [each["cost"] for each in json.loads(said(hub, "calls", "--costs", "--json"))] == [0.5]
        status = json.loads(said(hub, "status", "--json"))["calls"]
        assert (status["calls"], status["failed"], status["lately"], status["failed_ratio"]) == (2, 1, 2, 0.5)
        line = next(line for line in said(hub, "status").splitlines() if line.startswith("calls: "))
        assert line == "calls: 2, 2 in the last 5 min, 50 % of these failed, cost 0.5"


@pytest.mark.covers("SEE-1", "SEC-54")
def test_calls_fit_the_screen_and_obey_nothing():
    rows = [
        CallRow(ref="c7f3a9b2", at=1.0, took_s=0.0034, name="github__" + "x" * 80, host="cursor", size=12_345),
        CallRow(ref="c7f3a9b3", at=1.0, took_s=31, name="a\x1b[2Jb", host="cursor", outcome="tool_error", failed=True),
    ]
    for width in (40, 60, 80, 200):
        text = drawn(call_table(rows), width=width)
        assert widest(text) <= width
        assert "\x1b" not in text
    assert "3.4 ms" in text
    assert "12 KiB" in text
    assert "COST" not in text


@pytest.mark.covers("SEE-2")
def test_the_line_of_status_says_what_is_known():
    assert totals(CallTotals()) == ""
    assert totals(CallTotals(calls=1_284, lately=3, failed_ratio=1 / 3, p50_s=0.012, p95_s=0.48)) == (
        "calls: 1 284, 3 in the last 5 min, 33 % of these failed, p50 12 ms, p95 480 ms"
    )
    assert totals(CallTotals(calls=5)) == "calls: 5"


@pytest.mark.covers("SEE-2")
def test_status_says_how_many_decisions_wait():
    changed = UpstreamRow(name="files", state="connected", changed=3)
    assert "1 decision waits: hubd pins\n" in drawn(*status(Status(upstreams=(changed,))))
    text = drawn(*status(Status(upstreams=(changed,), requests=2)))
    assert "3 decisions wait: hubd approvals, hubd pins\n" in text
    assert "2 decisions wait: hubd approvals\n" in drawn(*status(Status(requests=2)))
    assert "wait" not in drawn(*status(Status()))


@pytest.mark.covers("SEE-5")
def test_arguments_are_shown_where_they_are_recorded(tmp_path):
    config = upstream("talker", SCRIPT)
    with running_hub(tmp_path, config) as hub:
        assert hubd(hub, "call", "talker__echo", "key=hunter2").returncode == 0
        done = hubd(hub, "calls", "--args")
        assert "hunter2" not in done.stdout
        assert (
            'To record them for one server: record = ["arguments", "result"] in [upstreams.NAME]'
            in done.stderr.replace("\n", " ")
        )
        hub.config.write_text(
            f'{config}record = ["arguments", "result"]\n[upstreams.talker.env]\nKEY = "s3cret-value"\n'
        )
        assert hubd(hub, "reload").returncode == 0
        assert hubd(hub, "call", "talker__echo", "key=hunter2", "other=s3cret-value").returncode == 0
        shown = said(hub, "calls", "--args")
        assert '    arguments {"key": "hunter2", "other": "***"}\n' in shown
        assert "    result {" in shown
        assert "s3cret" not in shown
        first, second = objects(hub, "--args")
        assert (first["arguments"], "hunter2" in second["arguments"]) == (None, True)
        assert objects(hub)[1]["arguments"] is None
        assert "arguments {" in said(hub, "calls", second["ref"])
        hub.config.write_text(f"{config}[calls]\nkeep = 0\n")
        assert hubd(hub, "reload").returncode == 0
        assert "the hub keeps no calls" in hubd(hub, "calls").stderr


@pytest.mark.covers("SEE-1")
@pytest.mark.parametrize("width", [80, UNLIMITED])
def test_calls_that_come_later_stand_below_the_first_ones(width):
    def line(before, *, shows_heads=False, **facts):
        calls = [CallRow(ref="c7f3a9b2", at=1e9, took_s=0.003, **facts)]
        screen = Screen(io.StringIO(), width=width)
        return screen.render(call_table(calls, shows_heads=shows_heads, is_padded=True), before=before)

    before = {}
    long = "t" * 40
    heads, first = line(before, shows_heads=True, host="claude-desktop", name="a", size=5).splitlines()
    assert ("OUT" in heads) == (width > 80)  # the day takes its room
    for facts in ({"host": "cursor", "name": "b"}, {"host": "c", "name": "d", "outcome": "tool_error", "size": 12_345}):
        later = line(before, **facts)
        assert later.index("  3 ms") == first.index("  3 ms")
        assert later.index(f"  {facts['host']} ") == first.index("  claude-des")
    assert (long in line(before, host="c", name=long)) == (width > 80)


@pytest.mark.covers("SEE-1")
def test_costs_are_summed_by_host_and_by_server_with_their_points_below_each_other():
    costs = [
        CostRow(host="a", server="x", calls=1, tokens=10, cost=1.41),
        CostRow(host="a", server="y", calls=2, tokens=10, cost=0.0815),
        CostRow(host="b", server="x", calls=3, tokens=10, cost=0.0),
    ]
    lines = drawn(*cost_blocks(costs)).splitlines()
    sums = {tuple(line.split()[:3]) for line in lines}
    assert {("a", "all", "3"), ("b", "all", "3"), ("all", "x", "4"), ("all", "y", "2")} <= sums
    assert len({line.rindex(".") for line in lines if "." in line}) == 1
    assert "all" not in drawn(*cost_blocks(costs[:1])).partition("all calls since")[0]


@pytest.mark.covers("SEE-1")
def test_a_tool_that_failed_is_said_to_say_why_in_its_result():
    failed = CallRow(ref="c7f3a9b2", outcome="tool_error", failed=True, upstream="db")
    wanted = 'record = ["arguments", "result"] in [upstreams.db]'
    assert wanted in drawn(*one_call(failed))
    assert wanted not in drawn(*one_call(structs.replace(failed, result="no such table")))
