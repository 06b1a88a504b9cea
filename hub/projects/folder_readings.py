"""Readings of the folders that hosts work in: the project found in each, its problem, and the files to watch."""

import logging
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from msgspec import Struct

from config.projects import PROJECT_FILES, Project
from config.settings import HubConfig
from config.watching.watcher import Watcher
from hub.projects.project_files import FoundProject, ProjectFinder

log = logging.getLogger("hubd.projects")


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
