"""Variables that servers lack: what one says before it ends at its start, and the advice to its user. Pure."""

import re
from typing import Final

PART: Final = "get only a part of the environment"
"""Servers do, and what they lack may be in the rest."""
_LACKING: Final = re.compile(
    r"\b(?:env(?:ironment)?|variable|KeyError|not (?:set|defined)|unset|undefined|missing|required|must|set|provide)\b",
    re.I,
)
_VARIABLE: Final = re.compile(r"\b(?!ERR_)[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+\b")


def lacking_variable(error: str) -> str:
    """The variable that a server says it lacks in its last words; "": it names none."""
    lines = filter(_LACKING.search, error.splitlines())
    return next((found[0] for found in map(_VARIABLE.search, lines) if found), "")


def hint_at_variable(error: str, name: str) -> str:
    """The advice to the user of a server that exited at its start and names a variable, or nothing at all; "": none."""
    _, ended, said = error.partition("before it could be used")
    variable = lacking_variable(said)
    if not ended or (said and not variable):
        return ""
    gives = f"`env` (`hubd add --env`) or `pass` below [upstreams.{name}] gives it, with `hubd edit`"
    return f"servers {PART}: if {name} lacks {variable or 'a variable'}, {gives}"
