"""Trying servers before anything is changed: a private hub starts them all, and what becomes of each is watched.

The private hub runs for a few minutes. Its files are in a temporary directory, which is private, locked as long as
somebody uses it, and removed, if need be by the next setup: one that is killed removes nothing, but its lock ends with
it and with its hub. The package caches of the servers are warm afterwards, so that the hub itself starts them in
seconds.
"""

import math
import os
import shutil
import stat
import subprocess
import sys
import tempfile
import termios
import time
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from select import select
from typing import Final

from config.hosts.host_servers import Server
from config.hosts.import_plan import block
from config.hubd_executable import daemon_command
from hub.cli.await_server_starts import ServerOutcome, watch
from hub.cli.context import Output, UsageError
from hub.cli.render.blocks import Block
from hub.cli.setup.hold_back_signals import hold_back
from hub.control.client import ControlClient
from hub.control.client_errors import HubNotRunning
from hub.control.interruptible_wait import now_s
from hub.linux.child_limits import die_with_parent
from hub.linux.file_locks import try_lock
from hub.linux.stray_processes import kill_orphans

LIMIT_S: Final = 75.0
"""Seconds that a server has which is not being installed: as long as one start may take, and its first list."""
FAILURES: Final = 3
"""Attempts in a row that have to fail before a server counts as one that does not work, if for different reasons."""
INSTALLS: Final = "The first time can take minutes: packages are downloaded."
SKIP: Final = "Enter leaves those that have no answer yet with their hosts."
SKIP_AFTER_S: Final = 5.0
"""Seconds after which Enter does that: what is typed before was not meant so."""
SHOWN: Final = 12
"""Servers under way that are shown by name."""


def probe(
    servers: Sequence[tuple[str, Server]], output: Output, *, variables: bytes = b"", head: str = ""
) -> dict[str, ServerOutcome]:
    """Start each server, and say what became of it, by name. `variables`: as in `hubd.env`; `head`: of the live lines.
    Raises UsageError: the hub that should try them does not start; KeyboardInterrupt: all of them are stopped."""
    if not servers:
        return {}
    if not output.json:
        output.progress.show(head)
    configuration = "\n".join(["drain_s = 1", *(block(name, server) for name, server in servers), ""])
    with private_hub(configuration, variables) as hub:
        names = [name for name, _ in servers]
        begins_at = now_s() + SKIP_AFTER_S if output.is_attended() and output.progress.live else math.inf
        is_offered = False

        def draw(found: Mapping[str, ServerOutcome], waiting: Collection[str]) -> list[Block]:
            return [*progress(found, waiting), *([SKIP] if is_offered else [])]

        def is_skipped() -> bool:
            """True if a person does not want to wait any longer, and has pressed Enter."""
            nonlocal is_offered
            if now_s() < begins_at:
                return False
            if not is_offered:
                termios.tcflush(sys.stdin, termios.TCIFLUSH)
                is_offered = True
            if not select([sys.stdin], [], [], 0)[0]:
                return False
            sys.stdin.readline()
            return True

        return watch(hub, names, output, limit_s=LIMIT_S, failures=FAILURES, draw=draw, is_enough=is_skipped)


def progress(found: Mapping[str, ServerOutcome], waiting: Collection[str]) -> list[Block]:
    """The live lines while servers are tried: how many have an answer, and each that has none yet."""
    ended = [each for name, each in found.items() if name not in waiting]
    tally = ", ".join(f"{count} {what}" for what, count in Counter(map(_word, ended)).items())
    lines: list[Block] = [f"{len(ended)} of {len(found)} tried" + (f": {tally}" if tally else "")]
    under_way = [found[name] for name in waiting]
    under_way.sort(key=lambda each: not each.installing)
    if installing := sum(each.installing for each in under_way):
        lines = [f"{lines[0]}; installing {installing} at a time", INSTALLS]
    lines += [f"  {each.progress}" for each in under_way[:SHOWN]]
    if len(under_way) > SHOWN:
        lines.append(f"  and {len(under_way) - SHOWN} more")
    return lines


def _word(each: ServerOutcome) -> str:
    if each.works:
        return "up"
    return "sign-in needed" if each.state == "unauthorized" else "not started"


