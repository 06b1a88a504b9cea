"""Pipelines that a view shows, and what they say of themselves."""

import json

import pytest

from config.profile_settings import Pipeline, PipelineStep
from hub.catalog.merge_catalog import merge
from hub.catalog.pipelines import pipeline_tools
from hub.catalog.pipelines.pipeline_tools import annotations
from hub.catalog.uri_claims import UriClaims
from hub.catalog.visible_names import Rules, UpstreamRule
from hub.wire.jsonrpc import raw
from hub.wire.mcp import L4, Kind
from hub.wire.upstream_snapshot import Freshness, ListEntry, Snapshot

READS = {"readOnlyHint": True, "openWorldHint": False}
SAFE = {"readOnlyHint": False, "destructiveHint": False, "idempotentHint": True, "openWorldHint": False}


def of(*steps):
    found = annotations([{name: raw(value) for name, value in each.items()} for each in steps])
    return [name.removesuffix("Hint") for name, value in found.items() if value]


@pytest.mark.covers("EF-4")
@pytest.mark.parametrize(
    ("steps", "hints"),
    [
        ([READS], ["readOnly", "idempotent"]),
        ([READS, READS], ["readOnly", "idempotent"]),
        ([READS, SAFE], ["idempotent"]),
        ([READS, {}], ["destructive", "openWorld"]),
        ([SAFE, {**SAFE, "idempotentHint": False}], []),
        ([SAFE, {**SAFE, "openWorldHint": True}], ["idempotent", "openWorld"]),
        ([SAFE, {**SAFE, "destructiveHint": True}], ["destructive", "idempotent"]),
        ([{"readOnlyHint": "true"}], ["destructive", "openWorld"]),
        ([{"readOnlyHint": True}], ["readOnly", "idempotent", "openWorld"]),
    ],
)
def test_annotations_are_those_of_the_steps_and_unknown_is_the_worse(steps, hints):
    assert of(*steps) == hints


FIELDS = {"inputSchema": raw({"type": "object", "properties": {"path": {}}})}


def rules(**pipelines):
    return Rules((UpstreamRule("a"), UpstreamRule("b")), pipelines=pipelines, pipeline_s=9.0)


def a_pipeline(*tools, **more):
    steps = tuple(PipelineStep(id=f"s{n}", tool=tool) for n, tool in enumerate(tools))
    return Pipeline(description="D.", steps=steps, **more)


def lay_out_pipelines(its):
    """Of the servers a and b only a has tools, whatever they are called."""
    lists = dict.fromkeys(Kind, ()) | {
        Kind.TOOL: tuple(ListEntry(name, FIELDS) for name in ("x", "y", "longer", "longest"))
    }
    empty = dict.fromkeys(Kind, ())
    snapshots = [
        Snapshot(name, L4, {}, {}, "", its, dict.fromkeys(Kind, Freshness()), True)
        for name, its in (("a", lists), ("b", empty))
    ]
    catalog = merge(snapshots, its, UriClaims(), heard=frozenset("ab"))
    return list(catalog.pipelines.values()), list(catalog.hidden_pipelines.values()), catalog.warnings


@pytest.mark.covers("EF-1", "EF-2")
def test_those_whose_tools_are_there_are_shown():
    both = rules(one=a_pipeline("a__x", "a__y"), two=a_pipeline("a__x", "b__y", "b__z"))
    shown, hidden, warnings = lay_out_pipelines(both)
    assert [each.name for each in shown] == ["hub__one"]
    fields = {name: json.loads(bytes(value)) for name, value in shown[0].entry.fields.items()}
    assert fields["inputSchema"] == {"type": "object", "properties": {}, "additionalProperties": False}
    assert (shown[0].total_s, fields["description"]) == (9.0, "D.")
    assert [(route.upstream, route.original) for route in shown[0].routes] == [("a", "x"), ("a", "y")]
    lost = "step 2 of 3 (s1: b__y): there is no tool b__y; step 3 of 3 (s2: b__z): there is no tool b__z"
    assert [(each.name, each.tell()) for each in hidden] == [("hub__two", lost)]
    assert warnings == (f"pipeline two is not shown: {lost}",)


@pytest.mark.covers("EF-2")
def test_few_steps_are_told_and_only_names_that_may_be():
    many = rules(many=a_pipeline(*(f"a__{letter}" for letter in "stuvw")), near=a_pipeline("a__long"))
    _, [many, near], _ = lay_out_pipelines(many)
    assert many.tell().count("there is no tool") == 3
    assert near.tell().endswith("there is no tool a__long; did you mean a__longer or a__longest?")
    assert near.tell("a__longer".__eq__).endswith("there is no tool a__long; did you mean a__longer?")
    assert near.tell(lambda name: False).endswith("there is no tool a__long")


@pytest.mark.covers("EF-2")
def test_a_doubt_hides_nothing_and_is_told():
    steps = (PipelineStep(id="s", tool="a__x", args={"pth": 1}),)
    [shown], hidden, warnings = lay_out_pipelines(rules(one=Pipeline(description="D.", steps=steps)))
    assert (shown.name, hidden) == ("hub__one", [])
    assert warnings == ("pipeline one: step 1 of 1 (s: a__x): its tool has no argument 'pth'; did you mean 'path'?",)


@pytest.mark.covers("EF-2")
def test_a_schema_that_takes_too_long_to_check_hides_it():
    schema = {"type": "object", "properties": {"a": {"pattern": "(?=a)b"}}}
    shown, _, [warning] = lay_out_pipelines(rules(one=a_pipeline("a__x", input=schema)))
    assert shown == []
    assert warning.startswith("pipeline one is not shown: its input is not valid")


@pytest.mark.covers("EF-3")
def test_without_the_extra_none_is_shown(monkeypatch):
    monkeypatch.setattr(pipeline_tools, "HAS_SCHEMAS", False)
    shown, [hidden], warnings = lay_out_pipelines(rules(one=a_pipeline("a__x")))
    assert (shown, warnings) == ([], ())  # of which the configuration warns
    assert hidden.tell().startswith("checking its input needs the extra `schema`")
