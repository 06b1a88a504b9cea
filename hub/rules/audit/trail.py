"""AuditTrail: the stage that makes records of calls, for the audit log.

A call that may change something has two, `begin` and `end`. One that only reads, by what is said of its tool, has an
`end` that says all; reads of resources and prompts have it where `reads` of the configuration wants that. Each round of
a modern host is a call; where it ends with a question, the next one says which was the first.
"""

from typing import Final

from config.settings import UpstreamConfig
from hub.calls.chain import WAIT, Intent, Next, Outcome, Stage, Wait
from hub.catalog.tool_hints import marks_of
from hub.link.bounded_dict import BoundedDict
from hub.link.hub_errors import AuditUnavailable
from hub.link.sync_primitives import Promise
from hub.rules.audit.records import BEGIN, CLOCK, END, ERROR, LARGE_BYTES, NO_ARGUMENTS, Digested, Ending, sum_up
from hub.rules.audit.writer import READS, RECORD_BYTES, Audit
from hub.rules.policy.effects import UNRULED
from hub.rules.policy.verdicts import Judge
from hub.wire.jsonrpc import Reply, Result
from hub.wire.mcp import Kind, Snapshot

MAX_KNOWN: Final = 256
"""Upstreams of whose tools is known whether they only read."""
MAX_DIGESTS: Final = 1_024
REFUSED: Final = (
    "Not run: this hub writes down each call before it makes it, and cannot do so now. Ask the user to look at "
    "`hubd status`, then call again."
)


class AuditTrail(Stage):
    """Makes records of calls for `audit`. `judge`: None, as long as there are no rules."""

    def __init__(self, audit: Audit, judge: Judge | None = None) -> None:
        self.judge = judge
        self._audit = audit
        self._known: dict[str, tuple[Snapshot, UpstreamConfig, dict[str, bool]]] = {}
        """By upstream, of its tools that were called whether they only read."""
        self._digests: BoundedDict[int, Digested] = BoundedDict(MAX_DIGESTS)
        """What records say of large arguments of calls that run, by their refs: nobody digests a megabyte twice."""

    # Both methods call no function of ours for a plain call, since every call comes by.

    def admits(self, intent: Intent) -> Wait | None:
        audit, upstream = self._audit, intent.target.upstream
        config = upstream.config
        if intent.request.method in READS or ((config.trusted or config.hints) and self._only_reads(intent)):
            return None
        if audit.required:
            return WAIT
        verdict = UNRULED if self.judge is None else self.judge.judge_arguments(intent)
        held = memoryview(intent.operation.params.get("arguments", NO_ARGUMENTS)).nbytes
        digest = None
        if held > LARGE_BYTES:
            intent, digest, held = *audit.lighten(intent), 0
            self._digests.put(intent.ref, digest)
        audit.records.append((BEGIN, intent, verdict, upstream.offered.snapshot, digest, CLOCK(), None))
        audit.held += held
        audit.room -= RECORD_BYTES
        if audit.room < 0 or not audit.gathering:
            audit.press()
        return None

    def left(self, intent: Intent, outcome: Outcome) -> None:
        audit, upstream = self._audit, intent.target.upstream
        config, verdict, digest = upstream.config, None, None
        if intent.request.method in READS or ((config.trusted or config.hints) and self._only_reads(intent)):
            verdict = UNRULED if self.judge is None else self.judge.judge_arguments(intent)
        held = memoryview(intent.operation.params.get("arguments", NO_ARGUMENTS)).nbytes
        if held > LARGE_BYTES:
            intent, digest, held = *audit.lighten(intent, self._digests.pop(intent.ref, None)), 0
        ended: Ending | int
        if type(outcome) is Result and (size := memoryview(outcome.value).nbytes) <= LARGE_BYTES:
            ended = size if bytes(outcome.value).find(ERROR) < 0 else sum_up(outcome)
        else:
            ended = sum_up(outcome, is_stopping=audit.is_stopping)
        audit.records.append((END, intent, ended, CLOCK(), verdict, digest, None))
        if verdict is not None:  # else it is counted with its begin
            audit.held += held
        audit.room -= RECORD_BYTES
        if audit.room < 0 or not audit.gathering:
            audit.press()

    async def call(self, intent: Intent, next: Next) -> Reply:
        """Carry out a call once its `begin` is written.

        Raises:
            AuditUnavailable: it cannot be written, or as `Stage.call`.
        """
        upstream = intent.target.upstream
        outcome: Outcome = None
        verdict = UNRULED if self.judge is None else self.judge.judge_arguments(intent)
        try:
            if not await self._audit.write(
                (BEGIN, intent, verdict, upstream.offered.snapshot, None, CLOCK(), Promise())
            ):
                self._audit.note("refuse", **intent.facts(), kind=AuditUnavailable.kind)
                raise AuditUnavailable(REFUSED, upstream=upstream.name)
            outcome = await next(intent)
            return outcome
        except Exception as error:
            outcome = error
            raise
        finally:
            if not isinstance(outcome, AuditUnavailable):
                self.left(intent, outcome)
            del outcome  # a cycle: an error's traceback holds this frame

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
