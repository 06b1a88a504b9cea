"""A configuration that changes all the time while hosts work: no call of an upstream that stays fails.

    HUBD_LOAD=full    200 changes in place of 20

Three hosts of three kinds make up to 300 calls a second in all; meanwhile upstreams are added, removed and replaced,
files are broken and repaired, or written again as they were. Measurements are printed.
"""

import contextlib
import http.client
import itertools
import json
import os
import threading
from time import perf_counter

import pytest

from hub.control.client import ControlClient
from hub.control.methods import RELOAD, STATUS
from hub.wire.mcp import CLIENT_CAPABILITIES_KEY, MODERN, VERSION_KEY
from tests.support.attached import INITIALIZE, Host, upstream
from tests.support.processes import running_hub

pytestmark = pytest.mark.everything

FULL = os.environ.get("HUBD_LOAD") == "full"
CHANGES = 200 if FULL else 20
INTERVAL_S = 0.3
CALLS_PER_S = 100
"""Of each host."""
STAYING = ["one", "two", "three"]


class Caller:
    """A host that calls one tool after the other, at its pace. Subclasses carry the calls."""

    def __init__(self, hub):
        self.hub = hub
        self.stop = threading.Event()
        self.took = []
        self.failed = []
        self.thread = threading.Thread(target=self.run, daemon=True)

    def call(self, name):
        """The result of a tool call; it raises if there is none."""
        raise NotImplementedError

    def run(self):
        try:
            names = itertools.cycle([f"{name}__echo" for name in STAYING])
            due = perf_counter()
            while not self.stop.wait(max(0.0, due - perf_counter())):
                began = perf_counter()
                result = self.call(next(names))
                self.took.append(perf_counter() - began)
                if result.get("isError") or "content" not in result:
                    self.failed.append(result)
                due = max(due + 1 / CALLS_PER_S, perf_counter() - 0.1)
        except Exception as error:  # noqa: BLE001 - it is counted
            self.failed.append(repr(error))


class LineCaller(Caller):
    """On the unix socket, as by the shim."""

    def __init__(self, hub):
        super().__init__(hub)
        self.ids = itertools.count(1)
        self.host = Host(hub)
        self.heard = 0
        self.ask("initialize", INITIALIZE)
        self.host.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        self.ask("tools/list", {})

    def ask(self, method, params):
        id = next(self.ids)
        self.host.ask(id, method, params)
        while True:
            message = self.host.receive()
            if "method" in message:
                self.heard += 1
            elif message["id"] == id:
                return message["result"]

    def call(self, name):
        return self.ask("tools/call", {"name": name, "arguments": {}})


class HttpCaller(Caller):
    """Over HTTP, on one connection."""

    def __init__(self, hub):
        super().__init__(hub)
        self.ids = itertools.count(1)
        self.connection = http.client.HTTPConnection(hub.url.split("/")[2], timeout=60)
        self.session = None

    def post(self, message, headers):
        always = {
            "Authorization": f"Bearer {self.hub.token}",
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
        }
        self.connection.request("POST", "/mcp", json.dumps({"jsonrpc": "2.0", **message}), {**always, **headers})
        response = self.connection.getresponse()
        text = response.read().decode()
        assert response.status in (200, 202), (response.status, text)
        self.session = response.headers.get("Mcp-Session-Id", self.session)
        events = [line for line in text.splitlines() if line.startswith("data:")]
        if response.status == 202:
            return None
        return json.loads(events[-1].removeprefix("data:") if events else text)["result"]


class ModernCaller(HttpCaller):
    def call(self, name):
        params = {"name": name, "arguments": {}, "_meta": {VERSION_KEY: MODERN, CLIENT_CAPABILITIES_KEY: {}}}
        headers = {"MCP-Protocol-Version": MODERN, "Mcp-Method": "tools/call", "Mcp-Name": name}
        return self.post({"id": next(self.ids), "method": "tools/call", "params": params}, headers)


class LegacyCaller(HttpCaller):
    def __init__(self, hub):
        super().__init__(hub)
        self.post({"id": 0, "method": "initialize", "params": INITIALIZE}, {})
        self.headers = {"Mcp-Session-Id": self.session, "MCP-Protocol-Version": "2025-11-25"}
        self.post({"method": "notifications/initialized"}, self.headers)

    def call(self, name):
        params = {"name": name, "arguments": {}}
        return self.post({"id": next(self.ids), "method": "tools/call", "params": params}, self.headers)


def spread(seconds):
    """For people to read: nothing is asserted about it."""
    took = sorted(seconds)
    p50, p99 = (1000 * took[int(len(took) * part)] for part in (0.5, 0.99))
    return f"p50 {p50:.1f} ms, p99 {p99:.1f} ms, longest {1000 * took[-1]:.1f} ms"


def variants():
    """Configurations, each with what should come of it: a change, nothing, or a complaint."""
    staying = "".join(upstream(name, {"tools": ["echo"]}) for name in STAYING)
    for number in itertools.count():
        other = upstream("other", {"tools": ["echo", f"tool{number}"]})
        yield staying + other, "changed"  # added
        yield f"# written again\n{staying}{other}", "same"
        yield staying + upstream("other", {"tools": ["echo", f"more{number}"]}), "changed"  # replaced
        yield staying + "[upstreams.broken\n", "wrong"
        yield staying, "changed"  # removed


@pytest.mark.covers("F-C-02", "F-C-05", "F-C-07", "I-3", "I-7")
def test_no_call_fails_while_the_configuration_changes(tmp_path):
    changes = variants()
    with running_hub(tmp_path, next(text for text, what in variants() if what == "changed")) as hub:
        hub.config.write_text("".join(upstream(name, {"tools": ["echo"]}) for name in STAYING))
        with ControlClient(tmp_path / "run" / "hubd" / "control.sock") as control:
            control.request_both(RELOAD)
            hosts = [LineCaller(hub), ModernCaller(hub), LegacyCaller(hub)]
            before = {each["name"]: each["pid"] for each in control.request_both(STATUS)[0]["upstreams"]}
            for host in hosts:
                host.thread.start()
            began, applied = perf_counter(), []
            pause = threading.Event()
            for number, (text, what) in enumerate(itertools.islice(changes, CHANGES), 1):
                written = perf_counter()
                draft = hub.config.with_name("draft")
                draft.write_text(text)
                draft.rename(hub.config)
                outcome = control.request_both(RELOAD)[0]
                applied.append(perf_counter() - written)
                assert (outcome["problem"] is not None) == (what == "wrong"), outcome
                pause.wait(max(0.0, began + number * INTERVAL_S - perf_counter()))
            lasted = perf_counter() - began
            for host in hosts:
                host.stop.set()
            for host in hosts:
                host.thread.join(60)
            status = control.request_both(STATUS)[0]
        took = sorted(itertools.chain.from_iterable(host.took for host in hosts))
        assert [host.failed for host in hosts] == [[], [], []]
        after = {each["name"]: each["pid"] for each in status["upstreams"] if each["name"] in STAYING}
        assert after == {name: before[name] for name in STAYING}
        assert all(each["restarts"] == 0 for each in status["upstreams"])
        assert len(took) > CHANGES
        assert hosts[0].heard > CHANGES / 5
        print(f"\n{CHANGES} changes in {lasted:.0f} s, {len(took) / lasted:.0f} calls/s: {spread(took)}")  # noqa: T201
        print(f"applied, since the file was written: {spread(applied)}")  # noqa: T201
        for host in hosts:
            with contextlib.suppress(AttributeError):
                host.connection.close()
            with contextlib.suppress(AttributeError):
                host.host.__exit__()
