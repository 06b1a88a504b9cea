"""Two `hubd serve` with a real Redis, without a balancer: every request goes to the wrong hub."""

import http.client
import json
import secrets
import signal
from contextlib import ExitStack, contextmanager

import pytest

from tests.real.balancers import NAMES, TICK, a_hub, hubs_config
from tests.support.attached import DEMO, INITIALIZE
from tests.support.looking import status
from tests.support.processes import free_port
from tests.support.redis_server import redis_server

pytestmark = pytest.mark.everything

TOKEN = "a-token-of-the-fleet"
LEAST_S = 30
PATIENCE_S = 120


class Fleet:
    """The hubs by name, and the store."""

    def __init__(self, stack, directory):
        self._stack = stack
        self._directory = directory
        self.store = stack.enter_context(redis_server(directory, tcp=True))
        self._config = hubs_config(directory / "secrets", DEMO, self.store, TOKEN, [1], "token")
        self.keys = directory / "secrets" / "key"
        self.ports = {name: free_port() for name in NAMES}
        self.hubs = {}
        for name in NAMES:
            self.start(name)

    def start(self, name):
        self.hubs[name] = self._stack.enter_context(a_hub(self._directory / name, self._config, name, self.ports[name]))

    def kill(self, name):
        assert self.hubs[name].process.signalled(signal.SIGKILL, patience_s=LEAST_S) == -signal.SIGKILL

    def stop(self, name):
        assert self.hubs[name].process.signalled(signal.SIGTERM, patience_s=LEAST_S) == 0

    def status(self, name):
        return status(self.hubs[name].env)

    def until(self, is_so):
        """Wait for what comes by itself."""
        for _ in range(PATIENCE_S * 20):
            if is_so():
                return
            TICK.wait(0.05)
        raise AssertionError({name: self.status(name).get("replica") for name in self.hubs})

    def until_they_know_each_other(self):
        self.until(lambda: all(len(self.status(name)["replica"]["peers"]) == len(NAMES) - 1 for name in NAMES))


class Session:
    """A legacy host; each request goes to the hub it names."""

    def __init__(self, fleet, name):
        self.fleet = fleet
        self.id = None
        answer = self.post(name, "initialize", INITIALIZE)
        assert answer["result"]["protocolVersion"]
        self.post(name, "notifications/initialized", id=None)

    def connect(self, name):
        return http.client.HTTPConnection("127.0.0.1", self.fleet.ports[name], timeout=LEAST_S)

    def headers(self):
        headers = {"Authorization": f"Bearer {TOKEN}", "Accept": "application/json, text/event-stream"}
        return headers if self.id is None else {**headers, "Mcp-Session-Id": self.id}

    def post(self, name, method, params=None, id=1):
        message = {"jsonrpc": "2.0", "method": method, "params": params or {}}
        message |= {} if id is None else {"id": id}
        connection = self.connect(name)
        headers = {**self.headers(), "Content-Type": "application/json"}
        connection.request("POST", "/mcp", json.dumps(message), headers)
        response = connection.getresponse()
        body = response.read()
        connection.close()
        self.status, self.retry_after = response.status, response.getheader("Retry-After")
        self.id = self.id or response.getheader("Mcp-Session-Id")
        data = next((line[6:] for line in body.splitlines() if line.startswith(b"data: {")), body)
        return json.loads(data) if data else None

    def call(self, name, text="hello"):
        return self.post(name, "tools/call", {"name": "demo__echo", "arguments": {"text": text}})

    def goes_on(self, name, text="hello"):
        """Call until it is answered: for a while after the store was empty, nothing is taken over."""

        def is_answered():
            self.answer = self.call(name, text)
            assert self.status in (200, 503), self.answer
            return self.status == 200

        self.fleet.until(is_answered)
        assert text in json.dumps(self.answer["result"])

    def delete(self, name):
        connection = self.connect(name)
        connection.request("DELETE", "/mcp", headers=self.headers())
        status = connection.getresponse().status
        connection.close()
        return status

    @contextmanager
    def listening(self, name):
        connection = self.connect(name)
        connection.request("GET", "/mcp", headers=self.headers())
        response = connection.getresponse()
        assert response.status == 200
        yield response
        connection.close()


@pytest.fixture
def fleet(tmp_path):
    with ExitStack() as stack:
        yield Fleet(stack, tmp_path)


@pytest.mark.real
def test_two_hubs_are_as_one(fleet):
    fleet.until_they_know_each_other()
    host = Session(fleet, "a")
    assert host.id.startswith("a~v1.")
    assert "hello" in json.dumps(host.call("b")["result"])
    with host.listening("b"):
        assert "hello" in json.dumps(host.call("b")["result"])
    assert len(fleet.status("a")["hosts"]) == 1
    assert fleet.status("b")["hosts"] == []
    fleet.kill("a")
    host.goes_on("b", "again")
    assert len(fleet.status("b")["hosts"]) == 1
    fleet.start("a")
    assert "third" in json.dumps(host.call("a", "third")["result"])
    assert fleet.status("a")["hosts"] == []
    assert host.delete("a") == 200
    assert fleet.status("b")["hosts"] == []
    host.call("b")
    assert host.status == 404


@pytest.mark.real
def test_a_hub_that_stops_in_order_hands_its_sessions_over(fleet):
    fleet.until_they_know_each_other()
    host = Session(fleet, "a")
    fleet.stop("a")
    host.goes_on("b")


@pytest.mark.real
@pytest.mark.covers("SEC-87")
def test_the_sealing_key_is_replaced_hub_by_hub(fleet):
    """Hubs find each other and sessions go on, whichever of them is a step further."""
    old, new = fleet.keys.read_text(), secrets.token_hex(32)
    fleet.until_they_know_each_other()
    host = Session(fleet, "a")
    for keys in (f"{old} {new}", f"{new} {old}", new):
        fleet.keys.write_text(keys)
        for name, other in zip(NAMES, reversed(NAMES), strict=True):
            fleet.stop(name)
            host.goes_on(other, "while it is away")
            fleet.start(name)
            fleet.until_they_know_each_other()
            host.goes_on(name, "at the wrong hub")
            assert fleet.status(name)["hosts"] == [], (keys, name)
        host = Session(fleet, "a")


@pytest.mark.real
def test_when_the_store_is_gone_and_comes_back(fleet):
    fleet.until_they_know_each_other()
    host = Session(fleet, "a")
    fleet.store.stop()
    assert "here" in json.dumps(host.call("a", "here")["result"])
    assert "there" in json.dumps(host.call("b", "there")["result"]), "where it was a moment ago"
    fleet.kill("a")
    host.call("b")
    assert (host.status, host.retry_after) == (503, "1")
    fleet.store.start()
    host.goes_on("b")
