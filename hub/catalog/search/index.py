"""Index of the tools that one view shows, and the rank of each for a query: BM25 over the parts of their definitions.

A word counts by where it stands: in a name twice, in an argument's name by half; how often it stands there and how
long the definition is count as in BM25 (Robertson and Zaragoza, 2009). A name that the query holds comes first,
whatever its rank. Weights and limits were chosen by queries, most of which were written before: see
`tests/data/search/README.md`.

Definitions and queries come from anybody: what is read of each is cut first.
"""

import re
from collections import Counter
from collections.abc import Iterable
from heapq import nsmallest
from itertools import islice
from math import log
from typing import Final

from msgspec import Raw, Struct

from hub.catalog.search.words import EXACT, query_words, words
from hub.wire.jsonrpc import peek_array, peek_object, peek_str

NAME, SERVER, DESCRIPTION, ARGUMENT, ARGUMENT_TEXT = 2.0, 1.0, 1.0, 0.5, 0.25
"""Weight of a word in the name of a tool, in that of its server, in its description, in the name of an argument, and
in the description of one."""
TITLE, CHOICE = 0.5, 0.25
"""Weight of a word in the title of a tool, and in a value that an argument may have."""
K1: Final = 1.2
B: Final = 0.75
"""The usual parameters of BM25: how soon a repeated word counts no more, and how much long texts count less."""
MAX_QUERY_CHARS: Final = 1_000
MAX_QUERY_WORDS: Final = 64
MAX_NAME_CHARS: Final = 200
MAX_TEXT_CHARS: Final = 4_000
"""Characters of a description that are read."""
MAX_ARGUMENT_CHARS: Final = 400
"""Characters that are read of the descriptions of all arguments together; more of it says less of the tool."""
MAX_TEXT_BYTES: Final = 64 << 10
"""Bytes of a description that are decoded; one beyond that counts as empty."""
MAX_ARGUMENTS: Final = 100
MAX_CHOICE_CHARS: Final = 400
"""Characters that are read of the values that arguments may have."""
MAX_TITLE_BYTES: Final = 2 << 10
"""Bytes of hints that are opened for the title in them."""
MAX_ARGUMENT_NAME_CHARS: Final = 2_000
"""Characters that are read of the names of all arguments together."""
MAX_SCHEMA_BYTES: Final = 64 << 10
"""Bytes of a schema that is opened; of a larger one no argument counts."""
MAX_WORDS: Final = 1_000
"""Words of a text that count."""
BYTES_PER_WORD: Final = 100
"""Bytes of JSON that are about as much work to open as one word is to take up."""
MAX_LIKE: Final = 50
"""Names that are compared with one that nobody has."""
MAX_SHARED: Final = 2_000
"""Places of its character pairs that are looked at to choose these."""
NAMED_SERVER: Final = 1.25
"""Factor of a tool's rank when the query names its server."""
_WRITTEN: Final = re.compile(r"[\w./-]+")
_QUOTED: Final = re.compile(r"[`'\"]([^`'\"]+)[`'\"]")


class FoundTool(Struct, frozen=True):
    """A tool that can be found."""

    name: str
    """As hosts call it."""
    original: str
    """As its server calls it."""
    server: str
    """The beginning of the names of the server's tools or, without that, the server's name."""
    fields: dict[str, Raw]
    """The members of its definition."""


