"""The files of the page, what it asks for, and what may be done."""

import json
import re

import pytest

from hub.daemon.dashboard.actions import ACTIONS
from hub.daemon.dashboard.routes import STATIC
from tests.support.dashboard_world import a_dashboard
from tests.support.fakes import FakeUpstream

FILES = {
    *("index.html", "app.css", "mark.svg", "app.js", "api.js", "dom.js", "model.js", "parts.js", "words.js"),
    *("actions.js", "overview.js", "calls.js", "server.js", "inbox.js", "log.js", "config.js"),
}


@pytest.fixture
async def world(tmp_path, monkeypatch):
    async with a_dashboard(tmp_path, monkeypatch, {"db": FakeUpstream(tools=["echo"])}) as world:
        yield world


@pytest.mark.covers("OD-1")
def test_the_files_are_these_and_small():
    found = {path.name: path.read_text() for path in STATIC.iterdir()}
    assert found.keys() == FILES
    assert sum(map(len, found.values())) < 80_000
    assert sum(text.count("\n") for text in found.values()) <= 1_500


@pytest.mark.covers("OD-1", "OD-5")
def test_nothing_is_loaded_from_elsewhere_and_no_text_becomes_markup():
    for path in STATIC.iterdir():
        text = path.read_text()
        addresses = set(re.findall(r"https?://[^'\"` )]+", text))
        assert addresses <= {"http://www.w3.org/2000/svg"}, path
        assert not re.search(
            r"innerHTML|outerHTML|insertAdjacent|document\.write|\beval\(|new Function|srcdoc", text
        ), path
        assert not re.search(r"\sstyle=|\son[a-z]+=|<script>|@import|url\(", text), path
        for name in re.findall(r"(?:from|import) '\./([a-z.]+)'", text) + re.findall(r'(?:src|href)="([a-z.]+)"', text):
            assert name in FILES, path


@pytest.mark.covers("OD-1")
async def test_files_are_served_without_a_key_and_nothing_else_is(world):
    for name in ["", *FILES]:
        answer = await world.ask(f"/ui/{name}")
        assert answer.status == 200
        assert answer.headers["content-type"].split(";")[0] in {
            *("text/html", "text/css", "text/javascript", "image/svg+xml")
        }
    others = (
        "x.js",
        "../guard.py",
        "..%2fguard.py",
        "guard.py",
        ".js",
        "app.js/",
        "//app.js",
        "js/../app.js",
        "APP.JS",
    )
    for name in others:
        assert (await world.ask(f"/ui/{name}")).status in (400, 404), name
    assert (await world.ask("/uix", host=f"127.0.0.1:{world.listener.address[1]}")).status == 404
    assert (await world.ask("/ui/", method="HEAD")).status == 200


@pytest.mark.covers("OD-8")
def test_the_golden_list_of_actions():
    assert set(ACTIONS) == {
        *("restart", "enable", "disable", "reload", "clear_cache"),
        *("approve", "deny", "approve_pins", "trust", "sign_in"),
    }


@pytest.mark.covers("OD-8")
async def test_an_action_is_done_said_and_written_down(world, monkeypatch):
    notes = []
    monkeypatch.setattr("hub.rules.audit.writer.Audit.note", lambda audit, kind, /, **more: notes.append((kind, more)))
    key = await world.sign_in()
    assert await world.do("restart", {"name": "db"}, key) == (200, {"text": "restarting db"})
    assert (await world.do("clear_cache", {}, key))[1] == {"text": "cleared: 0 resources"}
    status, said = await world.do("restart", {"name": "x"}, key)
    assert (status, said["kind"]) == (409, "refused")
    assert "There is no server x" in said["error"]
    done = [more for kind, more in notes if kind == "dashboard"]
    assert [(each["m"], each.get("name"), "why" in each) for each in done] == [
        ("restart", "db", False),
        ("clear_cache", None, False),
        ("restart", "x", True),
    ]
    assert {each["p"] for each in done} == {"local"}


async def test_what_is_wrongly_asked_is_refused(world):
    key = await world.sign_in()
    for action, given, status in (
        ("stop", {}, 404),
        ("__init__", {}, 404),
        ("write_down", {}, 404),
        ("restart", {}, 400),
        ("restart", {"name": 1}, 400),
        ("restart", [], 400),
        ("restart", b"{", 400),
        ("approve", {"id": "K7F3", "state": "", "lasting": "ever"}, 400),
        ("approve", {"id": "K7F3", "state": ""}, 409),
    ):
        assert (await world.do(action, given, key))[0] == status, (action, given)
    paths = (("nothing", 404), ("item", 400), ("logs?lines=x", 400), ("logs?name=x", 404), ("logs?lines=2", 200))
    for path, status in paths:
        assert (await world.ask(f"/ui/api/{path}", key=key)).status == status, path
    answer = await world.ask("/ui/api/logs?name=x", key=key)
    assert json.loads(answer.body)["kind"] == "not_found"
