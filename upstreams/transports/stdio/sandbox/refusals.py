"""Refusals: what a server says that ran into the walls of its sandbox. Pure."""

import re
from collections.abc import Callable
from typing import Final, Literal, NamedTuple

QUICK_S: Final = 5.0
"""Seconds within which a server that ends may have missed something."""
_REFUSED = re.compile(r"EROFS|EACCES|EPERM|Read-only file system|Permission denied|Operation not permitted", re.I)
_READ_ONLY = re.compile(r"EROFS|Read-only file system", re.I)
_PATH = re.compile(r"""(?:^|[\s'"`=(\[<:])(/[^\s'"`:,;)\]>]+)""")
_QUOTED = re.compile(r"""(['"`])(/[^'"`]+)\1""")


class Refusal(NamedTuple):
    """A path that a server did not get; "": it does not say which."""

    path: str
    wants: Literal["read", "write"] = "read"


def find_refusal(said: str, is_hidden: Callable[[str], bool]) -> Refusal | None:
    """The refusal that its last words tell of; None: nothing of the kind."""
    unnamed = None
    for line in reversed(said.splitlines()):
        paths = [found[2] for found in _QUOTED.finditer(line)] + _PATH.findall(line)
        if _REFUSED.search(line):
            wants: Literal["read", "write"] = "write" if _READ_ONLY.search(line) else "read"
            if paths:
                return Refusal(paths[0], wants)
            unnamed = unnamed or Refusal("", wants)
        for path in paths:
            if is_hidden(path):
                return Refusal(path)
    return unnamed
