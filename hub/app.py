"""One hub, wired but not yet listening: upstreams below, catalogue and router in the middle, attached hosts above.

`Hub` opens no socket and reads no file; `daemon` does that around it, and tests attach hosts and upstreams in memory.
"""

import logging
import os
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import trio

from cache.resource_cache import ResourceCache
from config.diagnostics import Keys
from config.diff import difference, pending
from config.loading.precedence import Origin
from config.remembered_facts import Memory
from config.security_settings import HookConfig
from config.setting_declarations import secrets_of
from config.settings import HubConfig, UpstreamConfig
from hub.bridge.era_bridge import EraBridge
from hub.bridge.parking.parking import PARK, ParkedCalls
from hub.bridge.sealed_request_state import ASK, RequestStates
from hub.bridge.tasks.task_bridge import Tasks
from hub.bridge.url_elicitation import FindGuide
from hub.calls.host_exchange import ProgressUpkeep
from hub.catalog.endpoint_views import home_of
from hub.catalog.upstream_entries import UpstreamEntries
from hub.catalog.uri_claims import UriClaims
from hub.catalog.visible_names import rules_of
from hub.decide_search_mode import SearchDecisions, load_modes
from hub.downstream.host_conversations import Hosts
from hub.host_views import HostViews
from hub.link.autosave import autosave
from hub.link.call_interface import Tenant
from hub.link.fault_isolation import keep_going
from hub.link.memory_budget import Budget
from hub.link.sealing import Sealer
from hub.linux.boot_clock import NO_BOOT_CLOCK, BootClock
from hub.projects.find_project_of_host import TrustedProjects
from hub.projects.hosts_in_projects import Projects
from hub.routing.list_updates import ListUpdates
from hub.routing.live_catalog import LiveCatalog
from hub.routing.log_levels import LogLevels
from hub.routing.router import Router
from hub.routing.subscription_requests import Subscriptions
from hub.routing.tool_usage import ToolUsage
from hub.routing.view_catalogs import ShownServers
from hub.rules.audit.writer import Audit
from hub.rules.pins.pins import Pins
from hub.rules.pins.store import PinFolder
from hub.rules.policy.judge import Judge
from hub.running_servers import RunningServers
from hub.telemetry.tracing import Tracing
from hub.telemetry.upstream_counts import UpstreamCounts
from hub.wire.mcp import HUBD_VERSION
from upstreams.inventory.last_known_lists import LastKnown
from upstreams.read_secret_references import read_references
from upstreams.redact import CommonSecrets
from upstreams.session_contract import NO_CREDENTIALS, CredentialSource
from upstreams.sessions.session_opener import RunSession
from upstreams.supervisor import Supervisor, Upstreams
from upstreams.transports import choose_transport as transports
from upstreams.transports.stdio.process import is_found

if TYPE_CHECKING:
    from cache.redis.store import RedisStore
    from hub.rules.approvals.approvals import Approvals
    from hub.rules.approvals.stage import Ask
    from hub.rules.hooks.stage import HookCalls
    from upstreams.transports.stdio.sandbox.enclose import Sandboxes

log = logging.getLogger("hubd")
WALL: Final = time.time  # noqa: TID251  # what hosts carry and people read outlives this process
OPEN_DOOR: Final = "HTTP needs no token (auth = none): every program on this machine may use this hub"


