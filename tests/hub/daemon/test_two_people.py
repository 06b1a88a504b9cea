"""Two people at one hub over HTTP, as real processes: nothing of one reaches the other, by whatever carries it.

Each test has the same done by bob, who must not get it, and by alice at another of her tokens, who must: so it is known
that it could be got.
"""

import contextlib
import http.client
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from hub.wire.mcp import CLIENT_CAPABILITIES_KEY, MODERN, VERSION_KEY
from tests.hub.daemon.test_secrets import rows, until
from tests.support.attached import children, hubd, upstream
from tests.support.oauth.rig import OAuthRig
from tests.support.processes import HUBD, ROOT, running_hub
from tests.support.written import written

HUB = "https://hub.example.com/mcp"
SERVER = ROOT / "tests" / "support" / "shared_server.py"
CAPABILITIES = {"elicitation": {"form": {}}, "extensions": {"io.modelcontextprotocol/tasks": {}}}
INITIALIZE = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
YES = {"action": "accept", "content": {"name": "Ann"}}
NAMED = {"alice": "alice", "twin": "alice", "bob": "bob"}
SETTINGS = f"""
auth = "oauth"
page_size = 1
[policy]
default = "allow"
[access]
resource = "{HUB}"
required_scopes = ["mcp"]
[[access.issuers]]
name = "team"
issuer = "%s"
""" + "".join(
    f'[[access.tokens]]\nname = "{name}"\ntoken = "{name}-0123456789abcdef"\nprincipal = "{person}"\nhost = "desk"\n'
    for name, person in NAMED.items()
)
UPSTREAMS = "".join(
    f"[upstreams.{era}]\ncommand = {json.dumps(sys.executable)}\nera = '{era}'\nacross_principals = true\n"
    f"args = {json.dumps(['-I', '-S', str(SERVER), era])}\n"
    for era in ("legacy", "modern")
)
UPSTREAMS += UPSTREAMS.partition("[upstreams.modern]")[0].replace("upstreams.legacy", "upstreams.asking")
UPSTREAMS += "session_mode = 'per_host'\n"


class Person:
    """Somebody at the hub, with one token."""

    def __init__(self, hub, token):
        self._address = hub.url.split("/")[2]
        self._token = token
        self.session = None

    @contextlib.contextmanager
    def open(self, method, message=None, **headers):
        """An answer of the hub, its body not read yet."""
        with self.sent(method, message, **headers) as connection:
            yield connection.getresponse()

    @contextlib.contextmanager
    def sent(self, method, message=None, **headers):
        """The connection of a request that was sent."""
        body = None if message is None else json.dumps({"jsonrpc": "2.0", **message})
        sent = {
            "Authorization": f"Bearer {self._token}",
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            **headers,
        }
        with contextlib.closing(http.client.HTTPConnection(self._address, timeout=60)) as connection:
            connection.request(method, "/mcp", body, sent)
            yield connection

    def ask(self, method, **params):
        """The answer to a modern request: its result, or its error's code."""
        meta = {VERSION_KEY: MODERN, CLIENT_CAPABILITIES_KEY: CAPABILITIES}
        name = params.get("name", params.get("uri", params.get("taskId")))
        headers = {"MCP-Protocol-Version": MODERN, "Mcp-Method": method, **({} if name is None else {"Mcp-Name": name})}
        message = {"id": 7, "method": method, "params": {**params, "_meta": meta}}
        with self.open("POST", message, **headers) as answer:
            *_, last = messages(answer)
        return last["result"] if "result" in last else last["error"]["code"]

    def begin(self):
        """Begin a session of the legacy era."""
        with self.open("POST", {"id": 1, "method": "initialize", "params": INITIALIZE}) as answer:
            assert answer.status == 200
            self.session = answer.headers["mcp-session-id"]
        with self.open("POST", {"method": "notifications/initialized"}, **self.at()) as answer:
            assert answer.status == 202

    def at(self, session=None):
        """The header of a session, by default one's own."""
        return {"Mcp-Session-Id": session or self.session}

    def in_session(self, method, **params):
        """The result of a request in one's session."""
        with self.open("POST", {"id": 2, "method": method, "params": params}, **self.at()) as answer:
            assert answer.status == 200, answer.read()
            *_, last = messages(answer)
        return last["result"]


