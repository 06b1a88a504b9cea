"""Tools of the steps of pipelines: why one is not there, and what is wrong with the arguments of another."""

import pytest

from config.profile_settings import Pipeline, PipelineStep
from hub.catalog.merge_catalog import merge
from hub.catalog.pipelines.tools_of_steps import find_misfits
from hub.catalog.uri_claims import UriClaims
from hub.catalog.visible_names import Rules, UpstreamRule
from hub.wire.jsonrpc import raw
from hub.wire.mcp import L4, Kind
from hub.wire.upstream_snapshot import Freshness, ListEntry, Snapshot


def tell(tool, *servers, heard=("files",), left_out=()):
    """The reason why a pipeline with this tool is not shown, and the warnings."""
    names = "write_file", "z"
    tools = tuple(ListEntry(name, {"inputSchema": raw({"type": "object"})}) for name in names)
    lists = dict.fromkeys(Kind, ()) | {Kind.TOOL: tools}
    snapshot = Snapshot("files", L4, {}, {}, "", lists, dict.fromkeys(Kind, Freshness()), True)
    pipelines = {"p": Pipeline(description="P.", steps=(PipelineStep(id="s", tool=tool),))}
    rules = Rules((UpstreamRule("files", aliases=("docs",)), *servers), left_out, pipelines=pipelines)
    catalog = merge([snapshot], rules, UriClaims(), heard=frozenset(heard))
    if not catalog.hidden_pipelines:
        return "", catalog.warnings
    start = f"step 1 of 1 (s: {tool}): "
    told = catalog.hidden_pipelines["hub__p"].tell()
    assert told.startswith(start)
    return told.removeprefix(start), catalog.warnings


@pytest.mark.covers("EF-2")
def test_the_reason_names_what_is_missing_and_what_is_near():
    assert tell("files__write_file") == ("", ())
    assert tell("docs__write_file") == ("", ())
    told = "there is no tool files__write_fil; did you mean files__write_file?"
    assert tell("files__write_fil") == (told, (f"pipeline p is not shown: step 1 of 1 (s: files__write_fil): {told}",))
    assert tell("docs__write_fil")[0].startswith("there is no tool docs__write_fil")
    unheard = "its server slow has not said what tools it has, as `hubd status` tells"
    assert tell("slow__x", UpstreamRule("slow"))[0] == unheard
    lost = "its server lost is not started, as `hubd status` tells"
    assert tell("lost__x", left_out=(UpstreamRule("lost"),))[0] == lost


@pytest.mark.covers("EF-2")
def test_of_a_name_of_no_server_the_configuration_warns():
    assert tell("fils__write_file") == ("no server is called fils; did you mean files__write_file?", ())
    assert tell("write_file") == ("tools are called SERVER__TOOL", ())
    bare = UpstreamRule("bare", prefix="")
    assert tell("write_file", bare)[0] == "its server bare has not said what tools it has, as `hubd status` tells"


def misfits(schema, **args):
    pipeline = Pipeline(description="P.", steps=(PipelineStep(id="s", tool="files__write", args=args),))
    start = "step 1 of 1 (s: files__write): "
    return [each.tell().removeprefix(start) for each in find_misfits(pipeline, 0, raw(schema))]


@pytest.mark.covers("EF-2")
def test_arguments_that_a_tool_does_not_have_or_requires():
    schema = {"type": "object", "properties": {"path": {}, "content": {}}, "required": ["path", 3]}
    assert misfits(schema, path="x", content="y") == []
    assert misfits(schema, pth="x") == [
        "its tool has no argument 'pth'; did you mean 'path'?",
        "its tool requires the argument 'path', which it is not given",
    ]
    assert misfits({**schema, "additionalProperties": False}, path=1, zzz=2) == ["its tool has no argument 'zzz'"]
    assert misfits({"type": "object", "properties": {}}, path=1) == ["its tool has no argument 'path'"]


@pytest.mark.covers("EF-2")
@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"type": "object"},
        {"properties": {}, "additionalProperties": True},
        {"properties": {}, "additionalProperties": {"type": "string"}},
        {"properties": {}, "patternProperties": {"^p": {}}},
        {"properties": {}, "allOf": [{"properties": {"path": {}}}]},
        {"properties": {}, "$ref": "#/$defs/a"},
        {"properties": 3, "anyOf": []},
        [],
    ],
)
def test_a_schema_that_may_take_more_is_not_doubted(schema):
    assert misfits(schema, path=1) == []