class SearchIndex:
    """The tools of one view. `add` all of them, then `search`."""

    def __init__(self) -> None:
        self.tools: list[FoundTool] = []
        self._lengths: list[float] = []
        self._total = 0.0
        self._places: dict[str, list[tuple[int, float]]] = {}
        """By word, the tools that have it and its weight there."""
        self._weights: dict[float, float] = {}
        """Each weight that occurs, to be kept once."""
        self._of_server: dict[str, set[int]] = {}
        """By word of a server's name or title, the server's tools."""
        self._by_name: dict[str, list[int]] = {}
        """By visible and original name, in lower case."""
        self._by_gram: dict[str, list[int]] = {}
        """By two neighbouring characters of visible names, the tools."""

    def __len__(self) -> int:
        return len(self.tools)

    def add(self, tool: FoundTool, title: str = "") -> int:
        """Take up a tool; `title`: that of its server. The work that it was, in words."""
        at = len(self.tools)
        self.tools.append(tool)
        weights, work = _weights(tool, title)
        for word, weight in weights.items():
            self._places.setdefault(word, []).append((at, self._weights.setdefault(weight, weight)))
        for word in words(_server_text(tool, title)):
            self._of_server.setdefault(word, set()).add(at)
        length = sum(weight for word, weight in weights.items() if word[0] != EXACT)
        self._lengths.append(length)
        self._total += length
        for name in {tool.name.lower(), tool.original.lower()}:
            self._by_name.setdefault(name, []).append(at)
        grams = _grams(tool.name)
        for gram in grams:
            self._by_gram.setdefault(gram, []).append(at)
        return work + len(grams)

    def exact(self, name: str) -> FoundTool | None:
        """The tool that is called `name` or, if there is only one such, that its server calls so."""
        own = [self.tools[at] for at in self._by_name.get(name.lower(), ())]
        return next((tool for tool in own if tool.name == name), own[0] if len(own) == 1 else None)

    def near(self, name: str) -> list[str]:
        """Names of tools that are most like `name`, which nobody has; of those that share its rarest pairs."""
        return near_names(name, (self.tools[at].name for at in self._like(name)))

    def _like(self, name: str) -> list[int]:
        """The tools, at most `MAX_LIKE`, that share most pairs of characters with `name`, rare pairs first."""
        shared: Counter[int] = Counter()
        room = MAX_SHARED
        for places in sorted((self._by_gram.get(gram, []) for gram in sorted(_grams(name))), key=len):
            shared.update(places[:room])
            room -= min(len(places), room)
        return [at for at, _ in shared.most_common(MAX_LIKE)]

    def search(self, query: str, most: int, server: str | None = None) -> list[FoundTool]:
        """The best `most` tools for `query`, best first; `server`: only of this one."""
        query = query[:MAX_QUERY_CHARS]
        scores = self._scores(query)
        for at in self._names_in(query):
            scores[at] = scores.get(at, 0.0) + _FIRST
        if server is not None:
            scores = {at: score for at, score in scores.items() if self.tools[at].server == server}
        return [self.tools[at] for at, _ in nsmallest(most, scores.items(), key=lambda item: (-item[1], item[0]))]

    def _scores(self, query: str) -> dict[int, float]:
        scores: dict[int, float] = {}
        count = len(self.tools)
        mean = self._total / count if count else 1.0
        asked = dict(islice(query_words(query, self._places).items(), MAX_QUERY_WORDS))
        for word, factor in asked.items():
            places = self._places.get(word, ())
            rarity = factor * log(1 + (count - len(places) + 0.5) / (len(places) + 0.5))
            for at, weight in places:
                norm = K1 * (1 - B + B * self._lengths[at] / mean)
                scores[at] = scores.get(at, 0.0) + rarity * weight * (K1 + 1) / (weight + norm)
        for at in set().union(*(self._of_server.get(word, ()) for word in asked)) & scores.keys():
            scores[at] *= NAMED_SERVER
        return scores

    def _names_in(self, query: str) -> set[int]:
        """The tools whose name stands in the query. One plain word may be no name there: it is all, or in quotes."""
        text = query.strip().lower()
        names = {text, *(match[1] for match in _QUOTED.finditer(text))}
        names |= {name for match in _WRITTEN.finditer(text) if not (name := match[0].strip("./-")).isalpha()}
        return {at for name in names for at in self._by_name.get(name, ())}


_FIRST: Final = 1e6
"""Added to the rank of a tool that is named: more than any rank."""


