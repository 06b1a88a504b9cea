"""Arguments that a profile fixes with values of references: a real server that tells them in every way there is, and no
log, journal, status or error that has them."""

import json
import sys
from pathlib import Path

import pytest

from tests.support.attached import INITIALIZE, Host, hubd
from tests.support.looking import servers, until, until_connected
from tests.support.processes import running_hub
from tests.support.written import written

FROM_FILE, FROM_VARIABLE, LATER = 'f1le-s3cret "quoted"', "v4riable-s3cret", "l4ter-s3cret"
TELLTALE = r"""
import json, sys
def write(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)
SCHEMA = {"type": "object", "properties": {name: {"type": "string"} for name in ("pin", "key", "how")}}
for line in sys.stdin:
    request = json.loads(line)
    id, method, params = request.get("id"), request["method"], request.get("params") or {}
    if method == "initialize":
        found = {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}, "logging": {}}}
        write(id=id, result={**found, "serverInfo": {"name": "telltale", "version": "1"}})
    elif method == "tools/list":
        write(id=id, result={"tools": [{"name": "tell", "inputSchema": SCHEMA}]})
    elif method == "tools/call":
        told = params["arguments"]
        text = "%s and %s" % (told["pin"], told["key"])
        print("told " + text, file=sys.stderr, flush=True)
        print("no message: " + text, flush=True)
        write(method="notifications/message", params={"level": "error", "data": told})
        if told["how"] == "die":
            print("dying of " + text, file=sys.stderr, flush=True)
            sys.exit(3)
        if told["how"] == "error":
            write(id=id, error={"code": -32603, "message": "refused " + text, "data": told})
        else:
            write(id=id, result={"content": [{"type": "text", "text": text}], "isError": told["how"] == "failed"})
    elif id is not None:
        write(id=id, result={})
"""
CONFIG = """
[upstreams.telltale]
command = {python}
args = ["-I", {program}]
era = "legacy"
[profiles.bare]
hosts = ["cursor"]
[profiles.bare.override.telltale__tell]
fix = {{ pin = "${{file:pin}}", key = "key ${{FIXED_KEY}}" }}
"""


@pytest.fixture
def hub(tmp_path):
    program = tmp_path / "telltale.py"
    program.write_text(TELLTALE)
    (tmp_path / "pin").write_text(FROM_FILE + "\n")
    env = tmp_path / "hubd.env"
    env.write_text(f"FIXED_KEY={FROM_VARIABLE}\n")
    env.chmod(0o600)
    text = CONFIG.format(python=json.dumps(sys.executable), program=json.dumps(str(program)))
    with running_hub(tmp_path, text) as hub:
        until_connected(hub.env, "telltale")
        yield hub


def call(host, id, how):
    host.ask(id, "tools/call", {"name": "telltale__tell", "arguments": {"how": how}})
    while (message := host.receive()).get("id") != id:
        pass
    return json.dumps(message, ensure_ascii=False)


def everything_shown(hub, tmp_path):
    """All that people are shown of the hub, apart from results."""
    commands = (["status"], ["status", "--json"], ["logs", "-n", "500"], ["logs", "hub", "-n", "500"], ["doctor"])
    commands += (["profiles"], ["tools", "--profile", "bare"], ["config", "--effective"], ["reload"])
    texts = [hubd(hub, *command) for command in commands]
    state = written(Path(hub.env["XDG_STATE_HOME"]))
    kept = [data.decode(errors="replace") for path, data in state if path.suffix == ".json"]
    return "\n".join([*(done.stdout + done.stderr for done in texts), (tmp_path / "hubd.log").read_text(), *kept])


def spellings(*values):
    return {written for value in values for written in (value, json.dumps(value)[1:-1], value.partition(" ")[0])}


@pytest.mark.covers("EP-6", "I-9", "SEC-61")
def test_values_of_references_among_fixed_arguments_are_told_by_nobody(hub, tmp_path):
    with Host(hub, host="cursor") as host:
        host.ask(0, "initialize", INITIALIZE)
        assert host.receive()["id"] == 0
        sent = call(host, 1, "result")
        assert FROM_VARIABLE in sent, "the server got it, and its result passes as it is"
        refused = call(host, 2, "error")
        assert "refused *** and key ***" in refused
        assert not any(value in refused for value in spellings(FROM_FILE, FROM_VARIABLE))

        (tmp_path / "pin").write_text(LATER)
        until(hub.env, lambda _: LATER in call(host, 3, "result"))
        refused = call(host, 4, "error")
        assert "refused *** and key ***" in refused
        assert "*** and key ***" in call(host, 5, "failed"), "a tool says that it has failed"
        call(host, 6, "die")
        until(hub.env, lambda found: found["telltale"]["last_exit"] and found["telltale"]["state"] == "connected")
    shown = everything_shown(hub, tmp_path)
    row = servers(hub.env)["telltale"]
    assert "dying of *** and key ***" in str(row["last_exit"]["said"])
    assert shown.count("told *** and key ***") >= 10, "it is told, without the values"
    assert "sent what is not a message" in shown
    found = [value for value in spellings(FROM_FILE, FROM_VARIABLE, LATER) if value in shown]
    assert not found
