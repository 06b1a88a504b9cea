"""The judge: tables, audiences, conditions; and that they say what the rules say, read naively."""

from fnmatch import fnmatchcase
from time import process_time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Raw, structs

from config.security_settings import AccessConfig, AccessIssuer, ConditionalRule, PolicyConfig
from config.settings import HubConfig, UpstreamConfig
from hub.catalog.endpoint_views import EVERYTHING
from hub.catalog.merge_catalog import merge
from hub.catalog.time_slices import finish
from hub.catalog.upstream_entries import Route
from hub.catalog.uri_claims import UriClaims
from hub.catalog.visible_names import Rules, UpstreamRule
from hub.link.call_interface import NO_RIGHTS, Caller, Identity, Rights
from hub.rules.policy.arguments_for_conditions import decode_arguments, encode_arguments, refuse_other_types, types_of
from hub.rules.policy.audience_lists import permit
from hub.rules.policy.conditional_rules import CannotJudge
from hub.rules.policy.judge import Judge
from hub.rules.policy.rule_book import read_rules
from hub.rules.policy.rule_tables import RuleTable
from hub.rules.policy.uri_forms import forms_of
from hub.rules.policy.verdict import Effect
from hub.wire.jsonrpc import raw
from hub.wire.mcp import L4, Kind
from hub.wire.upstream_snapshot import ListEntry
from upstreams.inventory.current_lists import empty_snapshot

CURSOR, OTHER = Identity("local", "cursor"), Identity("local", "other")
ANNOTATIONS = ({}, {"readOnlyHint": True}, {"destructiveHint": False}, {"openWorldHint": False})


def snapshot(name, tools=(), uris=(), templates=()):
    entries = {
        Kind.TOOL: [{"name": tool, "inputSchema": {}, "annotations": marks} for tool, marks in tools],
        Kind.RESOURCE: [{"uri": uri, "name": uri} for uri in uris],
        Kind.TEMPLATE: [{"uriTemplate": uri, "name": uri} for uri in templates],
    }
    keys = {Kind.TOOL: "name", Kind.RESOURCE: "uri", Kind.TEMPLATE: "uriTemplate"}
    lists = {
        kind: tuple(ListEntry(each[keys[kind]], {key: raw(value) for key, value in each.items()}) for each in its)
        for kind, its in entries.items()
    }
    return structs.replace(empty_snapshot(name, local=True), version=L4, lists=lists)


def world(policy, snapshots, rules=None, running=None, **config):
    """A judge of these rules, and the catalogue of everything."""
    named = tuple(rules or (UpstreamRule(each.upstream) for each in snapshots))
    catalog = merge(snapshots, Rules(named), UriClaims())
    judge = Judge()
    judge.adjust(read_rules(HubConfig(policy=policy, **config), running or {}))
    judge.use(finish(judge.compile(judge.book, [catalog])))
    return judge, catalog


def effect(judge, name, identity=OTHER, rights=NO_RIGHTS, kind=Kind.TOOL, upstream="u"):
    audience = judge.audience_of(EVERYTHING, identity, rights)
    return judge.judge_thing(audience, upstream, kind, name).verdict.effect


@pytest.mark.covers("POL-07")
def test_annotations_are_believed_of_trusted_servers_and_what_the_user_says_always():
    tools = [("get", {"readOnlyHint": True}), ("put", {"destructiveHint": False}), ("drop", {})]
    rules = [
        UpstreamRule("u", trusted=True, hints=(("drop", ("idempotent",)),)),
        UpstreamRule("v", hints=(("drop", ("read-only",)),)),
    ]
    judge, _ = world(PolicyConfig(deny=("@destructive",)), [snapshot("u", tools), snapshot("v", tools)], rules)
    assert [effect(judge, name) for name in ("get", "put", "drop")] == [Effect.ALLOW, Effect.ALLOW, Effect.DENY]
    said = [effect(judge, name, upstream="v") for name in ("get", "put", "drop")]
    assert said == [Effect.DENY, Effect.DENY, Effect.ALLOW]


@pytest.mark.covers("POL-07")
def test_the_word_of_the_user_counts_before_that_of_a_trusted_server():
    rules = [UpstreamRule("u", trusted=True, hints=(("*", ("read-only",)), ("get", ("destructive",))))]
    judge, catalog = world(PolicyConfig(deny=("@destructive",)), [snapshot("u", [("get", ANNOTATIONS[1])])], rules)
    assert effect(judge, "get") is Effect.DENY
    [entry] = catalog.parts[0].shown[Kind.TOOL]
    assert bytes(entry.fields["annotations"]) == b'{"readOnlyHint":false,"destructiveHint":true}'


