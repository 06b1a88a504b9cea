"""`hubd policy` and `hubd policy explain`, with a hub that runs: from a rule in the file to a call that is refused."""

import json

import pytest

from tests.support.attached import hubd, last_record, said, upstream
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
        said(hub, "tools")  # which waits for the servers
        yield hub


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
    assert [row["by_arguments"] for row in found["rows"]] == ["", "", "", "deny"]
    assert found["notes"] == [f'hubd.toml:{line} deny[2]: "nothing_*" means no tool that there is now']
    kiosk, found = rows(hub, "--host", "kiosk")
    assert [effect for effect, _ in kiosk.values()] == ["allow", "deny", "deny", "deny"]
    assert "mail is not trusted, so 1 of its tools: deny; set trusted = true, or hints" in found["notes"]
    text = said(hub, "policy", "--host", "kiosk")
    assert "@destructive @open-world, as mail is not trusted" in text
    assert "fs__delete" not in said(hub, "tools")
    assert said(hub, "call", "mail__send", "to=a@example.com").strip()
    said(hub, "call", "mail__send", code=1)
    assert last_record(hub, "refuse", "--refused")["why"] == "args has no to; use has(args.to)"
    assert "rules[0]: args has no to; use has(args.to)" in said(hub, "policy")
    refused = hubd(hub, "call", "mail__send", "to=a@evil.com")
    assert "Not run: it leaves the house. Do not try again with the same arguments." in refused.stdout + refused.stderr
    assert refused.returncode != 0


def test_one_thing_is_explained(hub):
    rules(hub, RULES)
    out = said(hub, "policy", "explain", "mail__send")
    assert out.startswith("allow, or deny by arguments  default\n")
    assert 'mail__send when !args.to.endsWith("@example.com")' in out
    assert said(hub, "policy", "explain", "mail__send", "--json", '{"to": "a@example.com"}').startswith(
        "allow  default"
    )
    out = said(hub, "policy", "explain", "mail__send", "--json", '{"to": "a@evil.com"}')
    assert out.startswith("deny  hubd.toml:")
    assert "rules[0]: it leaves the house" in out
    assert "args has no to; use has(args.to)" in said(hub, "policy", "explain", "mail__send", "--json", "{}")
    assert said(hub, "policy", "explain", "mail__send", "--host", "kiosk").startswith("deny  hubd.toml:")
    assert "as hints say" in said(hub, "policy", "explain", "fs__read")
    assert "there is no tool fs__wrote" in said(hub, "policy", "explain", "fs__wrote", code=1)
    assert "as a JSON object" in said(hub, "policy", "explain", "fs__read", "--json", "[]", code=2)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ('deny = ["fs__delte"]', "fs__delete"),
        ('ask = ["fss__*"]', "fs__*"),
        ('deny = ["delete"]', "*__delete"),
        ('deny = ["zzz__zzz"]', ""),
        ('deny = ["*__remove_*", "host:x", "fs__read !upstream:fs", "@idempotent", "gone__x", "prompt:x"]', None),
        ('default = "deny"\nallow = ["fs__reed"]', None),
    ],
)
def test_a_rule_that_is_probably_misspelt_is_told(hub, text, meant):
    gone = '[upstreams.gone]\nenabled = false\ncommand = "x"\n'
    rules(hub, f"{gone}\n[policy]\n{text}\n")
    status = json.loads(said(hub, "status", "--json"))["idle_rules"]
    assert len(status) == (meant is not None)
    if meant is not None:
        assert "means no tool that there is now" in said(hub, "status")
        assert status[0].endswith(f'; did you mean "{meant}"?' if meant else "there is now")
        assert status[0] in hubd(hub, "doctor", "--json").stdout.replace('\\"', '"')


def test_whoever_asks_what_rules_say_is_told_that_the_file_is_broken(hub):
    rules(hub, RULES)
    hub.config.write_text(f"{SERVERS}\n[policy]\ndney = []\n")
    assert hubd(hub, "reload").returncode
    for words in (["policy"], ["policy", "explain", "fs__read"]):
        assert said(hub, *words).startswith("Configuration has errors; the previous one is still in use:")
    done = hubd(hub, "validate")
    assert done.stderr.count('did you mean "deny"?') == 1
    hub.config.write_text(SERVERS)


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
