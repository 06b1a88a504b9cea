"""Profiles: what a host is shown, what is left out for it, and who hears of changes."""

import json

import pytest
import trio
import trio.testing
from msgspec import structs

from config.profile_settings import Profile, ToolOverride
from hub.catalog.endpoint_views import profile_view
from hub.downstream import request_pipeline as pipeline
from hub.downstream.http.endpoint import Endpoint
from hub.downstream.lines import connection
from hub.link.call_interface import Identity
from hub.wire.mcp import L4, SUBSCRIPTION_KEY
from tests.journeys.pairs import Pair
from tests.support.fakes import FakeUpstream
from tests.support.house import a_house
from tests.support.http_fakes import Host

CURSOR, CODEX, OTHER = (Identity("alice", label) for label in ("cursor", "codex", "other"))
LISTED = "notifications/tools/list_changed"
SCHEMA = {
    "type": "object",
    "properties": {"owner": {"type": "string"}, "repo": {"type": "string"}, "title": {"type": "string"}},
    "required": ["owner", "title"],
}


async def apply(house, **profiles):
    """Apply another configuration of profiles."""
    config = structs.replace(house.hub.config, profiles=profiles)
    await house.hub.prepare(config)
    house.hub.apply(config)
    await trio.sleep(0.2)
    await trio.testing.wait_all_tasks_blocked()


def servers(pair):
    github = pair.fake(
        tools=["create_issue", "delete_repo"],
        prompts=[{"name": "review"}],
        resources=[{"uri": "gh://issues", "name": "issues"}],
        resourceTemplates=[{"uriTemplate": "gh://issues/{n}", "name": "issue"}],
    )
    notes = pair.fake(
        tools=["read", "write"],
        prompts=[{"name": "summary"}],
        resources=[{"uri": "note://today", "name": "today"}],
        resourceTemplates=[{"uriTemplate": "note://{day}", "name": "day"}],
    )
    github.instructions, notes.instructions = "Be kind.", "Write little."
    return {"github": github, "notes": notes}


def calls_of(fake, method="tools/call"):
    return [call["params"] for each in fake.conversations for call in each.of(method)]


