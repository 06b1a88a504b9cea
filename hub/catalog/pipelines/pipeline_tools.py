"""Pipelines as the hosts of a view see them: a tool of the hub's own for each whose tools are all there. Pure.

What a pipeline says of itself is derived from its tools: it only reads if all of them do, and may do harm if any of
them may. A hint that is missing means the worst.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from typing import Final, Self

from msgspec import Raw, Struct, structs

from config.diagnostics import needs_extra
from config.loading.checks.json_schemas import HAS_SCHEMAS
from config.profile_settings import Pipeline
from hub.catalog.pipelines.tools_of_steps import StepFlaw, ToolsOfSteps, find_misfits
from hub.catalog.upstream_entries import Route
from hub.catalog.visible_names import Rules
from hub.wire.jsonrpc import encode, peek_object, raw
from hub.wire.mcp import HUB_POLICY, HUB_TOOLS
from hub.wire.upstream_snapshot import ListEntry
from upstreams.inventory.compiled_schemas import ToolSchema, Uncheckable

MAX_TOLD: Final = 3
"""Steps of a pipeline that warnings tell of."""
NO_INPUT: Final = {"type": "object", "properties": {}, "additionalProperties": False}
_TRUE: Final = raw(True)
_FALSE: Final = raw(False)


class ShownPipeline(Struct, frozen=True, eq=False):
    """A pipeline that hosts are shown."""

    name: str
    """As hosts call it."""
    pipeline: Pipeline
    entry: ListEntry
    schema: ToolSchema
    """The schema of its arguments, compiled."""
    total_s: float
    """Time for all its steps together."""
    routes: tuple[Route, ...] = ()
    """The way to the tool of each step."""
    doubts: tuple[StepFlaw, ...] = ()
    """Steps that will probably fail."""

    def mark_as_asking(self) -> Self:
        """The same; hosts are told that a person is asked before a step, or the whole, is carried out."""
        fields = {**self.entry.fields, "_meta": raw({HUB_POLICY: "ask"})}
        return structs.replace(self, entry=ListEntry(self.name, fields))


class HiddenPipeline(Struct, frozen=True):
    """A pipeline that no host is shown, and why."""

    name: str
    """As hosts would call it."""
    pipeline: Pipeline
    routes: tuple[Route, ...] = ()
    """The way to the tool of each step, be it there or not."""
    flaws: tuple[StepFlaw, ...] = ()
    """Steps whose tools are not there."""
    why: str = ""
    """Another reason, as a clause."""

    def tell(self, may_tell: Callable[[str], bool] = lambda name: True) -> str:
        """The reason, in one line. `may_tell`: tells the names of tools that may be told."""
        told = [flaw.tell(filter(may_tell, flaw.near)) for flaw in self.flaws[:MAX_TOLD]]
        return "; ".join([*told, *([self.why] if self.why else [])])


AnyPipeline = ShownPipeline | HiddenPipeline


def lay_out(rules: Rules, tools: ToolsOfSteps) -> tuple[list[ShownPipeline], list[HiddenPipeline]]:
    """The pipelines whose tools are all there, and the others."""
    shown: list[ShownPipeline] = []
    hidden: list[HiddenPipeline] = []
    for name, pipeline in rules.pipelines.items():
        visible = HUB_TOOLS + name
        found = [tools.find(step.tool) for step in pipeline.steps]
        there = [tool for tool in found if tool is not None]
        schema = encode(pipeline.input or NO_INPUT)
        compiled = _compile(schema) if HAS_SCHEMAS else f"checking its input {needs_extra('schema')}"
        if len(there) < len(found) or isinstance(compiled, str):
            missing = [at for at, tool in enumerate(found) if tool is None]
            why = compiled if isinstance(compiled, str) else ""
            flaws = tuple(tools.explain_missing(pipeline, at) for at in missing)
            steps = zip(found, pipeline.steps, strict=True)
            ways = tuple(tools.way_to(step.tool) if tool is None else tool.route for tool, step in steps)
            hidden.append(HiddenPipeline(visible, pipeline, ways, flaws, why))
            continue
        fields = {"name": raw(visible), "description": raw(pipeline.description), "inputSchema": Raw(schema)}
        fields["annotations"] = raw(annotations([peek_object(tool.entry.fields.get("annotations")) for tool in there]))
        schemas = (tool.entry.fields.get("inputSchema") for tool in there)
        doubts = (flaw for at, schema in enumerate(schemas) for flaw in find_misfits(pipeline, at, schema))
        about = ListEntry(visible, fields), compiled, rules.pipeline_s
        routes = tuple(tool.route for tool in there)
        shown.append(ShownPipeline(visible, pipeline, *about, routes, tuple(islice(doubts, MAX_TOLD))))
    return shown, hidden


def warn_of(shown: Iterable[ShownPipeline], hidden: Iterable[HiddenPipeline]) -> Iterator[str]:
    """Sentences for the operator, but for what the configuration warns of: names of no server, and the extra `schema`
    that is not there."""
    for lost in hidden if HAS_SCHEMAS else ():
        if lost.why or any(not flaw.is_of_nobody for flaw in lost.flaws):
            yield f"pipeline {lost.name.removeprefix(HUB_TOOLS)} is not shown: {lost.tell()}"
    for each in shown:
        yield from (f"pipeline {each.name.removeprefix(HUB_TOOLS)}: {doubt.tell()}" for doubt in each.doubts)


def annotations(steps: Sequence[Mapping[str, Raw]]) -> dict[str, bool]:
    """The annotations of a pipeline, by those of its tools."""
    reads = [step for step in steps if step.get("readOnlyHint") == _TRUE]
    writes = [step for step in steps if step.get("readOnlyHint") != _TRUE]
    return {
        "readOnlyHint": len(reads) == len(steps),
        "destructiveHint": any(step.get("destructiveHint") != _FALSE for step in writes),
        "idempotentHint": all(step.get("idempotentHint") == _TRUE for step in writes),
        "openWorldHint": any(step.get("openWorldHint") != _FALSE for step in steps),
    }


@lru_cache(maxsize=256)
def _compile(schema: bytes) -> ToolSchema | str:
    """A schema, compiled; the reason why it cannot be."""
    try:
        return ToolSchema(Raw(schema))
    except Uncheckable as error:
        return f"its input {error}"
