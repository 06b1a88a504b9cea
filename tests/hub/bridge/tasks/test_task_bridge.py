"""What does not need a journey: which calls become tasks, and what an upstream gets away with."""

from typing import Any

import pytest
import trio
from msgspec import Raw, structs

from config.settings import Timeouts, UpstreamConfig
from hub.bridge.questions_in_results import Crossing
from hub.bridge.sealed_request_state import RequestStates
from hub.bridge.tasks.task_bridge import Tasks
from hub.link.call_interface import Exchange, Operation
from hub.link.hub_errors import Executed, HubError, UpstreamProtocolError, UpstreamUnauthorized, UpstreamUnavailable
from hub.link.sealing import Sealer
from hub.wire.jsonrpc import Failure, Reply, Request, Result, peek_object, raw
from hub.wire.mcp import L3, L4, MODERN, Kind
from hub.wire.upstream_snapshot import Freshness, ListEntry, Snapshot
from tests.support.fakes import FakeHost

TASK = {"taskId": "u", "status": "working", "createdAt": "", "lastUpdatedAt": "", "ttlMs": None}
CALLS_AS_TASKS = {"tasks": raw({"requests": {"tools": {"call": {}}}})}


class Fake:
    """An upstream that answers from a script: replies, or what is to be raised, by method; the last one for ever."""

    name = "files"

    def __init__(self, version: str = MODERN, *, capabilities: Any = CALLS_AS_TASKS, **script: list[Any]) -> None:
        self.config = UpstreamConfig(command="files", timeouts=Timeouts(call_total=100.0))
        support = {"slow": "required", "maybe": "optional"}
        tools = tuple(ListEntry(name, {"execution": raw({"taskSupport": each})}) for name, each in support.items())
        lists = {**dict.fromkeys(Kind, ()), Kind.TOOL: tools}
        fresh = dict.fromkeys(Kind, Freshness())
        self.snapshot = Snapshot("files", version, capabilities, {}, "", lists, fresh, True)
        self.script = script
        self.called: list[str] = []

    async def call(self, operation: Operation, exchange: Exchange) -> Reply:
        self.called.append(operation.method)
        answers = self.script[operation.method.partition("/")[2]]
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        if isinstance(answer, HubError):
            raise answer
        return answer if isinstance(answer, Failure) else Result(raw(answer))

    def admit(self, questions: object, asked: int = 0) -> None: ...

    def answered(self, method: str, reply: Reply) -> None: ...

    def judge(self, questions: object) -> None: ...

    def expect(self, session: str, caller: object, for_s: float) -> None:
        pass

    def has_lost(self, session: str) -> bool:
        return False


def tasks(fake: Fake) -> Tasks:
    states = RequestStates(Sealer(b"k" * 32), wall=lambda: 0.0)
    return Tasks(states, {"files": fake}, ttl_s=900, shows=lambda view, upstream, tool: True)


def slow(name: str = "slow") -> Operation:
    return Operation("tools/call", {"name": raw(name), "arguments": Raw(b"{}")})


def crossing(
    fake: Fake, operation: Operation, host: FakeHost | None = None, request: Request | None = None
) -> Crossing:
    return Crossing(fake, operation, host or FakeHost(), request or Request(1, "tools/call", {}), fake.call)


async def settled(fake: Fake, reply: Any, host: FakeHost | None = None) -> Reply:
    """What a call comes to, of which an upstream said `reply`."""
    operation = slow()
    mine = tasks(fake)
    async with trio.open_nursery() as nursery:
        mine.handles.work_in(nursery)
        try:
            request = Request(1, operation.method, operation.params)
            return await mine.handle_reply(Result(raw(reply)), crossing(fake, operation, host, request))
        finally:
            await trio.sleep(1)
            nursery.cancel_scope.cancel()


def get(status: str, **more: Any) -> dict[str, Any]:
    return {"resultType": "complete", **TASK, "status": status, **more}


@pytest.mark.covers("X-14")
def test_only_what_needs_it_is_called_as_a_task() -> None:
    old = Fake(L4)
    assert peek_object(tasks(old).prepare(crossing(old, slow())).operation.params["task"]) == {"ttl": Raw(b"100000")}
    for operation in (slow("maybe"), slow("other"), Operation("prompts/get", {"name": raw("slow")})):
        assert tasks(old).prepare(crossing(old, operation)).operation is operation
    for other in (Fake(MODERN), Fake(L3), Fake(L4, capabilities={})):
        operation = slow()
        assert tasks(other).prepare(crossing(other, operation)).operation is operation
    mine = tasks(old)
    assert mine.prepare(crossing(old, operation)).operation is not operation
    old.snapshot = structs.replace(old.snapshot, lists={})
    assert mine.prepare(crossing(old, operation)).operation is operation, "another list"
    old.config = UpstreamConfig(command="files", tasks="off")
    assert tasks(old).prepare(crossing(old, operation)).operation is operation


