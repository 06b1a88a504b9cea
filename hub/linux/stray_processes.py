"""Stray processes: those that a hub left behind, or that left their process group; how they are found and ended.

A process one of whose hubs does not live any more is an orphan, whoever finds it, by its mark. Those of hubs elsewhere,
in another container for instance, are nobody's here, and marks that cannot be read are left alone.

A process that leaves its group *and* clears its environment is known only as long as its hub lives, which adopts it
when its parent ends (`adopt`). Only a service manager finds it after a crash. Linux only; elsewhere nothing is found.
"""

import logging
import os
import select
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

import trio

from hub.linux.child_marks import MARKER, NOWHERE, OWN, THIS_HUB
from hub.linux.harden_hub import prctl
from hub.linux.processes import open_pidfd, pids, read_stat

log = logging.getLogger(__name__)

PR_SET_CHILD_SUBREAPER: Final = 36
KILL_ROUNDS: Final = 10
"""Rounds of looking again for processes that were forked meanwhile."""
KILL_WAIT_MS: Final = 1000
"""Time to wait for the next of the killed processes to end."""


class Orphan(NamedTuple):
    """A process whose hub is dead."""

    pid: int
    hub: int
    """The pid that the hub had."""
    command: str


class _Hubs:
    """Living hubs among those that marks name; each is looked up once."""

    def __init__(self) -> None:
        self._place = THIS_HUB.split(".")[2]
        self._dead: dict[str, bool] = {}

    def dead_one(self, mark: str) -> int | None:
        """The pid of a hub in `mark` that does not live any more; None: they all do, or nobody can say."""
        for each in mark.split(","):
            hub = each.rpartition(".")[0]
            if hub not in self._dead:
                self._dead[hub] = self._is_dead(hub)
            if self._dead[hub]:
                return int(hub.partition(".")[0])
        return None

    def _is_dead(self, hub: str) -> bool:
        try:
            pid, started, place, _token = hub.split(".")
            if place != self._place or place == NOWHERE:
                return False
            found = read_stat(int(pid))
            return found is None or found.began != int(started) or found.state in "ZX"
        except (OSError, ValueError):
            return False


def orphans() -> list[Orphan]:
    """The processes of this user whose hub died without ending them. Blocks for some milliseconds."""
    hubs = _Hubs()
    return [Orphan(pid, hub, _command(pid)) for pid, mark in _find_marked() if (hub := hubs.dead_one(mark)) is not None]


def kill_orphans() -> int:
    """KILL every process of this user whose hub is dead, and whatever such processes start meanwhile; how many.

    Processes of other hubs that live are left alone. Blocks for some milliseconds, and until they have ended.
    """
    hubs = _Hubs()
    return _kill_all(lambda: [each for each in _find_marked() if hubs.dead_one(each[1]) is not None])


def kill_marked(marker: str) -> int:
    """KILL every process with this mark, wherever it moved to: one child's own, or `THIS_HUB`; how many.

    Blocks for some milliseconds, and until they have ended.
    """

    def has_it(mark: str) -> bool:
        return any(f"{each}.".startswith(f"{marker}.") for each in mark.split(","))

    return _kill_all(lambda: [each for each in _find_marked() if has_it(each[1])])


def _kill_all(find: Callable[[], list[tuple[int, str]]]) -> int:
    """KILL what is found, with its marks, until nothing is; how many."""
    killed = 0
    for _ in range(KILL_ROUNDS):
        found = [pidfd for pid, mark in find() if (pidfd := _kill(pid, mark)) is not None]
        if not found:
            break
        killed += len(found)
        _wait_for(found)
    return killed


def _find_marked() -> list[tuple[int, str]]:
    """All processes of this user with a mark, except this one."""
    found = []
    me = os.getpid()
    for pid in pids():
        if pid != me and (mark := _mark(pid)):
            with suppress(OSError):
                if os.stat(f"/proc/{pid}").st_uid == os.geteuid():
                    found.append((pid, mark))
    return found


