"""Hosts at work in a project: what they see, when it changes, and who is none of them."""

import os
import threading
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing
from msgspec import structs

from config.projects import Trust, load_project
from config.settings import HubConfig, Timeouts, UpstreamConfig
from hub.catalog.endpoint_views import project_view
from hub.link.call_interface import Identity
from hub.projects import find_project_of_host, hosts_in_projects
from hub.projects.find_project_of_host import ROOTS_ANSWER_S, TrustedProjects, first_directory
from hub.projects.hosts_in_projects import LINGER_S
from hub.wire.jsonrpc import Failure
from hub.wire.mcp import L4, MODERN
from tests.support.fakes import FakeUpstream
from tests.support.house import ALICE, HttpHost, a_house

DB = '[upstreams.db]\ncommand = "db"\n'


class Shop:
    """A project directory, and what the user allows of it."""

    def __init__(self, directory: Path) -> None:
        self.root = directory / "shop"
        (self.root / "src").mkdir(parents=True)
        self.trust = Trust(directory / "trust.json")
        self.home = directory
        self.scope = project_view(self.root).name

    def write(self, text: str, *, allowed: bool = True) -> None:
        new = self.root / "new"
        new.write_text(text)
        new.rename(self.root / ".hubd.toml")
        if allowed:
            self.allow()

    def allow(self) -> None:
        self.trust.allow(load_project(self.root, os.environ, HubConfig()))

    @property
    def projects(self) -> dict[str, Any]:
        """Arguments of `a_house`."""
        return {"reader": TrustedProjects(self.trust, os.environ, self.home)}

    def fakes(self, *names: str, **common: FakeUpstream) -> dict[str, FakeUpstream]:
        return {**common, **{f"{name}{self.scope}": FakeUpstream(tools=[name]) for name in names}}


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path)


async def until(ready) -> None:
    """Until the hub has seen to it that it is `ready`; files are watched by a thread."""
    with trio.fail_after(60):
        while not await ready():  # noqa: ASYNC110
            await trio.sleep(0.01)


async def sees(host, names: list[str]) -> None:
    async def ready() -> bool:
        return await host.names() == names

    await until(ready)


async def warned(house) -> None:
    async def ready() -> bool:
        return bool(house.hub.projects.warnings)

    await until(ready)


async def test_hosts_in_a_project_see_its_servers_and_others_do_not(shop: Shop):
    shop.write(DB)
    async with a_house(shop.fakes("db", files=FakeUpstream(tools=["read"])), **shop.projects) as house:
        inside = await house.host("lines", L4, workplace=shop.root / "src")
        modern = await house.host("lines", MODERN, workplace=shop.root)
        outside = await house.host("lines", L4, workplace=shop.home)
        nowhere = await house.host("http", L4)
        for host in (inside, modern):
            assert await host.names() == ["files__read", "db__db"]
            assert (await host.call("db__db"))["content"]
        for host in (outside, nowhere):
            assert await host.names() == ["files__read"]
            assert (await host.error("tools/call", {"name": "db__db"}))["code"] == -32602


async def test_a_server_of_the_project_stands_before_the_users_of_that_name(shop: Shop):
    shop.write('[upstreams.files]\ncommand = "files"\n')
    async with a_house(shop.fakes("files", files=FakeUpstream(tools=["read"])), **shop.projects) as house:
        inside = await house.host("lines", L4, workplace=shop.root)
        assert await inside.names() == ["files__files"]
        assert house.fakes[f"files{shop.scope}"].conversations


async def test_nothing_runs_that_was_not_allowed(shop: Shop):
    shop.write(DB, allowed=False)
    async with a_house(shop.fakes("db", files=FakeUpstream(tools=["read"])), **shop.projects) as house:
        host = await house.host("lines", L4, workplace=shop.root)
        assert await host.names() == ["files__read"]
        (warning,) = house.hub.projects.warnings
        assert "hubd trust" in warning
        assert str(shop.root) in warning
        assert not house.fakes[f"db{shop.scope}"].conversations
        shop.allow()
        await sees(host, ["files__read", "db__db"])
        assert host.of("notifications/tools/list_changed")
        assert house.hub.projects.warnings == []


