"""Several processes with one store, at a server that takes no refresh token twice: real locks, files and requests."""

import json
import subprocess
import sys
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qsl

import pytest

from tests.support.everything import draw
from tests.support.renewing_process import LIFE_S, first, key_of, store_in

ROOT = Path(__file__).parents[3]


class StrictServer(ThreadingHTTPServer):
    """A token endpoint that rotates refresh tokens, and ends the grant when an old one comes."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.lock = threading.Lock()
        self.generation = 1
        self.renewals = 0
        self.is_ended = False

    @property
    def issuer(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def renewed(self, fields: dict[str, str]) -> tuple[int, dict[str, object]]:
        with self.lock:
            self.renewals += 1
            if self.is_ended or fields["refresh_token"] != f"r{self.generation}":
                self.is_ended = True
                return 400, {"error": "invalid_grant"}
            self.generation += 1
            number = self.generation
        tokens = {"access_token": f"a{number}", "refresh_token": f"r{number}"}
        return 200, {**tokens, "token_type": "Bearer", "expires_in": LIFE_S}


class _Handler(BaseHTTPRequestHandler):
    server: StrictServer

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        status, members = self.server.renewed(dict(parse_qsl(body)))
        data = json.dumps(members).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *args: object) -> None:
        pass


@contextmanager
def serving():
    server = StrictServer()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class Process:
    """A `renewing_process`."""

    def __init__(self, folder, issuer: str, *, waiters: int = 100, die: str = "") -> None:
        options = {"folder": str(folder), "issuer": issuer, "waiters": waiters, "die": die}
        argv = [sys.executable, "-m", "tests.support.renewing_process", json.dumps(options)]
        self.process = subprocess.Popen(argv, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def begin(self, at: float) -> None:
        self.process.stdin.write(f"{at}\n")
        self.process.stdin.flush()

    def outcome(self) -> dict[str, object] | None:
        """None: it has died."""
        line = self.process.stdout.readline()
        return json.loads(line) if line else None

    def __enter__(self):
        return self

    def __exit__(self, *error: object) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def server():
    with serving() as found:
        yield found


@pytest.mark.covers("SEC-42")
def test_two_processes_with_a_hundred_waiters_each_renew_once_a_generation(tmp_path, server):
    store = store_in(tmp_path / "oauth")
    store.save(first(server.issuer))
    with Process(store.folder, server.issuer) as one, Process(store.folder, server.issuer) as other:
        for generation in range(2, 12):
            at = (generation - 1) * (LIFE_S - 1)
            for each in (one, other):
                each.begin(at)
            outcomes = [one.outcome(), other.outcome()]
            assert [each["token"] for each in outcomes] == [f"Bearer a{generation}"] * 2
            assert [each["errors"] for each in outcomes] == [[], []]
            assert server.renewals == server.generation - 1 == generation - 1
    assert not server.is_ended
    assert store.load(key_of(server.issuer)).generation == server.generation


NOT_SENT = ["before reading", "after reading", "before the note", "after the note", "before the request"]
NOT_KEPT = ["after the answer", "before writing", "before renaming"]
KEPT = ["after renaming", "after writing", "before the note is void", "after the note is void"]


@pytest.mark.covers("SEC-42")
@pytest.mark.parametrize("step", draw(5, NOT_SENT + NOT_KEPT + KEPT))
def test_a_process_is_killed_in_the_middle_of_a_renewal(tmp_path, server, step):
    store = store_in(tmp_path / "oauth")
    store.save(first(server.issuer))
    with Process(store.folder, server.issuer, waiters=3, die=step) as doomed:
        doomed.begin(LIFE_S - 28)
        assert doomed.outcome() is None
        assert doomed.process.wait() == -9
    with Process(store.folder, server.issuer, waiters=3) as survivor:
        survivor.begin(LIFE_S - 28)
        outcome = survivor.outcome()
    if step in NOT_KEPT:
        assert outcome["state"] == "needed"
        assert "The answer to a renewal was lost" in outcome["problem"]
        assert (outcome["token"], outcome["errors"]) == ("Bearer a1", [])  # it lasts for some seconds more
        assert server.renewals == 2
    else:
        assert (outcome["state"], outcome["token"], outcome["problem"]) == ("good", "Bearer a2", "")
        assert server.renewals == 1
    assert not list((store.folder / "grants").glob("*.unreadable"))
