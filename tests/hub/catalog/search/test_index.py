import pytest

from hub.catalog.search.index import SearchIndex, near_names
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
    assert near_names("x" * 1_000_000, known) == []


def test_hostile_definitions_are_cut() -> None:
    index = SearchIndex()
    many = {f"p{at}": {"description": "d" * 1_000} for at in range(4_000)}
    index.add(
        found_tool("s" * 1_000, "n" * 100_000, description="w " * 1_000_000, inputSchema={"properties": many}), "t" * 99
    )
    index.add(found_tool("s", "b", description=["no text"], inputSchema=3))
    index.add(found_tool("s", "c", inputSchema={"properties": [1]}))
    assert len(index) == 3
    assert len(repr(index)) < 100
    assert sum(len(word) for word in index._places) < 3_000


def test_nothing_is_found_in_nothing() -> None:
    assert SearchIndex().search("x", 5) == []
    assert raw({}) is not None
