"""Which profile a host is shown: a table."""

import pytest

from config.profile_settings import Profile
from hub.catalog.endpoint_views import EVERYTHING, View, profile_view, server_view
from hub.catalog.profiles.profile_choice import ProfileChoice, find_profile

SHOP = View("@shop-1f3a5c07")
CODING, REVIEW, DEFAULT = (profile_view(name) for name in ("coding", "review", "default"))
SOME = {"coding": Profile(hosts=("cursor", "codex")), "review": Profile()}
WITH_DEFAULT = {**SOME, "default": Profile(servers=("a",))}


@pytest.mark.covers("EP-1")
@pytest.mark.parametrize(
    ("profiles", "place", "label", "named", "expected"),
    [
        ({}, EVERYTHING, "cursor", "", EVERYTHING),
        ({}, EVERYTHING, "cursor", "default", EVERYTHING),
        (SOME, EVERYTHING, "other", "", EVERYTHING),
        (SOME, EVERYTHING, "cursor", "", CODING),
        (SOME, EVERYTHING, "Cursor", "", EVERYTHING),
        (SOME, EVERYTHING, "cursor", "review", REVIEW),
        (SOME, EVERYTHING, "cursor", "default", EVERYTHING),
        (WITH_DEFAULT, EVERYTHING, "other", "", DEFAULT),
        (WITH_DEFAULT, EVERYTHING, "codex", "", CODING),
        (WITH_DEFAULT, EVERYTHING, "codex", "default", DEFAULT),
        (WITH_DEFAULT, DEFAULT, "codex", "default", DEFAULT),
        (WITH_DEFAULT, CODING, "other", "coding", CODING),
        (SOME, EVERYTHING, "cursor", "gone", profile_view("gone")),
        (SOME, SHOP, "other", "", SHOP),
        (SOME, SHOP, "cursor", "", profile_view("coding", SHOP)),
        (WITH_DEFAULT, SHOP, "other", "", profile_view("default", SHOP)),
        (SOME, profile_view("coding", SHOP), "other", "", SHOP),
        (WITH_DEFAULT, server_view("a"), "cursor", "", server_view("a")),
        (WITH_DEFAULT, EVERYTHING, "hubd", "", EVERYTHING),
        (WITH_DEFAULT, EVERYTHING, "hubd", "coding", CODING),
    ],
)
def test_the_first_that_is_there_chooses(profiles, place, label, named, expected):
    assert ProfileChoice(profiles).choose(place, label, named) == expected


def test_endpoints_of_profiles():
    assert find_profile("~coding", SOME) == CODING
    assert CODING.path == "/mcp/~coding"
    assert find_profile("~default", {}) == DEFAULT
    for name in ("~gone", "coding", "~", "~~coding", "@shop~coding", ""):
        assert find_profile(name, SOME) is None, name
    assert profile_view("coding", SHOP).base == SHOP
    assert CODING.base == EVERYTHING