LISTEN_S: Final = 30.0
"""Seconds in which it has to listen."""
STOP_S: Final = 20.0
"""Seconds that it has to stop its servers; then it is killed, and they with it."""
PAUSE_S: Final = 0.05
LOG_TAIL: Final = 4096


@contextmanager
def private_hub(configuration: str, variables: bytes = b"") -> Iterator[ControlClient]:
    """Run a hub with this text as hubd.toml and these bytes as hubd.env; its control client. It ends with the block.
    Raises UsageError: it does not start; OSError: its directory cannot be made."""
    with temporary_directory() as (directory, lock):
        for name in ("run", "state"):
            (directory / name).mkdir(mode=0o700)
        for name, data in (("hubd.toml", configuration.encode()), ("hubd.env", variables)):
            with open(os.open(directory / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(data)
        process = None
        try:
            # Python ignores an interruption that comes within a fork.
            with (directory / "log").open("wb") as log, hold_back():
                process = _start(directory, log.fileno(), lock)
            with _connect(directory, process) as client:
                yield client
        finally:
            if process is not None:
                _stop(process)


def _start(directory: Path, log: int, lock: int) -> subprocess.Popen[bytes]:
    program = daemon_command()
    command = [*program[: program.index("serve") + 1], "--config", str(directory / "hubd.toml")]
    return subprocess.Popen(
        [*command, "--listen", "127.0.0.1:0", "--auth", "token"],
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        cwd="/",
        pass_fds=[lock],
        env={**os.environ, "HUBD_RUNTIME_DIR": str(directory / "run"), "HUBD_STATE_DIR": str(directory / "state")},
        start_new_session=True,  # Ctrl-C at the terminal is for us alone
        preexec_fn=die_with_parent(),
    )


def _connect(directory: Path, process: subprocess.Popen[bytes]) -> ControlClient:
    """Its control client, once it listens. Raises: UsageError, if it ended, or does not listen in time."""
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
        kill_orphans()  # the servers of a hub that was killed: nothing else would end them before the next hub starts
    if interrupted:
        raise KeyboardInterrupt


PREFIX: Final = "hubd-setup-"
"""Beginning of its name."""
LONGEST_PLACE: Final = 60
"""Bytes in the name of a directory that leaves room for the names of sockets below it."""
MAX_REMOVED: Final = 100
"""Directories of others that one setup looks at."""
LOCK: Final = "lock"


@contextmanager
def temporary_directory() -> Iterator[tuple[Path, int]]:
    """A new directory, and the descriptor that keeps it locked, for a process that uses it, too. Those that killed
    setups have left are removed first. Raises: OSError, if it cannot be made."""
    place = Path(_place())
    _remove_what_was_left(place)
    with tempfile.TemporaryDirectory(prefix=PREFIX, dir=place, ignore_cleanup_errors=True) as name:
        lock = _lock(Path(name))
        try:
            yield Path(name), lock
        finally:
            os.close(lock)


def _place() -> str:
    """The directory to make it in: the usual one for temporary files, unless its name is long."""
    usual = tempfile.gettempdir()
    return usual if len(os.fsencode(usual)) <= LONGEST_PLACE else "/tmp"


def _lock(directory: Path) -> int:
    """The descriptor of a lock, which has its name only once it is held."""
    new = directory / f"{LOCK}.new"
    descriptor = os.open(new, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try_lock(descriptor)
    new.rename(directory / LOCK)
    return descriptor


def _remove_what_was_left(place: Path) -> None:
    """Remove the directories of this user whose lock nobody holds. One without a lock is not known to be a setup's."""
    with suppress(OSError), os.scandir(place) as entries:
        for entry in islice((each for each in entries if each.name.startswith(PREFIX)), MAX_REMOVED):
            with suppress(OSError):
                if _is_left(Path(entry.path)):
                    shutil.rmtree(entry.path, ignore_errors=True)


def _is_left(directory: Path) -> bool:
    """True if it is a directory for this user alone, whose lock nobody holds. Raises: OSError, if it has no lock."""
    found = directory.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or stat.S_IMODE(found.st_mode) != 0o700:
        return False
    lock = os.open(directory / LOCK, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        return try_lock(lock)
    finally:
        os.close(lock)
