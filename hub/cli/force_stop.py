"""`hubd stop --force`: the end of a hub that hangs, or does not end by itself, and of the servers that it leaves."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from hub.cli.subcommand import Output, UsageError
from hub.control.errors import HubNotRunning
from hub.control.hub_process import LOCK, pid_in_lock
from hub.control.waits import readable
from hub.linux.orphans import kill_orphans
from hub.linux.peer_credentials import peer_pid
from hub.linux.processes import hold, read_stat, signal_process
from hub.shim.start_daemon import connect, is_alive

SIGNALS: Final = (
    (signal.SIGTERM, 10.0),  # it stops in order, its servers, too
    (signal.SIGTERM, 5.0),  # it stops at once
    (signal.SIGKILL, 10.0),
)
"""The signals that it gets, and the seconds that it has to end after each."""


def force_stop(control: Path, output: Output) -> None:
    """End the process of the hub with this control socket; report what was done.

    Raises:
        HubNotRunning: none holds its lock.
        UsageError: it cannot be told which process it is, it may not be ended, or does not end.
    """
    with _process(control) as (pid, process):
        for number, patience_s in SIGNALS:
            try:
                signal_process(process, number)
                signal_process(process, signal.SIGCONT)  # one that is stopped hears nothing else but KILL
            except ProcessLookupError:
                break
            except OSError as error:
                raise UsageError(f"process {pid}, the hub, cannot be ended: {error.strerror}") from None
            if readable([process], patience_s):
                break
        else:
            raise UsageError(f"process {pid}, the hub, does not end even by SIGKILL: it waits for the machine")

    left = kill_orphans() if number == signal.SIGKILL else 0
    output.set(stopped=True, pid=pid, signal=number.name, left=left)
    how = "it was killed, since it did not end by itself" if number == signal.SIGKILL else "it ended in order"
    if left:
        how += f"; {left} {'process' if left == 1 else 'processes'} of its servers that it left were killed, too"
    output.say(f"stopped the hub (process {pid}): {how}")


@contextmanager
def _process(control: Path) -> Iterator[tuple[int, int]]:
    """The pid and a pidfd of the hub: it holds the lock, and if anybody takes connections for it that is itself, or
    the service manager that started it."""

    pid = pid_in_lock(control)
    with hold(pid) as process:
        if process is None or not is_alive(str(control.with_name(LOCK))) or pid_in_lock(control) != pid:
            raise HubNotRunning("no hub is running; `hubd start` starts one")
        with suppress(BlockingIOError):  # as many wait as can: nobody knows who should take them
            if (listener := connect(str(control))) is not None:
                listens = peer_pid(listener)
                listener.close()
                found = read_stat(pid)
                if found is None or listens not in (pid, found.parent):
                    text = f"process {listens} listens on {control}, and the lock beside it names process {pid}"
                    raise UsageError(f"{text}: end the hub from where it was started, a container for instance")
        yield pid, process