@pytest.mark.covers("I-3", "I-5", "SEC-13")
async def test_of_what_was_not_allowed_only_that_is_known(shop: Shop):
    shop.write("[upstreams.secret\n" + ".".join(["a"] * 200_000), allowed=False)
    async with a_house(shop.fakes("db", files=FakeUpstream(tools=["read"])), **shop.projects) as house:
        host = await house.host("lines", L4, workplace=shop.root)
        assert await host.names() == ["files__read"]
        (warning,) = house.hub.projects.warnings
        assert "you have not allowed what the files of this project say now" in warning
        assert "TOML" not in warning
        assert "secret" not in warning


async def test_who_asks_for_what_a_project_had_is_told_that_it_is_gone(shop: Shop):
    shop.write(DB + '[upstreams.mail]\ncommand = "mail"\n')
    async with a_house(shop.fakes("db", "mail"), **shop.projects) as house:
        inside = await house.host("lines", L4, workplace=shop.root)
        outside = await house.host("lines", L4, workplace=shop.home)
        assert await inside.names() == ["db__db", "mail__mail"]
        shop.write(DB)
        await sees(inside, ["db__db"])
        gone = await inside.call("mail__mail")
        assert gone["isError"]
        assert "was removed from the hub's configuration" in gone["content"][0]["text"]
        error = await outside.error("tools/call", {"name": "mail__mail"})
        assert error["message"].startswith("Unknown tool"), "nobody else learns of it"


async def test_servers_of_a_project_are_shown_in_the_order_of_its_files(shop: Shop):
    mail = '[upstreams.mail]\ncommand = "mail"\n'
    shop.write(DB + mail)
    async with a_house(shop.fakes("db", "mail"), **shop.projects) as house:
        host = await house.host("lines", L4, workplace=shop.root)
        assert await host.names() == ["db__db", "mail__mail"]
        shop.write(mail + DB)
        await sees(host, ["mail__mail", "db__db"])
        assert [len(fake.conversations) for fake in house.fakes.values()] == [1, 1]


async def test_files_that_change_are_followed_once_they_are_allowed(shop: Shop):
    shop.write(DB)
    async with a_house(shop.fakes("db", "mail"), **shop.projects) as house:
        host = await house.host("lines", L4, workplace=shop.root)
        assert await host.names() == ["db__db"]
        shop.write(DB + '[upstreams.mail]\ncommand = "mail"\n', allowed=False)
        await warned(house)
        assert await host.names() == ["db__db"], "what was allowed goes on"
        shop.allow()
        await sees(host, ["db__db", "mail__mail"])
        assert len(house.fakes[f"db{shop.scope}"].conversations) == 1, "what did not change was not touched"
        shop.write("[upstreams.db", allowed=False)
        await warned(house)
        assert await host.names() == ["db__db", "mail__mail"]
        (shop.root / ".hubd.toml").unlink()
        await sees(host, [])


async def test_a_project_that_comes_to_be_is_seen(shop: Shop):
    async with a_house(shop.fakes("db"), **shop.projects) as house:
        host = await house.host("lines", L4, workplace=shop.root)
        assert await host.names() == []
        shop.write(DB)
        await sees(host, ["db__db"])


@pytest.mark.parametrize("carrier", ["lines", "http"])
async def test_a_host_is_where_its_roots_are(shop: Shop, carrier: str):
    shop.write(DB)
    async with a_house(shop.fakes("db"), **shop.projects) as house:
        host = await house.host(carrier, L4, roots=shop.root.as_uri())
        await sees(host, ["db__db"])
        assert host.of("notifications/tools/list_changed")


