"""Which hub answers a request of a modern host, and how little is looked at to find out."""

import pytest

from hub.bridge.tasks.polled_tasks import MAX_TOLD
from hub.fleet.session_ownership import runs_of
from hub.wire.jsonrpc import Request, raw
from hub.wire.mcp import LISTEN
from hub.wire.total_item_limit import MAX_STRINGS


class Handles:
    """Every task began in the run that its id begins with."""

    def __init__(self):
        self.opened = 0

    def run_of(self, id):
        self.opened += 1
        return id[:1]


def listening(ids):
    return Request(1, LISTEN, {"notifications": raw({"taskIds": ids})})


def test_the_hubs_of_the_tasks_that_a_stream_hears_of():
    assert runs_of(listening(["a1", "b1", "a2"]), None, Handles()) == ("a", "b")
    assert runs_of(listening("a1"), None, Handles()) == ()
    assert runs_of(Request(1, LISTEN, {"notifications": raw({})}), None, Handles()) == ()


@pytest.mark.covers("F-H-24")
def test_no_more_seals_are_opened_than_tasks_are_told_of():
    handles = Handles()
    assert runs_of(listening([f"{number % 7}-{number}" for number in range(MAX_STRINGS)]), None, handles)
    assert handles.opened == MAX_TOLD
    handles = Handles()
    assert runs_of(listening(["a"] * (MAX_STRINGS + 1)), None, handles) == ()
    assert handles.opened == 0, "any hub can refuse it"
