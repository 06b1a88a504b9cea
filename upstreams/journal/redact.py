"""Redaction: masks the secrets of an upstream's configuration in what the upstream says. Pure.

Journal lines and errors are masked: servers like to fill errors with the request that failed. Results pass as they are:
a server may be there to give out what it was configured with.

The values of `env` and `headers` are secrets, since nobody can tell which of them are not. Left alone are those that
are too short to be told from other words, and the words that settings are made of: a log full of `***` helps nobody.
"""

import re
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Final

from msgspec import Raw, UnsetType

from config.setting_facts import secrets_of
from config.settings import UpstreamConfig
from hub.link.hub_errors import HubError
from hub.wire.jsonrpc import Failure, peek_str, raw

MASK: Final = "***"
MIN_CHARS: Final = 4
MIN_PART_CHARS: Final = 8
"""Shortest word within a value that is masked alone: the token behind `Bearer`, a line of a key."""
MAX_LEARNT: Final = 16
"""Readings of values that change all the time which are still masked."""
MAX_ERROR_BYTES: Final = 65_536
"""Bytes of an error's message, and of its data, that are searched; a longer message is cut, longer data is left out."""
PLAIN: Final = frozenset(
    {"true", "false", "none", "null", "auto", "debug", "info", "warn", "warning", "error", "trace", "verbose"}
    | {"production", "development", "staging", "test", "stdio", "http", "https", "localhost", "utf-8", "en_us.utf-8"}
)


_STRING: Final = re.compile(r'"(?:[^"\\]++|\\.)*+"', re.S)


class Mask:
    """Called with a text, returns it without the secrets."""

    def __init__(self, config: UpstreamConfig) -> None:
        self._configured = {part for value in secrets_of(config) for part in _parts(value)}
        self._learnt: deque[frozenset[str]] = deque(maxlen=MAX_LEARNT)
        self._compile()

    def learn(self, values: Sequence[str]) -> None:
        """Mask these values from now on, too; of those that were learnt before, the last ones are still masked."""
        parts = frozenset(part for value in values for part in _parts(value))
        if parts and parts not in self._learnt:
            self._learnt.append(parts)
            self._compile()

    def _compile(self) -> None:
        found = sorted(self._configured.union(*self._learnt), key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, found))) if found else None

    def __repr__(self) -> str:
        return f"<Mask {'of some secrets' if self._pattern else 'of nothing'}>"

    def __call__(self, text: str) -> str:
        return text if self._pattern is None else self._pattern.sub(MASK, text)

    def failure(self, failure: Failure) -> Failure:
        """An error of the upstream without the secrets; the same one, if there are none in it."""
        if self._pattern is None:
            return failure
        message = self(failure.message[:MAX_ERROR_BYTES])
        data = failure.data if isinstance(failure.data, UnsetType) else self._data(failure.data)
        if message == failure.message and data is failure.data:
            return failure
        return Failure(failure.code, message, data)

    def error(self, error: HubError) -> None:
        """Take the secrets out of a failure that tells what the upstream said."""
        if self._pattern is not None:
            error.args = (self(str(error)),)

    def _data(self, data: Raw) -> Raw:
        """The data of an error, in whose strings there may be secrets."""
        assert self._pattern is not None
        text = bytes(data)
        if len(text) > MAX_ERROR_BYTES:
            return raw(f"{len(text)} bytes, too many to be searched for secrets")
        masked = _STRING.sub(self._string, text.decode(errors="replace"))
        return data if masked.encode(errors="replace") == text else Raw(masked.encode(errors="replace"))

    def _string(self, found: re.Match[str]) -> str:
        """A string of JSON."""
        written = found[0]
        said = (peek_str(written.encode()) or "") if "\\" in written else written[1:-1]
        masked = self(said)
        return written if masked == said else bytes(raw(masked)).decode()


def _parts(value: str) -> Iterator[str]:
    """A value, and the longer words in it."""
    value = value.strip()
    if len(value) >= MIN_CHARS and value.lower() not in PLAIN:
        yield value
    words = value.split()
    if len(words) > 1:
        yield from (word for word in words if len(word) >= MIN_PART_CHARS and word.lower() not in PLAIN)
