"""Rules of who may use what: what is denied does not exist, by whatever door and name; what asks says so."""

import json

import pytest
import trio
import trio.testing
from msgspec import structs

from config.profile_settings import Profile
from config.security_settings import ConditionalRule, PolicyConfig
from hub.catalog.endpoint_views import EVERYTHING
from hub.link.call_interface import Identity
from hub.wire.mcp import L4, MODERN
from tests.journeys.pairs import Pair
from tests.journeys.test_journey_tasks import EXTENSION, TaskServer, asking, begin, look
from tests.support.fakes import FakeUpstream
from tests.support.house import a_house
from upstreams.subscriptions.resource_subscription import LINGER_S

CURSOR, OTHER = Identity("alice", "cursor"), Identity("alice", "other")
MARKED = [
    {"name": "get", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}},
    {"name": "close", "inputSchema": {"type": "object"}},
    {"name": "drop", "inputSchema": {"type": "object"}, "annotations": {"destructiveHint": True}},
]


async def apply(house, policy, **upstreams):
    """Apply other rules."""
    known = house.hub.config.upstreams
    more = {name: structs.replace(known[name], **its) for name, its in upstreams.items()}
    config = structs.replace(house.hub.config, policy=policy, upstreams=known | more)
    await house.hub.prepare(config)
    house.hub.apply(config)
    await trio.sleep(0.2)
    await trio.testing.wait_all_tasks_blocked()


def servers(pair):
    notes = pair.fake(
        tools=["read", "write"],
        prompts=[{"name": "summary"}],
        resources=[{"uri": "note://today", "name": "today"}, {"uri": "note://secret", "name": "secret"}],
        resourceTemplates=[
            {"uriTemplate": "note://day/{d}", "name": "day"},
            {"uriTemplate": "vault://{x}", "name": "v"},
        ],
    )
    notes.instructions = "Write little."
    mail = pair.fake(tools=["send"])
    mail.instructions = "Mail kindly."
    return {"notes": notes, "mail": mail}


def called(fake):
    return [call["params"]["name"] for each in fake.conversations for call in each.of("tools/call")]


@pytest.mark.covers("POL-05", "POL-08", "OM-1")
async def test_what_is_denied_does_not_exist(pair, autojump_clock):
    fakes = servers(pair)
    deny = ("notes__write", "prompt:*", "resource:note://secret", "resource:vault:*")
    refused = []
    async with pair.house(fakes, policy=PolicyConfig(deny=deny)) as (house, host):
        house.hub.judge.note = lambda kind, **members: refused.append((kind, members["name"], members["rule"]))
        assert await host.names() == ["notes__read", "mail__send"]
        assert await host.names("prompts") == []
        assert await host.names("resources") == ["note://today"]
        assert await host.names("resourceTemplates") == ["note://day/{d}"]
        denied = await host.error("tools/call", {"name": "notes__write", "arguments": {}})
        unknown = await host.error("tools/call", {"name": "notes__wrong", "arguments": {}})
        assert json.dumps(denied).replace("write", "wrong") == json.dumps(unknown)
        for uri in ("note://secret", "vault://a"):
            denied = await host.error("resources/read", {"uri": uri})
            unknown = await host.error("resources/read", {"uri": "nobody://a"})
            assert json.dumps(denied).replace(uri, "nobody://a") == json.dumps(unknown)
        assert (await host.error("prompts/get", {"name": "notes__summary"}))["code"] == -32602
        argument = {"name": "day", "value": ""}
        refs = ({"type": "ref/prompt", "name": f"notes__{name}"} for name in ("summary", "wrong"))
        denied, unknown = [await host.error("completion/complete", {"ref": ref, "argument": argument}) for ref in refs]
        assert denied == unknown
        assert await host.call("notes__read")
        recorder = house.hub.router.chains.recorder
        *denied_records, allowed = recorder.ring
    about = [(each.name, each.outcome, each.executed, each.upstream) for each in denied_records]
    assert about == [(name, "denied", "no", "notes") for _, name, _ in refused]
    assert (allowed.name, allowed.outcome) == ("notes__read", "")
    assert not recorder.running
    unknown = {method: each.count for (method, outcome, _), each in recorder.served.items() if outcome[:1] == "-"}
    assert sum(unknown.values()) == 4, "what nobody has is counted by its method alone"
    assert refused == [
        ("refuse", "notes__write", "deny[0]"),
        ("refuse", "note://secret", "deny[2]"),
        ("refuse", "vault://a", "deny[3]"),
        *[("refuse", "notes__summary", "deny[1]")] * 2,
    ]
    assert [each.method for each in denied_records][-1] == "completion/complete"
    assert called(fakes["notes"]) == ["read"]
    assert not any(each.of("prompts/get") or each.of("resources/read") for each in fakes["notes"].conversations)


