"""Directories in an entry, which lead it to the right hub: those that `hubd connect` looks in when a host starts it.

A host that the desktop started knows nothing of what a shell has set. So whatever leads this shell's hub elsewhere than
to the usual directories has to stand in the entry:

- `HUBD_RUNTIME_DIR`, where the sockets are, also in place of an `XDG_RUNTIME_DIR` that is not the usual one: that means
  more to more programs, and the login sets it for hosts and shells alike;
- `XDG_CONFIG_HOME` and `XDG_STATE_HOME`, since the first host starts the hub, which is to be the same one that this
  shell would start.

These are names of directories. No other variable is carried, whatever the configuration refers to: secrets belong in
`hubd.env`.
"""

import os
from collections.abc import Mapping
from pathlib import Path

from config import directories


def carried(environ: Mapping[str, str], home: Path) -> dict[str, str]:
    """The variables that lead a program which has no others to the same hub as `environ` does."""
    found = {}
    known = dict(environ)
    runtime = directories.runtime_dir(known)
    if runtime not in (directories.runtime_dir({}), f"/run/user/{os.getuid()}/hubd"):
        found["HUBD_RUNTIME_DIR"] = runtime
    for variable, usual in (("XDG_CONFIG_HOME", ".config"), ("XDG_STATE_HOME", ".local/state")):
        value = directories.absolute(variable, known)
        if value not in (None, f"{home}/{usual}"):
            found[variable] = str(value)
    return found
