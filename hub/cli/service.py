"""`hubd service`: make the hub a service of systemd, and undo it."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from config import base_directories
from config.diagnostics import ConfigError
from config.hub_paths import runtime_dir
from config.loading.assemble import load_all
from config.safe_reading import MAX_OWN_BYTES, read_plain
from hub.cli import systemd_units
from hub.cli.configuration.env_command import record_shell
from hub.cli.context import EX_FAILED, EX_USAGE, CommandFailed, Context, Output, client, now, own_command
from hub.cli.parser import add
from hub.control.client_errors import HubNotRunning
from hub.linux.file_locks import hold_lock

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
    install.add_flag("--now", "start it as well; a hub that runs is replaced")
    install.add_argument("--print", "--dry-run", action="store_true", dest="show", help="only print the files")
    uninstall = add(actions, "uninstall", _uninstall, "stop the service and remove its files", json=_MEMBERS)
    status = add(actions, "status", _status, "whether the service is installed and runs", json=True)
    for each in (install, uninstall, status):
        each.add_flag("--system", "the hardened service of the whole machine; hosts need HTTP")


def _help(options: Context, output: Output) -> None:
    options.parser.print_help(sys.stderr)
    output.exit_with(EX_USAGE)


def _service(options: Context) -> systemd_units.Service:
    if options.system:
        return systemd_units.system_service(own_command())
    return systemd_units.user_service(own_command(), os.environ)


# --- install ----------------------------------------------------------------------------------------------------------


def _install(options: Context, output: Output) -> None:
    service = _service(options)
    if options.show:
        return _show(service, output)
    if options.system and (reason := systemd_units.out_of_reach(own_command())):
        raise CommandFailed(f"{reason}; nothing was changed")
    if reason := systemd_units.refusal(service):
        _show(service, output)
        raise CommandFailed(
            f"{reason}; nothing was changed. What would be put in place is shown: give it to the service manager "
            "that you have, or start `hubd serve` yourself. `hubd connect` starts the hub without any service"
        )
    _place(service, options)


def _place(service: systemd_units.Service, options: Context) -> None:
    output = options.output
    if not options.system:
        record_shell(None, output)
    changed = systemd_units.write(service, now())
    for path in service.files:
        did = "written" if path in changed else "unchanged"
        output.append("files", {"file": str(path), "did": did})
        output.say(f"{did.ljust(9)} {path}")
    for arguments in (systemd_units.RELOAD, ("enable", *service.units)):
        systemd_units.call(service, arguments)
    output.set(enabled=True, started=False)
    output.say("enabled: the hub starts " + ("with the machine" if options.system else "when you log in"))
    if options.now:
        with _nobody_starts_a_hub(options.system, output):
            for arguments in service.start:
                systemd_units.call(service, arguments)
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


@contextmanager
def _nobody_starts_a_hub(system: bool, output: Output) -> Iterator[None]:
    """Stop this user's hub, and keep shims from starting another until the service has its socket."""
    if system:
        yield
        return
    flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    with hold_lock(os.open(runtime_dir() / "start.lock", flags, 0o600)):
        with suppress(HubNotRunning), client() as hub:
            hub.stop()
            output.say("stopped the hub that ran without it")
        yield


def _concern(system: bool) -> str | None:
    """The reason why the hub might not start as a service, though it does from this shell; None: there is none."""
    directory = "/etc/hubd" if system else base_directories.config_dir()
    path, variables = Path(directory, "hubd.toml"), Path(directory, "hubd.env")
    if system and not path.exists():
        return f"write {path}; without it the service ends with exit code 78"
    passed = ("HOME", "USER", "LOGNAME", "SHELL", "PATH", *systemd_units.PASSED)
    known = {name: value for name, value in os.environ.items() if name in passed}
    try:
        load_all(path if system else None, known)
    except ConfigError as error:
        text = f"with the few variables that a service has, the configuration cannot be used: {error}. Variables that"
        return f"{text} it needs belong into {variables}, as NAME=value lines (chmod 600)"
    return None


def _show(service: systemd_units.Service, output: Output) -> None:
    output.set(files=[{"file": str(path), "did": "shown", "text": text} for path, text in service.files.items()])
    output.say("\n".join(f"# --- {path}\n{text}" for path, text in service.files.items()))


# --- uninstall, status ------------------------------------------------------------------------------------------------


def _uninstall(options: Context, output: Output) -> None:
    output.set(files=[])
    service = _service(options)
    if not any(path.exists() for path in service.files):
        return output.say("there is nothing to uninstall")
    reason = systemd_units.refusal(service)
    if not reason:
        systemd_units.call(service, ("disable", "--now", *reversed(service.units)))
    for path in systemd_units.remove(service, now()):
        output.append("files", {"file": str(path), "did": "removed"})
        output.say(f"removed {path}")
    if not reason:
        systemd_units.call(service, systemd_units.RELOAD)
    else:
        output.note(f"{reason}; a service that still runs was not stopped")
    output.say("hosts with `hubd connect` start the hub by themselves again")


def _status(options: Context, output: Output) -> None:
    service = _service(options)
    reason = systemd_units.refusal(service)
    files = {str(path): _condition(path, text) for path, text in service.files.items()}
    units = {} if reason else systemd_units.states(service)
    output.set(files=files, units=units, manager=reason or "reachable")
    for name, condition in files.items():
        output.say(f"{name}  {condition}")
    for unit, state in units.items():
        words = [state.get(name, "") for name in ("UnitFileState", "ActiveState", "SubState", "StatusText")]
        output.say(f"{unit}  {', '.join(word for word in words if word)}")
    if reason:
        output.remark(reason)
    if set(files.values()) == {ABSENT}:
        output.remark(f"`hubd service install{' --system' if options.system else ''}` installs it")
    if not any(state.get("ActiveState") in ("active", "reloading") for state in units.values()):
        output.exit_with(EX_FAILED)


def _condition(path: Path, text: str) -> str:
    try:
        found = read_plain(path, MAX_OWN_BYTES)[0].decode()
    except FileNotFoundError:
        return ABSENT
    except (OSError, UnicodeDecodeError) as error:
        return f"cannot be read: {error}"
    return "installed" if found == text else "differs from what `hubd service install` would write"
