"""What waits for a person is found in one place, so all who show it say the same number."""

from types import SimpleNamespace

import pytest

from config.security_settings import PolicyConfig
from config.settings import UpstreamConfig
from hub.daemon.live.calls_and_overview import LiveRequests
from hub.daemon.live.waiting_items import KINDS, find_items
from tests.hub.daemon.metrics.test_families import families_of, of, read
from tests.support.dashboard_world import a_dashboard
from tests.support.fakes import FakeUpstream
from upstreams.lifecycle import State

pytestmark = pytest.mark.covers("OD-9")


def test_each_thing_waits_once():
    url = "https://mcp.example/mcp"
    upstreams = {
        "asks": SimpleNamespace(state=State.UNAUTHORIZED, config=UpstreamConfig(url=url)),
        "refuses": SimpleNamespace(
            state=State.UNAUTHORIZED, config=UpstreamConfig(url=url, headers={"Authorization": "Bearer x"})
        ),
        "changed": SimpleNamespace(state=State.CONNECTED, config=UpstreamConfig(command="x")),
    }
    pins = SimpleNamespace(awaits_approval=lambda name: name == "changed", remarks=lambda name: ["one", "two"])
    projects = SimpleNamespace(awaiting_trust=["/work/shop"])
    hub = SimpleNamespace(undecided=0, pins=pins, projects=projects, supervisor=SimpleNamespace(upstreams=upstreams))
    items = [*find_items(hub, {"mail": "the variable KEY is not set"})]
    assert [(item.kind, item.id) for item in items] == [
        ("pins", "changed"),
        ("project", "/work/shop"),
        ("sign-in", "asks"),
        ("secret", "mail"),
    ]
    assert items[0].text == "changed: one; two"
    assert {item.kind for item in items} < set(KINDS)


async def test_all_who_tell_how_much_waits_say_the_same(tmp_path, monkeypatch):
    fakes = {"db": FakeUpstream(tools=["echo"])}
    async with a_dashboard(tmp_path, monkeypatch, fakes, policy=PolicyConfig(ask=("*",))) as world:
        live = LiveRequests(world.hub, world.house.api.status)
        assert (await live.overview()).inbox == 0
        host = await world.house.host()
        for table in ("x", "y"):
            assert "isError" in await host.call("db__echo", {"table": table})
        items = (await world.read("overview", await world.sign_in()))["inbox"]["items"]
        assert [item["kind"] for item in items] == ["approval"] * 2
        assert of(read(families_of(world.house)), "hubd_inbox_items") == {'kind="approval"': 2}
        assert (await live.overview()).inbox == 2