@pytest.mark.covers("POL-09")
def test_templates_go_by_the_text_before_their_first_variable():
    uris = ["file:///etc/{name}", "file:///{path}", "note://{day}"]
    policy = PolicyConfig(deny=("resource:file:///etc/*", "resource:note:*"))
    judge, catalog = world(policy, [snapshot("u", templates=uris)])
    view = judge.view_for(EVERYTHING, OTHER)
    shown = permit(judge, catalog, view).parts[0].shown[Kind.TEMPLATE]
    assert [each.original for each in shown] == ["file:///{path}"]


@pytest.mark.covers("POL-04")
def test_a_server_with_bare_names_takes_no_rule_of_another():
    rules = [UpstreamRule("u", prefix=""), UpstreamRule("github")]
    snapshots = [snapshot("u", [("github__get", {}), ("get", {})]), snapshot("github", [("get", {})])]
    judge, catalog = world(PolicyConfig(default="deny", allow=("github__*",)), snapshots, rules)
    assert effect(judge, "get", upstream="github") is Effect.ALLOW
    assert effect(judge, "get") is effect(judge, "github__get") is Effect.DENY
    assert catalog.route(Kind.TOOL, "github__get").upstream == "github"


@pytest.mark.covers("POL-04", "POL-05")
def test_a_server_ends_no_rule_about_a_renamed_tool_by_listing_another_of_that_name():
    renamed = [UpstreamRule("u", rename=(("write", "scribble"),))]
    alone, contested = snapshot("u", [("write", {})]), snapshot("u", [("write", {}), ("scribble", {})])
    for policy in ({"deny": ("u__scribble",)}, {"deny": ("u__* !u__write",)}):
        judge, _ = world(PolicyConfig(**policy), [alone], renamed)
        assert effect(judge, "write") is Effect.DENY
        judge, catalog = world(PolicyConfig(**policy), [contested], renamed)
        assert "u__write" in [each.visible for each in catalog.parts[0].shown[Kind.TOOL]]
        assert effect(judge, "write") is Effect.DENY
        judge.use(RuleTable(None, {each.name: each for each in catalog.parts}))
        assert effect(judge, "write") is Effect.DENY, "before the table is made anew"
    for policy, expected in (
        ({"ask": ("u__scribble",)}, Effect.ASK),
        ({"default": "deny", "allow": ("u__write",)}, Effect.DENY),
        ({"default": "deny", "allow": ("u__scribble",)}, Effect.DENY),
        ({"default": "deny", "allow": ("u__*",)}, Effect.ALLOW),
    ):
        judge, _ = world(PolicyConfig(**policy), [contested], renamed)
        assert effect(judge, "write") is expected, policy


@pytest.mark.covers("POL-09")
@pytest.mark.parametrize("uri", ["hub.files+file:///etc/passwd", "HUB.a+hub.b+file:///etc/./passwd", "hub.a+file:x"])
def test_the_tag_of_a_hub_behind_this_one_hides_no_resource(uri):
    for policy in ({"deny": ("resource:file:///etc/*",)}, {"default": "deny", "allow": ("resource:hub.*+file:///*",)}):
        judge, _ = world(PolicyConfig(**policy), [])
        assert effect(judge, uri, kind=Kind.RESOURCE) is Effect.DENY
    judge, _ = world(PolicyConfig(deny=("resource:note:*",)), [])
    assert (effect(judge, uri, kind=Kind.RESOURCE) is Effect.ALLOW) == ("///" in uri)


def test_many_tags_of_a_uri_take_no_time():
    assert forms_of("hub.a+" * 100_000 + "file:///x")[-1] == "file:///x"


@pytest.mark.covers("POL-09")
@pytest.mark.parametrize("rule", ["note://vault/s%C3%A9cret", "note://vault/sécret"])
@pytest.mark.parametrize(
    "uri", ["%sault/s%%C3%%A9cret", "%sault/sécret", "%sault/x/../sécret", "%sault/s%%c3%%a9cr%%65t"]
)
@pytest.mark.parametrize("start", ["note://v", "NOTE://v", "note://%76"])
def test_a_resource_is_denied_and_allowed_by_what_it_means(rule, uri, start):
    judge, _ = world(PolicyConfig(deny=(f"resource:{rule}",)), [])
    assert effect(judge, uri % start, kind=Kind.RESOURCE) is Effect.DENY
    assert effect(judge, "note://vault/public", kind=Kind.RESOURCE) is Effect.ALLOW
    judge, _ = world(PolicyConfig(default="deny", allow=(f"resource:{rule}",)), [])
    allowed = Effect.DENY if "/../" in uri or start == "NOTE://v" else Effect.ALLOW
    assert effect(judge, uri % start, kind=Kind.RESOURCE) is allowed
    assert effect(judge, "note://vault/sécret\n", kind=Kind.RESOURCE) is Effect.DENY


