"""Work in steps, between which other tasks run: generators that yield how many entries a step has looked at. Pure."""

from collections.abc import Generator
from typing import Final, TypeVar

STEP: Final = 100
"""Entries that are looked at without a pause."""
T = TypeVar("T")


def next_of(steps: Generator[int, None, T]) -> int | T:
    """The number that the next step looked at; after the last one the result."""
    try:
        return next(steps)
    except StopIteration as end:
        result: T = end.value
        return result


def finish(steps: Generator[int, None, T]) -> T:
    """Run all steps of something without a pause; the result."""
    while True:
        step = next_of(steps)
        if not isinstance(step, int):
            return step
