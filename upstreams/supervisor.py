"""Supervisor: runs every upstream in a task of its own (`runner`), and applies configurations to them.

    added      starts
    removed    takes no more calls; running calls may finish within `drain_s`, then it is stopped
    changed    takes over new settings while it runs (`Upstream.adjust`); else another `Upstream` replaces it:
       stop first   at once, but the successor starts when the old one is gone; calls wait meanwhile (a process)
       start first  once the successor has listed what it offers; until then, however long, the old one serves (a URL)

A change that withdraws a right never lets the old one serve on: it gets no further call. An upstream that a change does
not name is not touched. All decisions are made in `apply`, without a checkpoint; waiting and stopping are left to tasks
of `run`.
"""

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import trio

from config.diff import compare, config_key
from config.loading.split_accounts import whole_name
from config.remembered_facts import Memory
from config.server_names import ACCOUNT_MARK, server_of
from config.settings import UpstreamConfig
from hub.link.fault_isolation import keep_going, run_isolated
from hub.link.sync_primitives import Bell
from upstreams.availability import removal_error
from upstreams.cold_start.start_gate import StartGate
from upstreams.cold_start.start_timeouts import StartLimits
from upstreams.inventory.last_known_lists import LATE, LastConnected, LastKnown
from upstreams.journal.journal import Journals
from upstreams.lifecycle import State
from upstreams.questions.budgets import OnAsked, tell_nobody
from upstreams.read_secret_references import ReadReferences, read_references
from upstreams.redact import CommonSecrets
from upstreams.runner import UpstreamRunner
from upstreams.session_contract import NO_CREDENTIALS, NO_WATCH, CredentialSource, SessionWatch
from upstreams.sessions.session_opener import RunSession
from upstreams.subscriptions.resource_subscription import InvalidationListener
from upstreams.transports.choose_transport import run_session
from upstreams.transports.stdio.process import is_found
from upstreams.upstream import ManagedUpstream, UpstreamParts

log = logging.getLogger(__name__)

URGE_S: Final = 30.0
"""Seconds between attempts to start a replacement while its predecessor still serves."""


class Servers(dict[str, ManagedUpstream]):
    """Upstreams by name, in the order of the configuration. A missing one was removed: `UpstreamUnavailable`."""

    def __missing__(self, name: str) -> ManagedUpstream:
        raise removal_error(name)


class Upstreams(Servers):
    """All that runs, also further accounts at a server. `servers` are the same without those."""

    def __init__(self) -> None:
        super().__init__()
        self.servers = Servers()

    def __setitem__(self, name: str, upstream: ManagedUpstream) -> None:
        super().__setitem__(name, upstream)
        if ACCOUNT_MARK not in name:
            self.servers[name] = upstream

    def remove(self, name: str) -> ManagedUpstream:
        """Take out one that is there."""
        self.servers.pop(name, None)
        return self.pop(name)

    def find(self, name: str) -> ManagedUpstream | None:
        """The upstream that runs under a name, or under which sign-ins at it are kept."""
        found = self.get(name)
        if found is None and ACCOUNT_MARK in name:
            first = self.get(server_of(name))
            found = first if first is not None and whole_name(first.name, first.config) == name else None
        return found


@dataclass(eq=False, repr=False)
class Generation:
    """One upstream with its runner and their task; two live during a replacement. A disabled one has no runner."""

    upstream: ManagedUpstream
    runner: UpstreamRunner | None
    scope: trio.CancelScope = field(default_factory=trio.CancelScope)
    stopped: trio.Event = field(default_factory=trio.Event)
    start_failed: bool = False
    """The upstream failed when it should have replaced another."""
    candidacy_over: trio.Event = field(default_factory=trio.Event)
    """Set when the upstream is no candidate any more."""

    async def run(self, *after: trio.Event) -> None:
        """Run the upstream, once all of `after` has happened, until `scope` is cancelled."""
        try:
            with self.scope:
                for event in after:
                    await event.wait()
                if self.runner is not None:
                    await keep_going(f"Keeping {self.upstream.name}", self.runner.run)
        finally:
            self.stopped.set()