def near_names(name: str, known: Iterable[str], most: int = 3) -> list[str]:
    """The names among `known` that are most like `name`, which nobody has: a slip of the pen; [], if all are unlike. By
    the letters and the pairs of letters that both have: some 10 us for each."""
    parts = _grams(name) | {*name[:MAX_NAME_CHARS].lower()}
    ranked = []
    for each in known:
        others = _grams(each) | {*each[:MAX_NAME_CHARS].lower()}
        alike = 2 * len(parts & others) / (len(parts) + len(others))
        if alike >= _ALIKE:
            ranked.append((-alike, each))
    return [each for _, each in nsmallest(most, ranked)]


_ALIKE: Final = 0.6


def _grams(name: str) -> set[str]:
    text = f" {name[:MAX_NAME_CHARS].lower()} "
    return {text[at : at + 2] for at in range(len(text) - 1)}


def _weights(tool: FoundTool, title: str) -> tuple[dict[str, float], int]:
    """By word, its weight in a tool; and the work that this was, in words."""
    names, texts, choices = _arguments(tool.fields.get("inputSchema"))
    description = text_of(tool.fields.get("description"))
    fields = (
        (tool.original[:MAX_NAME_CHARS], NAME),
        (_server_text(tool, title), SERVER),
        (_title(tool), TITLE),
        (description, DESCRIPTION),
        (names, ARGUMENT),
        (texts, ARGUMENT_TEXT),
        (choices, CHOICE),
    )
    found: Counter[str] = Counter()
    opened = ((tool.fields.get("inputSchema"), MAX_SCHEMA_BYTES), (tool.fields.get("description"), MAX_TEXT_BYTES))
    sizes = [memoryview(value).nbytes for value, most in opened if value is not None and _is_opened(value, most)]
    work = 1 + sum(sizes) // BYTES_PER_WORD
    for text, weight in fields:
        for word in islice(words(text), MAX_WORDS):
            found[word] += weight  # type: ignore[assignment]
            work += 1
    return dict(found), work


def _server_text(tool: FoundTool, title: str) -> str:
    return f"{tool.server} {title}"[:MAX_NAME_CHARS]


def _is_opened(value: Raw, most: int) -> bool:
    return memoryview(value).nbytes <= most


def text_of(value: Raw | None) -> str:
    """The beginning of a description."""
    if value is None or not _is_opened(value, MAX_TEXT_BYTES):
        return ""
    return (peek_str(value) or "")[:MAX_TEXT_CHARS]


def _title(tool: FoundTool) -> str:
    """The name of a tool for people, its own or, as before 2025-06-18, among its hints."""
    title = tool.fields.get("title")
    if title is None and (hints := tool.fields.get("annotations")) is not None and _is_opened(hints, MAX_TITLE_BYTES):
        title = peek_object(hints).get("title")
    return text_of(title)[:MAX_NAME_CHARS]


def _arguments(schema: Raw | None) -> tuple[str, str, str]:
    """Names of the arguments, what is said of them, and the values that they may have."""
    if schema is None or not _is_opened(schema, MAX_SCHEMA_BYTES):
        return "", "", ""
    properties = dict(islice(peek_object(peek_object(schema).get("properties")).items(), MAX_ARGUMENTS))
    members = [peek_object(each) for each in properties.values()]
    choices = (choice for each in members for choice in peek_array(each.get("enum")))
    return (
        _join((name[:MAX_NAME_CHARS] for name in properties), MAX_ARGUMENT_NAME_CHARS),
        _join((text_of(each.get("description")) for each in members), MAX_ARGUMENT_CHARS),
        _join((peek_str(choice) or "" for choice in choices), MAX_CHOICE_CHARS),
    )


def _join(texts: Iterable[str], room: int) -> str:
    """Texts together, up to a number of characters; no more of them are made than that takes."""
    found = []
    for text in filter(None, texts):
        found.append(text[:room])
        room -= len(found[-1])
        if not room:
            break
    return " ".join(found)
