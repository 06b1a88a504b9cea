"""Two accounts at real servers: processes with two environments, and sign-ins of two people, called at once."""

import json
import re
import threading
import urllib.error
import urllib.request

import pytest

from tests.support.attached import DEMO, Post, hubd
from tests.support.oauth.rig import walk
from tests.support.processes import PYTHON_1, running_hub
from tests.support.signing_hub import signing_hub, told

CALLS = 50
WHO = """
import os, sys
from mcp.server.fastmcp import FastMCP
server = FastMCP("who", log_level="WARNING")

@server.tool()
def who(number: int) -> str:
    return f"{os.environ['WHO']} {number}"

@server.resource("who://me")
def me() -> str:
    return os.environ["WHO"]

server.run()
"""
GIVEN = {"work": "${secret:WHO_WORKS}", "private": "private"}
PROFILES = '[profiles.work]\naccounts = {{ {0} = "work" }}\n[profiles.private]\naccounts = {{ {0} = "private" }}\n'


def at_once(work, count=CALLS):
    """What `work` returns for so many numbers, each in a thread."""
    found = {}

    def run(number):
        found[number] = work(number)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(120)
    return found


def told_json(hub, *words):
    return json.loads(hubd(hub, *words, "--json").stdout)


def restart(hub):
    """Restart the server; on a busy machine it goes on after the command."""
    assert hubd(hub, "restart", "who").returncode in (0, 75)
    ready = (hubd(hub, "check", "who", "--wait", "60").returncode == 0 for _ in range(10))
    assert any(ready)


def shown_calls(hub, *words):
    lines = hubd(hub, "calls", *words, "--json", "-n", "100").stdout.splitlines()
    return [json.loads(line) for line in lines]


@pytest.mark.in_turn(2)
@pytest.mark.real
def test_fifty_calls_of_two_environments_never_cross(tmp_path):
    program = f"command = {json.dumps(str(PYTHON_1))}\nargs = {json.dumps(['-c', WHO])}"
    accounts = "".join(f"[upstreams.who.accounts.{each}]\nenv = {{ WHO = '{said}' }}\n" for each, said in GIVEN.items())
    config = f"startup_grace_s = 100\n{PROFILES.format('who')}[upstreams.who]\n{program}\n{accounts}"
    with running_hub(tmp_path, config) as hub:
        assert hubd(hub, "secret", "set", "WHO_WORKS", stdin="work").returncode == 0
        ready = (hubd(hub, "check", "who", "--wait", "60").returncode == 0 for _ in range(100))
        assert any(ready), "the hub has heard of the secret"

        def call(number):
            account = ("work", "private")[number % 2]
            if number % 4 < 2:
                arguments, query = {"number": number, "account": account}, ""
            else:
                arguments, query = {"number": number}, f"/~{account}"
            return told(Post(hub, "who__who", arguments, token=hub.token, query=query).answer()[1]).text

        assert at_once(call) == {number: f"{('work', 'private')[number % 2]} {number}" for number in range(CALLS)}
        status = json.loads(hubd(hub, "status", "--json").stdout)
        rows = {row["label"]: row for row in status["upstreams"]}
        assert [*rows] == ["who:work", "who:private"]
        assert rows["who:work"]["pid"] != rows["who:private"]["pid"]
        calls = shown_calls(hub)
        assert sorted(call["upstream"] for call in calls) == ["who:private"] * (CALLS // 2) + ["who:work"] * (
            CALLS // 2
        )
        assert len(shown_calls(hub, "who")) == CALLS
        assert "who__who (who:private)" in hubd(hub, "calls").stdout
        assert {"who:work", "who:private"} <= {row["server"] for row in told_json(hub, "calls", "--costs")}
        shown = hubd(hub, "status").stdout.splitlines()
        at = next(at for at, line in enumerate(shown) if line.startswith("who:work "))
        assert shown[at + 1].strip() == "serves where no profile, project or argument says another account"
        assert [row["serves"] for row in status["upstreams"]] == [True, False]
        assert hubd(hub, "pins").returncode == 0
        assert hubd(hub, "doctor").returncode in (0, 1)
        for name, records in (("who:work", {"who:work"}), ("who:private", {"who:private"}), ("who", {*rows})):
            found = [json.loads(line) for line in hubd(hub, "logs", name, "--json", "-n", "500").stdout.splitlines()]
            assert {record["about"] or record["name"] for record in found} == records, name
            assert {check["name"] for check in told_json(hub, "check", name)["checks"]} == records
        assert (
            "There is no server who:else; there are: who:work, who:private" in hubd(hub, "restart", "who:else").stderr
        )
        assert hubd(hub, "restart", "who:work").returncode in (0, 75)
        restart(hub)
        assert "who__who (who:private)" in hubd(hub, "audit", "query", "--upstream", "who:private").stdout
        records = hubd(hub, "audit", "query", "--upstream", "who:private", "--json").stdout.splitlines()
        assert {json.loads(line)["up"] for line in records if json.loads(line)["k"] == "begin"} == {"who:private"}
        for words, person in ((("--profile", "private"), "private"), (("--profile", "work"), "work"), ((), "work")):
            found = hubd(hub, "read", "hub.who+who://me", *words)
            assert (found.returncode, found.stdout.strip()) == (0, person), words
            assert "who://me" in hubd(hub, "resources", *words).stdout
        hostile = told(
            Post(hub, "who__who", {"number": 1, "account": "work"}, token=hub.token, query="/~private").answer()[1]
        )
        assert hostile.is_error
        assert hostile.text == '"account" is fixed by profile private; leave it out'


