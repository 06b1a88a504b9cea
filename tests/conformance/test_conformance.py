"""The official suite through the hub: both eras of hosts, all kinds of upstreams, and across eras."""

import pytest

from tests.conformance.run import ACROSS, LEGS, SEVERAL, WITHIN, direct_verdicts, excused, lost, run_leg, surprises
from tests.support.everything import draw, everything_but

REST = [leg for leg in LEGS.values() if leg not in WITHIN + ACROSS]


@pytest.mark.real
@pytest.mark.parametrize(
    "leg", [*draw(1, WITHIN), *draw(1, ACROSS), *everything_but([], REST)], ids=lambda leg: leg.name
)
def test_what_passes_without_the_hub_passes_through_it(leg, tmp_path, direct_directory):
    direct = direct_verdicts(leg.reference, direct_directory)
    assert surprises(leg, direct, run_leg(leg, tmp_path / "verdicts")) == []


def test_a_check_is_lost_if_it_passes_without_the_hub_only_or_fails_through_it_only():
    direct = {"a": {"same": "SUCCESS", "noted": "SUCCESS", "gone": "SUCCESS", "skipped": "SKIPPED", "bad": "FAILURE"}}
    through = {"a": {"same": "SUCCESS", "noted": "INFO", "skipped": "FAILURE", "bad": "FAILURE", "more": "SUCCESS"}}
    assert lost(direct, through) == {("a", "noted"), ("a", "gone"), ("a", "skipped")}


def test_what_is_excused_must_be_lost():
    name, checks = next(iter(excused().items()))
    scenario, check = min(checks)
    verdicts = {scenario: {check: "SUCCESS"}}
    assert f"{name} {scenario} {check}: take it off excused.txt" in surprises(LEGS[name], verdicts, verdicts)
    assert surprises(LEGS[name], {}, verdicts) != []
    assert {name.removesuffix(SEVERAL) for name in excused()} <= LEGS.keys()
