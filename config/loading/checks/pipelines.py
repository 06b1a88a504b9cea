"""Checks of `[pipelines.NAME]`, beyond types. Pure.

Everything that a pipeline makes the hub do for a call is bounded here. Whether its tools are there is known to the
catalogue only.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, Final

from config.diagnostics import Problem, needs_extra
from config.loading.checks.json_schemas import HAS_SCHEMAS, BadSchema, compile_schema
from config.loading.checks.profiles import HUB_TOOLS, MAX_DESCRIPTION_BYTES, MAX_QUOTED, find_names_of_nobody
from config.loading.pipeline_references import INPUT, BadReference, StepReference, split_text
from config.name_globs import MAX_CHARS
from config.profile_settings import Pipeline, PipelineStep
from config.secret_references import json_size, texts_in
from config.settings import UpstreamConfig

PIPELINE_NAME: Final = re.compile(r"[a-z][a-z0-9_]{0,39}")
STEP_ID: Final = re.compile(r"[a-z][a-z0-9_]{0,31}")
TAKEN: Final = frozenset(
    {"find_tools", "call_tool", "call_read_only_tool", "read_result", "list_resources", "read_resource"}
)
"""Names of other tools of the hub's own."""
MAX_PIPELINES: Final = 64
MAX_STEPS: Final = 16
MAX_ARGS_BYTES: Final = 64 << 10
MAX_SCHEMA_BYTES: Final = 64 << 10
_OPEN: Final = frozenset({"$ref", "allOf", "anyOf", "oneOf", "additionalProperties", "patternProperties"})
"""Keywords of a schema that allow arguments which it does not name."""


def problems_of_pipelines(pipelines: Mapping[str, Pipeline]) -> Iterator[Problem]:
    """Problems of all pipelines."""
    if len(pipelines) > MAX_PIPELINES:
        yield Problem("pipelines", f"there are {len(pipelines)} pipelines, and {MAX_PIPELINES} are the most")
        return
    for name, pipeline in pipelines.items():
        keys = ("pipelines", name)
        if not PIPELINE_NAME.fullmatch(name):
            text = "lower-case letters, digits and underscores, a letter first, at most 40"
            yield Problem(keys, f"cannot be the name of a pipeline: {text}")
        if name in TAKEN:
            yield Problem(keys, f"{HUB_TOOLS}{name} is another tool of the hub's own; take another name")
        yield from (problem.below(*keys) for problem in _problems_of(pipeline))


def warnings_of_pipelines(pipelines: Mapping[str, Pipeline]) -> Iterator[Problem]:
    """Warnings about pipelines."""
    if pipelines and not HAS_SCHEMAS:
        yield Problem("pipelines", f"checking their input {needs_extra('schema')}; none is shown without")


def warnings_of_steps(pipelines: Mapping[str, Pipeline], servers: Mapping[str, UpstreamConfig]) -> Iterator[Problem]:
    """Warnings about steps whose tools no server can have; `servers` are all of the user's, be they disabled or left
    out."""
    find_lost = find_names_of_nobody(servers)
    has_bare = any(server.prefix == "" for server in servers.values())
    for name, pipeline in pipelines.items():
        for number, step in enumerate(pipeline.steps):
            keys = ("pipelines", name, "steps", str(number), "tool")
            if lost := find_lost([step.tool]):
                yield Problem(keys, lost)
            elif "__" not in step.tool and not has_bare:
                text = f"tools are called SERVER__TOOL, and {step.tool[:MAX_QUOTED]!r} names no server"
                yield Problem(keys, text)


def _problems_of(pipeline: Pipeline) -> Iterator[Problem]:
    if not pipeline.description:
        yield Problem("description", "says nothing, and a model chooses tools by it: write what the pipeline is for")
    elif len(pipeline.description.encode(errors="replace")) > MAX_DESCRIPTION_BYTES:
        yield Problem("description", f"takes more than {MAX_DESCRIPTION_BYTES} bytes")
    yield from _problems_of_schema(pipeline.input)
    if not 0 < len(pipeline.steps) <= MAX_STEPS:
        yield Problem("steps", f"has {len(pipeline.steps)} steps; a pipeline has 1 to {MAX_STEPS}")
        return
    before: list[str] = []
    for number, step in enumerate(pipeline.steps):
        for problem in _problems_of_step(step, before, pipeline.input):
            yield problem.below("steps", str(number))
        before.append(step.id)


def _problems_of_schema(schema: Mapping[str, Any]) -> Iterator[Problem]:
    if not schema:
        return
    size = json_size(schema)
    if size is None or size > MAX_SCHEMA_BYTES:
        yield Problem("input", f"is no JSON Schema of at most {MAX_SCHEMA_BYTES} bytes")
    elif schema.get("type") != "object":
        yield Problem("input", 'describes the arguments of a tool, which are an object: write type = "object"')
    elif HAS_SCHEMAS:
        try:
            compile_schema(dict(schema))
        except BadSchema as error:
            yield Problem("input", f"is no JSON Schema that can be used: {str(error)[:200]}")


def _problems_of_step(step: PipelineStep, before: Sequence[str], schema: Mapping[str, Any]) -> Iterator[Problem]:
    if not STEP_ID.fullmatch(step.id):
        yield Problem("id", "a step needs an id: lower-case letters, digits and underscores, a letter first")
    elif step.id == INPUT:
        yield Problem("id", '"input" means the arguments of the pipeline; take another id')
    elif step.id in before:
        yield Problem("id", "another step has this id; give each its own")
    if not 0 < len(step.tool) <= MAX_CHARS:
        yield Problem("tool", 'a step needs the visible name of a tool, such as "github__get_issue"')
    elif step.tool.startswith(HUB_TOOLS):
        yield Problem("tool", "a step calls a tool of a server, and no pipeline or other tool of the hub's own")
    size = json_size(step.args)
    if size is None or size > MAX_ARGS_BYTES:
        yield Problem("args", f"is no value that JSON can hold in {MAX_ARGS_BYTES} bytes")
        return
    for text in texts_in(step.args):
        try:
            parts = split_text(text)
        except BadReference as error:
            yield Problem("args", str(error))
            continue
        for part in parts:
            if isinstance(part, StepReference) and (why := _flaw_in_reference(part, before, schema)):
                yield Problem("args", f"`{str(part)[:MAX_QUOTED]}` {why}")


def _flaw_in_reference(reference: StepReference, before: Sequence[str], schema: Mapping[str, Any]) -> str:
    """The reason why a reference leads nowhere; "": it may lead somewhere."""
    if reference.root != INPUT:
        if reference.root in before:
            return ""
        near = get_close_matches(reference.root, [*before, INPUT], 1)
        return "leads to no earlier step" + (f"; did you mean {near[0]}?" if near else "")
    known = schema.get("properties", {})
    is_open = schema and ("properties" not in schema or not isinstance(known, dict) or not _OPEN.isdisjoint(schema))
    if is_open or not reference.path or reference.path[0] in known:
        return ""
    near = get_close_matches(reference.path[0], list(known), 1)
    return f"leads to no argument that `input` describes{f'; did you mean {near[0]}?' if near else ''}"
