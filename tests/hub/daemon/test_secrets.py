"""Secrets in a real hub: servers that wait for them, servers that use them, and places where no value may be."""

import contextlib
import http.server
import json
import sys
import threading
import time
from pathlib import Path

import pytest

from tests.support.commands import run_hubd
from tests.support.looking import servers as servers_of
from tests.support.processes import running_hub
from tests.support.written import written

CANARY = "s3cret-canary-0123456789"
OTHER = "other-canary-9876543210"
PATIENCE_S = 60

SAYS_IT = """
import os, runpy, sys
print("my token is", os.environ["T"], file=sys.stderr, flush=True)
open(sys.argv[1], "a").write(os.environ["T"] + "\\n")
sys.argv = sys.argv[:1]
runpy.run_module("upstreams.demo", run_name="__main__")
"""


def command(hub, *arguments, stdin=None, code=0):
    done = run_hubd(arguments, hub.env, input=stdin)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def rows(hub):
    return servers_of(hub.env)


def until(condition):
    """Poll the hub until `condition` holds."""
    due = time.monotonic() + PATIENCE_S  # noqa: TID251
    while not (found := condition()):
        assert time.monotonic() < due  # noqa: TID251
        threading.Event().wait(0.1)
    return found


def servers(tmp_path):
    """`waits` and `uses` say their token, `plain` has none."""
    script = tmp_path / "says.py"
    script.write_text(SAYS_IT)
    python = json.dumps(sys.executable)
    texts = [
        f"[upstreams.{name}]\ncommand = {python}\n"
        f'args = ["-I", "{script}", "{tmp_path / name}"]\nenv = {{ T = "${{secret:{secret}}}" }}\n'
        for name, secret in (("waits", "LATER"), ("uses", "NOW"))
    ]
    return "".join(texts) + f'[upstreams.plain]\ncommand = {python}\nargs = ["-I", "-m", "upstreams.demo"]\n'


@pytest.mark.covers("BOX-01", "BOX-03")
def test_a_server_waits_for_its_secret_and_a_changed_one_restarts_its_servers_only(tmp_path):
    with running_hub(tmp_path, servers(tmp_path), auth="none") as hub:
        state = Path(hub.env["XDG_STATE_HOME"], "hubd")
        until(lambda: {row["state"] for row in rows(hub).values()} == {"unresolved", "connected"})
        assert "run `hubd secret set LATER`" in rows(hub)["waits"]["last_error"]
        plain = rows(hub)["plain"]["pid"]

        command(hub, "secret", "set", "LATER", stdin=CANARY)
        until(lambda: rows(hub)["waits"]["state"] == "connected")
        assert rows(hub)["uses"]["state"] == "unresolved"
        command(hub, "secret", "set", "NOW", stdin=CANARY)
        until(lambda: rows(hub)["uses"]["state"] == "connected")
        pids = {name: row["pid"] for name, row in rows(hub).items()}
        assert pids["plain"] == plain

        command(hub, "secret", "set", "NOW", stdin=OTHER)
        until(lambda: rows(hub)["uses"]["pid"] not in (None, pids["uses"]))
        until(lambda: rows(hub)["uses"]["state"] == "connected")
        again = {name: row["pid"] for name, row in rows(hub).items()}
        assert {name for name in pids if pids[name] != again[name]} == {"uses"}
        assert (tmp_path / "uses").read_text().split() == [CANARY, OTHER]

        command(hub, "secret", "set", "NOW", stdin=OTHER)  # the same again
        command(hub, "reload")
        assert rows(hub)["uses"]["pid"] == again["uses"]

        told = [
            command(hub, *words.split()) for words in ("status", "status --json", "secret ls", "validate", "reload")
        ]
        told += [command(hub, "logs", name) for name in ("waits", "uses")]
        assert "my token is ***" in told[-1]
        told += [(tmp_path / "hubd.log").read_text(), (tmp_path / "hubd.toml").read_text()]
        told += [path.read_bytes().decode(errors="replace") for path in _processes(hub.process.pid)]
        kept = [data for path, data in written(state) if path.name != "secrets.json"]
        told += [data.decode(errors="replace") for data in kept]
        assert not [text for text in told if CANARY in text or OTHER in text]


def _processes(pid):
    """The command lines of a process and its children."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [Path(f"/proc/{each}/cmdline") for each in (pid, *children)]


class _Server(http.server.ThreadingHTTPServer):
    """A server of the handshake era over HTTP that lets in who sends the token."""

    daemon_threads = True
    token = "one"
    refused = 0


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_POST(self):
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.headers["Authorization"] != f"Bearer {self.server.token}":
            self.server.refused += 1
            return self._answer(401)
        results = {
            "initialize": {
                "protocolVersion": "2025-06-18",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "s", "version": "1"},
            },
            "tools/list": {"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]},
            "tools/call": {"content": [{"type": "text", "text": f"hello {self.headers['Authorization']}"}]},
            "ping": {},
        }
        if "id" not in message:
            return self._answer(202)
        if message["method"] not in results:
            return self._answer(404)
        return self._answer(200, {"jsonrpc": "2.0", "id": message["id"], "result": results[message["method"]]})

    def do_GET(self):
        self._answer(405)

    do_DELETE = do_GET

    def _answer(self, status, message=None):
        body = b"" if message is None else json.dumps(message).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@contextlib.contextmanager
def token_server():
    with _Server(("127.0.0.1", 0), _Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join(10)


@pytest.mark.covers("BOX-02")
def test_a_call_that_is_refused_is_sent_again_with_what_the_command_prints_now(tmp_path):
    token = tmp_path / "token"
    token.write_text("token-one\n")
    with token_server() as server:
        server.token = "token-one"
        text = f'[upstreams.web]\nurl = "http://127.0.0.1:{server.server_port}/mcp"\n'
        text += f'headers = {{ Authorization = "Bearer ${{cmd:cat {token}}}" }}\n'
        with running_hub(tmp_path, text, auth="none") as hub:
            until(lambda: rows(hub)["web"]["state"] == "connected")
            assert "hello Bearer token-one" in command(hub, "call", "web__echo")
            server.token, server.refused = "token-two", 0
            token.write_text("token-two\n")
            assert "hello Bearer token-two" in command(hub, "call", "web__echo")
            assert server.refused == 1
            assert rows(hub)["web"]["state"] == "connected"
            server.token = "token-three"
            said = command(hub, "call", "web__echo", code=1)
            assert "token-two" not in said
