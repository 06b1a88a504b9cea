"""How long a list is good, and when it is worth reading it again."""

import pytest
from msgspec import Raw, structs

from hub.wire.mcp import L4, MODERN, Kind
from hub.wire.upstream_snapshot import Freshness
from upstreams.inventory.current_lists import NEVER_MS, declares_changes, empty_snapshot, has_expired, in_full, ttl_ms

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
