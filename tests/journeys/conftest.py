"""Every journey in all era pairs, over both carriers of hosts and both ways of a request.

`make test` has each journey in two of the pairs, in which both ends are of both eras, and each pair over one carrier
and one way: the seed of the run draws them. `make everything` and `make soak` have all.
"""

import json
from collections import defaultdict
from pathlib import Path
from random import Random

import pytest
import trio

from hub.rules.hooks.messages import read_exit
from tests.journeys.pairs import PAIRS, Pair
from tests.support.everything import everything_but
from tests.support.seeds import RUN_SEED
from tests.support.ways import CHOICES, take_way

JOURNEYS = Path(__file__).parent
HALVES = (("LL", "MM"), ("LM", "ML"))
CARRIERS = ("lines", "http")
DRAWN = [f"{name}-{Random(f'{RUN_SEED} {name}').choice(CARRIERS)}" for name in PAIRS]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Of the journeys in all pairs, leave one half of the pairs to `make everything`."""
    pairs: dict[str, dict[pytest.Item, str]] = defaultdict(dict)
    for item in items:
        if item.path.parent == JOURNEYS and hasattr(item, "callspec") and "pair" in item.callspec.params:
            pairs[item.nodeid.partition("[")[0]][item] = item.callspec.params["pair"][:2]
    for journey, found in pairs.items():
        if len(set(found.values())) == len(PAIRS):
            half = Random(f"{RUN_SEED} {journey}").choice(HALVES)
            for item in (item for item, pair in found.items() if pair not in half):
                item.add_marker(pytest.mark.everything)


@pytest.fixture(params=everything_but(DRAWN, [f"{name}-{carrier}" for name in PAIRS for carrier in CARRIERS]))
def pair(request: pytest.FixtureRequest) -> Pair:
    return Pair(*request.param.split("-"))


@pytest.fixture(autouse=True, params=CHOICES)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    return take_way(request, monkeypatch)


class Script:
    """What hooks are told, and what they answer: functions by their names."""

    def __init__(self):
        self.told = []
        self.answers = {}

    def before(self, name, **members):
        """Let a hook answer this before a call."""
        self.answers[name] = lambda told: {"hookSpecificOutput": members}


@pytest.fixture
def script(monkeypatch):
    made = Script()

    async def ask(hook, message, event, program):
        await trio.lowlevel.checkpoint()
        told = json.loads(message)
        assert told["hook_event_name"] == event
        made.told.append((hook.config.name, told))
        answer = made.answers[hook.config.name](told)
        if isinstance(answer, Exception):
            raise answer
        status, out, err = (
            answer if isinstance(answer, tuple) else (0, json.dumps(answer).encode() if answer else b"", b"")
        )
        return read_exit(status, out, err, event)

    monkeypatch.setattr("hub.rules.hooks.run.Hook.ask", ask)
    return made
