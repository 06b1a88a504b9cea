"""A daemon that is a real process, and files that change beneath it: what it does, and what it leaves alone."""

import contextlib
import json

import psutil
import pytest
from attached import INITIALIZE, Host, hubd, upstream
from processes import running_hub

ECHO = {"tools": ["echo"]}
SLOW = {"tools": ["echo", "slow"], "on": {"tools/call:slow": [["await_gone", "$file"], ["serve"]]}}


def slow(file):
    """A server whose tool `slow` answers when `file` is gone."""
    return json.loads(json.dumps(SLOW).replace("$file", str(file)))


def status(hub):
    done = hubd(hub, "status", "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def pids(hub):
    return {each["name"]: each["pid"] for each in status(hub)["upstreams"]}


def tools(hub):
    return sorted(tool["name"] for tool in json.loads(hubd(hub, "tools", "--json").stdout))


def reload(hub):
    done = hubd(hub, "reload", "--json")
    return done.returncode, json.loads(done.stdout)


class Attached(Host):
    """A host that has shaken hands, and keeps what it was told meanwhile."""

    def __init__(self, hub, **preamble):
        super().__init__(hub, **preamble)
        self.heard = []
        self._last = 0
        self.request("initialize", INITIALIZE)
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        self.request("tools/list", {})

    def begin(self, method, params):
        self._last += 1
        self.ask(self._last, method, params)
        return self._last

    def end(self, id):
        while True:
            message = self.receive()
            assert message is not None, "the hub hung up"
            if "method" in message:
                self.heard.append(message["method"])
            elif message["id"] == id:
                return message

    def request(self, method, params):
        return self.end(self.begin(method, params))

    def call(self, name, arguments=None):
        return self.request("tools/call", {"name": name, "arguments": arguments or {}})

    def names(self):
        return sorted(tool["name"] for tool in self.request("tools/list", {})["result"]["tools"])

    def wait_to_hear(self, method):
        while method not in self.heard:
            message = self.receive()
            assert message is not None, "the hub hung up"
            if "method" in message:
                self.heard.append(message["method"])


def is_gone(pid):
    """Whether the process ends soon, or has."""
    with contextlib.suppress(psutil.NoSuchProcess):
        psutil.Process(pid).wait(20)
    return not psutil.pid_exists(pid)


def is_fine(answer):
    return "result" in answer and not answer["result"].get("isError")


@pytest.mark.covers("F-C-07", "F-C-05", "F-C-02", "I-7")
def test_what_is_added_comes_and_what_is_removed_goes(tmp_path):
    with running_hub(tmp_path, upstream("a", ECHO) + upstream("b", ECHO)) as hub, Attached(hub) as host:
        before = pids(hub)
        hub.config.write_text(upstream("a", ECHO) + upstream("c", ECHO))
        code, outcome = reload(hub)
        assert code == 0
        assert "added c; removed b" in outcome["summary"]
        host.wait_to_hear("notifications/tools/list_changed")
        assert host.call("a__echo")["result"]
        assert "removed" in json.dumps(host.call("b__echo")) or "any more" in json.dumps(host.call("b__echo"))
        assert is_fine(host.call("c__echo"))
        assert pids(hub)["a"] == before["a"]
        assert (
            psutil.wait_procs([psutil.Process(before["b"])] if psutil.pid_exists(before["b"]) else [], timeout=20)[1]
            == []
        )

        assert reload(hub)[1]["changed"] is False
        hub.config.write_text(upstream("a", ECHO) + "[upstreams.c\n")
        code, outcome = reload(hub)
        assert code == 78
        assert "line" in outcome["problem"]
        assert status(hub)["config"]["problem"] == outcome["problem"]
        assert is_fine(host.call("c__echo"))