def messages(answer):
    """The messages of an answer, as they come."""
    if answer.headers.get("content-type", "").startswith("text/event-stream"):
        yield from (message for _, message in events(answer))
    else:
        yield json.loads(answer.read())


def events(answer):
    """The events of a stream, as they come: id and message."""
    id = None
    for line in iter(answer.readline, b""):
        name, _, value = line.decode().rstrip("\n").partition(": ")
        if name == "id":
            id = value
        elif name == "data" and value:
            yield id, json.loads(value)


class World:
    """A hub, its directory, and those who come."""

    def __init__(self, hub, tokens):
        self.hub = hub
        self.tokens = tokens

    def people(self):
        """Alice, alice again, bob; nobody has a session yet."""
        return [Person(self.hub, self.tokens[name]) for name in NAMED]


@contextlib.contextmanager
def team(directory: Path, kind):
    with OAuthRig(directory) as rig:
        issuer = rig.token_issuer(HUB)
        tokens = {name: f"{name}-0123456789abcdef" for name in NAMED}
        if kind == "signed":
            hers, his = (
                issuer.tokens(),
                {each["name"]: each for each in issuer.control("tokens", post=False, sub="bob")},
            )
            rows = hers["good-es256"], hers["good-rs256"], his["good-es256"]
            tokens = {name: row["token"] for name, row in zip(NAMED, rows, strict=True)}
        (home := directory / "hub").mkdir()
        with running_hub(home, SETTINGS % issuer.issuer + UPSTREAMS, auth="oauth") as hub:
            yield World(hub, tokens)


@pytest.fixture(params=["named", "signed"], scope="module")
def world(request, tmp_path_factory):
    with team(tmp_path_factory.mktemp("world"), request.param) as world:
        yield world


@pytest.mark.covers("SEC-05", "SEC-06", "F-H-14")
def test_private_reads_that_are_cached(world):
    alice, twin, bob = world.people()

    def read(person, uri="modern://alice"):
        return person.ask("resources/read", uri=uri)["contents"][0]["text"]

    first = read(alice)
    assert read(twin) == first, "it is in the cache"
    assert read(bob) != first
    assert read(bob, "modern://public") == read(alice, "modern://public"), "they share the session and what is for all"


def test_states_of_parked_calls(world):
    for server in ("asking", "modern"):
        alice, twin, bob = world.people()
        call = {"name": f"{server}__ask", "arguments": {}}
        begun = alice.ask("tools/call", **call)
        (key,) = begun["inputRequests"]
        again = {**call, "inputResponses": {key: YES}, "requestState": begun["requestState"]}
        assert bob.ask("tools/call", **again) == -32602
        assert json.loads(twin.ask("tools/call", **again)["content"][0]["text"]) == YES, server


def test_tasks(world):
    alice, twin, bob = world.people()
    task = alice.ask("tools/call", name="modern__slow", arguments={})["taskId"]
    for method in ("tasks/get", "tasks/cancel"):
        assert bob.ask(method, taskId=task) == -32602
        assert twin.ask(method, taskId=task)["resultType"] == "complete"


def test_cursors(world):
    alice, twin, bob = world.people()
    cursor = alice.ask("tools/list")["nextCursor"]
    assert bob.ask("tools/list", cursor=cursor) == -32602
    assert len(twin.ask("tools/list", cursor=cursor)["tools"]) == 1


def test_sessions(world):
    alice, twin, bob = world.people()
    alice.begin()
    ping = {"id": 3, "method": "ping"}
    for person, status in ((bob, 404), (twin, 200)):
        with person.open("POST", ping, **person.at(alice.session)) as answer:
            assert answer.status == status
    for method in ("GET", "DELETE"):
        with bob.open(method, **bob.at(alice.session)) as answer:
            assert answer.status == 404
    with twin.open("DELETE", **twin.at(alice.session)) as answer:
        assert answer.status == 200


