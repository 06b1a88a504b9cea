"""The official suite through two hubs behind a real balancer, as SIZES.md has it: what passes through one passes."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "conformance"))

from run import MODERN, Leg, direct_verdicts, run_leg, surprises, two_hubs

LEGS = {"modern": Leg(MODERN, "2.3.0"), "legacy": Leg("2025-11-25", "2.3.0")}
BALANCERS = pytest.mark.parametrize("balancer", ["haproxy", "nginx"])


def judged(leg, stages, directory, factory):
    direct = direct_verdicts(leg.reference, factory.getbasetemp() / "direct")
    return surprises(leg, direct, run_leg(leg, directory / "verdicts", stages=stages))


@BALANCERS
@pytest.mark.parametrize("era", LEGS)
def test_both_eras_pass_as_documented(balancer, era, tmp_path, tmp_path_factory):
    """The affinity of the page is for legacy sessions; a modern request goes to whichever hub is next."""
    assert judged(LEGS[era], two_hubs(balancer), tmp_path, tmp_path_factory) == []


@BALANCERS
def test_legacy_sessions_pass_without_affinity(balancer, tmp_path, tmp_path_factory):
    """The hubs forward to each other."""
    stages = two_hubs(balancer, affinity=False)
    assert judged(LEGS["legacy"], stages, tmp_path, tmp_path_factory) == []
