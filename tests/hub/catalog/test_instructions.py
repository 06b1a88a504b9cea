"""How the instructions of many servers become those of the hub."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from hub.catalog.instructions import LEAST_TEXT, MAX_INSTRUCTIONS, ServerWords, cut, index, instructions, join, shares
from hub.catalog.token_cost import TokenCost, cost_of, text_bytes, tokens_of, tool_bytes
from hub.catalog.visible_names import UpstreamRule
from hub.wire.mcp import Kind
from tests.hub.catalog.test_catalog import alone_in, entry, merged, rules, snapshot


@pytest.mark.covers("G-12")
def test_what_fits_stays_as_it_is():
    assert join([]) == ""
    assert join([("a", "One.\n\nTwo."), ("b", "Three")]) == "# a\n\nOne.\n\nTwo.\n\n# b\n\nThree"
    text = "x" * (MAX_INSTRUCTIONS - len("# a\n\n"))
    assert join([("a", text)]) == f"# a\n\n{text}"


@pytest.mark.covers("G-12")
def test_who_says_little_is_heard_in_full_and_who_says_more_is_cut_alike():
    long = "This is a sentence of some length. " * 100
    said = join([("a", long), ("b", "Short."), ("c", long)])
    assert len(said.encode()) <= MAX_INSTRUCTIONS
    a, b, c = (section.partition("\n\n")[2] for section in said.split("\n\n# "))
    assert b == "Short."
    assert a == c
    assert a.endswith("of some length. …")
    assert len(a) > (MAX_INSTRUCTIONS - 50) // 2 - 40


@pytest.mark.covers("G-12")
def test_servers_for_which_there_is_no_room_are_mentioned():
    said = join([(f"server{number}", "x" * 200) for number in range(1000)])
    sections = said.split("\n\n# ")
    assert sections[0].startswith("# server0\n\nxxx")
    assert sections[-1] == "Further servers\n\nThere is no room here for what they say."
    assert 15 < len(sections) < MAX_INSTRUCTIONS // LEAST_TEXT


@pytest.mark.parametrize(
    ("text", "room", "expected"),
    [
        ("One two. Three four.", 20, "One two. Three four."),
        ("One two. Three four.", 19, "One two. …"),
        ("One two\nThree four.", 18, "One two …"),
        ("A. bcdefg hijklmn opq", 20, "A. bcdefg …"),
        ("abcdefghijkl", 10, "abcdef …"),
        ("éééééééé", 10, "ééé …"),
    ],
)
def test_a_text_is_cut_where_it_reads_well(text, room, expected):
    assert cut(text, room) == expected
    assert len(expected.encode()) <= room


@given(st.lists(st.tuples(st.text("aé (", max_size=90), st.text("aé .\n", min_size=1, max_size=900)), max_size=60))
def test_there_is_never_more_than_hosts_show(sections):
    assert len(join(sections).encode()) <= MAX_INSTRUCTIONS


@given(st.lists(st.integers(0, 500)), st.integers(0, 5000))
def test_shares_are_fair(needs, whole):
    found = shares(needs, whole)
    assert sum(found) <= whole
    assert all(share <= need for share, need in zip(found, needs, strict=True))
    less = [share for share, need in zip(found, needs, strict=True) if share < need]
    assert not less or max(found) - min(less) <= 1
    assert not less or whole - sum(found) < len(needs)


def words(number, *, title="", text="", offers="38 tools"):
    return ServerWords(f"server{number}__*", f"server{number}", title, offers, text)


@pytest.mark.covers("EP-9")
def test_a_profiles_own_words_come_first_then_a_line_for_each_server_then_their_texts():
    said = instructions(
        "Ask before you push.", [words(1, title="Issues"), words(2, text="# Notes: all of them.\n\nMore.")]
    )
    assert said == (
        "Ask before you push.\n\n"
        "server1__*: Issues; 38 tools\nserver2__*: Notes: all of them; 38 tools\n\n"
        "# server2 (tools: server2__*)\n\n# Notes: all of them.\n\nMore."
    )
    assert instructions("", []) == ""
    assert instructions(" Only this. ", []) == "Only this."


@pytest.mark.covers("EP-9")
@pytest.mark.parametrize("count", [3, 30, 60])
def test_every_server_has_its_line_however_much_they_say(count):
    servers = [words(number, title="Issues, pull requests and " * 3, text="Use me. " * 100) for number in range(count)]
    said = instructions("", servers)
    assert len(said.encode()) <= MAX_INSTRUCTIONS
    lines = said.split("\n\n")[0].splitlines()
    assert [line.partition(":")[0] for line in lines] == [each.prefix for each in servers]
    assert all(line.endswith("38 tools") for line in lines)
    assert ("Use me." in said) == (count == 3), "lines are not cut before texts"


@pytest.mark.covers("EP-9")
def test_servers_beyond_all_room_are_counted():
    said = instructions("x" * 1_000, [words(number) for number in range(200)])
    assert len(said.encode()) <= MAX_INSTRUCTIONS
    lines = said.split("\n\n")[1].splitlines()
    assert lines[-1] == f"and {200 - len(lines) + 1} more servers"
    assert len(lines) > 30


def test_a_line_is_one_line_whatever_a_server_says():
    said = index([words(1, text="\n\n## A\x00b\u202e\ttitle\nnext"), words(2, text="\n"), words(3, offers="")], 2_000)
    assert said.splitlines() == ["server1__*: A b title; 38 tools", "server2__*: 38 tools", "server3__*"]


_words = st.builds(
    ServerWords,
    st.sampled_from(["", "a__*", "longer-name__*"]),
    st.text("ab", min_size=1, max_size=32),
    st.text("aé ", max_size=80),
    st.sampled_from(["", "1 tool", "38 tools"]),
    st.text("aé .\n#", max_size=400),
)


@given(st.text("xé. ", max_size=2_000), st.lists(_words, max_size=90))
def test_all_together_are_never_more_than_hosts_show(own, servers):
    assert len(instructions(own, servers).encode()) <= MAX_INSTRUCTIONS


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-1000, 1000) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)


def compact(tool):
    """Bytes of the compact JSON of what a model is shown of a tool."""
    shown = {name: tool[name] for name in ("name", "description", "inputSchema") if name in tool}
    return len(json.dumps(shown, ensure_ascii=False, separators=(",", ":")).encode())


@given(
    name=st.text(max_size=8), description=st.text(max_size=30), schema=VALUES, spaces=st.booleans(), bare=st.booleans()
)
def test_the_size_of_a_tool_is_that_of_its_compact_json(name, description, schema, spaces, bare):
    separators = (", ", ": ") if spaces else (",", ":")

    def sent(value):
        return Raw(json.dumps(value, separators=separators).encode())

    fields = {
        "inputSchema": sent(schema),
        "outputSchema": sent({"a": "b" * 999}),
        "title": sent("long"),
        "_meta": sent({}),
    }
    tool = {"name": name, "inputSchema": schema}
    if not bare:
        fields["description"], tool["description"] = sent(description), description
    exact = compact(tool)
    found = tool_bytes(name, fields)
    # JSON has several forms of control characters, and a space that is hard to tell from text is counted
    assert exact <= found + 6 * json.dumps(tool).count("\\")
    assert found <= exact + 6 * json.dumps(tool).count("\\") + 8 * (json.dumps(schema).count(" ") if spaces else 0)


@pytest.mark.parametrize("text", ["plain", "größer", "日本語", '"quoted"'])
def test_escapes_and_spaces_cost_nothing(text):
    schema = {"type": "object", "properties": {text: {"type": "string"}}}
    tool = {"name": "a", "description": text, "inputSchema": schema}
    for form in ({}, {"ensure_ascii": False}, {"indent": 2}, {"separators": (",", ":")}):
        fields = {key: Raw(json.dumps(value, **form).encode()) for key, value in tool.items()}
        assert tool_bytes("a", fields) == compact(tool)


def test_what_cannot_be_read_is_counted_as_it_is():
    deep = b"[" * 5000 + rb'"\u00e9"' + b"]" * 5000
    assert tool_bytes("a", {"inputSchema": Raw(deep)}) > 10_000
    assert text_bytes("\ud800é") == 3


@given(st.dictionaries(st.text(max_size=3), st.integers(0, 10_000)))
def test_sums(sizes):
    cost = cost_of(sizes)
    assert (cost.tools, cost.bytes) == (len(sizes), sum(sizes.values()))
    assert cost.largest_bytes == max(sizes.values(), default=0) == sizes.get(cost.largest, 0)
    assert cost.tokens == tokens_of(cost.bytes) >= cost.largest_tokens


def test_a_catalogue_counts_what_its_models_are_shown():
    ui = {"_meta": {"ui": {"visibility": ["app"]}}}
    files = snapshot("files", ["read", "delete", entry(Kind.TOOL, "draw", **ui)])
    other = snapshot("other", ["read"])
    catalog = merged(files, other, rule=rules(UpstreamRule("files", tools=("!delete",), apps=True), "other"))
    assert {name: (cost.tools, cost.largest) for name, cost in catalog.costs.items()} == {
        "files": (1, "files__read"),
        "other": (1, "other__read"),
    }
    exact = compact({"name": "files__read", "inputSchema": {"type": "object"}})
    assert catalog.costs["files"].bytes == exact
    assert alone_in(catalog, "files").costs["files"].bytes == exact - len("files__")
    assert catalog.costs is catalog.costs, "counted once"
    assert merged(snapshot("none")).costs == {"none": TokenCost()}


def test_a_tool_that_an_earlier_server_hides_costs_nothing():
    hidden = snapshot("b", ["a__x", "y"])
    catalog = merged(snapshot("a", ["x"]), hidden, rule=rules("a", UpstreamRule("b", prefix="")))
    assert {name: cost.tools for name, cost in catalog.costs.items()} == {"a": 1, "b": 1}


@pytest.mark.covers("ET-1")
def test_nothing_is_counted_before_it_is_asked_for(monkeypatch):
    calls = []
    monkeypatch.setattr("hub.catalog.upstream_entries.tool_bytes", lambda *tool: calls.append(tool) or 4)
    first = merged(snapshot("a", ["x", "y"]), snapshot("b", ["z"]))
    first.page(Kind.TOOL, "2025-11-25", None)
    assert calls == []
    assert first.costs
    snapshots = [part.snapshot for part in first.parts]
    second = merged(*snapshots, claims=first._claims, previous=first)
    assert second.costs
    assert len(calls) == 3, "what is known of a server that did not change is kept"
