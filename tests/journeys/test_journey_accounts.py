"""Several accounts at one server: its tools are listed once, and each call reaches the account that serves it."""

import os
from collections import Counter

import pytest
import trio
import trio.testing
from msgspec import structs

from config.profile_settings import Profile, ToolOverride
from config.projects import Trust, load_project
from config.security_settings import PolicyConfig
from config.setting_declarations import Secret
from config.settings import AccountSettings, HubConfig, UpstreamConfig
from hub.catalog.endpoint_views import project_view
from hub.link.call_interface import Identity
from hub.projects.find_project_of_host import TrustedProjects
from tests.journeys.test_journey_approvals import listed, people
from tests.journeys.test_journey_tasks import EXTENSION, TaskServer, text

CURSOR, OTHER = Identity("alice", "cursor"), Identity("alice", "other")
ACCOUNTS = {name: AccountSettings(env={"TOKEN": Secret(name)}) for name in ("work", "private")}
TWO = {"github": {"accounts": ACCOUNTS}}
GITHUB = "github", "github:private"


def whoami(pair, account, schemas=None):
    """A server that answers each call, read and prompt with the account that it runs for."""
    fake = pair.fake(tools=["whoami"], prompts=[{"name": "greet"}], resources=[{"uri": "gh://me", "name": "me"}])
    if schemas:
        fake.lists["tools"] = schemas
    say = {"type": "text", "text": account}
    fresh = {} if pair.to_legacy else {"ttlMs": 60_000, "cacheScope": "private"}
    fake.on["tools/call"] = lambda message, at: pair.whole(content=[say])
    fake.on["prompts/get"] = lambda message, at: pair.whole(messages=[{"role": "user", "content": say}])
    fake.on["resources/read"] = lambda message, at: pair.whole(
        contents=[{"uri": message["params"]["uri"], "text": account}], **fresh
    )
    return fake


def servers(pair, **more):
    return dict(zip(GITHUB, (whoami(pair, "work", **more), whoami(pair, "private", **more)), strict=True))


async def who(host, name="github__whoami", /, **arguments):
    """The account that serves a call, or the refusal."""
    answer = await host.ask("tools/call", {"name": name, "arguments": arguments})
    if "error" in answer:
        return answer["error"]["message"]
    result = answer["result"]
    return ("! " if result.get("isError") else "") + result["content"][0]["text"]


async def who_reads(host, uri="gh://me"):
    return (await host.result("resources/read", {"uri": uri}))["contents"][0]["text"]


async def schema_of(host, name):
    tools = (await host.result("tools/list"))["tools"]
    return next(tool["inputSchema"] for tool in tools if tool["name"] == name)


async def apply(house, config):
    await house.hub.prepare(config)
    house.hub.apply(config)
    await trio.sleep(0.2)
    await trio.testing.wait_all_tasks_blocked()


def sent(fake, method="tools/call"):
    return [call["params"] for each in fake.conversations for call in each.of(method)]


async def test_tools_are_listed_once_and_the_argument_chooses_the_account(pair, autojump_clock):
    fakes = servers(pair)
    async with pair.house(fakes, upstreams=TWO) as (_house, host):
        assert await host.names() == ["github__whoami"]
        schema = await schema_of(host, "github__whoami")
        assert schema["properties"]["account"]["enum"] == ["work", "private"]
        assert "required" not in schema
        assert not fakes["github:private"].conversations, "nobody has used it"
        assert await who(host) == "work"
        assert await who(host, account="private", x=1) == "private"
        assert await who(host, account="work") == "work"
        assert [call["arguments"] for call in sent(fakes["github:private"])] == [{"x": 1}]
        assert [call["arguments"] for call in sent(fakes["github"])] == [{}, {}]
        assert await who_reads(host) == "work"


OWN = {"type": "object", "properties": {"account": {"type": "string"}}, "required": ["account"]}
BOTH = {"type": "object", "properties": {"account": {}, "hub_account": {}}}


