"""The hub as a systemd service: its units, and the calls of systemctl that put them in place and take them away.

A `Service` is plain data, of one user or of the whole machine; `hub.cli.service` shows, installs and removes it. The
units are templates (`systemd/` of the repository, `hub/units` in a wheel) with two blanks: the absolute path of
the command, and the variables of the installing shell that make the service look where the shim looks.
"""

import os
import shutil
import subprocess
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Final

from msgspec import Struct

from config import base_directories
from config.atomic_writes import lock_edits, read_file, remove_file, replace_file
from config.hub_paths import backup_dir, state_dir
from hub.cli.context import CommandFailed

MARK: Final = "hubd service install"
"""A mark in each unit that hubd wrote; a unit without it belongs to somebody else."""
CALL_S: Final = 120.0
PASSED: Final = ("HUBD_RUNTIME_DIR", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME")
"""Variables of the shell that say where files are, and that a service would lack."""
HIDDEN: Final = ("/home/", "/root/", "/tmp/", "/var/tmp/", "/run/user/")
"""Directories that the system unit cannot see (ProtectHome, PrivateTmp)."""

Call = tuple[str, ...]

REACHABLE: Final[Call] = ("show", "--property=Version")
"""Succeeds if there is a manager."""
RELOAD: Final[Call] = ("daemon-reload",)
"""After a unit has been written or removed."""


class ServiceError(CommandFailed):
    """The service manager cannot be reached, or refuses. The text says what to do."""


class Service(Struct, frozen=True):
    """Units, and who runs them."""

    manager: Call
    """`systemctl`, with the arguments that name the manager; all calls go there."""
    files: Mapping[Path, str]
    """In the order in which they start."""

    @property
    def units(self) -> list[str]:
        """Their names."""
        return [path.name for path in self.files]

    @property
    def start(self) -> list[Call]:
        """The calls that start them: a socket starts anew only while its service does not run, and `stop` takes one
        that does not run, too."""
        return [("stop", "hubd.service"), *(("restart", unit) for unit in self.units)]


def user_service(command: str, environ: Mapping[str, str]) -> Service:
    """Units of this user, for `systemctl --user`."""
    directory = Path(base_directories.config_dir()).parent / "systemd" / "user"
    files = {directory / name: _fill(name, command, environ) for name in ("hubd.socket", "hubd.service")}
    return Service(("systemctl", "--user"), files)


def system_service(command: str, directory: Path = Path("/etc/systemd/system")) -> Service:
    """The hardened unit of the whole machine."""
    text = template("hubd-system.service").replace("@HUBD@", _word(command))
    return Service(("systemctl",), {directory / "hubd.service": text})


def out_of_reach(command: str) -> str | None:
    """The reason why the hardened unit could not start this command; None: it could."""
    paths = (command, os.path.realpath(command))
    hidden = next((place for place in HIDDEN for path in paths if path.startswith(place)), None)
    if hidden is None:
        return None
    return (
        f"{command} lies below {hidden}, which a hardened system service does not see: install hubd for everyone, "
        "for instance by `python3 -m venv /opt/hubd && /opt/hubd/bin/pip install .`, and run /opt/hubd/bin/hubd"
    )


# --- files ------------------------------------------------------------------------------------------------------------


def template(name: str) -> str:
    """A file of `systemd/` as it is in this installation."""
    package = Path(__file__).parents[1]
    in_wheel = package / "units" / name
    return (in_wheel if in_wheel.exists() else package.parent / "systemd" / name).read_text(encoding="utf-8")


def _fill(name: str, command: str, environ: Mapping[str, str]) -> str:
    """A unit of this user, with the variables of the shell that a service would lack."""
    from config.hosts.hub_entries import variables_to_carry  # it edits files: commands that only ask the hub do without

    passed = variables_to_carry(environ, Path.home())
    text = template(name).replace("@HUBD@", _word(command))
    if "HUBD_RUNTIME_DIR" in passed:
        text = text.replace("%t/hubd", _specify(passed["HUBD_RUNTIME_DIR"]))
    if "XDG_CONFIG_HOME" in passed:
        text = text.replace("%E/hubd", _specify(base_directories.config_dir()))
    if "PATH" in environ:  # servers are found where this shell finds them
        passed["PATH"] = environ["PATH"]
    lines = "".join(f"Environment={_word(f'{key}={value}')}\n" for key, value in passed.items())
    return text.replace("\n[Service]\n", f"\n[Service]\n{lines}")


def _word(text: str) -> str:
    text = _specify(text)
    if not any(character in text for character in " \t'\"\\;"):
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _specify(text: str) -> str:
    return text.replace("%", "%%")


def write(service: Service, now: datetime) -> list[Path]:
    """Write the units; return those that changed. Earlier ones are kept among the backups. Raises ServiceError: a file
    of that name was not written by hubd; nothing was changed; EditError: a file cannot be written."""
    with lock_edits(state_dir()):
        before = {path: read_file(path) for path in service.files}
        if foreign := [path for path, was in before.items() if was is not None and MARK.encode() not in was]:
            raise ServiceError(f"{foreign[0]} was not written by `{MARK}`: move it away; nothing was changed")
        changed = [path for path, text in service.files.items() if before[path] != text.encode()]
        for path in changed:
            replace_file(path, service.files[path].encode(), was=before[path], now=now, backups=backup_dir())
            path.chmod(0o644)
    return changed


def remove(service: Service, now: datetime) -> list[Path]:
    """Remove the units that hubd wrote; return those that were there. Raises EditError: a file cannot be removed."""
    with lock_edits(state_dir()):
        found = {path: was for path in service.files if (was := read_file(path)) and MARK.encode() in was}
        for path, was in found.items():
            remove_file(path, was=was, now=now, backups=backup_dir())
    return list(found)


# --- the manager ------------------------------------------------------------------------------------------------------


def refusal(service: Service) -> str | None:
    """The reason why this service manager cannot be used here; None: it can."""
    program = service.manager[0]
    if shutil.which(program) is None:
        return f"there is no {program} on this machine"
    done = run_program((*service.manager, *REACHABLE))
    return None if done.returncode == 0 else f"`{' '.join(service.manager)}` does not work here: {_say(done)}"


def call(service: Service, arguments: Call) -> None:
    """Call the manager. Raises ServiceError: the call fails."""
    done = run_program((*service.manager, *arguments))
    if done.returncode != 0:
        raise ServiceError(f"`{' '.join(done.args)}` failed: {_say(done)}")


def states(service: Service) -> dict[str, dict[str, str]]:
    """The state of each unit, by systemd's own names of properties."""
    found = {}
    wanted = "--property=LoadState,ActiveState,SubState,UnitFileState,StatusText"
    for unit in service.units:
        lines = run_program((*service.manager, "show", wanted, unit)).stdout.splitlines()
        found[unit] = dict(line.split("=", 1) for line in lines if "=" in line)
    return found


def run_program(argv: Call) -> subprocess.CompletedProcess[str]:
    """Run a program without input; one that cannot be run, or is too slow, has failed with the reason as its words."""
    try:
        return subprocess.run(
            argv, capture_output=True, text=True, timeout=CALL_S, check=False, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return subprocess.CompletedProcess(argv, 1, "", str(error))


def _say(done: subprocess.CompletedProcess[str]) -> str:
    lines = [line for line in (done.stderr + done.stdout).splitlines() if line.strip()]
    return lines[-1].strip() if lines else f"it ended with code {done.returncode} and said nothing"
