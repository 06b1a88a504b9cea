"""`hubd doctor` about the store that hubs share, about other hubs, and about files that hold secrets."""

import gc
import importlib.util
import socket
from pathlib import Path

import pytest

from config.hosts.known_hosts import Machine
from config.loading.assemble import load_all
from hub.cli.checks import stores
from hub.cli.checks.machine_state import MachineState
from hub.control.methods import STATUS, read
from tests.support.redis_server import redis_server

KEY = "c4" * 32
pytestmark = pytest.mark.filterwarnings("ignore:.*MemoryObject:pytest.PytestUnraisableExceptionWarning")
"""coredis does not close what it made for a connection that it could not open."""


@pytest.fixture(autouse=True)
def collected():
    """Nothing of a connection is left to be found in another test."""
    yield
    gc.collect()


@pytest.fixture
def examined(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))

    def examined(text: str = "", status: dict[str, object] | None = None) -> MachineState:
        path = tmp_path / "hubd.toml"
        path.write_text(text + '\n[upstreams.a]\ncommand = "sh"\n')
        loaded = load_all(path, {})
        machine = Machine(tmp_path, {})
        return MachineState(
            machine=machine,
            version="1",
            status=None if status is None else read(STATUS, status),
            loaded=loaded,
            error=None,
            files=(),
            token=None,
            trust=tmp_path / "trust.json",
            directory=tmp_path,
            status_at=lambda path: None,
        )

    return examined


@pytest.fixture
def port():
    """One that nobody listens on."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]


def answering(answer: bytes):
    """A server on a port of its own that says this to everything. It stands until the test ends."""
    import threading

    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                while connection.recv(65536):
                    connection.sendall(answer)

    threading.Thread(target=serve, daemon=True).start()
    return listener


def test_without_a_store_there_is_nothing_to_try(examined):
    assert list(stores.store(examined("[cache]\nmax_bytes = 1000"))) == []


def test_a_store_that_is_not_there(examined, port):
    [found] = stores.store(examined(f'[cache]\nurl = "redis://127.0.0.1:{port}/0"'))
    assert (found.check, found.level) == ("store", "problem")
    assert found.what.startswith(f"the store at 127.0.0.1:{port} cannot be used: ")
    assert "refused" in found.what.lower()
    assert found.fix == "start that server, or correct `url` below [cache]"


def test_a_store_that_refuses_the_password(examined):
    with answering(b"-WRONGPASS invalid username-password pair or user is disabled.\r\n") as listener:
        text = f'[cache]\nurl = "redis://127.0.0.1:{listener.getsockname()[1]}"\npassword = "c4n4ry-c4n4ry"'
        [found] = stores.store(examined(text))
    assert "WRONGPASS" in found.what or "invalid username-password" in found.what
    assert found.fix.startswith("correct `password`")
    assert "c4n4ry" not in repr(found)


@pytest.mark.real
def test_a_real_store(examined, tmp_path):
    with redis_server(tmp_path, "requirepass c4n4ry-c4n4ry", tcp=True) as server:

        def found(url: str, password: str, status: dict[str, object] | None = None):
            text = f'[cache]\nurl = "{url}"\npassword = "{password}"'
            return list(stores.store(examined(text, status)))

        for url in (server.url, f"redis://127.0.0.1:{server.port}/2"):
            assert found(url, "c4n4ry-c4n4ry") == []
            [refused] = found(url, "c4n4ry-wrong")
            assert refused.fix.startswith("correct `password`")
            assert "c4n4ry" not in repr(refused)
        away = {"cache": {"store": {"state": "away", "reason": "it is not there"}}}
        [told] = found(server.url, "c4n4ry-c4n4ry", away)
        assert (told.level, told.what.rpartition(": ")[2]) == ("warning", "it is not there")
        assert found(server.url, "c4n4ry-c4n4ry", {"cache": {"store": {"state": "connected"}}}) == []
        server.pause()
        try:
            [silent] = found(server.url, "c4n4ry-c4n4ry")
        finally:
            server.resume()
        assert silent.what.endswith("no answer within 2 s")


def test_a_store_that_does_not_answer(examined, monkeypatch):
    monkeypatch.setattr(stores, "TRY_S", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        [found] = stores.store(examined(f'[cache]\nurl = "redis://127.0.0.1:{listener.getsockname()[1]}"'))
    assert found.what.endswith("cannot be used: no answer within 0.2 s")


def test_the_client_that_is_not_installed(examined, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    [found] = stores.store(examined('[cache]\nurl = "redis://h"'))
    assert found.fix.startswith("the client for Redis and Valkey is not installed; run `")
    assert found.level == "problem"


def test_certificates_that_are_not_there(examined, tmp_path):
    [found] = stores.store(examined('[cache]\nurl = "rediss://h"\ntls_ca = "ca.pem"'))
    assert found.what == f"the file {tmp_path}/ca.pem of [cache] tls_ca cannot be read"


def test_two_hubs_of_one_name(examined):
    def among(*peers: str) -> dict[str, object]:
        there = [{"name": name, "run": str(at), "url": f"http://h{at}:1"} for at, name in enumerate(peers)]
        return {"replica": {**there[0], "peers": there[1:]}}

    assert list(stores.same_names(examined())) == []
    assert list(stores.same_names(examined(status={"replica": None}))) == []
    assert list(stores.same_names(examined(status=among("a", "b", "", "")))) == []
    [found] = stores.same_names(examined(status=among("a", "b", "a")))
    assert (found.level, found.what) == ("problem", "2 hubs are called a: http://h0:1, http://h2:1")


def test_files_of_secrets_that_others_may_read(examined, tmp_path):
    (tmp_path / "key").write_text(KEY + "\n")
    (tmp_path / "plain").write_text("redis\n")
    (tmp_path / "hubd.env").write_text("X=1\n")
    (tmp_path / "state/hubd").mkdir(parents=True, mode=0o700)
    (tmp_path / "state/hubd/keys").write_bytes(b"\xff")
    for path in ("key", "plain", "hubd.env", "state/hubd/keys"):
        (tmp_path / path).chmod(0o644)
    text = 'sealing_key = "${file:key}"\n[cache]\nurl = "redis://h"\nusername = "${file:plain}"\npassword = "x"'
    key, keys = stores.secret_files(examined(text))
    assert key.what == f"others may read {tmp_path}/key (mode 644), and it holds a secret"
    assert key.fix == f"run `chmod 600 {tmp_path}/key`"
    assert str(tmp_path / "state/hubd/keys") in keys.what
    (tmp_path / "key").chmod(0o600)
    (tmp_path / "state/hubd/keys").chmod(0o600)
    assert list(stores.secret_files(examined(text))) == []
