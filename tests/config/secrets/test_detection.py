"""What looks like a secret in the settings of servers, and how it is masked."""

import pytest

from config.secrets.detection import looks_secret, secret_arguments, secrets_in
from config.secrets.masks import mask_arguments, mask_secret, mask_secrets, mask_url


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("GITHUB_TOKEN", "x1", True),
        ("apiKey", "x1", True),
        ("PATH", "/usr/bin", False),
        ("KEY_FILE", "/home/me/key.pem", False),
        ("GITHUB_TOKEN", "${GITHUB_TOKEN}", False),
        ("X", "ghp_" + "a" * 36, True),
        ("X", "sk-proj-" + "a1" * 12, True),
        ("X", "a1" * 20, True),
        ("MONKEY", "banana", False),
        ("X", "postgres://u:pass@h/db", True),
        ("X", "https://h/mcp?key=abc", True),
        ("AUTHOR", "me", False),
        ("Authorization", "Bearer", False),
        ("DEBUG", "true", False),
    ],
)
def test_what_looks_secret(name, value, expected):
    assert looks_secret(name, value) is expected


def test_nothing_secret_is_shown():
    document = {"a": {"env": {"TOKEN": 'a"b\\c'}, "args": ["--password", "hunter2"]}, "b": ["x"]}
    assert set(secrets_in(document)) == {'a"b\\c', "hunter2"}
    assert mask_secrets('"TOKEN": "a\\"b\\\\c", hunter2', list(secrets_in(document))) == '"TOKEN": "***", ***'


@pytest.mark.covers("SEC-61")
def test_where_arguments_hold_secrets():
    words = ["--verbose", "--token=abc", "--api-key", "a:b", "-e", "API_KEY=abc", "--header", "Authorization: abc"]
    assert [words[at][start:] for at, start in secret_arguments(words)] == ["abc", "a:b", "abc", "abc"]
    assert list(secret_arguments(["--verbose", "--token"])) == []
    words = ["--header=Authorization: Bearer abc", "--env=API_KEY=abc", "--header=Accept: text/html"]
    assert [words[at][start:] for at, start in secret_arguments(words)] == ["Bearer abc", "abc"]


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
    assert mask_secret(value, scheme=True) == expected


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
        (
            ["run", "-e", "GITHUB_PERSONAL_ACCESS_TOKEN=abc", "image"],
            ["run", "-e", "GITHUB_PERSONAL_ACCESS_TOKEN=***", "image"],
        ),
    ],
)
def test_arguments_that_look_like_secrets_are_masked(arguments, expected):
    assert list(mask_arguments([str(each) for each in arguments])) == expected


def test_a_url_that_is_none_is_not_shown():
    assert mask_url("http://[abc") == "***"
