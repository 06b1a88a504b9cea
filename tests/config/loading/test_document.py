"""Text becomes a tree, whatever it is, and each key's line is known."""

import contextlib
import json
from pathlib import Path

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from config.diagnostics import Problem
from config.loading.document import Document, parse

KEYS = st.text(min_size=1, max_size=5)
TREES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=12,
)


def read(text: str, suffix: str) -> Document:
    return parse(text, Path(f"x{suffix}"))


def paths(tree: object, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """All paths to members of objects."""
    if isinstance(tree, dict):
        return [each for key, value in tree.items() for each in ((*path, key), *paths(value, (*path, key)))]
    if isinstance(tree, list):
        return [each for at, value in enumerate(tree) for each in paths(value, (*path, str(at)))]
    return []


@given(st.dictionaries(KEYS, TREES, max_size=4), st.sampled_from([".json", ".jsonc", ".yaml"]))
@example({"\U00010000": {"a": [{"b": 1}]}}, ".json")
def test_each_key_is_on_the_line_where_it_is_written(tree, suffix):
    text = json.dumps(tree, indent=1)
    assume(suffix != ".yaml" or "\\u" not in text)  # YAML knows no pairs of surrogates
    document = read(text, suffix)
    assert document.tree == tree
    lines = text.split("\n")
    found = [document.line(path) for path in paths(tree)]
    for path, line in zip(paths(tree), found, strict=True):
        assert line is not None
        assert lines[line - 1].lstrip().startswith(json.dumps(path[-1]) + ":")
    assert found == sorted(found), "in the order of the file"


@given(st.text(), st.sampled_from([".toml", ".json", ".yaml"]))
def test_any_text_is_a_tree_or_a_problem(text, suffix):
    with contextlib.suppress(Problem):
        read(text, suffix).line(("a", "b"))


@given(st.text(alphabet="[]{}\",:/*\\\n a.=#'-&*!", max_size=40), st.sampled_from([".toml", ".json", ".yaml"]))
def test_any_text_that_looks_like_one_is_a_tree_or_a_problem(text, suffix):
    with contextlib.suppress(Problem):
        read(text, suffix).line(("a", "b"))


TOML = '''\
top = 1  # [not.a.table]
a.b = { c = 1 }
text = """
[upstreams.x]
key = 1
"""
[ upstreams . "odd.name" ]
'literal' = ["a = 1", "[b]"]
[upstreams.late.env]
X = "1"
[upstreams.late]
args = [
  "k = 1",
]
'''


@pytest.mark.parametrize(
    ("keys", "line"),
    [
        (("top",), 1),
        (("a",), 2),
        (("a", "b", "c"), 2),
        (("text",), 3),
        (("upstreams", "odd.name"), 7),
        (("upstreams", "odd.name", "literal"), 8),
        (("upstreams", "late", "env", "X"), 10),
        (("upstreams", "late", "env", "Y"), 9),
        (("upstreams", "late"), 11),
        (("upstreams", "late", "args"), 12),
        (("upstreams",), 7),
        (("unheard",), None),
        ((), None),
    ],
)
def test_lines_of_toml(keys, line):
    assert read(TOML, ".toml").line(keys) == line


def test_comments_keep_their_lines():
    document = read('/* one\n two */ {\n// "a": 0\n"a": "//no", "b": [1, /*,*/ {"c": "a,]",},],\n}', ".json")
    assert document.tree == {"a": "//no", "b": [1, {"c": "a,]"}]}
    assert (document.line(("a",)), document.line(("b", "1", "c"))) == (4, 4)


def test_entries_of_lists_have_their_own_lines():
    document = read('{"a": [\n1,\n[2,\n3]\n]}', ".json")
    assert [document.line(("a", *keys)) for keys in ((), ("0",), ("1",), ("1", "1"), ("2",))] == [1, 2, 3, 4, 1]


@pytest.mark.parametrize("text", ["[,]", "{,}", "[1,,]", '{"a": 1,,}', "", "// nothing\n"])
def test_commas_follow_values(text):
    with pytest.raises(Problem, match="expected"):
        read(text, ".json")


BOMB = "a: &a [1, 1]\n" + "".join(
    f"{chr(98 + n)}: &{chr(98 + n)} [*{chr(97 + n)}, *{chr(97 + n)}]\n" for n in range(22)
)


@pytest.mark.parametrize(
    ("text", "suffix", "line", "expected"),
    [
        ("a = \n", ".toml", 1, "is not TOML at column 5"),
        ("[a", ".toml", 1, "is not TOML"),
        ('a = "x\nb = 1', ".toml", 1, "is not TOML"),
        ("a = " + "[" * 5000, ".toml", 1, "nested more than 64 levels deep"),
        ('{\n"a": }', ".json", 2, "is not JSON at column 6"),
        ("[" * 100_000, ".json", 1, "nested more than 64 levels deep"),
        ("a: b\nc: d: e", ".yaml", 2, "is not YAML at column 5"),
        ("a: !!python/object:os.system {}", ".yaml", 1, "could not determine a constructor"),
        ("a: 2020-13-45", ".yaml", None, "month must be in 1..12"),
        ("a: &a [*a]", ".yaml", 1, "its aliases make it endless"),
        (BOMB, ".yaml", 14, "has more than 50000 entries"),
        ("[" * 5000, ".yaml", 1, "nested more than 64 levels deep"),
        ("\0", ".yaml", None, "is not YAML"),
    ],
    ids=range(13),
)
def test_what_is_no_document_is_said(text, suffix, line, expected):
    with pytest.raises(Problem, match=expected) as caught:
        read(text, suffix)
    assert caught.value.line == line