async def listen(pair, *hosts):
    """Have modern hosts hear of changes."""
    for host in hosts if not pair.from_legacy else ():
        await host.start("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
    await trio.testing.wait_all_tasks_blocked()


CODING = Profile(hosts=("cursor",), servers=("github",), tools=("!*delete*",))


@pytest.mark.covers("EP-1", "EP-3")
async def test_a_label_chooses_its_profile_and_all_others_see_all(pair, autojump_clock):
    async with pair.house(servers(pair), profiles={"coding": CODING}) as (house, host):
        cursor = await pair.host(house, identity=CURSOR)
        assert await cursor.names() == ["github__create_issue"]
        assert await host.names() == ["github__create_issue", "github__delete_repo", "notes__read", "notes__write"]
        assert await cursor.names("prompts") == ["github__review"]
        assert await cursor.names("resources") == ["gh://issues"]
        assert await cursor.names("resourceTemplates") == ["gh://issues/{n}"]
        assert "notes" not in cursor.welcome.get("instructions", "")
        rows = {row.label: row for row in (await house.api.status()).hosts}
        if pair.from_legacy:
            assert (rows["cursor"].profile, rows["cursor"].tools) == ("coding", 1)
            assert (rows["desk"].profile, rows["desk"].tools) == (None, 4)
        [row] = (await house.api.status()).profiles
        assert (row.name, row.tools, row.search) == ("coding", 1, "auto")


async def refusal(host, method, params):
    """The refusal, without the name that it repeats."""
    error = await host.error(method, params)
    named = params.get("name") or params.get("uri") or "-"
    return error["code"], error["message"].replace(named, "it")


@pytest.mark.covers("EP-4")
async def test_what_is_left_out_does_not_exist_for_its_hosts(pair, autojump_clock):
    fakes = servers(pair)
    async with pair.house(fakes, profiles={"coding": CODING}) as (house, host):
        cursor = await pair.host(house, identity=CURSOR)
        for method, hidden, unknown in [
            ("tools/call", {"name": "github__delete_repo"}, {"name": "github__nothing_so"}),
            ("tools/call", {"name": "notes__read"}, {"name": "nobody__read"}),
            ("prompts/get", {"name": "notes__summary"}, {"name": "nobody__summary"}),
            ("resources/read", {"uri": "note://today"}, {"uri": "none://today"}),
            (
                "completion/complete",
                {"ref": {"type": "ref/prompt", "name": "notes__summary"}, "argument": {"name": "a", "value": ""}},
                {"ref": {"type": "ref/prompt", "name": "nobody__summary"}, "argument": {"name": "a", "value": ""}},
            ),
            (
                "completion/complete",
                {"ref": {"type": "ref/resource", "uri": "note://{day}"}, "argument": {"name": "a", "value": ""}},
                {"ref": {"type": "ref/resource", "uri": "none://{day}"}, "argument": {"name": "a", "value": ""}},
            ),
        ]:
            found = await refusal(cursor, method, hidden)
            assert found == await refusal(cursor, method, unknown), method
            assert found[0] in (-32602, -32002)
        if pair.from_legacy:
            found = await refusal(cursor, "resources/subscribe", {"uri": "note://today"})
            assert found == await refusal(cursor, "resources/subscribe", {"uri": "none://today"})
        assert not calls_of(fakes["notes"]), "nothing arrived"
        assert not calls_of(fakes["notes"], "resources/read")
        assert not calls_of(fakes["github"])
        await host.call("github__delete_repo")
        await host.call("notes__read")
        assert len(calls_of(fakes["notes"])) == 1, "a profile is a view, not a permission"


@pytest.mark.covers("EP-1")
async def test_the_profile_default_and_its_absence(pair, autojump_clock):
    reading = Profile(servers=("notes",))
    async with pair.house(servers(pair), profiles={"coding": CODING}) as (house, _):
        everything = await pair.host(house, identity=CURSOR, endpoint="~default")
        assert len(await everything.names()) == 4, "all, since it is not configured"
    async with pair.house(servers(pair), profiles={"coding": CODING, "default": reading}) as (house, host):
        assert await host.names() == ["notes__read", "notes__write"]
        cursor = await pair.host(house, identity=CURSOR)
        assert await cursor.names() == ["github__create_issue"], "its label comes first"
        named = await pair.host(house, identity=CURSOR, endpoint="~default")
        assert await named.names() == ["notes__read", "notes__write"], "what the user named comes before the label"
        alone = await pair.host(house, identity=CURSOR, endpoint="github")
        assert await alone.names() == ["create_issue", "delete_repo"], "one server knows no profiles"
        own = await pair.host(house, identity=Identity("alice", "hubd"))
        assert len(await own.names()) == 4, "the hub's own commands see all"


@pytest.mark.covers("EP-2")
async def test_nothing_that_a_host_says_of_itself_chooses(pair, autojump_clock):
    async with pair.house(servers(pair), profiles={"coding": CODING}) as (_, host):
        about = {"name": "cursor", "title": "cursor", "version": "1"}
        if pair.from_legacy:
            params = {"protocolVersion": host.version, "capabilities": {}, "clientInfo": about}
            await host.ask("initialize", params)
            await host.tell("notifications/initialized")
        listed = await host.result(
            "tools/list", meta=None if pair.from_legacy else {"io.modelcontextprotocol/clientInfo": about}
        )
        assert len(listed["tools"]) == 4


@pytest.mark.covers("EP-8")
async def test_only_hosts_whose_lists_differ_are_told_of_a_change(pair, autojump_clock):
    profiles = {"coding": CODING, "writing": Profile(hosts=("codex",), servers=("notes",))}
    async with pair.house(servers(pair), profiles=profiles) as (house, host):
        cursor = await pair.host(house, identity=CURSOR)
        codex = await pair.host(house, identity=CODEX)
        await listen(pair, host, cursor, codex)

        await apply(house, **profiles | {"coding": structs.replace(CODING, tools=("*",))})
        assert [len(each.of(LISTED)) for each in (cursor, codex, host)] == [1, 0, 0]
        assert await cursor.names() == ["github__create_issue", "github__delete_repo"]

        await apply(house, **profiles | {"coding": structs.replace(CODING, tools=("*",), max_tools=1)})
        assert [len(each.of(LISTED)) for each in (cursor, codex, host)] == [1, 0, 0], "the same lists"
        assert any("profile coding: shows 2 tools" in each for each in house.hub.live.warnings)

        await apply(house, **{"coding": structs.replace(CODING, tools=("*",), hosts=("codex",))})
        assert [len(each.of(LISTED)) for each in (cursor, codex, host)] == [2, 1, 0], "labels have moved"
        assert len(await cursor.names()) == 4
        assert await codex.names() == ["github__create_issue", "github__delete_repo"]

        await apply(house)
        assert [len(each.of(LISTED)) for each in (cursor, codex, host)] == [2, 2, 0]
        assert len(await codex.names()) == 4


async def test_a_profile_that_is_no_more_shows_nothing_to_those_who_named_it(pair, autojump_clock):
    async with pair.house(servers(pair), profiles={"coding": CODING}) as (house, _):
        named = await pair.host(house, endpoint="~coding")
        assert await named.names() == ["github__create_issue"]
        await apply(house, other=Profile())
        if named.carrier == "lines":
            assert await named.names() == []
            error = await named.error("tools/call", {"name": "github__create_issue"})
            assert error["code"] == -32602
        assert house.hub.router.live.find_view("~coding") is None


@pytest.mark.covers("EP-5")
async def test_a_renamed_tool_is_called_by_both_names(pair, autojump_clock):
    fakes = servers(pair)
    coding = structs.replace(CODING, rename={"github__create_issue": "new_issue"})
    async with pair.house(fakes, profiles={"coding": coding}) as (house, host):
        cursor = await pair.host(house, identity=CURSOR)
        listed = await cursor.result("tools/list")
        assert [each["name"] for each in listed["tools"]] == ["new_issue"]
        assert listed["tools"][0]["_meta"]["dev.hubd/originalName"] == "create_issue"
        await cursor.call("new_issue")
        await cursor.call("github__create_issue")
        assert [call["name"] for call in calls_of(fakes["github"])] == ["create_issue", "create_issue"]
        error = await host.error("tools/call", {"name": "new_issue"})
        assert error["code"] == -32602, "it is the name in that profile only"


FIXED = structs.replace(
    CODING,
    override={
        "github__create_issue": ToolOverride(
            description="File a bug.", fix={"owner": "acme", "repo": {"name": "app", "n": [1, None]}}
        )
    },
)


def with_schema(pair, schema):
    fakes = servers(pair)
    fakes["github"].lists["tools"][0]["inputSchema"] = schema
    return fakes


@pytest.mark.covers("EP-6")
async def test_a_fixed_argument_is_neither_shown_nor_taken(pair, autojump_clock):
    fakes = with_schema(pair, SCHEMA)
    async with pair.house(fakes, profiles={"coding": FIXED}) as (house, host):
        cursor = await pair.host(house, identity=CURSOR)
        [tool] = (await cursor.result("tools/list"))["tools"]
        assert tool["description"] == "File a bug."
        assert tool["inputSchema"] == {
            "type": "object",
            "properties": {"title": {"type": "string"}},
            "required": ["title"],
        }
        await cursor.call("github__create_issue", {"title": "t"})
        sent = {"title": "t", "owner": "acme", "repo": {"name": "app", "n": [1, None]}}
        assert calls_of(fakes["github"])[-1]["arguments"] == sent
        for name in ("owner", "repo"):
            refused = await cursor.call("github__create_issue", {"title": "t", name: "mine"})
            assert refused["isError"] is True
            assert refused["content"][0]["text"] == f'"{name}" is fixed by profile coding; leave it out'
        assert len(calls_of(fakes["github"])) == 1
        await host.call("github__create_issue", {"title": "t", "owner": "mine"})
        assert calls_of(fakes["github"])[-1]["arguments"] == {"title": "t", "owner": "mine"}


@pytest.mark.covers("EP-3")
async def test_lists_of_a_profile_are_private(pair, autojump_clock):
    if pair.from_legacy:
        pytest.skip("modern hosts are told of it")
    async with pair.house(servers(pair), profiles={"coding": CODING}) as (house, host):
        cursor = await pair.host(house, identity=CURSOR)
        for each in (host, cursor):
            assert (await each.result("tools/list"))["cacheScope"] == "private"


@pytest.mark.covers("EP-1")
@pytest.mark.parametrize(
    ("path", "opens"),
    [("/mcp", True), ("/mcp/~coding", True), ("/mcp/~other", False), ("/mcp/~default", False), ("/mcp/github", False)],
)
async def test_a_token_of_one_profile_opens_that_and_nothing_else(path, opens, autojump_clock):
    bound = Identity("alice", "codex", "coding")
    profiles = {"coding": CODING, "other": Profile(hosts=("codex",))}
    async with a_house({"github": FakeUpstream(tools=["a", "delete_b"])}, profiles=profiles) as house:
        host = Host(house.endpoint, bound, path)
        if opens:
            each = await house.host("http", identity=bound, endpoint=path.removeprefix("/mcp").removeprefix("/"))
            assert await each.names() == ["github__a"], "the token comes before the label"
        else:
            refused = await host.http("POST", b"{}", {"content-type": "application/json"})
            assert refused.status == 404
            said = json.loads(refused.body)
            assert said["error"].startswith(
                'The token that was sent opens the profile "coding" of this hub and nothing'
            )
            assert "Use the URL of the hub that ends in /mcp, or in /mcp/~coding." in said["error_description"]
            for unknown in ("/mcp/~none", "/mcp/none", "/mcp/~", "/mcp/~coding~"):
                nothing = await Host(house.endpoint, bound, unknown).http("POST", b"{}")
                assert (nothing.status, nothing.body) == (404, refused.body), "it does not tell what else there is"
            for method in ("GET", "DELETE", "PUT"):
                assert (await host.http(method, b"")).body == refused.body


@pytest.mark.covers("EP-1")
async def test_a_token_of_a_profile_that_is_no_more_is_told_so(autojump_clock):
    bound = Identity("alice", "codex", "gone")
    async with a_house({"github": FakeUpstream()}, profiles={"coding": CODING}) as house:
        refused = await Host(house.endpoint, bound, "/mcp/~gone").http("POST", b"{}")
        assert refused.status == 404
        said = json.loads(refused.body)
        assert "has no such profile any more" in said["error"]
        assert "hubd token new" in said["error_description"]
        assert "coding" not in str(said)


@pytest.mark.covers("EP-4")
async def test_a_server_that_was_removed_was_never_there_for_those_who_did_not_see_it(pair, autojump_clock):
    async with pair.house(servers(pair), profiles={"coding": CODING}) as (house, host):
        cursor = await pair.host(house, identity=CURSOR)
        assert len(await host.names()) == 4
        upstreams = {"github": house.hub.config.upstreams["github"]}
        house.hub.apply(structs.replace(house.hub.config, upstreams=upstreams))
        await trio.sleep(0.2)
        gone = await host.ask("tools/call", {"name": "notes__read"})
        assert "notes" in json.dumps(gone)
        assert await refusal(cursor, "tools/call", {"name": "notes__read"}) == await refusal(
            cursor, "tools/call", {"name": "nobody__read"}
        )


@pytest.mark.covers("EP-4")
async def test_a_resource_that_is_hidden_by_a_change_is_watched_no_more(autojump_clock):
    async with a_house(servers(Pair("LL", "lines")), profiles={"coding": structs.replace(CODING, servers=())}) as house:
        cursor = await house.host("lines", identity=CURSOR)
        await cursor.result("resources/subscribe", {"uri": "note://today"})
        await apply(house, coding=CODING)
        assert cursor.of("notifications/resources/updated") == [{"uri": "note://today"}]
        assert list(house.hub.supervisor.upstreams["notes"].host_subscriptions) == []


async def test_a_resource_that_is_hidden_while_its_server_is_asked_is_not_watched(autojump_clock):
    fakes = servers(Pair("LL", "lines"))
    asked, hidden = trio.Event(), trio.Event()

    async def late(message, conversation):
        asked.set()
        await hidden.wait()
        return {}

    fakes["notes"].on["resources/subscribe"] = late
    async with a_house(fakes, profiles={"coding": structs.replace(CODING, servers=())}) as house:
        cursor = await house.host("lines", identity=CURSOR)
        refused = []

        async def subscribe():
            refused.append(await cursor.error("resources/subscribe", {"uri": "note://today"}))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(subscribe)
            await asked.wait()
            await apply(house, coding=CODING)
            hidden.set()
        assert "not found" in refused[0]["message"]
        await fakes["notes"].conversation.tell("notifications/resources/updated", {"uri": "note://today"})
        await cursor.result("ping")
        assert cursor.of("notifications/resources/updated") == []


# --- a reload between the arrival of a request and its turn -----------------------------------------------------------


@pytest.fixture
def reload_first(monkeypatch):
    """Have other profiles applied between the arrival of the next request with that method, and its turn."""

    def arm(house, method, **profiles):
        def applied(request):
            if profiles and request.method == method:
                house.hub.apply(structs.replace(house.hub.config, profiles=profiles.copy()))
                profiles.clear()

        async def line_answered(host, router, request, *more):
            applied(request)
            return await pipeline.answer(host, router, request, *more)

        def post_answered(self, inbound):
            applied(inbound.post.message)
            return answer_post(self, inbound)

        answer_post = Endpoint.answer
        monkeypatch.setattr(connection, "answer", line_answered)
        monkeypatch.setattr(Endpoint, "answer", post_answered)

    return arm


WATCHED = {"notifications": {"toolsListChanged": True, "resourceSubscriptions": ["note://today"]}}


async def watch(pair, host):
    """Ask to be told of a resource, and of tools; the answer of a legacy host."""
    if pair.from_legacy:
        return await host.ask("resources/subscribe", {"uri": "note://today"})
    await host.start("subscriptions/listen", WATCHED)
    await trio.sleep(5)
    return None


async def change(fake, name):
    """Have a server say that its tools have changed, and the note as well."""
    fake.lists["tools"].append({"name": name, "inputSchema": {"type": "object"}})
    if fake.version == L4:
        await fake.conversation.tell(LISTED)
    for id in [id for id, wanted in fake.conversation.listens.items() if wanted.get("toolsListChanged")]:
        await fake.conversation.tell(LISTED, {"_meta": {SUBSCRIPTION_KEY: id}})
    await fake.touch("note://today")
    await trio.sleep(1)
    await trio.testing.wait_all_tasks_blocked()


@pytest.mark.covers("EP-4", "EP-8")
async def test_who_subscribes_as_a_profile_comes_hears_nothing_of_what_that_hides(pair, autojump_clock, reload_first):
    fakes = servers(pair)
    async with pair.house(fakes, profiles={"other": Profile()}) as (house, _):
        cursor = await pair.host(house, identity=CURSOR)
        assert len(await cursor.names()) == 4
        method = "resources/subscribe" if pair.from_legacy else "subscriptions/listen"
        reload_first(house, method, coding=CODING)
        answer = await watch(pair, cursor)
        assert answer is None or "error" in answer
        told = len(cursor.of(LISTED))
        await change(fakes["notes"], "hidden")
        assert len(cursor.of(LISTED)) == told
        assert cursor.of("notifications/resources/updated") == []
        assert list(house.hub.supervisor.upstreams["notes"].host_subscriptions) == []
        await change(fakes["github"], "shown")
        assert len(cursor.of(LISTED)) == told + 1
        assert await cursor.names() == ["github__create_issue", "github__shown"]


@pytest.mark.covers("EP-8")
async def test_who_subscribes_as_a_profile_goes_hears_of_what_that_hid(pair, autojump_clock, reload_first):
    fakes = servers(pair)
    async with pair.house(fakes, profiles={"coding": CODING}) as (house, _):
        cursor = await pair.host(house, identity=CURSOR)
        assert await cursor.names() == ["github__create_issue"]
        method = "resources/subscribe" if pair.from_legacy else "subscriptions/listen"
        reload_first(house, method, other=Profile())
        answer = await watch(pair, cursor)
        assert answer is None or "result" in answer
        told = len(cursor.of(LISTED))
        await change(fakes["notes"], "shown")
        assert len(cursor.of(LISTED)) == told + 1
        assert [each["uri"] for each in cursor.of("notifications/resources/updated")] == ["note://today"]


async def test_a_session_that_is_shown_another_view_subscribes_by_that_from_then_on(autojump_clock):
    async with a_house(servers(Pair("LL", "lines")), profiles={"coding": CODING}) as house:
        host = await house.host("lines")
        await host.result("resources/subscribe", {"uri": "gh://issues"})
        [attached] = house.hub.hosts
        attached.view = profile_view("coding")  # as a host that has a project now, before what it watches is looked at
        assert "not found" in (await host.error("resources/subscribe", {"uri": "note://today"}))["message"]
