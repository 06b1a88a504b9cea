"""Secrets of sign-ins and of hosts: where they may be, and where they are never found."""

import json
import sys
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import psutil
import pytest

from hub.control.methods import CACHE, ENVIRONMENT, LOGS, SIGN_IN_STATUS, STATUS
from tests.support.oauth.liar_resource import answer
from tests.support.oauth.rig import walk_to_the_end
from tests.support.signing_hub import age, signing_hub
from tests.support.written import written

CHILD = f"\n[upstreams.child]\ncommand = {json.dumps(sys.executable)}\nargs = ['-I', '-m', 'upstreams.demo']\n"


def said(hub):
    """All that the control socket tells."""
    with hub.control() as client:
        asked = [client.request_both(method)[0] for method in (STATUS, SIGN_IN_STATUS, ENVIRONMENT, CACHE)]
        journals = [client.request_both(LOGS, name=name, lines=1000)[0] for name in ("notes", "child")]
        return json.dumps([*asked, *journals])


def environments(hub):
    """What the children of the hub were given, as the kernel has it."""
    found = psutil.Process(hub.hub.process.pid).children(recursive=True)
    assert found, "there is a server that is a program"
    return [Path("/proc", str(child.pid), kind).read_bytes() for child in found for kind in ("environ", "cmdline")]


def files(directory):
    """All that the hub has written."""
    return ((path, data) for path, data in written(directory) if "oauth-" not in path.name)


@pytest.mark.covers("SEC-61", "SEC-42")
def test_no_secret_of_a_sign_in_is_found_anywhere(oauth, tmp_path):
    """Tokens, codes, states, verifiers and client secrets of good sign-ins and of bad ones, and the hub's own token."""
    liar = oauth.liar("reg-secret-for-none")
    urls, home = {"notes": liar.url}, tmp_path / "home"
    home.mkdir()
    with signing_hub(home, urls, notes=CHILD) as hub:
        assert hub.sign_in(yes=True).state == "failed"
        assert hub.sign_in(yes=True).state == "signed_in"
        assert hub.call().is_good
    age(home)
    with signing_hub(home, urls, notes=CHILD) as hub:
        assert hub.call().is_good
        assert not hub.call("child__echo").text.startswith("Unknown tool")
        liar.tell("ref-500")
        liar.expire()
        assert hub.call().is_error
        liar.tell("auth-error-html")
        with hub.begun(yes=True) as begun:
            page = walk_to_the_end(begun.url)
            assert begun.outcome().state in ("failed", "denied")
        shown, given = said(hub), environments(hub)
        token = hub.hub.token
    secrets = [*liar.secrets(), token]
    assert len(secrets) > 10
    for secret in secrets:
        assert secret not in shown
        assert secret not in page.text
        assert not [each for each in given if secret.encode() in each]
        held = [path.name for path, data in files(home) if secret.encode() in data]
        assert held == (["token"] if secret == token else [])


class Recorder(ThreadingHTTPServer):
    """An upstream that lets everybody in, and remembers all that it is shown."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), RecorderPages)
        self.seen: list[str] = []


class RecorderPages(BaseHTTPRequestHandler):
    server: Recorder

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.seen.append(f"{self.requestline}\n{self.headers}\n{body.decode()}")
        message = json.loads(body)
        if "id" not in message:
            self.send_response(202)
            self.end_headers()
            return
        said = answer(message.get("method"), f"{(message.get('params') or {}).get('name')}: done")
        data = json.dumps({"jsonrpc": "2.0", "id": message["id"], **said}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self) -> None:
        self.server.seen.append(f"{self.requestline}\n{self.headers}")
        self.send_error(405)

    def log_message(self, *args: object) -> None:
        pass


@contextmanager
def recording():
    server = Recorder()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.covers("SEC-32")
def test_the_token_of_a_host_never_goes_up(oauth, tmp_path):
    """What a host shows the hub is for the hub: no server gets it, whether it wants a token of its own or none."""
    liar, home = oauth.liar(), tmp_path / "home"
    home.mkdir()
    with recording() as open_to_all:
        urls = {"notes": liar.url, "open": f"http://127.0.0.1:{open_to_all.server_port}/mcp"}
        with signing_hub(home, urls, notes=CHILD) as hub:
            token = hub.hub.token
            assert hub.call().is_error
            assert hub.sign_in().state == "signed_in"
            assert hub.call().is_good
            assert hub.call("open__read").is_good
            given = environments(hub)
        seen = "".join(open_to_all.seen)
    assert '"tools/call"' in seen
    assert "authorization" not in seen.lower()
    assert token not in seen
    assert token[-4:] not in {entry["token"] for entry in liar.asked("mcp")}
    assert token not in json.dumps([liar.log(), liar.secrets()])
    assert not [each for each in given if token.encode() in each]
