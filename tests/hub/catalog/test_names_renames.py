"""Tools under the names and descriptions of the configuration: lists, calls, and names that are taken."""

import json
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.catalog.endpoint_views import server_view
from hub.catalog.merge_catalog import merge
from hub.catalog.time_slices import finish
from hub.catalog.upstream_entries import Route
from hub.catalog.uri_claims import UriClaims
from hub.catalog.visible_names import Rules, UpstreamRule, rename
from hub.wire.mcp import L4, Kind
from tests.hub.catalog.test_catalog import entry, snapshot

pytestmark = pytest.mark.covers("EP-11")


def catalog(*tools, scoped=False, budget=50, **rule):
    rules = Rules((UpstreamRule("files", **rule), UpstreamRule("mail")), budget=budget)
    entries = [each if not isinstance(each, str) else entry(Kind.TOOL, each, description="own") for each in tools]
    found = merge([snapshot("files", tools=entries), snapshot("mail", tools=["send"])], rules, UriClaims())
    return found.of_server(server_view("files"), finish(found.parts[0].in_own_scope())) if scoped else found


def listed(found):
    return {tool["name"]: tool for tool in json.loads(bytes(found.page(Kind.TOOL, L4, None).value))["tools"]}


def test_a_renamed_tool_is_listed_by_the_new_name_and_called_by_both():
    found = catalog("read_text_file", "write", rename=(("read_text_file", "read"),))
    assert [*listed(found)] == ["files__read", "files__write", "mail__send"]
    assert found.route(Kind.TOOL, "files__read") == Route("files", "read_text_file")
    assert found.route(Kind.TOOL, "files__read_text_file") == Route("files", "read_text_file")
    assert listed(found)["files__read"]["_meta"]["dev.hubd/originalName"] == "read_text_file"
    assert dict(found.tool_bytes()).keys() == listed(found).keys()
    assert found.warnings == ()


def test_on_its_own_endpoint_it_has_the_new_name_without_a_prefix():
    found = catalog("read_text_file", scoped=True, rename=(("read_text_file", "read"),))
    assert listed(found) == {"read": {"name": "read", "inputSchema": {"type": "object"}, "description": "own"}}
    assert (
        found.route(Kind.TOOL, "read") == found.route(Kind.TOOL, "read_text_file") == Route("files", "read_text_file")
    )


def test_a_server_with_bare_names():
    found = catalog("read_text_file", prefix="", rename=(("read_text_file", "read"),))
    assert [*listed(found)] == ["read", "mail__send"]
    assert found.route(Kind.TOOL, "read_text_file") == Route("files", "read_text_file")
    assert listed(found)["read"]["_meta"]["dev.hubd/originalName"] == "read_text_file"


def test_former_names_of_the_server_lead_to_both_names():
    found = catalog("read_text_file", aliases=("docs",), rename=(("read_text_file", "read"),))
    for name in ("docs__read", "docs__read_text_file"):
        assert found.route(Kind.TOOL, name) == Route("files", "read_text_file")


def test_a_name_that_is_taken_counts_for_nothing_and_one_warning_says_so():
    rename = (("read_text_file", "read"),)
    found = catalog("read_text_file", "read", rename=rename)
    assert [*listed(found)] == ["files__read_text_file", "files__read", "mail__send"]
    assert found.route(Kind.TOOL, "files__read") == Route("files", "read")
    assert found.warnings == ("files: 'read_text_file' keeps its name, since another tool is called 'files__read'",)
    assert catalog("read_text_file", rename=rename).route(Kind.TOOL, "files__read") == Route("files", "read_text_file")


def test_names_can_be_swapped():
    found = catalog("a", "b", rename=(("a", "b"), ("b", "a")))
    assert found.route(Kind.TOOL, "files__a") == Route("files", "b")
    assert found.route(Kind.TOOL, "files__b") == Route("files", "a")
    assert found.warnings == ()


def test_a_rename_that_fails_can_make_another_one_fail():
    found = catalog("a", "b", "c", rename=(("b", "a"), ("a", "c")))
    assert [*listed(found)] == ["files__a", "files__b", "files__c", "mail__send"]
    assert len(found.warnings) == 2


