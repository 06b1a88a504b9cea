"""Commands in a pseudo-terminal of a given size, and what a person would see there."""

import contextlib
import fcntl
import io
import os
import re
import select
import struct
import subprocess
import termios
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType

from rich.cells import cell_len

from hub.cli.render.blocks import Block
from hub.cli.render.terminal import UNLIMITED, Screen
from tests.support.commands import Fork
from tests.support.processes import HUBD

PATIENCE_S = 60
CODES = re.compile(r"\x1b(?:\[[0-9;?]*[A-Za-z]|\][^\x07]*\x07|[=>])")
"""What a program sends to a terminal that is no text."""


class Terminal:
    """A program whose standard streams are a terminal of `columns` times `rows`; the command of hubd is a fork."""

    def __init__(
        self,
        argv: Sequence[str | Path],
        env: Mapping[str, str],
        *,
        columns: int = 80,
        rows: int = 50,
        cwd: Path | None = None,
    ) -> None:
        self._main, child = os.openpty()
        self.first_attributes = self.attributes()
        """Those that the program finds."""
        fcntl.ioctl(child, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        words = [str(word) for word in argv]
        env = {"TERM": "xterm", **env}
        self.process: Fork | subprocess.Popen[bytes]
        if words[0] == str(HUBD):
            self.process = Fork(words[1:], env, cwd=cwd, terminal=child)
        else:
            self.process = subprocess.Popen(
                words,
                stdin=child,
                stdout=child,
                stderr=child,
                env=env,
                cwd=cwd,
                start_new_session=True,
                preexec_fn=_takes_the_terminal,
            )
        os.close(child)
        self.output = ""
        """All that was written so far, codes included."""
        self._seen = 0

    def __enter__(self) -> "Terminal":
        return self

    def __exit__(
        self, type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._main)

    def type(self, text: str) -> None:
        """Press keys; `"\\x03"` is Ctrl-C."""
        os.write(self._main, text.encode())

    def resize(self, columns: int, rows: int = 50) -> None:
        """Give the window another size."""
        fcntl.ioctl(self._main, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def attributes(self) -> list[object]:
        """How the terminal treats what is typed and written: echo, lines, signals and so on."""
        return termios.tcgetattr(self._main)

    def wait_for(self, pattern: str, after: int = 0) -> int:
        """Wait until `pattern` was written behind the first `after` characters; the place where it ends."""
        while (found := re.compile(pattern).search(self.output, after)) is None:
            assert self._read_more(), f"the program ended without {pattern}:\n{self.output}"
        return found.end()

    @property
    def text(self) -> str:
        """All that was written so far, as `shown`, with `\\n` as line ends."""
        return shown(self.output).replace("\r", "")

    def see(self, pattern: str) -> None:
        """Wait until the text shows `pattern`, behind what was seen before. `^` and `$` are the ends of its lines."""
        while (found := re.compile(pattern, re.M).search(self.text, self._seen)) is None:
            assert self._read_more(), f"the program ended without {pattern}:\n{self.text}"
        self._seen = found.end()

    def end(self) -> tuple[int, str]:
        """The exit code, and all that was written, with `\\n` as line ends."""
        while self._read_more():
            pass
        return self.process.wait(PATIENCE_S), self.output.replace("\r\n", "\n")

    def _read_more(self) -> bool:
        assert select.select([self._main], [], [], PATIENCE_S)[0], f"nothing is written any more:\n{self.output}"
        received = b""
        with contextlib.suppress(OSError):  # EIO: the last process of the terminal has ended
            received = os.read(self._main, 1 << 16)
            while received and select.select([self._main], [], [], 0)[0]:
                received += os.read(self._main, 1 << 16)
        self.output += received.decode(errors="replace")
        return bool(received)


def _takes_the_terminal() -> None:
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def drawn(*blocks: Block, width: int = UNLIMITED, colour: bool = False) -> str:
    """Blocks as a screen of this width shows them."""
    return Screen(io.StringIO(), width=width, colour=colour).render(*blocks)


def shown(output: str) -> str:
    """The text of `output`, without colours and movements of the cursor."""
    return CODES.sub("", output)


def widest(output: str) -> int:
    """Cells of the widest line."""
    return max((cell_len(line) for line in shown(output).replace("\r", "").split("\n")), default=0)
