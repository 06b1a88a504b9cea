"""Edits of JSON with comments: what is not ours keeps every byte, and the result says what was meant."""

import json
from itertools import cycle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from config.editing.text import jsonc
from config.editing.text.change import EditRefused
from config.editing.text.file_shape import Shape
from config.editing.text.serverfile import assign, entries, insert, plain, read, remove, snippet
from config.loading.json_scanner import scan

SERVERS = Shape("json", ("mcpServers",))
ENTRY = {"command": "/opt/hubd", "args": ["connect", "--host", "x"]}

CASES = {
    "spread": (
        """{
  // mine
  "mcpServers": {
    "a": {"command": "x"} // last
  },
  "other": [1, 2,],
}
""",
        """{
  // mine
  "mcpServers": {
    "a": {"command": "x"}, // last
    "hub": {
      "command": "/opt/hubd",
      "args": ["connect", "--host", "x"]
    }
  },
  "other": [1, 2,],
}
""",
    ),
    "trailing comma": (
        '{\n\t"mcpServers": {\n\t\t"a": {"command": "x"},\n\t}\n}',
        '{\n\t"mcpServers": {\n\t\t"a": {"command": "x"},\n\t\t"hub": {\n\t\t\t"command": "/opt/hubd",\n'
        '\t\t\t"args": ["connect", "--host", "x"]\n\t\t},\n\t}\n}',
    ),
    "one line": (
        '{"mcpServers": {"a": {"command": "x"}}}',
        '{"mcpServers": {"a": {"command": "x"}, "hub": {"command": "/opt/hubd", "args": ["connect", "--host", "x"]}}}',
    ),
    "one line, empty": (
        '{"mcpServers":{},"b":1}',
        '{"mcpServers":{"hub": {"command": "/opt/hubd", "args": ["connect", "--host", "x"]}},"b":1}',
    ),
    "empty root key": (
        '{\n    "mcpServers": {}\n}\n',
        '{\n    "mcpServers": {\n        "hub": {\n            "command": "/opt/hubd",\n'
        '            "args": ["connect", "--host", "x"]\n        }\n    }\n}\n',
    ),
    "empty root key over lines": (
        '{\n    "mcpServers": {\n    }\n}\n',
        '{\n    "mcpServers": {\n        "hub": {\n            "command": "/opt/hubd",\n'
        '            "args": ["connect", "--host", "x"]\n        }\n    }\n}\n',
    ),
    "only comments in it": (
        '{\n  "mcpServers": {\n    // "a": {}\n  }\n}\n',
        '{\n  "mcpServers": {\n    // "a": {}\n    "hub": {\n      "command": "/opt/hubd",\n'
        '      "args": ["connect", "--host", "x"]\n    }\n  }\n}\n',
    ),
    "missing root key, CRLF, BOM": (
        '\ufeff{\r\n  "theme": "dark"\r\n}\r\n',
        '\ufeff{\r\n  "theme": "dark",\r\n  "mcpServers": {\r\n    "hub": {\r\n      "command": "/opt/hubd",\r\n'
        '      "args": ["connect", "--host", "x"]\r\n    }\r\n  }\r\n}\r\n',
    ),
    "null": (
        '{\n  "mcpServers": null\n}\n',
        '{\n  "mcpServers": {\n    "hub": {\n      "command": "/opt/hubd",\n'
        '      "args": ["connect", "--host", "x"]\n    }\n  }\n}\n',
    ),
    "empty object": (
        "{}",
        '{\n  "mcpServers": {\n    "hub": {\n      "command": "/opt/hubd",\n'
        '      "args": ["connect", "--host", "x"]\n    }\n  }\n}',
    ),
    "empty file": (
        "",
        '{\n  "mcpServers": {\n    "hub": {\n      "command": "/opt/hubd",\n'
        '      "args": ["connect", "--host", "x"]\n    }\n  }\n}\n',
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_an_entry_is_written_as_its_neighbours_are(case):
    before, after = CASES[case]
    edit = insert(SERVERS, before, "hub", ENTRY)
    assert edit.apply(before) == after
    assert entries(SERVERS, after)["hub"] == ENTRY


@pytest.mark.parametrize("case", [case for case in CASES if case not in ("null", "empty file", "empty object")])
def test_an_entry_is_taken_out_without_a_record_of_how_it_came(case):
    before, after = CASES[case]
    shown = remove(SERVERS, after, "hub").apply(after)
    assert plain(SERVERS, read(SERVERS, shown)) == plain(SERVERS, read(SERVERS, before))
    if '"a"' in before and "//" not in before.partition('"a"')[0].rpartition("{")[2]:
        assert shown == before


FIRST = '{\n  "mcpServers": {\n    "hub": {"command": "h"}, // ours\n    "a": {"command": "x"}\n  }\n}\n'


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (FIRST, '{\n  "mcpServers": {\n    "a": {"command": "x"}\n  }\n}\n'),
        ('{"mcpServers": {"hub": {}, "a": {}}}', '{"mcpServers": {"a": {}}}'),
        ('{"mcpServers": {"a": {}, "hub": {}, "b": {}}}', '{"mcpServers": {"a": {}, "b": {}}}'),
        ('{"mcpServers": {"a": {} /* , */ , "hub": {}}}', '{"mcpServers": {"a": {} /* , */ }}'),
        ('{"mcpServers": { "hub": {}, }}', '{"mcpServers": {}}'),
    ],
)
def test_an_entry_is_taken_out_from_anywhere(before, after):
    assert remove(SERVERS, before, "hub").apply(before) == after


