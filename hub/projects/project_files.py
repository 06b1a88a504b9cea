"""Projects of directories, and whether the user trusts their files.

Reading is bounded in time, since a file system may hang, above all a remote one: no host waits longer than `PATIENCE_S`
for it, and once it hangs no host waits at all until it answers.

Readings of the folders that hosts work in have the project of each, its problem, and the files to watch.
"""

import logging
import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from shlex import quote
from typing import Final, Protocol

import trio
from msgspec import Struct

from config.errors import ConfigError
from config.projects import PROJECT_FILES, Project, Trust, find_project
from config.settings import HubConfig
from config.watching.watcher import Watcher

log = logging.getLogger("hubd.projects")

PATIENCE_S: Final = 5.0
LOOKS_AT_ONCE: Final = 16
"""Threads, hanging ones included."""
MAX_NAME_BYTES: Final = 4096


class FoundProject(Struct, frozen=True):
    """The project of a directory."""

    root: Path
    project: Project | None
    """The project that hosts there see."""
    problem: str = ""
    """The reason why there is no project, or not the one in its files now."""


class ProjectReader(Protocol):
    """Finds the project of a directory. Its methods block."""

    def find(self, directory: Path, base: HubConfig, running: Mapping[Path, Project], /) -> FoundProject | None:
        """The project that `directory` is part of, on top of `base`; None: there is none.

        `running` are those that run, by root: one whose files cannot be used now goes on as long as it is allowed.
        """
        ...

    def allows(self, project: Project, /) -> bool:
        """True if the user still trusts `project`."""
        ...

    def any_allowed(self) -> bool:
        """True if the user has allowed any project at all."""
        ...


class TrustedProjects:
    """Projects that the user trusts, read from disk."""

    def __init__(self, trust: Trust, environ: Mapping[str, str], home: Path) -> None:
        self._trust = trust
        self._environ = environ
        self._home = home

    def find(self, directory: Path, base: HubConfig, running: Mapping[Path, Project]) -> FoundProject | None:
        """The project that `directory` is part of; of one whose files changed, the trusted state goes on."""
        root = find_project(directory, self._home)
        if root is None:
            return None
        before = running.get(root)
        try:
            goes_on = before if before is not None and self.allows(before) else None
            found = self._trust.load_allowed(root, self._environ, base)
        except OSError as error:
            return FoundProject(
                root, before, f"{root}: cannot tell what you have allowed of this project: {error.strerror}"
            )
        except ConfigError as error:
            return FoundProject(root, goes_on, "; ".join(str(error).splitlines()))
        if found is not None:  # of what was read, whatever the files say by now
            return FoundProject(root, found[0])
        text = f"{root}: you have not allowed what the files of this project say now, so its servers are"
        kept = "as you allowed them before" if goes_on else "not shown"
        return FoundProject(
            root, goes_on, f"{text} {kept}: look at it and allow it with `hubd trust {quote(str(root))}`"
        )

    def allows(self, project: Project) -> bool:
        """True if the user still trusts `project`."""
        return self._trust.is_allowed(project)

    def any_allowed(self) -> bool:
        """True if the user has allowed any project at all."""
        return self._trust.allows_any()


class ProjectFinder:
    """Finds projects in threads. `answered` is called when a hung directory responds again."""

    def __init__(self, read: ProjectReader, answered: Callable[[], None]) -> None:
        self._read = read
        self._answered = answered
        self._limiter = trio.CapacityLimiter(LOOKS_AT_ONCE)
        self._looking: set[Path] = set()
        """Directories that are being read; between calls of `find`, those that hang."""

    def __repr__(self) -> str:
        return f"<ProjectFinder, {len(self._looking)} directories hang>"

    def hangs(self, directory: Path) -> bool:
        """True if a directory does not answer."""
        return directory in self._looking

    async def find(
        self, directories: Iterable[Path], base: HubConfig, running: Mapping[Path, Project]
    ) -> dict[Path, FoundProject | None]:
        """The projects of these directories; those that hang are left out. To be called by one task at a time."""
        found: dict[Path, FoundProject | None] = {}

        async def look(directory: Path) -> None:
            with trio.move_on_after(PATIENCE_S):
                found[directory] = await self._look(directory, base, running)
                return
            log.warning("cannot tell whether %s is in a project: its file system does not answer", directory)

        async with trio.open_nursery() as nursery:
            for directory in directories:
                if not self.hangs(directory):
                    nursery.start_soon(look, directory)
        return found

    async def _look(self, directory: Path, base: HubConfig, running: Mapping[Path, Project]) -> FoundProject | None:
        """Read one directory. Faults are logged only: a directory that cannot be read is in no project."""
        token = trio.lowlevel.current_trio_token()
        is_late = False

        def read() -> FoundProject | None:
            self._looking.add(directory)
            try:
                return self._read.find(directory, base, running)
            except Exception:
                log.exception("cannot tell whether %r is in a project", str(directory))
                return None
            finally:
                self._looking.discard(directory)
                if is_late:
                    with suppress(trio.RunFinishedError):
                        token.run_sync_soon(self._answered)

        try:
            return await trio.to_thread.run_sync(read, abandon_on_cancel=True, limiter=self._limiter)
        finally:
            is_late = True

    async def filter_allowed(self, projects: Iterable[Project]) -> list[Project]:
        """The projects that the user still trusts."""

        def read() -> list[Project]:
            return [project for project in projects if self._read.allows(project)]

        return await trio.to_thread.run_sync(read)

    async def any_allowed(self) -> bool:
        """True if the user has allowed any project at all."""
        return await trio.to_thread.run_sync(self._read.any_allowed)


