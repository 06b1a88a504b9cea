"""A hub that is killed and restarted on the same port and state, over an upstream that starts when a gate opens."""

import contextlib
import json
import os
import signal
import sys
import threading
from pathlib import Path

from tests.support.processes import HUBD, Hub, free_port, own_directories, running

TICK = threading.Event()
"""Never set: for short waits in a thread."""


class Gate:
    """A gate in front of a server's command: while it is `shut`, the server starts and does nothing."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def command(self, *argv: str) -> str:
        """The `command` and `args` of a table of hubd.toml."""
        script = f'if test -p "{self._path}"; then read -r line < "{self._path}"; fi; exec "$@"'
        args = ["-c", script, "sh", *argv]
        return f'command = "/bin/sh"\nargs = {json.dumps(args)}\n'

    def shut(self) -> None:
        os.mkfifo(self._path)

    def open(self) -> None:
        """Let the waiting server continue, and all later ones."""
        with self._path.open("w") as pipe:  # waits for it
            self._path.unlink()
            pipe.write("\n")


def demo(gate: Gate) -> str:
    """The configuration of a hub with the demo server behind a gate."""
    return "[upstreams.demo]\n" + gate.command(sys.executable, "-I", "-m", "upstreams.demo")


@contextlib.contextmanager
def a_run(directory: Path, config: str, port: int = 0):
    """One run of the hub, the first on a free port; each run has its own log."""
    env = own_directories(directory)
    file = directory / "hubd.toml"
    file.write_text(config)
    argv = [HUBD, "serve", "--config", file, "--listen", f"127.0.0.1:{port or free_port()}", "--auth", "none"]
    with running(argv, directory / f"hubd-{port}.log", env=env, cwd=directory, forked=True) as process:
        yield Hub(process.wait_for(r"https?://[^\s\"]+/mcp")[0], None, env, file, process)


def kill(hub: Hub) -> None:
    """Kill it without warning."""
    assert hub.process.signalled(signal.SIGKILL, patience_s=60) == -signal.SIGKILL


def state(hub: Hub, *path: str) -> Path:
    """A file of the hub's state."""
    return Path(hub.env["XDG_STATE_HOME"], "hubd", *path)


def wait_until_written(path: Path, *texts: str) -> None:
    """Wait until a file of the state holds all of these texts, by looking again and again."""
    for _ in range(1200):
        with contextlib.suppress(FileNotFoundError):
            found = path.read_text()
            if all(text in found for text in texts):
                return
        TICK.wait(0.05)
    raise AssertionError(f"{path} was never written: {texts}")