COMMENTED = {
    "behind, last": ('"a": {},\n    "hub": {} // demo', '"a": {}'),
    "behind, first": ('"hub": {}, // demo\n    "a": {} // a', '"a": {} // a'),
    "behind, before the comma": ('"hub": {} /* demo */,\n    "a": {}', '"a": {}'),
    "behind, the last comma too": ('"a": {}, // a\n    "hub": {}, // demo', '"a": {}, // a'),
    "above": ('"a": {},\n    // demo\n    "hub": {},\n    "b": {}', '"a": {},\n    "b": {}'),
    "above, first": ('// demo\n    "hub": {},\n    "b": {}', '"b": {}'),
    "above, two lines": ('"a": {}, // a\n    /* demo,\n     for you */\n    // and me\n    "hub": {}', '"a": {} // a'),
    "above and behind": ('// demo\n    "hub": {\n      "x": 1 // x\n    }, // here\n    "b": {}', '"b": {}'),
    "alone": ('// demo\n    "hub": {} // it', None),
    "above, set apart": ('"a": {},\n\n    // demo\n\n    "hub": {}', '"a": {}\n\n    // demo\n'),
    "of the object": ('// all of them\n\n    // demo\n    "hub": {},\n    "b": {}', '// all of them\n\n    "b": {}'),
    "of the next": ('"hub": {},\n    // b\n    "b": {}', '// b\n    "b": {}'),
    "of the next, on its line": ('"hub": {}, /* b */ "b": {}', '/* b */ "b": {}'),
    "commented out": (
        '"a": {},\n    // "old": {"command": "x"},\n    "hub": {}',
        '"a": {}\n    // "old": {"command": "x"},',
    ),
    "a part commented out": ('"a": {},\n    // }\n    // demo\n    "hub": {}', '"a": {}\n    // }'),
    "heading": (
        '// work\n    "hub": {}, // demo\n    "b": {},\n\n    // at home\n    "c": {}',
        '// work\n    "b": {},\n\n    // at home\n    "c": {}',
    ),
    "heading in the middle": (
        '// work\n    "a": {},\n\n    // at home\n    "hub": {},\n    "c": {}',
        '// work\n    "a": {},\n\n    // at home\n    "c": {}',
    ),
}


@pytest.mark.parametrize("break_", ["\n", "\r\n"])
@pytest.mark.parametrize("case", COMMENTED)
def test_comments_go_with_the_entry_they_belong_to(case, break_):
    before, after = COMMENTED[case]
    text = f'{{ // mine\n  "mcpServers": {{ // these\n    {before}\n  }}, // end\n  "z": 1\n}}\n'.replace("\n", break_)
    left = f'{{ // mine\n  "mcpServers": {{ // these\n    {after}\n  }}, // end\n  "z": 1\n}}\n'.replace("\n", break_)
    edit = remove(SERVERS, text, "hub")
    if after is not None:
        assert edit.apply(text) == left
    else:
        assert "demo" not in edit.apply(text)
        assert "// these" in edit.apply(text)
    assert edit.apply(text)[: edit.start] + edit.old + edit.apply(text)[edit.start + len(edit.new) :] == text


def test_one_setting_is_changed():
    a, b = '"a": {\n      "command": "x" // it\n    }', '"b": {"disabled": true /* ! */}'
    text = f'{{\n  "mcpServers": {{\n    {a},\n    {b}\n  }}\n}}'
    changed = assign(SERVERS, text, "a", "disabled", True).apply(text)
    assert '"command": "x", // it\n      "disabled": true\n    },' in changed
    assert '"disabled": false /* ! */' in assign(SERVERS, text, "b", "disabled", False).apply(text)
    with pytest.raises(EditRefused, match='there is no "c"'):
        assign(SERVERS, text, "c", "disabled", True)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"mcpServers": {}', r"column 18: expected \",\" or \"}\" \(line 1\)"),
        ('{\n "a": tru }', r"column 7: expected a value \(line 2\)"),
        ("[]", "is not a JSON object"),
        ('{"mcpServers": []}', "is not a mapping of servers"),
        ('{"mcpServers": {}, "mcpServers": {}}', "stands there twice"),
        ('{"mcpServers": {"hub": 1}}', "is there already"),
        ('{"a": "\n"}', "line 1"),
        ('{} {"a": 1}', "expected the end of the file"),
        ("[" * 5000, "nested more than 64 levels"),
        ('{"a": ' + "9" * 5000 + "}", "a number of that many digits"),
        ("{'a': 1}", "expected a name in quotes"),
        ('{"a" 1}', 'expected ":"'),
        ('{"a": 1 // no end', "expected"),
        ('{"a": 1 /* no end }', "expected"),
    ],
)
def test_what_cannot_be_read_is_refused(text, why):
    with pytest.raises(EditRefused, match=why):
        insert(SERVERS, text, "hub", ENTRY)


