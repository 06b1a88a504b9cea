"""The servers that setup may take out of hosts, by what became of them in the hub."""

import pytest

from hub.cli.await_server_starts import outcome
from hub.cli.setup.verdicts import why_not_served
from hub.control.answers import Status, UpstreamRow


@pytest.mark.parametrize(
    ("row", "tried", "is_served"),
    [
        ({"state": "connected"}, set(), True),
        ({"state": "idle"}, {"demo"}, True),
        ({"state": "idle"}, set(), False),
        ({"state": "idle", "connected_ago_s": 60.0}, set(), True),
        ({"state": "connecting"}, {"demo"}, False),
        ({"state": "failed", "last_error": "it ended"}, {"demo"}, False),
        ({"state": "disabled"}, {"demo"}, False),
    ],
)
def test_a_server_is_served_only_if_it_was_seen_to_work(row, tried, is_served):
    found = UpstreamRow(name="demo", **row)
    why = why_not_served({"demo": outcome("demo", found, 1.0)}, tried, Status(upstreams=(found,)))["demo"]
    assert (not why) == is_served


def test_a_server_that_the_hub_does_not_have_is_not_served():
    assert why_not_served({"demo": outcome("demo", None, 1.0)}, {"demo"}, Status())["demo"]
