"""Pipelines that a view shows, and what they say of themselves."""

import json

import pytest

from config.profile_settings import Pipeline, PipelineStep
from hub.catalog import pipeline_tools
from hub.catalog.pipeline_tools import annotations, show_pipelines
from hub.catalog.upstream_entries import VisibleEntry
from hub.catalog.visible_names import Rules
from hub.wire.jsonrpc import raw

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


def rules(**pipelines):
    return Rules((), pipelines=pipelines, pipeline_s=9.0)


def a_pipeline(*tools, **more):
    steps = tuple(PipelineStep(id=f"s{n}", tool=tool) for n, tool in enumerate(tools))
    return Pipeline(description="D.", steps=steps, **more)


def entry(visible):
    return VisibleEntry(visible, visible, {"name": raw(visible)}) if visible.startswith("a__") else None


@pytest.mark.covers("EF-1", "EF-2")
def test_those_whose_tools_are_there_are_shown():
    both = rules(one=a_pipeline("a__x", "a__y"), two=a_pipeline("a__x", "b__y", "b__z"))
    shown, warnings = show_pipelines(both, entry, warns=True)
    assert [each.name for each in shown] == ["hub__one"]
    fields = {name: json.loads(bytes(value)) for name, value in shown[0].entry.fields.items()}
    assert fields["inputSchema"] == {"type": "object", "properties": {}, "additionalProperties": False}
    assert (shown[0].total_s, fields["description"]) == (9.0, "D.")
    missing = "there are no tools b__y, b__z; `hubd tools` lists those that there are"
    assert warnings == [f"pipeline two is not shown, since {missing}"]
    assert show_pipelines(both, entry, warns=False)[1] == []


@pytest.mark.covers("EF-2")
def test_a_schema_that_takes_too_long_to_check_hides_it():
    schema = {"type": "object", "properties": {"a": {"pattern": "(?=a)b"}}}
    shown, [warning] = show_pipelines(rules(one=a_pipeline("a__x", input=schema)), entry, warns=False)
    assert shown == []
    assert warning.startswith("pipeline one is not shown, since its input is not valid")


@pytest.mark.covers("EF-3")
def test_without_the_extra_none_is_shown(monkeypatch):
    monkeypatch.setattr(pipeline_tools, "HAS_SCHEMAS", False)
    assert show_pipelines(rules(one=a_pipeline("a__x")), entry, warns=True) == ([], [])
