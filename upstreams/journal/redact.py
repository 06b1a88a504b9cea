"""Redaction: masks secrets in what an upstream says: those of its configuration, and those that the hub sends to any
upstream, wherever they may come back from. Pure.

Journal lines and errors are masked: servers like to fill errors with the request that failed. Results pass as they are:
a server may be there to give out what it was configured with.

The values of `env` and `headers` are secrets, since nobody can tell which of them are not. Left alone are those that
are too short to be told from other words, and the words that settings are made of: a log full of `***` helps nobody.
"""

import json
import re
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
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


class CommonSecrets:
    """Secrets of the hub's own settings that upstreams are sent, such as arguments that profiles fix: no upstream knows
    them for secrets, and any may tell them. All masks that are made with them follow when they change."""

    def __init__(self, values: Iterable[str] = ()) -> None:
        self._now = _all_parts(values)
        self._former: deque[frozenset[str]] = deque(maxlen=MAX_LEARNT)
        self.parts = self._now
        """The texts that are masked now."""
        self.edition = 0
        """Another number for every change of `parts`."""

    def __repr__(self) -> str:
        return f"<CommonSecrets, {len(self.parts)}, edition {self.edition}>"

    def replace(self, values: Iterable[str]) -> None:
        """Have these values from now on. Those of before are still masked: calls that were sent them may go on."""
        if (now := _all_parts(values)) != self._now:
            self._former.append(self._now)
            self._now = now
            self.parts = now.union(*self._former)
            self.edition += 1


class Mask:
    """Called with a text, returns it without the secrets: those of `config`, those that it learnt, and `common`."""

    def __init__(self, config: UpstreamConfig | None = None, common: CommonSecrets | None = None) -> None:
        self._configured = _all_parts(() if config is None else secrets_of(config))
        self._learnt: deque[frozenset[str]] = deque(maxlen=MAX_LEARNT)
        self._common = common or CommonSecrets()
        self._compile()

    def learn(self, values: Sequence[str]) -> None:
        """Mask these values from now on, too; of those that were learnt before, the last ones are still masked."""
        parts = _all_parts(values)
        if parts and parts not in self._learnt:
            self._learnt.append(parts)
            self._compile()

    def _compile(self) -> None:
        edition = self._common.edition
        found = sorted(self._configured.union(self._common.parts, *self._learnt), key=len, reverse=True)
        self._compiled = re.compile("|".join(map(re.escape, found))) if found else None
        self._edition = edition

    @property
    def _pattern(self) -> re.Pattern[str] | None:
        """The pattern of what is masked; None: nothing."""
        if self._edition != self._common.edition:
            self._compile()
        return self._compiled

    def __repr__(self) -> str:
        return f"<Mask {'of some secrets' if self._pattern else 'of nothing'}>"

    def __call__(self, text: str) -> str:
        pattern = self._pattern
        return text if pattern is None else pattern.sub(MASK, text)

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


def _all_parts(values: Iterable[str]) -> frozenset[str]:
    return frozenset(written for value in values for part in _parts(value) for written in _spellings(part))


def _spellings(part: str) -> Iterator[str]:
    """A text as it is, within JSON, and within bytes as Python shows them."""
    yield part
    if not part.isalnum() or not part.isascii():
        yield from (json.dumps(part, ensure_ascii=is_ascii)[1:-1] for is_ascii in (False, True))
        yield repr(part.encode(errors="replace"))[2:-1]


def _parts(value: str) -> Iterator[str]:
    """A value, and the longer words in it."""
    value = value.strip()
    if len(value) >= MIN_CHARS and value.lower() not in PLAIN:
        yield value
    words = value.split()
    if len(words) > 1:
        yield from (word for word in words if len(word) >= MIN_PART_CHARS and word.lower() not in PLAIN)