def test_what_is_too_long_for_this_budget_or_not_listed_keeps_its_name():
    found = catalog("a", budget=32, rename=(("a", "x" * 30), ("gone", "y")))
    assert [*listed(found)] == ["files__a", "mail__send"]
    assert "longer than 32 characters" in found.warnings[0]


def test_a_new_name_may_look_like_one_that_was_shortened():
    assert "files__x_deadbeef" in listed(catalog("a", rename=(("a", "x_deadbeef"),)))


def test_the_choice_of_tools_goes_by_own_names():
    found = catalog("read_text_file", "write", tools=("read_text_file",), rename=(("read_text_file", "read"),))
    assert [*listed(found)] == ["files__read", "mail__send"]
    assert [*listed(catalog("a", "write", tools=("write",), rename=(("a", "write"),)))] == [
        "files__write",
        "mail__send",
    ]


def test_descriptions():
    found = catalog("read", "bare", describe=(("read", 'Reads "it".'), ("gone", "x")))
    assert listed(found)["files__read"]["description"] == 'Reads "it".'
    assert listed(found)["files__bare"]["description"] == "own"
    plain = catalog("read", "bare")
    assert found.differs(plain, Kind.TOOL)
    assert (
        dict(found.tool_bytes())["files__read"] == dict(plain.tool_bytes())["files__read"] + len('Reads \\"it\\".') - 3
    )
    none = entry(Kind.TOOL, "silent")
    assert listed(catalog(none, scoped=True, describe=(("silent", "Now it speaks."),)))["silent"]["description"]


def test_prompts_keep_their_names():
    rules = Rules((UpstreamRule("files", rename=(("p", "q"),)),))
    found = merge([snapshot("files", prompts=["p"])], rules, UriClaims())
    assert found.route(Kind.PROMPT, "files__p") == Route("files", "p")
    assert found.route(Kind.PROMPT, "files__q") is None


def test_without_settings_nothing_differs():
    found = catalog("a", "b")
    assert listed(found)["files__a"]["_meta"] == {"dev.hubd/server": "files"}


NAMES = st.sampled_from("abcdef")


@given(st.lists(NAMES, unique=True), st.dictionaries(NAMES, NAMES))
def test_no_two_tools_ever_have_one_name(names, wanted):
    wanted = {own: new for new, own in {new: own for own, new in wanted.items()}.items()}
    for order in permutations(names[:4]):
        found, _ = rename(order, order, wanted, 50)
        assert len(set(found)) == len(order)
        for own, name in zip(order, found, strict=True):
            assert name in (own, wanted.get(own))


def by_trying(names, wanted):
    """The names of tools, found by letting renames fail until none is left that has to."""
    active = {own: new for own, new in wanted.items() if own in names}
    while taken := [own for own, new in active.items() if new in {name for name in names if name not in active}]:
        active = {own: new for own, new in active.items() if own not in taken}
    return [active.get(own, own) for own in names]


@given(st.dictionaries(st.sampled_from("abcdef"), st.sampled_from("abcdefgh")), st.sets(st.sampled_from("abcdefg")))
def test_renames_hold_as_if_each_was_tried(wanted, names):
    unique = {own: new for new, own in {new: own for own, new in wanted.items()}.items()}
    found, _ = rename(sorted(names), sorted(names), unique, 50)
    assert found == by_trying(sorted(names), unique)
    assert len(set(found)) == len(found)


def test_a_long_chain_of_renames_falls_at_once_and_few_are_told():
    names = [f"t{number}" for number in range(20_000)]
    wanted = {name: f"t{number + 1}" for number, name in enumerate(names[:-1])}
    found, told = rename(names, names, wanted, 50)
    assert found == names
    assert len(told) == 9
    assert told[-1] == "19991 more tools keep their names"


def test_warnings_quote_the_beginning_of_what_is_long():
    _, told = rename(["\x1b[2J" + "x" * 500], ["\x1b[2J" + "x" * 500], {"\x1b[2J" + "x" * 500: "y" * 500}, 50)
    assert len(told[0]) < 300
    assert told[0].isprintable()
