"""Commands that make the hub a service of systemd or launchd, and undo it."""

import argparse
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hub.cli.base import EX_FAILED, EX_OK, EX_USAGE, add, as_json, client, failed, note, now, own_command
from hub.control_client import HubNotRunning

if TYPE_CHECKING:
    from hub.service import Service


def add_commands(commands: Any) -> None:
    """`service install`, `service uninstall`, `service status`."""
    service = add(commands, "service", lambda options: _help(service), "keep the hub running: systemd, or launchd")
    actions = service.add_subparsers(title="commands", metavar="COMMAND", prog="hubd service")
    install = add(actions, "install", _install, "write the service's files and enable it, from the next login on")
    install.add_argument("--now", action="store_true", help="start it as well; a hub that runs is replaced")
    install.add_argument("--print", action="store_true", dest="show", help="only print the files")
    uninstall = add(actions, "uninstall", _uninstall, "stop the service and remove its files")
    status = add(actions, "status", _status, "whether the service is installed and runs", json=True)
    for each in (install, uninstall, status):
        each.add_argument(
            "--system", action="store_true", help="the hardened service of the whole machine; hosts need HTTP"
        )


def _help(parser: argparse.ArgumentParser) -> int:
    parser.print_help(sys.stderr)
    return EX_USAGE


def _service(options: argparse.Namespace) -> "Service":
    from hub import service

    command = own_command()
    if options.system:
        return service.system_service(command)
    if sys.platform == "darwin":
        return service.launchd_service(command, os.environ)
    return service.user_service(command, os.environ)


# --- install ----------------------------------------------------------------------------------------------------------


def _install(options: argparse.Namespace) -> int:
    from hub.service import ServiceError, out_of_reach, refusal

    try:
        service = _service(options)
        if options.show:
            print(_files(service))
            return EX_OK
        if options.system and (reason := out_of_reach(own_command())):
            return failed(EX_FAILED, f"{reason}; nothing was changed")
        if reason := refusal(service):
            print(_files(service))
            return failed(
                EX_FAILED,
                f"{reason}; nothing was changed. Above is what would be put in place: give it to the service manager "
                "that you have, or start `hubd serve` yourself. `hubd connect` starts the hub without any service",
            )
        return _put_in_place(service, options)
    except ServiceError as error:
        return failed(EX_FAILED, str(error))


def _put_in_place(service: "Service", options: argparse.Namespace) -> int:
    from hub.service import call, write

    changed = write(service, now())
    for path in service.files:
        print(f"{'written  ' if path in changed else 'unchanged'} {path}")
    for arguments in (*service.loaded, *service.enable):
        call(service, arguments)
    manager = " ".join(service.manager)
    print("enabled: the hub starts " + ("with the machine" if options.system else "when you log in"))
    if options.now:
        with _nobody_starts_a_hub(options.system):
            for arguments in service.start:
                call(service, arguments)
        print("started: `hubd service status` shows it")
    else:
        print(
            "not started; now by: "
            + "; ".join(f"{manager} {' '.join(each)}" for each in service.start[1:] or service.start)
        )
    for text in (service.note, _concern(options.system)):
        if text:
            note(text)
    print(f"undone by: hubd service uninstall{' --system' if options.system else ''}")
    return EX_OK


@contextmanager
def _nobody_starts_a_hub(system: bool) -> Iterator[None]:
    """Stop this user's hub, and keep shims from starting another until the service has its socket."""
    if system:
        yield
        return
    import fcntl

    from config.paths import runtime_dir

    with open(runtime_dir() / "start.lock", "wb", opener=lambda path, flags: os.open(path, flags, 0o600)) as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        try:
            with client() as hub:
                hub.stop()
            print("stopped the hub that ran without it")
        except HubNotRunning:
            pass
        yield


def _concern(system: bool) -> str | None:
    """Why the hub might not start as a service, though it does from this shell."""
    from config import places
    from config.errors import ConfigError
    from config.layers import load_all
    from hub.service import PASSED

    directory = "/etc/hubd" if system else places.config_dir()
    path, variables = Path(directory, "hubd.toml"), Path(directory, "hubd.env")
    if system and not path.exists():
        return f"write {path}; without it the service ends with exit code 78"
    known = {
        name: os.environ[name] for name in ("HOME", "USER", "LOGNAME", "SHELL", "PATH", *PASSED) if name in os.environ
    }
    try:
        load_all(path if system else None, known)
    except ConfigError as error:
        return (
            f"with the few variables that a service has, the configuration cannot be used: {error}. "
            f"Variables that it needs belong into {variables}, as NAME=value lines (chmod 600)"
        )
    return None


def _files(service: "Service") -> str:
    return "\n".join(f"# --- {path}\n{text}" for path, text in service.files.items())


# --- uninstall, status ------------------------------------------------------------------------------------------------


def _uninstall(options: argparse.Namespace) -> int:
    from hub.service import ServiceError, call, refusal, remove

    try:
        service = _service(options)
        if not any(path.exists() for path in service.files):
            print("there is nothing to uninstall")
            return EX_OK
        reason = refusal(service)
        for arguments in () if reason else service.disable:
            call(service, arguments)
        for path in remove(service, now()):
            print(f"removed {path}")
        for arguments in () if reason else service.loaded:
            call(service, arguments)
    except ServiceError as error:
        return failed(EX_FAILED, str(error))
    if reason:
        note(f"{reason}; a service that still runs was not stopped")
    print("hosts with `hubd connect` start the hub by themselves again")
    return EX_OK


def _status(options: argparse.Namespace) -> int:
    from hub.service import refusal, states

    service = _service(options)
    reason = refusal(service)
    files = {str(path): _condition(path, text) for path, text in service.files.items()}
    units = {} if reason else states(service)
    active = [unit for unit, state in units.items() if state.get("ActiveState") in ("active", "reloading")]
    if options.json:
        print(as_json({"files": files, "units": units, "manager": reason or "reachable"}))
    else:
        for name, condition in files.items():
            print(f"{name}  {condition}")
        for unit, state in units.items():
            words = [state.get(name, "") for name in ("UnitFileState", "ActiveState", "SubState", "StatusText")]
            print(f"{unit}  {', '.join(word for word in words if word)}")
        if reason:
            note(reason)
    return EX_OK if active else EX_FAILED


def _condition(path: Path, text: str) -> str:
    try:
        found = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return "not installed"
    except (OSError, UnicodeDecodeError) as error:
        return f"cannot be read: {error}"
    return "installed" if found == text else "differs from what `hubd service install` would write"
