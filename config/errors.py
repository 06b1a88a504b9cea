"""Diagnostics about files of a configuration, and the errors that carry them.

Needs nothing but the standard library: whoever only reports errors must not pay for the structs of `settings`.
"""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

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
