"""Hides the secrets of one upstream's configuration in what it says (SEC-61, I-9). Pure.

The values of `env` and `headers` are secrets, since nobody can tell which of them are not. Left alone are those that
are too short to be told from other words, and the words that settings are made of: a log full of `***` helps nobody.
"""

import re
from collections.abc import Iterator
from typing import Final

from config.schema import UpstreamConfig

MASK: Final = "***"
MIN_CHARS: Final = 4
MIN_PART_CHARS: Final = 8
"""Of a word within a value: the token behind `Bearer`, a line of a key."""
PLAIN: Final = frozenset(
    {"true", "false", "none", "null", "auto", "debug", "info", "warn", "warning", "error", "trace", "verbose"}
    | {"production", "development", "staging", "test", "stdio", "http", "https", "localhost", "utf-8", "en_us.utf-8"}
)


class Mask:
    """Called with a text, returns it without the secrets."""

    def __init__(self, config: UpstreamConfig) -> None:
        values = [secret.reveal() for secret in (*config.env.values(), *config.headers.values())]
        found = sorted({part for value in values for part in _parts(value)}, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, found))) if found else None

    def __repr__(self) -> str:
        return f"<Mask {'of some secrets' if self._pattern else 'of nothing'}>"

    def __call__(self, text: str) -> str:
        return text if self._pattern is None else self._pattern.sub(MASK, text)


def _parts(value: str) -> Iterator[str]:
    """A value, and the longer words in it."""
    value = value.strip()
    if len(value) >= MIN_CHARS and value.lower() not in PLAIN:
        yield value
    words = value.split()
    if len(words) > 1:
        yield from (word for word in words if len(word) >= MIN_PART_CHARS and word.lower() not in PLAIN)
