"""`hubd approvals`, `approve`, `deny` and `hubd call`, with a hub that runs and hosts that cannot ask."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.attached import INITIALIZE, Host, last_record, said, upstream
from tests.support.processes import HUBD, running_hub
from tests.support.terminal import Terminal

pytestmark = pytest.mark.covers("POL-30")

TOOLS = ["drop", "wipe", "purge", "erase", "shred", "burn", "melt", "bury"]
"""One for each test: who has said no three times is not asked again."""
CONFIG = (
    upstream("db", {"tools": TOOLS})
    + """
[policy]
deny = ["db__bury"]
[[policy.rules]]
effect = "ask"
match = ["*"]
reason = "it may cost data"
"""
)


@pytest.fixture(scope="module")
def hub(tmp_path_factory):
    with running_hub(tmp_path_factory.mktemp("place"), CONFIG) as hub:
        yield hub


def requests(hub):
    """Those that nobody has decided on."""
    return [each for each in json.loads(said(hub, "approvals", "--json"))["requests"] if not each["decision"]]


def test_a_call_is_refused_shown_and_approved(hub):
    refused = said(hub, "call", "db__drop", "table=users", code=1)
    [request] = requests(hub)
    assert f"`hubd approve {request['id']}`" in refused
    assert "call with --yes" in refused
    assert (request["host"], request["name"], request["arguments"]) == ("hubd", "db__drop", 'table="users"')
    listed = said(hub, "approvals")
    assert request["id"] in listed
    assert 'table="users"' in listed
    shown = said(hub, "approvals", "show", request["id"])
    assert 'hubd: may "hubd" run db__drop?' in shown
    assert '"table": "users"' in shown
    assert "rules[0]: it may cost data" in shown
    assert "the next equal call of hubd runs" in said(hub, "approve", request["id"])
    said(hub, "call", "db__drop", "table=users")
    assert requests(hub) == []
    assert "no request" in said(hub, "approve", request["id"], code=1)


def test_a_call_is_denied(hub):
    said(hub, "call", "db__wipe", "table=a", code=1)
    [request] = requests(hub)
    assert "is told that you said no" in said(hub, "deny", request["id"])
    assert "the user said no" in said(hub, "call", "db__wipe", "table=a", code=1)
    assert requests(hub) == []
    assert last_record(hub, "refuse", "--tool", "db__wipe")["request"] == request["id"]


def test_a_yes_for_longer_is_listed_and_taken_back(hub):
    said(hub, "call", "db__purge", "table=b", code=1)
    [request] = requests(hub)
    assert "from now on" in said(hub, "approve", request["id"], "--always")
    said(hub, "call", "db__purge", "table=c")
    [given] = json.loads(said(hub, "approvals", "--json"))["approvals"]
    assert (given["name"], given["lasts"]) == ("db__purge", "always")
    assert given["id"] in said(hub, "approvals")
    assert "say what to take back" in said(hub, "approvals", "revoke", code=2)
    assert "db__purge" in said(hub, "approvals", "revoke", "--tool", "db__*")
    said(hub, "call", "db__purge", "table=c", code=1)
    [request] = requests(hub)
    said(hub, "deny", request["id"])


def test_yes_on_the_command_line_approves_the_call(hub):
    said(hub, "call", "db__erase", "table=d", "--yes")
    assert requests(hub) == []


def test_a_person_at_the_terminal_is_asked(hub):
    for answer in ("once", "n", "approve"):
        with Terminal([HUBD, "call", "db__shred", "table=e"], hub.env) as terminal:
            terminal.see('hubd: may "hubd" run db__shred')
            terminal.see(r"\[o\]nce, \[a\]lways or \[n\]o")
            terminal.type(f"{answer}\n")
            if answer == "approve":
                terminal.see("always all calls of it")
                terminal.type("n\n")
            if not answer.startswith("o"):
                terminal.see("not run: you said no")
            assert terminal.end()[0] == (not answer.startswith("o"))
        listed = json.loads(said(hub, "approvals", "--json"))["requests"]
        assert "db__shred" not in [each["name"] for each in listed]


def test_the_owner_is_told_of_a_rule_that_denies(hub):
    told = said(hub, "call", "db__bury", code=1)
    assert "a rule denies db__bury (hubd.toml:" in told
    assert "deny[0])" in told
    assert "there is no tool db__burry" in said(hub, "call", "db__burry", code=1)


@pytest.mark.covers("POL-25")
def test_whoever_watches_is_told_of_calls_that_wait(hub):
    said(hub, "call", "db__burn", "table=before", code=1)
    with Terminal([HUBD, "approvals", "--follow"], hub.env, columns=120) as terminal, Host(hub, host="cursor") as host:
        terminal.see('table="before"')
        host.ask(0, "initialize", INITIALIZE)
        assert host.receive()["id"] == 0
        host.ask(1, "tools/call", {"name": "db__burn", "arguments": {"table": "z"}})
        terminal.see('cursor.*db__burn.*table="z"')
        terminal.see("it waits: .hubd approve ([A-Z0-9]{4})")
        [before, request] = requests(hub)
        assert request["waiting"] == 1
        said(hub, "deny", request["id"])
        assert "the user said no" in json.dumps(host.receive())
    said(hub, "deny", before["id"])


HOST = """
import json, subprocess, sys
hubd = sys.argv[1]
shim = subprocess.Popen([hubd, "connect", "--host", "cursor"], stdin=-1, stdout=-1, text=True, bufsize=1)
def ask(id, method, params):
    print(json.dumps({"jsonrpc": "2.0", "id": id, "method": method, "params": params}), file=shim.stdin)
    while (found := json.loads(shim.stdout.readline())).get("id") != id:
        pass
    return found["result"]