def test_subscriptions(world):
    alice, _, bob = world.people()
    with contextlib.ExitStack() as streams:
        heard = {}
        for name, person in (("alice", alice), ("bob", bob)):
            person.begin()
            answer = streams.enter_context(person.open("GET", **person.at()))
            assert answer.status == 200
            heard[name] = events(answer)
            person.in_session("resources/subscribe", uri=f"legacy://{name}")
        bob.in_session("resources/unsubscribe", uri="legacy://alice")
        for uri in ("legacy://alice", "legacy://bob"):
            bob.in_session("tools/call", name="legacy__touch", arguments={"uri": uri})
        for name, told in heard.items():
            uris = (message["params"]["uri"] for _, message in told if message["method"].endswith("resources/updated"))
            assert next(uris) == f"legacy://{name}", "bob was not told of alice's before, though he touched it"


def test_events_of_a_stream(world):
    alice, twin, bob = world.people()
    alice.begin()
    bob.begin()
    alice.in_session("resources/subscribe", uri="legacy://alice")
    with alice.open("GET", **alice.at()) as stream:
        bob.in_session("tools/call", name="legacy__touch", arguments={"uri": "legacy://alice"})
        id, _ = next(each for each in events(stream) if each[1]["method"].endswith("resources/updated"))
    bob.in_session("tools/call", name="legacy__touch", arguments={"uri": "legacy://alice"})
    last = {"Last-Event-ID": id}
    bob.in_session("resources/subscribe", uri="legacy://bob")
    with bob.open("GET", **bob.at(), **last) as answer:  # it names a stream of his own session, if any
        bob.in_session("tools/call", name="legacy__touch", arguments={"uri": "legacy://bob"})
        told = (message for _, message in events(answer) if message["method"].endswith("resources/updated"))
        assert answer.status == 400 or next(told)["params"] == {"uri": "legacy://bob"}
    with bob.open("GET", **bob.at(alice.session), **last) as answer:
        assert answer.status == 404
    with twin.open("GET", **twin.at(alice.session), **last) as answer:
        assert next(events(answer))[1]["params"] == {"uri": "legacy://alice"}, "what was missed"


@pytest.mark.covers("SEC-32", "SEC-61")
def test_their_tokens_are_found_nowhere(world):
    wrong = Person(world.hub, world.tokens["bob"][::-1])
    for person in (*world.people(), wrong):
        with person.open("POST", {"id": 1, "method": "initialize", "params": INITIALIZE}) as answer:
            assert answer.status == (401 if person is wrong else 200)
        person.ask("tools/call", name="modern__touch", arguments={"uri": "modern://bob"})
    said = [hubd(world.hub, *words) for words in (["status", "--json"], ["logs", "hub"], ["config"], ["doctor"])]
    found = [f"{each.stdout}{each.stderr}".encode() for each in said]
    home = world.hub.config.parent
    files = dict(written(home))
    assert home / "hubd.log" in files
    found += [data for path, data in files.items() if path != world.hub.config]
    found += [Path(f"/proc/{child.pid}/environ").read_bytes() for child in children(world.hub)]
    for name, token in world.tokens.items():
        secret = max(token.split("."), key=len).encode()
        assert not any(secret in each or secret[::-1] in each for each in found), name


@pytest.mark.parametrize("kind", ["named", "signed"])
def test_sessions_that_outlive_the_hub(tmp_path, kind):
    with team(tmp_path, kind) as world:
        alice, *_ = world.people()
        alice.begin()
        world.hub.process.signalled(9)
        with running_hub(tmp_path / "hub", (tmp_path / "hub" / "hubd.toml").read_text(), auth="oauth") as again:
            world.hub = again
            _, twin, bob = world.people()
            for person, status in ((bob, 404), (twin, 200)):
                with person.open("POST", {"id": 3, "method": "ping"}, **person.at(alice.session)) as answer:
                    assert answer.status == status


