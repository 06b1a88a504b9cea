"""A hub of its own for a few minutes: its files are in a temporary directory, and nothing of it is left."""

import os
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from hub.cli.clock import now_s
from hub.cli.setup.interrupts import held_back
from hub.cli.setup.temporary_directory import temporary_directory
from hub.cli.subcommand import UsageError

if TYPE_CHECKING:
    from hub.control.client import ControlClient

LISTEN_S: Final = 30.0
"""Seconds in which it has to listen."""
STOP_S: Final = 20.0
"""Seconds that it has to stop its servers; then it is killed, and they with it."""
PAUSE_S: Final = 0.05
PR_SET_PDEATHSIG: Final = 1
LOG_TAIL: Final = 4096


@contextmanager
def private_hub(configuration: str, variables: bytes = b"") -> "Iterator[ControlClient]":
    """Run a hub with this text as hubd.toml and these bytes as hubd.env; its control client. It ends with the block.

    Raises:
        UsageError: it does not start.
        OSError: its directory cannot be made.
    """
    with temporary_directory() as (directory, lock):
        for name in ("run", "state"):
            (directory / name).mkdir(mode=0o700)
        for name, data in (("hubd.toml", configuration.encode()), ("hubd.env", variables)):
            _write_private(directory / name, data)
        process = None
        try:
            # Python ignores an interruption that comes within a fork.
            with (directory / "log").open("wb") as log, held_back():
                process = _start(directory, log.fileno(), lock)
            with _connected(directory, process) as client:
                yield client
        finally:
            if process is not None:
                _stop(process)


def _write_private(path: Path, data: bytes) -> None:
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(data)


def environment(directory: Path, environ: Mapping[str, str]) -> dict[str, str]:
    """The environment of the hub: this one, but for where it keeps its files. Its servers get nothing of that."""
    return {**environ, "HUBD_RUNTIME_DIR": str(directory / "run"), "HUBD_STATE_DIR": str(directory / "state")}


def _start(directory: Path, log: int, lock: int) -> subprocess.Popen[bytes]:
    from config.program import daemon_command
    from hub.linux.limits import die_with_parent

    program = daemon_command()
    command = [*program[: program.index("serve") + 1], "--config", str(directory / "hubd.toml")]
    return subprocess.Popen(
        [*command, "--listen", "127.0.0.1:0", "--auth", "token"],
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        cwd="/",
        pass_fds=[lock],
        env=environment(directory, os.environ),
        start_new_session=True,  # Ctrl-C at the terminal is for us alone
        preexec_fn=die_with_parent(),
    )


def _connected(directory: Path, process: subprocess.Popen[bytes]) -> "ControlClient":
    """Its control client, once it listens.

    Raises:
        UsageError: it ended, or does not listen in time.
    """
    from hub.control.client import ControlClient
    from hub.control.errors import HubNotRunning

    until = now_s() + LISTEN_S
    while process.poll() is None and now_s() < until:
        with suppress(HubNotRunning):
            return ControlClient(directory / "run" / "control.sock", doubts=False)
        time.sleep(PAUSE_S)  # noqa: TID251 - nothing here runs under trio
    said = (directory / "log").read_bytes()[-LOG_TAIL:].decode(errors="replace").strip().splitlines()
    raise UsageError(f"the hub that should try the servers did not start: {said[-1] if said else 'it said nothing'}")


def _stop(process: subprocess.Popen[bytes]) -> None:
    """Stop the hub in order, and its servers with it. Ctrl-C meanwhile does not keep it from that."""
    process.terminate()
    until = now_s() + STOP_S
    interrupted = False
    while process.poll() is None and now_s() < until:
        try:
            process.wait(max(0.01, until - now_s()))
        except subprocess.TimeoutExpired:
            break
        except KeyboardInterrupt:
            interrupted = True
            until = min(until, now_s() + 2)
    if process.poll() is None:
        process.kill()
        process.wait()
        _end_what_is_left()
    if interrupted:
        raise KeyboardInterrupt


def _end_what_is_left() -> None:
    """End the servers of a hub that was killed: nothing else would before the next hub starts."""
    from hub.linux.orphans import kill_orphans

    kill_orphans()
