"""The three legs of a leak, by conversation."""

from itertools import permutations

import pytest

from config.settings import UpstreamConfig
from hub.link.call_interface import Identity, Tenant
from hub.rules.policy.lethal_trifecta import FORGET_S, ThreeLegs, flow_of

ONE, OTHER = Tenant(Identity("local", "a"), 1), Tenant(Identity("local", "a"), 2)
PASSING = Tenant(Identity("local", "a"))
CONFIGS = {name: UpstreamConfig(command="x", flow=(name,)) for name in ("private", "untrusted", "outward")}


@pytest.mark.parametrize("order", list(permutations(CONFIGS)))
@pytest.mark.covers("POL-62")
def test_only_an_outward_call_after_both_others_closes_them(order):
    legs = ThreeLegs(lambda: 0.0)
    closed = []
    for name in (*order, "outward"):
        closed.append(legs.closes(ONE, CONFIGS[name], "go"))
        legs.note(ONE, CONFIGS[name], "go")
    assert closed == [name == "outward" and at == 2 for at, name in enumerate(order)] + [True]
    assert not legs.closes(OTHER, CONFIGS["outward"], "go")
    legs.left(ONE)
    assert not legs.closes(ONE, CONFIGS["outward"], "go")


@pytest.mark.covers("POL-62")
def test_whoever_begins_each_request_anew_is_forgotten_after_an_hour():
    now = [0.0]
    legs = ThreeLegs(lambda: now[0])
    for tenant in (ONE, PASSING):
        legs.note(tenant, CONFIGS["private"], "go")
        legs.note(tenant, CONFIGS["untrusted"], "go")
    now[0] = FORGET_S
    assert legs.closes(PASSING, CONFIGS["outward"], "go")
    now[0] += 1
    assert not legs.closes(PASSING, CONFIGS["outward"], "go")
    assert legs.closes(ONE, CONFIGS["outward"], "go")
    legs.note(PASSING, CONFIGS["private"], "go")
    assert not legs.closes(PASSING, CONFIGS["outward"], "go")


def test_a_flow_may_be_said_by_tools():
    config = UpstreamConfig(command="x", flow={"get_*": ("private", "untrusted"), "*_mail": ("outward",)})
    assert flow_of(config, "get_mail") == {"private", "untrusted", "outward"}
    assert flow_of(config, "send_mail") == {"outward"}
    assert flow_of(config, "other") == frozenset()
