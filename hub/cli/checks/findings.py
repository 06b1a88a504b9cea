"""`Finding`, the result of a check, and the repairs that `hubd doctor --fix` makes."""

import os
import shlex
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal

from msgspec import Struct

from hub.cli.render.words import join_names

MOST_NAMES: Final = 8
"""Names of servers in a sentence; further ones are counted."""


class WriteCommand(Struct, frozen=True):
    """The one safe fix of a command that the hub does not find: its whole path."""

    servers: tuple[str, ...]
    command: str


class RunHubd(Struct, frozen=True):
    """The one safe fix of an entry of ours that does not work, or where nothing is recorded of the environment: another
    command of hubd, which writes that anew."""

    words: tuple[str, ...]
    on_config: bool = False
    """With the main file that is looked at."""


class Restrict(Struct, frozen=True):
    """The one safe fix of a file or directory that others may use: to take that from them."""

    path: str
    mode: int


class KeepVariables(Struct, frozen=True):
    """The fix of variables that only this shell has: to keep them as secrets, if somebody says yes."""


Repair = WriteCommand | RunHubd | Restrict | KeepVariables


class Finding(Struct, frozen=True):
    """One result of a check: one cause, however many servers it concerns.

    `problem`: something does not work; `warning`: it will not always, or costs something."""

    check: str
    level: Literal["problem", "warning", "note"]
    what: str
    why: str
    fix: str
    names: tuple[str, ...] = ()
    """All upstreams that it is about."""
    repair: Repair | None = None
    """The part of the fix that `hubd doctor --fix` does; None: there is no one safe answer."""

    def as_object(self) -> dict[str, Any]:
        """The finding for programs. `server`: the upstream that it is about; "": none, or several."""
        members = {name: getattr(self, name) for name in ("check", "level", "what", "why", "fix")}
        return {**members, "server": self.names[0] if len(self.names) == 1 else "", "names": self.names}


join_few: Final = partial(join_names, most=MOST_NAMES)
"""Names in the line of a finding."""


def readable_by_others(path: Path, mode: int, holds: str) -> Finding:
    """A file with a secret that any user of this machine may read."""
    what = f"others may read {path} (mode {mode:03o}), and it holds {holds}"
    why = f"any program of any user here can use {'it' if holds == 'a secret' else 'them'}"
    fix = f"run `chmod 600 {shlex.quote(str(path))}`"
    return Finding("mode", "warning", what, why, fix, repair=Restrict(str(path), 0o600))


def unreadable(path: object, why: str) -> Finding:
    """A file or directory that hubd needs and cannot use, and what to do if a command run by `sudo` made it."""
    quoted, uid = shlex.quote(str(path)), os.getuid()
    fix = f"if it should be yours, run `sudo chown -R {uid} {quoted}`; `sudo hubd` may have made it. Else move it away"
    return Finding("unreadable", "problem", f"{path} cannot be read", why, fix)
