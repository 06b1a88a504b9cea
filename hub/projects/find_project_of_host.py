"""Workplaces of hosts, and the projects there: which directory a host works in (the one that its shim names or, without
one, the first of its roots), which project that is part of, and whether the user trusts its files.

A host is asked for its roots only once the user has allowed any project at all: without projects no host is asked.

Reading is bounded in time, since a file system may hang, above all a remote one: no host waits longer than `PATIENCE_S`
for it, and once it hangs no host waits at all until it answers.
"""

import logging
import os
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from shlex import quote
from typing import Final, NamedTuple
from urllib.parse import unquote, urlsplit

import trio
from msgspec import Struct

from config.diagnostics import ConfigError
from config.file_watcher import Watcher
from config.projects import PROJECT_FILES, Project, Trust, find_project
from config.settings import HubConfig
from hub.catalog.endpoint_views import EVERYTHING
from hub.downstream.host_conversations import Host
from hub.wire.jsonrpc import Result, peek_array, peek_object, peek_str
from hub.wire.mcp import LIST_ROOTS
from hub.wire.questions.askable_questions import Question

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
    is_untrusted: bool = False
    """That is that nobody has allowed what the files say."""


class TrustedProjects:
    """Projects that the user trusts, read from disk."""

    def __init__(self, trust: Trust, environ: Mapping[str, str], home: Path | None = None) -> None:
        """`environ`: what references of projects may name."""
        self.trust = trust
        self.watched = [trust.path]
        """The file that says which projects the user allows."""
        self._environ = environ
        self._home = home or Path(os.path.expanduser("~"))

    def find(self, directory: Path, base: HubConfig, running: Mapping[Path, Project]) -> FoundProject | None:
        """The project that `directory` is part of, on top of `base`; None: there is none. Blocks. `running` are those
        that run, by root: one whose files cannot be used now goes on as long as it is allowed."""
        root = find_project(directory, self._home)
        if root is None:
            return None
        before = running.get(root)
        try:
            goes_on = before if before is not None and self.trust.is_allowed(before) else None
            found = self.trust.load_allowed(root, self._environ, base)
        except OSError as error:
            text = f"{root}: cannot tell what you have allowed of this project: {error.strerror}"
            return FoundProject(root, before, text)
        except ConfigError as error:
            return FoundProject(root, goes_on, "; ".join(str(error).splitlines()))
        if found is not None:  # of what was read, whatever the files say by now
            return FoundProject(root, found[0])
        text = f"{root}: you have not allowed what the files of this project say now, so its servers are"
        kept = "as you allowed them before" if goes_on else "not shown"
        text = f"{text} {kept}: look at it and allow it with `hubd trust {quote(str(root))}`"
        return FoundProject(root, goes_on, text, is_untrusted=True)


def is_name(directory: Path) -> bool:
    """True if this could be the absolute name of a directory."""
    try:
        name = os.fsencode(directory)
    except UnicodeEncodeError:
        return False
    return directory.is_absolute() and b"\0" not in name and len(name) < MAX_NAME_BYTES


class FolderReadings:
    """The last reading of each folder, made in threads. `run` calls `changed` when one may be different by now, as when
    a folder that hung answers again."""

    def __init__(self, reader: TrustedProjects, changed: Callable[[], None]) -> None:
        self._reader = reader
        self._changed = changed
        self._limiter = trio.CapacityLimiter(LOOKS_AT_ONCE)
        self._looking: set[Path] = set()
        """Folders that are being read; between calls of `read`, those that hang."""
        self._found: dict[Path, FoundProject | None] = {}
        self._root_of: dict[Path, Path] = {}
        """The root of the project of a folder, also when that has no files for a while."""
        self._watcher = Watcher(changed)
        self.run = self._watcher.run
        """Watches the files of `watch`, for ever."""

    def problems(self, folders: Iterable[Path | None]) -> list[str]:
        """The problems of `folders`, each sentence once."""
        there = set(folders)
        found = [each for folder, each in self._found.items() if folder in there and each is not None]
        return [*dict.fromkeys(each.problem for each in found if each.problem)]

    def awaiting_trust(self, folders: Iterable[Path | None]) -> list[Path]:
        """The projects of `folders` that the user has not allowed."""
        there = set(folders)
        found = [each for folder, each in self._found.items() if folder in there and each is not None]
        return [*dict.fromkeys(each.root for each in found if each.is_untrusted)]

    async def read(
        self, folders: Iterable[Path], base: HubConfig, running: Mapping[Path, Project]
    ) -> dict[Path, FoundProject | None]:
        """Read the projects of `folders`, and remember the readings; folders that hang are left out. To be called by
        one task at a time."""
        found: dict[Path, FoundProject | None] = {}

        async def look(folder: Path) -> None:
            with trio.move_on_after(PATIENCE_S):
                found[folder] = await self._look(folder, base, running)
                return
            log.warning("cannot tell whether %s is in a project: its file system does not answer", folder)

        async with trio.open_nursery() as nursery:
            for folder in folders:
                if folder not in self._looking:
                    nursery.start_soon(look, folder)
        for folder, each in found.items():
            self._remember(folder, each)
        return found

    async def _look(self, folder: Path, base: HubConfig, running: Mapping[Path, Project]) -> FoundProject | None:
        """Read one folder. Faults are logged only: a folder that cannot be read is in no project."""
        token = trio.lowlevel.current_trio_token()
        is_late = False

        def read() -> FoundProject | None:
            self._looking.add(folder)
            try:
                return self._reader.find(folder, base, running)
            except Exception:
                log.exception("cannot tell whether %r is in a project", str(folder))
                return None
            finally:
                self._looking.discard(folder)
                if is_late:
                    with suppress(trio.RunFinishedError):
                        token.run_sync_soon(self._changed)

        try:
            return await trio.to_thread.run_sync(read, abandon_on_cancel=True, limiter=self._limiter)
        finally:
            is_late = True

    def _remember(self, folder: Path, found: FoundProject | None) -> None:
        if found is not None:
            self._root_of[folder] = found.root
            if found.problem and found.problem not in self.problems(self._found):
                log.warning("%s", found.problem)
        if found != self._found.get(folder):
            self._found[folder] = found
            self._watcher.look_again()  # it may be another than was looked at, and become that again

    def watch(self, projects: Iterable[Project], folders: Iterable[Path]) -> None:
        """Watch the files of `projects`, and files that would make a project of one of `folders`; forget all others."""
        places = set(folders)
        self._found = {folder: found for folder, found in self._found.items() if folder in places}
        self._root_of = {folder: root for folder, root in self._root_of.items() if folder in places}
        there = {*places, *self._root_of.values()} - self._looking
        files = [file for project in projects for file in project.files]
        files += [place / name for place in sorted(there) for name in PROJECT_FILES]
        self._watcher.watch(dict.fromkeys((*files, *self._reader.watched)), ())


