"""The hub in the background: its start, as `hubd connect` does it or by its service, a connection to it, and the end of
one that hangs or does not end by itself, with the servers that it leaves (`hubd stop --force`)."""

import os
import select
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from config import base_directories
from config.diagnostics import ConfigError
from config.hub_paths import control_path, runtime_dir
from hub.cli.context import Output, UsageError, own_command
from hub.cli.systemd_units import ServiceError, call, refusal, user_service
from hub.control.client_errors import HubHangs, HubNotRunning
from hub.control.hung_hub import LOCK, PROBE_S, QUIET_S, pid_in_lock, refuse_hung
from hub.control.interruptible_wait import readable
from hub.linux.peer_credentials import peer_pid
from hub.linux.processes import hold, read_stat
from hub.linux.stray_processes import kill_orphans
from hub.shim.start_daemon import DaemonStart, Unavailable, connect, is_alive


def start_hub() -> bool:
    """Start the hub of this user unless one runs; True if it was started. Returns once it listens. Raises
    HubNotRunning, HubHangs, ConfigError: as `connect_or_start`."""
    connection, started = connect_or_start()
    connection.close()
    return started


def connect_or_start() -> tuple[socket.socket, bool]:
    """A connection to the hub's socket for hosts, and whether the hub was started for it. Raises HubNotRunning: it did
    not start, or does not listen in time; HubHangs: it runs, and does not answer; ConfigError: its configuration or its
    directories cannot be used."""
    attempt = DaemonStart(str(runtime_dir()))
    started = False
    try:
        while (connection := attempt.step()) is None:
            started = started or attempt.child is not None
            select.select([] if attempt.child is None else [attempt.child], [], [], attempt.pause_s)
    except Unavailable as error:
        if error.code == os.EX_CONFIG:
            raise ConfigError(str(error)) from None
        raise HubNotRunning(str(error)) from None
    finally:
        attempt.close()
    hub = socket.socket(fileno=connection.detach())
    if not started:
        try:
            refuse_hung(control_path(), QUIET_S + PROBE_S)
        except HubHangs:
            hub.close()
            raise
    return hub, started


def start_service(output: "Output") -> bool:
    """Have the service manager start the hub, unless it runs; False: it runs, or is no service that can be started.

    A manager that cannot be reached, as in a session without systemd, is noted."""
    unit = Path(base_directories.config_dir()).parent / "systemd" / "user" / "hubd.service"
    if is_alive(str(runtime_dir() / "hubd.lock")) or not unit.exists():
        return False

    try:
        service = user_service(own_command(), os.environ)
        if reason := refusal(service):
            output.note(f"the service is installed, but {reason}; the hub is started without it")
            return False
        call(service, ("start", *service.units))
    except (ServiceError, UsageError) as error:
        output.note(f"the service cannot be started: {error}; the hub is started without it")
        return False
    return True


SIGNALS: Final = (
    (signal.SIGTERM, 10.0),  # it stops in order, its servers, too
    (signal.SIGTERM, 5.0),  # it stops at once
    (signal.SIGKILL, 10.0),
)
"""The signals that it gets, and the seconds that it has to end after each."""


def force_stop(control: Path, output: Output) -> None:
    """End the process of the hub with this control socket; report what was done. Raises HubNotRunning: none holds its
    lock; UsageError: it cannot be told which process it is, it may not be ended, or does not end."""
    with _process(control) as (pid, process):
        for number, patience_s in SIGNALS:
            try:
                signal.pidfd_send_signal(process, number)
                signal.pidfd_send_signal(process, signal.SIGCONT)  # one that is stopped hears nothing else but KILL
            except ProcessLookupError:
                break
            except OSError as error:
                raise UsageError(f"process {pid}, the hub, cannot be ended: {error.strerror}") from None
            if readable([process], patience_s):
                break
        else:
            raise UsageError(f"process {pid}, the hub, does not end even by SIGKILL: it waits for the machine")

    is_killed = number == signal.SIGKILL
    left = kill_orphans() if is_killed else 0
    output.set(stopped=True, pid=pid, signal=number.name, left=left)
    how = "it was killed, since it did not end by itself" if is_killed else "it ended in order"
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