async def test_servers_of_a_project_stop_when_its_hosts_are_gone_for_a_while(shop: Shop, mock_clock):
    mock_clock.rate = 1.0
    shop.write(DB)
    async with a_house(shop.fakes("db"), **shop.projects) as house:
        first = await house.host("lines", L4, workplace=shop.root)
        assert await first.names() == ["db__db"]
        await first.leave()
        second = await house.host("lines", L4, workplace=shop.root)
        await trio.testing.wait_all_tasks_blocked()
        mock_clock.jump(LINGER_S + 1)
        assert await second.names() == ["db__db"]
        assert len(house.fakes[f"db{shop.scope}"].conversations) == 1
        await second.leave()
        await trio.testing.wait_all_tasks_blocked()
        mock_clock.jump(LINGER_S + 1)

        async def stopped() -> bool:
            return not house.hub.supervisor.upstreams

        await until(stopped)
        assert house.hub.projects.shown == {}


@pytest.mark.covers("SEC-51")
async def test_what_is_no_longer_allowed_stops_at_once(shop: Shop, mock_clock):
    """Whoever works there, and if nobody does."""
    mock_clock.rate = 1.0
    shop.write(DB)
    async with a_house(shop.fakes("db", files=FakeUpstream(tools=["read"])), **shop.projects) as house:
        for stays in (True, False):
            host = await house.host("lines", L4, workplace=shop.root)
            assert await host.names() == ["files__read", "db__db"]
            if not stays:
                await host.leave()
                await trio.testing.wait_all_tasks_blocked()
                assert house.hub.projects.shown
            assert shop.trust.deny(shop.root)

            async def stopped() -> bool:
                return list(house.hub.supervisor.upstreams) == ["files"] and not house.hub.projects.shown

            await until(stopped)
            await until(all_over(house.fakes[f"db{shop.scope}"]))
            if stays:
                assert await host.names() == ["files__read"]
                assert host.of("notifications/tools/list_changed")
                await warned(house)
                await host.leave()
            shop.allow()


def all_over(fake: FakeUpstream):
    async def ready() -> bool:
        return all(each.over for each in fake.conversations)

    return ready


async def test_what_another_project_was_allowed_shows_nothing_of_one_inside_it(shop: Shop):
    shop.write(DB)
    inner = shop.root / "vendored"
    inner.mkdir()
    (inner / ".hubd.toml").write_text('[upstreams.evil]\ncommand = "evil"\n')
    async with a_house(shop.fakes("db"), **shop.projects) as house:
        outer = await house.host("lines", L4, workplace=shop.root)
        host = await house.host("lines", L4, workplace=inner)
        assert await outer.names() == ["db__db"]
        assert await host.names() == []


async def test_everything_of_a_projects_server_can_be_used(shop: Shop):
    shop.write(DB)
    lists = {
        "prompts": [{"name": "ask", "arguments": [{"name": "about"}]}],
        "resources": [{"uri": "db://1", "name": "1"}],
    }
    fake = FakeUpstream(tools=["query"], **lists)
    fake.capabilities["completions"] = {}
    fakes = {f"db{shop.scope}": fake, "files": FakeUpstream(resources=[{"uri": "db://2", "name": "2"}])}
    async with a_house(fakes, **shop.projects) as house:
        host = await house.host("lines", L4, workplace=shop.root)
        assert await host.names("resources") == ["db://2", "db://1"]
        assert (await host.result("resources/read", {"uri": "db://1"}))["contents"][0]["uri"] == "db://1"
        assert (await host.result("prompts/get", {"name": "db__ask", "arguments": {"about": "x"}}))["messages"]
        ref = {"type": "ref/prompt", "name": "db__ask"}
        completed = await host.result("completion/complete", {"ref": ref, "argument": {"name": "about", "value": ""}})
        assert completed["completion"]["values"] == ["one", "two"]
        for uri in ("db://1", "db://2"):
            assert await host.result("resources/subscribe", {"uri": uri}) == {}
        assert fake.watched() == ["db://1"]
        await fake.touch("db://1")

        async def heard() -> bool:
            return host.of("notifications/resources/updated") == [{"uri": "db://1"}]

        await until(heard)
        assert shop.trust.deny(shop.root)
        await sees(host, ["files__echo"])
        assert house.fakes["files"].watched() == ["db://2"], "what it still sees it still watches"


