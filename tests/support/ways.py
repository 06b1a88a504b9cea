"""The two ways of a request: the quick one, without a task as far as nothing holds it up, and the slow one.

Journeys and simulated worlds go over both. `make test` has each test over one of them, which the seed of the run
draws; `make everything` and `make soak` have both. HUBD_WAY=quick or HUBD_WAY=slow has all over that one.
"""

import os
from random import Random
from typing import Any, Final

import pytest

from hub.routing.router import Router
from tests.support.everything import everything_but
from tests.support.seeds import RUN_SEED
from upstreams.sessions.calls import Calls

WAYS: Final = ("quick", "slow")
_DRAWN: Final = ("drawn", "other")
CHOICES: Final[list[Any]] = [os.environ["HUBD_WAY"]] if "HUBD_WAY" in os.environ else everything_but(_DRAWN[:1], _DRAWN)
"""The parameters of a fixture that calls `take_way`."""


def take_way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Have all hubs of a test go the way that its parameter says; which one that is."""
    way = _find(request.param, request.node.nodeid)
    request.node.add_report_section("setup", "way", f"the way of requests: {way}")
    if way == "slow":
        monkeypatch.setattr(Router, "begin", lambda *request: None)  # each has a task, and waits for what it needs
        monkeypatch.setattr(Calls, "begin_over", lambda *call: None)  # each has a task at its session
    return way


def _find(choice: str, test: str) -> str:
    if choice not in _DRAWN:
        assert choice in WAYS, f"HUBD_WAY is one of {WAYS}"
        return choice
    first = Random(f"{RUN_SEED} {test.replace(_DRAWN[1], _DRAWN[0])}").randrange(2)
    return WAYS[(first + _DRAWN.index(choice)) % 2]
