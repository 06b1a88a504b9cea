"""Every journey in all era pairs, over both carriers of hosts."""

import pytest

from tests.journeys.pairs import PAIRS, Pair


@pytest.fixture(params=[f"{name}-{carrier}" for name in PAIRS for carrier in ("lines", "http")])
def pair(request: pytest.FixtureRequest) -> Pair:
    return Pair(*request.param.split("-"))
