"""The official suite through two hubs behind a real balancer of systemd/: what passes through one hub passes."""

import pytest

from tests.conformance.run import MODERN, Leg, direct_verdicts, run_leg, surprises, two_hubs

MODERN_LEG, LEGACY_LEG, PARKED_LEG = Leg(MODERN, "2.3.0"), Leg("2025-11-25", "2.3.0"), Leg(MODERN, "1.30.0")
BALANCERS = pytest.mark.parametrize("balancer", ["haproxy", "nginx"])


def judged(leg, stages, directory, factory):
    direct = direct_verdicts(leg.reference, factory.getbasetemp() / "direct")
    return surprises(leg, direct, run_leg(leg, directory / "verdicts", stages=stages), hubs=2)


@BALANCERS
@pytest.mark.parametrize("leg", [MODERN_LEG, LEGACY_LEG], ids=["modern", "legacy"])
def test_both_eras_pass_as_documented(balancer, leg, tmp_path, tmp_path_factory):
    """The affinity of the page is for legacy sessions; a modern request goes to whichever hub is next."""
    assert judged(leg, two_hubs(balancer), tmp_path, tmp_path_factory) == []


@pytest.mark.parametrize("leg", [LEGACY_LEG, PARKED_LEG], ids=["sessions", "parked"])
def test_what_one_hub_has_is_found_without_affinity(leg, tmp_path, tmp_path_factory):
    """Requests of a legacy session, and answers for a call that waits, are forwarded from hub to hub."""
    assert judged(leg, two_hubs("haproxy", affinity=False), tmp_path, tmp_path_factory) == []
