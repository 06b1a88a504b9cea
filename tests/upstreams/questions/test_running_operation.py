"""The tokens of tasks outlive the calls that began them."""

import pytest
from msgspec import Raw

import upstreams.questions.running_operation as module
from hub.link.interface import Operation
from hub.wire.jsonrpc import Failure, Result, raw
from tests.support.fakes import FakeHost
from upstreams.questions.running_operation import Running, TaskTokens
from upstreams.session import CallTimeouts


def waiting(task: str, method: str = "tasks/result") -> Running:
    return Running(Operation(method, {"taskId": raw(task)}), FakeHost(), CallTimeouts(1.0, 2.0))


def task(id: str) -> Result:
    return Result(raw({"task": {"taskId": id}}))


@pytest.mark.covers("P-4")
async def test_who_waits_for_a_task_hears_of_its_progress() -> None:
    tokens = TaskTokens()
    tokens.began(task("a"), 7)
    mine, other = waiting("a"), waiting("b")
    tokens.wait(mine)
    tokens.wait(other)
    assert tokens.find(7) is mine
    assert (tokens.find(None), tokens.find(8)) == (None, None)
    tokens.leave(other)
    assert repr(tokens) == "<TaskTokens [1 known, 1 waiting]>"
    tokens.leave(mine)
    assert tokens.find(7) is None


async def test_only_the_newest_waits() -> None:
    tokens = TaskTokens()
    tokens.began(task("a"), 7)
    first, second = waiting("a"), waiting("a")
    tokens.wait(first)
    tokens.wait(second)
    tokens.leave(first)
    assert tokens.find(7) is second


@pytest.mark.covers("I-5")
async def test_nobody_waits_for_ever_for_a_task_that_was_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_TASKS", 1)
    tokens = TaskTokens()
    tokens.began(task("a"), 7)
    mine = waiting("a")
    tokens.wait(mine)
    tokens.began(task("b"), 8)
    tokens.leave(mine)
    assert tokens.find(7) is None


async def test_looking_is_not_waiting() -> None:
    tokens = TaskTokens()
    tokens.began(task("a"), 7)
    tokens.wait(waiting("a", "tasks/get"))
    assert tokens.find(7) is None


@pytest.mark.parametrize("reply", [Failure(-1, ""), Result(Raw(b"{}")), Result(Raw(b'{"task":1}'))])
def test_other_replies_begin_nothing(reply: Result | Failure) -> None:
    tokens = TaskTokens()
    tokens.began(reply, 7)
    assert repr(tokens) == "<TaskTokens [0 known, 0 waiting]>"


def test_the_oldest_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_TASKS", 2)
    tokens = TaskTokens()
    for token, id in enumerate("abc"):
        tokens.began(task(id), token)
    assert repr(tokens) == "<TaskTokens [2 known, 0 waiting]>"
