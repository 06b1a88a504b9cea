"""Start of the hub in the background, and a connection to it: as `hubd connect` does it, or by its service."""

import os
import select
import socket
from pathlib import Path

from config import directories
from config.errors import ConfigError
from config.hub_paths import control_path, runtime_dir
from hub.cli.service_manager import ServiceError, call, refusal, user_service
from hub.cli.subcommand import Output, UsageError, own_command
from hub.control.errors import HubHangs, HubNotRunning
from hub.control.hub_process import PROBE_S, QUIET_S, refuse_hung
from hub.shim.start_daemon import DaemonStart, Unavailable, is_alive


def start_hub() -> bool:
    """Start the hub of this user unless one runs; True if it was started. Returns once it listens.

    Raises:
        HubNotRunning, HubHangs, ConfigError: as `connect_or_start`.
    """
    connection, started = connect_or_start()
    connection.close()
    return started


def connect_or_start() -> tuple[socket.socket, bool]:
    """A connection to the hub's socket for hosts, and whether the hub was started for it.

    Raises:
        HubNotRunning: it did not start, or does not listen in time.
        HubHangs: it runs, and does not answer.
        ConfigError: its configuration or its directories cannot be used.
    """

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

    A manager that cannot be reached, as in a session without systemd, is noted.
    """

    unit = Path(directories.config_dir()).parent / "systemd" / "user" / "hubd.service"
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
