"""Which project files the user allowed, each with the content it had then: another content counts as never allowed.

One small JSON file, 0600, replaced as a whole. One that cannot be read allows nothing.
"""

import logging
from pathlib import Path
from typing import Final

import msgspec

from config.files import replace_private
from config.projects import Project

log = logging.getLogger("hubd.config")
FORMAT: Final = 1


class _File(msgspec.Struct, frozen=True):
    format: int
    projects: dict[str, str]
    """Root -> digest of the allowed content."""


class Trust:
    """The user's decisions. Each question reads the file, so that another process may answer meanwhile."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def is_allowed(self, project: Project) -> bool:
        """Whether the user allowed exactly what `project` says now."""
        return self._read().get(str(project.root)) == project.digest

    def allows_any(self) -> bool:
        """Whether the user allowed anything at all."""
        return bool(self._read())

    def allow(self, project: Project) -> None:
        """Allow what `project` says now, in place of what was allowed for its root before.

        Raises:
            OSError: the decision cannot be written.
        """
        self._write(self._read() | {str(project.root): project.digest})

    def deny(self, root: Path) -> bool:
        """Allow nothing of `root` any more; whether anything was.

        Raises:
            OSError: the decision cannot be written.
        """
        allowed = self._read()
        if str(root) not in allowed:
            return False
        self._write({known: digest for known, digest in allowed.items() if known != str(root)})
        return True

    def _read(self) -> dict[str, str]:
        try:
            file = msgspec.json.decode(self._path.read_bytes(), type=_File)
        except FileNotFoundError:
            return {}
        except OSError as error:
            log.warning("cannot read %s: %s; no project is allowed", self._path, error.strerror)
            return {}
        except (msgspec.DecodeError, UnicodeDecodeError):
            log.warning("%s is damaged; no project is allowed", self._path)
            return {}
        return file.projects if file.format == FORMAT else {}

    def _write(self, projects: dict[str, str]) -> None:
        replace_private(self._path, msgspec.json.encode(_File(FORMAT, projects)))
