"""Projects: hosts that work in one see its servers beside the user's own.

Which project a host is at work in is said by the user (`hubd connect --project`), else by the first of its roots, else
by its shim (the working directory; `hub.projects.find_project_of_host`). Of a project nothing counts until the user has
allowed its content (`config.projects`). Its servers run once for all hosts there, beside the common ones and under
names of their own:

    /home/me/shop/.hubd.toml, server db  ->  upstream "db@shop-1f3a5c07", shown as "db__..." at /mcp/@shop-1f3a5c07

A server that the user has under the same name is not shown there. Some time after the last host has left they are
stopped, and at once when the user does not allow them any more. Files that cannot be used, or are not allowed as they
are now, leave a project as it was.

All of that is decided in `_place`, one at a time: hosts, projects and their servers change together, so they are
together here.
"""

import logging
from dataclasses import InitVar, dataclass
from functools import partial
from pathlib import Path
from typing import Final

import trio

from config.projects import Project
from config.settings import UpstreamConfig
from hub.catalog.endpoint_views import EVERYTHING, View, project_view
from hub.catalog.visible_names import rule_of
from hub.control.answers import ProjectRow
from hub.downstream.host_conversations import Host
from hub.link.fault_isolation import keep_going, run_isolated
from hub.link.sync_primitives import DirtyFlag
from hub.projects.find_project_of_host import FolderReadings, Roots, TrustedProjects, is_name
from hub.routing.list_updates import ListUpdates
from hub.routing.live_catalog import LiveCatalog
from hub.routing.subscription_requests import Subscriptions
from hub.running_servers import RunningServers
from hub.wire.jsonrpc import encode_notification
from hub.wire.mcp import LIST_CHANGED, Kind
from upstreams.supervisor import Supervisor

log = logging.getLogger("hubd.projects")

LINGER_S: Final = 60.0
"""Seconds for which the servers of a project outlive its last host, which may only be restarting."""
MAX_PLACES: Final = 256
"""Workplaces of hosts that are read and watched."""


class _RunningProject:
    """A project that hosts are at work in."""

    def __init__(self, project: Project) -> None:
        self.view = project_view(project.root)
        self.project = project
        self.hosts: set[Host] = set()
        self.is_new = True
        """Nobody waits for its servers yet."""
        self.ending = trio.CancelScope()
        """Of the task that waits for its end, if there is one."""

    @property
    def upstreams(self) -> dict[str, UpstreamConfig]:
        """Its own, by the names they run under."""
        return {name + self.view.name: config for name, config in self.project.upstreams.items()}


