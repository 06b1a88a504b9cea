"""Diagnostics about files of a configuration: one place, all of a file (`Findings`), and the errors that carry them.

Needs nothing but the standard library: whoever only reports errors must not pay for the structs of `settings`.
"""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

Keys = tuple[str, ...]

MAX_KEY: Final = 256
"""Characters of a key that a diagnostic shows."""


class Diagnostic(NamedTuple):
    """One problem or warning about a place in a file: the fault, and what to write instead."""

    file: Path
    line: int | None
    keys: tuple[str, ...]
    """Keys as the file spells them; none if the whole file is meant."""
    text: str
    unresolved: str = ""
    """The upstream whose reference here leads nowhere; all others can be used without it."""
    remedy: str = ""
    """The end of the text that says what to run; "": the file is to be corrected."""

    def __str__(self) -> str:
        where = str(self.file) if self.line is None else f"{self.file}, line {self.line}"
        keys = dot_keys([key if len(key) <= MAX_KEY else f"{key[:MAX_KEY]}…" for key in self.keys])
        return f"{where}: {keys}: {self.text}" if keys else f"{where}: {self.text}"


def dot_keys(keys: Sequence[str]) -> str:
    """Keys as TOML writes them."""
    return ".".join(key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else quote_toml(key) for key in keys)


def quote_toml(text: str) -> str:
    """Text as TOML writes it, on one line and without what a terminal would obey."""
    quoted = json.dumps(text, ensure_ascii=False)
    return quoted if quoted.isprintable() else "".join(c if c.isprintable() else escape(c) for c in quoted)


def escape(character: str) -> str:
    """A character as TOML and JSON write it by its number."""
    return f"\\u{ord(character):04x}" if ord(character) < 1 << 16 else f"\\U{ord(character):08x}"


class ConfigError(Exception):
    """A configuration that cannot be used. The text names file, line or key, and what to write instead."""

    def __init__(self, text: str, diagnostics: Sequence[Diagnostic] = ()) -> None:
        super().__init__(text)
        self.diagnostics = tuple(diagnostics)
        """All that is wrong, where files are to blame; the text says the first."""
        self.warnings: tuple[Diagnostic, ...] = ()
        """As `Loaded.warnings`."""
        self.files: tuple[Path, ...] = ()
        """As `Loaded.files`: a change of any of these may mend it."""
        self.directories: tuple[Path, ...] = ()
        """As `Loaded.directories`."""

    @classmethod
    def of(cls, diagnostics: Sequence[Diagnostic]) -> "ConfigError":
        """The error about these problems, of which there is at least one."""
        rest = len(diagnostics) - 1
        more = f" ({rest} more {'problem' if rest == 1 else 'problems'}: see `hubd validate`)" if rest else ""
        return cls(f"{diagnostics[0]}{more}", diagnostics)


class EditError(Exception):
    """A file was left as it is. The text says which, why, and what to do."""


def needs_extra(name: str) -> str:
    """The reason, as a clause, why a setting cannot be used without an extra of hubd, and what to do."""
    return f"needs the extra `{name}`: `pipx install --force '.[{name}]'` in the clone of hubd"


class Problem(Exception):
    """A mistake, and the keys that lead to it. `Findings` adds the file, and the line if it is not given."""

    def __init__(
        self, keys: Keys | str, text: str, *, line: int | None = None, unresolved: str = "", remedy: str = ""
    ) -> None:
        """`keys`: as a text they stand with dots."""
        super().__init__(text)
        self.keys = tuple(keys.split(".")) if isinstance(keys, str) else keys
        self.line = line
        self.unresolved, self.remedy = unresolved, remedy
        """As of `Diagnostic`."""

    def below(self, *keys: str) -> "Problem":
        """The same problem, where these keys lead to that place."""
        return Problem((*keys, *self.keys), str(self), line=self.line)


MAX_WARNINGS: Final = 100
"""Warnings about one file."""


class Findings:
    """Problems and warnings about one file, gathered so that all are told and not only the first."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.line: Callable[[Keys], int | None] = lambda keys: None
        """Finds the line of keys."""
        self.problems: list[Diagnostic] = []
        self.warnings: list[Diagnostic] = []

    def wrong(self, keys: Keys, text: str, *, line: int | None = None, unresolved: str = "", remedy: str = "") -> None:
        """Add a problem: the file cannot be used. `unresolved`, `remedy`: as of `Diagnostic`."""
        self.problems.append(Diagnostic(self.path, line or self.line(keys), keys, text, unresolved, remedy))

    def warn(self, keys: Keys, text: str) -> None:
        """Add a warning: it works, and probably not as meant. After `MAX_WARNINGS` only that there are more."""
        if len(self.warnings) < MAX_WARNINGS:
            self.warnings.append(Diagnostic(self.path, self.line(keys), keys, text))
        elif len(self.warnings) == MAX_WARNINGS:
            self.warnings.append(Diagnostic(self.path, None, (), "there are more warnings; correct these first"))

    @contextmanager
    def collect(self) -> Iterator[None]:
        """A `Problem` that is raised within becomes one of the problems."""
        try:
            yield
        except Problem as problem:
            self.wrong(problem.keys, str(problem), line=problem.line, remedy=problem.remedy)
