"""`hubd service`: make the hub a service of systemd, and undo it."""

import fcntl
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from os import EX_OK
from pathlib import Path
from typing import Any, Final

from config import directories
from config.errors import ConfigError
from config.hub_paths import runtime_dir
from config.loading.assemble import load_all
from config.loading.safe_reading import MAX_OWN_BYTES, read_plain
from hub.cli import service_manager
from hub.cli.configuration.env_capture import record_shell
from hub.cli.context import EX_FAILED, EX_USAGE, Context, Output, client, now, own_command
from hub.cli.parser import add
from hub.control.errors import HubNotRunning

_MEMBERS: Final = """\
  files    of each: file, did (written, unchanged, removed, or shown, with its text)
  enabled, started
           whether it is; start: the commands that start it now
  undo     the command that undoes it
  notes    what is worth knowing"""


ABSENT: Final = "not installed"


def add_commands(commands: Any) -> None:
    """`service install`, `service uninstall`, `service status`."""
    service = add(commands, "service", _help)
    actions = service.add_subparsers(title="commands", metavar="COMMAND", prog="hubd service")
    text = "write the service's files and enable it, from the next login on"
    install = add(actions, "install", _install, text, json=_MEMBERS)
    install.add_argument("--now", action="store_true", help="start it as well; a hub that runs is replaced")
    install.add_argument("--print", "--dry-run", action="store_true", dest="show", help="only print the files")
    uninstall = add(actions, "uninstall", _uninstall, "stop the service and remove its files", json=_MEMBERS)
    status = add(actions, "status", _status, "whether the service is installed and runs", json=True)
    for each in (install, uninstall, status):
        text = "the hardened service of the whole machine; hosts need HTTP"
        each.add_argument("--system", action="store_true", help=text)


def _help(options: Context) -> int:
    options.parser.print_help(sys.stderr)
    return EX_USAGE


def _service(options: Context) -> service_manager.Service:
    return (
        service_manager.system_service(own_command())
        if options.system
        else service_manager.user_service(own_command(), os.environ)
    )


# --- install ----------------------------------------------------------------------------------------------------------


def _install(options: Context) -> int:
    output = options.output
    try:
        service = _service(options)
        if options.show:
            _show(service, output)
            return EX_OK
        if options.system and (reason := service_manager.out_of_reach(own_command())):
            return output.fail(EX_FAILED, f"{reason}; nothing was changed")
        if reason := service_manager.refusal(service):
            _show(service, output)
            return output.fail(
                EX_FAILED,
                f"{reason}; nothing was changed. What would be put in place is shown: give it to the service manager "
                "that you have, or start `hubd serve` yourself. `hubd connect` starts the hub without any service",
            )
        return _place(service, options)
    except service_manager.ServiceError as error:
        return output.fail(EX_FAILED, str(error))


def _place(service: service_manager.Service, options: Context) -> int:
    output = options.output
    if not options.system:
        record_shell(None, output)
    changed = service_manager.write(service, now())
    for path in service.files:
        did = "written" if path in changed else "unchanged"
        output.append("files", {"file": str(path), "did": did})
        output.say(f"{did.ljust(9)} {path}")
    for arguments in (service_manager.RELOAD, ("enable", *service.units)):
        service_manager.call(service, arguments)
    output.set(enabled=True, started=False)
    output.say("enabled: the hub starts " + ("with the machine" if options.system else "when you log in"))
    if options.now:
        with _nobody_starts_a_hub(options.system, output):
            for arguments in service.start:
                service_manager.call(service, arguments)
        output.set(started=True)
        output.say("started: `hubd service status` shows it")
    else:
        calls = [" ".join((*service.manager, *each)) for each in service.start[1:]]
        output.set(start=calls)
        output.say(f"not started; now by: {'; '.join(calls)}")
    if concern := _concern(options.system):
        output.note(concern)
    undo = f"hubd service uninstall{' --system' if options.system else ''}"
    output.set(undo=undo)
    output.say(f"undone by: {undo}")
    return EX_OK


@contextmanager
def _nobody_starts_a_hub(system: bool, output: Output) -> Iterator[None]:
    """Stop this user's hub, and keep shims from starting another until the service has its socket."""
    if system:
        yield
        return

    def opener(path: str, flags: int) -> int:
        return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)

    with open(runtime_dir() / "start.lock", "wb", opener=opener) as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        with suppress(HubNotRunning), client() as hub:
            hub.stop()
            output.say("stopped the hub that ran without it")
        yield


def _concern(system: bool) -> str | None:
    """The reason why the hub might not start as a service, though it does from this shell; None: there is none."""
    directory = "/etc/hubd" if system else directories.config_dir()
    path, variables = Path(directory, "hubd.toml"), Path(directory, "hubd.env")
    if system and not path.exists():
        return f"write {path}; without it the service ends with exit code 78"
    passed = ("HOME", "USER", "LOGNAME", "SHELL", "PATH", *service_manager.PASSED)
    known = {name: value for name, value in os.environ.items() if name in passed}
    try:
        load_all(path if system else None, known)
    except ConfigError as error:
        return (
            f"with the few variables that a service has, the configuration cannot be used: {error}. "
            f"Variables that it needs belong into {variables}, as NAME=value lines (chmod 600)"
        )
    return None


def _show(service: service_manager.Service, output: Output) -> None:
    output.set(files=[{"file": str(path), "did": "shown", "text": text} for path, text in service.files.items()])
    output.say("\n".join(f"# --- {path}\n{text}" for path, text in service.files.items()))


# --- uninstall, status ------------------------------------------------------------------------------------------------


def _uninstall(options: Context) -> int:
    output = options.output
    output.set(files=[])
    try:
        service = _service(options)
        if not any(path.exists() for path in service.files):
            output.say("there is nothing to uninstall")
            return EX_OK
        reason = service_manager.refusal(service)
        if not reason:
            service_manager.call(service, ("disable", "--now", *reversed(service.units)))
        for path in service_manager.remove(service, now()):
            output.append("files", {"file": str(path), "did": "removed"})
            output.say(f"removed {path}")
        if not reason:
            service_manager.call(service, service_manager.RELOAD)
    except service_manager.ServiceError as error:
        return output.fail(EX_FAILED, str(error))
    if reason:
        output.note(f"{reason}; a service that still runs was not stopped")
    output.say("hosts with `hubd connect` start the hub by themselves again")
    return EX_OK


def _status(options: Context) -> int:
    output = options.output
    service = _service(options)
    reason = service_manager.refusal(service)
    files = {str(path): _condition(path, text) for path, text in service.files.items()}
    units = {} if reason else service_manager.states(service)
    active = [unit for unit, state in units.items() if state.get("ActiveState") in ("active", "reloading")]
    output.set(files=files, units=units, manager=reason or "reachable")
    for name, condition in files.items():
        output.say(f"{name}  {condition}")
    for unit, state in units.items():
        words = [state.get(name, "") for name in ("UnitFileState", "ActiveState", "SubState", "StatusText")]
        output.say(f"{unit}  {', '.join(word for word in words if word)}")
    if reason and not output.json:
        output.note(reason)
    if set(files.values()) == {ABSENT} and not output.json:
        output.note(f"`hubd service install{' --system' if options.system else ''}` installs it")
    return EX_OK if active else EX_FAILED


def _condition(path: Path, text: str) -> str:
    try:
        found = read_plain(path, MAX_OWN_BYTES)[0].decode()
    except FileNotFoundError:
        return ABSENT
    except (OSError, UnicodeDecodeError) as error:
        return f"cannot be read: {error}"
    return "installed" if found == text else "differs from what `hubd service install` would write"
