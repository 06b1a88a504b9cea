"""Schemas: arguments that do not fit a tool's input schema are not sent, and results that do not fit its output schema
are refused, for servers that are configured so (`validate`, `validate_output`).

A schema is compiled once, when it is first needed. One that cannot be is not checked by, and `hubd status` says so.
What was checked is what is sent: arguments are written anew, if their bytes could be read in another way.
"""

from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec import Raw

from config.settings import UpstreamConfig
from hub.calls.chain import WAIT, Intent, Next, Stage, Wait
from hub.link.call_interface import Interim, Operation
from hub.link.hub_errors import Executed, InvalidArguments, UpstreamProtocolError
from hub.rules.policy.judge import Note
from hub.wire.jsonrpc import Reply, Result, peek_object, raw
from hub.wire.mcp import Kind
from hub.wire.printable import printable
from hub.wire.upstream_snapshot import ListEntry, Snapshot
from upstreams.inventory.compiled_schemas import ToolSchema, Uncheckable
from upstreams.upstream import ManagedUpstream

INPUT: Final = "inputSchema"
OUTPUT: Final = "outputSchema"
NOTHING: Final = Raw(b"{}")
_TRUE: Final = Raw(b"true")


class SchemaChecks:
    """The checks of a hub. `note`: where refusals are noted."""

    def __init__(self, note: Note) -> None:
        self._note = note
        self.stages: dict[str, Stage] = {}
        """The stage of each upstream whose tools are checked, by its name."""
        self._known: dict[str, SchemaCheck] = {}
        """Beside these, those of upstreams of which only arguments are checked that were rewritten here."""

    def adjust(self, configs: Mapping[str, UpstreamConfig]) -> None:
        """Take over the configurations of all upstreams, by name."""
        self._known = {name: each for name, each in self._known.items() if name in configs}
        self.stages.clear()
        self.stages.update((name, self._of(name)) for name, config in configs.items() if config.checked_schemas)

    def _of(self, name: str) -> "SchemaCheck":
        return self._known.setdefault(name, SchemaCheck(self._note))

    def check(self, intent: Intent) -> Operation:
        """The operation of an intent as it is to be sent, of any upstream. Raises InvalidArguments."""
        return self._of(intent.target.upstream.name).refuse_misfits(intent)

    def find_unchecked(self, upstream: ManagedUpstream) -> tuple[str, ...]:
        """The tools of an upstream by whose schemas nothing can be checked, each with the reason."""
        return self._of(upstream.name).find_unchecked(upstream) if upstream.name in self.stages else ()


class SchemaCheck(Stage):
    """Checks calls of the tools of one upstream."""

    def __init__(self, note: Note) -> None:
        self._note = note
        self._snapshot: Snapshot | None = None
        self._tools: dict[str, ListEntry] = {}
        self._compiled: dict[bytes, ToolSchema | str] = {}
        """By the bytes of the schema; in place of one that cannot be compiled the reason."""

    def admits(self, intent: Intent) -> Wait | None:
        checked = intent.target.upstream.config.checked_schemas
        if OUTPUT in checked and self._find(intent, OUTPUT) is not None:
            return WAIT
        if INPUT not in checked:
            return None
        try:
            is_same = self.check_arguments(intent) is intent.operation
        except InvalidArguments:  # it is told in `call`
            return WAIT
        return None if is_same else WAIT

    async def call(self, intent: Intent, next: Next) -> Reply:
        checked = intent.target.upstream.config.checked_schemas
        operation = self.refuse_misfits(intent) if INPUT in checked else intent.operation
        reply = await intent.send(next, operation, intent.exchange)
        if OUTPUT in checked and isinstance(reply, Result) and not isinstance(reply, Interim):
            self._check_result(intent, reply)
        return reply

    def refuse_misfits(self, intent: Intent) -> Operation:
        """As `check_arguments`; a refusal is written down."""
        try:
            return self.check_arguments(intent)
        except InvalidArguments as error:
            self._note("refuse", **intent.facts(), kind=error.kind)
            raise

    def check_arguments(self, intent: Intent) -> Operation:
        """The operation as it is to be sent. Raises InvalidArguments."""
        operation = intent.operation
        if (schema := self._find(intent, INPUT)) is None:
            return operation
        sent = operation.params.get("arguments", NOTHING)
        try:
            value = msgspec.json.decode(sent)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
            raise _misfit(intent, ["/: holds what cannot be read, such as a number that is too large"]) from None
        if lines := schema.misfits(value):
            raise _misfit(intent, lines)
        written = raw(value)
        if "arguments" not in operation.params or written == sent:
            return operation
        return operation.with_arguments(written)

    def _check_result(self, intent: Intent, reply: Result) -> None:
        """Raises UpstreamProtocolError: the result is not what the tool promised."""
        members = peek_object(reply.value)
        schema = self._find(intent, OUTPUT)
        if "content" not in members or members.get("isError") == _TRUE or schema is None:
            return
        lines = ["/: there is no structuredContent"]
        if "structuredContent" in members:
            lines = schema.misfits(msgspec.json.decode(members["structuredContent"]))
        if lines:
            name = intent.target.upstream.name
            text = f"The result of {intent.target.exposed} does not fit its outputSchema:\n" + "\n".join(lines)
            raise UpstreamProtocolError(text, upstream=name, executed=Executed.YES)

    # --- schemas ------------------------------------------------------------------------------------------------------

    def _find(self, intent: Intent, which: str) -> ToolSchema | None:
        """The schema of the tool that is called; None: it has none, or none that can be checked by."""
        self._look_at(intent.target.upstream)
        tool = self._tools.get(intent.target.route.original)
        found = None if tool is None else self._compile(tool, which)
        return found if isinstance(found, ToolSchema) else None

    def _look_at(self, upstream: ManagedUpstream) -> None:
        if (snapshot := upstream.snapshot) is not self._snapshot:
            self._snapshot = snapshot
            self._tools = {tool.key: tool for tool in snapshot.lists.get(Kind.TOOL, ())}
            fields = [tool.fields for tool in self._tools.values()]
            known = {bytes(its[which]) for its in fields for which in (INPUT, OUTPUT) if which in its}
            self._compiled = {data: each for data, each in self._compiled.items() if data in known}

    def _compile(self, tool: ListEntry, which: str) -> ToolSchema | str | None:
        """A schema of a tool; the reason why it cannot be checked by; None: the tool has none."""
        if (schema := tool.fields.get(which)) is None:
            return None
        if (found := self._compiled.get(data := bytes(schema))) is None:
            try:
                found = ToolSchema(schema)
            except Uncheckable as error:
                found = str(error)
            self._compiled[data] = found
        return found

    def find_unchecked(self, upstream: ManagedUpstream) -> tuple[str, ...]:
        """See `SchemaChecks.find_unchecked`."""
        self._look_at(upstream)
        found = ((tool, which) for tool in self._tools.values() for which in upstream.config.checked_schemas)
        reasons = ((tool.key, which, self._compile(tool, which)) for tool, which in found)
        return tuple(f"{printable(key)}: its {which} {why}" for key, which, why in reasons if isinstance(why, str))


def _misfit(intent: Intent, lines: list[str]) -> InvalidArguments:
    first = f"The arguments do not fit the input schema of {intent.target.exposed}. Nothing was executed."
    return InvalidArguments("\n".join([first, *lines]), upstream=intent.target.upstream.name)