class Hub:
    """All parts of one hub. `run` keeps them going; `router`, `hosts` and `supervisor` are its faces.

    `reader` finds the projects that hosts work in, None: there are none. `run`, the argument, names this run of it, if
    there are other hubs beside it; `is_elsewhere` tells whether a run is that of another one, and alive. `credentials`
    are those of sign-ins at upstreams. `environ` are the variables of which servers get their part, and programs that
    print a value all. `used` is where calls of tools are counted; None: in this run only. `secrets` are kept up to date
    with what any upstream may be sent. `left_out`: upstreams beside those of `config` that cannot be started yet.
    `origins`: where settings stand. `grants` is the file of approvals that last, `pins` the directory of what was
    approved of servers; None: in this run only. `sandboxes` are those of processes. `audit` writes down what is called
    and decided, and whoever made it closes it; None: nothing is."""

    def __init__(
        self,
        config: HubConfig,
        memory: Memory,
        sealer: Sealer,
        *,
        run_session: RunSession | None = None,
        last_known: LastKnown | None = None,
        reader: TrustedProjects | None = None,
        run: str = "",
        is_elsewhere: Callable[[str], bool] = lambda run: False,
        boot: BootClock = NO_BOOT_CLOCK,
        shared: "RedisStore | None" = None,
        credentials: CredentialSource = NO_CREDENTIALS,
        environ: Mapping[str, str] = os.environ,
        used: Memory | None = None,
        secrets: CommonSecrets | None = None,
        left_out: Mapping[str, UpstreamConfig] = {},
        origins: Mapping[Keys, Origin] = {},
        grants: Path | None = None,
        pins: Path | None = None,
        sandboxes: "Sandboxes | None" = None,
        audit: Audit | None = None,
    ) -> None:
        self.memory = memory
        self.audit = audit or Audit(config.audit)
        self.secrets = secrets or CommonSecrets()
        self.secrets.replace(_secrets_of(config))
        self.sealer = sealer
        self.budget = Budget(config.global_buffer_bytes)
        self.hosts = Hosts(config.park_ttl_s, self.budget)
        self.last_known = last_known or LastKnown(None)
        self.usage = ToolUsage(used or Memory(None), WALL, keep=config.usage.keep)
        self.reads = ResourceCache(config.cache, shared)
        self._started_with = config
        """The configuration at start-up; compared with the current one to list settings that need a restart."""
        upstreams = Upstreams()
        claims = UriClaims.load(memory.get("claims", "all"))
        note = self.audit.note
        self.judge = self.hosts.judge = Judge(trio.current_time, note)
        folder = PinFolder(pins, memory)
        self.pins = Pins(folder, config.policy, upstreams.servers, lambda name: self.live.changed(name), WALL, note)
        rules = rules_of(config, left_out)
        shown_servers = ShownServers(
            upstreams.servers, rules, claims, sealer, memory.save_soon, review=self.pins.review
        )
        self.live = LiveCatalog(shown_servers, self.judge, upstreams)
        self.counts = UpstreamCounts()
        self.supervisor = Supervisor(
            memory,
            self.live.changed,
            self.reads.listener_for,
            upstreams=upstreams,
            run_session=run_session
            or partial(transports.run_session, budget=self.budget, environ=environ, sandboxes=sandboxes),
            read_references=partial(read_references, environ=environ, reached_at=lambda: self._reached_at()),
            is_found=partial(is_found, environ=environ),
            credentials=credentials,
            secrets=self.secrets,
            last_known=self.last_known,
            on_new=self.reads.register,
            on_elicited=self.hosts.elicited,
            on_asked=self._note_question,
            watch=self.counts,
            wall=WALL,
            drain_s=config.drain_s,
        )
        self.levels = LogLevels(self.hosts.log_levels, self.supervisor.set_log_level)
        self.progress = ProgressUpkeep(config.synthetic_progress_s)
        self.states = RequestStates(
            sealer, wall=WALL, run=run, is_elsewhere=is_elsewhere, boot=boot, remembered=(PARK, ASK)
        )
        parking = ParkedCalls(self.states, ttl_s=config.park_ttl_s, total_s=config.park_total_s, budget=self.budget)
        tasks = Tasks(self.states, upstreams, ttl_s=config.park_ttl_s, shows=self.live.shows_tool)
        self.bridge = EraBridge(self.states, parking, tasks, self.hosts.visits, on_lost=config.on_lost)
        self.subscriptions = Subscriptions(self.live, self.bridge.tasks.handles)
        self.lists = ListUpdates(self.live, (self.subscriptions.list_changed, self.hosts.list_changed))
        shown = self.live, self.lists, self.subscriptions
        self.audit.follow_rounds(self.states.first_of)
        self.tracing = Tracing(WALL, HUBD_VERSION)
        guards = self.pins, self.audit, self.tracing
        self.router = Router(*shown, self.levels, self.bridge, self.progress, self.usage, self.reads, *guards)
        self.router.chains.recorder.adjust(config.calls.keep)
        self._grants = grants
        self._look_around: Callable[[], Awaitable[None]] = trio.lowlevel.checkpoint
        self._ask: Ask | None = None
        """The stage that asks people; None: nobody has needed it yet."""
        self._asks = trio.Event()
        """Set once there is that stage."""
        self._hooks: HookCalls | None = None
        self._environ = environ
        self.router.chains.ask_by(self._load_ask, self._load_hooks)
        self.router.tell_of_ends(self._conversation_over)
        parts = self.supervisor, self.live, self.lists, self.router, self.reads
        self.servers = RunningServers(config, *parts, _origins=origins)
        modes = load_modes(memory)
        self.views = HostViews(config.profiles, self.live, self.hosts, self.subscriptions, modes)
        self.servers.around, self.servers.after_rules = self.views.moving, self._rules_changed
        self.searches = SearchDecisions(modes, self.live, self.hosts, self.views, memory)
        self.projects: Projects | None = None
        if reader is not None:
            self.projects = Projects(self.servers, self.supervisor, *shown, reader)
            self.hosts.follow(self.projects)
        self.started_at = 0.0
        self._reached_at: Callable[[], str] = str

    @property
    def config(self) -> HubConfig:
        """The configuration in effect."""
        return self.servers.config

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Run upstreams and upkeep until cancelled. Cancellation: upstreams are stopped in order, state is saved."""
        self.started_at = trio.current_time()
        self.audit.start()
        try:
            async with trio.open_nursery() as nursery:
                await nursery.start(self.reads.run)
                await self.pins.prepare(self.config.policy)
                if await self.tracing.prepare(self.config.tracing):
                    self.router.adjust(self.servers.configs, self.config.hooks)
                await nursery.start(self.tracing.run)
                await nursery.start(self.supervisor.run, self.servers.configs)
                await nursery.start(self.bridge.run)
                if self.projects is not None:
                    await nursery.start(self.projects.run)
                nursery.start_soon(keep_going, "Telling hosts of changes", self.lists.run)
                nursery.start_soon(keep_going, "Keeping log levels", self.levels.run)
                nursery.start_soon(keep_going, "Deciding on search mode", self.searches.run)
                if self.supervisor.settled.is_set():
                    self.lists.settle()
                else:
                    self.lists.rebuild()  # before the first host comes: what is known from earlier runs
                nursery.start_soon(keep_going, "Waiting for the first servers", self._await_first_reports)
                nursery.start_soon(keep_going, "Releasing progress", self.progress.send_held)
                nursery.start_soon(keep_going, "Reminding hosts", self.progress.report_running)
                save = partial(autosave, self.memory, self._remember, beside=(self.usage.memory,))
                nursery.start_soon(keep_going, "Saving what is remembered", save)
                nursery.start_soon(keep_going, "Saving what servers offer", self.last_known.run)
                nursery.start_soon(keep_going, "Saving pins", self.pins.run)
                nursery.start_soon(keep_going, "Saving approvals", self._save_approvals)
                task_status.started()
        finally:
            self._remember()
            self.memory.save()
            self.usage.memory.save()
            self.last_known.save()
            self.pins.records.save_now()
            if self._ask is not None:
                self._ask.approvals.grants.save_now()

    async def _await_first_reports(self) -> None:
        """Let the first lists wait for upstreams that start quickly, but for no slow one, for none that was slow the
        last time, and for none with lists known from an earlier run."""
        with trio.move_on_after(self._started_with.startup_grace_s) as grace:
            await self.supervisor.settled.wait()
        if grace.cancelled_caught:
            self.supervisor.note_late(self.config.upstreams)
        self.lists.settle()

    def _remember(self) -> None:
        self.supervisor.note_connected()
        self.usage.fold()
        if self.live.servers.claims.changed:
            self.memory.put("claims", "all", self.live.servers.claims.dump())

    # --- signing in ---------------------------------------------------------------------------------------------------

    def follow_sign_ins(self, find_guide: FindGuide) -> None:
        """Have hosts send people who must sign in at an upstream where the guide says. To be called before `run`."""
        self.bridge.follow_sign_ins(find_guide)
        self.live.servers.show_sign_ins()

    def reach_at(self, tell: Callable[[], str]) -> None:
        """Have people without a key of their own be told the URL that `tell` returns, at which they keep one."""
        self._reached_at = tell

    def visit_done(self, upstream: str, visit: str) -> None:
        """The sign-in of `visit` is done: calls that wait for it go on, and the hosts that were sent there, no others,
        are told. Nothing, if there is no such upstream any more."""
        if (found := self.supervisor.upstreams.find(upstream)) is not None:
            found.elicitations.on_complete(visit)

    def _note_question(self, upstream: str, method: str, is_refused: bool) -> None:
        self.audit.note("relay", up=upstream, m=method, **({"kind": "refused"} if is_refused else {}))

    # --- asking people ------------------------------------------------------------------------------------------------

    def _load_ask(self) -> "Ask":
        """The stage that asks people, made when a rule or a command first needs it: most hubs have no such rule."""
        if self._ask is None:
            from hub.rules.approvals.grants import Grants
            from hub.rules.approvals.stage import Ask

            grants = Grants(self._grants, WALL)
            around = self.audit.note, lambda: self.config, lambda: self._look_around()
            self._ask = Ask(self.judge, grants, self.states, self.secrets, *around)
            self._asks.set()
        return self._ask

    async def _save_approvals(self) -> None:
        await self._asks.wait()
        await self.approvals.grants.run()

    def look_by(self, look_around: Callable[[], Awaitable[None]]) -> None:
        """Take note of who is connected, by `look_around`, whenever a person is to be asked from now on."""
        self._look_around = look_around

    def _load_hooks(self, hooks: tuple[HookConfig, ...]) -> "HookCalls":
        """The stage that asks these hooks, made for the first."""
        if self._hooks is None:
            from hub.rules.hooks.stage import HookCalls

            around = self._find_part, self.audit.note, self._environ, self.router.chains.check_arguments
            self._hooks = HookCalls(self.judge, self.states, *around)
        self._hooks.adjust(hooks)
        return self._hooks

    def _find_part(self, upstream: str) -> UpstreamEntries | None:
        return self.live.of(home_of(upstream)[1]).part(upstream)

    @property
    def approvals(self) -> "Approvals":
        """What people are asked for, and what they have agreed to."""
        return self._load_ask().approvals

    @property
    def undecided(self) -> int:
        """Calls that a person is to decide on."""
        return 0 if self._ask is None else self._ask.approvals.undecided

    @property
    def approvals_problem(self) -> str:
        """The reason why approvals that last do not count; ""."""
        return "" if self._ask is None else self._ask.approvals.grants.problem

    def _rules_changed(self) -> None:
        if self._ask is not None:
            self._ask.look_again()

    def _conversation_over(self, tenant: Tenant) -> None:
        if self._ask is not None:
            self._ask.approvals.grants.conversation_over(tenant)

    # --- another configuration ----------------------------------------------------------------------------------------

    async def prepare(self, config: HubConfig, origins: Mapping[Keys, Origin] = {}) -> None:
        """Read what `apply` needs to know."""
        await self.servers.prepare(config)
        await self.pins.prepare(config.policy)
        await self.tracing.prepare(config.tracing)
        await self.live.prepare(config.profiles, self.servers.read_rules(config, origins))

    @property
    def pending(self) -> tuple[str, ...]:
        """Settings that are not in effect before the next start."""
        return pending(self._started_with, self.config)

    def apply(
        self, config: HubConfig, left_out: Mapping[str, UpstreamConfig] = {}, origins: Mapping[Keys, Origin] = {}
    ) -> None:
        """Take over another configuration and disturb only what differs. How hosts come in is set elsewhere."""
        self.secrets.replace(_secrets_of(config))  # before anything of it is sent
        self.audit.adjust(config.audit)
        if found := difference(self.config, config):
            self.audit.note("config", changed=str(found))
        self.progress.adjust(config.synthetic_progress_s)
        self.hosts.adjust(config.park_ttl_s)
        self.budget.adjust(config.global_buffer_bytes)
        self.bridge.adjust(config.park_ttl_s, config.park_total_s, on_lost=config.on_lost)
        self.reads.reconfigure(config.cache)
        if config.usage != self.config.usage:
            self.usage.adjust(keep=config.usage.keep)
            self.memory.save_soon()
        self.router.chains.recorder.adjust(config.calls.keep)
        self.pins.adjust(config)
        with self.views.moving(config.profiles):
            self.servers.apply(config, left_out, origins)
        self.searches.configuration_changed()
        if self.projects is not None:
            self.projects.changed.set()


def _secrets_of(config: HubConfig) -> Iterator[str]:
    """The secrets of a configuration that are no single upstream's: what references gave to fixed arguments, and what
    a collector of spans is sent."""
    return (secret for each in (*config.profiles.values(), config.tracing) for secret in secrets_of(each))