@pytest.mark.in_turn(2)
def test_fifty_calls_of_two_sign_ins_never_cross(oauth, tmp_path):
    notes = oauth.liar(behind=oauth.oidc_provider())
    accounts = "[upstreams.notes.accounts.work]\n[upstreams.notes.accounts.private]\n"
    with signing_hub(tmp_path, {"notes": notes.url}, PROFILES.format("notes"), notes=accounts) as hub:
        hub.until_refused()
        people = {"work": "alice", "private": "bob"}
        for account, person in people.items():
            with hub.begun(f"notes:{account}") as begun:
                hub.finish(walk(begun.url, user=person))
                assert begun.outcome().state == "signed_in"

        def call(number):
            account = ("work", "private")[number % 2]
            arguments = {"who": True, "account": account}
            return told(Post(hub.hub, "notes__read", arguments, token=hub.hub.token).answer()[1]).text

        found = at_once(call)
        assert found == {number: found[number % 2] for number in range(CALLS)}
        assert ["alice" in found[0], "bob" in found[1]] == [True, True], found
        shown = json.loads(hubd(hub.hub, "auth", "--status", "--json").stdout)["accounts"]
        assert [each["upstream"] for each in shown] == ["notes:private", "notes:work"]
        done = hubd(hub.hub, "check", "notes", "--wait", "60", "--json")
        checks = {each["name"]: each["problems"] for each in json.loads(done.stdout)["checks"]}
        assert (done.returncode, checks) == (0, {"notes:work": [], "notes:private": []})
        out = hubd(hub.hub, "logout", "notes", "--account", "private")
        assert out.returncode == 0, out
        assert told(Post(hub.hub, "notes__read", {"who": 1}, token=hub.hub.token).answer()[1]).text == found[0]
        done = hubd(hub.hub, "check", "notes")
        assert done.returncode == 1
        assert re.search(r"(?m)^notes:private: .*hubd auth notes:private", done.stdout), done.stdout
        refused = told(Post(hub.hub, "notes__read", {"account": "private"}, token=hub.hub.token).answer()[1])
        assert 'Ask the user to run "hubd auth notes:private"' in refused.text


KEYS = "env = { WHO = '${secret:WHO}' }\naccount = 'each'\n"


@pytest.mark.in_turn(2)
@pytest.mark.real
def test_everybody_has_keys_of_their_own(tmp_path):
    program = f"[upstreams.who]\ncommand = {json.dumps(str(PYTHON_1))}\nargs = {json.dumps(['-c', WHO])}\n{KEYS}"
    with running_hub(tmp_path, f'startup_grace_s = 100\n[policy]\ndefault = "allow"\n{program}') as hub:
        assert hubd(hub, "secret", "set", "WHO", stdin="the owner").returncode == 0
        tokens = {name: token_of(hub, name) for name in ("bob", "eve")} | {"local": hub.token}
        restart(hub)

        def call(name, number=0, tool="who__who"):
            return told(Post(hub, tool, {"number": number}, token=tokens[name]).answer()[1])

        assert call("local").text == "the owner 0"
        for name in ("bob", "eve"):
            refused = call(name)
            assert refused.is_error
            own = f"`hubd secret set WHO --at {hub.url.removesuffix('/mcp')} --token FILE`"
            assert refused.text.startswith("who is not started: ${secret:WHO} has no value: ")
            assert f"there is no secret WHO of {name}: run {own}, where FILE has your token of this hub" in refused.text
            assert f"or have the hub's owner run `hubd secret set WHO --for {name}`" in refused.text
            kept = hubd(hub, "secret", "set", "WHO", "--for", name, stdin=f"key of {name}")
            assert kept.returncode == 0, kept
            assert call(name).text == f"key of {name} 0", "as soon as there is one"
        names = ("bob", "eve", "local")
        own = {"local": "the owner", "bob": "key of bob", "eve": "key of eve"}
        assert at_once(lambda number: call(names[number % 3], number).text) == {
            number: f"{own[names[number % 3]]} {number}" for number in range(CALLS)
        }
        assert "WHO" in hubd(hub, "secret", "ls", "--for", "bob").stdout
        [row] = told_json(hub, "status")["upstreams"]
        assert (row["mode"], row["serves"]) == ("per person", None)
        heads, *lines = (line.split() for line in hubd(hub, "calls", "-n", str(CALLS)).stdout.splitlines())
        assert heads[2:4] == ["PERSON", "HOST"]
        assert {line[2] for line in lines} == {"bob", "eve", "you"}
        assert re.search(r"  bob of bob  who__who  ", hubd(hub, "audit", "tail", "-n", str(CALLS)).stdout)
        assert hubd(hub, "secret", "rm", "WHO", "--for", "eve").returncode == 0
        restart(hub)
        assert call("eve").is_error
        assert call("bob").text == "key of bob 0"
        log = (tmp_path / "hubd.log").read_text(errors="replace")
        assert not any(secret in log for secret in own.values())


