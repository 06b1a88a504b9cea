"""Conditions of rules on the arguments of a call, in CEL (the Common Expression Language), by the extra `cel`. Pure.

    args                                  the arguments, of any type
    tool upstream original host principal    texts: exposed name, server, its own name of the tool, who asks
    hints                                 what is believed of the tool, by mark: hints["read-only"]
    trusted                               its server is

    under(path, dir)    the absolute path lies below that directory, or is it, as far as its text says
    hostOf(url)         the host of a URL, as all programs read it
    sqlVerbs(text)      the verbs of SQL that occur anywhere in a text, and the first words of statements, in capitals

The first two raise where that cannot be told, so nobody gets past a rule by writing what it is about in another way.
These see no symbolic links and know no functions with effects, so a condition is no boundary. This is the only module
that uses the extra: types are checked when a condition is compiled, regular expressions take linear time, and an
evaluation stops after 10 000 iterations.
"""

import re
from collections.abc import Mapping
from functools import cache, lru_cache
from importlib import import_module
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path
from typing import Any, Final

from config.diagnostics import needs_extra

MAX_CHARS: Final = 4096
"""Characters of a condition."""
_MISSING: Final = re.compile(r'Key not found in map : "(\w+)"')
_WORD: Final = re.compile("[A-Z]+")
_VERBS: Final = frozenset(
    _WORD.findall(
        "ALTER ANALYZE ATTACH BACKUP BEGIN BULK CALL CHECKPOINT COMMENT COMMIT COPY CREATE DBCC DEALLOCATE DELETE DENY "
        "DETACH DISABLE DISCARD DO DROP DUMPFILE ENABLE EXEC EXECUTE EXPLAIN EXPORT FLUSH GRANT HANDLER IMPORT INSERT "
        "INSTALL INTO KILL LISTEN LOAD LOCK MERGE NOTIFY OPTIMIZE OUTFILE PRAGMA PREPARE PURGE REASSIGN RECONFIGURE "
        "REFRESH REINDEX RENAME REPLACE RESET RESTORE REVOKE ROLLBACK SELECT SET SHOW SHUTDOWN TRUNCATE UNDROP UNLOAD "
        "UNLOCK UPDATE UPDATETEXT UPSERT USE VACUUM VALUES WAITFOR WITH WRITETEXT"
    )
)
_SQL: Final = re.compile(r"[A-Za-z]+|;|\*/|/\*M?!|--|#|[\r\n]")
"""Words, and what ends a statement or a comment, or begins one."""
_URL: Final = re.compile(
    r"[a-z][a-z0-9+.-]*://(?:\[([0-9a-f:.]+)\]|([a-z0-9_-][a-z0-9._-]*))(?::[0-9]*)?(?:[/?#].*)?", re.A | re.I | re.S
)
"""A URL that all programs read in one way, but for numbers as hosts."""
_NUMBER: Final = re.compile(r"(?:[^.]+\.)*(?:[0-9]+|0x[0-9a-f]*)")
"""A host that is read as an address, whatever stands in front."""


class BadCondition(ValueError):
    """A text that is no condition; the reason is a clause."""


class ConditionFailed(Exception):
    """A condition that holds or does not hold cannot be told from these arguments, of which the text, a clause, has
    nothing."""


class Condition:
    """A condition that was compiled."""

    def __init__(self, text: str, program: Any, bool_type: Any) -> None:
        self.text = text
        self._program, self._bool = program, bool_type

    def holds(self, facts: Mapping[str, object]) -> bool:
        """True if it holds of these variables. Raises ConditionFailed."""
        try:
            found = self._program.eval(data=facts)
            if found.type() == self._bool:  # an error is a value, too, and true as a text is
                return found.value() is True
            said = str(found.value())
        except Exception as error:  # noqa: BLE001 - whatever the library makes of what a model sent
            said = str(error)
        if (missing := _MISSING.search(said)) and (path := re.search(rf"([\w.]+)\.{missing[1]}\b", self.text)):
            raise ConditionFailed(f"{path[1]} has no {missing[1]}; use has({path[0]})")
        raise ConditionFailed("an argument is missing, or not of the type that it expects")