@pytest.mark.covers("POL-08")
async def test_a_server_with_nothing_left_says_nothing_and_a_filtered_list_is_private(pair, autojump_clock):
    policy = PolicyConfig(deny=("upstream:mail", "host:cursor *write"))
    async with pair.house(servers(pair), policy=policy) as (house, host):
        listed = await host.result("tools/list")
        late = await pair.host(house)
        assert "Mail kindly" not in late.welcome["instructions"]
        assert "Write little" in late.welcome["instructions"]
        assert [tool["name"] for tool in listed["tools"]] == ["notes__read", "notes__write"]
        if not pair.from_legacy:
            assert listed["cacheScope"] == "private"


@pytest.mark.covers("POL-03", "POL-05")
async def test_rules_tell_hosts_apart(pair, autojump_clock):
    async with pair.house(servers(pair), policy=PolicyConfig(deny=("host:cursor *__send", "!host:cursor *__read"))) as (
        house,
        host,
    ):
        cursor = await pair.host(house, identity=CURSOR)
        assert await cursor.names() == ["notes__read", "notes__write"]
        assert await host.names() == ["notes__write", "mail__send"]
        assert (await cursor.error("tools/call", {"name": "mail__send", "arguments": {}}))["code"] == -32602
        assert await host.call("mail__send")


@pytest.mark.covers("POL-04")
async def test_a_denied_tool_is_denied_by_each_of_its_names(pair, autojump_clock):
    fakes = servers(pair)
    more = {"notes": {"aliases": ("old",), "rename": {"write": "scribble"}}}
    policy = PolicyConfig(deny=("notes__scribble",))
    profiles = {"short": Profile(hosts=("cursor",), rename={"notes__scribble": "jot"})}
    async with pair.house(fakes, upstreams=more, policy=policy, profiles=profiles) as (house, host):
        cursor = await pair.host(house, identity=CURSOR)
        alone = await pair.host(house, endpoint="notes")
        for name in ("notes__scribble", "notes__write", "old__scribble", "old__write", "write", "scribble"):
            assert (await host.error("tools/call", {"name": name, "arguments": {}}))["code"] == -32602, name
        assert (await cursor.error("tools/call", {"name": "jot", "arguments": {}}))["code"] == -32602
        assert await alone.names() == ["read"]
        for name in ("write", "scribble"):
            assert (await alone.error("tools/call", {"name": name, "arguments": {}}))["code"] == -32602, name
    assert called(fakes["notes"]) == []


@pytest.mark.covers("POL-05")
async def test_by_default_deny_only_what_is_allowed_is_there(pair, autojump_clock):
    policy = PolicyConfig(default="deny", allow=("upstream:notes *read", "resource:note://today"))
    async with pair.house(servers(pair), policy=policy) as (house, host):
        assert await host.names() == ["notes__read"]
        assert await host.names("prompts") == []
        assert await host.names("resources") == ["note://today"]
        assert await host.names("resourceTemplates") == []
        assert "Mail kindly" not in (await pair.host(house)).welcome["instructions"]


