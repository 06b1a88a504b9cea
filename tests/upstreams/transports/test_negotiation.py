"""Detection of a server's era, in every way, against servers in memory."""

import json
from typing import Any

import pytest
import trio

from config.diff import config_key
from config.remembered_facts import Memory
from config.setting_declarations import Secret
from config.settings import Timeouts, UpstreamConfig
from hub.link.hub_errors import HubError, UpstreamProtocolError, UpstreamUnavailable, UpstreamVersionError
from hub.wire.jsonrpc import Failure, raw
from hub.wire.mcp import L1, L2, L3, L4, MODERN, Era
from tests.support.fakes import FakeUpstream, running
from tests.support.schemas import validate
from upstreams.transports.negotiation import expect_era


class Silent:
    """Events nobody wants."""

    def changed(self, kinds): ...

    def forgotten(self): ...

    def hears(self, on): ...

    def log(self, params): ...

    def note(self, text): ...

    def ended(self): ...


async def shake(fake, *, memory=None, **config):
    """Open a session, and close it: the version agreed on and the methods the server got."""
    timeouts = Timeouts(start=20, probe=3)
    session = fake.open(
        UpstreamConfig(command="x", timeouts=timeouts, **config), "up", Silent(), memory or Memory(None)
    )
    async with trio.open_nursery() as nursery:
        try:
            await nursery.start(running, session)
        except HubError as error:
            return error, methods(fake)
        version = session.facts.version
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    return version, methods(fake)


def methods(fake):
    return [message["method"] for message in fake.conversation.received if "method" in message]


LEGACY = ["server/discover", "initialize", "notifications/initialized"]


@pytest.mark.covers("V-7", "V-12")
async def test_a_modern_server_is_discovered(autojump_clock):
    memory = Memory(None)
    fake = FakeUpstream(version=MODERN)
    assert await shake(fake, memory=memory) == (MODERN, ["server/discover"])
    assert expect_era(UpstreamConfig(command="x"), memory) is Era.MODERN


@pytest.mark.covers("V-8", "V-12")
@pytest.mark.parametrize("version", [L1, L2, L3, L4])
async def test_a_legacy_server_is_initialized_on_the_same_connection(autojump_clock, version):
    memory = Memory(None)
    fake = FakeUpstream(version=version)
    assert await shake(fake, memory=memory) == (version, LEGACY)
    assert len(fake.conversations) == 1
    assert await shake(fake, memory=memory) == (version, LEGACY[1:])


@pytest.mark.covers("V-8")
@pytest.mark.parametrize("code", [-32601, -32602, -32600, -32603, 1])
async def test_no_particular_error_means_legacy(autojump_clock, code):
    fake = FakeUpstream()
    fake.on["server/discover"] = lambda message, to: Failure(code, "what?")
    assert await shake(fake) == (L4, LEGACY)


@pytest.mark.covers("V-8", "V-28", "F-P-11")
async def test_a_server_that_keeps_silent_is_initialized_and_its_late_answer_dropped(autojump_clock):
    fake = FakeUpstream()

    async def late(message, to):
        await trio.sleep(3.5)
        return {"supportedVersions": [MODERN], "capabilities": {}}

    async def slow(message, to):
        await trio.sleep(1)
        return fake.answer(message)

    fake.on["server/discover"] = late
    fake.on["initialize"] = slow
    assert await shake(fake) == (L4, LEGACY)
    assert trio.current_time() == 4


@pytest.mark.covers("V-9")
async def test_a_modern_server_that_wants_another_version_is_asked_again(autojump_clock):
    fake = FakeUpstream(version=MODERN)
    answers = [Failure(-32022, "no", raw({"supported": [MODERN, L4]})), None]
    fake.on["server/discover"] = lambda message, to: answers.pop(0) if len(answers) > 1 else fake.answer(message)
    assert await shake(fake) == (MODERN, ["server/discover", "server/discover"])


@pytest.mark.covers("V-9")
async def test_a_dual_server_without_a_common_modern_version_is_initialized(autojump_clock):
    for answer in (
        Failure(-32022, "no", raw({"supported": ["2027-01-01", L4]})),
        {"supportedVersions": ["2027-01-01", L3], "capabilities": {}},
    ):
        fake = FakeUpstream()
        fake.on["server/discover"] = lambda message, to, answer=answer: answer
        assert await shake(fake) == (L4, LEGACY)


@pytest.mark.covers("V-9", "F-P-25")
@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (Failure(-32022, "no", raw({"supported": ["2027-01-01"]})), UpstreamVersionError),
        (Failure(-32022, "no"), UpstreamVersionError),
        (Failure(-32021, "no"), UpstreamProtocolError),
        (Failure(-32020, "no"), UpstreamProtocolError),
        ({"supportedVersions": ["2027-01-01"], "capabilities": {}}, UpstreamVersionError),
    ],
)
async def test_a_modern_server_that_cannot_be_used_is_not_initialized(autojump_clock, answer: Any, kind):
    fake = FakeUpstream()
    fake.on["server/discover"] = lambda message, to: answer
    error, asked = await shake(fake)
    assert isinstance(error, kind)
    assert str(error).startswith("up cannot be used: ")
    assert set(asked) == {"server/discover"}