def _mark(pid: int) -> str:
    """The mark in the environment of a process; "" if it has none, has ended or is another user's."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:  # empty for zombies
            environ = file.read()
    except OSError:
        return ""
    _, _, rest = (b"\0" + environ).partition(f"\0{MARKER}=".encode())
    return rest.partition(b"\0")[0].decode(errors="replace")


def _kill(pid: int, mark: str) -> int | None:
    """KILL a process, if it still is the one with this mark; its pidfd."""
    if (pidfd := open_pidfd(pid)) is None:
        return None
    try:
        if _mark(pid) == mark:
            signal.pidfd_send_signal(pidfd, signal.SIGKILL)
            return pidfd
    except OSError as error:  # it has ended, or has become another user
        if isinstance(error, PermissionError):
            log.warning("process %d is left behind: it cannot be killed (%s)", pid, error.strerror)
    os.close(pidfd)
    return None


def _wait_for(pidfds: list[int]) -> None:
    """Wait until these processes have ended, and close their descriptors."""
    poll = select.poll()
    left = set(pidfds)
    for pidfd in left:
        poll.register(pidfd, select.POLLIN)
    while left and (ended := poll.poll(KILL_WAIT_MS)):
        for pidfd, _ in ended:
            poll.unregister(pidfd)
            left.remove(pidfd)
    for pidfd in pidfds:
        os.close(pidfd)


def _command(pid: int) -> str:
    """The name of a program; not its arguments, which may hold secrets."""
    try:
        return Path(f"/proc/{pid}/comm").read_text(errors="replace").strip()
    except OSError:
        return "?"


# --- those that are adopted -------------------------------------------------------------------------------------------

waited_for: Final[set[int]] = set()
"""The children of this hub that are waited for by whoever started them; nobody else may."""


async def adopt(*, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
    """Be the parent of what children of this hub leave behind, and reap it when it ends, until cancelled.

    Where the kernel knows no such thing, this does nothing for ever.
    """
    if not _become_subreaper():
        task_status.started()
        await trio.sleep_forever()
    with trio.open_signal_receiver(signal.SIGCHLD) as signals:
        task_status.started()
        async for _ in signals:
            with suppress(OSError):  # no descriptor is left to look with; the next child that ends is another chance
                reap_adopted()


def reap_adopted() -> None:
    """Let go of adopted processes that have ended. A child that somebody waits for is not touched."""
    for pid in adoptees():
        with suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)


def kill_adopted() -> int:
    """KILL what was adopted, and what that leaves behind in turn; how many. For a hub that has stopped its children.

    Another daemon, and what belongs to another hub that lives, is spared. Blocks until they have ended.
    """

    def find() -> list[tuple[int, str]]:
        reap_adopted()  # what was killed before
        hubs = _Hubs()
        return [(pid, mark) for pid in adoptees() if not _is_of_another(mark := _mark(pid), hubs)]

    return _kill_all(find)


def adoptees() -> list[int]:
    """The children of this process that it did not start. Those it starts are waited for, or in its own session."""
    here = os.getsid(0)
    children: list[int] = []
    for thread in os.listdir("/proc/self/task"):
        with suppress(OSError):
            children += map(int, Path(f"/proc/self/task/{thread}/children").read_bytes().split())
    found = []
    for pid in children:
        with suppress(OSError):
            if pid not in waited_for and os.getsid(pid) != here:
                found.append(pid)
    return found


def _is_of_another(mark: str, hubs: _Hubs) -> bool:
    return mark == OWN or bool(mark and THIS_HUB not in mark and hubs.dead_one(mark) is None)


def _become_subreaper() -> bool:
    """True if what our children leave behind is now given to us, and can be listed."""
    return os.path.exists(f"/proc/self/task/{os.getpid()}/children") and prctl(PR_SET_CHILD_SUBREAPER, 1)