@dataclass(eq=False, repr=False)
class Projects:
    """All projects with hosts at work in them. Satisfies `hub.downstream.host_conversations.Workplaces`."""

    _servers: RunningServers
    _supervisor: Supervisor
    _live: LiveCatalog
    _lists: ListUpdates
    _subscriptions: Subscriptions
    read: InitVar[TrustedProjects]

    def __post_init__(self, read: TrustedProjects) -> None:
        self.shown: dict[View, _RunningProject] = {}
        self.changed = DirtyFlag()
        """Files of projects, the user's trust or the user's servers may have changed."""
        self._trust = read.trust
        self._readings = FolderReadings(read, self.changed.set)
        self._hosts: set[Host] = set()
        """Hosts with a known workplace."""
        self._roots = Roots(partial(trio.to_thread.run_sync, read.trust.allows_any), self._place)
        self._turn = trio.Lock()
        self._stale = False
        """True if other servers run than `shown` says."""
        self._moved: set[Host] = set()
        """Hosts that are shown another view now, and have not been told."""
        self._nursery: trio.Nursery | None = None

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Follow hosts and files until cancelled."""
        async with trio.open_nursery() as self._nursery:
            self._watch()
            self._nursery.start_soon(keep_going, "Watching files of projects", self._readings.run)
            task_status.started()
            try:
                await keep_going("Following projects", partial(self._follow_changes, self._nursery))
            finally:
                self._nursery = None

    async def _follow_changes(self, nursery: trio.Nursery) -> None:
        while True:
            await self.changed.take()
            await self._place(None)
            await self._roots.ask_unasked(nursery)

    def status(self) -> list[ProjectRow]:
        """For `hubd status`."""
        return [
            ProjectRow(root=str(running.project.root), endpoint=running.view.path, hosts=len(running.hosts))
            for running in self.shown.values()
        ]

    @property
    def warnings(self) -> list[str]:
        """Sentences about problems of projects that hosts work in."""
        warnings = [str(warning) for running in self.shown.values() for warning in running.project.warnings]
        return [*self._readings.problems(host.workplace for host in self._hosts), *warnings]

    @property
    def awaiting_trust(self) -> list[Path]:
        """Projects that hosts work in, and whose files the user has not allowed as they are now."""
        return self._readings.awaiting_trust(host.workplace for host in self._hosts)

    # --- hosts --------------------------------------------------------------------------------------------------------

    async def arrived(self, host: Host, *, is_back: bool = False) -> None:
        """Show a host with a known workplace its project, before it is heard; `is_back`: the project that it worked in
        before the hub restarted. Cancellation: it sees everything."""
        self._roots.note(host, None if is_back else host.workplace)
        await self._place([host])

    def opened(self, host: Host) -> None:
        """The handshake of a host is complete, or its roots changed: ask for its roots, if its workplace is unknown."""
        if self._nursery is not None:
            self._roots.ask(host, self._nursery)

    async def placed(self, host: Host) -> None:
        """Wait until a host that is being asked for its roots is shown what belongs there, or does not answer."""
        await self._roots.answered(host)

    def left(self, host: Host) -> None:
        """A host has left."""
        self._hosts.discard(host)
        self._roots.left(host)
        self._remove_from_project(host)

    # --- projects -----------------------------------------------------------------------------------------------------

    async def _place(self, hosts: list[Host] | None) -> None:
        """Show each of `hosts` the view of its workplace; None: all known hosts.

        Faults are logged only. Cancellation: `run` finishes what was begun."""
        try:
            async with self._turn:
                if hosts is None:
                    await self._place_now(list(self._hosts))
                    await self._end_disallowed()
                else:
                    await self._place_now(self._admit(hosts))
                await self._apply()
        except trio.Cancelled:
            self.changed.set()
            raise
        except Exception:
            log.exception("cannot show hosts what belongs to their projects")

    def _admit(self, hosts: list[Host]) -> list[Host]:
        there = [host for host in hosts if host.endpoint.base == EVERYTHING and self._roots.concerns(host)]
        places = {host.workplace for host in self._hosts} | {None}
        for host in there:
            if host.workplace is not None and not is_name(host.workplace):
                host.move(None)
            if host.workplace not in places and len(places) > MAX_PLACES:
                log.warning("%s: no project is looked for, since hosts work in %d others", host.workplace, MAX_PLACES)
                host.move(None)
            places.add(host.workplace)
        self._hosts.update(there)
        return there

    async def _place_now(self, hosts: list[Host]) -> None:
        places = {host.workplace for host in hosts if host.workplace is not None}
        projects = {running.project.root: running.project for running in self.shown.values()}
        found = await self._readings.read(places, self._servers.config, projects)
        hosts = [host for host in hosts if host in self._hosts]  # some may have left meanwhile
        for host in hosts:
            if host.workplace is None or host.workplace in found:
                each = None if host.workplace is None else found[host.workplace]
                self._show_project(host, None if each is None else each.project)

    async def _end_disallowed(self) -> None:
        if doubtful := await self._find_disallowed():
            # Perhaps it was allowed just now what their files say: then they go on as that.
            await self._place_now([host for running in doubtful for host in running.hosts])
        for running in await self._find_disallowed() if doubtful else ():
            for host in list(running.hosts):
                self._show_project(host, None)
            running.ending.cancel()
            self._drop_project(running)
            log.info("%s: is not allowed any more, so its servers are stopped", running.project.root)

    async def _find_disallowed(self) -> list[_RunningProject]:
        """Shown projects that the user does not allow as they are now."""
        shown = list(self.shown.values())
        return await trio.to_thread.run_sync(
            lambda: [each for each in shown if not self._trust.is_allowed(each.project)]
        )

    async def _apply(self) -> None:
        """Run the servers of `shown` projects, and tell hosts that are shown another view now."""
        if self._stale:
            configs = {name: config for running in self.shown.values() for name, config in running.upstreams.items()}
            await self._servers.run_projects(configs)
            self._stale = False
        for running in self.shown.values():
            if running.is_new and self._nursery is not None:
                running.is_new = False
                wait = partial(self._await_reports, running)
                self._nursery.start_soon(run_isolated, "Waiting for the servers of a project", wait)
        self._watch()
        moved, self._moved = self._moved, set()
        for host in moved & self._hosts:
            host.hosts.host_moves(host)
            self._subscriptions.shown(host.tenant, host.view, set(Kind))
            if host.open:
                for method in LIST_CHANGED:
                    host.tell(method, encode_notification(method, {}))
            host.lists_told()

    def _watch(self) -> None:
        places = {host.workplace for host in self._hosts if host.workplace is not None}
        self._readings.watch([running.project for running in self.shown.values()], places)

    def _show_project(self, host: Host, project: Project | None) -> None:
        """Show a host a project; None: everything."""
        if self._nursery is None:  # the hub stops
            return
        view = EVERYTHING if project is None else project_view(project.root)
        if view != host.view.base:
            self._remove_from_project(host)
            host.show(view)
            self._moved.add(host)
        if project is not None:
            running = self._update(view, project)
            running.ending.cancel()
            running.hosts.add(host)

    def _update(self, view: View, project: Project) -> _RunningProject:
        """Have the project at `view` run as it is read now, from the next `_apply` on."""
        if (running := self.shown.get(view)) is None:
            running = self.shown[view] = _RunningProject(project)
            self._stale = True
            log.info("%s: hosts at work there see %s", project.root, ", ".join(project.upstreams) or "nothing more")
        self._stale |= [*running.project.upstreams.items()] != [*project.upstreams.items()]  # in this order
        self._stale |= running.project.accounts != project.accounts
        running.project = project
        rules = [rule_of(name, config) for name, config in running.upstreams.items()]
        self._live.servers.show_project(view, rules, project.upstreams, project.accounts)
        return running

    async def _await_reports(self, running: _RunningProject) -> None:
        """Answer the lists of a project once its servers have said what they offer, or took too long."""
        try:
            with trio.move_on_after(self._servers.config.startup_grace_s) as grace:
                await self._supervisor.reported(running.upstreams)
            if grace.cancelled_caught:
                self._supervisor.note_late(running.upstreams)
        finally:
            if self.shown.get(running.view) is running:
                self._lists.settle_project(running.view)

    def _remove_from_project(self, host: Host) -> None:
        self._moved.discard(host)
        for running in self.shown.values():
            if host in running.hosts:
                running.hosts.remove(host)
                if not running.hosts and self._nursery is not None:
                    running.ending = trio.CancelScope()
                    end = partial(self._end_after_linger, running, running.ending)
                    self._nursery.start_soon(run_isolated, "Ending a project", end)

    async def _end_after_linger(self, running: _RunningProject, ending: trio.CancelScope) -> None:
        with ending:
            await trio.sleep(LINGER_S)
            async with self._turn:
                self._drop_project(running)
            await self._place([])

    def _drop_project(self, running: _RunningProject) -> None:
        """Run its servers no more, from the next `_apply` on."""
        del self.shown[running.view]
        self._live.servers.drop_project(running.view)
        self._stale = True
