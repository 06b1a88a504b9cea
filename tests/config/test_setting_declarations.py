"""Settings and what is declared of them: complete, and of one mind."""

from typing import Annotated, Any, Literal, get_args, get_origin

import pytest
from msgspec import Struct

from config.profile_settings import ToolOverride
from config.security_settings import AccessConfig, AccessIssuer
from config.setting_declarations import Secret, Setting, declarations, secrets_of, tables
from config.settings import CacheConfig, HubConfig, UpstreamConfig
from config.show.json_schema import descriptions
from tests.support.tables import each_row

STRUCTS: list[type[Struct]] = [
    HubConfig,
    *tables(HubConfig).values(),
    UpstreamConfig,
    *tables(UpstreamConfig).values(),
    *(each.rows for each in declarations(AccessConfig).values() if each.rows is not None),
    *tables(AccessConfig).values(),
    *tables(AccessIssuer).values(),
    *(each.named for each in declarations(HubConfig).values() if each.named not in (None, UpstreamConfig)),
    ToolOverride,
]
UNDECIDED = (
    *("cache", "replica", "access", "policy", "approvals", "oauth", "defaults", "registries", "usage", "audit", "log"),
    *("metrics", "tracing"),
    *("include", "upstreams", "calls", "dashboard"),
)
"""Tables, whose settings say it, and what means nothing by itself."""
SETTINGS = [(struct, name) for struct in STRUCTS for name in declarations(struct)]


class Bare(Struct):
    undecided: int = 0
    """A field that says nothing of itself."""


def test_a_setting_cannot_be_added_without_saying_what_it_is():
    with pytest.raises(TypeError, match="the setting undecided is declared without a Setting"):
        declarations(Bare)


@pytest.mark.parametrize("struct", STRUCTS)
def test_every_setting_is_declared_and_described(struct):
    assert [*declarations(struct)] == [*descriptions(struct)]
    assert sorted(declarations(struct)) == sorted(struct.__struct_encode_fields__)
    assert all(text.endswith(".") for text in descriptions(struct).values())


@each_row("struct, name", SETTINGS)
def test_what_is_declared_of_a_setting_makes_sense(struct, name):
    declared = declarations(struct)[name]
    numbers = declared.value_type in (int, float, int | None) or declared.each
    setting = declared.each or declared.setting
    assert bool(numbers) == bool(setting.unit) == (setting.min is not None or setting.above is not None)
    texts = declared.value_type in (str, str | None, tuple[str, ...], dict[str, str], dict[str, Any])
    texts = texts or declared.is_secret or declared.holds_secrets
    assert texts or not (setting.expanded or setting.pattern or setting.path or setting.mask != "guess")
    assert not (setting.identity and setting.reload != "reconnect"), "another server needs other sessions"
    assert (setting.reload is None) == (struct is HubConfig and name in UNDECIDED)


def test_what_kind_of_value_a_setting_has():
    class Some(Struct):
        one: Annotated[Secret | None, Setting(reload="live")] = None
        many: Annotated[dict[str, Secret], Setting(reload="live")] = {}
        times: Annotated[dict[str, Annotated[float, Setting(reload="live", min=1)]], Setting(reload="live")] = {}
        word: Annotated[Literal["a"], Setting(reload="live")] = "a"

    found = declarations(Some)
    assert [(each.is_secret, each.holds_secrets) for each in found.values()] == [
        (True, False),
        (False, True),
        (False, False),
        (False, False),
    ]
    assert found["times"].each == Setting(reload="live", min=1)
    assert found["many"].default == {}
    assert get_origin(found["word"].value_type) is Literal
    assert get_args(found["word"].value_type) == ("a",)


def test_all_secrets_are_found():
    cache = CacheConfig(url=Secret("redis://h"), password=Secret("a"))
    assert [*secrets_of(HubConfig(token=Secret("b"), cache=cache))] == ["b", "redis://h", "a"]
    upstream = UpstreamConfig(url="http://h", headers={"A": Secret("c")}, env={"E": Secret("d")})
    assert {*secrets_of(upstream)} == {"d", "c"}
