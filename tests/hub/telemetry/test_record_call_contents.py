"""Arguments and results that are recorded, where a server's configuration says so."""

from types import SimpleNamespace

import msgspec
import pytest
from msgspec import Raw

from config.setting_declarations import Secret
from config.settings import CallsConfig, UpstreamConfig
from hub.telemetry.record_call_contents import CUT, MAX_CALLS, MAX_CHARS, NO_CONTENT, ContentRecorder
from hub.wire.jsonrpc import Result
from hub.wire.mcp import L4
from tests.support.fakes import FakeUpstream
from tests.support.house import a_house
from upstreams.redact import Mask

pytestmark = pytest.mark.covers("SEE-5")
SECRET = 'hunter2-"quoted"'
BOTH = ("arguments", "result")


def contents(house):
    chains = house.hub.router.chains
    return [chains.contents.find(each.ref) for each in chains.recorder.ring]


def intent(ref, arguments=b"{}", **settings):
    """An intent, as far as the stage looks at it."""
    config = UpstreamConfig(command="x", record=BOTH, env={"KEY": Secret(SECRET)}, **settings)
    history = SimpleNamespace(mask=Mask(config))
    upstream = SimpleNamespace(name="files", config=config, availability=SimpleNamespace(history=history))
    operation = SimpleNamespace(params={"arguments": Raw(arguments)})
    return SimpleNamespace(ref=ref, target=SimpleNamespace(upstream=upstream), operation=operation)


@pytest.mark.parametrize("record", [(), ("arguments",), ("result",), BOTH], ids=range(4))
async def test_what_is_wanted_is_recorded_without_secrets(autojump_clock, record):
    fake = FakeUpstream(tools=["write"])
    fake.on["tools/call"] = lambda message, conversation: {"content": [{"type": "text", "text": f"got {SECRET}"}]}
    settings = {"files": {"record": record, "env": {"KEY": Secret(SECRET)}}}
    async with a_house({"files": fake}, upstreams=settings) as house:
        host = await house.host("lines", L4)
        await host.call("files__write", {"key": f"a {SECRET}", "n": 1})
        [found] = contents(house)
        assert "hunter2" not in repr(found)
        assert (found.arguments or "").replace(" ", "") == ('{"key":"a***","n":1}' if "arguments" in record else "")
        assert ("got ***" in (found.result or "")) == ("result" in record)
        config = house.hub.config
        bare = {"files": msgspec.structs.replace(config.upstreams["files"], record=())}
        house.hub.apply(msgspec.structs.replace(config, upstreams=bare))
        assert contents(house) == [NO_CONTENT], "what is not wanted any more is forgotten"


def test_what_is_long_is_cut_and_the_oldest_is_forgotten():
    stage = ContentRecorder()
    for ref in range(MAX_CALLS + 1):
        stage.left(intent(ref), None)
    assert stage.find(0) == NO_CONTENT
    assert stage.find(1).arguments == "{}"
    assert stage.find(1).result is None
    for size in (MAX_CHARS, 30_000, 200_000):
        text = b'{"a":"%b","b":"hunter2-\\u0022quoted\\u0022"}' % (b"x" * size)
        stage.left(intent(5, b'{"k":"hunter2-\\u0022quoted\\u0022"}'), Result(Raw(text)))
        found = stage.find(5)
        assert (len(found.result), found.result[-3:]) == (MAX_CHARS + len(CUT), CUT)
        assert found.arguments == '{"k":"***"}'
    stage.left(intent(6), ValueError(f"it said {SECRET}"))
    assert stage.find(6).result == "it said ***"


async def test_so_many_calls_are_kept_as_the_configuration_says(autojump_clock):
    async with a_house({"files": FakeUpstream(tools=["write"])}, calls=CallsConfig(keep=2)) as house:
        host, recorder = await house.host("lines", L4), house.hub.router.chains.recorder
        for _ in range(3):
            await host.call("files__write", {})
        assert len(recorder.ring) == 2
        last = recorder.ring[-1]
        for keep, kept in ((1, [last]), (0, []), (5, [])):
            house.hub.apply(msgspec.structs.replace(house.hub.config, calls=CallsConfig(keep=keep)))
            assert list(recorder.ring) == kept
        await host.call("files__write", {})
        assert len(recorder.ring) == 1
