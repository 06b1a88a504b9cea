"""Hosts at work in a project see its servers beside the user's own (D-4).

Which project a host is at work in is said by its shim (the working directory), or by the first of its roots. Of a
project nothing counts until the user has allowed its content (`config.trust`). Its servers run once for all hosts
there, beside the common ones and under names of their own:

    /home/me/shop/.hubd.toml, server db  ->  upstream "db@shop-1f3a", shown as "db__..." at the endpoint /mcp/@shop-1f3a

A server that the user has under the same name is not shown there. Some time after the last host has left they are
stopped. Files that cannot be used, or are not allowed as they are now, leave a project as it was.
"""

import logging
from collections.abc import Callable, Iterable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Final, Protocol
from urllib.parse import unquote, urlsplit

import trio
from msgspec import structs

from config.names import suggest_id
from config.projects import PROJECT_FILES, Project, find_project, load_project
from config.schema import ConfigError, HubConfig, UpstreamConfig
from config.trust import Trust
from config.watch import Watcher
from hub.catalog import Catalog, Rules, UpstreamRule
from hub.link.exchange import Question
from hub.naming import Claims
from hub.registry import Downstream
from hub.wire.jsonrpc import Result, encode_notification, peek_array, peek_object, peek_str
from hub.wire.mcp import LIST_CHANGED, LIST_ROOTS
from upstreams.place import Flag
from upstreams.supervisor import Supervisor

log = logging.getLogger("hubd.projects")

LINGER_S: Final = 60.0
"""How long the servers of a project outlive its last host: hosts are restarted."""
ROOTS_S: Final = 30.0


HUB_NAME: Final = "hubd"
"""Who asks."""


class Running(Protocol):
    """The hub, as far as projects need it."""

    @property
    def config(self) -> HubConfig:
        """What the user has."""
        ...

    async def apply_projects(self) -> None:
        """Run `Projects.configs` too, and make the catalogue anew."""
        ...

    @property
    def supervisor(self) -> Supervisor: ...


class Reader(Protocol):
    """How the project of a directory is found; `reader` makes one."""

    def __call__(self, directory: Path, base: HubConfig, /) -> Project | None:
        """The project that `directory` is part of. Blocks.

        Raises:
            ConfigError: there is one, but it cannot be used, or is not allowed.
        """
        ...

    def any_allowed(self) -> bool:
        """Whether the user has allowed any project at all."""
        ...


class Allowed:
    """Reads the projects that the user allowed."""

    def __init__(self, trust: Trust, environ: Mapping[str, str], home: Path) -> None:
        self._trust = trust
        self._environ = environ
        self._home = home

    def __call__(self, directory: Path, base: HubConfig) -> Project | None:
        """As `Reader`."""
        root = find_project(directory, self._home)
        if root is None:
            return None
        project = load_project(root, self._environ, base)
        if not self._trust.is_allowed(project):
            names = ", ".join(project.upstreams) or "none"
            text = f"the servers of this project ({names}) are not shown, because you have not allowed what its files"
            raise ConfigError(f"{root}: {text} say now: look at them and allow them with `hubd trust {root}`")
        return project

    def any_allowed(self) -> bool:
        """As `Reader.any_allowed`."""
        return self._trust.allows_any()


class Live:
    """A project that hosts are at work in."""

    def __init__(self, project: Project) -> None:
        self.scope = scope_of(project.root)
        self.project = project
        self.hosts: set[Downstream] = set()
        self.claims = Claims()
        self.is_new = True
        """Nobody has waited for its servers yet."""
        self.ending = trio.CancelScope()
        """Of the task that waits for its end, if there is one."""

    def __repr__(self) -> str:
        return f"<Project {self.scope} [{len(self.hosts)} hosts]>"

    @property
    def upstreams(self) -> dict[str, UpstreamConfig]:
        """Its own, by the names they run under."""
        return {f"{name}{self.scope}": config for name, config in self.project.upstreams.items()}

    def rules(self, common: Rules) -> Rules:
        """How things appear to hosts at work here: the user's servers, but for those it has itself, then its own."""
        own = self.project.upstreams
        stay = [rule for rule in common.upstreams if rule.name not in own]
        mine = [
            UpstreamRule(
                name=f"{name}{self.scope}",
                prefix=name if config.prefix is None else config.prefix,
                aliases=config.aliases,
                apps=config.apps,
            )
            for name, config in own.items()
        ]
        return structs.replace(common, upstreams=(*stay, *mine))