def is_name(directory: Path) -> bool:
    """True if this could be the absolute name of a directory."""
    try:
        name = os.fsencode(directory)
    except UnicodeEncodeError:
        return False
    return directory.is_absolute() and b"\0" not in name and len(name) < MAX_NAME_BYTES


class FolderStatistics(Struct, frozen=True):
    """Numbers of folders that `FolderReadings` knows."""

    read: int = 0
    """Those whose last reading is kept."""
    in_projects: int = 0
    """Those that are part of a project."""
    problems: int = 0
    """Those whose project is not shown, or not as its files are now."""


class FolderReadings:
    """The last reading of each folder. `run` calls `changed` when one may be different by now.

    `allowances`: the file of the projects that the user allows.
    """

    def __init__(self, finder: ProjectFinder, changed: Callable[[], None], allowances: Path | None) -> None:
        self._finder = finder
        self._found: dict[Path, FoundProject | None] = {}
        self._root_of: dict[Path, Path] = {}
        """The root of the project of a folder, also when that has no files for a while."""
        self._problems: dict[Path, str] = {}
        """By folder: why its project is not shown."""
        self._allowances = () if allowances is None else (allowances,)
        self._watcher = Watcher(changed)

    def __repr__(self) -> str:
        return f"<FolderReadings [{len(self._found)} folders, {len(self._problems)} problems]>"

    async def run(self) -> None:
        """Watch the files of `watch`, for ever."""
        await self._watcher.run()

    def statistics(self) -> FolderStatistics:
        """Numbers of the folders that are known."""
        return FolderStatistics(len(self._found), len(self._root_of), len(self._problems))

    def problems(self, folders: Iterable[Path | None]) -> list[str]:
        """The problems of `folders`, each sentence once."""
        there = set(folders)
        return [*dict.fromkeys(text for folder, text in self._problems.items() if folder in there)]

    async def read(
        self, folders: Iterable[Path], base: HubConfig, running: Mapping[Path, Project]
    ) -> dict[Path, FoundProject | None]:
        """Read `folders`, as `ProjectFinder.find`, and remember the readings. To be called by one task at a time."""
        found = await self._finder.find(folders, base, running)
        for folder, each in found.items():
            self._remember(folder, each)
        return found

    def _remember(self, folder: Path, found: FoundProject | None) -> None:
        if found != self._found.get(folder):
            self._found[folder] = found
            self._watcher.look_again()  # it may be another than was looked at, and become that again
        problem = "" if found is None else found.problem
        if problem and problem not in self._problems.values():
            log.warning("%s", problem)
        self._problems.pop(folder, None)
        if problem:
            self._problems[folder] = problem
        if found is not None:
            self._root_of[folder] = found.root

    def watch(self, projects: Iterable[Project], folders: Iterable[Path]) -> None:
        """Watch the files of `projects`, and files that would make a project of one of `folders`; forget all others."""
        places = set(folders)
        self._problems = {folder: text for folder, text in self._problems.items() if folder in places}
        self._found = {folder: found for folder, found in self._found.items() if folder in places}
        self._root_of = {folder: root for folder, root in self._root_of.items() if folder in places}
        there = {*places, *self._root_of.values()} - {place for place in places if self._finder.hangs(place)}
        files = [file for project in projects for file in project.files]
        files += [place / name for place in sorted(there) for name in PROJECT_FILES]
        self._watcher.watch(dict.fromkeys((*files, *self._allowances)), ())
