"""Findings about configuration files: a problem, and all problems and warnings of one file."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from config.errors import Diagnostic

Keys = tuple[str, ...]


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
