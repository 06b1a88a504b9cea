"""Expansion of the paths and patterns of `include`: to files, and to directories in which more may appear.

`*`, `?` and `[...]` stand for part of a name, `**` for any number of directories. Links are followed, but `**` enters
no directory twice, so that links that lead back to where they are do no harm. A name that begins with a dot is matched
only by a pattern that begins with one.
"""

import glob
import os
from collections import deque
from collections.abc import Iterable, Iterator
from fnmatch import filter as matching
from pathlib import Path
from typing import Final

from msgspec import Struct

from config.loading.document import SUFFIXES

ANY_DEPTH: Final = "**"


class Pattern(Struct, frozen=True):
    """A path, and below it parts of which the first is a pattern. No parts: it names a file."""

    base: Path
    parts: tuple[str, ...] = ()


def read_pattern(text: str, beside: Path) -> Pattern:
    """The pattern that `text` means in a file in the directory `beside`. Characters of a pattern in the names of that
    directory and of the user's own mean themselves."""
    base = beside
    if text.startswith("~"):
        home, _, text = text.partition("/")
        base /= os.path.expanduser(home)
    parts = os.path.normpath(text or ".").split("/")
    first = next((at for at, part in enumerate(parts) if glob.has_magic(part)), len(parts))
    base = base / ("/".join(parts[:first]) or ("/" if first else ""))
    return Pattern(Path(os.path.normpath(base)), tuple(parts[first:]))


def expand(pattern: Pattern) -> tuple[Iterator[Path], dict[Path, None]]:
    """The files it matches that are of a kind we read, as they are found, and the directories in which more could come
    to match: each level from the first that is a pattern. Blocks."""
    *parts, last = pattern.parts
    if last == ANY_DEPTH:
        parts, last = [*parts, last], "*"
    here = [pattern.base]
    directories = dict.fromkeys(here)
    for part in parts:
        here = list(_below(here) if part == ANY_DEPTH else filter(os.path.isdir, _named(part, here)))
        directories |= dict.fromkeys(here)
    return (each for each in _named(last, here) if each.name.endswith(SUFFIXES) and not each.is_dir()), directories


def _named(part: str, directories: Iterable[Path]) -> Iterator[Path]:
    """Entries of these directories whose names one part of a pattern matches."""
    for directory in directories:
        if glob.has_magic(part):
            names = [name for name in _list(directory) if part.startswith(".") or not name.startswith(".")]
            yield from (directory / name for name in matching(names, part))
        elif os.path.lexists(directory / part):
            yield directory / part


def _below(tops: Iterable[Path]) -> Iterator[Path]:
    """These directories and all below them, each once, by whatever is the shortest way."""
    seen: set[tuple[int, int]] = set()
    left = deque(tops)
    while left:
        directory = left.popleft()
        try:
            facts = os.stat(directory)
        except OSError:
            continue
        if (key := (facts.st_dev, facts.st_ino)) not in seen:
            seen.add(key)
            yield directory
            left.extend(filter(os.path.isdir, _named("*", [directory])))


def _list(directory: Path) -> list[str]:
    try:
        return sorted(os.listdir(directory))
    except OSError:
        return []
