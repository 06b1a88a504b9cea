"""The official suite through the hub, in every leg: both eras of hosts, all kinds of upstreams, across eras, too."""

import pytest
from run import LEGS, run_leg, surprises


@pytest.mark.real
@pytest.mark.parametrize("name", LEGS)
def test_the_suite_sees_through_the_hub_what_it_sees_directly(name, tmp_path):
    leg = LEGS[name]
    assert surprises(leg, run_leg(leg, tmp_path / "verdicts")) == []
