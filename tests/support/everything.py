"""The tests of `make everything` beside those of `make test`: what a table has of them, and what a run has chosen.

They are marked `everything`: installs, a container, cold starts, fleets and balancers, load, and what differs from a
test of `make test` in its peer only.
"""

from collections.abc import Collection, Iterable
from itertools import product
from random import Random
from typing import Any

import pytest

from tests.support.seeds import RUN_SEED


def everything_but(some: Collection[Any], all: Iterable[Any], *, packed: bool = False) -> list[Any]:
    """Parameters for all of these, marked `everything` but for `some`. A tuple has a value for each name, unless
    it is `packed`."""
    all = list(all)
    assert set(some) <= set(all), "a table lacks what it is to keep"
    return [each if each in some else _param(each, packed) for each in all]


def draw(number: int, *values: Iterable[Any]) -> list[Any]:
    """Parameters for each of these, or for each combination, marked `everything` but for so many that the seed of the
    run draws: of cases that each start processes and go much the same way, all have had their turn after a few runs."""
    all = list(product(*values)) if len(values) > 1 else list(values[0])
    return everything_but(Random(f"{RUN_SEED} {all!r}").sample(all, number), all)


def _param(each: Any, packed: bool) -> Any:
    values = each if type(each) is tuple and not packed else (each,)
    return pytest.param(*values, marks=pytest.mark.everything)


def parameters_of(request: pytest.FixtureRequest, name: str) -> list[Any]:
    """The values of a parameter in all tests of this run that have it."""
    specs = [item.callspec for item in request.session.items if hasattr(item, "callspec")]
    return [spec.params[name] for spec in specs if name in spec.params]
