"""A sign-in from the command line's request to the call that works: a real hub, the rig's servers, a person's forms."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hub.control.client import ControlClient
from hub.control.client_errors import ControlFailed
from hub.control.methods import RELOAD, SIGN_IN, SIGN_IN_FINISH, SIGN_IN_STATUS, SIGN_OUT, STATUS
from hub.wire.mcp import CLIENT_CAPABILITIES_KEY, MODERN, VERSION_KEY
from tests.support.attached import Host
from tests.support.commands import run_hubd
from tests.support.oauth.rig import open_page, walk, walk_to_the_end
from tests.support.processes import free_port, running_hub

CONFIG = '[upstreams.notes]\nurl = "{url}"\n'


def control_socket(hub) -> Path:
    return Path(hub.env["XDG_RUNTIME_DIR"]) / "hubd" / "control.sock"


def control(hub) -> ControlClient:
    return ControlClient(control_socket(hub))


def state_of(hub, name="notes") -> str:
    with control(hub) as client:
        (row,) = [row for row in client.request(STATUS).upstreams if row.name == name]
        return row.state


def until_connected(hub) -> None:
    """Wait until the upstream is connected, which its journal tells."""
    with control(hub) as client:
        for record in client.follow("notes", 100):
            if "connected" in record.get("text", "") or state_of(hub) == "connected":
                return


def sign_in(hub, *, paste: bool = False) -> object:
    with control(hub) as client, control(hub) as other:
        step = client.request(SIGN_IN, name="notes")
        assert step.authorization_url.startswith("http")
        if paste:
            finished = other.request(SIGN_IN_FINISH, address=walk(step.authorization_url))
            assert finished.state == "signed_in", finished.text
        else:
            page = walk_to_the_end(step.authorization_url)
            assert "Signed in for notes" in page.text
        return client.further(SIGN_IN).outcome


@pytest.mark.covers("SEC-40")
@pytest.mark.parametrize("paste", [False, True])
def test_signed_in_once(oauth, tmp_path, paste):
    liar = oauth.liar()
    listen = f"127.0.0.1:{free_port()}"
    with running_hub(tmp_path, CONFIG.format(url=liar.url), listen=listen) as hub:
        outcome = sign_in(hub, paste=paste)
        assert outcome.state == "signed_in", outcome.text
        until_connected(hub)
        with control(hub) as client:
            (account,) = client.request(SIGN_IN_STATUS).accounts
        assert (account.upstream, account.state, account.issuer) == ("notes", "good", liar.issuer)
        called = run_hubd(["call", "notes__read", "--json", "{}"], hub.env)
        assert called.returncode == 0, called.stdout + called.stderr
    asked = len(liar.asked("authorization"))
    with running_hub(tmp_path, CONFIG.format(url=liar.url), listen=listen) as hub:
        until_connected(hub)
        assert len(liar.asked("authorization")) == asked, "no second sign-in"
        with control(hub) as client:
            (out,) = client.request(SIGN_OUT, name="notes").accounts
            assert out.was_signed_in
    assert not liar.asked("EVIL")
    log = (tmp_path / "hubd.log").read_text()
    for secret in liar.secrets():
        assert secret not in log


def test_the_doctor_tries_what_a_sign_in_begins_with_and_registers_nothing(oauth, tmp_path):
    good, shut = oauth.liar(), oauth.liar(None, "--no-dcr")
    config = CONFIG.format(url=good.url) + CONFIG.format(url=shut.url).replace("notes", "shut")
    with running_hub(tmp_path, config) as hub:
        for name in ("notes", "shut"):
            with control(hub) as client:
                for _ in client.follow(name, 100):
                    if state_of(hub, name) == "unauthorized":
                        break
        done = run_hubd(["doctor", "--json"], hub.env, timeout=120)
        found = {each["server"]: each for each in json.loads(done.stdout) if each["check"] == "upstream"}
        with control(hub) as client:
            assert client.request(SIGN_IN, name="notes").authorization_url
    assert found["notes"]["fix"] == "run `hubd auth notes`"
    assert "lets no unknown client in" in found["shut"]["why"]
    assert "/oauth/callback" in found["shut"]["why"]
    assert "then run `hubd auth shut`" in found["shut"]["fix"]
    assert len(good.asked("registration")) == 1, "by the sign-in, not by the doctor"


ASK = """
import json, socket, sys
client = socket.socket(socket.AF_UNIX)
client.connect(sys.argv[1])
params = {"name": "notes", "yes": True}
client.sendall(json.dumps({"jsonrpc": "2.0", "id": 1, "method": "sign_in", "params": params}).encode() + b"\\n")
open(sys.argv[2], "wb").write(client.makefile("rb").readline())
"""


@pytest.mark.parametrize("through", [[], ["sh", "-c", '"$@"; true', "sh"]], ids=["itself", "by a shell"])
def test_a_program_of_a_server_agrees_to_nothing(oauth, tmp_path, through):
    liar = oauth.liar()
    told = tmp_path / "told"
    os.mkfifo(told)
    with running_hub(tmp_path, CONFIG.format(url=liar.url)) as hub:
        argv = [*through, sys.executable, "-c", ASK, str(control_socket(hub)), str(told)]
        with (tmp_path / "hubd.toml").open("a") as file:
            file.write(f"[upstreams.spy]\ncommand = {json.dumps(argv[0])}\nargs = {json.dumps(argv[1:])}\n")
        with control(hub) as client:
            client.request(RELOAD)
        with told.open("rb") as answers:
            answer = json.loads(answers.readline())  # of the first start: there may be another before it is read
        assert "only a person may do that" in answer["error"]["message"]
        with control(hub) as client:
            assert client.request(SIGN_IN, name="notes", yes=True).authorization_url, "a test is no program of a server"
            with pytest.raises(ControlFailed, match="whole address"):
                client.request(SIGN_IN_FINISH, address="http://127.0.0.1/?x")


def test_nothing_of_it_is_loaded_by_a_hub_that_signs_in_nowhere():
    code = "import sys, hub.daemon.serve; print(*sys.modules)"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    loaded = set(shown.stdout.split())
    assert not loaded & {"httpx", "joserfc", "upstreams.oauth.credentials_by_upstream", "upstreams.oauth.store"}
    assert not {name for name in loaded if name.startswith("hub.sign_in.")}


# --- begun by a host --------------------------------------------------------------------------------------------------

URL_MODE = {"elicitation": {"form": {}, "url": {}}}
LEGACY = {"protocolVersion": "2025-11-25", "capabilities": URL_MODE, "clientInfo": {"name": "test", "version": "1"}}
MODERN_META = {"_meta": {VERSION_KEY: MODERN, CLIENT_CAPABILITIES_KEY: URL_MODE}}
COMPLETE = "notifications/elicitation/complete"


def until(host: Host, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """The next message that is `wanted`."""
    while not wanted(message := host.receive()):
        assert message is not None
    return message


def modern_answer(host: Host, id: int, method: str, **params: Any) -> dict[str, Any]:
    host.ask(id, method, {**params, **MODERN_META})
    return until(host, lambda message: message.get("id") == id)


def text_in(answer: dict[str, Any]) -> str:
    assert "result" in answer, answer
    assert not answer["result"].get("isError"), answer
    return json.dumps(answer["result"]["content"])


@pytest.mark.parametrize("opens", ["modern", "legacy"])
def test_hosts_of_both_eras_get_their_results_after_one_sign_in(oauth, tmp_path, opens):
    """Neither a terminal nor a command is needed: a call is made, a page is opened, and the call has its result."""
    liar = oauth.liar()
    with running_hub(tmp_path, CONFIG.format(url=liar.url)) as hub, Host(hub) as older, Host(hub) as modern:
        older.ask(0, "initialize", LEGACY)
        until(older, lambda message: message.get("id") == 0)
        older.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        older.ask(1, "tools/list", {})
        listed = until(older, lambda message: message.get("id") == 1)["result"]["tools"]
        assert [tool["name"] for tool in listed] == ["notes__sign_in"], "it tells nothing of itself yet"
        call = {"name": "notes__sign_in", "arguments": {}}
        older.ask(2, "tools/call", call)
        answer = until(older, lambda message: message.get("id") == 2)
        assert "error" in answer, answer
        error = answer["error"]
        assert (error["code"], error["data"]["executed"]) == (-32042, "no")
        (page,) = error["data"]["elicitations"]
        asked = modern_answer(modern, 1, "tools/call", **call)["result"]
        (key,) = asked["inputRequests"]
        shown = asked["inputRequests"][key]["params"]
        assert shown["url"] == page["url"], "both are one asker by name"
        accepted = {"inputResponses": {key: {"action": "accept"}}, "requestState": asked["requestState"]}
        modern.ask(2, "tools/call", {**call, **accepted, **MODERN_META})
        open_page(shown["url"], shown["message"])
        assert "List the tools again" in text_in(until(modern, lambda message: message.get("id") == 2))
        told = until(older, lambda message: message.get("method") == COMPLETE)
        assert told["params"] == {"elicitationId": page["elicitationId"]}
        until_connected(hub)
        older.ask(3, "tools/list", {})
        listed = until(older, lambda message: message.get("id") == 3)["result"]["tools"]
        assert "notes__read" in [tool["name"] for tool in listed]
        older.ask(4, "tools/call", {"name": "notes__read", "arguments": {}})
        text_in(until(older, lambda message: message.get("id") == 4))
        text_in(modern_answer(modern, 3, "tools/call", name="notes__read", arguments={}))
        # More scopes: the tool is called, refused, and called once more after another sign-in.
        write = {"name": "notes__write", "arguments": {}}
        if opens == "modern":
            asked = modern_answer(modern, 4, "tools/call", **write)["result"]
            (key,) = asked["inputRequests"]
            shown = asked["inputRequests"][key]["params"]
            open_page(shown["url"], shown["message"])
            accepted = {"inputResponses": {key: {"action": "accept"}}, "requestState": asked["requestState"]}
            text_in(modern_answer(modern, 5, "tools/call", **write, **accepted))
        else:
            older.ask(5, "tools/call", write)
            (page,) = until(older, lambda message: message.get("id") == 5)["error"]["data"]["elicitations"]
            open_page(page["url"], page["message"])
            until(older, lambda message: message.get("method") == COMPLETE)
            older.ask(6, "tools/call", write)
            text_in(until(older, lambda message: message.get("id") == 6))
    log = (tmp_path / "hubd.log").read_text()
    for secret in liar.secrets():
        assert secret not in log