async def test_one_server_of_a_project_has_an_endpoint_too(shop: Shop):
    shop.write(DB)
    async with a_house(shop.fakes("db"), **shop.projects) as house:
        endpoint = f"db{shop.scope}"
        assert house.hub.router.live.find_view(endpoint) is None
        inside = await house.host("lines", L4, workplace=shop.root)
        assert await inside.names() == ["db__db"]
        for scope, name in ((endpoint, "db"), (shop.scope, "db__db")):
            modern = await house.host("http", MODERN, endpoint=scope)
            assert await modern.names() == [name]
            assert (await modern.call(name))["content"]


async def test_modern_hosts_hear_of_what_their_project_shows(shop: Shop):
    shop.write(DB, allowed=False)
    async with a_house(shop.fakes("db"), **shop.projects) as house:
        host = await house.host("lines", MODERN, workplace=shop.root)
        await host.start("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
        assert await host.names() == []
        shop.allow()
        await sees(host, ["db__db"])
        await until(counted(host, 1))
        house.fakes[f"db{shop.scope}"].lists["tools"].append({"name": "more", "inputSchema": {"type": "object"}})
        await house.fakes[f"db{shop.scope}"].conversation.tell("notifications/tools/list_changed")
        await sees(host, ["db__db", "db__more"])
        await until(counted(host, 2))
        await host.leave()


def counted(host, number: int):
    async def ready() -> bool:
        return len(host.of("notifications/tools/list_changed")) >= number

    return ready


async def test_names_that_meet_in_a_project_are_told_of(shop: Shop):
    shop.write('[upstreams.db]\ncommand = "db"\nprefix = ""\n')
    fakes = shop.fakes("db", files=FakeUpstream(tools=["db"]))
    async with a_house(fakes, upstreams={"files": {"prefix": ""}}, **shop.projects) as house:
        shop.trust.allow(load_project(shop.root, os.environ, HubConfig()))
        host = await house.host("lines", L4, workplace=shop.root)
        await host.names()
        assert any(".hubd.toml" in text or "earlier upstream" in text for text in (await house.api.status()).warnings)


# --- who works where --------------------------------------------------------------------------------------------------


async def rooted(house, uris: list[str] | Failure, *, listens: bool = True, carrier: str = "http"):
    """A host with these roots, which may not have opened a stream to be asked on."""
    host = HttpHost(house, L4, ALICE, None)
    host.capabilities = {"roots": {"listChanged": True}}
    host.uris = uris
    host.on["roots/list"] = lambda params: (
        host.uris if isinstance(host.uris, Failure) else {"roots": [{"uri": uri} for uri in host.uris]}
    )
    house.hosts.append(host)
    await (host.open() if listens else host.greet())
    return host


async def test_a_host_goes_where_its_roots_go(shop: Shop):
    shop.write(DB)
    async with a_house(shop.fakes("db"), **shop.projects) as house:
        host = await rooted(house, ["https://elsewhere", "file://[", shop.root.as_uri()])
        await sees(host, ["db__db"])
        for uris, names in (
            ([shop.home.as_uri()], []),
            ([shop.root.as_uri(), shop.home.as_uri()], ["db__db"]),
            (["file:///%00"], []),
            ([(shop.root / "src").as_uri()], ["db__db"]),
            (Failure(-32603, "none of your business"), ["db__db"]),
            ([], []),
        ):
            host.uris = uris
            await host.tell("notifications/roots/list_changed")
            await sees(host, names)
        shop.write(DB + "\n")  # everything is looked at again
        await sees(await house.host("lines", L4, workplace=shop.root), ["db__db"])


@pytest.mark.parametrize("answer", [Failure(-32601, "no such method"), ["file:///%00/x"], ["file:///" + "x/" * 5000]])
async def test_hosts_with_useless_roots_work_nowhere(shop: Shop, answer):
    shop.write(DB)
    async with a_house(shop.fakes("db"), **shop.projects) as house:
        host = await rooted(house, answer)
        await until(asked(host))
        assert await host.names() == []
        shop.write(DB + "\n")
        await sees(await house.host("lines", L4, workplace=shop.root), ["db__db"])


def asked(host):
    async def ready() -> bool:
        return bool(host.asked)

    return ready


async def test_a_directory_nobody_can_have_harms_nobody(shop: Shop):
    shop.write(DB)
    async with a_house(shop.fakes("db"), **shop.projects) as house:
        for name in ("/a\0b", "/\ud800", "relative", "/" + "x/" * 5000, "/proc/self/fd/0"):
            odd = await house.host("lines", L4, workplace=Path(name))
            assert await odd.names() == []
        shop.write(DB + "\n")
        await sees(await house.host("lines", L4, workplace=shop.root), ["db__db"])


async def test_nobody_is_asked_who_would_not_hear_it(shop: Shop):
    """Else a question of an upstream, which goes with its call, would wait for the hub's own."""
    shop.write(DB)
    asking = FakeUpstream()

    async def ask(params, conversation):
        answer = await conversation.ask("roots/list")
        return {"content": [{"type": "text", "text": answer["result"]["roots"][0]["uri"]}]}

    asking.on["tools/call"] = ask
    alone = {"asking": {"session_mode": "per_host"}}
    async with a_house(shop.fakes("db", asking=asking), upstreams=alone, **shop.projects) as house:
        host = await rooted(house, [shop.root.as_uri()], listens=False)
        assert await host.names() == ["asking__echo"]
        assert host.asked == []
        with trio.fail_after(ROOTS_ANSWER_S / 2):
            assert (await host.call("asking__echo"))["content"][0]["text"] == shop.root.as_uri()
        await host.listen()
        await sees(host, ["asking__echo", "db__db"])
        assert len(host.asked) == 1, "what it said then is remembered"


async def test_silent_hosts_are_not_asked_for_ever(shop: Shop, mock_clock):
    mock_clock.rate = 1.0
    shop.write(DB)
    async with a_house(shop.fakes("db"), **shop.projects) as house:
        host = await rooted(house, [])
        del host.on["roots/list"]
        await until(asked(host))
        await trio.testing.wait_all_tasks_blocked()
        mock_clock.jump(ROOTS_ANSWER_S + 1)

        async def is_over() -> bool:
            return not house.hub.projects._roots._asking

        await until(is_over)
        assert host.of("notifications/cancelled")
        assert await host.names() == []


async def test_hosts_are_asked_once_the_first_project_is_allowed(shop: Shop):
    shop.write(DB, allowed=False)
    async with a_house(shop.fakes("db"), **shop.projects) as house:
        host = await rooted(house, [shop.root.as_uri()])
        await trio.testing.wait_all_tasks_blocked()
        assert host.asked == []
        shop.allow()
        await sees(host, ["db__db"])


async def test_a_host_that_leaves_while_it_is_asked_keeps_nothing_running(shop: Shop, monkeypatch):
    """It is shown no project before others are, whose directory does not answer yet."""
    monkeypatch.setattr(find_project_of_host, "PATIENCE_S", 1e6)
    shop.write(DB)
    read = Hanging(shop.root / "src", shop.trust, os.environ, shop.home)
    try:
        async with a_house(shop.fakes("db"), reader=read) as house:
            others = []

            async def come() -> None:
                others.append(await house.host("lines", L4, workplace=read.directory))

            house.nursery.start_soon(come)
            await until(counts(house, hosts=1))
            host = await rooted(house, [shop.root.as_uri()])
            await until(asked(host))
            await trio.testing.wait_all_tasks_blocked()
            assert house.hub.projects._roots._asking
            await host.end()
            read.answers.set()
            await until(counts(house, hosts=1, projects=1))
            assert not house.hub.projects._roots._asking
            await until(exists(others))
            await others[0].leave()
            await until(counts(house, hosts=0, projects=1))
            roots = house.hub.projects._roots
            assert (roots._said, roots._asking, roots._unasked) == ({}, {}, set())
    finally:
        read.answers.set()


def exists(things: list):
    async def ready() -> bool:
        return bool(things)

    return ready


def counts(house, **expected: int):
    async def ready() -> bool:
        projects = house.hub.projects
        found = {"projects": len(projects.shown), "hosts": len(projects._hosts)}
        return expected.items() <= found.items()

    return ready


@pytest.mark.covers("F-H-01")
async def test_a_host_that_is_killed_while_it_comes_leaves_nothing_half_done(shop: Shop):
    shop.write(DB)
    for checkpoints in range(12):
        async with a_house(shop.fakes("db"), **shop.projects) as house:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(partial(house.host, "lines", L4, workplace=shop.root))
                for _ in range(checkpoints):
                    await trio.lowlevel.checkpoint()
                for host in house.hosts:
                    host.kill_now()
                nursery.cancel_scope.cancel()
            second = await house.host("lines", L4, workplace=shop.root)
            await sees(second, ["db__db"])
            assert list(house.hub.supervisor.upstreams) == [f"db{shop.scope}"]


async def test_the_user_says_where_a_host_works(shop: Shop, monkeypatch):
    """`hubd connect --project`: its roots do not count."""
    shop.write(DB)
    async with a_house(shop.fakes("db"), **shop.projects) as house:
        host = await house.host("lines", L4, workplace=shop.root, roots=shop.home.as_uri(), is_bound=True)
        await trio.testing.wait_all_tasks_blocked()
        assert host.asked == []
        assert await host.names() == ["db__db"]


class Hanging(TrustedProjects):
    """One directory is on a machine that does not answer."""

    def __init__(self, directory: Path, *given) -> None:
        super().__init__(*given)
        self.directory = directory
        self.answers = threading.Event()

    def find(self, directory, base, running):
        if directory == self.directory:
            assert self.answers.wait(60)
        return super().find(directory, base, running)


async def test_a_file_system_that_hangs_holds_up_nobody_else(shop: Shop, monkeypatch):
    monkeypatch.setattr(find_project_of_host, "PATIENCE_S", 0.05)
    shop.write(DB)
    hung = shop.root / "src"
    read = Hanging(hung, shop.trust, os.environ, shop.home)
    try:
        async with a_house(shop.fakes("db"), reader=read) as house:
            first, second = [await house.host("lines", L4, workplace=hung) for _ in range(2)]
            assert await first.names() == []
            await sees(await house.host("lines", L4, workplace=shop.root), ["db__db"])
            read.answers.set()
            for host in (first, second):
                await sees(host, ["db__db"])
    finally:
        read.answers.set()


async def test_projects_are_looked_for_in_so_many_directories(shop: Shop, monkeypatch):
    monkeypatch.setattr(hosts_in_projects, "MAX_PLACES", 3)
    shop.write(DB)
    async with a_house(shop.fakes("db"), **shop.projects) as house:
        hosts = [await house.host("lines", L4, workplace=shop.home / str(number)) for number in range(3)]
        last = await house.host("lines", L4, workplace=shop.root)
        assert await last.names() == []
        await hosts[0].leave()
        await trio.testing.wait_all_tasks_blocked()
        assert await (await house.host("lines", L4, workplace=shop.root)).names() == ["db__db"]


async def test_files_that_come_back_are_seen(shop: Shop):
    """As when branches are switched, also from below."""
    shop.write(DB)
    async with a_house(shop.fakes("db"), **shop.projects) as house:
        host = await house.host("lines", L4, workplace=shop.root / "src")
        assert await host.names() == ["db__db"]
        (shop.root / ".hubd.toml").unlink()
        await sees(host, [])
        shop.write(DB, allowed=False)
        await sees(host, ["db__db"])
        assert len(house.fakes[f"db{shop.scope}"].conversations) == 1


async def test_one_server_of_the_endpoint_it_came_to_stays_that(shop: Shop):
    shop.write(DB)
    async with a_house(shop.fakes("db", files=FakeUpstream(tools=["read"])), **shop.projects) as house:
        host = await house.host("lines", L4, endpoint="files", workplace=shop.root)
        assert await host.names() == ["read"]
        assert house.hub.projects.shown == {}


def test_only_a_directory_of_this_machine_is_a_workplace():
    assert first_directory(["https://example.com", "file://other/home", "file:///home/a%20b"]) == Path("/home/a b")
    assert first_directory(["", "file:relative", "file://[", "file:///a%00b"]) is None


def test_no_upstream_can_have_the_name_of_a_project(tmp_path: Path):
    assert project_view(tmp_path / "Mein Projekt").name.startswith("@mein-projekt-")
    assert project_view(tmp_path / "a" / "x") != project_view(tmp_path / "b" / "x")


@pytest.mark.covers("ES-9")
async def test_search_mode_is_decided_for_the_first_host_of_its_label_in_a_project(shop: Shop):
    shop.write(DB)
    fakes = shop.fakes("db", files=FakeUpstream(tools=[f"t{at}" for at in range(130)]))
    meta = ["hub__find_tools", "hub__call_tool"]
    async with a_house(fakes, **shop.projects) as house:
        whole = await house.host("lines", L4, workplace=shop.root)
        await sees(whole, [*(f"files__t{at}" for at in range(130)), "db__db"])
        first = await house.host("lines", L4, workplace=shop.root, identity=Identity("alice", "zed"))
        await sees(first, meta)
        second = await house.host("lines", L4, workplace=shop.root, identity=Identity("alice", "zed"))
        await sees(second, meta)
        assert await first.names() == meta


@pytest.mark.covers("ES-9")
async def test_nothing_is_decided_by_the_lists_of_a_project_that_has_ended(shop: Shop, mock_clock):
    mock_clock.rate = 1.0
    shop.write(DB)
    tools, slow, ready = [f"t{at}" for at in range(130)], FakeUpstream(tools=["x"]), trio.Event()
    fakes = shop.fakes("db", files=FakeUpstream(tools=tools), slow=slow)
    zed = {"workplace": shop.root, "identity": Identity("alice", "zed")}
    async with a_house(fakes, upstreams={"slow": {"disabled": True}}, **shop.projects) as house:
        await sees(
            await house.host("lines", L4, workplace=shop.root), [*(f"files__{each}" for each in tools), "db__db"]
        )
        await sees(await house.host("lines", L4, **zed), ["hub__find_tools", "hub__call_tool"])
        decided = house.hub.memory.get("search", "on")
        assert any("@" in each for each in decided)
        for host in house.hosts:
            await host.leave()
        await trio.testing.wait_all_tasks_blocked()

        async def initialize(message, conversation):
            await ready.wait()
            return slow.answer(message)

        slow.on["initialize"] = initialize
        starts = UpstreamConfig(command="slow", timeouts=Timeouts(start=1000.0))
        house.hub.apply(structs.replace(house.hub.config, upstreams=house.hub.config.upstreams | {"slow": starts}))
        returning = await house.host("lines", L4, **zed)
        await returning.leave()
        await trio.testing.wait_all_tasks_blocked()
        mock_clock.jump(LINGER_S + 1)

        async def ended() -> bool:
            return house.hub.projects.shown == {}

        async def complete() -> bool:
            return house.hub.live.complete and not house.hub.live.dirty

        await until(ended)
        assert not await complete()
        ready.set()
        await until(complete)
        await trio.testing.wait_all_tasks_blocked()
        assert house.hub.memory.get("search", "on") == decided
