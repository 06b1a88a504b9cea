"""Reloads: read the configuration files again when they change or somebody asks, and apply the difference.

    a file changed | SIGHUP | `hubd reload`  ->  one flag  ->  read all (in a thread)  ->  what differs?  ->  apply

One reload at a time; a request during one leads to another one after it, so the last contents always win. A
configuration that cannot be used changes nothing, is logged once, and is shown in `hubd status` until it is right.
Files that are gone change nothing: they never mean an empty configuration.

An upstream whose references lead nowhere is left out, and the others run: at the start, and where it is new or was off.
It is started as soon as its references can be resolved. Only one that runs keeps its configuration, and all others with
it.
"""

import logging
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import KW_ONLY, dataclass, field
from datetime import UTC, datetime
from math import inf
from pathlib import Path
from typing import Final

import trio

from config.diagnostics import ConfigError, Diagnostic
from config.diff import Difference, difference
from config.environment.hubd_env import CurrentEnvironment
from config.file_watcher import Watcher
from config.loading.assemble import Loaded
from config.loading.checks.rules import places_of_rules
from config.loading.gather import OWN_VARIABLES
from hub.control.answers import ConfigStatus, Reloaded
from hub.link.fault_isolation import keep_going
from hub.link.sync_primitives import DirtyFlag, Promise

log = logging.getLogger("hubd.reload")

RETRY_S: Final = 5.0
"""Interval of retries with a configuration that cannot be used: not all that it needs can be watched."""


def _sentence(found: Difference, *, variables: bool) -> str:
    """A difference as a sentence; `variables`: whether those of the file beside the configuration differ, too."""
    text = f"other variables in {OWN_VARIABLES}, which servers get when they start next"
    return "; ".join([*([str(found)] if found or not variables else []), *([text] if variables else [])])