@pytest.mark.covers("POL-06", "POL-07")
async def test_modes_believe_hints_and_servers_that_are_trusted(pair, autojump_clock):
    fakes = {"ours": pair.fake(), "theirs": pair.fake()}
    for fake in fakes.values():
        fake.lists["tools"] = MARKED
    more = {"ours": {"trusted": True}, "theirs": {"hints": {"close": ("read-only",)}}}
    async with pair.house(fakes, upstreams=more, policy=PolicyConfig(mode="read-only")) as (house, host):
        assert await host.names() == ["ours__get", "theirs__close"]
        await apply(house, PolicyConfig(mode="careful"))
        tools = {tool["name"]: tool for tool in (await host.result("tools/list"))["tools"]}
        asks = {name for name, tool in tools.items() if tool["_meta"].get("dev.hubd/policy") == "ask"}
        assert asks == {"ours__close", "ours__drop", "theirs__get", "theirs__drop"}
        assert tools["theirs__close"]["annotations"] == {"readOnlyHint": True}
        assert tools["theirs__get"]["annotations"] == {"readOnlyHint": True}
        refused = await host.call("ours__drop")
        assert refused["isError"]
        assert refused["_meta"]["dev.hubd/failure"]["hub"] == "approval_required"
        assert await host.call("ours__get")
    assert called(fakes["ours"]) == ["get"]


@pytest.mark.covers("POL-11", "POL-02")
async def test_other_rules_hold_at_once(pair, autojump_clock):
    fakes = servers(pair)
    async with pair.house(fakes) as (house, host):
        assert await host.names() == ["notes__read", "notes__write", "mail__send"]
        assert await host.result("resources/read", {"uri": "note://today"})  # from now on in memory
        await apply(house, PolicyConfig(deny=("mail__*", "resource:note://today")))
        assert await host.names() == ["notes__read", "notes__write"]
        assert (await host.error("tools/call", {"name": "mail__send", "arguments": {}}))["code"] == -32602
        assert (await host.error("resources/read", {"uri": "note://today"}))["code"] in (-32602, -32002)
        if pair.from_legacy:
            assert {"notifications/tools/list_changed", "notifications/resources/list_changed"} <= {
                message["method"] for message in host.heard
            }
        await apply(house, PolicyConfig())
        assert await host.call("mail__send")


@pytest.mark.covers("POL-02", "POL-11")
@pytest.mark.parametrize("effect", ["deny", "ask"])
async def test_a_subscription_that_is_denied_now_ends(pair, effect, autojump_clock):
    fakes = servers(pair)
    async with pair.house(fakes) as (house, host):
        if pair.from_legacy:
            await host.result("resources/subscribe", {"uri": "note://today"})
        else:
            await host.start("subscriptions/listen", {"notifications": {"resourceSubscriptions": ["note://today"]}})
        await trio.testing.wait_all_tasks_blocked()
        assert house.watched("notes") == ["note://today"]
        await apply(house, PolicyConfig(**{effect: ("resource:note://today",)}))
        await trio.sleep(LINGER_S + 1)
        assert house.watched("notes") == []
        if pair.from_legacy:
            again = await host.error("resources/subscribe", {"uri": "note://today"})
            assert (
                again["code"] in (-32602, -32002) if effect == "deny" else again["data"]["hub"] == "approval_required"
            )


@pytest.mark.covers("POL-02")
async def test_a_change_of_a_denied_part_is_told_as_one_of_what_is_watched(pair, autojump_clock):
    fakes = servers(pair)
    parts = ("note://today/open", "note://today/hidden", "vault://1")
    policy = PolicyConfig(deny=("resource:note://today/hidden", "resource:vault:*"))
    async with pair.house(fakes, policy=policy) as (_, host):
        if pair.from_legacy:
            await host.result("resources/subscribe", {"uri": "note://today"})
        else:
            await host.start("subscriptions/listen", {"notifications": {"resourceSubscriptions": ["note://today"]}})
        await trio.sleep(1)
        told = []
        for part in parts:
            before = len(host.of("notifications/resources/updated"))
            await fakes["notes"].touch(part, of="note://today")
            await trio.sleep(1)
            told.append([params["uri"] for params in host.of("notifications/resources/updated")[before:]])
        assert told == [["note://today/open"], ["note://today"], []]


