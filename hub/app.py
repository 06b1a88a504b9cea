"""One hub, wired but not yet listening: upstreams below, catalogue and router in the middle, attached hosts above.

`Hub` opens no socket and reads no file; `daemon` does that around it, and tests attach hosts and upstreams in memory.
"""

import logging
import time
from collections.abc import Callable
from functools import partial
from math import inf
from typing import Final

import trio

from cache.resource_cache import ResourceCache
from config.diff import pending
from config.saved_state import Memory
from config.schema import HubConfig, UpstreamConfig
from hub.bridge.bridge import Carrier
from hub.bridge.parking.parking import PARK, Parking
from hub.bridge.request_state import States
from hub.bridge.tasks.tasks import Tasks
from hub.catalog.catalog import Catalog, Rules, merge
from hub.catalog.uri_claims import Claims
from hub.catalog.view import home_of
from hub.downstream.hosts import Downstream
from hub.downstream.lines.connection import Downstreams
from hub.link.autosave import autosave
from hub.link.budget import Budget
from hub.link.fault_isolation import keep_going
from hub.link.machine_clock import BootClock
from hub.link.sealing import Sealer
from hub.link.wakeups import DirtyFlag
from hub.projects.projects import Live, Projects, rule_of
from hub.routing.host_exchange import release_progress, remind_hosts
from hub.routing.live_catalog import LiveCatalog, LogLevels
from hub.routing.resource_reads import Reading
from hub.routing.router import Router
from hub.wire.mcp import Kind
from upstreams.inventory.last_known import LastKnown
from upstreams.sessions.connector import SessionFactory
from upstreams.supervisor import Supervisor
from upstreams.transports import open as transports
from upstreams.upstream import Upstream

log = logging.getLogger("hubd")
OPEN_DOOR: Final = "HTTP needs no token (auth = none): every program on this machine may use this hub"