def token_of(hub, principal, *more):
    """A token of a principal of its own."""
    made = hubd(hub, "token", "new", principal, "--principal", principal, *more)
    (token,) = re.findall(r"hubd_[\w-]+", made.stdout)
    return token


@pytest.mark.in_turn(2)
@pytest.mark.real
def test_a_person_keeps_a_key_by_the_own_token(tmp_path):
    program = f"[upstreams.who]\ncommand = {json.dumps(str(PYTHON_1))}\nargs = {json.dumps(['-c', WHO])}\n{KEYS}"
    with running_hub(tmp_path, f'startup_grace_s = 100\n[policy]\ndefault = "allow"\n{program}') as hub:
        assert hubd(hub, "secret", "set", "WHO", stdin="the owner").returncode == 0
        assert hubd(hub, "secret", "set", "OTHER", stdin="other").returncode == 0
        token, address = token_of(hub, "bob"), hub.url.removesuffix("/mcp")
        (file := tmp_path / "token").write_text(token)
        restart(hub)

        def keep(name, value, where=address, by=file):
            return hubd(hub, "secret", "set", name, "--at", where, "--token", by, stdin=value)

        def call():
            return told(Post(hub, "who__who", {"number": 1}, token=token).answer()[1]).text

        def post(body, bearer):
            fields = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {bearer}"} if bearer else {})
            asked = urllib.request.Request(f"{address}/secrets", body, fields, method="POST")
            try:
                with urllib.request.urlopen(asked, timeout=60) as answer:
                    return answer.status
            except urllib.error.HTTPError as refused:
                return refused.code

        (command,) = re.findall(r"`hubd (secret set WHO --at \S+ --token) FILE`", call())
        assert hubd(hub, *command.split(), file, stdin="as told").returncode == 0
        assert call() == "as told 1", "what a person is told to run works with their own token"
        for value in ("first", "second"):
            done = keep("WHO", value)
            assert done.returncode == 0, done
            assert call() == f"{value} 1", "also where there was another, at once"
        assert "no server here takes" in keep("OTHER", "x").stderr.lower()
        assert "https" in keep("WHO", "x", where="http://hub.example").stderr
        (own := tmp_path / "own").write_text(hub.token)
        assert "owner keeps secrets by" in keep("WHO", "x", by=own).stderr
        (bound := tmp_path / "bound").write_text(token_of(hub, "ann", "--profile", "default"))
        assert "run `hubd secret set NAME --for ann`" in keep("WHO", "x", by=bound).stderr
        good = {"name": "WHO", "value": "x"}
        told_statuses = {
            "stranger": post(json.dumps(good).encode(), None),
            "no JSON": post(b"{", token),
            "more": post(json.dumps(good | {"principal": "local"}).encode(), token),
            "large": post(json.dumps(good | {"value": "x" * (1 << 19)}).encode(), token),
            "too large": post(json.dumps(good | {"value": "x" * 65_537}).encode(), token),
            "empty": post(json.dumps(good | {"value": ""}).encode(), token),
            "NUL": post(json.dumps(good | {"value": "a\0b"}).encode(), token),
            "path": post(json.dumps(good | {"name": "../WHO"}).encode(), token),
        }
        assert told_statuses == {
            "stranger": 401,
            "no JSON": 400,
            "more": 400,
            "large": 413,
            "too large": 400,
            "empty": 400,
            "NUL": 400,
            "path": 404,
        }
        assert call() == "second 1"
        assert told(Post(hub, "who__who", {"number": 1}, token=hub.token).answer()[1]).text == "the owner 1"
        assert post(b'{"name": "WHO", "value": null}', token) == 200
        assert "hubd secret set WHO --for bob" in call()
        people = tmp_path / "xdg_state_home" / "hubd" / "people"
        assert people.stat().st_mode & 0o777 == 0o700
        assert [file.stat().st_mode & 0o777 for file in people.iterdir()] == [0o600]
    with running_hub(tmp_path, DEMO) as hub:
        assert post_to(hub) == 404, "no server takes keys of people"


def post_to(hub):
    asked = urllib.request.Request(f"{hub.url.removesuffix('/mcp')}/secrets", b"{}", method="POST")
    asked.add_header("Authorization", f"Bearer {hub.token}")
    try:
        with urllib.request.urlopen(asked, timeout=60) as answer:
            return answer.status
    except urllib.error.HTTPError as refused:
        return refused.code
