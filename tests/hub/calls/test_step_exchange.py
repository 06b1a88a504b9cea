"""What one step of a pipeline reports and asks goes by the call of the pipeline."""

import json

import pytest

from hub.calls.host_exchange import HostExchange
from hub.calls.step_exchange import StepExchange
from hub.catalog.endpoint_views import EVERYTHING, profile_view
from hub.link.call_interface import Caller, Identity
from hub.wire.jsonrpc import Failure, raw
from hub.wire.mcp import L4, MODERN
from hub.wire.questions.askable_questions import Question


class Whole(HostExchange):
    """The call of a pipeline, which keeps what it is told."""

    __slots__ = ("told",)

    def __init__(self, version=L4, view=EVERYTHING, **capabilities):
        caller = Caller(Identity("ann", "desk"), version, {name: raw(value) for name, value in capabilities.items()})
        super().__init__(caller, lambda message, vital=False: None, raw("t"), view=view)
        self.told = []

    def progress(self, params):
        self.told.append({name: json.loads(bytes(value)) for name, value in params.items()})

    def log(self, params):
        self.told.append({name: json.loads(bytes(value)) for name, value in params.items()})


def step(whole, at=1, of=3):
    return StepExchange(whole, whole, lambda: EVERYTHING, "save", at, of)


@pytest.mark.covers("EF-6")
@pytest.mark.parametrize(
    ("params", "value"),
    [
        ({"progress": 1, "total": 4}, 1.25),
        ({"progress": 4, "total": 4}, 1.99),
        ({"progress": 9, "total": 4}, 1.99),
        ({"progress": 0}, 1.0),
        ({"progress": 1}, 1.5),
        ({"progress": 3, "total": 0}, 1.75),
        ({"progress": 3, "total": -1}, 1.75),
        ({"progress": 1e300}, 1.99),
        ({"progress": -1}, None),
        ({"progress": "x"}, None),
        ({}, None),
    ],
)
def test_progress_is_the_share_of_a_step(params, value):
    whole = Whole()
    step(whole).progress({name: raw(each) for name, each in params.items()})
    assert [each["progress"] for each in whole.told] == ([] if value is None else [value])
    assert all((each["total"], each["message"]) == (3, "save") for each in whole.told)


@pytest.mark.covers("EF-6")
def test_messages_say_of_which_step_they_are():
    whole = Whole()
    one = step(whole, at=0)
    one.report_start("files__write")
    one.progress({"progress": raw(1), "message": raw("half")})
    one.log({"level": raw("info"), "data": raw("x")})
    assert [each.get("message", each.get("data")) for each in whole.told] == ["save: files__write", "save: half", "x"]


@pytest.mark.covers("EF-6")
def test_a_step_waits_for_tasks_and_knows_the_profile_of_its_host():
    extensions = {"io.modelcontextprotocol/tasks": {}, "x/y": {}}
    whole = Whole(MODERN, profile_view("coding"), extensions=extensions)
    one = step(whole)
    assert json.loads(bytes(one.caller.capabilities["extensions"])) == {"x/y": {}}
    assert (one.profile, one.view, one.is_step, whole.is_step) == ("coding", EVERYTHING, True, False)
    assert [step(whole, at=at).is_inserted for at in range(3)] == [True, True, False]


@pytest.mark.covers("EF-6")
async def test_nothing_is_asked_for_a_step_that_is_over():
    whole = Whole(MODERN)
    one, question = step(whole), Question("elicitation/create", {}, "files", L4)
    assert isinstance(await one.ask(question), Failure)
    assert one.lacking == whole.lacking
    assert one.lacking is not None
    one.end()
    refused = await one.ask(question)
    assert isinstance(refused, Failure)
    assert refused.message == "The call that this elicitation/create belongs to is over"
