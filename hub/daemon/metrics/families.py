"""Families: what is told of a hub, as families of series.

Labels are names of the configuration and of catalogues, and words of the hub's own: nothing that a message claims. What
an upstream has done is told for another hour when it is gone.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import trio

from hub.app import Hub
from hub.calls.count_dropped_messages import DROPPED
from hub.daemon.live.waiting_items import KINDS, find_items
from hub.daemon.loop_stalls import LoopWatchdog
from hub.daemon.metrics.process import tell_process
from hub.daemon.reload import Reloader
from hub.telemetry.prometheus_text import LEAST_OF_SESSIONS_S, Family, Series
from hub.telemetry.tally import Histogram
from hub.wire.mcp import Kind
from upstreams.lifecycle import State
from upstreams.upstream import ManagedUpstream

GONE_S: Final = 3_600.0
"""Time for which series of an upstream that is gone are told."""
TALLIES: Final = 4
"""Tallies of one host, or hosts of a tally, that are looked at in as much time as a series is written."""
UP: Final = "hubd_upstream"
METHOD: Final = "mcp_method_name"
TOOL: Final = "gen_ai_tool_name"
ERROR_TYPE: Final = "error_type"
TRANSPORT: Final = "network_transport"


@dataclass(eq=False, repr=False)
class Families:
    """What is told of a hub, its configuration and its loop."""

    _hub: Hub
    _reloader: Reloader
    _watch: LoopWatchdog
    _gone: dict[str, float] = field(default_factory=dict)
    """The times at which it was noticed that upstreams are gone."""

    def tell(self) -> Iterator[Family]:
        """All families. What is read is read when the series are."""
        yield from self._tell_operations()
        yield from self._tell_upstreams()
        yield from self._tell_hosts()
        yield from self._tell_cache()
        yield from self._tell_hub()
        yield from tell_process()

    def _is_told(self, upstream: str) -> bool:
        if upstream in self._hub.supervisor.upstreams:
            self._gone.pop(upstream, None)
            return True
        now = trio.current_time()
        return now < self._gone.setdefault(upstream, now) + GONE_S

    # --- operations

    def _tell_operations(self) -> Iterator[Family]:
        chains = self._hub.router.chains
        server = [
            (((METHOD, method), (ERROR_TYPE, outcome), (TRANSPORT, transport)), histogram)
            for (method, outcome, transport), histogram in chains.recorder.served.items()
        ]
        text = "How long requests of hosts took, refused ones included."
        yield Family("mcp_server_operation_duration_seconds", "histogram", text, server)
        text = "How long messages to servers took."
        yield Family("mcp_client_operation_duration_seconds", "histogram", text, self._messages())
        yield Family("hubd_call_bytes_total", "counter", "Bytes of arguments (in) and results (out).", self._bytes())

    def _messages(self) -> Iterator[Series]:
        told: dict[str, bool] = {}
        for (upstream, method, tool), outcomes in list(self._hub.router.chains.messages.sent.items()):
            if upstream not in told:
                told[upstream] = self._is_told(upstream)
            if told[upstream]:
                for outcome, histogram in tuple(outcomes.items()):
                    yield ((UP, upstream), (METHOD, method), (TOOL, tool), (ERROR_TYPE, outcome)), histogram

    def _bytes(self) -> Iterator[Series | None]:
        sent, got = Counter[str](), Counter[str]()
        for number, ((upstream, _, _), tally) in enumerate(list(self._hub.router.chains.recorder.tallies.items())):
            sent[upstream] += tally.sent
            for use in tally.hosts.values():
                got[upstream] += use.size
            if not number % TALLIES or len(tally.hosts) > TALLIES:
                yield None
        for upstream in filter(self._is_told, sent):
            yield ((UP, upstream), ("direction", "in")), sent[upstream]
            yield ((UP, upstream), ("direction", "out")), got[upstream]

    # --- upstreams

    def _tell_upstreams(self) -> Iterator[Family]:
        yield Family("hubd_upstream_state", "gauge", "1 for the state that a server is in.", self._states())
        gauges: tuple[tuple[str, str, Callable[[ManagedUpstream], int]], ...] = (
            ("hubd_upstream_sessions", "Open sessions with a server.", lambda up: sum(map(len, up.pools))),
            ("hubd_upstream_in_flight", "Messages that a server has not answered yet.", lambda up: up.in_flight),
            ("hubd_tools", "Tools that a server lists.", lambda up: len(up.snapshot.lists.get(Kind.TOOL, ()))),
            ("hubd_tools_tokens", "About how many tokens its tools take in a model's context.", self._tokens),
        )
        for name, text, read in gauges:
            yield Family(name, "gauge", text, self._each(read))
        counts = self._hub.counts
        text = "Sessions that were opened (ok), or could not be (error)."
        yield Family("hubd_upstream_connects_total", "counter", text, self._tell_counts(counts.connects, "outcome"))
        text = "Sessions that are over, by their cause."
        yield Family("hubd_upstream_ends_total", "counter", text, self._tell_counts(counts.ends, "cause"))
        text, name = "How long sessions with servers lasted.", "mcp_client_session_duration_seconds"
        lengths = self._tell_counts(counts.sessions, TRANSPORT)
        yield Family(name, "histogram", text, lengths, LEAST_OF_SESSIONS_S)
        text = "Questions of servers to models and people, by what became of them."
        questions = self._tell_counts(counts.questions, METHOD, "outcome")
        yield Family("hubd_questions_total", "counter", text, questions)

    def _each(self, read: Callable[[ManagedUpstream], int]) -> Iterator[Series]:
        for upstream in list(self._hub.supervisor.upstreams.values()):
            yield ((UP, upstream.name),), read(upstream)

    def _tell_counts(self, counts: Mapping[Any, int | Histogram], *names: str) -> Iterator[Series]:
        """Series of counts by upstream and more, of which `names` are the labels."""
        for (upstream, *values), count in list(counts.items()):
            if self._is_told(upstream):
                yield ((UP, upstream), *zip(names, values, strict=True)), count

    def _states(self) -> Iterator[Series]:
        for upstream in list(self._hub.supervisor.upstreams.values()):
            state = upstream.state
            for each in State:
                yield ((UP, upstream.name), ("state", each.value)), int(each is state)

    def _tokens(self, upstream: ManagedUpstream) -> int:
        cost = self._hub.live.cost_of(upstream.name)
        return 0 if cost is None else cost.tokens

    # --- hosts

    def _tell_hosts(self) -> Iterator[Family]:
        hosts = self._hub.hosts
        counts = dict.fromkeys(("tcp", "unix"), 0)
        questions = 0
        for host in hosts:
            counts[host.network] += 1
            questions += len(host.asking)
        series = [(((TRANSPORT, transport),), count) for transport, count in counts.items()]
        yield Family("hubd_hosts", "gauge", "Hosts with a session.", series)
        ended = [(((TRANSPORT, transport),), lengths) for transport, lengths in hosts.sessions.items()]
        text, name = "How long sessions of hosts lasted.", "mcp_server_session_duration_seconds"
        yield Family(name, "histogram", text, ended, LEAST_OF_SESSIONS_S)
        text = "Requests of hosts that are running."
        yield Family("hubd_requests_in_flight", "gauge", text, [((), hosts.requests.count)])
        text = "Questions of servers that wait for the answer of a host."
        questions += sum(map(self._hub.bridge.parking.calls_without_request, self._hub.supervisor.upstreams))
        yield Family("hubd_questions_pending", "gauge", text, [((), questions)])

    def _tell_cache(self) -> Iterator[Family]:
        memory, counts = self._hub.reads.memory, self._hub.reads.counters.total
        outcomes = {"hit": counts.hits, "miss": counts.misses, "stale": counts.stale, "shared": counts.coalesced}
        series = [((("outcome", outcome),), count) for outcome, count in outcomes.items()]
        yield Family("hubd_cache_reads_total", "counter", "Reads of resources, by what became of them.", series)
        yield Family("hubd_cache_bytes", "gauge", "Size of the cache.", [((), memory.bytes)])
        yield Family("hubd_cache_entries", "gauge", "Resources in the cache.", [((), len(memory))])

    # --- the hub

    def _tell_hub(self) -> Iterator[Family]:
        counts = {**DROPPED, "span": self._hub.tracing.dropped}
        dropped = [((("what", what),), count) for what, count in counts.items()]
        text = "What was not told to whoever reads too slowly."
        yield Family("hubd_dropped_total", "counter", text, dropped)
        series = [((("kind", kind),), count) for kind, count in self._inbox().items()]
        yield Family("hubd_inbox_items", "gauge", "Decisions that wait for a person.", series)
        reloads = [((("outcome", outcome),), count) for outcome, count in self._reloader.counts.items()]
        text = "Readings of the configuration after the first, by their outcome."
        yield Family("hubd_config_reloads_total", "counter", text, reloads)
        text = "1: the configuration is right; 0: the one before is in effect."
        yield Family("hubd_config_ok", "gauge", text, [((), int(self._reloader.problem is None))])
        text = "The longest time for which the hub stood still within the last minute."
        yield Family("hubd_loop_longest_seconds", "gauge", text, [((), self._watch.longest_lately_s())])

    def _inbox(self) -> dict[str, int]:
        items = find_items(self._hub, self._reloader.reasons_left_out())
        return {**dict.fromkeys(KINDS, 0), **Counter(item.kind for item in items)}
