"""Rules of a configuration: which counts, and what is said of it."""

from pathlib import Path

import pytest
from msgspec import structs

from config.loading.checks.rules import default_of, is_ruled
from config.loading.precedence import Origin
from config.loading.read_source import Layer
from config.policy.selectors import Thing
from config.security_settings import AccessConfig, AccessIssuer, AccessToken, ConditionalRule, PolicyConfig
from config.settings import HubConfig, UpstreamConfig
from hub.rules.policy.rule_book import read_rules
from hub.rules.policy.verdict import Effect, Verdict

ALLOW, ASK, DENY = Effect.ALLOW, Effect.ASK, Effect.DENY


def book(upstreams=None, **policy):
    return read_rules(HubConfig(policy=PolicyConfig(**policy)), upstreams or {})


def judge(rules, name, *, own="", upstream="u", kind="tool", marks=()):
    thing = Thing(kind, name, upstream, frozenset(marks))
    return rules.decide(rules.about(thing, own or name, upstream))


@pytest.mark.parametrize("deny", [False, True])
@pytest.mark.parametrize("ask", [False, True])
@pytest.mark.parametrize("allow", [False, True])
@pytest.mark.parametrize("default", ["allow", "deny"])
@pytest.mark.covers("POL-05", "SEC-90")
def test_a_deny_wins_over_an_ask_and_that_over_an_allow(deny, ask, allow, default):
    lists = {"deny": deny, "ask": ask, "allow": allow}
    rules = book(default=default, **{name: ("x",) for name, says in lists.items() if says})
    first = next((name for name, says in lists.items() if says), default)
    assert judge(rules, "x").effect is Effect(first)
    assert judge(rules, "y").effect is Effect(default)


@pytest.mark.covers("POL-05")
def test_lists_of_a_server_go_by_its_own_names_and_join_the_others():
    upstreams = {"u": UpstreamConfig(command="x", ask=("merge_*",), deny=("drop host:cursor",))}
    rules = book(upstreams, deny=("u__delete",))
    assert judge(rules, "u__merge_pr", own="merge_pr")[:2] == (ASK, "u ask[0]")
    assert judge(rules, "v__merge_pr", own="merge_pr", upstream="v").effect is ALLOW
    assert judge(rules, "u__delete", own="delete") == Verdict(DENY, "deny[0]")
    assert judge(rules, "delete", own="delete").effect is ALLOW


@pytest.mark.covers("POL-05")
def test_a_server_of_a_project_goes_by_the_name_that_its_project_gives_it():
    rules = book({"db@shop-1f3a5c07": UpstreamConfig(command="x", deny=("drop",))}, ask=("upstream:db",))
    thing = Thing("tool", "db__drop", "db", frozenset())
    assert rules.decide(rules.about(thing, "drop", "db@shop-1f3a5c07")).effect is DENY
    assert rules.decide(rules.about(thing, "drop", "db")).effect is ASK


@pytest.mark.covers("POL-06")
def test_modes_are_rules():
    careful = book(mode="careful")
    assert judge(careful, "x", marks=["destructive"])[:2] == (ASK, "mode careful")
    assert judge(careful, "x", marks=["read-only"]) == Verdict(ALLOW, "default")
    reading = book(mode="read-only", deny=("y",))
    assert judge(reading, "x", marks=["read-only"]).effect is ALLOW
    assert judge(reading, "y", marks=["read-only"]).effect is DENY
    assert judge(reading, "x").effect is DENY
    assert judge(reading, "x", kind="prompt").effect is ALLOW
    assert judge(reading, "note://x", kind="resource").effect is ALLOW


@pytest.mark.covers("POL-05", "SEC-90")
def test_the_default_denies_once_there_are_several_principals():
    issuers = (AccessIssuer(name="team", issuer="https://id.example.com"),)
    assert default_of(HubConfig()) == "allow"
    assert not is_ruled(HubConfig(), {})
    assert default_of(HubConfig(auth="oauth", access=AccessConfig(issuers=issuers))) == "deny"
    assert default_of(HubConfig(auth="proxy")) == "deny"
    bob = AccessConfig(tokens=(AccessToken(name="bob", principal="bob"),))
    assert default_of(HubConfig(access=bob)) == "deny"
    assert default_of(HubConfig(access=AccessConfig(tokens=(AccessToken(name="mine"),)))) == "allow"
    assert default_of(HubConfig(access=bob, policy=PolicyConfig(default="allow"))) == "allow"
    assert is_ruled(HubConfig(access=bob), {})


@pytest.mark.covers("POL-16")
def test_a_rule_says_where_it_stands():
    origins = {
        ("policy", "mode"): Origin(Path("/c/hubd.toml"), 12, Layer.USER),
        ("policy", "deny"): Origin(Path("/c/hubd.toml"), 7, Layer.USER),
        ("policy", "rules", "0", "effect"): Origin(Path("/c/hubd.toml"), 20, Layer.USER),
    }
    row = ConditionalRule(effect="deny", match=("fs__*",), reason="no files")
    policy = PolicyConfig(mode="careful", deny=("a", "b"), rules=(row,))
    rules = read_rules(HubConfig(policy=policy), {}, origins)
    assert judge(rules, "b") == Verdict(DENY, "hubd.toml:7 deny[1]")
    assert judge(rules, "x", marks=["destructive"])[:2] == (ASK, "hubd.toml:12 mode careful")
    assert judge(rules, "fs__x") == Verdict(DENY, "hubd.toml:20 rules[0]", "no files")


def test_the_same_rules_are_the_same():
    assert book(deny=("a",)) == book(deny=("a",))
    assert book(deny=("a",)) != book(deny=("b",))
    assert book(deny=("a",)) != None  # noqa: E711


@pytest.mark.covers("POL-28")
def test_what_asks_says_the_same_wherever_it_stands_and_another_thing_with_any_change():
    def says(*rules, ask=(), upstream="u"):
        config = HubConfig(policy=PolicyConfig(rules=rules, ask=ask))
        return judge(read_rules(config, {}), "u__x").says

    rule = ConditionalRule(effect="ask", match=("u__x",), reason="why")
    [one] = says(rule)
    assert says(structs.replace(rule, match=("u__y",)), rule) == (one,)
    assert set(says(rule, ask=("*",))) > {one}
    for change in ({"match": ("u__?",)}, {"reason": "these are payments"}):
        assert one not in says(structs.replace(rule, **change))
    [own] = judge(read_rules(HubConfig(), {"u": UpstreamConfig(command="x", ask=("x",))}), "u__x", own="x").says
    assert own not in says(ask=("x", "*"))