@pytest.mark.covers("POL-10")
def test_callers_whom_no_rule_tells_apart_are_one_audience():
    judge, _ = world(PolicyConfig(deny=("host:cursor *",)), [snapshot("u", [("x", {})])])
    views = [judge.view_for(EVERYTHING, Identity("local", label)) for label in ("a", "b", "cursor")]
    assert views[0] == views[1] != views[2]
    again, _ = world(PolicyConfig(deny=("host:cursor *",)), [])
    assert again.view_for(EVERYTHING, CURSOR) == views[2], "they have one name in each run"
    assert Judge().view_for(views[2], CURSOR) == EVERYTHING


@pytest.mark.covers("POL-11")
def test_other_rules_hold_before_the_tables_are_made_anew():
    judge, _ = world(PolicyConfig(ask=("u__y",)), [snapshot("u", [("x", {})])])
    assert effect(judge, "x") is Effect.ALLOW
    judge.adjust(read_rules(HubConfig(policy=PolicyConfig(deny=("host:other u__x",))), {}))
    assert effect(judge, "x") is Effect.DENY
    assert effect(judge, "x", CURSOR) is Effect.ALLOW
    stale = judge.view_for(EVERYTHING, CURSOR)
    judge.adjust(read_rules(HubConfig(policy=PolicyConfig(deny=("principal:local u__x",))), {}))
    assert stale.audience not in judge.audiences
    assert judge.audiences.find(stale.audience), "what came before finds its way, and is judged anew"
    caller = Caller(CURSOR, L4, {})
    assert judge.look_up_route(caller, stale, Route("u", "x"), Kind.TOOL).is_hidden
    judge.adjust(None)
    assert judge.view_for(EVERYTHING, OTHER) == EVERYTHING


TEAM = {"access": AccessConfig(issuers=(AccessIssuer(name="team", issuer="https://id"),)), "auth": "oauth"}


@pytest.mark.covers("POL-03", "AUTH-H9")
def test_scopes_and_groups_of_a_token():
    allow = ("upstream:u scope:mcp:u", "group:staff u__x", "group:team/boss *", "principal:local *")
    judge, _ = world(PolicyConfig(default="deny", allow=allow), [snapshot("u", [("x", {}), ("y", {})])], **TEAM)
    alice = Identity("team/alice", "claude")

    def may(**rights):
        its = {name: frozenset(values) for name, values in rights.items()}
        return [effect(judge, name, alice, Rights("team", **its)) is Effect.ALLOW for name in ("x", "y")]

    assert may() == [False, False]
    assert may(scopes=["mcp:u"]) == [True, True]
    assert may(scopes=["mcp"]) == [True, True], "it contains what begins with it and a colon"
    assert may(scopes=["mc"]) == [False, False]
    assert may(groups=["staff"]) == [True, False]
    assert may(groups=["boss"]) == [True, True]
    assert effect(judge, "y", Identity("local", "cli")) is Effect.ALLOW
    other = Rights("other", groups=frozenset({"boss"}))
    assert effect(judge, "y", Identity("other/eve", "x"), other) is Effect.DENY


@pytest.mark.covers("AUTH-H9")
def test_whoever_lacks_scopes_alone_is_told_which():
    access = AccessConfig(issuers=TEAM["access"].issuers, step_up=True)
    policy = PolicyConfig(default="deny", allow=("u__x scope:mcp:u", "u__y scope:mcp:y group:staff"), deny=("u__z",))
    tools = [("x", {}), ("y", {}), ("z", {}), ("other", {})]
    judge, _ = world(policy, [snapshot("u", tools)], auth="oauth", access=access)

    def scopes(name, identity, rights):
        return judge.judge_thing(judge.audience_of(EVERYTHING, identity, rights), "u", Kind.TOOL, name).scopes

    alice, rights = Identity("team/alice", "claude"), Rights("team")
    assert [scopes(name, alice, rights) for name in ("x", "y", "z", "other")] == [("mcp:u",), (), (), ()]
    assert scopes("y", alice, Rights("team", groups=frozenset({"staff"}))) == ("mcp:y",)
    assert scopes("x", OTHER, NO_RIGHTS) == (), "nobody could give it any"


