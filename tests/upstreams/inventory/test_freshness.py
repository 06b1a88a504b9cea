"""How long a list is good, and when it is worth reading it again."""

import pytest
import trio
from msgspec import Raw, structs

from hub.wire.mcp import L4, MODERN, Freshness, Kind
from upstreams.inventory.freshness import NEVER_MS, declares_changes, has_expired, in_full, ttl_ms
from upstreams.inventory.refresh import REFRESH_WAIT_S, ListRefresh
from upstreams.status import empty_snapshot

TELLS, SILENT = {"tools": Raw(b'{"listChanged":true}')}, {"tools": Raw(b"{}")}


def listed(version=MODERN, capabilities=SILENT, fresh=None):
    freshness = {Kind.TOOL: fresh} if fresh else {}
    return structs.replace(empty_snapshot("a", True), version=version, capabilities=capabilities, freshness=freshness)


@pytest.mark.covers("K-6", "K-9", "K-12")
@pytest.mark.parametrize(
    ("version", "fresh", "age_ms", "told", "left", "over"),
    [
        (MODERN, Freshness(5000), 4999, False, 1, False),
        (MODERN, Freshness(5000), 5000, False, 0, True),
        (MODERN, Freshness(5000), 9000, False, 0, True),
        (MODERN, Freshness(5000), 9000, True, 0, False),
        (MODERN, Freshness(0), 0, False, 0, True),
        (MODERN, None, 0, False, 0, True),
        (MODERN, Freshness(), 0, False, 0, True),
        (L4, Freshness(), 9_999, False, 10_000, False),
        (L4, None, 10_001, False, 10_000, True),
        (L4, None, 90_000, True, 60_000, False),
    ],
)
def test_a_list_is_good_for_what_its_upstream_says(version, fresh, age_ms, told, left, over):
    snapshot = listed(version)
    assert ttl_ms(snapshot, Kind.TOOL, fresh, age_ms=age_ms, told=told) == left
    assert has_expired(snapshot, Kind.TOOL, fresh, age_ms=age_ms, told=told) is over
    assert not has_expired(snapshot, Kind.PROMPT, fresh, age_ms=age_ms, told=told), "there is no such list"


def test_a_new_list_is_good_in_full():
    assert in_full(listed(fresh=Freshness(5000)), Kind.TOOL) == 5000
    assert [in_full(listed(L4, capabilities), Kind.TOOL) for capabilities in (TELLS, SILENT)] == [60_000, 10_000]
    assert in_full(listed(), Kind.PROMPT) == NEVER_MS
    assert [declares_changes(listed(L4, each), Kind.TOOL) for each in (TELLS, SILENT, {})] == [True, False, False]


async def test_one_reading_at_a_time_and_one_that_follows(autojump_clock):
    rereading = ListRefresh()
    first = rereading.ask(Kind.TOOL)
    assert rereading.ask(Kind.TOOL) is first
    second = rereading.ask(Kind.TOOL, anew=True)
    assert second is rereading.ask(Kind.TOOL, anew=True) is not first
    assert rereading.due() == [Kind.TOOL]
    assert rereading.due() == []
    assert rereading.done(Kind.TOOL)
    assert (first.over.is_set(), second.over.is_set()) == (True, False)
    assert rereading.ask(Kind.TOOL) is second
    assert not rereading.done(Kind.TOOL)
    assert second.over.is_set()
    assert rereading.ask(Kind.TOOL) is not second
    assert repr(rereading) == "<ListRefresh tools>"


async def test_nobody_waits_for_what_others_have_waited_for_in_vain(autojump_clock):
    rereading = ListRefresh()
    slow = rereading.ask(Kind.TOOL)
    began = trio.current_time()
    await slow.wait()
    assert trio.current_time() - began == pytest.approx(REFRESH_WAIT_S)
    assert rereading.ask(Kind.TOOL) is rereading.ask(Kind.TOOL, anew=True) is None
    assert rereading.ask(Kind.PROMPT) is not None
    assert rereading.done(Kind.TOOL)
    assert rereading.ask(Kind.TOOL) is None, "it was slow"
    assert not rereading.done(Kind.TOOL)
    assert rereading.ask(Kind.TOOL) is not None, "and was quick"
    assert repr(slow) == "<Reading, over>"


async def test_without_a_session_nobody_waits(autojump_clock):
    rereading = ListRefresh()
    readings = [rereading.ask(Kind.TOOL), rereading.ask(Kind.TOOL, anew=True)]
    rereading.abandon()
    assert [reading.over.is_set() for reading in readings] == [True, True]
    assert rereading.due() == []
    assert repr(rereading) == "<ListRefresh nothing>"
