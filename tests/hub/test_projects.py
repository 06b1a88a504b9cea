"""Hosts at work in a project: what they see, when it changes, and who is none of them."""

import os
from pathlib import Path

import pytest
import trio
from fakes import FakeUpstream
from house import a_house

from config.projects import load_project
from config.schema import HubConfig
from config.trust import Trust
from hub.hub import Hub
from hub.projects import LINGER_S, Allowed, Projects, first_directory, scope_of
from hub.wire.mcp import L4, MODERN

DB = '[upstreams.db]\ncommand = "db"\n'


class Shop:
    """A project directory, and what the user allows of it."""

    def __init__(self, directory: Path) -> None:
        self.root = directory / "shop"
        (self.root / "src").mkdir(parents=True)
        self.trust = Trust(directory / "trust.json")
        self.trust_file = directory / "trust.json"
        self.home = directory
        self.scope = scope_of(self.root)

    def write(self, text: str, *, allowed: bool = True) -> None:
        new = self.root / "new"
        new.write_text(text)
        new.rename(self.root / ".hubd.toml")
        if allowed:
            self.allow()

    def allow(self) -> None:
        self.trust.allow(load_project(self.root, os.environ, HubConfig()))

    def projects(self, hub: Hub) -> Projects:
        return Projects(hub, Allowed(self.trust, os.environ, self.home), self.trust_file)

    def fakes(self, *names: str, **common: FakeUpstream) -> dict[str, FakeUpstream]:
        return {**common, **{f"{name}{self.scope}": FakeUpstream(tools=[name]) for name in names}}


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path)


async def until(ready) -> None:
    """Until the hub has seen to it that it is `ready`; files are watched by a thread."""
    with trio.fail_after(10):
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
    async with a_house(shop.fakes("db", files=FakeUpstream(tools=["read"])), projects=shop.projects) as house:
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
    async with a_house(shop.fakes("files", files=FakeUpstream(tools=["read"])), projects=shop.projects) as house:
        inside = await house.host("lines", L4, workplace=shop.root)
        assert await inside.names() == ["files__files"]
        assert house.fakes[f"files{shop.scope}"].conversations


async def test_nothing_runs_that_was_not_allowed(shop: Shop):
    shop.write(DB, allowed=False)
    async with a_house(shop.fakes("db", files=FakeUpstream(tools=["read"])), projects=shop.projects) as house:
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


async def test_files_that_change_are_followed_once_they_are_allowed(shop: Shop):
    shop.write(DB)
    async with a_house(shop.fakes("db", "mail"), projects=shop.projects) as house:
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
    async with a_house(shop.fakes("db"), projects=shop.projects) as house:
        host = await house.host("lines", L4, workplace=shop.root)
        assert await host.names() == []
        shop.write(DB)
        await sees(host, ["db__db"])


@pytest.mark.parametrize("carrier", ["lines", "http"])
async def test_a_host_is_where_its_roots_are(shop: Shop, carrier: str):
    shop.write(DB)
    async with a_house(shop.fakes("db"), projects=shop.projects) as house:
        host = await house.host(carrier, L4, roots=shop.root.as_uri())
        await sees(host, ["db__db"])
        assert host.of("notifications/tools/list_changed")


async def test_servers_of_a_project_stop_when_its_hosts_are_gone_for_a_while(shop: Shop, mock_clock):
    mock_clock.rate = 1.0
    shop.write(DB)
    async with a_house(shop.fakes("db"), projects=shop.projects) as house:
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
        assert house.hub.projects.live == {}


async def test_one_server_of_the_endpoint_it_came_to_stays_that(shop: Shop):
    shop.write(DB)
    async with a_house(shop.fakes("db", files=FakeUpstream(tools=["read"])), projects=shop.projects) as house:
        host = await house.host("lines", L4, scope="files", workplace=shop.root)
        assert await host.names() == ["read"]
        assert house.hub.projects.live == {}


def test_only_a_directory_of_this_machine_is_a_workplace():
    assert first_directory(["https://example.com", "file://other/home", "file:///home/a%20b"]) == Path("/home/a b")
    assert first_directory(["", "file:relative"]) is None


def test_no_upstream_can_have_the_name_of_a_project(tmp_path: Path):
    assert scope_of(tmp_path / "Mein Projekt").startswith("@mein-projekt-")
    assert scope_of(tmp_path / "a" / "x") != scope_of(tmp_path / "b" / "x")
