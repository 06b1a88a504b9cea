"""AuditTrail: the stage that makes records of calls, for the audit log.

A call that may change something has two, `begin` and `end`. One that only reads, by what is said of its tool, has an
`end` that says all; reads of resources and prompts have it where `reads` of the configuration wants that. Each round of
a modern host is a call; where it ends with a question, the next one says which was the first.
"""

from typing import Final

from config.settings import UpstreamConfig
from hub.bridge.sealed_request_state import state_of
from hub.calls.chain import WAIT, Intent, Next, Stage, Wait
from hub.catalog.tool_annotations import marks_of
from hub.link.call_interface import NO_ARGUMENTS, Identity
from hub.link.hub_errors import AuditUnavailable
from hub.link.sync_primitives import Promise
from hub.rules.audit.records import BEGIN, CLOCK, LARGE_BYTES, Beginning, CallFacts
from hub.rules.audit.writer import READS, RECORD_BYTES, Audit
from hub.rules.policy.judge import Judge
from hub.rules.policy.verdict import UNRULED
from hub.wire.jsonrpc import Reply
from hub.wire.mcp import Kind
from hub.wire.upstream_snapshot import Snapshot

MAX_KNOWN: Final = 256
"""Upstreams of whose tools is known whether they only read."""
MAX_FACTS: Final = 4_096
"""Tools, by host, of whose calls is kept what they have in common."""
REFUSED: Final = (
    "Not run: this hub writes down each call before it makes it, and cannot do so now. Ask the user to look at "
    "`hubd status`, then call again."
)


class AuditTrail(Stage):
    """Has calls written down by `audit` as they begin; it hears of their ends itself. `judge`: None, as long as there
    are no rules."""

    def __init__(self, audit: Audit, judge: Judge | None = None) -> None:
        self.judge = judge
        self._audit = audit
        self._known: dict[str, tuple[Snapshot, UpstreamConfig, dict[str, bool]]] = {}
        """By upstream, of its tools that were called whether they only read."""
        self._facts: dict[tuple[str, str, str, Identity, str], CallFacts] = {}
        """By upstream, the name for hosts, method, host and rule."""

    def admits(self, intent: Intent) -> Wait | None:
        # Calls no function of ours for a plain call but one, since every call comes by.
        audit, config = self._audit, intent.target.upstream.config
        if intent.request.method in READS or ((config.trusted or config.hints) and self._only_reads(intent)):
            audit.open[intent.ref] = self._begin(intent)
            return None
        if audit.required:
            return WAIT
        begun = self._begin(intent)
        audit.open[intent.ref] = begun.at
        audit.records.append((BEGIN, begun, None))
        if begun.arguments is not None:
            audit.held += begun.size
            audit.room -= begun.size
        audit.room -= RECORD_BYTES
        if audit.room < 0 or not audit.gathering:
            audit.press()
        return None

    def _begin(self, intent: Intent) -> Beginning:
        target, audit, first = intent.target, self._audit, intent.first
        method, who = intent.request.method, intent.host.caller.identity
        upstream, kind, own = target.upstream, target.kind, target.route.original
        config, snapshot = upstream.config, upstream.offered.snapshot
        its = (
            intent.operation.params.get("arguments", NO_ARGUMENTS) if kind is not None else own.encode(errors="replace")
        )
        digest = audit.digest.copy()
        digest.update(its)
        if not first.ref and "requestState" in intent.request.params:
            first = audit.find_first(state_of(intent.request) or "")
        verdict = UNRULED if self.judge is None else self.judge.judge_arguments(intent)
        key = upstream.name, target.exposed, method, who, verdict.rule
        facts = self._facts.get(key)
        if facts is None or facts.snapshot is not snapshot or facts.generation != audit.generation:
            if facts is not None or len(self._facts) >= MAX_FACTS:  # nor are lists kept that no upstream has any more
                self._facts.clear()
            facts = CallFacts(audit.generation, method, kind, target.exposed, own, config, snapshot, who, verdict)
            self._facts[key] = facts
        size = memoryview(its).nbytes
        wanted = config.arguments == "full" and kind is not None and size <= LARGE_BYTES
        return Beginning(intent.ref, CLOCK(), facts, digest.digest(), size, first, its if wanted else None)

    async def call(self, intent: Intent, next: Next) -> Reply:
        """Carry out a call once its `begin` is written.

        Raises:
            AuditUnavailable: it cannot be written, or as `Stage.call`.
        """
        begun = self._begin(intent)
        self._audit.open[intent.ref] = begun.at
        if not await self._audit.write((BEGIN, begun, Promise())):
            del self._audit.open[intent.ref]
            self._audit.note("refuse", **intent.facts(), kind=AuditUnavailable.kind)
            raise AuditUnavailable(REFUSED, upstream=intent.target.upstream.name)
        return await next(intent)

    def _only_reads(self, intent: Intent) -> bool:
        """True if it is believed of the tool that it changes nothing."""
        target, snapshot, config = intent.target, intent.target.upstream.snapshot, intent.target.upstream.config
        *found, known = self._known.get(snapshot.upstream, (None, None, {}))
        if found[0] is not snapshot or found[1] is not config:
            if len(self._known) >= MAX_KNOWN:
                self._known.clear()
            known = {}
            self._known[snapshot.upstream] = snapshot, config, known
        tool = target.route.original
        if tool not in known:
            entry = snapshot.find(Kind.TOOL, tool) if target.kind is Kind.TOOL else None
            hints = tuple(config.hints.items())
            known[tool] = entry is not None and "read-only" in marks_of(
                entry.fields, tool, hints, trusted=config.trusted
            )
        return known[tool]
