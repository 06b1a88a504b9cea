"""The official suite through two hubs behind a real balancer of systemd/: what passes through one hub passes.

The affinity of legacy sessions is nothing that modern hosts have.
"""

import pytest

from tests.conformance.run import MODERN, Leg, direct_verdicts, run_leg, surprises, two_hubs

pytestmark = pytest.mark.everything

MODERN_LEG, LEGACY_LEG, PARKED_LEG = Leg(MODERN, "2.3.0"), Leg("2025-11-25", "2.3.0"), Leg(MODERN, "1.30.0")
BEHIND = {
    "nginx-legacy": ("nginx", LEGACY_LEG),
    "haproxy-legacy": ("haproxy", LEGACY_LEG),
    "haproxy-modern": ("haproxy", MODERN_LEG),
    "nginx-modern": ("nginx", MODERN_LEG),
}


def judged(leg, stages, directory, direct_directory):
    direct = direct_verdicts(leg.reference, direct_directory)
    return surprises(leg, direct, run_leg(leg, directory / "verdicts", stages=stages), hubs=2)


@pytest.mark.parametrize(("balancer", "leg"), BEHIND.values(), ids=BEHIND)
def test_both_eras_pass_as_documented(balancer, leg, tmp_path, direct_directory):
    """The affinity of the page is for legacy sessions; a modern request goes to whichever hub is next."""
    assert judged(leg, two_hubs(balancer), tmp_path, direct_directory) == []


@pytest.mark.parametrize("leg", [LEGACY_LEG, PARKED_LEG], ids=["sessions", "parked"])
def test_what_one_hub_has_is_found_without_affinity(leg, tmp_path, direct_directory):
    """Requests of a legacy session, and answers for a call that waits, are forwarded from hub to hub."""
    assert judged(leg, two_hubs("haproxy", affinity=False), tmp_path, direct_directory) == []
