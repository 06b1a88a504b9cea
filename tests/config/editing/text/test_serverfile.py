"""Edits of TOML and YAML as text: every form people write, and those that are refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from config.editing.text.change import EditRefused
from config.editing.text.file_shape import Shape
from config.editing.text.serverfile import assign, entries, insert, plain, read, remove, snippet
from config.editing.text.toml import text_of

GOOSE = Shape("yaml", ("extensions",))
CONTINUE = Shape("yaml", ("mcpServers",), listed=True)
CODEX = Shape("toml", ("mcp_servers",))
ENTRY = {"cmd": "/opt/hubd", "args": ["connect", "--host", "x"], "envs": {}, "timeout": 300}
ITEM = {"name": "hub", "command": "/opt/hubd", "args": ["connect"]}
TABLE = {"command": "/opt/hubd", "args": ["connect"], "http_headers": {"X-A": 'b"c'}}

MAPPINGS = {
    "empty file": "",
    "only a comment": "# nothing yet\n",
    "only a start": "---\n",
    "no root": "a: 1\n",
    "no root, no line break": "a: 1",
    "empty root": "extensions:\n",
    "empty root in the middle": "extensions:   # none\na: 1\n",
    "null": "extensions: null\na: 1\n",
    "braces": "extensions: {}  # none\na: 1\n",
    "one": "extensions:\n  a:\n    cmd: x\n",
    "no line break": "extensions:\n  a:\n    cmd: x",
    "deep indent": "extensions:\n      a:\n            cmd: x\nb: 1\n",
    "CRLF": "extensions:\r\n  a:\r\n    cmd: x\r\nb: 1\r\n",
    "BOM": "\ufeffextensions:\n  a:\n    cmd: x\n",
    "comments behind": "extensions:\n  a:\n    cmd: x  # it\n  # the end\n\n# b\nb: 1\n",
    "list last": "extensions:\n  a:\n    args:\n    - x\n    - y\nb: 1\n",
    "null last": "extensions:\n  a:\n    cmd: x\n    envs:\nb: 1\n",
    "text over lines": "extensions:\n  a:\n    cmd: x\n    description: |\n      one\n\n      two\n\nb: 1\n",
    "folded text at the end": "extensions:\n  a:\n    description: >-\n      one\n      two",
    "quoted over lines": 'extensions:\n  a:\n    description: "one\n      two"\nb: 1\n',
    "aliases": "d: &d {cmd: x}\nextensions:\n  a: *d\nb: 1\n",
    "merged": "d: &d\n  cmd: x\nextensions:\n  a:\n    <<: *d\nb: 1\n",
    "flow inside": "extensions:\n  a: {cmd: x, args: [y]}\nb: 1\n",
    "quoted key": '"extensions":\n  "a":\n    cmd: x\n',
}


@pytest.mark.parametrize("case", MAPPINGS)
def test_a_mapping_in_yaml(case):
    text = MAPPINGS[case]
    edit = insert(GOOSE, text, "hub", ENTRY)
    changed = edit.apply(text)
    assert entries(GOOSE, changed)["hub"] == ENTRY
    assert changed[: edit.start] == text[: edit.start]
    assert changed.endswith(text[edit.start + len(edit.old) :])
    assert ("\r\n" in changed) == ("\r\n" in text)
    left = remove(GOOSE, changed, "hub").apply(changed)
    assert plain(GOOSE, read(GOOSE, left)) == plain(GOOSE, read(GOOSE, text))


LISTS = {
    "empty file": "",
    "no root": "name: x\n",
    "brackets": "mcpServers: []\nb: 1\n",
    "indented": "mcpServers:\n  - name: a\n    command: x\nb: 1\n",
    "not indented": "mcpServers:\n- name: a\n  command: x\nb: 1\n",
    "a dash alone": "mcpServers:\n  -\n    name: a\n    command: x\n",
    "comments": "mcpServers: # them\n  # first\n  - name: a # it\n    args:\n      - y # arg\n  # last\nb: 1\n",
    "others": "mcpServers:\n  - uses: a/b\n  - name: a\n    command: x\n",
}


@pytest.mark.parametrize("case", LISTS)
def test_a_list_in_yaml(case):
    text = LISTS[case]
    changed = insert(CONTINUE, text, "hub", ITEM).apply(text)
    assert entries(CONTINUE, changed)["hub"] == ITEM
    left = remove(CONTINUE, changed, "hub").apply(changed)
    assert plain(CONTINUE, read(CONTINUE, left)) == plain(CONTINUE, read(CONTINUE, text))


TABLES = {
    "empty file": "",
    "others": 'model = "x" # it\n\n[mcp_servers.a]\ncommand = "y"\n\n[tui]\nb = 1\n',
    "no line break": "[tui]\nb = 1",
    "CRLF": "[tui]\r\nb = 1\r\n",
    "a super table": '[mcp_servers]\n[mcp_servers.a]\ncommand = "x"\n',
    "tables in lists": "[[things]]\na = 1\n[[things]]\na = 2\n",
    "headers in texts": 'a = """\n[mcp_servers.hub]\n"""\n',
    "lists that look like headers": 'a = [\n["mcp_servers"],\n["b"], ["c"]\n]\n',
    "separators within a line": 'a = "\u2028"\n[b] # \x85\n',
}


@pytest.mark.parametrize("case", TABLES)
def test_a_table_in_toml(case):
    text = TABLES[case]
    changed = insert(CODEX, text, "hub", TABLE).apply(text)
    assert changed.startswith(text)
    assert entries(CODEX, changed)["hub"] == TABLE
    left = remove(CODEX, changed, "hub").apply(changed)
    assert read(CODEX, left) == read(CODEX, text)


def test_a_table_with_tables_in_it_goes_as_a_whole():
    ours = '# ours\n[mcp_servers.hub]\ncommand = "h"\n\n[mcp_servers."hub".env]\nA = "b"\n'
    text = f"{ours}\n# next\n[mcp_servers.a]\nc = 1\n"
    assert remove(CODEX, text, "hub").apply(text) == "# ours\n\n# next\n[mcp_servers.a]\nc = 1\n"


@pytest.mark.parametrize(
    ("shape", "text", "key"),
    [
        (CODEX, "mcp_servers = { hub = { command = 'x' } }\n", "hub"),
        (CODEX, "[mcp_servers]\nhub.command = 'x'\n", "hub"),
        (CODEX, "[mcp_servers.hub]\na = 1\n[b]\n[mcp_servers.hub.env]\nc = 1\n", "hub"),
        (CODEX, "[mcp_servers.a]\n", "hub"),
        (GOOSE, "extensions: {hub: {cmd: x}}\n", "hub"),
        (GOOSE, "extensions: {a: {cmd: x}}\n", "hub"),
        (GOOSE, "a: 1\n", "hub"),
        (CONTINUE, "mcpServers:\n  - name: a\n", "hub"),
    ],
)
def test_what_is_not_there_in_lines_of_its_own_is_not_taken_out(shape, text, key):
    with pytest.raises(EditRefused):
        remove(shape, text, key)


@pytest.mark.parametrize(
    ("shape", "text", "why"),
    [
        (GOOSE, "extensions: {a: 1}\n", "in one line"),
        (GOOSE, "{a: 1}\n", "in one line"),
        (GOOSE, "extensions: x\n", "not a mapping"),
        (GOOSE, "a: 1\n...\n", "cannot be edited for certain"),
        (GOOSE, "a: [\n", r"is not YAML at column 1: .* \(line 2\)"),
        (GOOSE, "- a\n", "not a YAML mapping"),
        (GOOSE, "extensions:\n  a: 1\nextensions:\n  b: 1\n", "stands there twice"),
        (GOOSE, "extensions:\n  hub: 1\n", "is there already"),
        (CONTINUE, "mcpServers:\n  - name: hub\n", "is there already"),
        (CODEX, "a = \n", "is not TOML"),
        (CODEX, "mcp_servers = 1\n", "not a mapping"),
    ],
)
def test_what_cannot_be_edited_for_certain_is_refused(shape, text, why):
    with pytest.raises(EditRefused, match=why):
        insert(shape, text, "hub", ITEM)


@pytest.mark.parametrize(
    ("shape", "text", "changed"),
    [
        (GOOSE, "extensions:\n  a:\n    enabled: true # on\n", "extensions:\n  a:\n    enabled: false # on\n"),
        (GOOSE, "extensions:\n  a:\n    cmd: x\n", "extensions:\n  a:\n    enabled: false\n    cmd: x\n"),
        (CONTINUE, "mcpServers:\n- name: a\n", "mcpServers:\n- enabled: false\n  name: a\n"),
        (CODEX, "[mcp_servers.a] # a\nb = 1 # b\n", "[mcp_servers.a] # a\nenabled = false\nb = 1 # b\n"),
        (CODEX, "[mcp_servers.a]\nenabled = true # on\n", "[mcp_servers.a]\nenabled = false # on\n"),
    ],
)
def test_one_setting_is_changed(shape, text, changed):
    assert assign(shape, text, "a", "enabled", False).apply(text) == changed


@pytest.mark.parametrize("shape", [GOOSE, CODEX])
def test_a_setting_of_nothing_is_refused(shape):
    with pytest.raises(EditRefused, match='there is no "a"'):
        assign(shape, "", "a", "enabled", False)


@pytest.mark.parametrize(("shape", "entry"), [(GOOSE, ENTRY), (CONTINUE, ITEM), (CODEX, TABLE)])
def test_what_to_paste_says_the_same(shape, entry):
    assert entries(shape, snippet(shape, "hub", entry))["hub"] == entry


@given(st.text(st.characters(codec="utf-8")))
def test_any_text_is_written_as_toml(text):
    assert read(CODEX, f"a = {text_of(text)}\n") == {"a": text}