class Hub:
    """All parts of one hub. `run` keeps them going; `router`, `downstreams` and `supervisor` are its faces.

    `run`, the argument, names this run of it, if there are other hubs beside it; `is_elsewhere`
    tells whether a run is another one of these, and is alive.
    """

    def __init__(
        self,
        config: HubConfig,
        memory: Memory,
        sealer: Sealer,
        *,
        open_session: SessionFactory | None = None,
        last_known: LastKnown | None = None,
        projects: Callable[["Hub"], Projects] | None = None,
        run: str = "",
        is_elsewhere: Callable[[str], bool] | None = None,
        boot: BootClock | None = None,
    ) -> None:
        self.config = config
        self.memory = memory
        self.sealer = sealer
        self.rules = rules_of(config)
        self.claims = Claims.load(memory.get("claims", "all"))
        self.budget = Budget(config.global_buffer_bytes)
        self.downstreams = Downstreams(config.park_ttl_s, self.budget)
        self.last_known = last_known or LastKnown(None)
        self.reads = ResourceCache(config.cache)
        self.supervisor = self._make_supervisor(open_session or partial(transports.open_session, budget=self.budget))
        self.settled = False
        self._started_with = config
        """That of the start, which is over once there can be another."""
        self._unsaved = DirtyFlag()
        memory.on_change = self._unsaved.set
        self.levels = LogLevels(self.downstreams.log_levels, self._apply_level)
        self._reminders = trio.CancelScope()
        wall = time.time  # noqa: TID251  # what hosts carry outlives this process
        self.states = States(sealer, wall=wall, run=run, is_elsewhere=is_elsewhere, boot=boot, remembered=(PARK,))
        self.carrier = self._make_carrier()
        catalog = merge((), self.rules, self.claims)
        upstreams, reading = self.supervisor.upstreams, Reading(self.reads)
        self.router = Router(catalog, upstreams, self.levels, self._refresh, self.carrier, reading)
        self.notifier = LiveCatalog(self._merge, self.router, self.downstreams, self.router.subscriptions)
        self.router.lists.catch_up = self.notifier.catch_up
        self.projects = None if projects is None else projects(self)
        if self.projects is not None:
            self.downstreams.workplaces = self.projects
            self.router.reporting = self.projects.reporting
        self.started_at = 0.0

    def _make_supervisor(self, open_session: SessionFactory) -> Supervisor:
        return Supervisor(
            self.memory,
            self._upstream_changed,
            open_session=open_session,
            last_known=self.last_known,
            on_new=self._upstream_new,
            on_elicited=self.downstreams.elicited,
            listener_for=self.reads.listener_for,
            drain_s=self.config.drain_s,
            wall=time.time,  # noqa: TID251  # for people to read
        )

    def _make_carrier(self) -> Carrier:
        config, states = self.config, self.states
        parking = Parking(states, ttl_s=config.park_ttl_s, total_s=config.park_total_s, budget=self.budget)
        tasks = Tasks(states, self.sealer, self.supervisor.upstreams, ttl_s=config.park_ttl_s)
        return Carrier(states, parking, tasks, self.downstreams.visits, on_lost=config.on_lost)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Run upstreams and upkeep until cancelled. Cancellation: upstreams are stopped in order, state is saved."""
        self.started_at = trio.current_time()
        try:
            async with trio.open_nursery() as nursery:
                await nursery.start(self.reads.run)
                await nursery.start(self.supervisor.run, self.config.upstreams)
                await nursery.start(self.carrier.run)
                if self.projects is not None:
                    await nursery.start(self.projects.run)
                nursery.start_soon(keep_going, "Telling hosts of changes", self.notifier.run)
                nursery.start_soon(keep_going, "Keeping log levels", self.levels.run)
                self._settle_if_known()
                nursery.start_soon(keep_going, "Waiting for the first servers", self._settle)
                nursery.start_soon(keep_going, "Releasing progress", release_progress)
                nursery.start_soon(keep_going, "Reminding hosts", self._remind)
                save = partial(autosave, self.memory, self._unsaved, self._remember)
                nursery.start_soon(keep_going, "Saving what is remembered", save)
                nursery.start_soon(keep_going, "Saving what servers offer", self.last_known.run)
                task_status.started()
        finally:
            self._remember()
            self.memory.save()
            self.last_known.save()

    async def _settle(self) -> None:
        """Let the first lists wait for upstreams that start quickly, never for those that do not, nor for those whose
        lists are known from an earlier run (D-12)."""
        with trio.move_on_after(self._started_with.startup_grace_s):
            await self.supervisor.settled.wait()
        self._settle_now()

    def _settle_if_known(self) -> None:
        """Before the first host comes: show what is known from earlier runs."""
        if self.supervisor.settled.is_set():
            self._settle_now()
        else:
            self.notifier.rebuild()

    def _settle_now(self) -> None:
        if not self.settled:
            self.settled = True
            self.notifier.rebuild()
            self.router.settled.set()

    async def _remind(self) -> None:
        while True:
            every_s = self.config.synthetic_progress_s
            with trio.CancelScope() as self._reminders:
                await remind_hosts(every_s or inf)

    def _remember(self) -> None:
        if self.claims.changed:
            self.memory.put("claims", "all", self.claims.dump())

    def _upstream_new(self, upstream: Upstream) -> None:
        upstream.set_log_level(self.levels.current)
        self.reads.register(upstream)

    def _upstream_changed(self, upstream: Upstream) -> None:
        if upstream.offered.listed:
            self.last_known.note(upstream.name, upstream.config, upstream.snapshot)
        self.notifier.changed(upstream.name)

    async def _refresh(self, upstream: str, kind: Kind) -> None:
        """Make the catalogue true to what an upstream lists now, if it says so soon.

        Raises:
            UpstreamUnavailable: it is disabled, or not configured any more.
        """
        await self.supervisor.upstreams[upstream].refresh(kind)
        self.notifier.catch_up()

    def _merge(self, previous: Catalog | None = None) -> Catalog:
        upstreams = self.supervisor.upstreams.values()
        catalog = merge(
            [upstream.snapshot for upstream in upstreams],
            self.rules,
            self.claims,
            sealer=self.sealer,
            settling=any(upstream.settling for upstream in upstreams),
            provisional=not self.settled,
            previous=previous,
        )
        if self.claims.changed:
            self._unsaved.set()
        if self.projects is not None:
            self.projects.add_views(catalog, previous, self._view)
        return catalog

    def _view(self, live: Live, previous: Catalog | None) -> Catalog:
        """What hosts at work in a project see."""
        return merge(
            [upstream.snapshot for upstream in self.supervisor.upstreams.values()],
            live.rules(self.rules),
            live.claims,
            sealer=self.sealer,
            view=live.view,
            settling=live.settling,
            provisional=live.settling,
            previous=previous,
        )

    def _apply_level(self, level: str | None) -> None:
        self.supervisor.set_log_level(level)

    # --- another configuration ----------------------------------------------------------------------------------------

    async def prepare(self, config: HubConfig) -> None:
        """Read what `apply` needs to know."""
        await self.supervisor.prepare(self._with_projects(config))

    def _with_projects(self, config: HubConfig) -> dict[str, UpstreamConfig]:
        """All that runs."""
        return config.upstreams if self.projects is None else config.upstreams | self.projects.configs

    async def apply_projects(self) -> None:
        """As `hub.projects.projects.Running.apply_projects`."""
        await self.prepare(self.config)
        self._run()
        self.notifier.rebuild()

    def _run(self) -> None:
        """Run what the configuration and projects say now; hosts are told of what is gone."""
        before = dict(self.supervisor.upstreams)
        self.supervisor.apply(self._with_projects(self.config), drain_s=self.config.drain_s)
        for name in before.keys() - self.supervisor.upstreams.keys():
            _, home = home_of(name)
            self.reads.forget_upstream(name)
            self.router.removed(name, rule_of(name, before[name].config).sid, home)

    def moved(self, host: Downstream) -> None:
        """As `hub.projects.projects.Running.moved`."""
        self.router.subscriptions.moved(host.tenant, host.view)

    @property
    def pending(self) -> tuple[str, ...]:
        """Settings that are not in effect before the next start."""
        return pending(self._started_with, self.config)

    def apply(self, config: HubConfig) -> None:
        """Make this hub what `config` says, and disturb only what differs. How hosts come in is not its affair."""
        old, self.config = self.config, config
        rules, self.rules = self.rules, rules_of(config)
        self.downstreams.park_ttl_s = config.park_ttl_s
        self.budget.limit = config.global_buffer_bytes
        self.carrier.adjust(config.park_ttl_s, config.park_total_s, on_lost=config.on_lost)
        if config.synthetic_progress_s != old.synthetic_progress_s:
            self._reminders.cancel()
        self.reads.reconfigure(config.cache)
        self._run()
        for name in {rule.name for rule in {*rules.upstreams} ^ {*self.rules.upstreams}}:
            self.notifier.changed(name)
        if self.notifier.dirty or rules != self.rules:
            self.notifier.rebuild()
        if self.projects is not None:
            self.projects.changed.set()


def rules_of(config: HubConfig) -> Rules:
    """The naming rules a configuration makes, upstreams in its order; disabled ones too, to keep their URIs."""
    return Rules(
        upstreams=tuple(rule_of(name, upstream) for name, upstream in config.upstreams.items()),
        budget=config.name_budget,
        page_size=config.page_size,
    )
