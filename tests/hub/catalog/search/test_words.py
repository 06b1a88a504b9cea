import pytest

from hub.catalog.search.words import query_words, stem, words


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("create_issue", ["creat", "=create", "issu", "=issue"]),
        ("list-pull.requests", ["list", "pull", "request", "=requests"]),
        ("createIssue", ["createissu", "=createissue", "creat", "=create", "issu", "=issue"]),
        ("HTTPServer", ["httpserv" + "er", "http", "server"]),
        ("API-post-page", ["api", "post", "pag", "=page"]),
        ("検索する", ["検索", "索す", "する"]),
        ("字", ["字"]),
        ("Ticket作成", ["ticket", "作成"]),
        ("Café", ["café"]),
        ("", []),
    ],
)
def test_words_of_names_and_texts(text: str, found: list[str]) -> None:
    assert list(words(text)) == found


@pytest.mark.parametrize(
    "forms",
    [
        ("create", "creates", "created", "creating", "creation"),
        ("query", "queries", "queried"),
        ("search", "searches", "searched", "searching"),
        ("file", "files", "filed"),
        ("stop", "stops", "stopped", "stopping"),
        ("navigate", "navigation", "navigating"),
        ("box", "boxes"),
        ("modify", "modifies", "modified"),
    ],
)
def test_forms_of_one_word_meet(forms: tuple[str, ...]) -> None:
    assert len({stem(form) for form in forms}) == 1


@pytest.mark.parametrize(("one", "other"), [("bus", "bu"), ("access", "acces"), ("string", "str"), ("bed", "b")])
def test_words_that_only_look_like_forms_stay_apart(one: str, other: str) -> None:
    assert stem(one) != stem(other)


def test_fillers_do_not_count_unless_there_is_nothing_else() -> None:
    assert list(query_words("How can I send a message, please?", ())) == ["send", "messag", "=message"]
    assert list(query_words("what is it", ())) == ["what", "is", "it"]


def test_a_word_that_is_known_as_a_whole_does_not_count_by_its_parts() -> None:
    assert list(query_words("GitHub", {"github"})) == ["github"]
    assert list(query_words("GitHub", ())) == ["git", "hub"]


def test_each_word_of_a_query_counts_alike_with_an_ending_or_without() -> None:
    asked = query_words("list files", ())
    assert asked["list"] == asked["fil"] + asked["=files"]


def test_a_long_word_is_cut() -> None:
    assert [len(word) for word in words("x" * 1_000_000)] == [40]
