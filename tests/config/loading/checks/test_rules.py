"""Checks of rules: what refuses a file, and what is only warned of."""

import pytest

from config.loading.checks.rules import problems_of_policy, problems_of_rules_of_server, warnings_of_policy
from config.security_settings import AccessConfig, AccessIssuer, ConditionalRule, PolicyConfig
from config.settings import HubConfig, UpstreamConfig

TEAM, PARTNER = (AccessIssuer(name=name, issuer=f"https://{name}.example") for name in ("team", "partner"))


def problems(*issuers, **policy):
    config = HubConfig(policy=PolicyConfig(**policy), access=AccessConfig(issuers=issuers))
    return [f"{'.'.join(each.keys)}: {each}" for each in problems_of_policy(config)]


@pytest.mark.parametrize(
    "policy",
    [
        {},
        {"mode": "careful", "deny": ("host:cursor !@read-only", "resource:file:///etc/*")},
        {"mode": "read-only", "allow": ("mail__*",)},
        {"default": "deny", "allow": ("*",)},
        {"rules": (ConditionalRule(effect="ask", match=("x", "y"), when="args.n > 1", reason="it is much"),)},
        {"rules": (ConditionalRule(effect="deny", match=("x",)),)},
    ],
)
def test_good_rules(policy):
    assert problems(**policy) == []


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ({"deny": ("@nonsense",)}, 'policy.deny: "@nonsense" has an unknown mark'),
        ({"deny": ("x",) * 10_000}, "policy.deny: has 10000 selectors, and 1000 are the most"),
        ({"deny": ("x",) * 600, "ask": ("x",) * 600}, "policy: has 1200 selectors, and 1000 are the most"),
        ({"allow": ("x",)}, 'policy.allow: says what may be used beside what may anyway; write default = "deny"'),
        ({"allow": ("x",), "default": "allow"}, "policy.allow: has no effect"),
        ({"mode": "read-only", "default": "allow"}, "policy.default: "),
        ({"rules": (ConditionalRule(match=("x",)),)}, "policy.rules.0.effect: is missing"),
        ({"rules": (ConditionalRule(effect="deny"),)}, "policy.rules.0.match: is missing"),
        ({"rules": (ConditionalRule(effect="deny", match=("resource:x",)),)}, "have no arguments to judge"),
        ({"rules": (ConditionalRule(effect="deny", match=("x",), when="tool"),)}, "has to be true or false"),
        ({"rules": (ConditionalRule(effect="deny", match=("x",), reason="a\nb"),)}, "must be printable text"),
        ({"rules": (ConditionalRule(effect="deny", match=("x",)),) * 201}, "has 201 rules, and 200 are the most"),
    ],
)
@pytest.mark.covers("F-C-02")
def test_bad_rules_refuse_the_file(policy, expected):
    assert any(expected in each for each in problems(**policy)), problems(**policy)


@pytest.mark.covers("POL-03", "AUTH-H9")
def test_of_several_issuers_each_scope_and_group_names_its_own():
    rules = {"default": "deny", "allow": ("group:staff *", "scope:mcp:x *", "group:team/staff *", "scope:team/mcp *")}
    assert problems(TEAM, **rules) == []
    found = problems(TEAM, PARTNER, **rules)
    assert len(found) == 2
    assert "group:staff it means, and any issuer could give it: write group:team/staff" in found[0]
    assert "write scope:team/mcp:x" in found[1]


def test_lists_and_hints_of_a_server():
    def told(**settings):
        return [str(each) for each in problems_of_rules_of_server(UpstreamConfig(command="x", **settings))]

    assert told(deny=("drop",), ask=("host:cursor *",), hints={"get_*": ("read-only",)}, flow={"x": ("private",)}) == []
    assert "has an unknown mark" in told(ask=("@x",))[0]
    assert "globs" in told(hints={f"{number}*": () for number in range(100)})[0]
    assert "globs" in told(flow={f"{number}*": () for number in range(100)})[0]
    assert "1000 selectors" in told(deny=("x",) * 600, ask=("x",) * 600)[0]


@pytest.mark.covers("POL-05")
def test_who_lets_in_others_and_allows_nothing_is_warned():
    config = HubConfig(auth="oauth", access=AccessConfig(issuers=(TEAM,)))
    assert len([*warnings_of_policy(config, {})]) == 1
    assert [*warnings_of_policy(config, {"a": UpstreamConfig(command="x", allow=("*",))})] == []
    assert [*warnings_of_policy(HubConfig(), {})] == []
