"""What is shown of a configuration, as TOML; `test_config` shows the whole."""

import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from config.effective import as_toml, masked_setting
from config.setting_facts import declarations
from config.settings import CacheConfig, HubConfig, ReplicaConfig, UpstreamConfig

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
    assert masked_setting(name, declarations(struct)[name], value) == expected
