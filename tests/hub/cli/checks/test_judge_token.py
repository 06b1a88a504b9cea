"""`hubd doctor --token`: it says of a token what the hub would do, and why, and never shows it."""

import json
import os
import subprocess

import pytest

from config.security_settings import AccessConfig, AccessIssuer, AccessToken, Introspection
from config.setting_declarations import Secret
from config.settings import HubConfig
from hub.cli.checks.judge_token import TokenJudge
from hub.downstream.access.token_files import HostTokens
from tests.support.commands import run_hubd
from tests.support.issuer_world import BY_NAME, HUB, KEYS, NOW, OTHER, TOKENS, URL, World
from tests.support.oauth.bad_tokens import tokens
from tests.support.processes import HUBD, own_directories
from upstreams.fetch.terms_and_answers import FetchFailed

OWN = "o" * 43
TEAM, PARTNER = AccessIssuer(name="team", issuer=URL), AccessIssuer(name="partner", issuer=OTHER)
ASKED = AccessIssuer(name="team", issuer=URL, introspection=Introspection(client_id="hub", client_secret=Secret("s")))
REFUSED, NOT_NOW, OPENS = "the hub refuses the token (%d)", "nobody can say now", "the token opens the hub: "


@pytest.fixture(autouse=True)
def _home(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))


@pytest.fixture
def world(monkeypatch):
    world = World()
    monkeypatch.setattr("hub.cli.checks.judge_token._wall", world)
    return world


def judge(world, *issuers, auth="oauth", **access):
    access.setdefault("required_scopes", ("mcp",))
    return TokenJudge(
        HubConfig(auth=auth, token=Secret(OWN), access=AccessConfig(issuers=issuers, **access)), HUB, world
    )


@pytest.mark.parametrize("row", TOKENS, ids=lambda row: row["name"])
async def test_it_says_what_the_hub_does(world, row, autojump_clock):
    found = await judge(world, TEAM, PARTNER).finding(row["token"])
    if row["name"] == "aud-longer":
        assert found.what.endswith("at /mcp/x"), "it is for that server alone"
    elif row["verdict"] == 200:
        assert found.level == "note"
        assert found.what == f"{OPENS}whoever shows it is team/alice, as the host host-1, at /mcp and all below it"
    else:
        assert found.level == "problem"
        assert found.what == REFUSED % row["verdict"]
    said = f"{found.what} {found.why} {found.fix}"
    assert said.isprintable()
    assert not any(len(part) > 20 and part in said for part in row["token"].split("."))


WHY = {
    "two-parts": "introspection",
    "alg-none": "three parts of base64url",
    "alg-missing": "does not name the algorithm",
    "hs256-public-key": "`algorithms`",
    "crit-unknown": "`crit`",
    "kid-number": "`kid` of its header is not a text",
    "unknown-kid": "its issuer shows no key",
    "flipped-bit": "its issuer has not signed it",
    "duplicate-aud": "nothing is named twice",
    "too-long": "more than 16384 characters",
    "logout-token": "its `typ`",
    "id-token-right-audience": "ID token",
    "expired": "it has ended (`exp`)",
    "not-yet": "it has not begun",
    "no-exp": "does not say when it ends",
    "exp-string": "not a number",
    "no-iss": "does not name its issuer",
    "no-aud": "for whom it is",
    "wrong-aud": "(`aud`), and not for this hub",
    "sub-newline": "not the name of a person",
    "no-scope": "it lacks the scope mcp of required_scopes; it has none",
}


@pytest.mark.parametrize("name", WHY)
async def test_it_says_why(world, name, autojump_clock):
    found = await judge(world, TEAM).finding(BY_NAME[name])
    assert WHY[name] in f"{found.why}; {found.fix}"


async def test_a_token_for_one_server(world, autojump_clock):
    made = {each["name"]: each["token"] for each in tokens(KEYS, URL, f"{HUB}/notes", now=NOW)}
    assert (await judge(world, TEAM).finding(made["good-es256"])).what.endswith("at /mcp/notes")


