"""The variables of a shell that are recorded for servers. Pure, but that directories are looked at.

Recorded are `PATH` and the variables that outlive a login. `PATH` is cleaned of what only this shell has: directories
that mean another place in each program (`.`), or that a package runner made for one run. Those of an active virtual
environment, of a project, and for temporary files go to the end, and only if a server's command is found nowhere else:
a server must not run by the Python of a project that happened to be active, nor by what another user puts there once
the directory is gone. A shell is only recorded unasked if nothing gets lost by that (`why_not_unasked`): hosts, `sudo`
and scripts have less.
"""

import os
import re
from collections.abc import Collection, Iterable, Iterator
from typing import Any, Final

from msgspec import Struct

from config.environment.hubd_env import Environ, line_for
from config.environment.pass_variables_by_patterns import Patterns, passing
from config.hubd_executable import is_executable, passing_place
from config.secret_references import texts_in

_OF_A_LOGIN = re.compile(
    r"HOME|LOGNAME|USER|SHELL|TERM|TMPDIR|DISPLAY|WAYLAND_DISPLAY|XAUTHORITY|SSH_AUTH_SOCK|DBUS_.*|HUBD_.*"
    r"|XDG_(?!\w+_(?:HOME|DIRS)$).*|MISE_SHELL|ASDF_\w+_VERSION|PIPX_SHARED_LIBS"
)
"""Variables that mean this login, or this shell."""
_OF_NPM = re.compile(r"npm_config_.*|NPM_CONFIG_.*")
_MARKS_OF_NPM: Final = ("npm_execpath", "npm_lifecycle_event")
"""npm sets the former for what it runs, with its own settings in them, and these beside them."""
_OF_A_RUN: Final = ("/_npx/", "/dlx-", "/bunx-", "/node-gyp-bin/", "/fnm_multishells/")
_TEMPORARY: Final = ("/tmp/", "/var/tmp/", "/run/", "/dev/", "/proc/")
SYSTEM_PATH = frozenset(f"{root}/{name}" for root in ("", "/usr", "/usr/local") for name in ("bin", "sbin", "games"))
"""Directories that programs have on their PATH which no shell has started."""


class Recording(Struct, frozen=True):
    """The variables that are recorded, and those that are not although servers would get them."""

    values: dict[str, str]
    left_out: dict[str, str]
    """The reasons, by the name of a variable or directory."""


def recording(environ: Environ, patterns: Iterable[Patterns] = ((),), commands: Iterable[str] = ()) -> Recording:
    """The variables of `environ` that are recorded. `patterns`: the `pass` of each server; `commands`: what servers run
    by a bare name."""
    values: dict[str, str] = {}
    left_out: dict[str, str] = {}
    under_npm = any(name in environ for name in _MARKS_OF_NPM)
    for each in dict.fromkeys(patterns):
        found = passing(environ, each)
        values |= found.passed
        for name, reason in found.withheld.items():
            if reason == "secret":
                left_out[name] = "it looks like a secret; name it in full in `pass` if servers should have it"
    kept = {}
    for name, value in values.items():
        if _OF_A_LOGIN.fullmatch(name) or (under_npm and _OF_NPM.fullmatch(name)):
            continue
        if name == "PATH":
            value = ":".join(_lasting(value, environ, tuple(commands), left_out))
        if not value:
            continue
        if line_for(name, value) is None:
            left_out[name] = "its value cannot be written on one line that both hubd and systemd read alike"
        else:
            kept[name] = value
    names = (name for name in left_out if name not in kept and not _OF_A_LOGIN.fullmatch(name))
    return Recording(kept, {name: left_out[name] for name in names})