async def test_other_replies_pass_as_they_are() -> None:
    fake = Fake()
    mine = tasks(fake)
    reply = Result(Raw(b'{"content":[],"resultType":"complete"}'))
    assert await mine.handle_reply(reply, crossing(fake, slow())) is reply
    named = Result(Raw(b'{"content":[{"type":"text","text":"a \\"task\\""}],"resultType":"complete","x":"task"}'))
    assert await mine.handle_reply(named, crossing(fake, slow())) is named
    begun = Result(raw({"resultType": "task", **TASK}))
    assert await mine.handle_reply(begun, crossing(fake, Operation("prompts/get", {}))) is begun
    assert fake.called == []


@pytest.mark.parametrize(
    "answer",
    [
        {"resultType": "complete"},
        get("completed"),
        get("input_required", inputRequests=1),
        get("input_required", inputRequests={"a": {"method": "ping"}}),
        get("input_required", inputRequests={"a": {"method": "elicitation/create"}}),
        get("input_required", inputRequests={str(key): {} for key in range(40)}),
        Failure(-32000, "busy"),
    ],
)
async def test_nonsense_about_a_task_ends_it(answer: Any, autojump_clock: object) -> None:
    fake = Fake(get=[answer], cancel=[{}])
    with pytest.raises(ExceptionGroup) as caught:
        await settled(fake, {"resultType": "task", **TASK})
    assert caught.group_contains(UpstreamProtocolError)
    assert fake.called[-1] == "tasks/cancel" or answer == get("completed")


async def test_a_question_that_cannot_be_shown_ends_the_task(autojump_clock: object) -> None:
    silent = {"method": "elicitation/create", "params": {"requestedSchema": {"type": "object", "properties": {}}}}
    fake = Fake(get=[get("input_required", inputRequests={"a": silent})], cancel=[{}])
    host = FakeHost(version=MODERN, capabilities={"elicitation": {}})
    with pytest.raises(ExceptionGroup) as caught:
        await settled(fake, {"resultType": "task", **TASK}, host)
    assert caught.group_contains(UpstreamProtocolError, match="needs a message")
    assert fake.called[-1] == "tasks/cancel"


@pytest.mark.parametrize("reply", [{"resultType": "task"}, {"resultType": "task", **TASK, "status": "?"}])
async def test_what_is_no_task(reply: Any, autojump_clock: object) -> None:
    with pytest.raises(ExceptionGroup) as caught:
        await settled(Fake(), reply)
    assert caught.group_contains(UpstreamProtocolError)


async def test_an_upstream_that_is_away_for_a_while(autojump_clock: object) -> None:
    away = UpstreamUnavailable("away")
    fake = Fake(get=[away, Failure(-32603, "?"), get("working"), away, get("completed", result={"content": []})])
    assert await settled(fake, {"resultType": "task", **TASK}) == Result(Raw(b'{"content":[]}'))
    assert fake.called == ["tasks/get"] * 5
    gone = Fake(get=[away], cancel=[away])
    with pytest.raises(ExceptionGroup) as caught:
        await settled(gone, {"resultType": "task", **TASK})
    assert caught.group_contains(UpstreamUnavailable)
    assert gone.called[-1] == "tasks/cancel"


async def test_a_refusal_after_the_task_has_begun_does_not_say_that_nothing_was_done(autojump_clock: object) -> None:
    refused = UpstreamUnauthorized("files wants a token")
    fake = Fake(get=[refused], cancel=[refused])
    with pytest.raises(ExceptionGroup) as caught:
        await settled(fake, {"resultType": "task", **TASK})
    error = caught.value.exceptions[0]
    assert isinstance(error, UpstreamUnauthorized)
    assert (error.executed, error.asks_person) == (Executed.UNKNOWN, False), "the tool is not called once more"
    assert refused.asks_person


async def test_a_task_that_is_over_at_once_is_looked_at_once(autojump_clock: object) -> None:
    fake = Fake(get=[get("completed", result={"content": []})])
    await settled(fake, {"resultType": "task", **TASK, "status": "completed"})
    assert trio.current_time() < 1.5


async def test_a_task_that_asks_without_end(autojump_clock: object) -> None:
    form = {"method": "elicitation/create", "params": {"message": "?", "requestedSchema": {"type": "object"}}}
    asking = [get("input_required", inputRequests={str(key): form}) for key in range(20)]

    class Answering(FakeHost):
        async def ask(self, question: Any) -> Reply:
            return Result(raw({"action": "decline"}))

    fake = Fake(get=asking, update=[{}], cancel=[{}])
    with pytest.raises(ExceptionGroup) as caught:
        await settled(fake, {"resultType": "task", **TASK}, Answering(capabilities={"elicitation": {}}))
    assert caught.group_contains(UpstreamProtocolError)
    assert fake.called.count("tasks/update") == 16