async def test_an_issuer_that_the_hub_does_not_know(world, autojump_clock):
    found = await judge(world, PARTNER).finding(BY_NAME["good-es256"])
    assert found.what == REFUSED % 401
    assert (URL in found.why, OTHER in found.why) == (True, True)
    assert world.asked == []


async def fails():
    raise FetchFailed("as.example does not answer")


async def test_an_issuer_that_does_not_answer(world, autojump_clock):
    world.fault = fails
    for issuer, token in ((TEAM, BY_NAME["good-es256"]), (ASKED, "opaque")):
        found = await judge(world, issuer).finding(token)
        assert found.what.startswith(NOT_NOW)
        assert found.why == "as.example does not answer"


async def test_tokens_that_are_asked_about(world, autojump_clock):
    world.answers["opaque"] = {"active": True, "sub": "bob", "aud": HUB, "scope": "mcp", "exp": NOW + 9}
    assert "team/bob, as the host oauth" in (await judge(world, ASKED).finding("opaque")).what
    assert "does not hold" in (await judge(world, ASKED).finding("other")).why
    assert "no issuer that it could ask" in (await judge(world, TEAM).finding("opaque")).why


async def test_tokens_of_the_hub_and_of_hosts(world, tmp_path, autojump_clock):
    (tmp_path / "hubd").mkdir(mode=0o700)
    made = HostTokens(tmp_path / "hubd" / "tokens.json", world).make("ci", principal="robots", expires=NOW + 60.0)
    fixed = AccessToken(name="fixed", token=Secret("f" * 20), expires="2000-01-01")
    by_token = judge(world, auth="token", tokens=(fixed,))
    assert (await by_token.finding(OWN)).what == f"{OPENS}whoever shows it is the hub's owner"
    assert "robots, as the host ci" in (await by_token.finding(made)).what
    assert "has ended" in (await by_token.finding("f" * 20)).why
    world.now += 61
    assert "revoked or replaced, has ended" in (await by_token.finding(made)).why
    assert "revoked or replaced" in (await judge(world, ASKED).finding("hubd_" + "x" * 43)).why
    assert 'auth = "token"' in (await by_token.finding("x.y.z")).why
    assert "asks nobody" in (await judge(world, auth="none").finding("whatever")).why
    (tmp_path / "hubd" / "tokens.json").chmod(0o644)
    assert "chmod 600" in (await by_token.finding(made)).why
    assert world.asked == []


@pytest.mark.parametrize("text", ["", "two words", "\x1b[2J", "a\nb"])
async def test_what_is_no_token(world, text, autojump_clock):
    assert "more than one word" in (await judge(world, TEAM).finding(text)).why


def test_the_command(oauth, tmp_path):
    issuer = oauth.token_issuer(HUB)
    env = own_directories(tmp_path)
    config = tmp_path / "hubd.toml"
    config.write_text(
        f'auth = "oauth"\n[access]\nresource = "{HUB}"\nrequired_scopes = ["mcp"]\n'
        f'[[access.issuers]]\nname = "team"\nissuer = "{issuer.issuer}"\n'
    )
    config.chmod(0o600)
    rows = issuer.tokens()

    def doctor(token, *more, code):
        done = run_hubd(["doctor", "--config", str(config), "--token", "-", *more], env, input=token)
        assert done.returncode == code, done.stdout + done.stderr
        assert token.strip() not in done.stdout + done.stderr
        return done.stdout + done.stderr

    assert "team/alice" in doctor(f"Bearer {rows['good-es256']['token']}\n", code=0)
    (found,) = json.loads(doctor(rows["expired"]["token"], "--json", code=1))
    assert (found["check"], found["why"]) == ("token", "it has ended (`exp`)")
    assert "more than 65536 bytes" in doctor("x" * 70_000, code=2)
    argv = [HUBD, "doctor", "--config", str(config), "--token", str(tmp_path / "none")]
    done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, os.strerror(2) in done.stderr) == (2, True)