@lru_cache(1_000)
def compile_condition(text: str) -> Condition:
    """The condition in this text. Raises BadCondition, also where the extra is not installed."""
    if len(text) > MAX_CHARS:
        raise BadCondition(f"has {len(text)} characters, and {MAX_CHARS} are the most")
    try:
        cel = import_module("cel_expr_python.cel")
    except ImportError:
        raise BadCondition(f"{needs_extra('cel')}; none is judged without") from None
    try:
        program = _environment(cel).compile(text)
    except Exception as error:  # noqa: BLE001 - whatever the library raises for a mistake
        reason = " ".join(str(error).removeprefix("INVALID_ARGUMENT: ").partition("\n")[0].split())
        raise BadCondition(f"is no condition in CEL: {reason[:300]}") from None
    if program.return_type() not in (cel.Type.BOOL, cel.Type.DYN):
        raise BadCondition(
            f"is no condition: its value is of type {program.return_type()}, and has to be true or false"
        )
    return Condition(text, program, cel.Type.BOOL)


@cache
def _environment(cel: Any) -> Any:
    text, truth = cel.Type.STRING, cel.Type.BOOL
    texts = dict.fromkeys(("tool", "upstream", "original", "host", "principal"), text)
    functions = (
        ("under", under, truth, [text, text]),
        ("hostOf", host_of, text, [text]),
        ("sqlVerbs", sql_verbs, cel.Type.List(text), [text]),
    )
    return cel.NewEnv(
        variables={"args": cel.Type.DYN, **texts, "hints": cel.Type.Map(text, truth), "trusted": truth},
        functions=[
            cel.FunctionDecl(name, [cel.Overload(f"hubd_{name}", gives, takes, False, function)])
            for name, function, gives, takes in functions
        ],
    )


def under(path: str, directory: str) -> bool:
    """True if a path lies below a directory, or is it, however it gets there. `~` is the home of whoever runs the hub,
    in the directory only. Raises ValueError: one is not absolute, or climbs beyond the root."""
    if directory == "~" or directory.startswith("~/"):
        directory = str(Path.home()) + directory[1:]
    wanted, given = _parts_of(directory), _parts_of(path)
    return given[: len(wanted)] == wanted


def _parts_of(path: str) -> list[str]:
    if not path.startswith("/") or "\0" in path:
        raise ValueError("it cannot be told where a path leads that is not absolute")
    parts: list[str] = []
    for part in path.split("/"):
        if part == ".." and not parts:
            raise ValueError("a path climbs beyond the root")
        elif part == "..":
            parts.pop()
        elif part not in ("", "."):
            parts.append(part)
    return parts


def host_of(url: str) -> str:
    """The host of a URL in lower case, addresses in their usual form. Raises ValueError: it has none, or programs may
    disagree about it."""
    if (found := _URL.fullmatch(url)) is None:
        raise ValueError("it cannot be told which host a URL means")
    if found[1]:
        return str(IPv6Address(found[1]))
    host = found[2].lower().rstrip(".")
    return str(IPv4Address(host)) if _NUMBER.fullmatch(host) else host


def sql_verbs(text: str) -> list[str]:
    """The verbs that occur anywhere in a text, also in names, texts and comments of it. Of each statement the first
    word, whatever it is; and that behind a comment, since only a database knows where one ends."""
    found, is_first, in_comment = set[str](), True, False
    for token in _SQL.findall(text):
        if token.isalpha():
            if is_first or token.upper() in _VERBS:
                found.add(token.upper())
            is_first = False
        elif token in ("--", "#"):
            in_comment = True
        else:
            is_first, in_comment = is_first or in_comment or token not in "\r\n", False
    return sorted(found)
