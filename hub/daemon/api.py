"""`DaemonApi`: the typed interface of a running hub for its user: status, tools, logs, restarts, reloads.

The control socket carries these methods out for the command line (`hub.control.methods` lists them, with those of
`SignInRequests`); a page over HTTP may call them as well. Whoever may open the control socket is that user. Nothing is
decided here: the parts of the hub are asked.
"""

import logging
import os
import signal
from collections.abc import AsyncGenerator, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, Final

import trio
from msgspec import UNSET, Raw, convert, structs

from cache.cache_entry import DropCause
from cache.statistics import CacheStatistics
from config.loading.split_accounts import serves_by_default
from config.name_globs import ALL
from config.profile_settings import DEFAULT_PROFILE
from config.server_names import ACCOUNT_MARK, server_of
from config.show.server_environment import ShownEnvironment, show_environment
from hub.app import OPEN_DOOR, Hub
from hub.calls.host_exchange import HostExchange, tell_nobody
from hub.catalog.catalog import Catalog
from hub.catalog.endpoint_views import EVERYTHING, View
from hub.catalog.token_cost import text_bytes, tokens_of
from hub.control import answers
from hub.control.methods import LOG_LINES
from hub.daemon.banner import is_root
from hub.daemon.http_listener import HttpListener
from hub.daemon.logs.handlers import OWN_NAME, FaultCounter
from hub.daemon.loop_stalls import LoopWatchdog
from hub.daemon.reload import Reloader
from hub.daemon.sign_in_requests import SignInRequests
from hub.downstream.host_of_one_request import StatelessHost
from hub.downstream.request_pipeline import serve
from hub.link.call_interface import OWNER, Caller, Identity
from hub.link.hub_errors import UpstreamUnavailable
from hub.link.sync_primitives import take_turns
from hub.routing.tool_usage import RECENT_DAYS, RecentUse
from hub.telemetry.describe_calls import sum_calls
from hub.wire.jsonrpc import Request, Result, own_items, raw
from hub.wire.mcp import HUB_TOOLS, HUBD_VERSION, L4, LIST_METHOD, Kind
from upstreams.journal.journal import Follower, Journal, merge_tails
from upstreams.journal.record_filter import RecordFilter
from upstreams.lifecycle import State
from upstreams.status_facts import JournalRecord
from upstreams.upstream import ManagedUpstream

log = logging.getLogger("hubd")

OPERATOR: Final = Identity(OWNER, "cli")
LISTS_S: Final = 5.0
"""Time that a reload waits for the catalogues that follow from it."""
PIPELINE: Final = "pipeline "
"""The beginning of warnings about pipelines."""
TOKENS_S: Final = 5.0
"""Time that whoever has made a token waits for the rules that hold from then on."""


