from collections.abc import Iterable

import pytest

from hub.catalog.search.index import BYTES_PER_WORD, MAX_LIKE, MAX_SCHEMA_BYTES, MAX_WORDS, SearchIndex, near_names
from hub.catalog.search.words import MAX_RUN_CHARS, words
from hub.wire.jsonrpc import raw
from tests.hub.catalog.search.corpus import found_tool


def an_index(*tools: tuple[str, str, str]) -> SearchIndex:
    made = SearchIndex()
    for server, name, description in tools:
        made.add(found_tool(server, name, description=description))
    return made


def test_a_word_counts_more_in_a_name_than_in_a_description() -> None:
    index = an_index(("a", "list_things", "also does export"), ("a", "export_things", "also does list"))
    assert [tool.original for tool in index.search("export", 2)] == ["export_things", "list_things"]


def test_words_of_arguments_count() -> None:
    index = SearchIndex()
    schema = {"type": "object", "properties": {"x": {"description": "the latitude"}, "zoom": {}}}
    index.add(found_tool("m", "show", description="a map", inputSchema=schema))
    index.add(found_tool("m", "hide", description="a map"))
    for word in ("latitude", "zoom"):
        assert [tool.original for tool in index.search(word, 5)] == ["show"]


def test_titles_and_values_of_arguments_count() -> None:
    index = SearchIndex()
    index.add(found_tool("m", "a", title="Screenshot"))
    index.add(found_tool("m", "b", annotations={"title": "Recorder"}))
    schema = {"type": "object", "properties": {"format": {"enum": ["jpeg", 3]}}}
    index.add(found_tool("m", "c", inputSchema=schema))
    for word, found in (("screenshot", ["a"]), ("recorder", ["b"]), ("jpeg", ["c"])):
        assert [tool.original for tool in index.search(word, 5)] == found


@pytest.mark.parametrize(("query", "first"), [("the issue", "get_issue"), ("the issues", "get_issues")])
def test_a_word_that_is_written_in_the_same_way_counts_more(query: str, first: str) -> None:
    index = an_index(("a", "get_issues", "x"), ("a", "get_issue", "x"))
    assert [tool.original for tool in index.search(query, 1)] == [first]
    assert len(index.search(query, 5)) == 2


@pytest.mark.parametrize(
    "query", ["git__log", "call git__log on the wiki", "GIT__LOG", "`log`", '"log" of the wiki page', "log"]
)
def test_a_name_in_the_query_comes_first(query: str) -> None:
    index = an_index(("wiki", "wiki_page", "wiki page " * 9), ("git", "log", "x"), ("logs", "logs", "log log log"))
    assert index.search(query, 1)[0].name == "git__log"


def test_own_names_with_marks_come_first_too() -> None:
    index = an_index(("wiki", "wiki_page", "wiki page " * 9), ("notion", "API-get-user", "x"))
    assert index.search("wiki page, API-get-user", 1)[0].original == "API-get-user"


def test_a_server_that_is_named_is_preferred() -> None:
    index = an_index(("one", "create_issue", "creates an issue"), ("two", "create_issue", "creates an issue"))
    assert index.search("create an issue on two", 1)[0].server == "two"


def test_only_tools_of_a_server() -> None:
    index = an_index(("one", "create_issue", "x"), ("two", "create_issue", "x"))
    assert [tool.server for tool in index.search("create issue", 5, "two")] == ["two"]
    assert index.search("two__create_issue", 5, "one")[0].server == "one"


def test_equals_stay_in_order() -> None:
    index = an_index(("a", "x1", "same"), ("b", "x2", "same"), ("c", "x3", "same"))
    assert [tool.server for tool in index.search("same", 3)] == ["a", "b", "c"]


def test_a_name_that_several_servers_use_means_none_of_them() -> None:
    index = an_index(("one", "search", "x"), ("two", "search", "x"), ("two", "Only", "x"))
    assert index.exact("search") is None
    assert (found := index.exact("only")) is not None
    assert found.name == "two__Only"
    assert (found := index.exact("one__search")) is not None
    assert found.server == "one"


def test_slips_of_the_pen_are_near() -> None:
    known = ["github__create_issue", "github__close_issue", "files__read"]
    assert near_names("gihub__create_issue", known)[0] == "github__create_issue"
    assert near_names("create_issue", known)[0] == "github__create_issue"
    assert near_names("zzz", known) == []
    assert near_names("raed", ["write", "read"]) == ["read"]
    assert near_names("_release", ["delete_repo", "get_file"]) == []
    assert near_names("x" * 1_000_000, known) == []


def test_hostile_definitions_are_cut() -> None:
    index = SearchIndex()
    many = {f"p{at}": {"description": "d" * 1_000} for at in range(4_000)}
    schema = {"properties": {"x": {"enum": [f"{at}" * 9 for at in range(900)]}, **many}}
    members = {"title": "t" * 10_000, "annotations": {"title": "t" * 10_000}, "description": "w " * 1_000_000}
    index.add(found_tool("s" * 1_000, "n" * 100_000, inputSchema=schema, **members), "t" * 99)
    index.add(found_tool("s", "b", description=["no text"], inputSchema=3))
    index.add(found_tool("s", "c", inputSchema={"properties": [1]}))
    assert len(index) == 3
    assert len(repr(index)) < 100
    assert sum(len(word) for word in index._places) < 3_000


def test_nothing_is_found_in_nothing() -> None:
    assert SearchIndex().search("x", 5) == []
    assert raw({}) is not None


def test_what_is_read_of_a_hostile_tool_is_bounded() -> None:
    properties = {f"{at}" + "aB" * 100: {"description": "x y " * 1_000} for at in range(100)}
    schema = {"type": "object", "properties": properties}
    tool = found_tool("m", "x" * 5_000, description="aB " * 20_000, inputSchema=schema)
    assert SearchIndex().add(tool) <= 3 * MAX_WORDS + 2 * MAX_SCHEMA_BYTES // BYTES_PER_WORD


def test_a_schema_beyond_its_limit_is_not_opened() -> None:
    index = SearchIndex()
    padding = "x" * MAX_SCHEMA_BYTES
    work = index.add(found_tool("m", "show", inputSchema={"properties": {"zoom": {}}, "x": padding}))
    assert work < 100
    assert index.search("zoom", 5) == []
    assert index.search("show", 5)[0].original == "show", "still found by its name"


def test_words_written_together_are_taken_apart_up_to_a_limit() -> None:
    assert len(list(words("aB" * 50_000))) <= MAX_RUN_CHARS + 1


def test_a_misspelt_name_is_compared_with_few(monkeypatch: pytest.MonkeyPatch) -> None:
    index = an_index(*(("github", f"do_thing_{at}", "x") for at in range(2_000)), ("github", "create_issue", "x"))
    compared: list[list[str]] = []

    def near(name: str, known: Iterable[str]) -> list[str]:
        compared.append(list(known))
        return near_names(name, compared[-1])

    monkeypatch.setattr("hub.catalog.search.index.near_names", near)
    assert index.near("gihub__create_isue")[0] == "github__create_issue"
    assert [len(each) <= MAX_LIKE for each in compared] == [True]