ROOTS_ANSWER_S: Final = 30.0
"""Seconds that a host has to name its roots."""
HUB_NAME: Final = "hubd"
"""The asker, as questions name it."""


class _Asking(NamedTuple):
    """A host that is being asked."""

    scope: trio.CancelScope
    over: trio.Event


@dataclass(eq=False, repr=False)
class Roots:
    """Sets `Host.workplace` of hosts that are asked, and calls `_place` then."""

    _any_allowed: Callable[[], Awaitable[bool]]
    """Tells whether the user has allowed any project."""
    _place: Callable[[list[Host]], Awaitable[None]]
    _said: dict[Host, Path | None] = field(default_factory=dict)
    """The directories that shims of hosts named; None: none, or the host was not on a shim."""
    _asking: dict[Host, _Asking] = field(default_factory=dict)
    """Hosts that are being asked."""
    _unasked: set[Host] = field(default_factory=set)
    """Hosts that will be asked once any project is allowed."""

    def concerns(self, host: Host) -> bool:
        """True if a host is here that has said where it works, or is saying so."""
        return host in self._said or host in self._asking

    def note(self, host: Host, said: Path | None) -> None:
        """Note the directory that a host's shim has named; None: it named none, or the host works where it did before
        the hub restarted, until its roots say otherwise."""
        self._said[host] = said

    def left(self, host: Host) -> None:
        """A host has left: ask it nothing more."""
        self._unasked.discard(host)
        self._said.pop(host, None)
        if host in self._asking:
            self._asking.pop(host).scope.cancel()

    def ask(self, host: Host, nursery: trio.Nursery) -> None:
        """Ask a host in `nursery` where it works, unless the user has said so; an earlier question counts no more.

        One that cannot be asked works where its shim said."""
        has_roots = host.caller is not None and "roots" in host.caller.capabilities
        if not (host.open and host.hears and has_roots) or host.endpoint.base != EVERYTHING or host.is_bound:
            return
        if host in self._asking:
            self._asking[host].scope.cancel()
        asking = self._asking[host] = _Asking(trio.CancelScope(), trio.Event())
        nursery.start_soon(self._ask, host, asking)

    async def answered(self, host: Host) -> None:
        """Wait until `host` is not being asked: it has answered and was given its place, or has taken too long."""
        while (asking := self._asking.get(host)) is not None:
            await asking.over.wait()

    async def ask_unasked(self, nursery: trio.Nursery) -> None:
        """Ask the hosts that were not asked, if any project is allowed by now."""
        if self._unasked and await self._any_allowed():
            unasked, self._unasked = self._unasked, set()
            for host in unasked:
                self.ask(host, nursery)

    async def _ask(self, host: Host, asking: _Asking) -> None:
        """Ask one host. Faults are logged only: a host that answers nonsense works where it did."""
        try:
            with asking.scope:
                if not await self._any_allowed():
                    self._unasked.add(host)
                    return
                with trio.move_on_after(ROOTS_ANSWER_S):
                    question = Question(LIST_ROOTS, {}, HUB_NAME, host.version)
                    reply = await host.ask(question, partial(_send_beside, host))
                    if isinstance(reply, Result):
                        roots = peek_array(peek_object(reply.value).get("roots"))
                        uris = [peek_str(peek_object(root).get("uri")) or "" for root in roots]
                        host.move(first_directory(uris) or self._said.get(host))
                await self._place([host])
        except Exception:
            log.exception("cannot tell where %r works", host)
        finally:
            if self._asking.get(host) is asking:
                del self._asking[host]
            asking.over.set()


def _send_beside(host: Host, message: bytes, *, vital: bool = False) -> bool:
    host.tell(LIST_ROOTS, message)
    return True


def first_directory(uris: Iterable[str]) -> Path | None:
    """The first of these roots that is a directory of this machine."""
    for uri in uris:
        try:
            parts = urlsplit(uri)
        except ValueError:  # "file://[" is no URI
            continue
        if parts.scheme == "file" and parts.netloc in ("", "localhost"):
            path = Path(unquote(parts.path))
            if is_name(path):
                return path
    return None
