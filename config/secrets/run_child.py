"""Output of a program that is run to its end: bounded in time and size, without a shell, a terminal or any input but
the one that is given. Blocks, so call it in a thread where that matters.

The program has a process group of its own and stays in the session of the hub, so that whoever started it reaps it,
and nobody else. Whatever of its group is left is killed at the end. A program that runs as another user, as `sudo`
does, may be beyond that: it is left alone, without its pipes, and a thread of its own reaps it.
"""

import os
import selectors
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import IO, Final

from msgspec import Struct

from hub.linux.processes import hold

PIECE_BYTES: Final = 1 << 16
MAX_STDERR_BYTES: Final = 4096
"""Bytes of the last that is kept of its stderr."""
LINGER_S: Final = 0.5
"""Time that output may still come after the program has exited; what it left in the background may hold it open."""
LOOK_S: Final = 0.05
"""Interval of looks at the program where its exit cannot be waited for."""
REAP_S: Final = 1.0
"""Time that a program that was killed has for its end."""
now = time.monotonic  # noqa: TID251  # threads have no clock of trio


class ChildFailed(Exception):
    """The program did not end as it should. The text is a clause without anything that it printed on stdout."""


class ChildOutput(Struct, frozen=True):
    """The outcome of a program."""

    status: int
    """Its exit status; negative: killed by that signal."""
    stdout: bytes
    stderr: bytes
    """The last that it wrote there."""

    def __repr__(self) -> str:  # stdout may be a secret
        return f"<ChildOutput of status {self.status}, {len(self.stdout)} bytes>"


def run_child(
    argv: Sequence[str],
    *,
    within_s: float,
    limit_bytes: int,
    input: bytes = b"",
    environ: Mapping[str, str] | None = None,
    directory: str | None = None,
    stop: int | None = None,
) -> ChildOutput:
    """Run a program to its end.

    `environ`: that of this process, if None. `stop`: a descriptor; once it is readable, the program is killed.
    Raises: ChildFailed, if it cannot be started, takes longer than `within_s` seconds, or prints more than
    `limit_bytes`."""
    try:
        child = subprocess.Popen(
            argv,
            stdin=subprocess.PIPE if input else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            env=environ,
            cwd=directory,
            process_group=0,
        )
    except FileNotFoundError:
        raise ChildFailed("was not found") from None
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or "these arguments cannot be passed"
        raise ChildFailed(f"cannot be started: {why}") from None
    try:
        return _Conversation(child, input, limit_bytes).run(within_s, stop)
    finally:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, signal.SIGKILL)
        for pipe in (child.stdin, child.stdout, child.stderr):
            if pipe is not None:
                pipe.close()
        try:
            child.wait(REAP_S)
        except subprocess.TimeoutExpired:
            threading.Thread(target=child.wait, name=f"reaper of {child.pid}", daemon=True).start()


class _Conversation:
    """The input and output of a program, written and read, until both its outputs end, or it has exited for a
    moment."""

    def __init__(self, child: "subprocess.Popen[bytes]", input: bytes, limit_bytes: int) -> None:
        self._child = child
        self._input = memoryview(input)
        self._limit_bytes = limit_bytes
        self._stdout, self._stderr = bytearray(), bytearray()
        self._outputs = 2
        """Outputs that have not ended."""
        self._exited_at: float | None = None

    def run(self, within_s: float, stop: int | None = None) -> ChildOutput:
        child, due = self._child, now() + within_s
        with selectors.DefaultSelector() as selector, hold(child.pid) as pidfd:
            for pipe, events, act in (
                (child.stdin, selectors.EVENT_WRITE, self._write),
                (child.stdout, selectors.EVENT_READ, partial(self._read, self._stdout)),
                (child.stderr, selectors.EVENT_READ, partial(self._read, self._stderr)),
            ):
                if pipe is not None:
                    os.set_blocking(pipe.fileno(), False)
                    selector.register(pipe, events, partial(act, pipe))
            if pidfd is not None:
                selector.register(pidfd, selectors.EVENT_READ, lambda: True)
            if stop is not None:
                selector.register(stop, selectors.EVENT_READ, _stop)
            while self._outputs and (self._exited_at is None or now() < self._exited_at + LINGER_S):
                if now() >= due:
                    raise ChildFailed(f"did not end within {within_s:g} seconds")
                until = due if self._exited_at is None else self._exited_at + LINGER_S
                pause_s = until - now() if pidfd is not None else min(until - now(), LOOK_S)
                for key, _ in selector.select(max(0.0, pause_s)):
                    if key.data():
                        selector.unregister(key.fileobj)
                if self._exited_at is None and child.poll() is not None:
                    self._exited_at = now()
        try:
            status = child.wait(max(0.0, due - now()))
        except subprocess.TimeoutExpired:
            raise ChildFailed(f"did not end within {within_s:g} seconds") from None
        return ChildOutput(status, bytes(self._stdout), bytes(self._stderr))

    # Each returns True at the end of its pipe.

    def _write(self, pipe: IO[bytes]) -> bool:
        try:
            self._input = self._input[os.write(pipe.fileno(), self._input) :]
        except BlockingIOError:
            return False
        except OSError:  # it reads no more
            return True
        if not self._input:
            pipe.close()
        return not self._input

    def _read(self, into: bytearray, pipe: IO[bytes]) -> bool:
        into += (data := os.read(pipe.fileno(), PIECE_BYTES))
        if len(self._stdout) > self._limit_bytes:
            raise ChildFailed(f"printed more than {self._limit_bytes >> 10} KB")
        del self._stderr[:-MAX_STDERR_BYTES]
        self._outputs -= not data
        return not data


def _stop() -> bool:
    raise ChildFailed("was not waited for any longer")
