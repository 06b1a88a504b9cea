"""Globs over names, by which a setting chooses: `*` is any text, `?` any character, `!` in front takes away. Pure.

A glob means the whole name, and case counts. Order means nothing: what any glob takes away is gone. Globs that only
take away leave all the rest; no globs at all choose nothing.

Names come from servers, so the work is bounded: no glob is tried in more than one way (its parts are atomic), and names
that are longer than any sensible one are chosen by `ALL` only.
"""

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import cache, lru_cache
from typing import Final

ALL: Final = ("*",)
"""The choice of everything."""
MAX_GLOBS: Final = 1_000
MAX_WILD: Final = 64
"""Globs with `*` or `?`."""
MAX_CHARS: Final = 256
"""Characters of a glob, and of a name that globs other than `ALL` can choose."""


class NameChoice:
    """The names that some globs choose: `name in choice`."""

    def __init__(self, globs: Sequence[str]) -> None:
        self._is_all = tuple(globs) == ALL
        self._is_given = _matcher(_choosing(globs))
        self._is_taken_away = _matcher(_excluding(globs))

    def __contains__(self, name: str) -> bool:
        if self._is_all:
            return True
        return len(name) <= MAX_CHARS and self._is_given(name) and not self._is_taken_away(name)

    def chooses(self, names: Collection[str]) -> bool:
        """True if something that has all of `names` is chosen: by any of them, and taken away by none."""
        if self._is_all:
            return True
        known = [name for name in names if len(name) <= MAX_CHARS]
        return len(known) == len(names) and not any(map(self._is_taken_away, known)) and any(map(self._is_given, known))


class EachGlob:
    """Some globs but `ALL`, each by itself: which of them mean a name. A `!` in front is not part of them. Never
    changes."""

    def __init__(self, globs: Iterable[str], names: Iterable[str] = ()) -> None:
        """`names`, too, but as they are: `*`, `?` and `!` are characters there."""
        bare = {glob.removeprefix("!") for glob in globs}
        self.plain = frozenset((*names, *(glob for glob in bare if not is_wild(glob))))
        self.wild = {glob: literal_start(glob) for glob in bare if is_wild(glob) and glob not in ALL}
        """The beginning of the names that each of the others means."""
        self.means = cache(lambda glob: re.compile(_pattern(glob), re.DOTALL).fullmatch)
        """The function that tells whether a glob means a name; made when it is first needed."""


class MetGlobs:
    """The globs, of some, that mean a name which has been looked at."""

    def __init__(self, globs: EachGlob) -> None:
        self._globs, self._left = globs, dict(globs.wild)
        self._met: set[str] = set()

    def look_at(self, name: str) -> None:
        """Note those that mean `name`."""
        if len(name) > MAX_CHARS:
            return
        if name in self._globs.plain:
            self._met.add(name)
        means = self._globs.means
        new = [glob for glob, start in self._left.items() if name.startswith(start) and means(glob)(name) is not None]
        for glob in new:
            self._met.add(glob)
            del self._left[glob]

    def notes(self) -> frozenset[str]:
        """The globs that mean one of the names so far."""
        return frozenset(self._met)


class NameStarts:
    """The beginnings that names of tools may have: `<id>__` for each of some ids; `any_name`: and whatever else."""

    def __init__(self, ids: Iterable[str], *, any_name: bool = False) -> None:
        self._starts = tuple(dict.fromkeys(f"{id}{_MARK}" for id in ids))
        self._firsts = frozenset(start.partition(_MARK)[0] for start in self._starts)
        self._any_name = any_name

    def fit(self, glob: str) -> bool:
        """True if a glob may mean such a name, as far as its text up to the first `*` or `?` says."""
        glob = glob.removeprefix("!")
        start = literal_start(glob)
        first, mark, _ = start.partition(_MARK)
        if self._any_name or mark:
            return self._any_name or first in self._firsts
        return is_wild(glob) and any(each.startswith(start) for each in self._starts)


