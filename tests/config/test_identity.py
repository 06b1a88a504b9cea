"""Digests of upstreams: what they depend on, and that those on disk keep their meaning."""

import pytest
from msgspec import structs

from config.identity import config_key, source_of
from config.setting import Secret, declarations
from config.settings import Restart, Timeouts, UpstreamConfig

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
