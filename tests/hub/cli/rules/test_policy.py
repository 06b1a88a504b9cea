"""`hubd policy` and `hubd policy explain`, with a hub that runs: from a rule in the file to a call that is refused."""

import json

import pytest

from tests.support.attached import hubd, upstream
from tests.support.processes import running_hub

pytestmark = pytest.mark.covers("POL-16")

SERVERS = "\n".join(
    [
        upstream("fs", {"tools": ["read", "write", "delete"]}) + 'hints = { read = ["read-only"] }\nask = ["write"]\n',
        upstream("mail", {"tools": ["send"]}),
    ]
)
RULES = """
[policy]
deny = ["host:kiosk !@read-only",
        "fs__delete", "nothing_*"]
[[policy.rules]]
effect = "deny"
match = ["mail__send"]
when = '!args.to.endsWith("@example.com")'
reason = "it leaves the house"
"""


@pytest.fixture(scope="module")
def hub(tmp_path_factory):
    with running_hub(tmp_path_factory.mktemp("place"), SERVERS) as hub:
        yield hub


def said(hub, *words, code=0):
    done = hubd(hub, *words)
    assert done.returncode == code, done
    assert "Traceback" not in done.stderr
    return done.stdout if code == 0 else done.stderr


def rules(hub, text):
    hub.config.write_text(SERVERS + text)
    said(hub, "reload")


def rows(hub, *words):
    found = json.loads(said(hub, "policy", "--json", *words))
    return {row["name"]: (row["effect"], row["rule"]) for row in found["rows"]}, found


def test_rules_are_shown_explained_and_obeyed(hub):
    hub.config.write_text(SERVERS.replace('ask = ["write"]', ""))
    said(hub, "reload")
    assert "There are no rules" in said(hub, "policy")
    assert "there are no rules" in said(hub, "policy", "explain", "fs__read")
    rules(hub, RULES)
    shown, found = rows(hub)
    asked = SERVERS.splitlines().index('ask = ["write"]') + 1
    line = (SERVERS + RULES).splitlines().index('deny = ["host:kiosk !@read-only",') + 1
    assert shown == {
        "fs__read": ("allow", "default"),
        "fs__write": ("ask", f"hubd.toml:{asked} fs ask[0]"),
        "fs__delete": ("deny", f"hubd.toml:{line} deny[1]"),
        "mail__send": ("allow", "default"),
    }
    assert [row["by_arguments"] for row in found["rows"]] == [False, False, False, True]
    assert found["notes"] == [f'hubd.toml:{line} deny[2]: "nothing_*" means no tool that there is now']
    kiosk, found = rows(hub, "--host", "kiosk")
    assert [effect for effect, _ in kiosk.values()] == ["allow", "deny", "deny", "deny"]
    assert "mail is not trusted, so 1 of its tools: deny; set trusted = true, or hints" in found["notes"]
    text = said(hub, "policy", "--host", "kiosk")
    assert "@destructive @open-world, as mail is not trusted" in text
    assert "fs__delete" not in said(hub, "tools")
    assert said(hub, "call", "mail__send", "to=a@example.com").strip()
    refused = hubd(hub, "call", "mail__send", "to=a@evil.com")
    assert "Not run: it leaves the house. Do not try again with the same arguments." in refused.stdout + refused.stderr
    assert refused.returncode != 0


def test_one_thing_is_explained(hub):
    rules(hub, RULES)
    out = said(hub, "policy", "explain", "mail__send")
    assert out.startswith("allow, or by arguments  default\n")
    assert 'mail__send when !args.to.endsWith("@example.com")' in out
    assert said(hub, "policy", "explain", "mail__send", "--json", '{"to": "a@example.com"}').startswith(
        "allow  default"
    )
    out = said(hub, "policy", "explain", "mail__send", "--json", '{"to": "a@evil.com"}')
    assert out.startswith("deny  hubd.toml:")
    assert "rules[0]: it leaves the house" in out
    assert "Key not found" in said(hub, "policy", "explain", "mail__send", "--json", "{}")
    assert said(hub, "policy", "explain", "mail__send", "--host", "kiosk").startswith("deny  hubd.toml:")
    assert "as hints say" in said(hub, "policy", "explain", "fs__read")
    assert "there is no tool fs__wrote" in said(hub, "policy", "explain", "fs__wrote", code=1)
    assert "as a JSON object" in said(hub, "policy", "explain", "fs__read", "--json", "[]", code=2)


@pytest.mark.covers("F-C-02")
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('deny = ["hots:x"]', 'policy.deny: "hots:x" has an unknown kind of term'),
        ('allow = ["x"]', 'policy.allow: says what may be used beside what may anyway; write default = "deny"'),
        ('dney = ["x"]', 'policy.dney: unknown setting; did you mean "deny"?'),
        ('mode = "read-only"\ndefault = "allow"', 'policy.default: "allow" contradicts mode = "read-only"'),
        (
            '[[policy.rules]]\neffect = "deny"\nmatch = ["x"]\nwhen = "args."',
            "policy.rules.0.when: is no condition in CEL",
        ),
        ('[[policy.rules]]\nmatch = ["prompt:x"]', "policy.rules.0.effect: is missing"),
        ('[[policy.rules]]\neffect = "deny"\nmatch = ["prompt:x"]', "means prompts, which have no arguments to judge"),
    ],
)
def test_a_rule_that_cannot_be_understood_refuses_the_file(hub, tmp_path, text, expected):
    rules(hub, RULES)
    hub.config.write_text(f"{SERVERS}\n[policy]\n{text}\n")
    done = hubd(hub, "reload")
    assert done.returncode != 0
    assert expected in done.stdout + done.stderr
    assert rows(hub)[0]["fs__delete"][0] == "deny", "what held before holds"
    hub.config.write_text(SERVERS)