@dataclass(eq=False, repr=False)
class DaemonApi:
    """A hub and the process around it, for its user. Every method raises HubError if it refuses."""

    _hub: Hub
    _listener: HttpListener | None = None
    _reloader: Reloader | None = None
    _watch: LoopWatchdog | None = None
    _faults: FaultCounter | None = None
    _own_journal: Journal = field(default_factory=lambda: Journal(lambda: 0.0, OWN_NAME))
    """The hub's own log."""
    _sign_ins: SignInRequests | None = None
    _is_root: bool = field(default_factory=is_root)

    # --- how it is ----------------------------------------------------------------------------------------------------

    async def status(self) -> answers.Status:
        """Everything `hubd status` shows."""
        hub, listener = self._hub, self._listener
        membership = None if listener is None else listener.membership
        doubts = self._doubts_of_labels()
        left_out = {} if self._reloader is None else self._reloader.reasons_left_out()
        rows, upstreams = await hub.views.status(), list[answers.UpstreamRow]()
        for upstream in list(hub.supervisor.upstreams.values()):
            upstreams.append(self._upstream(upstream))
            await trio.lowlevel.checkpoint()
        from hub.telemetry.overview import judge_calls  # not above: most hubs are not looked at

        recorder = hub.router.chains.recorder
        upstreams = await take_turns(judge_calls(recorder, upstreams, perf_counter()))
        calls = await take_turns(sum_calls(recorder, perf_counter(), hub.servers.configs))
        profiles = tuple(structs.replace(row, warnings=(*row.warnings, *doubts.get(row.name, ()))) for row in rows)
        return answers.Status(
            version=HUBD_VERSION,
            uptime_s=round(trio.current_time() - hub.started_at, 1),
            settled=hub.router.settled.is_set(),
            upstreams=(
                *upstreams,
                *(answers.UpstreamRow(name=name, state="unresolved", last_error=why) for name, why in left_out.items()),
            ),
            hosts=tuple(self._host(host.view, row) for host, row in zip(hub.hosts, hub.hosts.status(), strict=True)),
            projects=() if hub.projects is None else tuple(hub.projects.status()),
            cache=hub.reads.statistics(),
            buffer=convert(hub.budget, answers.BufferStatus, from_attributes=True),
            warnings=(*self._warnings(), *(text for texts in doubts.values() for text in texts)),
            idle_rules=() if hub.judge.book is None else self._idle_rules(left_out),
            listen=UNSET if listener is None else listener.status(),
            config=answers.ConfigStatus() if self._reloader is None else self._reloader.status(),
            root=self._is_root,
            loop=UNSET if self._watch is None else self._watch.status(),
            faults=0 if self._faults is None else self._faults.count,
            replica=UNSET if membership is None else membership.status(),
            profiles=profiles,
            pipelines=tuple(_pipeline_rows(hub.live.everything)),
            instructions_tokens=tokens_of(text_bytes(hub.live.everything.instructions)),
            all_tools=hub.live.everything.shown_cost.tools,
            all_tokens=hub.live.everything.shown_cost.tokens,
            audit=hub.audit.status(),
            calls=calls,
            requests=hub.undecided,
        )

    def _idle_rules(self, left_out: Iterable[str]) -> tuple[str, ...]:
        from hub.rules.policy.overview import find_misspelt  # not above: only rules need it

        configs = self._hub.config.upstreams.items()
        servers = {*left_out, *(name if config.prefix is None else config.prefix for name, config in configs)}
        return tuple(find_misspelt(self._hub.judge, self._hub.live.everything, servers))

    def _upstream(self, upstream: ManagedUpstream) -> answers.UpstreamRow:
        status, cost = upstream.status(), self._hub.live.cost_of(upstream.name)
        if cost is not None and status.counts is not None and upstream.config.tools != ALL:
            status = structs.replace(status, counts=structs.replace(status.counts, tools=cost.tools))
        return answers.UpstreamRow(
            **structs.asdict(status),
            parked=self._hub.bridge.parking.calls_without_request(upstream.name),
            connected_ago_s=self._since_connection_s(upstream),
            account=None if self._sign_ins is None else self._sign_ins.facts(upstream.name),
            serves=serves_by_default(upstream.name, self._hub.config.upstreams.get(server_of(upstream.name))),
            limits=self._hub.router.chains.limits.status(upstream.name),
            pins=tuple(self._hub.pins.remarks(upstream.name)),
            changed=self._hub.pins.count_changed(upstream.name),
            unchecked=() if (checks := self._hub.router.chains.checks) is None else checks.find_unchecked(upstream),
            stale_config=self._stale(upstream.name),
            tokens=None if cost is None else cost.tokens,
            largest=None if cost is None or not cost.tools else answers.LargestTool(cost.largest, cost.largest_tokens),
        )

    def _since_connection_s(self, upstream: ManagedUpstream) -> float | None:
        if upstream.state is State.CONNECTED:
            return 0.0
        ago_s = self._hub.supervisor.last_connected.ago_s(upstream.config)
        return None if ago_s is None else round(ago_s, 1)

    def _host(self, view: View, row: answers.HostRow) -> answers.HostRow:
        """The row with what the host is shown, and what that costs."""
        cost = self._hub.live.of(view).shown_cost
        return structs.replace(row, tools=cost.tools, tokens=cost.tokens)

    def _stale(self, name: str) -> str | None:
        """The reason why an upstream still runs with its earlier settings; None: it does not."""
        if (candidate := self._hub.supervisor.candidate(name)) is None:
            return None
        return candidate.last_error or "it is not ready with its new settings yet"

    def _warnings(self) -> Iterator[str]:
        """Warnings about the hub as a whole, the worst first."""
        hub = self._hub
        if self._listener is not None:
            yield from _displacement_warnings(self._listener)
        if hub.projects is not None:
            yield from hub.projects.warnings
        if hub.config.auth == "none":
            yield OPEN_DOOR
        if self._listener is not None:
            tokens = self._listener.named_tokens
            if tokens.problem:
                yield tokens.problem
            for profile in sorted(tokens.profiles - {DEFAULT_PROFILE, *hub.hosts.profiles.profiles}):
                yield f"there is no profile {profile}, and a token opens nothing else: its hosts are shown nothing"
        saved = hub.memory.problem, hub.usage.memory.problem, hub.last_known.problem, hub.pins.records.problem
        yield from filter(None, [*saved, hub.approvals_problem])
        if hub.pins.team.problem:
            yield f"pins_file: {hub.pins.team.problem}"
        yield from hub.live.warnings

    def _doubts_of_labels(self) -> dict[str, list[str]]:
        """Sentences about labels of hosts that are probably mistyped, by the name of the profile."""
        hub, found = self._hub, dict[str, list[str]]()
        if any(profile.hosts for profile in hub.hosts.profiles.profiles.values()):
            from config.hosts.known_hosts import find_mistyped  # only profiles that name hosts need it

            tokens = {token.host or token.name for token in hub.config.access.tokens}
            named = frozenset() if self._listener is None else self._listener.named_tokens.labels
            in_use = {host.identity.host for host in hub.hosts} | tokens | named
            for name, text in find_mistyped(hub.hosts.profiles.profiles, in_use):
                found.setdefault(name, []).append(f"profile {name}: hosts: {text}")
        return found

    async def cache(self) -> CacheStatistics:
        """Everything `hubd cache` shows."""
        return self._hub.reads.statistics()

    async def logs(
        self,
        name: str | None = None,
        lines: int = LOG_LINES,
        follow: bool = False,
        level: str = "",
        since: float = 0.0,
        ref: str = "",
    ) -> AsyncGenerator[answers.Logs, None]:
        """The last records of an upstream's journal, of the hub's own (`hub`), or of all by time; with `follow` then,
        for ever, new ones. Of these, those that `level`, `since` and `ref` want (`RecordFilter`).

        A reader that is too slow loses the oldest. Raises UpstreamUnavailable: there is no upstream of this name."""
        upstreams, journals = self._hub.supervisor.upstreams, self._hub.supervisor.journals
        names = [] if name is None else [name] if name == OWN_NAME else self._accounts_of(name)
        own = self._own_journal
        follower, wanted, missing = Follower[JournalRecord](), RecordFilter(level, since, ref, frozenset(names)), 0
        with ExitStack() as followed:
            if not names:
                followed.enter_context(journals.follow(follower))
                tails = [*journals.tails(lines, wanted), own.tail(lines, wanted)]
            else:
                chosen = [journals[each] for each in names if each in upstreams]
                for journal in chosen:
                    followed.enter_context(journal.follow(follower))
                tails = [journal.tail(lines, wanted) for journal in (*chosen, own)]
            followed.enter_context(own.follow(follower))
            yield answers.Logs(tuple(map(self._with_account, merge_tails(tails, lines))))
            while follow:
                records, lost = await follower.next()
                missing += lost
                if found := tuple(map(self._with_account, filter(wanted.passes, records))):
                    yield answers.Logs(found, missing)
                    missing = 0

    def _with_account(self, record: JournalRecord) -> JournalRecord:
        """The record with the name of the account that its server is, where there are several."""
        upstreams = self._hub.supervisor.upstreams
        names = {name: upstreams[name].whole_name for name in (record.name, record.about) if name in upstreams}
        if all(name == whole for name, whole in names.items()):
            return record
        name, about = names.get(record.name, record.name), names.get(record.about, record.about)
        return structs.replace(record, name=name, about=about)

    async def environment(self, name: str | None = None) -> ShownEnvironment:
        """The environment that an upstream gets when it starts next, secrets masked; without a name, that of one that
        says nothing of it. Raises UpstreamUnavailable: there is no upstream of this name, or the hub follows no
        files."""
        if self._reloader is None:
            raise UpstreamUnavailable("this hub follows no files")
        config = None if name is None else self._hub.supervisor.upstreams[self._accounts_of(name)[0]].config
        return show_environment(self._reloader.loaded, name, config)

    # --- what it does -------------------------------------------------------------------------------------------------

    async def reload(self) -> answers.Reloaded:
        """Read the configuration again; the outcome. Cancellation: it is read all the same."""
        if self._reloader is None:
            raise UpstreamUnavailable("this hub follows no files")
        from config.hosts.known_hosts import hosts_that_list_once  # not above: it is hardly ever needed

        answer = await self._reloader.reload()
        if answer.problem is None and self._hub.config.pipelines:
            with trio.move_on_after(LISTS_S):  # what pipelines lack is known once the catalogues have the change
                while self._hub.live.dirty:
                    await self._hub.live.rebuilt.wait()
            doubts = (text for text in self._hub.live.everything.warnings if text.startswith(PIPELINE))
            answer = structs.replace(answer, warnings=(*answer.warnings, *doubts))
        outdated = {host.identity.host for host in self._hub.hosts if host.outdated}
        return structs.replace(answer, restart=tuple(sorted(outdated & hosts_that_list_once())))

    async def read_tokens(self) -> None:
        """Read the tokens of hosts again; whoever is let in by one that is gone is so no more. Rules of a hub that lets
        in others hold first, if that does not take long."""
        if self._reloader is not None:
            with trio.move_on_after(TOKENS_S):
                await self._reloader.reload()
        if self._listener is not None:
            self._listener.named_tokens.read()
            self._listener.read_metrics_token()

    async def stop(self) -> None:
        """Stop the hub, as SIGTERM does."""
        os.kill(os.getpid(), signal.SIGTERM)

    async def tools(self) -> list[Raw]:
        """The merged tools as a host of the newest legacy revision sees them."""
        host = StatelessHost(self._hub.hosts.requests, OPERATOR.principal, counts=False)
        exchange = HostExchange(Caller(OPERATOR, L4, {}), tell_nobody)
        reply = await serve(host, self._hub.router, Request(0, LIST_METHOD[Kind.TOOL], {}), exchange)
        return own_items(reply.value, "tools") if isinstance(reply, Result) else []

    async def tool_use(self) -> answers.ToolUses:
        """Every tool of the common endpoint, in the order of its list, and how often each was called."""
        catalog, usage = await self._whole(EVERYTHING), self._hub.usage
        recent, tools = usage.recent(), []
        for name, size in catalog.tool_bytes():
            route = catalog.route(Kind.TOOL, name)
            if route is None or route.signs_in:
                continue
            use = recent.get((route.upstream, route.original), RecentUse())
            its = {"name": name, "server": route.upstream, "tool": route.original}
            tools.append(
                answers.ToolUse(**its, tokens=tokens_of(size), bytes=size, calls=use.calls, last=use.last or None)
            )
        return answers.ToolUses(tools=tuple(tools), since=usage.since or None, today=usage.today, days=RECENT_DAYS)

    async def policy(self, host: str = "", principal: str = "") -> answers.PolicyReport:
        """What the rules say of everything, for hosts with this label and of this account."""
        from hub.rules.policy.overview import report  # not above: few ask

        view, identity = self._caller_of(host, principal)
        return report(self._hub.judge, await self._whole(view), view, identity)

    async def explain_policy(
        self, name: str, host: str = "", principal: str = "", arguments: dict[str, Any] | None = None
    ) -> answers.PolicyExplanation:
        """Why a tool, a prompt (`prompt:NAME`) or a resource (its URI) is allowed, asked about or denied.
        Raises: UpstreamUnavailable, if no server has a tool or prompt of this name."""
        from hub.rules.policy.overview import explain

        view, identity = self._caller_of(host, principal)
        given = None if arguments is None else raw(arguments)
        found = explain(self._hub.judge, await self._whole(view), view, identity, name, given)
        if found is None:
            raise UpstreamUnavailable(f"there is no tool {name}; `hubd policy` lists what there is")
        return found

    def _caller_of(self, host: str, principal: str) -> tuple[View, Identity]:
        """A host of this label, and what it would be shown."""
        identity = Identity(principal or OWNER, host)
        return self._hub.hosts.view_of(EVERYTHING, identity, ""), identity

    async def _whole(self, view: View) -> Catalog:
        """All that hosts to whom `view` is shown would be shown without rules, under the names that rules go by. Like
        their first list, it waits for servers that start."""
        await self._hub.live.wait(view.base)
        return self._hub.live.of(view.base)

    async def restart(self, name: str) -> None:
        """Restart an upstream, or all accounts there, without waiting for it.
        Raises: UpstreamUnavailable, if no upstream of this name can be started."""
        try:
            for each in self._accounts_of(name):
                self._hub.supervisor.restart(each)
        except KeyError:
            raise self._unknown(name) from None
        log.info("%s restarted by command", name)

    async def cache_clear(self, name: str | None = None) -> answers.Cleared:
        """Drop the cached resources of an upstream, or of all.
        Raises: UpstreamUnavailable, if there is no upstream of this name."""
        names = [None] if name is None else self._accounts_of(name)
        cleared = sum(self._hub.reads.invalidate(each, DropCause.CLEARED) for each in names)
        log.info("cache of %s cleared by command: %d resources", name or "all upstreams", cleared)
        return answers.Cleared(cleared)

    def _accounts_of(self, name: str) -> list[str]:
        """What runs by a name: one account there (`github:work`), or by the server's name all of them.
        Raises: UpstreamUnavailable, if there is no upstream of this name."""
        upstreams = self._hub.supervisor.upstreams
        if (found := upstreams.find(name)) is None:
            raise self._unknown(name)
        if ACCOUNT_MARK in name:
            return [found.name]
        return [name, *(each for each in upstreams if server_of(each) == name != each)]

    def _unknown(self, name: str) -> UpstreamUnavailable:
        if self._reloader is not None and (reason := self._reloader.reasons_left_out().get(name)):
            return UpstreamUnavailable(f"{name} is not started: {reason}")
        known = [upstream.whole_name for upstream in self._hub.supervisor.upstreams.values()]
        text = f"{name} is disabled in the configuration" if name in known else f"There is no server {name}"
        return UpstreamUnavailable(f"{text}; there are: {', '.join(known) or 'none'}")