RULE = ConditionalRule(effect="allow", match=("u__x",), when="args.n > 1")


@pytest.mark.covers("POL-15")
def test_conditions_hide_nothing_and_decide_when_arguments_are_there():
    judge, catalog = world(PolicyConfig(default="deny", rules=(RULE,)), [snapshot("u", [("x", {}), ("y", {})])])
    audience = judge.audience_of(EVERYTHING, OTHER)
    known = judge.judge_thing(audience, "u", Kind.TOOL, "x")
    assert known.is_open
    assert [
        each.visible for each in permit(judge, catalog, judge.view_for(EVERYTHING, OTHER)).parts[0].shown[Kind.TOOL]
    ]

    def judged(text):
        try:
            arguments = None if text is None else Raw(text)
            return judge.conditions.judge(judge.book, known.mask, Route("u", "x"), OTHER, arguments).effect
        except CannotJudge:
            return "unjudged"

    assert judged(b'{"n":2}') is Effect.ALLOW
    assert judged(b'{"n":1}') is Effect.DENY
    for text in (
        b"{}",
        b'{"n":"2"}',
        b'{"n":NaN}',
        b'{"n":1E999}',
        b'{"n":' + b"1" * 17_000 + b"}",
        b'{"n":"\\ud800"}',
        b'{"n":1,"x":"\\\\\\u0000"}',
        b'{"n":1,"n\\u0000":2}',
    ):
        assert judged(text) == "unjudged", text[:20]
    assert judged(None) == "unjudged"


@pytest.mark.covers("POL-01")
def test_arguments_that_were_read_are_written_in_one_way():
    assert (
        bytes(encode_arguments(decode_arguments(Raw(b'{"a": 1, "b":2 , "a":"\\u00e9"}')))) == '{"a":"é","b":2}'.encode()
    )
    big = b'{"n":9007199254740992,"m":-9007199254740992}'
    assert bytes(encode_arguments(decode_arguments(Raw(big)))) == big
    unclear = (b'{"n":9007199254740993}', b'{"n":-9007199254740993}', b'{"n":1' + b"0" * 5000 + b"}")
    alike = (b'{"path":"a","Path":"b"}', b'[{"a":{"k":1,"\\u212a":2}}]', '{"s":1,"\u017f":2}'.encode())
    for text in (b'{"n":1E999}', b'{"n":"\\ud800"}', *unclear, *alike):
        with pytest.raises(ValueError):
            encode_arguments(decode_arguments(Raw(text)))


@pytest.mark.covers("POL-01")
def test_arguments_of_another_type_than_their_tool_declares_are_not_judged():
    """Most servers in Python take "true" and 1 for true."""
    schema = {"b": "boolean", "n": "integer", "t": "string", "l": "array", "m": ["string", "null"], "x": None}
    members = {name: {"type": type} if type else {"anyOf": [{}]} for name, type in schema.items()}
    types = types_of(raw({"type": "object", "properties": members}))
    fine = {"b": True, "n": 5, "t": "5", "l": [1], "m": None, "x": 1, "more": 1}
    refuse_other_types(fine, types)
    refuse_other_types({"n": 5.0}, types)
    refuse_other_types([], types)
    for name, wrong in (("b", "true"), ("b", 1), ("n", "5"), ("n", 5.5), ("n", True), ("l", {"a": 1}), ("m", 1)):
        with pytest.raises(ValueError, match=f"the argument {name} is not of the type"):
            refuse_other_types(fine | {name: wrong}, types)
    for schema in (None, Raw(b"[]"), Raw(b'{"properties": 1}'), Raw(b'{"properties": {"a": true}}')):
        assert types_of(schema) == {}


NAMES = st.text("ab", min_size=1, max_size=3)
MARKED = st.sampled_from(["@read-only", "@destructive", "@open-world"])
TERM = st.one_of(st.text("ab_*?", min_size=1, max_size=4), MARKED, st.just("upstream:u"), st.just("host:cursor"))
SELECTORS = st.lists(
    st.lists(st.tuples(st.booleans(), TERM), min_size=1, max_size=3).map(
        lambda terms: " ".join(("!" if negated else "") + term for negated, term in terms)
    ),
    max_size=4,
).map(tuple)