async def test_a_tool_with_an_argument_of_that_name_keeps_it(pair, autojump_clock):
    schemas = [{"name": "own", "inputSchema": OWN}, {"name": "both", "inputSchema": BOTH}]
    fakes = servers(pair, schemas=schemas)
    async with pair.house(fakes, upstreams=TWO) as (_house, host):
        assert {*(await schema_of(host, "github__own"))["properties"]} == {"account", "hub_account"}
        assert await schema_of(host, "github__both") == BOTH
        assert await who(host, "github__own", account="private") == "work"
        assert await who(host, "github__own", account="x", hub_account="private") == "private"
        assert await who(host, "github__both", account="private", hub_account="private") == "work"
        assert sent(fakes["github:private"])[0]["arguments"] == {"account": "x"}


CODING = Profile(hosts=("cursor",), accounts={"github": "private"})
NO_ACCOUNT = '"account" names no account there is; there are: work, private'
BY_PROFILE = '"account" is fixed by profile coding; leave it out'
BY_CONFIG = '"account" is fixed by the configuration; leave it out'


CHOICES = [
    (None, None, None, "work"),
    (None, None, "private", "private"),
    (None, None, "nobody", f"! {NO_ACCOUNT}"),
    (None, None, 7, f"! {NO_ACCOUNT}"),
    (None, None, "github:private", f"! {NO_ACCOUNT}"),
    (None, None, "", f"! {NO_ACCOUNT}"),
    (None, "private", None, "private"),
    (None, "private", "work", f"! {BY_CONFIG}"),
    ("private", None, None, "private"),
    ("private", None, "work", f"! {BY_PROFILE}"),
    ("private", None, "private", f"! {BY_PROFILE}"),
    ("work", "private", None, "work"),
    ("work", "private", "private", f"! {BY_PROFILE}"),
]
"""Profile, configuration, argument, and who serves."""


@pytest.mark.parametrize("row", CHOICES)
async def test_who_chooses_the_account(pair, autojump_clock, row):
    profile, decided, named, served = row
    profiles = {} if profile is None else {"coding": Profile(hosts=("cursor",), accounts={"github": profile})}
    settings = {"accounts": ACCOUNTS} | ({} if decided is None else {"account": decided})
    async with pair.house(servers(pair), upstreams={"github": settings}, profiles=profiles) as (house, _):
        cursor = await pair.host(house, identity=CURSOR)
        may_choose = profile is None and decided is None
        assert ("properties" in await schema_of(cursor, "github__whoami")) is may_choose
        assert await who(cursor, **({} if named is None else {"account": named})) == served
        first = profile or decided or "work"
        assert await who_reads(cursor) == first
        said = (await cursor.result("prompts/get", {"name": "github__greet"}))["messages"]
        assert said[0]["content"]["text"] == first


async def test_a_profile_may_fix_the_argument_as_any_other(pair, autojump_clock):
    override = {"github__whoami": ToolOverride(fix={"account": "private"})}
    fixed = Profile(hosts=("cursor",), override=override)
    async with pair.house(servers(pair), upstreams=TWO, profiles={"coding": fixed}) as (house, _):
        cursor = await pair.host(house, identity=CURSOR)
        assert await schema_of(cursor, "github__whoami") == {"type": "object", "properties": {}}
        assert await who(cursor) == "private"
        assert await who(cursor, account="work") == f"! {BY_PROFILE}"


async def test_calls_by_way_of_the_search_choose_in_the_same_way(pair, autojump_clock):
    profiles = {"coding": structs.replace(CODING, search="on")}
    async with pair.house(servers(pair), upstreams=TWO, profiles=profiles) as (house, host):
        cursor = await pair.host(house, identity=CURSOR)

        async def call(host, **arguments):
            return await who(host, "hub__call_tool", name="github__whoami", arguments=arguments)

        assert [await call(host), await call(host, account="private")] == ["work", "private"]
        assert [await call(cursor), await call(cursor, account="work")] == ["private", f"! {BY_PROFILE}"]