@pytest.mark.covers("F-P-25", "V-15")
async def test_a_version_nobody_knows_is_named(autojump_clock):
    fake = FakeUpstream()
    fake.on["initialize"] = lambda message, to: {"protocolVersion": "2019-01-01", "capabilities": {}}
    error, asked = await shake(fake)
    assert isinstance(error, UpstreamVersionError)
    assert "2019-01-01" in str(error)
    assert asked == LEGACY[:2]


@pytest.mark.covers("F-P-25", "V-12")
async def test_a_server_that_changed_its_era_is_found_out(autojump_clock):
    memory = Memory(None)
    await shake(FakeUpstream(version=L4), memory=memory)
    assert await shake(FakeUpstream(version=MODERN), memory=memory) == (MODERN, ["initialize", "server/discover"])
    assert await shake(FakeUpstream(version=MODERN), memory=memory) == (MODERN, ["server/discover"])
    assert await shake(FakeUpstream(version=L4), memory=memory) == (L4, LEGACY)
    assert await shake(FakeUpstream(version=L4), memory=memory) == (L4, LEGACY[1:])


async def test_a_modern_server_that_starts_slowly_is_found_in_the_end(autojump_clock):
    fake = FakeUpstream(version=MODERN)
    began = trio.Event()

    async def slow(message, to):
        if not began.is_set():
            began.set()
            await trio.sleep(5)
        return fake.answer(message)

    fake.on["server/discover"] = slow
    assert await shake(fake) == (MODERN, ["server/discover", "initialize", "server/discover"])


async def test_the_configuration_may_say_the_era(autojump_clock):
    memory = Memory(None)
    assert await shake(FakeUpstream(version=L4), era="legacy", memory=memory) == (L4, LEGACY[1:])
    assert await shake(FakeUpstream(version=MODERN), era="modern", memory=memory) == (MODERN, ["server/discover"])
    error, asked = await shake(FakeUpstream(version=L4), era="modern")
    assert isinstance(error, UpstreamVersionError)
    assert 'era = "modern"' in str(error)
    error, asked = await shake(FakeUpstream(version=MODERN), era="legacy")
    assert isinstance(error, UpstreamProtocolError)
    assert asked == ["initialize"]
    assert memory.era(config_key(UpstreamConfig(command="x", era="legacy"))) is None


@pytest.mark.covers("F-P-12")
@pytest.mark.parametrize("result", [[], {}, {"protocolVersion": 3}, {"protocolVersion": L4, "capabilities": []}])
async def test_nonsense_for_initialize_is_refused(autojump_clock, result):
    fake = FakeUpstream()
    fake.on["initialize"] = lambda message, to: result
    error, _ = await shake(fake)
    assert isinstance(error, UpstreamProtocolError)


@pytest.mark.covers("F-P-01")
@pytest.mark.parametrize("method", LEGACY[:2])
async def test_a_server_may_hang_up_at_any_step(autojump_clock, method):
    fake = FakeUpstream()
    fake.on[method] = lambda message, to: to.close()
    error, asked = await shake(fake)
    assert isinstance(error, HubError)
    assert asked[-1] == method


@pytest.mark.covers("F-P-03")
async def test_a_server_may_hang_in_the_handshake(autojump_clock):
    fake = FakeUpstream()
    fake.on["initialize"] = lambda message, to: None
    error, _ = await shake(fake)
    assert isinstance(error, UpstreamUnavailable)
    assert trio.current_time() == 20


@pytest.mark.parametrize("version", [L4, MODERN])
async def test_what_is_said_in_the_handshake_is_valid(autojump_clock, version):
    fake = FakeUpstream(version=version)
    await shake(fake)
    for message in fake.conversation.received:
        spoken = MODERN if message["method"] == "server/discover" else version
        validate(json.dumps(message).encode(), spoken, sender="client")


def test_the_key_of_a_configuration_holds_no_secret_and_tells_commands_apart():
    one = UpstreamConfig(command="x", env={"TOKEN": Secret("one")})
    assert config_key(one) == config_key(UpstreamConfig(command="x", env={"TOKEN": Secret("two")}))
    others = [
        UpstreamConfig(command="y", env={"TOKEN": Secret("one")}),
        UpstreamConfig(command="x"),
        UpstreamConfig(command="x", args=("a",)),
        UpstreamConfig(url="http://x"),
        UpstreamConfig(command="x", cwd="/"),
    ]
    assert len({config_key(config) for config in [one, *others]}) == 6


def test_what_is_remembered_wrongly_is_ignored():
    memory = Memory(None)
    memory.remember_era(config_key(UpstreamConfig(command="x")), "baroque")
    assert expect_era(UpstreamConfig(command="x"), memory) is None