@pytest.mark.covers("POL-05", "SEC-90")
def test_once_others_are_let_in_all_is_denied_that_no_rule_allows(tmp_path):
    with running_hub(tmp_path, upstream("echo", {"tools": ["say"]})) as hub:
        until(lambda: rows(hub)["echo"]["state"] == "connected")
        made = hubd(hub, "token", "new", "carol", "--principal", "carol")
        assert "carol may use nothing until a rule allows it" in made.stderr
        carol = Person(hub, made.stdout.strip())
        assert carol.ask("tools/list")["tools"] == []
        assert carol.ask("tools/call", name="echo__say", arguments={}) == -32602
        assert "deny" in hubd(hub, "policy").stdout
        assert hubd(hub, "token", "revoke", "carol").returncode == 0
        assert [tool["name"] for tool in json.loads(hubd(hub, "tools", "--json").stdout)] == ["echo__say"]
        hubd(hub, "token", "new", "mine")
        assert hubd(hub, "policy").stdout.startswith("There are no rules")


@pytest.mark.covers("POL-13")
def test_the_label_of_a_host_is_that_of_its_entry_or_of_its_token(tmp_path):
    """And never what the host says of itself."""
    rules = '[policy]\ndeny = ["host:cursor echo__*"]\n'
    with running_hub(tmp_path, rules + upstream("echo", {"tools": ["say"]})) as hub:
        until(lambda: rows(hub)["echo"]["state"] == "connected")
        about = {**INITIALIZE, "clientInfo": {"name": "cursor", "version": "1"}}
        asked = [("initialize", about), ("tools/list", {})]
        lines = [json.dumps({"jsonrpc": "2.0", "id": id, "method": m, "params": p}) for id, (m, p) in enumerate(asked)]
        for label, names in (("cursor", []), ("claude", ["echo__say"])):
            with subprocess.Popen(
                [HUBD, "connect", "--host", label],
                env=hub.env,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            ) as shim:
                shim.stdin.write("".join(f"{line}\n" for line in lines))
                shim.stdin.flush()
                answers = [json.loads(shim.stdout.readline()) for _ in lines]
                shim.stdin.close()
            (listed,) = (each["result"]["tools"] for each in answers if each["id"] == 1)
            assert [tool["name"] for tool in listed] == names
            token = hubd(hub, "token", "new", f"of-{label}", "--host", label).stdout.strip()
            assert [tool["name"] for tool in Person(hub, token).ask("tools/list")["tools"]] == names


@pytest.mark.parametrize("how", ["revoke", "rotate"])
def test_a_token_that_is_taken_back_ends_streams_and_no_running_call(tmp_path, how):
    (runs := tmp_path / "runs").touch()
    script = {"on": {"tools/call:wait": [["mark", f"{tmp_path}/begun"], ["await_gone", str(runs)], ["serve"]]}}
    with running_hub(tmp_path, '[policy]\ndefault = "allow"\n' + upstream("slow", script)) as hub:
        until(lambda: rows(hub)["slow"]["state"] == "connected")
        token = hubd(hub, "token", "new", "carol", "--principal", "carol").stdout.strip()
        carol = Person(hub, token)
        carol.begin()
        call = {"id": 5, "method": "tools/call", "params": {"name": "slow__wait", "arguments": {}}}
        with carol.open("GET", **carol.at()) as stream, carol.sent("POST", call, **carol.at()) as connection:
            wait_for(tmp_path / "begun")
            assert hubd(hub, "token", how, "carol").returncode == 0
            assert list(events(stream)) == [], "it ends, and nothing was said"
            with carol.open("POST", {"id": 6, "method": "ping"}, **carol.at()) as refused:
                assert refused.status == 401
            runs.unlink()
            *_, last = messages(connection.getresponse())
            assert last["result"]["content"]


def wait_for(path):
    """Wait until there is such a file."""
    while not path.exists():
        os.sched_yield()