@lru_cache(4_000)
def matcher_of(glob: str) -> Callable[[str], bool]:
    """The test whether a single glob means a name, of any length."""
    if not is_wild(glob):
        return glob.__eq__
    if glob in ALL:
        return lambda name: True
    matches = re.compile(_pattern(glob), re.DOTALL).fullmatch
    return lambda name: matches(name) is not None


def may_choose(globs: tuple[str, ...], start: str) -> bool:
    """True if `globs`, as a choice, may mean a name that begins with `start`; no globs choose nothing."""
    away = _excluding(globs)
    if any(glob.endswith("*") and not is_wild(glob[:-1]) and start.startswith(glob[:-1]) for glob in away):
        return False
    return any(_may(glob, start) for glob in _choosing(globs))


def _may(glob: str, start: str) -> bool:
    if not is_wild(glob):
        return glob.startswith(start)
    literal = literal_start(glob)
    return literal.startswith(start) or start.startswith(literal)


_MARK: Final = "__"
"""The mark between the id of a server and the name of its tool."""


def literal_start(glob: str) -> str:
    """The text that every name begins with which a glob means."""
    return _WILD.split(glob, maxsplit=1)[0]


_WILD: Final = re.compile(r"[*?]")


def _matcher(globs: Sequence[str]) -> Callable[[str], bool]:
    """The test whether any of the globs means a name."""
    wild = [glob for glob in globs if is_wild(glob)]
    plain = frozenset(globs) - frozenset(wild)
    matches = re.compile("|".join(map(_pattern, wild)), re.DOTALL).fullmatch if wild else None
    return lambda name: name in plain or (matches is not None and matches(name) is not None)


def _pattern(glob: str) -> str:
    """A regular expression for the whole of a name; atomic groups keep it from trying a `*` in several ways."""
    first, *between = (re.escape(part).replace(r"\?", ".") for part in re.split(r"\*+", glob))
    if not between:
        return first
    return first + "".join(f"(?>.*?{part})" for part in between[:-1]) + ".*" + between[-1]


def problem_of(globs: Sequence[str]) -> str:
    """The reason why `globs` are no choice, as a clause; "": they are one."""
    if len(globs) > MAX_GLOBS:
        return f'has {len(globs)} entries, and {MAX_GLOBS} are the most; choose by globs such as "read_*"'
    if sum(map(is_wild, globs)) > MAX_WILD:
        return f"has more than {MAX_WILD} globs with `*` or `?`; join some of them, or write names"
    for glob in globs:
        if len(glob) > MAX_CHARS:
            return f"has an entry of {len(glob)} characters, and {MAX_CHARS} are the most"
        if glob in ("", "!"):
            return 'has an entry without a name; write globs such as "read_*" or "!delete_*"'
    return ""


def union(one: Sequence[str], other: Sequence[str]) -> tuple[str, ...]:
    """Globs that choose what either chooses. More only where a glob takes away with `*` or `?`, which only one does."""
    choices = NameChoice(one), NameChoice(other)
    given = [glob for globs in (one, other) for glob in _choosing(globs)]
    away = [
        f"!{glob}"
        for globs, rest in ((one, choices[1]), (other, choices[0]))
        for glob in _excluding(globs)
        if (f"!{glob}" in one and f"!{glob}" in other) or not (is_wild(glob) or glob in rest)
    ]
    if "*" in given:
        given = [] if away else [*ALL]
    return tuple(dict.fromkeys((*given, *away)))


def is_wild(glob: str) -> bool:
    """True if a glob may mean several names."""
    return "*" in glob or "?" in glob


def _choosing(globs: Sequence[str]) -> tuple[str, ...]:
    """The globs that choose."""
    return tuple(glob for glob in globs if not glob.startswith("!")) or (ALL if globs else ())


def _excluding(globs: Sequence[str]) -> list[str]:
    return [glob[1:] for glob in globs if glob.startswith("!")]
