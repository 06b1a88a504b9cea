"""The way of one intent: from where it goes on what an upstream did not take, and that nothing it holds is left."""

from types import SimpleNamespace

import pytest
from msgspec import Raw, structs
from trio.testing import wait_all_tasks_blocked

from config.settings import UpstreamConfig
from hub.calls.chain import WAIT, Chain, Intent, Target
from hub.link.call_interface import Operation
from hub.link.hub_errors import UpstreamUnavailable
from hub.routing.run_chain import Passage
from hub.routing.upstream_limits import Limit
from hub.wire.jsonrpc import Request, Result

LOST = UpstreamUnavailable("nothing was sent")
ANSWER = Result(Raw(b"{}"))


class Up:
    """An upstream that takes what is begun, if it does, and notes what is called."""

    config = UpstreamConfig(command="x")

    def __init__(self, fault=None):
        self.fault = fault
        self.called = []

    def begin(self, operation, exchange, done):
        if self.fault is not None:
            raise self.fault
        self.done = done
        return SimpleNamespace(cancel=lambda: None)

    async def call(self, operation, exchange):
        self.called.append((operation.params, exchange))
        return ANSWER


class Eras:
    """Eras that let everything pass, and go on by `carry`."""

    def __init__(self, carry):
        self.call = carry

    def passes(self, intent):
        return True

    def is_final(self, intent, reply):
        return True


async def send_as_task(intent, next):
    operation = structs.replace(intent.operation, params={"task": Raw(b"{}")})
    return await intent.send(next, operation, "another exchange")


async def send_nothing(intent, next):
    raise LOST


async def send(intent, next):
    return await next(intent)


def passage(up, carry, limit, way_back=lambda intent, reply: reply):
    host = SimpleNamespace(caller=SimpleNamespace(tenant=1), note_ref=lambda ref: None)
    target = Target(up, None, "x", Chain([], way_back, Eras(carry), [limit]))
    return Passage(Intent(target, Request(1, "tools/call", {}), Operation("tools/call", {}), host, host))


@pytest.fixture
def limit():
    found = Limit("x")
    found.places.adjust(1, 5, 0)
    return found


async def test_what_was_not_taken_goes_on_as_the_eras_say(nursery, limit):
    up, outcomes = Up(), []
    assert passage(up, send_as_task, limit).begin(outcomes.append, nursery.start_soon) is None
    up.done(LOST)
    await wait_all_tasks_blocked()
    assert outcomes == [ANSWER]
    assert up.called == [({"task": Raw(b"{}")}, "another exchange")]
    assert limit.places.running == 0


async def test_a_place_is_given_back_if_the_eras_send_nothing(nursery, limit):
    up, outcomes = Up(), []
    passage(up, send_nothing, limit).begin(outcomes.append, nursery.start_soon)
    up.done(LOST)
    await wait_all_tasks_blocked()
    assert [type(each) for each in outcomes] == [UpstreamUnavailable]
    assert limit.places.running == 0


async def test_a_bug_at_the_upstream_leaves_all_stages(limit):
    found = passage(Up(ZeroDivisionError()), send, limit)
    assert found.begin(lambda outcome: None, lambda work: None) is WAIT
    with pytest.raises(ZeroDivisionError):
        await found.run()
    assert limit.places.running == 0


async def test_a_bug_on_the_way_back_is_the_outcome(nursery, limit):
    def fail(intent, reply):
        raise ZeroDivisionError

    up, outcomes = Up(), []
    passage(up, send, limit, fail).begin(outcomes.append, nursery.start_soon)
    up.done(ANSWER)
    assert [type(each) for each in outcomes] == [ZeroDivisionError]
    assert limit.places.running == 0
