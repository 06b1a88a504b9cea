"""Conditions of rules on the arguments of a call, in CEL (the Common Expression Language), by the extra `cel`. Pure.

    args                                  the arguments, of any type
    tool upstream original host principal    texts: exposed name, server, its own name of the tool, who asks
    hints                                 what is believed of the tool, by mark: hints["read-only"]
    trusted                               its server is

    under(path, dir)    the path lies below that directory, as far as its text says
    hostOf(url)         the host of a URL in lower case; "": it has none, or one that could be read in two ways
    sqlVerbs(text)      the verbs of SQL that occur anywhere in a text, in capitals

These see no symbolic links and know no functions with effects, so a condition is no boundary. This is the only module
that uses the extra: types are checked when a condition is compiled, regular expressions take linear time, and an
evaluation stops after 10 000 iterations.
"""

import re
from collections.abc import Mapping
from functools import cache, lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

MAX_CHARS: Final = 4096
"""Characters of a condition."""
NO_EXTRA: Final = "needs the extra `cel`: `pipx install --force '.[cel]'` in the clone of hubd; none is judged without"
_MISSING = re.compile(r'Key not found in map : "(\w+)"')
_WORD = re.compile("[A-Za-z]+")
_VERBS: Final = frozenset(
    _WORD.findall(
        "ALTER ANALYZE ATTACH BEGIN CALL COMMENT COMMIT COPY CREATE DELETE DETACH DO DROP EXEC EXECUTE EXPLAIN EXPORT "
        "GRANT HANDLER IMPORT INSERT LISTEN LOAD LOCK MERGE NOTIFY PRAGMA REFRESH REINDEX RENAME REPLACE RESET REVOKE "
        "ROLLBACK SELECT SET SHOW TRUNCATE UNLOCK UPDATE UPSERT USE VACUUM VALUES WITH"
    )
)


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
        raise BadCondition(NO_EXTRA) from None
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
    """True if an absolute path lies below a directory, or is it, and never leaves it on the way. `~` is the home of
    whoever runs the hub, in the directory only."""
    if directory == "~" or directory.startswith("~/"):
        directory = str(Path.home()) + directory[1:]
    if not path.startswith("/") or not directory.startswith("/") or "\0" in path + directory:
        return False
    wanted = [part for part in directory.split("/") if part not in ("", ".")]
    given = [part for part in path.split("/") if part not in ("", ".")]
    if ".." in wanted or given[: len(wanted)] != wanted:
        return False
    depth = 0
    for part in given[len(wanted) :]:
        depth += -1 if part == ".." else 1
        if depth < 0:
            return False
    return True


def host_of(url: str) -> str:
    """The host of a URL; "": it has none, or programs may disagree about it."""
    if re.search(r"[\x00-\x20\x7f\\]", url):
        return ""
    try:
        parts = urlsplit(url)
        return "" if "@" in parts.netloc else (parts.hostname or "").rstrip(".")
    except ValueError:
        return ""


def sql_verbs(text: str) -> list[str]:
    """The verbs that occur anywhere in a text, also in names, texts and comments of it."""
    return sorted({word.upper() for word in _WORD.findall(text)} & _VERBS)
