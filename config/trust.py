"""Project files that the user allowed, each with the content it had then: other content counts as never allowed.

One small JSON file, 0600, replaced as a whole. One that cannot be read allows nothing. What was not allowed is compared
by its bytes only, and never parsed here.
"""

import errno
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from config.files import replace_private
from config.loading.one_file import Source
from config.loading.safe_reading import MAX_OWN_BYTES, read_private
from config.projects import Project, load_project, read_folder, read_project
from config.settings import HubConfig

log = logging.getLogger("hubd.config")
FORMAT: Final = 1
LACKING: Final = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)
"""Errors that say nothing about a file: this process, or the machine, lacks something for a moment."""


class _File(msgspec.Struct, frozen=True):
    format: int
    projects: dict[str, str]
    """Root -> `Project.digest` of the allowed content."""


class Trust:
    """The user's decisions. Each question reads the file, so that another process may answer meanwhile.

    Each raises OSError if that cannot be told now, for lack of descriptors or memory.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def allowed(self, root: Path, environ: Mapping[str, str], base: HubConfig) -> tuple[Project, list[Source]] | None:
        """The project of `root` and what its files say, if the user allowed exactly that; None: it is another content,
        and was not parsed.

        Raises:
            ConfigError: it is allowed, and cannot be used.
        """
        folder = read_folder(root)
        if self._read().get(str(root), "").partition(" ")[0] != folder.digest:
            return None
        sources = read_project(root, environ, folder)
        project = load_project(root, environ, base, sources=sources)
        return (project, sources) if self.is_allowed(project) else None

    def is_allowed(self, project: Project) -> bool:
        """True if the user allowed exactly what `project` says now."""
        return self._read().get(str(project.root)) == project.digest

    def roots(self) -> list[Path]:
        """The projects of which the user allowed some content."""
        return [Path(root) for root in self._read()]

    def allows_any(self) -> bool:
        """True if the user allowed anything at all."""
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
            file = msgspec.json.decode(read_private(self._path, MAX_OWN_BYTES).data, type=_File)
        except FileNotFoundError:
            return {}
        except OSError as error:
            if error.errno in LACKING:
                raise
            log.warning("cannot read %s: %s; no project is allowed", self._path, error.strerror)
            return {}
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            log.warning("%s is damaged; no project is allowed", self._path)
            return {}
        return file.projects if file.format == FORMAT else {}

    def _write(self, projects: dict[str, str]) -> None:
        replace_private(self._path, msgspec.json.encode(_File(FORMAT, projects)))
