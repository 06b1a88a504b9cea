"""Redaction masks secrets in what an upstream says: those of its configuration, and those that the hub sends to any
upstream, wherever they may come back from. Pure.

What a server tells of its work is masked: errors, of JSON-RPC and of tools (`isError`), log messages, progress, and all
that is written down. Servers like to fill these with the request that failed. What it gives or asks passes as it is: a
server may be there to give out what it was configured with.

The values of `env` and `headers` are secrets, since nobody can tell which of them are not, and so is what looks like
one in `url` and `args`. Left alone are those that are too short to be told from other words, and the words that
settings are made of: a log full of `***` helps nobody.
"""

import json
import re
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Final

from msgspec import Raw, UnsetType

from config.secrets.detection import secret_arguments, secrets_of_url
from config.setting_declarations import secrets_of
from config.settings import UpstreamConfig
from hub.link.hub_errors import HubError
from hub.wire.jsonrpc import Failure, peek_object, peek_str, raw

MASK: Final = "***"
MIN_CHARS: Final = 4
MIN_PART_CHARS: Final = 8
"""Shortest word within a value that is masked alone: the token behind `Bearer`, a line of a key."""
MAX_LEARNT: Final = 16
"""Readings of values that change all the time which are still masked."""
MAX_ERROR_BYTES: Final = 65_536
"""Bytes of an error's message, and of its data, that are searched; a longer message is cut, longer data is left out. A
longer result passes as it is."""
TELLS_ERROR: Final = re.compile(rb'"(?:isError"\s*+:\s*+true|(?:error|statusMessage)"\s*+:)').search
"""Finds what a result has that tells of an error, a tool's or that of a task, or how a task stands; others may have it,
too."""
PLAIN: Final = frozenset(
    {"true", "false", "none", "null", "auto", "debug", "info", "warn", "warning", "error", "trace", "verbose"}
    | {"production", "development", "staging", "test", "stdio", "http", "https", "localhost", "utf-8", "en_us.utf-8"}
)


_STRING: Final = r'"(?:[^"\\]++|\\.)*+"'
_ANY_STRING: Final = re.compile(f"(?P<text>{_STRING})", re.S)
_VALUE: Final = re.compile(rf'"type"\s*+:\s*+{_STRING}|{_STRING}\s*+:|(?P<text>{_STRING})', re.S)
"""A `text` that is neither the name of a member nor the type of a block."""
_TRUE: Final = Raw(b"true")


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
        values: Iterable[str] = ()
        if config is not None:  # with what looks like secrets in texts that are none as a whole
            arguments = (config.args[at][start:] for at, start in secret_arguments(config.args))
            values = chain(secrets_of(config), secrets_of_url(config.url or ""), arguments)
        self._configured = _all_parts(values)
        self._learnt: deque[frozenset[str]] = deque(maxlen=MAX_LEARNT)
        self._common = common or CommonSecrets()
        self._compile()

    def learn(self, values: Sequence[str]) -> None:
        """Mask these values from now on, too; of those that were learnt before, the last ones are still masked."""
        if (parts := _all_parts(values)) and parts not in self._learnt:
            self._learnt.append(parts)
            self._compile()

    def _compile(self) -> None:
        found = sorted(self._configured.union(self._common.parts, *self._learnt), key=len, reverse=True)
        self._compiled = re.compile("|".join(map(re.escape, found))) if found else None
        self._edition = self._common.edition

    @property
    def _pattern(self) -> re.Pattern[str] | None:
        if self._edition != self._common.edition:
            self._compile()
        return self._compiled

    def __call__(self, text: str) -> str:
        return text if (pattern := self._pattern) is None else pattern.sub(MASK, text)

    def failure(self, failure: Failure) -> Failure:
        """An error of the upstream without the secrets; the same one, if there are none in it."""
        if self._pattern is None:
            return failure
        message = self(failure.message[:MAX_ERROR_BYTES])
        data = failure.data if isinstance(failure.data, UnsetType) else self.data(failure.data)
        if message == failure.message and data is failure.data:
            return failure
        return Failure(failure.code, message, data)

    def result(self, value: Raw) -> Raw:
        """A result, of at most `MAX_ERROR_BYTES`, without the secrets if it tells of an error, a tool's or that of a
        task, or how a task stands; all else of it, and any other result, is as it was."""
        members = peek_object(value) if self._pattern is not None else {}
        masked: dict[str, Raw] = {}
        if members.get("isError") == _TRUE:
            masked = {name: self._strings(members[name], _VALUE) for name in _TOLD if name in members}
        elif "taskId" in members:
            masked = {name: self._strings(members[name], _VALUE) for name in _TOLD_OF_TASK if name in members}
            if "result" in members:
                masked["result"] = self.result(members["result"])
        elif "task" in members:
            masked = {"task": self.result(members["task"])}
        return value if masked.items() <= members.items() else raw(members | masked)

    def error(self, error: HubError) -> None:
        """Take the secrets out of a failure that tells what the upstream said."""
        if self._pattern is not None:
            error.args = (self(str(error)),)

    def data(self, data: Raw) -> Raw:
        """The data of an error, of a log message or of progress, in whose strings there may be secrets."""
        if self._pattern is None:
            return data
        if (size := memoryview(data).nbytes) > MAX_ERROR_BYTES:
            return raw(f"{size} bytes, too many to be searched for secrets")
        return self._strings(data, _ANY_STRING)

    def _strings(self, data: Raw, which: re.Pattern[str]) -> Raw:
        text = bytes(data)
        masked = which.sub(self._string, text.decode(errors="replace")).encode(errors="replace")
        return data if masked == text else Raw(masked)

    def _string(self, found: re.Match[str]) -> str:
        written = found[0]
        if found["text"] is None:
            return written
        said = (peek_str(written.encode()) or "") if "\\" in written else written[1:-1]
        return written if (masked := self(said)) == said else bytes(raw(masked)).decode()


_TOLD: Final = ("content", "structuredContent")
_TOLD_OF_TASK: Final = ("error", "statusMessage")


def _all_parts(values: Iterable[str]) -> frozenset[str]:
    return frozenset(written for value in values for part in _parts(value) for written in _spellings(part))


def _spellings(part: str) -> Iterator[str]:
    """A text as it is, within JSON, and within bytes as Python shows them."""
    yield part
    if not part.isalnum() or not part.isascii():
        yield from (json.dumps(part, ensure_ascii=is_ascii)[1:-1] for is_ascii in (False, True))
        yield repr(part.encode(errors="replace"))[2:-1]


def _parts(value: str) -> Iterator[str]:
    value = value.strip()
    if len(value) >= MIN_CHARS and value.lower() not in PLAIN:
        yield value
    words = value.split()
    if len(words) > 1:
        yield from (word for word in words if len(word) >= MIN_PART_CHARS and word.lower() not in PLAIN)
