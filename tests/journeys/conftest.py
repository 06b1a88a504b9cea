"""Every journey in all era pairs, over both carriers of hosts.

`make test` has each pair over one carrier, which the seed of the run draws; `make everything` and `make soak` have
both.
"""

from random import Random

import pytest

from tests.journeys.pairs import PAIRS, Pair
from tests.support.everything import everything_but
from tests.support.seeds import RUN_SEED

CARRIERS = ("lines", "http")
DRAWN = [f"{name}-{Random(f'{RUN_SEED} {name}').choice(CARRIERS)}" for name in PAIRS]


@pytest.fixture(params=everything_but(DRAWN, [f"{name}-{carrier}" for name in PAIRS for carrier in CARRIERS]))
def pair(request: pytest.FixtureRequest) -> Pair:
    return Pair(*request.param.split("-"))