def test_what_to_paste():
    assert json.loads(snippet(Shape("json", ("mcp", "servers")), "hub", ENTRY)) == {"mcp": {"servers": {"hub": ENTRY}}}


# --- any document -----------------------------------------------------------------------------------------------------

names = st.text(st.characters(codec="utf-8", exclude_characters="\x7f"), max_size=6)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | names,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=8,
)
blanks = st.lists(
    st.sampled_from([" ", "  ", "\t", "\n", "\r\n", "// c, }\n", '/* "x": { */', "/* a\n b */"]), max_size=3
).map("".join)


def written(value, blank, coin):
    """`value` as someone might write it, who chooses blanks and one of two ways in turn."""
    if not isinstance(value, dict | list):
        return json.dumps(value)
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    parts = []
    for each in value:
        name = f"{json.dumps(each, ensure_ascii=next(coin))}{next(blank)}:{next(blank)}" * isinstance(value, dict)
        inner = written(value[each] if isinstance(value, dict) else each, blank, coin)
        parts.append(f"{next(blank)}{name}{inner}{next(blank)}")
    trailing = "," * (bool(parts) and next(coin))
    return opening + ",".join(parts) + trailing + next(blank) + closing


@st.composite
def documents(draw):
    """A document, and a text of it. A choice for each place of the text would take most of the time."""
    blank = cycle(draw(st.lists(blanks, min_size=1, max_size=7)))
    coin = cycle(draw(st.lists(st.booleans(), min_size=1, max_size=3)))
    document = draw(st.dictionaries(names, values, max_size=3))
    document.pop("mcpServers", None)
    if draw(st.booleans()):
        document["mcpServers"] = draw(st.dictionaries(names.filter(lambda name: name != "hub"), values, max_size=3))
        if draw(st.booleans()):
            document = dict(reversed(document.items()))
    return document, next(blank) + written(document, blank, coin) + next(blank)


@given(documents())
def test_in_any_document_what_goes_in_comes_out(case):
    document, text = case
    assert read(SERVERS, text) == document
    edit = insert(SERVERS, text, "hub", ENTRY)
    changed = edit.apply(text)
    meant = {**document, "mcpServers": {**(document.get("mcpServers") or {}), "hub": ENTRY}}
    assert read(SERVERS, changed) == meant
    assert changed[: edit.start] + edit.old + changed[edit.start + len(edit.new) :] == text
    removed = remove(SERVERS, changed, "hub").apply(changed)
    assert plain(SERVERS, read(SERVERS, removed)) == plain(SERVERS, document)


def test_blanks_before_a_bracket_are_looked_at_once():
    text = '{\n  "a": 1' + " " * 100_000 + "}"
    assert jsonc.insert(text, (), "b", 2).apply(text) == '{\n  "a": 1,\n  "b": 2' + " " * 100_000 + "}"


def nodes_in(node):
    """The number of nodes that were made for a text."""
    return 1 + sum(nodes_in(member.node) for member in node.members) + sum(map(nodes_in, node.items))


def test_each_text_is_scanned_once_and_nodes_are_made_on_the_way_alone(monkeypatch):
    made = {}

    def counted(text, path):
        assert text not in made, "it was scanned already"
        node = scan(text, path)
        made[text] = nodes_in(node)
        return node

    monkeypatch.setattr(jsonc, "scan", counted)
    history = {f"k{number}": {"x": [1, 2, 3]} for number in range(20_000)}
    text = json.dumps({"mcpServers": {"a": {"command": "x"}}, **history})
    assert list(entries(SERVERS, text)) == ["a"]
    whole = insert(SERVERS, text, "hub", ENTRY).apply(text)
    assert list(entries(SERVERS, whole)) == ["a", "hub"]
    rest = remove(SERVERS, whole, "a").apply(whole)
    assert list(entries(SERVERS, rest)) == ["hub"]
    assert read(SERVERS, rest)["k19999"] == {"x": [1, 2, 3]}
    assert list(made) == [text, whole, rest]
    assert all(count <= len(history) + 8 for count in made.values()), "of 100 000 values"


def test_comments_are_read_with_and_without_a_way():
    plain_text = '{"a": {"b": {"c": [1, {"d": 2}]}, "e": 3}, "f": {"g": 4}}'
    commented = '{"a": {"b": {"c": [1, {"d": 2,}]}, /* e */ "e": 3}, "f": {"g": 4},}'
    for text in (plain_text, "\ufeff" + plain_text, commented):
        for path in (None, (), ("a",), ("a", "b"), ("z",)):
            assert scan(text, path).value == json.loads(plain_text)
    assert not scan(plain_text, ("a",)).members[1].node.members
