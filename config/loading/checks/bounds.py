"""Checks of numbers against the bounds that their settings declare."""

from collections.abc import Iterator

from msgspec import Struct

from config.errors import Problem
from config.setting_declarations import flaw_in_bounds, leaves_of


def problems_of_bounds(values: Struct) -> Iterator[Problem]:
    """Numbers beyond the bounds that their settings declare, in a struct of `settings` and in its tables."""
    for keys, declared, value in leaves_of(values):
        numbers = {keys: value} if declared.each is None else {(*keys, key): each for key, each in value.items()}
        for path, number in numbers.items():
            if why := flaw_in_bounds(number, declared.each or declared.setting):
                yield Problem(path, why)
