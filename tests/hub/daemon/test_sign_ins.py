"""A sign-in from the command line's request to the call that works: a real hub, the rig's servers, a person's forms."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from hub.control.client import ControlClient
from hub.control.errors import ControlFailed
from hub.control.methods import RELOAD, SIGN_IN, SIGN_IN_FINISH, SIGN_IN_STATUS, SIGN_OUT, STATUS
from tests.support.oauth.rig import walk, walk_to_the_end
from tests.support.processes import HUBD, free_port, running_hub

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
        call = [HUBD, "call", "notes__read", "--json", "{}"]
        called = subprocess.run(call, env=hub.env, capture_output=True, text=True, timeout=60)
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
        answer = json.loads(told.read_bytes())
        assert "only a person may do that" in answer["error"]["message"]
        with control(hub) as client:
            assert client.request(SIGN_IN, name="notes", yes=True).authorization_url, "a test is no program of a server"
            with pytest.raises(ControlFailed, match="whole address"):
                client.request(SIGN_IN_FINISH, address="http://127.0.0.1/?x")


def test_nothing_of_it_is_loaded_by_a_hub_that_signs_in_nowhere():
    code = "import sys, hub.daemon.serve; print(*sys.modules)"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    loaded = set(shown.stdout.split())
    assert not loaded & {"httpx", "joserfc", "upstreams.oauth.accounts", "upstreams.oauth.store"}
    assert not {name for name in loaded if name.startswith("hub.sign_in.")}
