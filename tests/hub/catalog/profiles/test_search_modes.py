"""When hosts find tools by searching, in place of being shown them."""

import pytest
from msgspec import structs

from hub.catalog.endpoint_views import EVERYTHING, profile_view, server_view
from hub.catalog.profiles.search_modes import HostLimits, SearchModes

LIMITS = {"windsurf": HostLimits(100, 20_000), "lm-studio": HostLimits(128, 4_000)}
FOUND = structs.replace(EVERYTHING, search=True)


@pytest.mark.covers("ES-9")
def test_it_is_on_above_a_limit_and_off_below_four_fifths_of_both():
    modes = SearchModes(LIMITS.get, {})
    steps = [(100, 20_000, False), (101, 1, True), (81, 1, True), (80, 16_001, True), (80, 16_000, False)]
    steps += [(1, 20_001, True), (1, 16_000, False), (100, 20_000, False)]
    for tools, tokens, is_on in steps:
        modes.decide(EVERYTHING, "windsurf", tools, tokens)
        assert modes.is_on(EVERYTHING, "windsurf") == is_on, (tools, tokens)
        assert modes.view_for(EVERYTHING, "windsurf") == (FOUND if is_on else EVERYTHING)
        assert modes.view_for(EVERYTHING, "lm-studio") == EVERYTHING


@pytest.mark.covers("ES-9")
def test_what_changes_is_said_once():
    modes = SearchModes(LIMITS.get, {})
    text = modes.decide(EVERYTHING, "windsurf", 131, 24_000)
    assert text is not None
    for part in ("search mode is on for windsurf", "131", "100 tools", 'search = "off"'):
        assert part in text
    assert modes.decide(EVERYTHING, "windsurf", 131, 24_000) is None
    assert modes.decide(EVERYTHING, "windsurf", 10, 100) == (
        "search mode is off for windsurf: it is shown all 10 tools again"
    )


@pytest.mark.covers("ES-8", "ES-9")
def test_a_host_that_loads_tools_when_needed_or_is_unknown_is_never_in_it_by_itself():
    modes = SearchModes(LIMITS.get, {})
    for label in ("claude-code", "nobody", ""):
        assert modes.decide(EVERYTHING, label, 10_000, 10**6) is None
        assert modes.view_for(EVERYTHING, label) == EVERYTHING


@pytest.mark.covers("ES-8", "ES-9")
def test_a_profile_decides_for_all_its_hosts():
    modes = SearchModes(LIMITS.get, {"coding": "on", "small": "off"})
    coding, small = profile_view("coding"), profile_view("small")
    assert modes.view_for(coding, "claude-code").search
    assert modes.in_use
    assert not modes.view_for(coding, "hubd").search, "our own commands see all"
    assert modes.decide(small, "windsurf", 10_000, 10**6) is None
    assert modes.view_for(small, "windsurf") == small


def test_one_server_is_always_shown_as_it_is():
    modes = SearchModes(LIMITS.get, {"": "on"})
    assert modes.view_for(server_view("files"), "windsurf") == server_view("files")
    assert not modes.is_open(server_view("files"), "windsurf")


@pytest.mark.covers("ES-9")
def test_what_was_decided_is_kept():
    modes = SearchModes(LIMITS.get, {})
    modes.decide(EVERYTHING, "windsurf", 131, 24_000)
    later = SearchModes(LIMITS.get, {}, modes.remembered)
    assert later.is_on(EVERYTHING, "windsurf")
    assert later.in_use
    later.decide(EVERYTHING, "windsurf", 90, 1)
    assert later.is_on(EVERYTHING, "windsurf"), "below the limit, but not by a fifth"