ask(1, "initialize", json.loads(sys.argv[2]))
def call(id):
    return ask(id, "tools/call", {"name": "db__burn", "arguments": {"table": "y"}})
request = call(2)["_meta"]["dev.hubd/failure"]["request"]
done = [subprocess.run([hubd, *words], capture_output=True, text=True) for words in (
    ["approve", request], ["call", "db__burn", "table=y", "--yes"], ["trust", sys.argv[3], "--yes"])]
print(json.dumps([request, *([each.returncode, each.stderr] for each in done)]), flush=True)
sys.stdin.readline()
print(json.dumps(call(3)), flush=True)
"""


@pytest.mark.covers("POL-27")
def test_a_program_of_a_host_approves_nothing(hub, tmp_path):
    (shop := tmp_path / "shop").mkdir()
    (shop / ".hubd.toml").write_text('[upstreams.till]\ncommand = "till"\n')
    argv = [sys.executable, "-c", HOST, str(HUBD), json.dumps(INITIALIZE), str(shop)]
    from_a_shell = ["sh", "-c", '"$@"; exit', "sh", *argv]  # else it and this process are one program
    with subprocess.Popen(from_a_shell, stdin=-1, stdout=-1, text=True, env=hub.env) as host:
        request, *tried = json.loads(host.stdout.readline())
        for code, error in tried:
            assert code == 1
            assert "only a person may do that" in error
        assert "the next equal call of cursor runs" in said(hub, "approve", request)
        assert "trusted; run `hubd trust` again" in said(hub, "trust", shop, "--yes")
        host.stdin.write("\n")
        host.stdin.flush()
        assert "isError" not in json.loads(host.stdout.readline())


def test_what_cannot_be_taken_back_for_good_is_said_and_is_at_the_stop(tmp_path):
    with running_hub(tmp_path, CONFIG) as hub:
        said(hub, "call", "db__purge", "table=b", code=1)
        [request] = requests(hub)
        said(hub, "approve", request["id"], "--always")
        path = Path(hub.env["XDG_STATE_HOME"], "hubd", "grants.json")
        written = path.read_bytes()
        path.unlink()
        path.mkdir()  # can neither be replaced nor removed
        refused = said(hub, "approvals", "revoke", "--tool", "db__*", code=1).replace("\n", " ")
        assert "Taken back until the hub ends: approvals are not saved" in refused
        said(hub, "call", "db__purge", "table=b", code=1)
        path.rmdir()
        path.write_bytes(written)
        assert hub.process.stop() == 0
        assert json.loads(path.read_bytes())["grants"] == {}