class Projects:
    """All projects with hosts at work in them. Satisfies `hub.registry.Workplaces`."""

    def __init__(self, hub: Running, read: Reader, watched: Path | None = None) -> None:
        """`watched`: the file that says what is allowed."""
        self.live: dict[str, Live] = {}
        self.problems: dict[Path, str] = {}
        """Why the project of a directory is not shown."""
        self.reporting: dict[str | None, trio.Event] = {}
        """By endpoint: until it is known what the servers there offer, or they took too long, lists wait (D-12)."""
        self._hub = hub
        self._read = read
        self._hosts: set[Downstream] = set()
        """Those whose workplace is known."""
        self._allowances = () if watched is None else (watched,)
        self.changed = Flag()
        """Files of projects, what is allowed, or what the user has may be others now."""
        self._watcher = Watcher(self.changed.set)
        self._turn = trio.Lock()
        self._nursery: trio.Nursery | None = None

    def __repr__(self) -> str:
        return f"<Projects {list(self.live.values())}>"

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Follow hosts and files until cancelled."""
        async with trio.open_nursery() as self._nursery:
            self._nursery.start_soon(self._watcher.run)
            task_status.started()
            try:
                while True:
                    await self.changed.take()
                    async with self._turn:
                        await self._settle(list(self._hosts))
            finally:
                self._nursery = None

    @property
    def configs(self) -> dict[str, UpstreamConfig]:
        """What runs for projects, beside what the user has."""
        return {name: config for live in self.live.values() for name, config in live.upstreams.items()}

    def add_views(self, catalog: Catalog, old: Catalog | None, make: Callable[[Live, Catalog | None], Catalog]) -> None:
        """Give a new common catalogue those of the projects, each made by `make` from that and its last one."""
        known = old.projects if old is not None else {}
        for scope, live in self.live.items():
            catalog.projects[scope] = make(live, known.get(scope))

    def status(self) -> list[dict[str, object]]:
        """For `hubd status`."""
        return [
            {"root": str(live.project.root), "endpoint": f"/mcp/{live.scope}", "hosts": len(live.hosts)}
            for live in self.live.values()
        ]

    @property
    def warnings(self) -> list[str]:
        """What is wrong with projects that hosts are at work in."""
        places = {host.workplace for host in self._hosts}
        doubts = [str(remark) for live in self.live.values() for remark in live.project.warnings]
        return [*dict.fromkeys(text for place, text in self.problems.items() if place in places), *doubts]

    # --- hosts --------------------------------------------------------------------------------------------------------

    async def arrived(self, host: Downstream) -> None:
        """As `hub.registry.Workplaces.arrived`."""
        async with self._turn:
            await self._settle([host])

    def opened(self, host: Downstream) -> None:
        """As `hub.registry.Workplaces.opened`: one that has not said where it works is asked for its roots."""
        has_roots = host.caller is not None and "roots" in host.caller.capabilities
        if self._nursery is not None and has_roots and host.scope is None and self._read.any_allowed():
            self._nursery.start_soon(self._ask, host)

    def left(self, host: Downstream) -> None:
        """As `hub.registry.Workplaces.left`."""
        self._hosts.discard(host)
        self._leave(host)

    async def _ask(self, host: Downstream) -> None:
        """A wall: a host that answers nonsense works nowhere in particular."""
        try:
            with trio.move_on_after(ROOTS_S):
                question = Question(LIST_ROOTS, {}, HUB_NAME, host.version)
                reply = await host.ask(question, _beside(host))
                roots = peek_array(peek_object(reply.value).get("roots")) if isinstance(reply, Result) else []
                directory = first_directory(peek_str(peek_object(root).get("uri")) or "" for root in roots)
                if directory is not None and directory != host.workplace:
                    async with self._turn:
                        host.workplace = directory
                        await self._settle([host])
        except Exception:
            log.exception("cannot tell where %r works", host)

    # --- projects -----------------------------------------------------------------------------------------------------

    async def _settle(self, hosts: list[Downstream]) -> None:
        """Have each of `hosts` see what belongs to where it works."""
        hosts = [host for host in hosts if host.scope is None]
        self._hosts.update(hosts)
        found = {place: await self._find(place) for place in {host.workplace for host in hosts} if place is not None}
        before = {host: host.view for host in hosts}
        had = self.configs
        hosts = [host for host in hosts if host in self._hosts]  # some may have left meanwhile
        for host in hosts:
            self._enter(host, found.get(host.workplace) if host.workplace is not None else None)
        if self.configs != had or any(host.view != before[host] for host in hosts):
            await self._hub.apply_projects()
        for live in self.live.values():
            if live.is_new and self._nursery is not None:
                live.is_new = False
                self._nursery.start_soon(self._await_reports, live)
        self._watch()
        for host in hosts:
            if host.open and host.view != before[host]:
                for method in LIST_CHANGED:
                    host.tell(method, encode_notification(method, {}))

    def _watch(self) -> None:
        """Follow the files of projects, and those that would make one of a place where a host works."""
        files = [file for live in self.live.values() for file in live.project.files]
        places = sorted({host.workplace for host in self._hosts if host.workplace is not None})
        files += [place / name for place in places for name in PROJECT_FILES]
        self._watcher.aim(dict.fromkeys((*files, *self._allowances)), ())

    async def _find(self, directory: Path) -> Project | None:
        try:
            project = await trio.to_thread.run_sync(self._read, directory, self._hub.config)
        except ConfigError as error:
            if self.problems.get(directory) != str(error):
                log.warning("%s", error)
            self.problems[directory] = str(error)
            stays = (live.project for live in self.live.values() if directory.is_relative_to(live.project.root))
            return next(stays, None)
        self.problems.pop(directory, None)
        return project

    def _enter(self, host: Downstream, project: Project | None) -> None:
        scope = None if project is None else scope_of(project.root)
        if scope != host.view:
            self._leave(host)
        host.view = scope
        if project is None or scope is None or self._nursery is None:
            return
        live = self.live.get(scope)
        if live is None:
            live = self.live[scope] = Live(project)
            self.reporting[scope] = trio.Event()
            log.info("%s: hosts at work there see %s", project.root, ", ".join(project.upstreams) or "nothing more")
        live.project = project
        live.ending.cancel()
        live.hosts.add(host)

    async def _await_reports(self, live: Live) -> None:
        with trio.move_on_after(self._hub.config.startup_grace_s):
            await self._hub.supervisor.reported(live.upstreams)
        await self._hub.apply_projects()
        self.reporting.pop(live.scope).set()

    def _leave(self, host: Downstream) -> None:
        for live in self.live.values():
            if host in live.hosts:
                live.hosts.remove(host)
                if not live.hosts and self._nursery is not None:
                    live.ending = trio.CancelScope()
                    self._nursery.start_soon(self._end, live)

    async def _end(self, live: Live) -> None:
        with live.ending:
            await trio.sleep(LINGER_S)
            async with self._turn:
                del self.live[live.scope]
                await self._hub.apply_projects()


def _beside(host: Downstream) -> Callable[..., bool]:
    """How a host is sent what belongs to none of its requests."""

    def send(message: bytes, *, vital: bool = False) -> bool:
        host.tell(LIST_ROOTS, message)
        return True

    return send


def scope_of(root: Path) -> str:
    """The name of a project's endpoint, which no upstream can have."""
    return f"@{suggest_id(root.name)}-{sha256(str(root).encode()).hexdigest()[:4]}"


def first_directory(uris: Iterable[str]) -> Path | None:
    """The first of these roots that is a directory of this machine."""
    for uri in uris:
        parts = urlsplit(uri)
        if parts.scheme == "file" and parts.netloc in ("", "localhost") and parts.path.startswith("/"):
            return Path(unquote(parts.path))
    return None
