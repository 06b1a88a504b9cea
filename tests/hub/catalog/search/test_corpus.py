"""The ranking on lists of real servers: what is found for words of people, and by name."""

import random
import string

import msgspec
import pytest

from hub.catalog.search.meta_tools import MAX_ANSWER_BYTES, MAX_NAMED_BYTES, find
from hub.wire.jsonrpc import raw
from tests.hub.catalog.search.corpus import counts, index, queries, servers


def share_found(most: int, name: str = "queries") -> float:
    """The share of queries for which one of the right tools is among the first `most`."""
    asked = queries(name)
    return sum(any(tool.name in right for tool in index().search(query, most)) for query, right in asked) / len(asked)


def test_the_corpus_is_large_enough() -> None:
    assert len(servers()) >= 12
    assert len(index()) >= 300
    assert len(queries()) == 60
    assert len(queries("heldout")) >= 60
    assert {name.partition("__")[0] for _, right in queries("heldout") for name in right} == set(servers())
    known = {tool.name for tool in index().tools}
    assert all(right and known.issuperset(right) for _, right in (*queries(), *queries("heldout")))


@pytest.mark.covers("ES-1")
@pytest.mark.parametrize(("most", "share"), [(1, 0.5), (5, 0.75), (10, 0.8)])
def test_queries_in_words_of_people_find_their_tools(most: int, share: float) -> None:
    assert share_found(most) >= share


@pytest.mark.covers("ES-1")
@pytest.mark.parametrize(("most", "share"), [(1, 0.37), (3, 0.56), (5, 0.63), (10, 0.72)])
def test_queries_that_the_ranking_was_not_made_by_find_their_tools(most: int, share: float) -> None:
    assert share_found(most, "heldout") >= share


@pytest.mark.covers("ES-2")
def test_every_tool_is_found_by_its_own_name() -> None:
    for tool in index().tools:
        assert index().search(tool.name, 1)[0].name == tool.name
        assert index().search(f"please use {tool.name} for this issue", 1)[0].name == tool.name
        assert index().search(tool.original, 1)[0].original == tool.original


def test_an_answer_costs_little() -> None:
    sizes = sorted(len(find(index(), counts(), raw({"query": query})).text.encode()) for query, _ in queries())
    assert sizes[-1] <= MAX_ANSWER_BYTES
    assert sizes[len(sizes) // 2] <= 8_000
    assert sum(len(msgspec.json.encode(tool)) for tools in servers().values() for tool in tools) > 50 * sizes[-1] / 2


HOSTILE = (
    "x" * 10_000_000,
    "issue " * 2_000_000,
    "\0" * 1_000,
    "create\0issue",
    "‮eussi etaerc⁦",
    "(a+)+$" * 200,
    "[" * 10_000,
    ".*",
    "\\",
    "%s%n{}{0}",
    "'; DROP TABLE tools; --",
    "漢" * 100_000,
    "検索 ファイル",
    "créer un ticket",
    "\U0001f600" * 1_000,
    "´`'\"",
    "__" * 1_000,
    "a_b" * 10_000,
    "AbCdEf" * 10_000,
    " \t\n ",
    "\u0301" * 1_000,
)


@pytest.mark.covers("ES-3")
@pytest.mark.parametrize("query", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_queries_are_answered_within_the_limits(query: str) -> None:
    for arguments in ({"query": query}, {"query": "x", "server": query}):
        assert len(find(index(), counts(), raw(arguments)).text.encode()) <= MAX_ANSWER_BYTES
    assert len(find(index(), counts(), raw({"names": [query] * 20})).text.encode()) <= MAX_NAMED_BYTES


def test_a_thousand_random_queries_are_answered_within_the_limits() -> None:
    rng = random.Random(7)
    words = [word for query, _ in queries() for word in query.split()] + [tool.name for tool in index().tools]
    letters = string.printable + "éßжñ漢字한글\0‮\u200b\ud7ff\U0001f600()[]*+?\\"
    for _ in range(1_000):
        parts = [
            rng.choice(words) if rng.random() < 0.5 else "".join(rng.choices(letters, k=rng.randrange(1, 30)))
            for _ in range(rng.randrange(0, 30))
        ]
        members: dict[str, object] = {"query": " ".join(parts)}
        if rng.random() < 0.2:
            members["server"] = rng.choice([*counts(), "".join(rng.choices(letters, k=9))])
        if rng.random() < 0.2:
            members["names"] = rng.choices(words, k=rng.randrange(0, 12))
        answer = find(index(), counts(), raw(members))
        assert answer.text
        assert len(answer.text.encode()) <= (MAX_NAMED_BYTES if members.get("names") else MAX_ANSWER_BYTES)
