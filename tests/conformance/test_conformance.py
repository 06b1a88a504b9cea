"""The official suite through the hub, in both eras: what `make test` runs of it (all legs: `make conformance`)."""

import pytest
from run import LEGS, run_leg, surprises

SELECTED = (
    "2025-11-25-on-2.3.0-http",
    "2026-07-28-on-2.3.0-http",
    "2025-11-25-on-2.3.0-stdio",
    "2026-07-28-on-2.3.0-stdio",
)


@pytest.mark.real
@pytest.mark.parametrize("name", SELECTED)
def test_the_suite_sees_through_the_hub_what_it_sees_directly(name, tmp_path):
    leg = LEGS[name]
    assert surprises(leg, run_leg(leg, tmp_path / "verdicts")) == []
