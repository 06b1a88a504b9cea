"""What is shown of a configuration, as TOML; `test_config` shows the whole."""

import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from config.loading.assemble import load_all
from config.setting_declarations import declarations
from config.settings import CacheConfig, HubConfig, ReplicaConfig, UpstreamConfig
from config.show.effective import as_toml, mask_setting
from config.show.server_environment import show_environment

VALUES = st.recursive(
    st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@given(VALUES)
def test_values_are_written_as_toml_on_one_printable_line(value):
    text = as_toml(value)
    assert text.isprintable()
    assert tomllib.loads(f"key = {text}")["key"] == value


@pytest.mark.covers("SEC-61")
@pytest.mark.parametrize(
    ("struct", "name", "value", "expected"),
    [
        (CacheConfig, "url", "unix:///run/redis.sock?db=2", "unix:///run/redis.sock?db=2"),
        (CacheConfig, "url", "redis://h/1?password=x&db=1", "redis://h/1?password=***&db=1"),
        (CacheConfig, "url", "${REDIS_URL}", "${REDIS_URL}"),
        (CacheConfig, "password", "x", "***"),
        (CacheConfig, "password", "Bearer ${X}", "***"),
        (CacheConfig, "password", "${file:/run/secrets/redis}", "${file:/run/secrets/redis}"),
        (CacheConfig, "username", "sk-abcdefghijkl12", "***"),
        (CacheConfig, "max_bytes", 5, 5),
        (ReplicaConfig, "name", "hub1", "hub1"),
        (HubConfig, "listen", "127.0.0.1:1", "127.0.0.1:1"),
        (HubConfig, "auth", "token", "token"),
        (HubConfig, "token", 5, "***"),
        (UpstreamConfig, "command", "sk-abcdefghijkl12", "***"),
        (UpstreamConfig, "cwd", "packages/server-of-files-number-2/dist", "packages/server-of-files-number-2/dist"),
        (UpstreamConfig, "args", ["--token", "abc"], ["--token", "***"]),
        (UpstreamConfig, "args", "abc", "abc"),
        (UpstreamConfig, "url", "https://me:abc@h/mcp", "https://***@h/mcp"),
        (UpstreamConfig, "env", "abc", "***"),
        (UpstreamConfig, "headers", "Bearer ${TOKEN}", "Bearer ${TOKEN}"),
    ],
)
def test_settings_as_they_may_be_shown(struct, name, value, expected):
    assert mask_setting(name, declarations(struct)[name], value) == expected


TEXT = """[defaults]
env = { ALL = "plain" }
pass = ["MY_*", "SECRET_THING", "!DISPLAY"]
[upstreams.one]
command = "x"
env = { PATH = "/mine" }
pass = ["DISPLAY"]
"""
SHELL = {
    "PATH": "/usr/bin",
    "DISPLAY": ":0",
    "MY_REGION": "here",
    "MY_TOKEN": "canary",
    "SECRET_THING": "canary",
    "HTTPS_PROXY": "http://me:canary@proxy",
    "NOTIFY_SOCKET": "/run/notify",
}


@pytest.mark.covers("SEC-51", "SEC-61", "FH-4")
def test_each_value_says_where_it_comes_from_and_secrets_stay_secret(tmp_path):
    path, own = tmp_path / "hubd.toml", tmp_path / "hubd.env"
    path.write_text(TEXT)
    own.write_text("# mine\nPATH=/all\nMY_REGION=there\n")
    loaded = load_all(path, SHELL)
    for name, expected, withheld in (
        (None, {"ALL": 2}, {"DISPLAY": "pattern", "HTTPS_PROXY": "secret", "MY_TOKEN": "secret"}),
        ("one", {"ALL": 2, "PATH": 6}, {"HTTPS_PROXY": "secret", "MY_TOKEN": "secret"}),
    ):
        shown = show_environment(loaded, name)
        assert "canary" not in str(shown)
        by_name = {each.name: each for each in shown.variables}
        assert {each.name: each.line for each in shown.variables if each.source == "configuration"} == expected
        assert {by_name[each].value for each in expected} == {"***"}
        assert {by_name[each].file for each in expected} == {str(path)}
        region = by_name["MY_REGION"]
        assert (region.value, region.source, region.file, region.line) == ("there", "hubd.env", str(own), 3)
        assert (by_name["SECRET_THING"].value, by_name["SECRET_THING"].source) == ("***", "environment")
        assert {each.name: each.reason for each in shown.withheld} == withheld
        assert ("DISPLAY" in by_name) == (name == "one")
        assert [*by_name] == sorted(by_name)
