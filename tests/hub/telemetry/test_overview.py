"""Everything at a glance: what is said of servers and hosts, and how well they are."""

import pytest

from config.settings import UpstreamConfig
from hub.catalog.time_slices import finish
from hub.control.answers import HostRow, LimitStatus, Status, UpstreamRow
from hub.link.call_interface import Identity
from hub.telemetry.count_sent_messages import MessageCount
from hub.telemetry.describe_calls import sum_calls
from hub.telemetry.operation_record import NO_FAULTS, Ended
from hub.telemetry.overview import Counted, judge_calls, make_overview, row_of_server
from hub.telemetry.recorder import Recorder
from hub.telemetry.tally import Seconds, Tally
from upstreams.status_facts import Counts

pytestmark = pytest.mark.covers("SEE-3")
ANN = Identity("ann", "desk")
CONFIGS = {"files": UpstreamConfig(command="x", price=0.5), "db": UpstreamConfig(command="x")}
NOW = 1_000.0


def counted(*calls, now=NOW):
    """What a recorder knows after calls of (server, outcome, took, seconds ago)."""
    recorder = Recorder(MessageCount())
    for number, (upstream, outcome, took, ago) in enumerate(calls):
        key, second = (upstream, "tools/call", "go"), int(now - ago)
        tally = recorder.tallies.setdefault(key, Tally(recorder.seconds.setdefault(upstream, Seconds())))
        tally.last.append(took)
        (tally.outcomes.get(outcome) or tally.histogram(outcome)).observe(took)
        use = tally.hosts.get("desk") or tally.use("desk")
        use.charged += 1
        tally.seconds.move(second)
        tally.seconds.calls[second % 300] += 1
        tally.seconds.failed[second % 300] += outcome not in NO_FAULTS
        recorder.ring.append(Ended(number, now - ago, took, key, f"{upstream}__go", ANN, outcome, "", 1, 4, "unix"))
    found = Counted(recorder, CONFIGS, now)
    finish(found.gather())
    return found


def row(found, name="files", state="connected", **facts):
    facts = {"transport": "stdio", **facts}
    [judged] = finish(judge_calls(found.recorder, [UpstreamRow(name=name, state=state, **facts)], found.now))
    return row_of_server(judged, found)


def test_a_server_has_the_figures_of_its_own_calls():
    found = counted(*[("files", "", 0.01, 100)] * 9, ("files", "tool_error", 0.05, 7), ("db", "x", 9.0, 7))
    seen = row(found, counts=Counts(tools=3), tokens=40, limits=LimitStatus(waiting=2))
    assert (seen.calls, seen.failed, seen.failed_ratio, seen.rate) == (10, 1, 0.1, round(1 / 60, 2))
    assert (seen.p50_s, seen.p95_s, seen.cost, seen.waiting) == (0.01, 0.05, 5.0, 2)
    assert (seen.tools, seen.tokens, seen.health, seen.why) == (3, 40, "good", None)
    assert (seen.last_error.error_type, seen.last_error.ref, seen.last_error.ago_s) == ("tool_error", "00000009", 7.0)
    assert (len(seen.spark), sum(seen.spark), seen.spark[-3], seen.spark[-21]) == (60, 10, 1, 9)
    other = row(counted(), "other", "idle")
    assert (other.calls, other.failed_ratio, other.p50_s, other.last_error) == (0, None, None, None)
    assert (sum(other.spark), other.health) == (0, "off")


@pytest.mark.parametrize(
    ("facts", "health", "why"),
    [
        ({"state": "connecting"}, "busy", None),
        ({"state": "failed", "last_error": "exited\ntrace\nError: no such host"}, "bad", "exited: Error: no such host"),
        ({"state": "unresolved"}, "bad", None),
        ({"state": "unauthorized", "last_error": "401"}, "warning", "401"),
        ({"crash_loop": True, "last_error": "it fell"}, "bad", "it fell"),
        ({"degraded": ("no list",)}, "warning", "no list"),
        ({"silent_s": 12.0, "degraded": ("x",)}, "warning", "not answering pings for 12 s"),
        ({"stale_config": "bad key"}, "warning", "still runs with its old settings: bad key"),
        ({"pins": ("2 definitions differ",)}, "warning", "2 definitions differ"),
    ],
    ids=range(9),
)
def test_how_well_a_server_is_and_why(facts, health, why):
    seen = row(counted(), **facts)
    assert (seen.health, seen.why) == (health, why)


def test_slow_servers_and_those_that_fail_are_no_good():
    seen = row(counted(*[("files", "", 0.3, 1)] * 5))
    why = "slow: one call in twenty takes 300 ms or more; usual is below 100 ms"
    assert (seen.slow, seen.health, seen.why) == (True, "warning", why)
    why = "slow: one call in twenty takes 2.3 s or more; usual is below 2 s"
    assert row(counted(*[("files", "", 2.345, 1)] * 5), transport="http").why == why
    assert row(counted(*[("files", "", 0.3, 1)] * 5), transport="http").health == "good"
    assert row(counted(*[("files", "", 0.3, 1)], *[("files", "", 0.01, 1)] * 19)).health == "good", "one of twenty"
    assert row(counted(*[("files", "", 0.3, 1)] * 2, *[("files", "", 0.01, 1)] * 18)).slow
    assert row(counted(*[("files", "", 0.3, 400)] * 5)).health == "good", "it was slow, and nobody has called it since"
    few = [("files", "tool_error", 0.01, 1)] * 2
    assert row(counted(*few)).health == "good", "two say little"
    assert row(counted(*few, *[("files", "", 0.01, 1)] * 8)).why == "20 % of its calls fail"
    waiting = [("files", "approval_required", 0.01, 1)] * 8
    seen = row(counted(*waiting, *[("files", "", 0.01, 1)] * 2))
    assert (seen.failed, seen.failed_ratio, seen.last_error, seen.health) == (0, 0.0, None, "good")
    assert row(counted(), state="unauthorized").word == "sign-in needed"
    assert row(counted(), state="connecting", installing=True).word == "installing"


def test_everything_is_told_together():
    found = counted(("files", "", 0.01, 100), ("files", "", 0.01, 2), ("db", "boom", 0.01, 2))
    host = HostRow(host="Desk 1", label="desk", asked=2, tools=4)
    rows = [row(found, changed=3), row(found, "db", "unresolved")]
    totals = finish(sum_calls(found.recorder, NOW, CONFIGS))
    status = Status(hosts=(host, HostRow(label="other")), all_tools=9, all_tokens=90, calls=totals, warnings=("hm",))
    seen = make_overview(status, rows, found, 5_000.0, inbox=4)
    assert (seen.at, seen.inbox, seen.questions, seen.warnings) == (6_000.0, 4, 2, ("hm",))
    assert [(each.host, each.calls, each.cost) for each in seen.hosts] == [("Desk 1", 3, 1.0), ("", 0, 0)]
    assert (seen.totals.calls, seen.totals.failed, seen.totals.tools, seen.totals.cost) == (3, 1, 9, 1.0)
    assert [(each.host, each.server, each.calls, each.cost) for each in seen.costs] == [
        ("desk", "files", 2, 1.0),
        ("desk", "db", 1, 0.0),
    ]
    assert seen.seconds.end == 6_000
    assert (seen.seconds.calls[-3], seen.seconds.failed[-3], sum(seen.seconds.calls)) == (2, 1, 3)
    assert make_overview(Status(), [], counted(), 0.0).seconds.calls == (0,) * 300