@pytest.mark.covers("POL-01")
async def test_what_a_server_may_take_for_the_name_of_a_tool_is_the_name_that_was_judged(pair, autojump_clock):
    fakes = servers(pair)
    async with pair.house(fakes, policy=PolicyConfig(deny=("notes__write",))) as (_, host):
        call = {"name": "notes__read", "arguments": {}, "Name": "write", "Argument\u017f": {"a": 1}}
        assert "result" in await host.ask("tools/call", call)
        [sent] = [call["params"] for each in fakes["notes"].conversations for call in each.of("tools/call")]
        assert sent.keys() - {"_meta"} == {"name", "arguments"}
        assert sent["name"] == "read"


@pytest.mark.covers("POL-02")
async def test_completion_of_what_is_denied_is_that_of_nothing(pair, autojump_clock):
    async with pair.house(servers(pair), policy=PolicyConfig(deny=("prompt:*", "resource:vault:*"))) as (_, host):
        argument = {"name": "x", "value": "a"}
        answers = [
            await host.error("completion/complete", {"ref": ref, "argument": argument})
            for ref in (
                {"type": "ref/prompt", "name": "notes__summary"},
                {"type": "ref/prompt", "name": "notes__nothing"},
                {"type": "ref/resource", "uri": "vault://{x}"},
            )
        ]
        assert answers[0] == answers[1] == answers[2]


@pytest.mark.covers("POL-09")
async def test_spellings_of_a_file_are_one(pair, autojump_clock):
    files = pair.fake(resources=[{"uri": "file:///home/a", "name": "a"}])
    policy = PolicyConfig(deny=("resource:file:///etc/*",))
    async with pair.house({"files": files}, policy=policy) as (_, host):
        assert await host.result("resources/read", {"uri": "file:///home/a"})
        for uri in (
            "file:///etc/passwd",
            "file:///home/../etc/passwd",
            "file:///home/%2e%2e/etc/passwd",
            "FILE:///etc/passwd",
            "file:////etc//passwd",
            "file:///etc%2fpasswd",
            "file:///%65tc/passwd",
            "file://localhost/etc/passwd",
        ):
            assert (await host.error("resources/read", {"uri": uri}))["code"] in (-32602, -32002), uri
    asked = [
        each["params"]["uri"] for conversation in files.conversations for each in conversation.of("resources/read")
    ]
    assert set(asked) == {"file:///home/a"}


NOTES_ONLY = ConditionalRule(
    effect="deny", match=("notes__write",), when='!under(args.path, "/notes")', reason="it writes outside /notes"
)


@pytest.mark.covers("POL-01", "POL-14", "POL-15")
async def test_conditions_judge_the_arguments_that_are_sent(pair, autojump_clock):
    fakes = servers(pair)
    async with pair.house(fakes, policy=PolicyConfig(rules=(NOTES_ONLY,))) as (_, host):
        assert "notes__write" in await host.names()
        assert not (await host.call("notes__write", {"path": "/notes/a"})).get("isError")
        for arguments in ({"path": "/etc/a"}, {}, {"path": 5}, {"path": "/notes/" + "x" * 17_000}):
            refused = await host.call("notes__write", arguments)
            assert refused["isError"], arguments
            assert refused["_meta"]["dev.hubd/failure"]["hub"] == "denied"
            assert refused["content"][0]["text"].endswith("Do not try again with the same arguments.")
    assert called(fakes["notes"]) == ["write"]