async def test_what_was_read_of_one_account_is_never_told_to_another(pair, autojump_clock):
    fakes = servers(pair)
    async with pair.house(fakes, upstreams=TWO, profiles={"coding": CODING}) as (house, host):
        cursor = await pair.host(house, identity=CURSOR)
        for _ in range(2):
            assert [await who_reads(host), await who_reads(cursor)] == ["work", "private"]
        async with trio.open_nursery() as nursery:
            found = []

            async def read(host):
                found.append(await who_reads(host))

            for each in (host, cursor, host, cursor):
                nursery.start_soon(read, each)
        assert Counter(found) == {"work": 2, "private": 2}


async def test_subscriptions_are_of_the_account(pair, autojump_clock):
    fakes = servers(pair)
    async with pair.house(fakes, upstreams=TWO, profiles={"coding": CODING}) as (house, host):
        cursor = await pair.host(house, identity=CURSOR)
        for each in (host, cursor):
            if pair.from_legacy:
                await each.result("resources/subscribe", {"uri": "gh://me"})
            else:
                await each.start("subscriptions/listen", {"notifications": {"resourceSubscriptions": ["gh://me"]}})
        await trio.testing.wait_all_tasks_blocked()
        await fakes["github:private"].conversation.tell("notifications/resources/updated", {"uri": "gh://me"})
        await trio.sleep(1)
        heard = [[each["uri"] for each in host.of("notifications/resources/updated")] for host in (host, cursor)]
        assert heard == [[], ["gh://me"]]


async def test_fifty_calls_at_once_never_cross(pair, autojump_clock):
    fakes = servers(pair)
    waiting = trio.Event()
    for name, fake in fakes.items():

        async def answer(message, at, name=name, pair=pair):
            await waiting.wait()
            text = f"{name} {message['params']['arguments']['number']}"
            return pair.whole(content=[{"type": "text", "text": text}])

        fake.on["tools/call"] = answer
    async with pair.house(fakes, upstreams=TWO) as (_house, host):
        found = {}

        async def call(number):
            found[number] = await who(host, number=number, **({"account": "private"} if number % 2 else {}))

        async with trio.open_nursery() as nursery:
            for number in range(50):
                nursery.start_soon(call, number)
            await trio.testing.wait_all_tasks_blocked()
            waiting.set()
        assert found == {number: f"{GITHUB[number % 2]} {number}" for number in range(50)}


async def test_a_change_of_one_account_leaves_the_others_alone(pair, autojump_clock):
    fakes = servers(pair)
    going_on = trio.Event()

    async def answer(message, at):
        await going_on.wait()
        return pair.whole(content=[{"type": "text", "text": "work"}])

    async with pair.house(fakes, upstreams=TWO) as (house, host):
        assert [await who(host), await who(host, account="private")] == ["work", "private"]
        fakes["github"].on["tools/call"] = answer
        async with trio.open_nursery() as nursery:

            async def call():
                assert await who(host) == "work"

            nursery.start_soon(call)
            await trio.testing.wait_all_tasks_blocked()
            other = {**ACCOUNTS, "private": AccountSettings(env={"TOKEN": Secret("new")})}
            upstreams = {"github": structs.replace(house.hub.config.upstreams["github"], accounts=other)}
            await apply(house, structs.replace(house.hub.config, upstreams=upstreams))
            assert await who(host, account="private") == "private"
            assert [len(fakes[name].conversations) for name in GITHUB] == [1, 2]
            going_on.set()
        upstreams = {"github": structs.replace(upstreams["github"], accounts={"work": ACCOUNTS["work"]})}
        await apply(house, structs.replace(house.hub.config, upstreams=upstreams))
        assert await who(host, account="private") == f"! {NO_ACCOUNT.replace(', private', '')}"
        assert [fakes[name].conversation.over for name in GITHUB] == [False, True]


async def test_another_order_of_accounts_gives_nobody_anothers_account(pair, autojump_clock):
    fakes = servers(pair)
    async with pair.house(fakes, upstreams=TWO) as (house, host):
        assert await who(host, account="private") == "private"
        turned = dict(reversed(ACCOUNTS.items()))
        upstreams = {"github": structs.replace(house.hub.config.upstreams["github"], accounts=turned)}
        await apply(house, structs.replace(house.hub.config, upstreams=upstreams))
        assert {name: each.config.account for name, each in house.hub.supervisor.upstreams.items()} == {
            "github": "private",
            "github:work": "work",
        }


