"""What may be shown of a configuration, and what is masked; `test_config_commands` shows the whole."""

import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from config.effective import as_toml, masked


@pytest.mark.covers("SEC-61")
@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("plain", "***"),
        ("", ""),
        ("${TOKEN}", "${TOKEN}"),
        ("${env:TOKEN}", "${env:TOKEN}"),
        ("${file:/run/secrets/x}", "${file:/run/secrets/x}"),
        ("Bearer ${TOKEN}", "Bearer ${TOKEN}"),
        ("Bearer abc", "***"),
        ("${TOKEN:-fallback}", "***"),
        ("x${TOKEN}", "***"),
        (5, "***"),
    ],
)
def test_secrets_are_masked_and_references_are_not(value, expected):
    assert masked("env", value) == masked("headers", value) == expected


@pytest.mark.covers("SEC-61")
@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["-y", "@scope/server", "/home/me"], ["-y", "@scope/server", "/home/me"]),
        (["--api-key", "abc", "x"], ["--api-key", "***", "x"]),
        (["--token", "${TOKEN}"], ["--token", "${TOKEN}"]),
        (["--token", "--verbose"], ["--token", "--verbose"]),
        (["--password=abc", "TOKEN=abc", "MODE=abc"], ["--password=***", "TOKEN=***", "MODE=abc"]),
        (["--header", "Authorization: Bearer abc"], ["--header", "Authorization: ***"]),
        (["--header", "Authorization:Bearer ${T}"], ["--header", "Authorization:Bearer ${T}"]),
        (["-e", "--key=abc", "--sort=key"], ["-e", "--key=***", "--sort=key"]),
        (["postgresql://me:abc@host/db"], ["postgresql://***@host/db"]),
        (["https://h/mcp?a=${A}&key=abc"], ["https://h/mcp?a=${A}&key=***"]),
        (["https://h/mcp?abc"], ["https://h/mcp?***"]),
        (["sk-abcdefghijkl12", "x ghp_abcdefghijklmnop12"], ["***", "***"]),
        (
            ["--url=https://h/mcp?key=abc", "https://h/ghp_abcdefghijklmnop12/mcp"],
            ["--url=https://h/mcp?key=***", "https://h/***/mcp"],
        ),
        ([1, None], ["1", "None"]),
    ],
)
def test_arguments_that_look_like_secrets_are_masked(arguments, expected):
    assert masked("args", arguments) == expected


def test_a_url_that_is_none_is_not_shown():
    assert masked("url", "http://[abc") == "***"


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
