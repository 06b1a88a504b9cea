"""Names that are most like one that is not there, found in steps. Pure.

To compare two names takes up to a third of a millisecond, so a step compares few; and what has been compared once is
known, while the lists of other servers change.
"""

from collections.abc import Generator, Iterable, Mapping
from difflib import SequenceMatcher
from itertools import islice
from typing import Final

from hub.catalog.steps import STEP

MAX_COMPARED: Final = 300
"""Names that one is compared with."""
AT_ONCE: Final = 8
"""Names that are compared without a pause."""
LONGEST: Final = 60
"""Characters of the names that are compared; longer ones are passed over."""
CLOSE: Final = 0.7
"""Similarity above which a name is probably meant by another one."""

Compared = Mapping[tuple[str, tuple[str, ...]], str]
"""The name that is most like one among some; "": none is like it."""


class MeantNames:
    """The search for names that are like others; `before`: what an earlier one has found."""

    def __init__(self, before: Compared | None = None) -> None:
        self._before: Compared = before or {}
        self.compared: dict[tuple[str, tuple[str, ...]], str] = {}

    def of(self, name: str, known: Iterable[str]) -> Generator[int, None, str]:
        """The one of the first MAX_COMPARED of `known` that is most like `name`; "": none is CLOSE to it."""
        among = tuple(each for each in islice(known, MAX_COMPARED) if len(each) <= LONGEST)
        key = (name[:LONGEST], among)
        found = self.compared.get(key, self._before.get(key))
        if found is None:
            found = yield from _most_like(*key)
        self.compared[key] = found
        return found


def _most_like(name: str, among: tuple[str, ...]) -> Generator[int, None, str]:
    matcher = SequenceMatcher(b=name)
    found, least = "", CLOSE
    for count, each in enumerate(among, 1):
        matcher.set_seq1(each)
        if matcher.real_quick_ratio() > least and matcher.quick_ratio() > least and (like := matcher.ratio()) > least:
            found, least = each, like
        if not count % AT_ONCE:
            yield STEP
    return found
