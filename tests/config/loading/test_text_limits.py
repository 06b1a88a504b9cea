"""Texts that would cost a parser far more than they are long: each is refused before it is parsed, in one pass."""

import json
import tomllib
from contextlib import suppress
from pathlib import Path

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from config.diagnostics import Problem
from config.loading import text_limits
from config.loading.document import parse
from config.loading.text_limits import (
    MAX_DEPTH,
    MAX_KEY_PARTS,
    MAX_SERVERS,
    MAX_TOML,
    refuse_json,
    refuse_toml,
    refuse_yaml,
)

PARTS = ".".join(["a"] * MAX_KEY_PARTS)
DEEP_TOML = f"{PARTS}.a = 1"
TRIPLE = '"""'
REFUSE = {".toml": refuse_toml, ".json": refuse_json, ".yaml": refuse_yaml}


def refusal(text: str, suffix: str) -> Problem:
    with pytest.raises(Problem) as caught:
        REFUSE[suffix](text)
    return caught.value


@pytest.mark.covers("I-5", "SEC-13")
@pytest.mark.parametrize(
    ("text", "suffix", "expected"),
    [
        (DEEP_TOML, ".toml", "key of more than 16 parts"),
        (f"b = 1\n[{PARTS}.a]", ".toml", "key of more than 16 parts"),
        (f"a = {{ {DEEP_TOML} }}", ".toml", "key of more than 16 parts"),
        ("'a'." * MAX_KEY_PARTS + '"b.c" = 1', ".toml", "key of more than 16 parts"),
        ("a = " + "[" * (MAX_DEPTH + 1), ".toml", "nested more than 64"),
        ("a = " + "{b = " * (MAX_DEPTH + 1), ".toml", "nested more than 64"),
        (f'a = [{TRIPLE}x{TRIPLE}"", ' + "[" * MAX_DEPTH, ".toml", "nested more than 64"),
        (f"a = [{TRIPLE}\\{TRIPLE}{TRIPLE}, " + "[" * MAX_DEPTH, ".toml", "nested more than 64"),
        ("a = [''''''', " + "[" * MAX_DEPTH, ".toml", "nested more than 64"),
        ("a = [ # '\n" + "[" * MAX_DEPTH, ".toml", "nested more than 64"),
        ("".join(f"[a.b{n}]\n" for n in range(MAX_TOML)), ".toml", "more than 50000 entries"),
        ("".join(f"a{n}=1\n" for n in range(MAX_TOML + 1)), ".toml", "more than 50000 entries"),
        (f"a = [{'1,' * MAX_TOML}]", ".toml", "more than 50000 entries"),
        ("[" * (MAX_DEPTH + 1), ".json", "nested more than 64"),
        ('{"a":' * (MAX_DEPTH + 1), ".json", "nested more than 64"),
        ('["\\"", /* " */ // "\n' + "[" * MAX_DEPTH, ".json", "nested more than 64"),
        ("[" + "[]," * 500_001, ".json", "more than 1000000 entries"),
        ("[" * (MAX_DEPTH + 1), ".yaml", "nested more than 64"),
        ("".join(f"{' ' * n}a:\n" for n in range(MAX_DEPTH + 2)), ".yaml", "nested more than 64"),
        ("a: &a " + "[" * 40 + "]" * 40 + "\nb: " + "[" * 40 + "*a" + "]" * 40, ".yaml", "nested more than 64"),
        ("- a\n" * 50_001, ".yaml", "more than 50000 entries"),
        ("a: &a [*a]", ".yaml", "endless"),
        ("a: " + "1:" * 40_000 + "1", ".yaml", "number of more than 4000 digits"),
    ],
    ids=range(23),
)
def test_what_is_too_much_is_refused_unparsed(text, suffix, expected):
    assert expected in str(refusal(text, suffix))


@pytest.mark.parametrize(
    ("text", "suffix"),
    [
        (f"[{PARTS}]\n{PARTS} = 1", ".toml"),
        (f"a = {'[' * MAX_DEPTH}{']' * MAX_DEPTH}\nb = 1", ".toml"),
        (f'a = \'{".[" * 100}\' # {".[" * 100}\nb = "{".[" * 100}\\"{".[" * 100}"', ".toml"),
        (f"a = {TRIPLE}{'.[' * 100}\n\\{TRIPLE}[{TRIPLE}\nb = '''\n{'.[' * 100}'''\n", ".toml"),
        ("a = [1.5, 1.5, 1.5, 1.5, 1.5, 1.5, 1.5, 1.5, 1.5, 1.5, 1.5, 1.5, 1.5, 1.5, 1.5, 1.5, 1.5]", ".toml"),
        (f'{{"a": "{"[" * 100}\\"{"[" * 100}", /* {"[" * 100} */ "b": 1}} // {"[" * 100}', ".json"),
        ('{"history": [' + ",".join(['{"display": "[[{", "at": 1}'] * 100_000) + "]}", ".json"),
        ("a: &a {b: 1}\n" + "".join(f"c{n}: *a\n" for n in range(1000)), ".yaml"),
    ],
    ids=range(8),
)
def test_what_people_write_is_not(text, suffix):
    REFUSE[suffix](text)


