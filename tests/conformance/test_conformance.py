"""The official suite through the hub: both eras of hosts, all kinds of upstreams, across eras, too."""

import pytest
from run import SELECTION, direct_verdicts, run_leg, surprises


@pytest.mark.real
@pytest.mark.parametrize("leg", SELECTION, ids=lambda leg: leg.name)
def test_what_passes_without_the_hub_passes_through_it(leg, tmp_path, tmp_path_factory):
    direct = direct_verdicts(leg.reference, tmp_path_factory.getbasetemp() / "direct")
    assert surprises(leg, direct, run_leg(leg, tmp_path / "verdicts")) == []
