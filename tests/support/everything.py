"""The tests of `make everything` beside those of `make test`: what a table has of them, and what a run has chosen.

They are marked `everything`: installs, a container, cold starts, fleets and balancers, load, and what differs from a
test of `make test` in its peer only. Of tests that go much the same way, `make test` takes some in turn.
"""

import os
import re
from collections import defaultdict
from collections.abc import Collection, Iterable
from itertools import product
from random import Random
from typing import Any, Final

import pytest

from tests.support.seeds import RUN_SEED

LEFT_OUT: Final = "HUBD_WITHOUT_EVERYTHING" in os.environ
"""Parameters that would be marked are left out: each worker of `make test` would collect half as many tests again."""
ADDRESS: Final = re.compile("0x[0-9a-f]+")


def everything_but(some: Collection[Any], all: Iterable[Any], *, packed: bool = False) -> list[Any]:
    """Parameters for all of these, marked `everything` but for `some`. A tuple has a value for each name, unless
    it is `packed`."""
    all = list(all)
    assert set(some) <= set(all), "a table lacks what it is to keep"
    if LEFT_OUT:
        return [each for each in all if each in some]
    return [each if each in some else _param(each, packed) for each in all]


def draw(number: int, *values: Iterable[Any]) -> list[Any]:
    """Parameters for each of these, or for each combination, marked `everything` but for so many that the seed of the
    run draws: of cases that each start processes and go much the same way, all have had their turn after a few runs."""
    all = list(product(*values)) if len(values) > 1 else list(values[0])
    chance = Random(ADDRESS.sub("", f"{RUN_SEED} {all!r}"))  # of functions, which differ from worker to worker
    return everything_but(chance.sample(all, number), all)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Of the tests of a module that have the same marker `in_turn`, mark `everything` but for so many as it says, which
    the seed of the run draws: like `draw`, for tests that differ in more than a value."""
    groups = defaultdict(list)
    for item in items:
        turn = item.get_closest_marker("in_turn")
        if turn is not None and not item.get_closest_marker("everything"):
            groups[item.path, turn.args[0]].append(item)
    for (path, number), group in groups.items():
        chance = Random(f"{RUN_SEED} {path.name} {number}")
        for item in chance.sample(group, max(0, len(group) - number)):
            item.add_marker(pytest.mark.everything)


def _param(each: Any, packed: bool) -> Any:
    values = each if type(each) is tuple and not packed else (each,)
    return pytest.param(*values, marks=pytest.mark.everything)


def parameters_of(request: pytest.FixtureRequest, name: str) -> list[Any]:
    """The values of a parameter in all tests of this run that have it."""
    specs = [item.callspec for item in request.session.items if hasattr(item, "callspec")]
    return [spec.params[name] for spec in specs if name in spec.params]
