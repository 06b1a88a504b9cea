"""Every journey in all era pairs, over both carriers of hosts and both ways of a request.

`make test` has each pair over one carrier and one way, which the seed of the run draws; `make everything` and
`make soak` have both.
"""

from random import Random

import pytest

from tests.journeys.pairs import PAIRS, Pair
from tests.support.everything import everything_but
from tests.support.seeds import RUN_SEED
from tests.support.ways import CHOICES, take_way

CARRIERS = ("lines", "http")
DRAWN = [f"{name}-{Random(f'{RUN_SEED} {name}').choice(CARRIERS)}" for name in PAIRS]


@pytest.fixture(params=everything_but(DRAWN, [f"{name}-{carrier}" for name in PAIRS for carrier in CARRIERS]))
def pair(request: pytest.FixtureRequest) -> Pair:
    return Pair(*request.param.split("-"))


@pytest.fixture(autouse=True, params=CHOICES)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    return take_way(request, monkeypatch)
