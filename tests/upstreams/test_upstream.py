"""The second door of an upstream: what can be sent without waiting, and what goes through the first."""

import pytest
import trio
from msgspec import structs

from config.setting_declarations import Secret
from config.settings import Timeouts, UpstreamConfig
from hub.link.hub_errors import Draining, Overloaded, UpstreamLost, UpstreamUnavailable
from hub.wire.jsonrpc import Result
from tests.support.fakes import FakeHost, FakeUpstream
from tests.upstreams.test_supervisor import ECHO, HANG, house, settle


async def open_upstream(nursery, **more):
    fake = FakeUpstream()
    fake.on["tools/call:hang"] = lambda message, to: None
    config = UpstreamConfig(command="x", timeouts=Timeouts(start=20, list=15, call=100), **more)
    there = await house(nursery, fake, a=config)
    return there, fake, there["a"]


def counts(upstream):
    return upstream.in_flight, upstream.pool.main.users


async def test_an_operation_is_begun_and_its_outcome_told(nursery, autojump_clock):
    _, _, upstream = await open_upstream(nursery)
    outcomes = []
    assert upstream.begin(ECHO, FakeHost(), outcomes.append) is not None
    assert (outcomes, counts(upstream)) == ([], (1, 1))
    await settle()
    assert isinstance(outcomes[0], Result)
    assert counts(upstream) == (0, 0)
    nursery.cancel_scope.cancel()


async def test_an_operation_that_was_begun_is_cancelled(nursery, autojump_clock):
    _, fake, upstream = await open_upstream(nursery)
    outcomes = []
    running = upstream.begin(HANG, FakeHost(), outcomes.append)
    await settle()
    running.cancel()
    running.cancel()
    assert counts(upstream) == (0, 0)
    await trio.sleep(200)
    assert (outcomes, len(fake.conversation.of("notifications/cancelled"))) == ([], 1)
    nursery.cancel_scope.cancel()


async def test_what_has_to_wait_is_not_begun(nursery, autojump_clock):
    there, fake, upstream = await open_upstream(nursery)
    outcomes = []

    def begin(operation=ECHO, host=None):
        return upstream.begin(operation, host or FakeHost(), outcomes.append)

    assert begin(structs.replace(ECHO, session="another")) is None
    fake.on["logging/setLevel"] = lambda message, to: None
    there.supervisor.set_log_level("info")
    assert begin(host=FakeHost(level="info")) is None
    assert begin() is not None, "that host wants no messages"
    await settle()
    upstream.main_lost()
    assert begin() is None
    assert (len(outcomes), upstream.in_flight) == (1, 0)
    nursery.cancel_scope.cancel()


async def test_a_session_that_is_over_is_no_reason_to_fail(nursery, autojump_clock):
    _, _, upstream = await open_upstream(nursery)
    session = upstream.pool.main.session
    errors = [UpstreamUnavailable("over"), Overloaded("full")]

    def refuse(*_):
        raise errors.pop(0)

    session.begin = refuse
    assert upstream.begin(ECHO, FakeHost(), print) is None
    with pytest.raises(Overloaded):
        upstream.begin(ECHO, FakeHost(), print)
    session.begin = lambda *_: None
    assert upstream.begin(ECHO, FakeHost(), print) is None
    assert counts(upstream) == (0, 0)
    nursery.cancel_scope.cancel()


@pytest.mark.parametrize(("stopped", "kind"), [(False, UpstreamLost), (True, Draining)])
async def test_what_was_begun_is_lost_with_its_session(nursery, autojump_clock, stopped, kind):
    there, fake, upstream = await open_upstream(nursery)
    outcomes = []
    upstream.begin(HANG, FakeHost(), outcomes.append)
    await settle()
    if stopped:
        there.supervisor.apply({}, drain_s=0)
        assert upstream.begin(ECHO, FakeHost(), outcomes.append) is None
    else:
        await fake.conversation.close()
    await settle()
    assert [type(each) for each in outcomes] == [kind]
    assert upstream.in_flight == 0
    nursery.cancel_scope.cancel()


async def test_a_predecessor_begins_nothing(nursery, autojump_clock):
    there, _, old = await open_upstream(nursery)
    there.supervisor.apply({"a": UpstreamConfig(command="y", timeouts=Timeouts(start=20))})
    assert old.begin(ECHO, FakeHost(), print) is None
    await there.supervisor.settled.wait()
    nursery.cancel_scope.cancel()


async def test_secrets_are_masked_in_what_was_begun(nursery, autojump_clock):
    _, fake, upstream = await open_upstream(nursery, env={"TOKEN": Secret("s3cret-value")})
    fake.on["tools/call:echo"] = lambda message, to: {
        "content": [{"type": "text", "text": "s3cret-value"}],
        "isError": True,
    }
    outcomes = []
    upstream.begin(ECHO, FakeHost(), outcomes.append)
    await settle()
    assert b"s3cret" not in bytes(outcomes[0].value)
    nursery.cancel_scope.cancel()
