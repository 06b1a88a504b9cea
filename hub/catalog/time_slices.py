"""Work in steps, between which other tasks run: generators that yield how many entries a step has looked at. Pure."""

from collections.abc import Callable, Generator, Sequence
from typing import Final, TypeVar

STEP: Final = 100
"""Entries that are looked at without a pause."""
S = TypeVar("S")
T = TypeVar("T")
Steps = Generator[int, None, T]
"""Steps that make something; each yields how many entries it has looked at."""


def map_in_steps(look_at: Callable[[S], T], entries: Sequence[S]) -> Steps[list[T]]:
    """The values that `look_at` makes of the entries, with a pause after each full step."""
    found: list[T] = []
    for at in range(0, len(entries), STEP):
        found += map(look_at, entries[at : at + STEP])
        if not len(found) % STEP:
            yield STEP
    return found


def finish(steps: Steps[T]) -> T:
    """Run all steps of something without a pause; the result."""
    try:
        while True:
            next(steps)
    except StopIteration as end:
        result: T = end.value
        return result