@dataclass(eq=False, repr=False)
class Supervisor:
    """Keeps every configured upstream running.

    `settled` is set once every upstream has listed what it offers, now or in an earlier run, or has failed; one that
    was late the last time (`note_late`) is not waited for. `on_new` is called with every new upstream before any call
    can reach it, `on_change` with the name of an upstream whenever what it offers may differ, `on_elicited` with the
    name of an upstream and the id of an elicitation at a URL that is done, `on_asked` and `watch` as they say.
    `listener_for` makes the listener of invalidation events of an upstream. `last_known` is kept up to date. `secrets`
    are masked in what any of them says.
    """

    memory: Memory
    on_change: Callable[[str], None]
    listener_for: Callable[[str, UpstreamConfig], InvalidationListener]
    upstreams: Upstreams = field(default_factory=Upstreams)
    last_known: LastKnown = field(default_factory=partial(LastKnown, None))
    on_new: Callable[[ManagedUpstream], None] = lambda upstream: None
    drain_s: float = 30.0
    """Seconds that a stop waits for running calls."""
    wall: Callable[[], float] = lambda: 0.0
    """Tells the time of day."""
    run_session: RunSession = run_session
    on_elicited: Callable[[str, str], None] = lambda upstream, id: None
    on_asked: OnAsked = tell_nobody
    watch: SessionWatch = NO_WATCH
    read_references: ReadReferences = read_references
    credentials: CredentialSource = NO_CREDENTIALS
    secrets: CommonSecrets | None = None
    start_limits: StartLimits = field(default_factory=StartLimits)
    is_found: Callable[[UpstreamConfig], bool] = is_found
    settled: trio.Event = field(default_factory=trio.Event)
    _log_level: str | None = None
    _unsettled: set[str] = field(default_factory=set)
    _generations: dict[str, Generation] = field(default_factory=dict)
    """The generations that serve, by name: those of `upstreams`."""
    _candidates: dict[str, Generation] = field(default_factory=dict)
    """Generations that are to replace another as soon as they can."""
    _leaving: list[Generation] = field(default_factory=list)
    """Generations that are being stopped."""
    _nursery: trio.Nursery = field(init=False)
    _news: Bell = field(default_factory=Bell)

    def __post_init__(self) -> None:
        self.journals = Journals(self.wall)
        """The journals of all upstreams."""
        self.last_connected = LastConnected(self.memory, self.wall)
        gate = StartGate(self.memory, self.start_limits, self.is_found)
        given = self.memory, self.run_session, self.read_references, self.credentials, self.secrets
        told = self._changed, self.on_elicited, self.on_asked, self.watch, self.listener_for
        self._parts = UpstreamParts(*given, gate, *told)

    async def run(
        self, configs: Mapping[str, UpstreamConfig], *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """Start all upstreams that are not disabled, and keep them running until cancelled.

        `started` is called when all are known by name, before any is connected. Cancellation: stops them in order.
        """
        await self.prepare(configs)
        async with trio.open_nursery() as self._nursery:
            for name, config in configs.items():
                self._take_in(self._make(name, config))
            self._unsettled = {name for name, upstream in self.upstreams.items() if self._is_waited_for(upstream)}
            self._mark_reported()
            task_status.started()
            await trio.sleep_forever()

    def restart(self, name: str) -> None:
        """Restart an upstream at once. Its era, and whether it asks questions, is found out again. Raises KeyError:
        there is no such upstream, or it is disabled."""
        if not (runners := self._runners_of(name)):
            raise KeyError(name)
        for runner in runners:
            self.memory.remember_era(config_key(runner.upstream.config), None)
            runner.upstream.pool.forget_interactive()
            runner.upstream.legacy_sessions.forget()
            runner.restart()

    def signed_in(self, name: str) -> None:
        """A person has signed in at an upstream; nothing, if there is no such one any more."""
        for runner in self._runners_of(name):
            runner.upstream.signed_in()

    def signed_out(self, name: str) -> None:
        """A person's sign-in at an upstream is over: sessions that act for the person end."""
        for runner in self._runners_of(name):
            runner.restart()

    def _runners_of(self, name: str) -> list[UpstreamRunner]:
        """The runners of what serves under this name and of what is to replace it, but for disabled upstreams."""
        generations = [table[name] for table in (self._generations, self._candidates) if name in table]
        return [each.runner for each in generations if each.runner is not None]

    def note_connected(self) -> None:
        """Remember which upstreams are connected now. To be called now and then."""
        for upstream in self.upstreams.values():
            if upstream.state is State.CONNECTED and upstream.offered.listed:
                self.last_connected.note(upstream.config)

    async def reported(self, names: Iterable[str]) -> None:
        """Wait until each of these upstreams has listed what it offers, or has failed, but for those that were late the
        last time."""
        names = set(names)
        while any(self._is_waited_for(self.upstreams[name]) for name in names & self.upstreams.keys()):
            await self._news.wait()

    def note_late(self, names: Iterable[str]) -> None:
        """Remember those of these upstreams that have not reported within the grace: nobody waits for them again."""
        for upstream in [self.upstreams[name] for name in names if name in self.upstreams]:
            if not upstream.has_reported:
                text = "%s has not listed what it offers in time; the next start does not wait for it"
                log.info(text, upstream.name, extra={"upstream": upstream.name})
                self.memory.put(LATE, config_key(upstream.config), True)

    def _is_waited_for(self, upstream: ManagedUpstream) -> bool:
        was_late = self.memory.get(LATE, config_key(upstream.config)) is True
        return not upstream.has_reported and not was_late

    def set_log_level(self, level: str | None) -> None:
        """Set the log level of all upstreams, those to come included, as `Upstream.set_log_level`."""
        self._log_level = level
        for generation in (*self._generations.values(), *self._candidates.values()):
            generation.upstream.set_log_level(level)

    def candidate(self, name: str) -> ManagedUpstream | None:
        """The successor of an upstream that is not ready yet; None: the upstream runs as its configuration says."""
        return None if (generation := self._candidates.get(name)) is None else generation.upstream

    # --- another configuration ----------------------------------------------------------------------------------------

    async def prepare(self, configs: Mapping[str, UpstreamConfig]) -> None:
        """Read what new upstreams offered in an earlier run. To be called before `apply`."""
        await self.last_known.prepare({name: configs[name] for name in configs if name not in self.upstreams})

    def apply(self, configs: Mapping[str, UpstreamConfig], *, drain_s: float | None = None) -> None:
        """Make the upstreams those of `configs`. Waiting is left to tasks of `run`.

        `drain_s`: how long a stop waits for calls from now on; None: as long as before.
        """
        self.drain_s = self.drain_s if drain_s is None else drain_s
        for name in [name for name in self.upstreams if name not in configs]:
            self._remove(name)
        for name, config in configs.items():
            if name not in self.upstreams:
                self._take_in(self._make(name, config))
            elif not self._adjust_candidate(name, config):
                self._change(name, config)
        for name in configs:  # in this order
            self.upstreams[name] = self.upstreams.remove(name)

    def _remove(self, name: str) -> None:
        self._drop_candidate(name)
        upstream = self.upstreams.remove(name)
        upstream.retire()
        self.journals.pop(name, None)  # its followers hear no more
        self._see_off(self._generations.pop(name))
        self._mark_reported(name)

    def _adjust_candidate(self, name: str, config: UpstreamConfig) -> bool:
        """Give `config` to the candidate. False: there is none, or it could not take it and was dropped."""
        if (candidate := self.candidate(name)) is None:
            return False
        if (change := compare(candidate.config, config)) is None:
            return True
        if change.replaces:
            self._drop_candidate(name)
            self.on_new(self.upstreams[name])  # it is the one of its name again
        else:
            candidate.adjust(config)
        return not change.replaces

    def _change(self, name: str, config: UpstreamConfig) -> None:
        old = self.upstreams[name]
        if (change := compare(old.config, config)) is None:
            return
        if not change.replaces:
            old.adjust(config)
            return
        starts_first = config.replace == "start-first" or (config.replace == "auto" and config.url is not None)
        generation = self._make(name, config)
        generation.upstream.availability.history.note(f"settings changed: {', '.join(change.settings)}")
        if starts_first and old.state is State.CONNECTED and not change.withdraws:
            generation.upstream.offered.require_listing()  # it has to run before it can take over
            self._candidates[name] = generation
            self._nursery.start_soon(generation.run)
            self._nursery.start_soon(run_isolated, f"Urging {name}", partial(self._urge, generation))
        else:
            self._replace(generation, at_once=starts_first)

    def _make(self, name: str, config: UpstreamConfig) -> Generation:
        known = self.last_known.find(name, config)
        upstream = ManagedUpstream(name, config, self._parts, known, self.journals[name])
        upstream.set_log_level(self._log_level)
        self.on_new(upstream)
        if config.disabled:
            return Generation(upstream, None)
        return Generation(upstream, UpstreamRunner(upstream, self._parts.gate, partial(self._report, upstream)))

    def _take_in(self, generation: Generation, *, at_once: bool = False) -> None:
        """Let calls find the upstream, and start it: `at_once`, or when its predecessors are gone."""
        name = generation.upstream.name
        self.upstreams[name] = generation.upstream
        self._generations[name] = generation
        before = [] if at_once else [each.stopped for each in self._leaving if each.upstream.name == name]
        self._nursery.start_soon(generation.run, *before)

    def _replace(self, generation: Generation, *, at_once: bool) -> None:
        """Let a generation replace the one before, which is drained. A candidate that runs already goes on running."""
        name = generation.upstream.name
        old = self._generations[name]
        generation.upstream.follow(old.upstream)
        self._see_off(old)
        if self._candidates.get(name) is generation:
            del self._candidates[name]
            generation.candidacy_over.set()
            self.upstreams[name] = generation.upstream
            self._generations[name] = generation
        else:
            self._take_in(generation, at_once=at_once)
        if generation.upstream.has_reported:
            self._mark_reported(name)
        self._announce(generation.upstream)

    def _report(self, upstream: ManagedUpstream) -> None:
        name = upstream.name
        if (candidate := self._candidates.get(name)) is None or candidate.upstream is not upstream:
            self._mark_reported(name)
            if not upstream.offered.listed and not upstream.is_further_account:
                self.on_change(name)  # lists say that they wait for it, until they are made anew
        elif upstream.state is State.CONNECTED and upstream.offered.listed:
            log.info("%s is replaced: its successor is ready", name)
            self._replace(candidate, at_once=True)
        elif not candidate.start_failed:
            candidate.start_failed = True
            log.warning("%s keeps running with its old settings: with the new ones it is not ready yet", name)

    async def _urge(self, generation: Generation) -> None:
        while not generation.candidacy_over.is_set():
            generation.upstream.availability.want()
            with trio.move_on_after(URGE_S):
                await generation.candidacy_over.wait()

    def _drop_candidate(self, name: str) -> None:
        if (generation := self._candidates.pop(name, None)) is not None:
            generation.candidacy_over.set()
            generation.upstream.retire()
            self._see_off(generation)

    def _changed(self, upstream: ManagedUpstream) -> None:
        if self.upstreams.get(upstream.name) is upstream:
            self._announce(upstream)

    def _announce(self, upstream: ManagedUpstream) -> None:
        if upstream.offered.listed:
            self.memory.put(LATE, config_key(upstream.config), None)
            self.last_known.note(upstream.name, upstream.config, upstream.snapshot)
            if upstream.state is State.CONNECTED:
                self.last_connected.note(upstream.config)
        if not upstream.is_further_account:
            self.on_change(upstream.name)

    def _see_off(self, generation: Generation) -> None:
        self._leaving.append(generation)
        end = partial(self._end, generation, self.drain_s)
        self._nursery.start_soon(run_isolated, f"Ending {generation.upstream.name}", end)

    async def _end(self, generation: Generation, patience_s: float) -> None:
        """Wait at most `patience_s` for the calls of a retired upstream; stop it."""
        upstream = generation.upstream
        with trio.move_on_after(patience_s) as scope:
            await upstream.drained()
        if scope.cancelled_caught:
            text, about = "%s is stopped with %d calls unanswered", {"upstream": upstream.name}
            log.warning(text, upstream.name, upstream.in_flight, extra=about)
        upstream.calls.stop()
        generation.scope.cancel()
        await generation.stopped.wait()
        upstream.gone()
        self._leaving.remove(generation)

    def _mark_reported(self, name: str = "") -> None:
        self._unsettled.discard(name)
        self._news.ring()
        if not self._unsettled:
            self.settled.set()
