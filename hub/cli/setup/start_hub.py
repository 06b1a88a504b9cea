"""The hub that serves from now on: started as a service where there is one, else in the background."""

import os
from contextlib import suppress
from functools import partial
from typing import Literal

from msgspec import structs

from config.atomic_writes import read_file
from hub.cli import systemd_units
from hub.cli.background_hub import start_hub
from hub.cli.context import Context, Output, UsageError, ask_hub, client, now, own_command
from hub.cli.setup.hold_back_signals import hold_back
from hub.cli.setup.undo import Undo
from hub.cli.systemd_units import Service, ServiceError
from hub.control.answers import Status
from hub.control.client_errors import ControlFailed, HubNotRunning
from hub.control.methods import RELOAD, STATUS

Way = Literal["running", "service", "background"]


def status() -> Status | None:
    """The status of the hub of this user; None: none runs."""
    with suppress(HubNotRunning):
        return ask_hub(STATUS)
    return None


def way_to_start(options: Context) -> Way:
    """The way in which the hub is started: as a service of systemd where it can be installed, unless that is not
    wanted; `running`: it need not be started."""
    if status() is not None:
        return "running"
    return "background" if service(options) is None else "service"


def service(options: Context) -> Service | None:
    """The service of this user; None: there is no service manager, or it is not wanted."""
    if options.no_service:
        return None
    try:
        found = systemd_units.user_service(own_command(), os.environ)
    except UsageError:
        return None
    return None if systemd_units.refusal(found) else found


def start(way: Way, options: Context, undo: Undo) -> None:
    """Start the hub, or have the one that runs take up its files. Raises UsageError: it refuses the files; ConfigError:
    it cannot use them; HubNotRunning, ControlFailed, NotUnderstood: as `ControlClient`."""
    if way == "running":
        reload()
    elif way == "service":
        _start_service(options, undo)
    else:
        undo.add("the hub", stop)
        start_hub()


def reload() -> None:
    if (problem := ask_hub(RELOAD).problem) is not None:
        raise UsageError(f"the running hub refuses its new configuration: {problem}")


def _start_service(options: Context, undo: Undo) -> None:
    found = service(options)
    assert found is not None
    try:
        _write_units(found, undo)
        for arguments in (systemd_units.RELOAD, ("enable", *found.units), *found.start):
            systemd_units.call(found, arguments)
    except ServiceError as error:
        raise UsageError(str(error)) from None
    start_hub()  # the service's socket is there: this waits until the hub listens


def _write_units(found: Service, undo: Undo) -> None:
    """Write the units. A service that was there before, stopped, is undone to what it was: its files, whether it is
    enabled, and which of its units were active."""
    known = systemd_units.states(found)
    enabled = [unit for unit in found.units if known[unit].get("UnitFileState", "").startswith("enabled")]
    active = [unit for unit in found.units if known[unit].get("ActiveState") == "active"]
    with hold_back():
        if active:
            undo.add("the service that ran", lambda: systemd_units.call(found, ("start", *active)))
        undo.add("the service manager", lambda: systemd_units.call(found, systemd_units.RELOAD))
        for path, text in found.files.items():
            write = partial(_write_unit, structs.replace(found, files={path: text}))
            undo.file(path, write, before=read_file(path), after=text.encode())
        if enabled:
            undo.add("the service", lambda: systemd_units.call(found, ("stop", *reversed(enabled))))
        if new := [unit for unit in reversed(found.units) if unit not in enabled]:
            undo.add("the service", lambda: systemd_units.call(found, ("disable", "--now", *new)))


def _write_unit(unit: Service) -> None:
    systemd_units.write(unit, now())


def stop() -> None:
    """Stop the hub, if one runs."""
    with suppress(HubNotRunning, ControlFailed), client() as hub:
        hub.stop()


def say_start(way: Way, output: Output) -> None:
    """Report how the hub runs."""
    output.set(hub=way)
    if way == "service":
        output.say("The hub runs as a service of systemd; `hubd service status` shows it.")
    elif way == "background":
        output.say("The hub runs in the background; hosts start it again when they need it.")