def test_the_line_is_said():
    assert refusal(f"b = 1\n\n{DEEP_TOML}", ".toml").line == 3
    assert refusal("{\n" + "[" * 70, ".json").line == 2
    assert refusal("a:\n  " + "[" * 70, ".yaml").line == 2


@pytest.mark.parametrize("quotes", ["'", '"', "'''", TRIPLE, "\\", '\\"', "/*", "/*/", "//", "#", "[", "a.", '"a".'])
@pytest.mark.parametrize("suffix", [".toml", ".json"])
def test_every_character_is_looked_at_once(quotes, suffix, monkeypatch):
    """A pass that begins anew at each of a million quotes does not end in the time of any test."""
    with monkeypatch.context() as patch:
        for limit in ("MAX_TOML", "MAX_DEPTH", "MAX_KEY_PARTS"):
            patch.setattr(text_limits, limit, 1 << 30)
        REFUSE[suffix](quotes * (1_000_000 // len(quotes)))
    with suppress(Problem):
        parse(f"{'{' if suffix == '.json' else ''}{quotes * 300_000}", Path(f"any{suffix}"))


TOKENS = ['"', "'", TRIPLE, "'''", "\\", "#", "\n", "[", "]", "{", "}", "=", ",", ".", " ", "a", "1", "a = ", "[a]"]


@given(st.lists(st.sampled_from(TOKENS), max_size=40).map("".join))
@example(f'a = [{TRIPLE}{TRIPLE}"", [[]]]')
def test_what_the_parser_sees_is_seen(text):
    """Where the text is sound, as many brackets are counted as the parser has made of it."""
    try:
        tree = tomllib.loads(text)
    except ValueError:
        return
    depth = _depth(tree)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_limits, "MAX_DEPTH", 0)
        patch.setattr(text_limits, "MAX_KEY_PARTS", 1)
        if depth > 1:
            with pytest.raises(Problem):
                text_limits.refuse_toml(text)


def _depth(tree) -> int:
    below = tree.values() if isinstance(tree, dict) else tree if isinstance(tree, list) else None
    return 0 if below is None else 1 + max(map(_depth, below), default=0)


def test_short_keys_within_short_keys_add_up():
    text = "a.a.a.a.a.a.a.a = {" * 9 + "b = 1" + "}" * 9
    refuse_toml(text)
    with pytest.raises(Problem, match="nested more than 64"):
        parse(text, Path("any.toml"))


@pytest.mark.parametrize(
    ("text", "suffix"),
    [
        ("".join(f"[upstreams.s{n}]\ncommand = 'x'\n" for n in range(MAX_SERVERS + 1)), ".toml"),
        (json.dumps({"mcpServers": {f"s{n}": {"command": "x"} for n in range(MAX_SERVERS + 1)}}), ".json"),
    ],
    ids=["toml", "json"],
)
def test_more_servers_than_any_hub_runs(text, suffix, tmp_path):
    from config.loading.read_source import Layer, read_source

    path = tmp_path / f"many{suffix}"
    path.write_text(text)
    source = read_source(path, Layer.USER, {})
    assert "names 1001 servers, and one file may name 1000" in str(source.findings.problems[0])
    assert not source.tables


@pytest.mark.parametrize(
    ("text", "suffix"),
    [
        ("a = " + "1" * 5000, ".toml"),
        ('{"a": ' + "1" * 5000 + "}", ".json"),
        *((f"a: {value}", ".yaml") for value in ('!!int ""', "!!bool x", "!!timestamp x", '!!float ""')),
    ],
)
def test_values_that_parsers_do_not_expect(text, suffix):
    with pytest.raises(Problem, match=r"is not (TOML|JSON|YAML)"):
        parse(text, Path(f"any{suffix}"))


def test_yaml_errors_are_the_parser_s():
    with pytest.raises(yaml.YAMLError):
        refuse_yaml("a: [")