async def test_an_account_has_no_endpoint_of_its_own(pair, autojump_clock):
    async with pair.house(servers(pair), upstreams=TWO) as (house, _):
        assert house.hub.live.find_view("github") is not None
        assert house.hub.live.find_view("github:private") is None
        alone = await pair.host(house, endpoint="github")
        assert [await who(alone, "whoami"), await who(alone, "whoami", account="private")] == ["work", "private"]


async def test_tasks_are_of_the_account(pair, autojump_clock):
    async def work(task):
        await trio.sleep(3)
        task.complete(text(f"done as {task.server.account}"))

    fakes = {name: TaskServer(pair.upstream_version, work) for name in GITHUB}
    fakes["github"].account, fakes["github:private"].account = "work", "private"
    async with pair.house(fakes, upstreams=TWO, profiles={"coding": CODING}) as (house, host):
        assert await who(host, "github__slow") == "done as work"
        assert await who(host, "github__slow", account="private") == "done as private"
        if pair.from_legacy:
            return
        knowing = await pair.host(house, capabilities=EXTENSION)
        begun = await knowing.call("github__slow", {"account": "work"})
        await trio.sleep(5)
        task = await knowing.result("tasks/get", {"taskId": begun["taskId"]})
        assert task["result"]["content"][0]["text"] == "done as work"
        other = await pair.host(house, identity=Identity(knowing.identity.principal, "cursor"), capabilities=EXTENSION)
        refused = await other.error("tasks/get", {"taskId": begun["taskId"]})
        assert refused["code"] == -32602, "of an account that its profile does not give"


async def test_a_yes_for_one_account_is_none_for_another(pair, autojump_clock):
    rules = PolicyConfig(ask=("github__*",))
    async with pair.house(servers(pair), upstreams=TWO, policy=rules) as (house, host):
        for account in ("work", "private"):
            refused = await host.call("github__whoami", {"account": account})
            (request,) = (await listed(house)).requests
            assert request.server == f"github:{account}"
            assert refused["isError"]
            await people(house).approval_give(request.id, "session")
            assert await who(host, account=account) == account


@pytest.mark.parametrize("says", ["account", "account and more"])
async def test_the_account_of_a_project(tmp_path, autojump_clock, pair, says):
    root = tmp_path / "shop"
    root.mkdir()
    more = "" if says == "account" else 'describe = { whoami = "Who." }\n'
    (root / ".hubd.toml").write_text(f'[upstreams.github]\naccount = "private"\n{more}')
    base = HubConfig(upstreams={"github": UpstreamConfig(command="github", accounts=ACCOUNTS)})
    trust = Trust(tmp_path / "trust.json")
    trust.allow(load_project(root, os.environ, base))
    there = f"github{project_view(root).name}"
    fakes = servers(pair) | {there: whoami(pair, "copy of work"), f"{there}:private": whoami(pair, "private")}
    profiles = {"coding": Profile(hosts=("cursor",), accounts={"github": "work"})}
    options = {"reader": TrustedProjects(trust, os.environ, tmp_path), "upstreams": TWO, "profiles": profiles}
    async with pair.house(fakes, **options) as (house, outside):
        inside = await house.host("lines", pair.host_version, workplace=root)
        assert await inside.names() == ["github__whoami"]
        assert await who(inside) == "private"
        assert await who_reads(inside) == "private"
        decided = "the project" if says == "account" else "the configuration"
        assert await who(inside, account="work") == f'! "account" is fixed by {decided}; leave it out'
        assert "properties" not in await schema_of(inside, "github__whoami")
        assert await who(outside) == "work"
        cursor = await house.host("lines", pair.host_version, workplace=root, identity=CURSOR)
        assert await who(cursor) == ("work" if says == "account" else "copy of work"), "a profile comes first"
        assert bool(fakes[there].conversations) == (says != "account"), "nothing else runs for it"
