"""What waits for a person, as the page shows and decides it."""

import json
from types import SimpleNamespace

import pytest
import trio

from config.security_settings import PolicyConfig
from hub.control.sign_in_messages import SignInStep
from hub.daemon.dashboard.inbox_items_and_decisions import Inbox
from tests.support.dashboard_world import a_dashboard
from tests.support.fakes import FakeUpstream

ASKING = PolicyConfig(ask=("*",))


@pytest.fixture
async def world(tmp_path, monkeypatch):
    pins = tmp_path / "pins"
    fakes = {"db": FakeUpstream(tools=["echo"])}
    async with a_dashboard(tmp_path, monkeypatch, fakes, policy=ASKING, pins=pins) as world:
        yield world


async def waiting_call(world):
    """A host whose call waits, and the request about it."""
    host = await world.house.host()
    id = (await host.call("db__echo", {"table": "x"}))["_meta"]["dev.hubd/failure"]["request"]
    return host, id


@pytest.mark.covers("OD-8", "OD-9")
@pytest.mark.parametrize("action", ["approve", "deny"])
async def test_a_call_is_decided_as_it_was_shown(world, action):
    key = await world.sign_in()
    host, id = await waiting_call(world)
    (item,) = (await world.read("overview", key))["inbox"]["items"]
    assert (item["kind"], item["id"], item["server"]) == ("approval", id, "db")
    shown = await world.read(f"item?kind=approval&id={id}", key)
    assert "db__echo" in shown["title"]
    (arguments,) = shown["blocks"]
    assert '"x"' in arguments["text"]
    assert [line.partition(":")[0] for line in shown["text"].splitlines()] == ["server", "marks", "rule"], "once each"
    assert shown["cli"] == f"hubd approve {id}"
    status, said = await world.do(action, {"id": id, "state": "0" * 32}, key)
    assert (status, said["kind"]) == (409, "moved")
    status, said = await world.do(action, {"id": id, "state": shown["state"]}, key)
    assert status == 200, said
    assert said["text"].startswith("approved: db__echo" if action == "approve" else "denied: db__echo")
    assert ("isError" not in await host.call("db__echo", {"table": "x"})) == (action == "approve")
    status, said = await world.do(action, {"id": id, "state": shown["state"]}, key)
    assert (status, said["kind"]) == (409, "moved"), "it was decided already"


def tool(name, description="Merge it."):
    return {"name": name, "description": description, "inputSchema": {"type": "object"}}


@pytest.mark.covers("OD-9")
async def test_definitions_that_moved_on_are_not_approved(world):
    key, fake = await world.sign_in(), world.house.fakes["db"]
    host = await world.house.host()
    await host.names()

    async def relist(*tools):
        before = world.hub.pins.of("db").state
        fake.lists["tools"] = list(tools)
        await fake.conversation.tell("notifications/tools/list_changed")
        with trio.fail_after(30):
            while world.hub.pins.of("db").state == before:
                await world.read("overview", key)

    await relist(tool("echo", "Other."))
    (item,) = (await world.read("overview", key))["inbox"]["items"]
    assert (item["kind"], item["id"]) == ("pins", "db")
    shown = await world.read("item?kind=pins&id=db", key)
    await relist(tool("echo", "Other.\u200b"), tool("drop"))
    status, said = await world.do("approve_pins", {"id": "db", "state": shown["state"]}, key)
    assert (status, said["kind"]) == (409, "moved")
    shown = await world.read("item?kind=pins&id=db", key)
    assert {block.get("name") for block in shown["blocks"]} >= {"drop", "echo"}
    assert {block.get("new") for block in shown["blocks"]} >= {"Other.\u200b"}
    assert (await world.do("approve_pins", {"id": "db", "state": shown["state"]}, key))[0] == 200
    assert (await world.read("overview", key))["inbox"]["items"] == []


async def test_what_does_not_wait_is_not_shown(world):
    key = await world.sign_in()
    for kind in ("approval", "pins", "project", "sign-in", "secret", "x"):
        answer = await world.ask(f"/ui/api/item?kind={kind}&id=db", key=key)
        assert (answer.status, json.loads(answer.body)["kind"]) == (409, "moved")
    await trio.lowlevel.checkpoint()


class Steps:
    """Sign-ins that begin in one way."""

    def __init__(self, **step):
        self.step = step
        self.asked = []

    async def sign_in(self, *, name, yes):
        self.asked.append((name, yes))
        yield SignInStep(**self.step)


@pytest.mark.covers("OD-9")
async def test_a_sign_in_is_begun_and_its_page_is_named():
    page = "http://127.0.0.1:8765/oauth/begin/x"
    steps = Steps(url=page, issuer="https://id.example", authorization_url="https://id.example/authorize")
    said = await Inbox(SimpleNamespace(sign_ins=steps)).sign_in("notes")
    assert (said.url, said.text, said.agree) == (page, "notes asks you to sign in at https://id.example", False)
    odd = Steps(unusual="Its authorization server is another one than before.")
    said = await Inbox(SimpleNamespace(sign_ins=odd)).sign_in("notes", yes=False)
    assert (said.url, said.agree) == ("", True)
    assert odd.asked == [("notes", False)]
    script = Steps(url="javascript:alert(1)", issuer="x")
    assert (await Inbox(SimpleNamespace(sign_ins=script)).sign_in("notes")).url == ""