@pytest.mark.covers("POL-01")
async def test_a_rule_about_true_is_not_passed_by_a_text(pair, autojump_clock):
    fakes = servers(pair)
    fakes["notes"].lists["tools"][1]["inputSchema"] = {"type": "object", "properties": {"force": {"type": "boolean"}}}
    rule = ConditionalRule(effect="deny", match=("notes__write",), when="has(args.force) && args.force == true")
    async with pair.house(fakes, policy=PolicyConfig(rules=(rule,))) as (_, host):
        for force in (True, "true", 1):
            assert (await host.call("notes__write", {"force": force}))["isError"], force
        assert not (await host.call("notes__write", {"force": False})).get("isError")
    assert called(fakes["notes"]) == ["write"]


@pytest.mark.covers("POL-62")
async def test_the_third_leg_is_denied_and_hosts_never_mix(pair, autojump_clock):
    fakes = {name: pair.fake(tools=["go"]) for name in ("files", "web", "mail")}
    flows = {"files": ("private",), "web": ("untrusted",), "mail": ("outward",)}
    more = {name: {"flow": flow} for name, flow in flows.items()}
    async with pair.house(fakes, upstreams=more, policy=PolicyConfig(trifecta="deny")) as (house, host):
        cursor = await pair.host(house, identity=CURSOR)
        for name in ("mail", "files", "mail", "web"):
            assert not (await host.call(f"{name}__go")).get("isError"), name
        assert (await host.call("mail__go"))["isError"]
        assert not (await cursor.call("mail__go")).get("isError")
    assert called(fakes["mail"]) == ["go", "go", "go"]


@pytest.mark.covers("POL-62")
async def test_entries_of_one_server_each_are_counted_together_for_their_host(pair, autojump_clock):
    flows = {"files": ("private",), "web": ("untrusted",), "mail": ("outward",)}
    fakes = {name: pair.fake(tools=["go"]) for name in flows}
    more = {name: {"flow": flow} for name, flow in flows.items()}
    async with pair.house(fakes, upstreams=more, policy=PolicyConfig(trifecta="deny")) as (house, everywhere):
        hosts = {name: await pair.host(house, endpoint=name) for name in flows}
        other = await pair.host(house, endpoint="mail", identity=CURSOR)
        for name in ("mail", "files", "mail", "web"):
            assert not (await hosts[name].call("go")).get("isError"), name
        assert (await hosts["mail"].call("go"))["isError"]
        assert (await everywhere.call("mail__go"))["isError"]
        assert not (await other.call("go")).get("isError")


STOLEN = {"action": "accept", "content": {"name": "STOLEN"}}


@pytest.mark.covers("POL-62")
@pytest.mark.parametrize("trifecta", ["deny", "ask"])
async def test_nothing_is_answered_to_an_outward_call_that_runs_already(pair, trifecta, autojump_clock):
    fakes = {"files": pair.fake(tools=["go"]), "mail": pair.fake(tools=["go"])}
    form = {"mode": "form", "message": "Name?", "requestedSchema": {"type": "object", "properties": {}}}
    fakes["mail"].on["tools/call"] = pair.asks({"q": ("elicitation/create", form)}, lambda found: {"content": []})
    flows = {"files": ("private", "untrusted"), "mail": ("outward",)}
    more = {name: {"flow": flow, "session_mode": "per_host"} for name, flow in flows.items()}
    async with pair.house(fakes, upstreams=more, policy=PolicyConfig(trifecta=trifecta)) as (house, _):
        host = await pair.host(house, capabilities={"elicitation": {}})

        async def answer(params):
            if params["message"].startswith("hubd: "):
                return {"action": "decline"}
            await host.call("files__go")
            return STOLEN

        host.on["elicitation/create"] = answer
        result = await host.call("mail__go")
        assert pair.from_legacy or result["isError"]
        assert len(host.asked) == (2 if trifecta == "ask" and not pair.from_legacy else 1)
        await trio.sleep(house.hub.config.park_ttl_s)
        for conversation in fakes["mail"].conversations:
            assert "STOLEN" not in json.dumps(conversation.received)


