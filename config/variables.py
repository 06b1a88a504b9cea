"""`${VAR}`, `${VAR:-default}`, `${env:VAR}`, `${file:path}` in configuration values. `$${` stands for a plain `${`.

An unset variable without a default is an error, never an empty string: a server started with an empty token fails in
ways that are hard to understand. As in a shell, the default is also used for a variable that is set but empty.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from msgspec import Struct

from config.source import read_plain

MAX_FILE_BYTES: Final = 1 << 16
_REFERENCE = re.compile(r"\$\$\{|\$\{(?P<inner>[^{}]*)\}|\$\{")
_VARIABLE = re.compile(r"(?:env:)?(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>.*))?", re.S)
FORMS: Final = "${VAR}, ${VAR:-default}, ${env:VAR} or ${file:path}"


class Unresolved(Exception):
    """A reference that leads nowhere. The text says which, and what to do."""


class Variables(Struct, frozen=True):
    """What references may refer to."""

    environ: Mapping[str, str]
    directory: Path
    """What relative paths in `${file:path}` are relative to: the configuration file's own directory."""

    def expand(self, text: str) -> str:
        """`text` with every reference replaced; what comes in is not looked at again.

        Raises:
            Unresolved: a variable is not set, a file cannot be read, or a reference is malformed.
        """
        if "${" not in text:
            return text
        return _REFERENCE.sub(self._replace, text)

    def _replace(self, match: re.Match[str]) -> str:
        if match[0] == "$${":
            return "${"
        inner = match["inner"]
        if inner is None:
            raise Unresolved("`${` has no `}`; write `$${` for a plain `${`")
        if inner.startswith("file:"):
            return self._file(inner.removeprefix("file:"))
        found = _VARIABLE.fullmatch(inner)
        if found is None:
            raise Unresolved(f"`${{{inner}}}` means nothing here: write {FORMS}")
        value = self.environ.get(found["name"])
        default = found["default"]
        if default is not None:
            return value or default
        if value is None:
            name = found["name"]
            raise Unresolved(
                f"the variable {name} is not set: set it in the environment of hubd, "
                f"or give it a default as in ${{{name}:-default}}"
            )
        return value

    def _file(self, name: str) -> str:
        path = self.directory / Path(name).expanduser()
        try:
            data, _ = read_plain(path, MAX_FILE_BYTES + 1)
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            raise Unresolved(f"cannot read {path} for ${{file:{name}}}: {reason}") from None
        if len(data) > MAX_FILE_BYTES:
            raise Unresolved(f"${{file:{name}}} is larger than {MAX_FILE_BYTES // 1024} KB: {path}")
        try:
            return data.decode().rstrip("\r\n")
        except UnicodeDecodeError:
            raise Unresolved(f"${{file:{name}}} is not UTF-8 text: {path}") from None