def naive(policy, tool, annotations, identity):
    reads = annotations.get("readOnlyHint") is True
    marks = {
        "@read-only": reads,
        "@destructive": not reads and annotations.get("destructiveHint") is not False,
        "@open-world": annotations.get("openWorldHint") is not False,
    }

    def holds(term):
        if term in marks:
            return marks[term]
        if ":" in term:
            return term == "upstream:u" or term == f"host:{identity.host}"
        return fnmatchcase(f"u__{tool}", term)

    def counts(selector):
        return all(holds(term.removeprefix("!")) is not term.startswith("!") for term in selector.split())

    for name in ("deny", "ask", "allow"):
        if any(map(counts, getattr(policy, name))):
            return Effect(name)
    return Effect(policy.default)


@pytest.mark.covers("POL-10")
@settings(deadline=None, max_examples=60)
@given(
    policy=st.builds(
        PolicyConfig, default=st.sampled_from(["allow", "deny"]), allow=SELECTORS, ask=SELECTORS, deny=SELECTORS
    ),
    tools=st.dictionaries(NAMES, st.sampled_from(ANNOTATIONS), max_size=5),
    identity=st.sampled_from([CURSOR, OTHER]),
)
def test_tables_say_what_the_rules_say_read_naively(policy, tools, identity):
    judge, catalog = world(policy, [snapshot("u", list(tools.items()))], [UpstreamRule("u", trusted=True)])
    expected = {tool: naive(policy, tool, annotations, identity) for tool, annotations in tools.items()}
    assert {tool: effect(judge, tool, identity) for tool in tools} == expected
    shown = permit(judge, catalog, judge.view_for(EVERYTHING, identity)).parts[0].shown[Kind.TOOL]
    assert {each.original for each in shown} == {tool for tool, its in expected.items() if its is not Effect.DENY}
    assert {each.original for each in shown if each.asks} == {
        tool for tool, its in expected.items() if its is Effect.ASK
    }


@pytest.mark.covers("POL-10")
def test_many_tools_and_selectors_take_little_time_and_a_look_up_hardly_any():
    tools = [(f"tool_{number}", ANNOTATIONS[number % 4]) for number in range(2_000)]
    deny = tuple(f"u__tool_{number}* !@read-only host:h{number}" for number in range(50))
    judge, catalog = world(PolicyConfig(deny=deny), [snapshot("u", tools)])
    began = process_time()
    judge.adjust(read_rules(HubConfig(policy=PolicyConfig(deny=(*deny, "never"))), {}))
    judge.use(finish(judge.compile(judge.book, [catalog])))
    assert process_time() - began < 0.5, "0.05 s, on a machine that does nothing else"
    audience = judge.audience_of(EVERYTHING, OTHER)
    judge.judge_thing(audience, "u", Kind.TOOL, "tool_1")
    began = process_time()
    for _ in range(10_000):
        judge.judge_thing(audience, "u", Kind.TOOL, "tool_1")
    assert (process_time() - began) / 10_000 < 20e-6


def test_a_server_of_a_project_has_the_lists_of_its_own():
    running = {"db@shop-1f3a5c07": UpstreamConfig(command="x", deny=("drop",))}
    judge, _ = world(PolicyConfig(), [snapshot("db@shop-1f3a5c07", [("drop", {})])], running=running)
    assert effect(judge, "drop", upstream="db@shop-1f3a5c07") is Effect.DENY
    assert effect(judge, "drop", upstream="db") is Effect.ALLOW


@pytest.mark.covers("POL-10", "POL-11")
def test_what_was_prepared_is_taken_over():
    judge, catalog = world(PolicyConfig(deny=("u__x",)), [snapshot("u", [("x", {}), ("y", {})])])
    other = HubConfig(policy=PolicyConfig(deny=("u__y",)))
    finish(judge.prepare(read_rules(other, {}), [catalog]))
    assert effect(judge, "x") is Effect.DENY, "nothing differs yet"
    judge.adjust(read_rules(other, {}))
    assert [effect(judge, name) for name in ("x", "y")] == [Effect.ALLOW, Effect.DENY]
    assert list(judge.compile(judge.book, [catalog])) == [], "nothing is left to look at"
    judge.use(finish(judge.compile(judge.book, [catalog])))
    assert [effect(judge, name) for name in ("x", "y")] == [Effect.ALLOW, Effect.DENY]