def _pipeline_rows(catalog: Catalog) -> Iterator[answers.PipelineRow]:
    """The pipelines as the common endpoint has them, in their order."""
    for name, pipeline in catalog.making.rules.pipelines.items():
        visible = HUB_TOOLS + name
        shown, hidden = catalog.pipelines.get(visible), catalog.hidden_pipelines.get(visible)
        routes = [catalog.route(Kind.TOOL, step.tool) for step in pipeline.steps]
        yield answers.PipelineRow(
            name=visible,
            steps=tuple(
                answers.PipelineStepRow(id=step.id, tool=step.tool, server="" if route is None else route.upstream)
                for step, route in zip(pipeline.steps, routes, strict=True)
            ),
            problem="" if hidden is None else hidden.tell(),
            doubts=() if shown is None else tuple(doubt.tell() for doubt in shown.doubts),
        )


def _displacement_warnings(listener: HttpListener) -> Iterator[str]:
    if (wanted := listener.displaced) and listener.squatted:
        yield (
            f"another user of this machine held {wanted} when the hub started: hosts with the usual URL show their "
            "token there, so nobody is let in by HTTP until the hub has an address of its own. Find out who it is, "
            "or name another port with `listen` in hubd.toml; then run `hubd stop`, and `hubd install` for hosts "
            "that have the URL, since the token was replaced. Hosts on `hubd connect` are not affected"
        )
    elif wanted:
        yield (
            f"{wanted} was taken when the hub started, so it listens on {listener.url}, now and at later starts: hosts "
            "that have the usual URL do not reach it. Stop what uses that port and run `hubd stop`, or name another "
            "port with `listen` in hubd.toml"
        )