@pytest.mark.covers("POL-62")
@pytest.mark.parametrize("version", [L4, MODERN])
@pytest.mark.parametrize("trifecta", ["deny", "ask"])
async def test_an_outward_task_is_answered_only_behind_a_yes_to_all_three_legs(version, trifecta, autojump_clock):
    fakes = {"files": TaskServer(version, asking), "web": FakeUpstream(tools=["go"])}
    more = {"files": {"flow": ("outward",)}, "web": {"flow": ("private", "untrusted")}}
    async with a_house(fakes, upstreams=more, policy=PolicyConfig(trifecta=trifecta)) as house:
        host = await house.host("http", MODERN, capabilities={**EXTENSION, "elicitation": {"form": {}}})
        ids = [await begin(host)]
        await host.call("web__go")
        if trifecta == "ask":
            host.on["elicitation/create"] = lambda params: {"action": "accept", "content": {"decision": "once"}}
            ids.append(await begin(host))
        await trio.sleep(4)
        for id in ids:
            ((key, _),) = (await look(host, id))["inputRequests"].items()
            update = await host.ask("tasks/update", {"taskId": id, "inputResponses": {key: STOLEN}})
            assert ("error" in update) == (id == ids[0])
            if id == ids[0]:
                assert update["error"]["data"]["hub"] == "denied"
                await host.result("tasks/cancel", {"taskId": id})
            await trio.sleep(9)
        said = [json.dumps(conversation.received) for conversation in fakes["files"].conversations]
        assert "".join(said).count("STOLEN") == len(ids) - 1


LEAKY = {"mail": ("private", "untrusted"), "web": ("outward",)}


@pytest.mark.covers("POL-62")
@pytest.mark.parametrize("leg", ["a resource", "a copy of a resource", "a prompt"])
async def test_prompts_and_resources_are_legs_as_their_server_is(pair, leg, autojump_clock):
    mail = pair.fake(prompts=[{"name": "inbox"}], resources=[{"uri": "mail://inbox", "name": "inbox"}])
    web = pair.fake(tools=["go"], resourceTemplates=[{"uriTemplate": "web://{+x}", "name": "page"}])
    for fake, uri in ((mail, "mail://inbox"), (web, "web://evil")):
        more = {} if pair.to_legacy else {"ttlMs": 60_000, "cacheScope": "public"}
        fake.on["resources/read"] = lambda *_, uri=uri, more=more: pair.whole(
            contents=[{"uri": uri, "text": "x"}], **more
        )
    mail.on["prompts/get"] = lambda *_: pair.whole(messages=[])
    flows = {name: {"flow": flow} for name, flow in LEAKY.items()}
    async with pair.house({"mail": mail, "web": web}, upstreams=flows, policy=PolicyConfig(trifecta="deny")) as (
        house,
        host,
    ):
        other = await pair.host(house, identity=CURSOR)
        if leg == "a copy of a resource":
            await other.result("resources/read", {"uri": "mail://inbox"})
        await host.result("resources/read", {"uri": "web://evil"})
        if leg == "a prompt":
            await host.result("prompts/get", {"name": "mail__inbox"})
        else:
            await host.result("resources/read", {"uri": "mail://inbox"})
        assert "error" in await host.ask("resources/read", {"uri": "web://evil"})
        assert (await host.call("web__go"))["isError"]
        mapped = {"web": {"flow": {"*": ("outward",)}}}
        await apply(house, PolicyConfig(trifecta="deny"), **mapped)
        await host.result("resources/read", {"uri": "web://evil"})


