"""What differs between two configurations, and what follows from it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from config.diff import compare, config_key, difference, source_of
from config.setting_declarations import Secret, declarations
from config.settings import HubConfig, Restart, Timeouts, UpstreamConfig

A = UpstreamConfig(command="a", env={"TOKEN": Secret("1"), "HOME": Secret("/")})
WEB = UpstreamConfig(url="http://a/", headers={"Authorization": Secret("1")})


def hub(**upstreams):
    return HubConfig(upstreams=upstreams)


def test_nothing_differs_from_itself():
    same = structs.replace(A, env=dict(reversed(A.env.items())))
    assert compare(A, same) is None
    assert not difference(hub(a=A), hub(a=same))
    assert str(difference(hub(a=A), hub(a=same))) == "nothing changed"


def test_what_came_and_went_and_changed():
    old = HubConfig(upstreams={"a": A, "b": A, "c": A}, page_size=3)
    new = HubConfig(upstreams={"c": A, "d": A, "a": WEB}, include=("x",))
    found = difference(old, new)
    assert (found.added, found.removed, [*found.changed], found.moved) == (("d",), ("b",), ["a"], True)
    assert found.settings == ("page_size",)
    text = "added d; removed b; changed a (command, url, headers, env); upstreams in another order; settings page_size"
    assert str(found) == text
    assert found
    assert difference(hub(a=A, b=A), hub(b=A, a=A)).moved
    assert not difference(hub(a=A, b=A), hub(a=A)).moved


@pytest.mark.parametrize(
    ("settings", "replaces"),
    [
        ({"prefix": "x"}, False),
        ({"aliases": ("x",), "apps": True, "locality": "remote"}, False),
        (
            {
                "timeouts": Timeouts(call=1),
                "tool_timeouts": {"x": 1.0},
                "ping_s": 1.0,
                "price": 1.0,
                "record": ("result",),
            },
            False,
        ),
        ({"idle_stop_s": 1.0, "restart": Restart(attempts=1), "start": "lazy", "replace": "stop-first"}, False),
        ({"prefix": "x", "args": ("x",)}, True),
        ({"cwd": "/"}, True),
        ({"era": "legacy"}, True),
        ({"tasks": "off"}, True),
        ({"disabled": True}, True),
        ({"env": {**A.env, "MORE": Secret("1")}}, True),
    ],
)
def test_some_changes_need_no_other_process(settings, replaces):
    change = compare(A, structs.replace(A, **settings))
    assert change is not None
    assert set(change.settings) == set(settings)
    assert change.replaces is replaces


def test_of_what_is_disabled_nothing_is_replaced():
    off = structs.replace(A, disabled=True)
    change = compare(off, structs.replace(off, command="b"))
    assert change is not None
    assert not change.replaces


@pytest.mark.covers("F-C-06", "F-C-11")
@pytest.mark.parametrize(
    ("old", "new", "withdraws"),
    [
        ({}, {"args": ("x",)}, False),
        ({}, {"disabled": True}, True),
        ({}, {"env": {**A.env, "MORE": Secret("1")}}, False),
        ({}, {"env": {"HOME": Secret("/")}}, True),
        ({}, {"env": {**A.env, "TOKEN": Secret("2")}}, True),
        ({"across_principals": True}, {"across_principals": False}, True),
        ({"across_principals": False}, {"across_principals": True}, False),
        ({"session_mode": "shared"}, {"session_mode": "per_host"}, True),
        ({"session_mode": "per_host"}, {"session_mode": "shared"}, False),
        ({"client_features": "auto"}, {"client_features": "none"}, True),
        ({"client_features": "none"}, {"client_features": "auto"}, False),
        ({"roots": "host"}, {"roots": "none"}, True),
        ({"roots": "none"}, {"roots": "host"}, False),
        ({"roots": ("file:///a",)}, {"roots": ("file:///a", "file:///b")}, False),
        ({"roots": ("file:///a", "file:///b")}, {"roots": ("file:///a",)}, True),
        ({"roots": ("file:///a",)}, {"roots": "auto"}, True),
        ({"roots": "auto"}, {"roots": ("file:///a",)}, True),
        ({"roots": "none"}, {"roots": ("file:///a",)}, False),
    ],
)
def test_some_changes_withdraw_a_right(old, new, withdraws):
    change = compare(structs.replace(A, **old), structs.replace(A, **new))
    assert change is not None
    assert change.replaces
    assert change.withdraws is withdraws


def test_a_header_that_changed_may_have_been_revoked():
    change = compare(WEB, structs.replace(WEB, headers={"Authorization": Secret("2")}))
    assert change is not None
    assert change.withdraws
    assert "1" not in repr(change)


CONFIGS = st.dictionaries(st.sampled_from("abcdef"), st.sampled_from([A, WEB, structs.replace(A, prefix="x")]))


@pytest.mark.covers("F-C-05")
@given(CONFIGS, CONFIGS)
def test_what_differs_leads_from_the_one_to_the_other(before, after):
    old, new = hub(**before), hub(**after)
    found = difference(old, new)
    assert bool(found) == (old != new or [*before] != [*after])
    names = [name for name in before if name not in found.removed] + list(found.added)
    assert set(names) == set(after)
    assert {name for name in before if name in after and before[name] != after[name]} == set(found.changed)


ONE = UpstreamConfig(command="x", args=("a",), env={"T": Secret("1")})
OTHERS = {
    "command": "y",
    "args": ("b",),
    "env": {"U": Secret("1")},
    "cwd": "/",
    "url": "http://h",
    "headers": {"A": Secret("1")},
    "transport": "stdio",
    "prefix": "p",
    "aliases": ("p",),
    "era": "modern",
    "locality": "remote",
    "apps": True,
    "session_mode": "shared",
    "across_principals": True,
    "client_features": "none",
    "roots": "none",
    "tasks": "off",
    "disabled": True,
    "start": "lazy",
    "idle_stop_s": 1.0,
    "ping_s": 1.0,
    "restart": Restart(attempts=1),
    "replace": "stop-first",
    "timeouts": Timeouts(call=1.0),
    "tool_timeouts": {"x": 1.0},
    "cache": False,
}


@pytest.mark.parametrize("name", OTHERS)
def test_the_declaration_says_which_settings_count(name):
    other, identity = structs.replace(ONE, **{name: OTHERS[name]}), declarations(UpstreamConfig)[name].setting.identity
    assert (config_key(other) != config_key(ONE)) == (identity == "server")
    assert (source_of(other) != source_of(ONE)) == (identity is not None)


def test_values_of_secrets_count_for_hubs_and_not_for_files():
    other = structs.replace(ONE, env={"T": Secret("2")})
    assert config_key(other) == config_key(ONE)
    assert source_of(other) != source_of(ONE)


def test_what_was_remembered_by_earlier_versions_is_found():
    assert config_key(ONE) == "ee2b56f80492805c9a5c8bbb8846c18e"
    assert config_key(UpstreamConfig(url="http://h", headers={"A": Secret("1")})) == "f43d3b49a36c156b1acc7c3fa5e485f8"