def _lasting(path: str, environ: Environ, commands: tuple[str, ...], left_out: dict[str, str]) -> list[str]:
    """The directories of a PATH that last. Those that are left out are added to `left_out`, each with the reason."""
    lasting: dict[str, None] = {}
    others: list[str] = []
    active = set(_of_projects(environ))
    for directory in path.split(":"):
        if not os.path.isabs(directory):
            if directory:
                left_out[directory] = "it is relative, and means another directory in each program"
            continue
        directory = directory.rstrip("/") or "/"
        real = os.path.realpath(directory)
        if _is_of_a_run(directory) and not _is_of_a_run(real) and os.path.isdir(real):
            directory = real  # fnm: the link of a shell leads to a version that stays
        if _is_of_a_run(directory):
            left_out[directory] = "it was made for one run"
        elif directory in active or f"{directory}/".startswith(_TEMPORARY) or directory.endswith("/node_modules/.bin"):
            others.append(directory)
        else:
            lasting[directory] = None
    for directory in others:
        if any(_has(directory, name) and not any(_has(each, name) for each in lasting) for name in commands):
            lasting[directory] = None
        elif directory not in lasting:
            left_out[directory] = "it is temporary or belongs to a project, and no server needs it"
    return list(lasting)


def _is_of_a_run(directory: str) -> bool:
    return any(part in f"{directory}/" for part in _OF_A_RUN) or passing_place(directory) is not None


def _of_projects(environ: Environ) -> Iterator[str]:
    """The directories of programs of active virtual environments."""
    if root := environ.get("VIRTUAL_ENV", "").rstrip("/"):
        yield f"{root}/bin"
    if (root := environ.get("CONDA_PREFIX", "").rstrip("/")) and environ.get("CONDA_DEFAULT_ENV") != "base":
        yield f"{root}/bin"


def _has(directory: str, command: str) -> bool:
    return is_executable(f"{directory}/{command}")


# --- of this shell only -----------------------------------------------------------------------------------------------


_USE = re.compile(r"\$\$\{|\$\{(?:env:)?(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-[^{}]*)?\}")


def only_in_shell(settings: Any, environ: Environ, kept: Collection[str]) -> list[str]:
    """The variables that the settings of a server refer to, and that a hub lacks which a host or a service starts:
    neither are they `kept`, in `hubd.env` or as secrets, nor recorded, nor part of each login."""
    used = dict.fromkeys(found["name"] for text in texts_in(settings) for found in _USE.finditer(text) if found["name"])
    here = [name for name in used if environ.get(name) and name not in kept and not _OF_A_LOGIN.fullmatch(name)]
    recorded = recording(environ).values if here else {}
    return [name for name in here if name not in recorded]


# --- unasked ----------------------------------------------------------------------------------------------------------


def why_not_unasked(environ: Environ, recorded: Environ | None, new: Environ, *, attended: bool) -> str | None:
    """The reason why a shell is not recorded unless somebody asks for it; "": there is none that is worth a word; None:
    it is recorded.

    `recorded`: what is recorded now, None: nothing yet; `attended`: a person is at the terminal.
    """
    if bound := _find_wrapper(environ):
        return f"this is a shell of {bound}"
    path = new.get("PATH", "").split(":")
    if recorded is None:
        return None if attended or not SYSTEM_PATH.issuperset(path) else ""
    if dict(recorded) == dict(new):
        return ""
    gone = [each for each in recorded.get("PATH", "").split(":") if each not in path and os.path.isdir(each)]
    lacks = [*gone, *(name for name in recorded if name not in new)]
    more = [each for each in path if each not in recorded.get("PATH", "").split(":")]
    more += [name for name in new if name not in recorded]
    if lacks:
        return f"this shell lacks {', '.join(lacks)}" if attended or more else ""
    changed = [name for name in recorded if name != "PATH" and new[name] != recorded[name]]
    return f"nobody is at the terminal, and {', '.join(changed)} would change" if changed and not attended else None


def _find_wrapper(environ: Environ) -> str:
    """The program that made this shell another one than the user's; "": none."""
    if "SUDO_USER" in environ:
        return "sudo"
    if "DIRENV_DIR" in environ:
        return f"direnv, for {environ['DIRENV_DIR'].lstrip('-')}"
    return "nix" if "IN_NIX_SHELL" in environ else ""
