"""A program in a pseudo-terminal: what a person sees of it, and what they type. Waiting is for text, and bounded."""

import contextlib
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[=>]|\r")


class Terminal:
    """A child with a terminal of its own, which is its controlling one."""

    def __init__(
        self, argv: Sequence[str | Path], *, env: Mapping[str, str], cwd: Path | None = None, columns: int = 100
    ) -> None:
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
        self._seen = 0
        self._data = b""
        self._popen = subprocess.Popen(
            [str(word) for word in argv],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env={"TERM": "xterm", **env},
            cwd=cwd,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        os.close(theirs)

    @property
    def pid(self) -> int:
        return self._popen.pid

    @property
    def text(self) -> str:
        """All that was shown so far, without colours and movements."""
        return _CONTROL.sub("", self._data.decode(errors="replace"))

    def _read(self, silence_s: float) -> bool:
        """Read what comes next; False: the terminal is closed, or silent for so long."""
        ready, _, _ = select.select([self._ours], [], [], silence_s)
        if not ready:
            return False
        try:
            data = os.read(self._ours, 1 << 16)
        except OSError:  # the other side is closed
            data = b""
        self._data += data
        return bool(data)

    def wait_for(self, pattern: str, *, silence_s: float = 60) -> re.Match[str]:
        """Wait until `pattern` is shown, behind what was waited for before."""
        while (found := re.compile(pattern, re.M).search(self.text, self._seen)) is None:
            if not self._read(silence_s):
                raise AssertionError(f"{pattern!r} was never shown:\n{self.text}")
        self._seen = found.end()
        return found

    def type(self, text: str) -> None:
        """Type something; a line ends with `\\n`, and `\\x03` is Ctrl-C."""
        os.write(self._ours, text.encode())

    def exit_code(self, *, silence_s: float = 60) -> int:
        """Wait until it ends; its exit code."""
        while self._read(silence_s):
            pass
        return self._popen.wait(silence_s)

    def close(self) -> None:
        """Kill what is left of it."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._popen.pid, signal.SIGKILL)
        self._popen.wait()
        os.close(self._ours)


@contextlib.contextmanager
def terminal(
    argv: Sequence[str | Path], *, env: Mapping[str, str], cwd: Path | None = None, columns: int = 100
) -> Iterator[Terminal]:
    """A program in a terminal, during the block."""
    program = Terminal(argv, env=env, cwd=cwd, columns=columns)
    try:
        yield program
    finally:
        program.close()
