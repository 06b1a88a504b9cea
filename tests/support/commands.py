"""`hubd` commands in a home of their own, without the start of an interpreter for each: that is most of their time.

`run_hubd` takes the place of `subprocess.run([HUBD, ...])`, `Fork` that of `subprocess.Popen`. The command is a process
of its own all the same, with its own environment, descriptors and end; but it is a fork of one that has imported
everything (`command_server.py`), also in a terminal (`terminal.py`). What is about the start itself keeps a process
that the installed command starts.
"""

import atexit
import contextlib
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from threading import Thread
from typing import IO

from tests.support.processes import HUBD

SERVER = Path(__file__).with_name("command_server.py")


@cache
def _requests(prefix: tuple[str, ...]) -> socket.socket:
    """The socket of a server that was started by `prefix`, such as `setpriv`; it ends with this process."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    env = {name: value for name, value in os.environ.items() if not name.startswith(("XDG_", "HUBD_", "PYTHON"))}
    argv = [*prefix, sys.executable, "-I", SERVER, str(theirs.fileno())]
    with theirs:
        server = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, pass_fds=[theirs.fileno()], env=env, start_new_session=True
        )

    def end() -> None:
        ours.close()
        server.wait()

    atexit.register(end)
    return ours


def run_hubd(
    arguments: Sequence[object],
    env: Mapping[str, str],
    *,
    input: str | None = "",
    cwd: Path | str | None = None,
    timeout: float = 60,
    check: bool = False,
    prefix: Sequence[str] = (),
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end, with `input` on its standard input, as `subprocess.run` does with its output captured.

    Raises:
        subprocess.TimeoutExpired: it was silent for so long, and has been killed.
        subprocess.CalledProcessError: it has failed, and `check` is set.
    """

    argv = [str(HUBD), *map(str, arguments)]
    with contextlib.ExitStack() as stack:
        taken, given = os.pipe()
        written = [os.pipe(), os.pipe()]
        ours, theirs = socket.socketpair()
        stack.callback(ours.close)
        for end in (pipe[0] for pipe in written):
            stack.callback(os.close, end)
        _start(argv, env, cwd, [taken, *(pipe[1] for pipe in written), theirs.detach()], prefix)
        Thread(target=_write, args=(given, (input or "").encode())).start()
        told, out, err = _read(ours.fileno(), *(pipe[0] for pipe in written), argv=argv, timeout=timeout)
    done = subprocess.CompletedProcess(argv, int(told.split()[1]), out.decode(), err.decode())
    if check:
        done.check_returncode()
    return done


def _start(
    argv: list[str],
    env: Mapping[str, str],
    cwd: Path | str | None,
    descriptors: Sequence[int],
    prefix: Sequence[str] = (),
    *,
    leads: bool = False,
    in_terminal: bool = False,
) -> None:
    """Ask for a process with these descriptors, which are closed here; it `leads` a session of its own, if it is to,
    the terminal of which is its standard input, if that is one."""
    how = {"leads": leads, "in_terminal": in_terminal}
    request = {"argv": argv, "env": dict(env), "cwd": str(cwd or os.getcwd()), **how}
    try:
        socket.send_fds(_requests(tuple(prefix)), [json.dumps(request).encode()], descriptors)
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


class Fork:
    """A command that runs: as `subprocess.Popen` with pipes to its standard input and from its standard output, in a
    session of its own; `stderr` is a descriptor. Or all three are the `terminal`."""

    stdin: IO[bytes]
    stdout: IO[bytes]

    def __init__(
        self,
        arguments: Sequence[object],
        env: Mapping[str, str],
        *,
        cwd: Path | None,
        stderr: int | None = None,
        terminal: int | None = None,
    ) -> None:
        self.args = [str(HUBD), *map(str, arguments)]
        self._end, theirs = socket.socketpair()
        if terminal is None:
            (taken, given), (out, told) = os.pipe(), os.pipe()
            standard = [taken, told, os.dup(told if stderr is None else stderr)]
            self.stdin, self.stdout = open(given, "wb"), open(out, "rb")  # noqa: SIM115
        else:
            standard = [os.dup(terminal) for _ in range(3)]
        _start(self.args, env, cwd, [*standard, theirs.detach()], leads=True, in_terminal=terminal is not None)
        self._told = b""
        self._code: int | None = None
        while b"\n" not in self._told:
            assert self._hear(60), "the server of commands is gone"
        self.pid = int(self._told.split()[0])

    def _hear(self, patience_s: float | None) -> bytes:
        self._end.settimeout(patience_s)
        told = self._end.recv(100)
        self._told += told
        return told

    def poll(self) -> int | None:
        """Its exit code, or None: it still runs."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self._code

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end; returns its exit code.

        Raises:
            subprocess.TimeoutExpired: it has not ended within so many seconds.
        """
        while self._code is None:
            try:
                told = self._hear(timeout)
            except (BlockingIOError, TimeoutError):
                raise subprocess.TimeoutExpired(self.args, timeout or 0) from None
            if not told:
                self._code = int(self._told.split()[1])
                self._end.close()
        return self._code

    def send_signal(self, number: int) -> None:
        """Send it a signal, unless it has ended."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):  # it has ended, and its code has not come yet
                os.kill(self.pid, number)

    def terminate(self) -> None:
        """Send it SIGTERM, unless it has ended."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Send it SIGKILL, unless it has ended."""
        self.send_signal(signal.SIGKILL)


def _write(descriptor: int, data: bytes) -> None:
    with contextlib.suppress(BrokenPipeError), open(descriptor, "wb") as stdin:
        stdin.write(data)


def _read(*descriptors: int, argv: list[str], timeout: float) -> list[bytes]:
    """Everything from each of these, the first of which says the process id; `timeout` holds for each silence."""
    found = dict.fromkeys(descriptors, b"")
    with selectors.DefaultSelector() as selector:
        for descriptor in descriptors:
            selector.register(descriptor, selectors.EVENT_READ)
        try:
            while selector.get_map():
                ready = selector.select(timeout)
                if not ready:
                    raise subprocess.TimeoutExpired(argv, timeout, *list(found.values())[1:])
                for key, _ in ready:
                    data = os.read(key.fd, 65536)
                    found[key.fd] += data
                    if not data:
                        selector.unregister(key.fd)
        except BaseException:
            with contextlib.suppress(ProcessLookupError, IndexError, ValueError):
                os.kill(int(found[descriptors[0]].split()[0]), signal.SIGKILL)
            raise
    return list(found.values())
