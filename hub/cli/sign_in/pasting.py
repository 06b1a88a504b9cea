"""Lines that a person pastes into the terminal while something else is waited for."""

import os
import sys
import termios
from types import TracebackType
from typing import Any, Final, Self

MAX_LINE_BYTES: Final = 32 << 10
"""Longer ones are not read: no hub takes such an address."""
ERASE: Final = b"\x7f\x08"
END: Final = b"\x04"
"""The byte that a terminal sends for Ctrl-D."""
PIECE_BYTES: Final = 4096


class PastedLines:
    """Lines of standard input, read when it is readable. Used in a `with` block: a terminal is set to hand over
    characters as they come, since it keeps only 4 KiB of a line otherwise, and is put back."""

    def __init__(self, descriptor: int | None) -> None:
        """`descriptor`: None: there is no input."""
        self.descriptor = descriptor
        """To be waited for; None: nothing more comes."""
        self._received = bytearray()
        self._terminal: tuple[int, list[Any]] | None = None
        """Its descriptor, and how it is to be put back."""

    @classmethod
    def of_stdin(cls) -> Self:
        """Those of standard input."""
        try:
            return cls(None if sys.stdin is None else sys.stdin.fileno())
        except (OSError, ValueError):  # it has no descriptor
            return cls(None)

    def __enter__(self) -> Self:
        if self.descriptor is not None and os.isatty(self.descriptor):
            self._terminal = self.descriptor, termios.tcgetattr(self.descriptor)
            mode = termios.tcgetattr(self.descriptor)
            mode[3] &= ~termios.ICANON
            mode[6][termios.VMIN], mode[6][termios.VTIME] = 1, 0
            termios.tcsetattr(self.descriptor, termios.TCSANOW, mode)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._terminal is not None:
            descriptor, before = self._terminal
            termios.tcsetattr(descriptor, termios.TCSANOW, before)

    def lines(self) -> list[str]:
        """The lines that are complete now, without empty ones; to be called when `descriptor` is readable. Of one that
        is too long only the beginning is kept, which nobody takes for an address."""
        assert self.descriptor is not None, "nothing more comes"
        try:
            data = os.read(self.descriptor, PIECE_BYTES)
        except OSError:
            data = b""
        if not data or (self._terminal is not None and data == END):
            self.descriptor = None
            data = b"\n"
        found: list[str] = []
        for piece in data.splitlines(keepends=True):
            self._take(piece)
            if piece.endswith((b"\n", b"\r")):
                found.append(self._received.decode(errors="replace").strip())
                self._received.clear()
        return [line for line in found if line]

    def _take(self, piece: bytes) -> None:
        if self._terminal is None:
            self._received += piece[: MAX_LINE_BYTES - len(self._received)]
            return
        for key in piece:
            if key in ERASE:
                del self._received[-1:]
            elif len(self._received) < MAX_LINE_BYTES:
                self._received.append(key)