@pytest.mark.covers("POL-62")
async def test_what_a_conversation_has_read_is_remembered_though_nobody_asked_for_a_while(pair, autojump_clock):
    fakes = {name: pair.fake(tools=["go"]) for name in LEAKY}
    flows = {name: {"flow": flow} for name, flow in LEAKY.items()}
    async with pair.house(fakes, upstreams=flows, policy=PolicyConfig(trifecta="deny")) as (house, host):
        await host.call("mail__go")
        for trifecta in ("deny", "off", "deny", "ask", "off"):
            await apply(house, PolicyConfig(trifecta=trifecta))
            assert bool((await host.call("web__go")).get("isError")) == (trifecta != "off")


@pytest.mark.covers("POL-08")
@pytest.mark.parametrize(
    ("policy", "scope"),
    [
        (PolicyConfig(deny=("resource:note://today host:other",)), "private"),
        (PolicyConfig(default="deny", allow=("principal:alice", "resource:note:* !principal:bob")), "private"),
        (PolicyConfig(deny=("resource:note://secret",)), "public"),
        (PolicyConfig(deny=("host:other",)), "public"),
    ],
)
async def test_a_read_of_what_others_may_not_read_is_kept_for_nobody_else(policy, scope, autojump_clock):
    pair = Pair("MM", "http")
    fakes = servers(pair)
    said = {"contents": [{"uri": "note://today", "text": "x"}], "ttlMs": 60_000, "cacheScope": "public"}
    fakes["notes"].on["resources/read"] = lambda *_: pair.whole(**said)
    async with pair.house(fakes, policy=policy) as (_, host):
        for _ in range(2):  # from the server, and its copy
            assert (await host.result("resources/read", {"uri": "note://today"}))["cacheScope"] == scope
    assert sum(len(each.of("resources/read")) for each in fakes["notes"].conversations) == 1


@pytest.mark.covers("POL-11", "SEC-90")
async def test_while_rules_flip_no_call_that_is_denied_when_it_starts_reaches_its_server(pair, autojump_clock):
    fakes = servers(pair)
    reached, answered, allowed = [], [], True

    async def send(message, conversation):
        reached.append(message["params"]["arguments"]["allowed"] or allowed)  # or it came just before it was allowed
        await trio.sleep(0.03)
        return pair.whole(content=[])

    fakes["mail"].on["tools/call:send"] = send
    async with pair.house(fakes) as (house, host):
        assert await host.names()

        async def flip():
            nonlocal allowed
            for at in range(20):
                await trio.sleep(0.05)
                is_open = bool(at % 2)
                deny = () if is_open else (f"host:{host.identity.host} mail__*", f"x{at}")
                config = structs.replace(house.hub.config, policy=PolicyConfig(deny=deny))
                await house.hub.prepare(config)
                allowed = is_open
                house.hub.apply(config)

        async def call():
            for _ in range(40):
                before = allowed
                answer = await host.ask("tools/call", {"name": "mail__send", "arguments": {"allowed": before}})
                answered.append((before, allowed, "result" in answer))
                await trio.sleep(0.01)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(flip)
            nursery.start_soon(call)
    assert True in reached
    assert False not in reached
    assert all(was_answered for before, after, was_answered in answered if before and after)


@pytest.mark.covers("POL-05", "POL-06")
async def test_rules_that_name_the_same_callers_again_show_them_their_lists(autojump_clock):
    """A request of before asks for what its host was shown while the rules of now have not met that host yet."""
    fakes, before = {"notes": FakeUpstream(tools=["read", "write"])}, PolicyConfig(deny=("host:cursor notes__write",))
    async with a_house(fakes, policy=before) as house:
        host = await house.host("http", MODERN, identity=CURSOR)
        assert await host.names() == ["notes__read"]
        view = house.hub.judge.view_for(EVERYTHING, host.identity)
        await apply(house, PolicyConfig())
        assert await host.names() == ["notes__read", "notes__write"]
        await apply(house, PolicyConfig(deny=("host:cursor notes__read",)))
        assert [shown for _, shown in house.hub.live.of(view).findable()] == [()]
        assert await host.names() == ["notes__write"]
