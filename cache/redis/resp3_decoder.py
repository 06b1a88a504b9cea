"""Decoder of RESP3, the protocol of the store, with limits. Pure.

The decoder of coredis trusts announced sizes, keeps unrequested answers, and recurses in C as deep as answers nest. But
another program on the port, a broken proxy or somebody in the network can send anything. So this decoder replaces it.
It accepts what a store may send to a hub:

    + text   : integer   $ = bytes   _ nothing   - ! error   * ~ list   % map   > message   , # ( kept as text

At the first byte that is anything else, or beyond a limit, it raises `ProtocolViolation`, which ends the connection. A
size counts as soon as it is announced. Only the types of values are checked here, the rest by the reader of an answer.
"""

import re
from collections.abc import Callable
from typing import Any, Final

from coredis.constants.resp import DataType
from coredis.exceptions import ConnectionError as Lost
from coredis.parser import NOT_ENOUGH_DATA, NotEnoughData, Parser

MAX_BULK_BYTES: Final = (1 << 20) + (64 << 10)
"""Bytes of one text: the largest shared result, and its head."""
MAX_ANSWER_BYTES: Final = 4 << 20
"""Bytes of one answer with all its values."""
MAX_ITEMS: Final = 1_024
"""Values in one answer. Scripts answer five; a greeting also lists the modules of the server."""
MAX_DEPTH: Final = 8
MAX_REPLY_LINE_BYTES: Final = 16 << 10
"""Bytes of one line. The longest are errors."""

_COUNT: Final = re.compile(rb"-1|\d{1,9}")
_INTEGER: Final = re.compile(rb"[+-]?\d{1,19}")
_BULKS: Final = frozenset(b"$=!")
_GROUPS: Final = frozenset(b"*~%>")
_TEXTS: Final = frozenset(b"+,#(")
_ERRORS: Final = frozenset(b"-!")
_MAP, _PUSH, _NOTHING, _VERBATIM, _NUMBER = b"%>_=:"


class ProtocolViolation(Lost):
    """The server sent something that is not accepted. The connection cannot be used any more."""


class _Group:
    """An incomplete list, map or message."""

    __slots__ = ("items", "marker", "missing")

    def __init__(self, marker: int, missing: int) -> None:
        self.marker = marker
        self.missing = missing
        self.items: list[Any] = []

    @property
    def value(self) -> Any:
        if self.marker != _MAP:
            return self.items
        keys = self.items[::2]
        if not all(isinstance(key, bytes | int) for key in keys):
            raise ProtocolViolation("it answers with a map whose keys are not text")
        return dict(zip(keys, self.items[1::2], strict=True))


class Resp3Decoder:
    """Parses the answers on one connection; replaces `coredis.parser.Parser`, with the same methods."""

    def __init__(self, may_come: Callable[[bool], bool] = lambda is_message: True) -> None:
        """`may_come` tells whether an answer (False) or a message (True) is expected now."""
        self._may_come = may_come
        self._buffer = bytearray()
        self._at = 0
        """Start of the unread part of the buffer."""
        self._groups: list[_Group] = []
        """Incomplete groups, the outermost first."""
        self._items = 0
        self._bytes = 0
        """Announced bytes of the present answer."""
        self._errors = Parser()

    def feed(self, data: bytes) -> None:
        if self._at:
            del self._buffer[: self._at]
            self._at = 0
        self._buffer += data

    def on_disconnect(self) -> None:
        """Forget everything: the connection ended."""
        self._buffer.clear()
        self._groups.clear()
        self._at = 0

    def parse(self, decode: bool = False, encoding: str | None = None) -> tuple[DataType, Any] | NotEnoughData:
        """The next answer; texts are always bytes. Raises: ProtocolViolation."""
        while (found := self._next()) is not None:
            marker, value = found
            if isinstance(value, _Group):
                self._groups.append(value)
                if value.missing:
                    continue
            elif self._groups:
                self._add(value)
            if not self._groups:
                return self._finish(marker, value)
            while not self._groups[-1].missing:
                group = self._groups.pop()
                if not self._groups:
                    return self._finish(group.marker, group.value)
                self._add(group.value)
        return NOT_ENOUGH_DATA

    def _finish(self, marker: int, value: Any) -> tuple[DataType, Any]:
        self._items = self._bytes = 0
        is_message = marker == _PUSH
        if not self._may_come(is_message):
            raise ProtocolViolation("it sends an answer that was not requested")
        return DataType.PUSH if is_message else DataType.ARRAY, value

    def _add(self, value: Any) -> None:
        if isinstance(value, Exception):
            raise ProtocolViolation("it answers with an error inside an answer")
        self._groups[-1].items.append(value)
        self._groups[-1].missing -= 1

    def _next(self) -> tuple[int, Any] | None:
        """One value, or the start of a group; None: incomplete."""
        end = self._buffer.find(b"\r\n", self._at, self._at + MAX_REPLY_LINE_BYTES)
        if end < 0:
            if len(self._buffer) - self._at >= MAX_REPLY_LINE_BYTES:
                raise ProtocolViolation("it answers with an endless line")
            return None
        if end == self._at:
            raise ProtocolViolation("it answers with an empty line")
        marker, text = self._buffer[self._at], bytes(self._buffer[self._at + 1 : end])
        if marker in _BULKS:
            return self._bulk(marker, text, end + 2)
        value = self._group(marker, text) if marker in _GROUPS else self._plain(marker, text)
        self._at = end + 2
        return marker, value

    def _plain(self, marker: int, text: bytes) -> Any:
        if marker in _TEXTS:
            return text
        if marker in _ERRORS:
            return self._errors.parse_error(text.decode(errors="replace"))
        if marker == _NUMBER and _INTEGER.fullmatch(text):
            return int(text)
        if marker == _NOTHING:
            return None
        raise ProtocolViolation("it does not speak RESP3, as Redis and Valkey do")

    def _bulk(self, marker: int, text: bytes, begin: int) -> tuple[int, Any] | None:
        size = _count(text)
        if size > MAX_BULK_BYTES or self._bytes + size > MAX_ANSWER_BYTES:
            raise ProtocolViolation("it answers with more bytes than were asked for")
        end = begin + max(size, 0)
        if size >= 0 and len(self._buffer) < end + 2:
            return None
        self._at = begin if size < 0 else end + 2
        self._bytes += max(size, 0)
        if size < 0:
            return marker, None
        if self._buffer[end : end + 2] != b"\r\n":
            raise ProtocolViolation("it answers with a text longer than announced")
        value = bytes(self._buffer[begin:end])
        if marker in _ERRORS:
            return marker, self._errors.parse_error(value[:MAX_REPLY_LINE_BYTES].decode(errors="replace"))
        return marker, value[4:] if marker == _VERBATIM else value

    def _group(self, marker: int, text: bytes) -> "_Group | None":
        count = _count(text)
        if count < 0:
            return None
        if marker == _PUSH and (self._groups or not count):
            raise ProtocolViolation("it sends an invalid message")
        missing = count * 2 if marker == _MAP else count
        self._items += missing
        if self._items > MAX_ITEMS:
            raise ProtocolViolation("it answers with more values than were asked for")
        if len(self._groups) >= MAX_DEPTH:
            raise ProtocolViolation("it answers with values that are nested too deeply")
        return _Group(marker, missing)


def _count(text: bytes) -> int:
    if not _COUNT.fullmatch(text):
        raise ProtocolViolation("it announces an answer of unknown size")
    return int(text)
