"""Pipelines as the hosts of a view see them: a tool of the hub's own for each whose tools are all there. Pure.

What a pipeline says of itself is derived from its tools: it only reads if all of them do, and may do harm if any of
them may. A hint that is missing means the worst.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Final

from msgspec import Raw, Struct

from config.loading.checks.json_schemas import HAS_SCHEMAS
from config.profile_settings import Pipeline
from hub.catalog.upstream_entries import VisibleEntry
from hub.catalog.visible_names import Rules, join_some
from hub.wire.jsonrpc import encode, peek_object, raw
from hub.wire.mcp import HUB_TOOLS
from hub.wire.upstream_snapshot import ListEntry
from upstreams.inventory.compiled_schemas import ToolSchema, Uncheckable

MAX_TOLD: Final = 3
"""Tools that a warning names."""
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


def show_pipelines(
    rules: Rules, find: Callable[[str], VisibleEntry | None], *, warns: bool
) -> tuple[list[ShownPipeline], list[str]]:
    """The pipelines whose tools `find` finds, by visible name; and warnings about others, if all servers have had their
    time to say what they offer. Without the extra `schema` there are none: the configuration warns of that."""
    shown: list[ShownPipeline] = []
    warnings: list[str] = []
    for name, pipeline in rules.pipelines.items() if HAS_SCHEMAS else ():
        found = {step.tool: find(step.tool) for step in pipeline.steps}
        tools = [tool for tool in found.values() if tool is not None]
        if len(tools) < len(found):
            missing = [tool for tool, entry in found.items() if entry is None]
            there = "there is no tool" if len(missing) == 1 else "there are no tools"
            text = f"pipeline {name} is not shown, since {there} {join_some(missing, MAX_TOLD)}"
            warnings += [f"{text}; `hubd tools` lists those that there are"] if warns else []
            continue
        schema = encode(pipeline.input or NO_INPUT)
        compiled = _compile(schema)
        if isinstance(compiled, str):
            warnings.append(f"pipeline {name} is not shown, since its input {compiled}")
            continue
        visible = HUB_TOOLS + name
        fields = {"name": raw(visible), "description": raw(pipeline.description), "inputSchema": Raw(schema)}
        fields["annotations"] = raw(annotations([peek_object(tool.fields.get("annotations")) for tool in tools]))
        shown.append(ShownPipeline(visible, pipeline, ListEntry(visible, fields), compiled, rules.pipeline_s))
    return shown, warnings


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
        return str(error)
