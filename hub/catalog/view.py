"""Names of the views of the hub: everything has none, one upstream has its own, a project one that no upstream has."""

from hashlib import sha256
from pathlib import Path
from typing import Final

from config.names import suggest_id

_MARK: Final = "@"
"""Begins the names of the views of projects, and of no upstream."""


def scope_of(root: Path) -> str:
    """The name of a project's endpoint."""
    return f"{_MARK}{suggest_id(root.name)}-{sha256(str(root).encode(errors='surrogateescape')).hexdigest()[:8]}"


def is_project(scope: str) -> bool:
    """Whether this is the name of a project's endpoint, not that of an upstream."""
    return scope.startswith(_MARK)


def join_name(own: str, scope: str) -> str:
    """What a server of a project runs as."""
    return own + scope


def split_name(name: str) -> tuple[str, str]:
    """The opposite of `join_name`; a server that is of no project has "" in place of one."""
    own, mark, rest = name.partition(_MARK)
    return own, mark + rest
