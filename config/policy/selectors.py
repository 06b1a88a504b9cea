"""Selectors: the words by which a rule of `[policy]` says whom and what it is about. Pure.

A selector is terms with spaces between, all of which must hold; `!` in front of one negates it:

    delete_*  prompt:GLOB  resource:GLOB         names; without any it is about all tools
    @read-only @destructive @idempotent @open-world    what is believed of a tool
    upstream:ID                                  the server
    host:LABEL profile:NAME principal:NAME scope:NAME group:NAME    who asks

A value with spaces stands in double quotes. Globs are those of `config.name_globs`; everything else is compared whole.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Final
from urllib.parse import unquote_to_bytes

from msgspec import Struct

from config.name_globs import MAX_CHARS, matcher_of

TOOL, PROMPT, RESOURCE = "tool", "prompt", "resource"
"""Kinds of things that names can be of."""
MARKS: Final = ("read-only", "destructive", "idempotent", "open-world")
UPSTREAM: Final = "upstream"
HOST, PROFILE, PRINCIPAL, SCOPE, GROUP = "host", "profile", "principal", "scope", "group"
CALLERS: Final = (HOST, PROFILE, PRINCIPAL, SCOPE, GROUP)
MAX_TEXT: Final = 1024
"""Characters of a selector."""
MAX_TERMS: Final = 16
MAX_SELECTORS: Final = 1_000
"""Selectors of all rules of a hub together."""
_TERM = re.compile(r'(?:[^\s"]|"[^"]*")+')
_KIND = re.compile(r"([a-z]+):(.*)", re.DOTALL)
_ESCAPES = re.compile(r"(?:%[0-9A-Fa-f]{2})+")
_ESCAPED = re.compile(r"[\x00-\x1f\x7f\udc80-\udcff!#$%&'()*+,/:;=?@\[\\\]]")
"""Characters that mean something else without their escape, or are no text."""


class BadSelector(ValueError):
    """A text that is no selector; the reason is a clause."""


class CallerTerm(Struct, frozen=True, order=True):
    """A fact about who asks. Hashable."""

    kind: str
    """One of `CALLERS`."""
    name: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"


class Thing(Struct, frozen=True):
    """One tool, prompt or resource, as selectors see it."""

    kind: str
    """One of `TOOL`, `PROMPT` and `RESOURCE`."""
    name: str
    """Its exposed name, or its own URI as `spell_uri` has it; for the lists of one server, its own name."""
    upstream: str = ""
    """The name of the server in the configuration."""
    marks: frozenset[str] = frozenset()
    """Those of `MARKS` that are believed of a tool."""


class Selector(Struct, frozen=True):
    """A selector. `about` has each of its conditions on a thing, `by` on who asks; True: it must not hold."""

    text: str
    kind: str
    """The kind of things that it is about."""
    about: tuple[tuple[Callable[[Thing], bool], bool], ...]
    by: tuple[tuple[CallerTerm, bool], ...]

    def means(self, thing: Thing) -> bool:
        """True if it is about this thing, whoever asks."""
        return thing.kind == self.kind and bool(self.choose([thing]))

    def choose(self, things: Sequence[Thing]) -> Sequence[int]:
        """The places of those among things of its kind that it is about, whoever asks."""
        left: Sequence[int] = range(len(things))
        for holds, negated in self.about:
            left = [at for at in left if holds(things[at]) is not negated]
        return left

    def admits(self, holds: Callable[[CallerTerm], bool]) -> bool:
        """True if it is about whoever those facts hold of, whatever is asked for."""
        return all(holds(term) is not negated for term, negated in self.by)


@lru_cache(4 * MAX_SELECTORS)
def read_selector(text: str) -> Selector:
    """The selector in this text. Raises BadSelector."""
    if len(text) > MAX_TEXT:
        raise BadSelector(f"has {len(text)} characters, and {MAX_TEXT} are the most")
    words = _TERM.findall(text)
    if not words or _TERM.sub("", text).strip():
        raise BadSelector('is empty, or has a single `"`' if '"' in text else "is empty")
    if len(words) > MAX_TERMS:
        raise BadSelector(f"has {len(words)} terms, and {MAX_TERMS} are the most")
    kinds: set[str] = set()
    about: list[tuple[Callable[[Thing], bool], bool]] = []
    by: list[tuple[CallerTerm, bool]] = []
    for word in words:
        negated, bare = word.startswith("!"), word.removeprefix("!").replace('"', "")
        kind, value = _split(bare)
        if not value:
            raise BadSelector(f"has a term without a value: {word[:60]}")
        if kind in CALLERS:
            by.append((CallerTerm(kind, value), negated))
        elif kind == "@":
            if value not in MARKS:
                raise BadSelector(f"has an unknown mark, @{value[:60]}; there are @{', @'.join(MARKS)}")
            kinds.add(TOOL)
            about.append((_has_mark(value), negated))
        elif kind == UPSTREAM:
            about.append((_is_of(value), negated))
        else:
            if len(value) > MAX_CHARS:
                raise BadSelector(f"has a glob of {len(value)} characters, and {MAX_CHARS} are the most")
            kinds.add(kind)
            about.append((_is_named(spell_uri(value) if kind == RESOURCE else value), negated))
    if len(kinds) > 1:
        raise BadSelector(f"means {' and '.join(sorted(kinds))} at once, which nothing is; write one for each")
    return Selector(text, kinds.pop() if kinds else TOOL, tuple(about), tuple(by))


def _split(word: str) -> tuple[str, str]:
    """The kind of a term, and its value. A colon in a name of another kind than those that there are is a mistake."""
    if word.startswith("@"):
        return "@", word[1:]
    found = _KIND.fullmatch(word)
    if found is None:
        return TOOL, word
    kind, value = found[1], found[2]
    if kind not in (TOOL, PROMPT, RESOURCE, UPSTREAM, *CALLERS):
        known = ", ".join(f"{each}:" for each in (PROMPT, RESOURCE, UPSTREAM, *CALLERS))
        raise BadSelector(f"has an unknown kind of term, {kind[:60]}:; there are {known}")
    return kind, value


def spell_uri(text: str) -> str:
    """A URI, or a glob over URIs, without escapes that mean nothing, and the others in capitals."""
    return _ESCAPES.sub(_spell, text)


def _spell(escapes: re.Match[str]) -> str:
    plain = unquote_to_bytes(escapes[0]).decode(errors="surrogateescape")
    return _ESCAPED.sub(lambda found: f"%{ord(found[0]) & 0xFF:02X}", plain)


def _has_mark(mark: str) -> Callable[[Thing], bool]:
    return lambda thing: mark in thing.marks


def _is_of(upstream: str) -> Callable[[Thing], bool]:
    return lambda thing: thing.upstream == upstream


def _is_named(glob: str) -> Callable[[Thing], bool]:
    matches = matcher_of(glob)
    return lambda thing: matches(thing.name)


def without_others(globs: Sequence[str]) -> tuple[str, ...]:
    """Selectors of the tools that a choice by globs (`config.name_globs`) leaves out. Raises BadSelector: they cannot
    be written."""
    given = [glob for glob in globs if not glob.startswith("!")]
    wanted = [glob[1:] for glob in globs if glob.startswith("!")]
    if given and "*" not in given:
        wanted.append(" ".join(f"!{glob}" for glob in given))
    elif not globs:
        wanted.append("*")
    found = [read_selector(text) for text in wanted]
    if any(selector.kind != TOOL or selector.by for selector in found):
        raise BadSelector("has a colon, which means something else in rules")
    return tuple(wanted)


def callers_in(selectors: Iterable[Selector]) -> Iterator[CallerTerm]:
    """The facts about who asks that selectors go by."""
    return (term for selector in selectors for term, _ in selector.by)