@dataclass(eq=False, repr=False)
class Reloader:
    """Keeps a hub in step with its files. `run` must be running."""

    loaded: Loaded
    """The configuration that was read last, and is in effect."""
    read: Callable[[], Loaded]
    """Reads everything, as at the start; called in a thread. Raises ConfigError."""
    apply: Callable[[Loaded, Difference], Awaitable[None]]
    """Applies a configuration as a whole; or raises ConfigError, and nothing is changed."""
    _: KW_ONLY
    wall: Callable[[], float]
    """The time of day in seconds."""
    pending: Callable[[], tuple[str, ...]] = tuple
    """The settings that will take effect only at the next start."""
    environment: CurrentEnvironment = field(default_factory=lambda: CurrentEnvironment({}))
    """What servers are started with; what the files make of it counts from then on."""
    around: Callable[[], AbstractContextManager[None]] = nullcontext
    """Entered around every reload that was asked for, or that changes something."""

    def __post_init__(self) -> None:
        self.problem: str | None = None
        self.counts = {"ok": 0, "error": 0}
        """Reloads by outcome; a problem that stays counts once."""
        self._problems: tuple[str, ...] = ()
        """All that `problem` stands for."""
        self._note_place()
        self._wanted = DirtyFlag()
        self._asked = False
        self._last = ""
        """The last difference in this run of the hub, in words."""
        self._waiting: list[Promise[Reloaded]] = []
        self._watcher = Watcher(self._wanted.set)

    def _note_place(self) -> None:
        """Note when the configuration was read, and the directories that it came from."""
        self._loaded_at = self.wall()
        self._there = {path for path in self.loaded.named_directories if path.is_dir()}

    def request(self) -> None:
        """Read the configuration again, soon. Never blocks."""
        self._asked = True
        self._wanted.set()

    async def reload(self) -> Reloaded:
        """Read the configuration again; the outcome. Cancellation: it is read all the same."""
        waiter: Promise[Reloaded] = Promise()
        self._waiting.append(waiter)
        self.request()
        return await waiter.wait()

    async def run(self) -> None:
        """Reload on every change and request, for ever."""
        async with trio.open_nursery() as nursery:
            self._watcher.watch(self.loaded.files, self.loaded.directories)
            nursery.start_soon(keep_going, "Watching configuration files", self._watcher.run)
            while True:
                with trio.move_on_after(RETRY_S if self.problem else inf):
                    await self._wanted.take()
                waiting, self._waiting = self._waiting, []
                outcome = await self._reload()
                for waiter in waiting:
                    waiter.fulfil(outcome)

    def status(self) -> ConfigStatus:
        """For `hubd status`."""
        return ConfigStatus(
            files=tuple(str(path) for path in self.loaded.sources),
            watched=tuple(str(path) for path in (*self.loaded.files, *self.loaded.directories)),
            loaded_at=datetime.fromtimestamp(self._loaded_at, UTC).isoformat(timespec="seconds"),
            problem=self.problem,
            problems=self._problems,
            pending=self.pending(),
            warnings=tuple(map(str, self.loaded.warnings)),
        )

    def reasons_left_out(self) -> dict[str, str]:
        """Upstreams that the files name and the hub leaves out, each with the reason."""
        own = self.loaded.files[0].with_name(OWN_VARIABLES) if self.loaded.files else OWN_VARIABLES
        found: dict[str, list[Diagnostic]] = {}
        for each in self.loaded.unresolved:
            found.setdefault(each.unresolved, []).append(each)
        reasons = {}
        for name, lacking in found.items():
            where = f", in {own} for instance," if lacking[0].text.startswith("the variable") else ""
            text = "; ".join(map(str, lacking))
            reasons[name] = f"{text}. Once it is there{where} the server is started within seconds."
        return reasons

    # --- one reload ---------------------------------------------------------------------------------------------------

    async def _reload(self) -> Reloaded:
        """One reload. Never raises."""
        asked, self._asked = self._asked, False
        with self.around() if asked else nullcontext():
            return await self._try(nullcontext if asked else self.around)

    async def _try(self, around: Callable[[], AbstractContextManager[None]]) -> Reloaded:
        try:
            # A keyring may have the thread wait for a person; the hub can stop all the same
            loaded = await trio.to_thread.run_sync(self._read_all, abandon_on_cancel=True)
            found = difference(self.loaded.config, loaded.config)
            self.environment.replace(loaded.environ)
            if found or places_of_rules(self.loaded.origins) != places_of_rules(loaded.origins):
                with around():
                    await self.apply(loaded, found)
        except ConfigError as error:
            self.environment.replace(self.loaded.environ)
            files = (*self.loaded.files, *getattr(error, "files", ()))
            directories = (*self.loaded.directories, *getattr(error, "directories", ()))
            self._watcher.watch(dict.fromkeys(files), dict.fromkeys(directories))
            return self._fail(str(error), tuple(map(str, error.diagnostics)))
        except Exception as error:
            self.environment.replace(self.loaded.environ)
            log.exception("the configuration could not be applied")
            return self._fail(f"the hub failed to apply it: {type(error).__name__}; its log says more")
        return self._adopt(loaded, found)

    def _read_all(self) -> Loaded:
        loaded = self.read()
        running = {name for name, upstream in self.loaded.config.upstreams.items() if not upstream.disabled}
        if unresolved := [diagnostic for diagnostic in loaded.unresolved if diagnostic.unresolved in running]:
            raise loaded.error(unresolved)
        if gone := self._find_missing(loaded):
            text = f"{gone}: is gone; what it said still holds. Put it back; or, to do without it, run `hubd stop`, and"
            text += " the next host or `hubd start` starts the hub again"
            raise ConfigError(text)
        return loaded

    def _find_missing(self, loaded: Loaded) -> Path | None:
        """A file or directory that is gone, which cannot mean an empty configuration; None: there is none."""
        before = self.loaded
        main = before.files[:1]
        if main and main[0] in before.sources and main[0] not in loaded.sources:
            return main[0]
        if before.sources and not loaded.sources:
            return before.sources[0]
        return next((path for path in self._there if not path.is_dir()), None)

    def _fail(self, problem: str, problems: tuple[str, ...] = ()) -> Reloaded:
        if problem != self.problem:
            self.counts["error"] += 1
            log.error("the configuration has errors, the previous one is still in use: %s", problem)
            self._watcher.look_again()
        self.problem, self._problems = problem, problems or (problem,)
        return Reloaded(summary=str(Difference()), problem=problem, pending=self.pending())

    def _adopt(self, loaded: Loaded, found: Difference) -> Reloaded:
        variables = loaded.environ != self.loaded.environ
        told = _sentence(found, variables=variables)
        if self.problem is not None or found or variables:
            log.info("configuration reloaded: %s", told)
        if self.problem is not None or found:
            self._watcher.look_again()  # a file may have changed between its look and its reading, and change back
        for remark in loaded.remarks:
            if remark not in self.loaded.remarks:
                log.warning("%s", remark)
        self.problem, self._problems = None, ()
        self.counts["ok"] += 1
        self.loaded = loaded
        self._note_place()
        self._watcher.watch(loaded.files, loaded.directories)
        if found or variables:
            self._last = told
        elif self._last:
            told += f"; the last change was applied already: {self._last}"
        return Reloaded(
            changed=bool(found),
            summary=told,
            added=found.added,
            removed=found.removed,
            upstreams={name: change.settings for name, change in found.changed.items()},
            settings=found.settings,
            pending=self.pending(),
            warnings=loaded.remarks,
        )
