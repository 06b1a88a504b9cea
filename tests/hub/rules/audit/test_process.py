"""The audit log of a hub that is a process, and `hubd audit`: stops, kills, hubs on stdio, what people see."""

import json
import os
import re
import signal
from contextlib import contextmanager
from pathlib import Path

import pytest

from hub.rules.audit.files import logs_in
from hub.rules.audit.reading import verify
from tests.support.attached import DEMO, INITIALIZE, Post, hubd, ready, upstream
from tests.support.audit_log import all_lines, read_files
from tests.support.commands import run_hubd
from tests.support.processes import HUBD, own_directories, running, running_hub


def directory(env):
    return Path(env["XDG_STATE_HOME"], "hubd", "audit")


def records(env, name="audit.jsonl"):
    return [json.loads(line) for line in all_lines(logs_in(directory(env)).get(name, []))]


def outs(env, name="audit.jsonl"):
    """What became of calls and of the log, beside what pins notice of new servers."""
    return [record.get("out", record["k"]) for record in records(env, name) if record["k"] != "pin"]


def is_whole(env):
    return all(verify(read_files(paths)).flaw is None for paths in logs_in(directory(env)).values())


@pytest.mark.covers("AUD-03", "F-D-01")
def test_nothing_is_lost_at_a_stop(tmp_path):
    """Records of the last moment, and of calls that end while the hub drains."""
    (held := tmp_path / "held").touch()
    script = {"on": {"tools/call:slow": [["await_gone", str(held)], ["serve"]]}}
    with running_hub(tmp_path, upstream("scripted", script)) as hub, ready(hub) as host:
        for id in range(10, 60):
            host.ask(id, "tools/call", {"name": "scripted__echo", "arguments": {"id": id}})
        for _ in range(50):
            host.receive()
        host.ask(2, "tools/call", {"name": "scripted__slow"})
        host.ask(3, "ping", {})
        assert host.receive()["id"] == 3, "the call was sent before"
        os.kill(hub.process.pid, signal.SIGTERM)
        held.unlink()
        assert host.receive()["id"] == 2
        assert hub.process.stop() == 0
        found = outs(hub.env)
        assert (found[0], found[-1]) == ("open", "close")
        assert (found.count("begin"), found.count("ok")) == (51, 51)
        assert is_whole(hub.env)
        head = records(hub.env)[-1]["h"]
        assert f"and has the hash {head}" in hub.process.tail() or f"with the hash {head}" in hub.process.tail()


@pytest.mark.covers("AUD-01", "F-D-02")
def test_calls_that_are_cut_off_are_interrupted(tmp_path):
    script = {"on": {"tools/call:stuck": [["hang"]]}}
    with running_hub(tmp_path, f"drain_s = 0.2\n{upstream('scripted', script)}") as hub, ready(hub) as host:
        host.ask(2, "tools/call", {"name": "scripted__stuck"})
        host.ask(3, "ping", {})
        assert host.receive()["id"] == 3
        os.kill(hub.process.pid, signal.SIGTERM)
        assert host.receive()["id"] == 2
        assert hub.process.exit_code() == 0
        assert outs(hub.env) == ["open", "begin", "interrupted", "close"]


@pytest.mark.covers("AUD-02", "F-D-03")
def test_calls_of_a_killed_hub_are_interrupted(tmp_path):
    config = upstream("scripted", {"on": {"tools/call:stuck": [["hang"]]}})
    config += "[audit]\nrequired = true\n"
    with running_hub(tmp_path, config) as hub, ready(hub) as host:
        host.ask(2, "tools/call", {"name": "scripted__echo"})
        assert host.receive()["id"] == 2
        host.ask(3, "tools/call", {"name": "scripted__stuck"})
        while "begin" not in outs(hub.env)[2:]:
            host.ask(4, "ping", {})
            assert host.receive()["id"] == 4
        os.kill(hub.process.pid, signal.SIGKILL)
        assert host.receive() is None
        with (directory(hub.env) / "audit.jsonl").open("ab") as file:
            file.write(b'{"t":"2026-')
        with running_hub(tmp_path, config) as next_hub, ready(next_hub) as host:
            host.ask(2, "tools/call", {"name": "scripted__echo"})
            assert host.receive()["id"] == 2
            assert next_hub.process.stop() == 0
        found = records(hub.env)
        ends = {record["ref"]: record["out"] for record in found if record["k"] == "end"}
        begins = [record["ref"] for record in found if record["k"] == "begin"]
        assert [ends[ref] for ref in begins] == ["ok", "interrupted", "ok"]
        assert next(record["torn"] for record in found if "torn" in record) == 11
        assert is_whole(hub.env)


@contextmanager
def on_stdio(config, env, log):
    with running([HUBD, "serve", "--stdio", "--config", config], log, env=env, forked=True) as process:

        def ask(id, method, params):
            message = {"jsonrpc": "2.0", "id": id, "method": method, "params": params}
            process.write(json.dumps(message).encode() + b"\n")
            return json.loads(process.wait_for(rf'.*"id":{id}\b.*')[0])

        ask(0, "initialize", INITIALIZE)
        ask(1, "tools/list", {})
        yield ask
        process.end_input()
        assert process.exit_code() == 0


@pytest.mark.covers("AUD-02")
def test_hubs_with_one_state_directory_have_a_log_each(tmp_path):
    with running_hub(tmp_path, DEMO) as hub, ready(hub) as host:
        host.ask(2, "tools/call", {"name": "demo__add", "arguments": {"a": 1, "b": 2}})
        assert host.receive()["id"] == 2
        with on_stdio(hub.config, hub.env, tmp_path / "stdio.log") as ask:
            assert ask(2, "tools/call", {"name": "demo__add", "arguments": {"a": 1, "b": 2}})["result"]["content"]
        assert outs(hub.env, "audit-2.jsonl") == ["open", "begin", "ok", "close"]
        assert hub.process.stop() == 0
        assert outs(hub.env) == ["open", "begin", "ok", "close"]
        assert is_whole(hub.env)
        one, two = (
            next(r for r in records(hub.env, name) if r["k"] == "begin") for name in logs_in(directory(hub.env))
        )
        assert one["args"] == two["args"], "digests have one key"


@pytest.mark.covers("AUD-01", "SEC-91")
def test_who_is_not_let_in_is_written_down_and_fills_nothing(tmp_path):
    with running_hub(tmp_path, DEMO) as hub:
        for _ in range(30):
            assert Post(hub, "demo__add", {"a": 2, "b": 40}, token="wrong-token-wrong-token").answer()[0] == 401
        assert Post(hub, "demo__add", {"a": 2, "b": 40}, token=hub.token).answer()[0] == 200
        assert hub.process.stop() == 0
        found = [record for record in records(hub.env) if record["k"] == "access"]
        assert 10 <= len(found) <= 12
        assert (found[0]["what"], found[0]["status"], found[0]["peer"]) == ("refused", 401, "127.0.0.1")
        assert "wrong-token" not in (directory(hub.env) / "audit.jsonl").read_text()


@pytest.mark.covers("AUD-01")
def test_a_reload_is_written_down(tmp_path):
    with running_hub(tmp_path, DEMO) as hub:
        hub.config.write_text(f"{DEMO}[upstreams.demo.timeouts]\ncall = 7\n[audit]\nreads = true\n")
        assert hubd(hub, "reload").returncode == 0
        assert hub.process.stop() == 0
        [found] = [record for record in records(hub.env) if record["k"] == "config"]
        assert (found["gen"], found["changed"]) == (2, "changed demo (timeouts); settings audit.reads")


@pytest.mark.covers("AUD-06", "AUD-07")
def test_what_people_see(tmp_path):
    with running_hub(tmp_path, DEMO) as hub, ready(hub) as host:
        host.ask(2, "tools/call", {"name": "demo__add", "arguments": {"a": 1, "b": 2}})
        assert host.receive()["id"] == 2
        assert hubd(hub, "call", "demo__add", "a=2", "b=40").returncode == 0
        with running([HUBD, "audit", "tail", "-f", "-n", "1"], tmp_path / "tail.log", env=hub.env, forked=True) as tail:
            tail.wait_for("demo__add")
            assert hubd(hub, "call", "demo__add", "a=2", "b=41").returncode == 0
            tail.wait_for(r"begin +[0-9a-f]{8}  hubd  demo__add  allow \(default\)")
            tail.wait_for(r"end +[0-9a-f]{8}  hubd  demo__add  ok, [0-9]+ ms, [0-9]+ B")
        found = []
        while len(found) < 4:  # the last are written a moment later
            done = hubd(hub, "audit", "query", "--tool", "demo__*", "--host", "hubd", "--since", "1h", "--json")
            found = [json.loads(line) for line in done.stdout.splitlines()]
        assert [record["k"] for record in found] == ["begin", "end"] * 2
        status = json.loads(hubd(hub, "status", "--json").stdout)["audit"]
        assert re.search(rf"(?m)^audit log: [0-9]+ records, head {status['head']}$", hubd(hub, "status").stdout)
        by_ref = hubd(hub, "audit", "query", "--ref", found[0]["ref"])
        assert [line.split()[2] for line in by_ref.stdout.splitlines()] == ["begin", "end"]
        assert hubd(hub, "audit", "query", "--upstream", "nothing").stdout == ""
        assert hubd(hub, "audit", "query", "--refused").stdout == ""
        assert hub.process.stop() == 0

        env = hub.env
        total = len(records(env))
        done = run_hubd(["audit", "verify", "--head", status["head"]], env)
        head = records(env)[-1]["h"]
        text = f"audit.jsonl: {total} records in 1 file are as they were written; the last hash is {head}\n"
        assert (done.returncode, done.stdout) == (0, text)
        assert [line.split()[2] for line in run_hubd(["audit"], env).stdout.splitlines()][-1] == "close"

        path = directory(env) / "audit.jsonl"
        whole = path.read_bytes()
        path.write_bytes(whole.replace(b'"name":"demo__add"', b'"name":"demo__sub"', 1))
        done = run_hubd(["audit", "verify", "--json"], env)
        assert done.returncode == 1
        answer = json.loads(done.stdout)
        assert answer["logs"][0]["flaw"]["file"] == "audit.jsonl"
        assert answer["logs"][0]["flaw"]["line"] == 3, "behind those of the opening and of a server that is new"
        assert answer["error"]["code"] == 1

        lines = whole.splitlines(keepends=True)
        path.write_bytes(b"".join(lines[:-3]))
        done = run_hubd(["audit", "verify"], env)
        text = f"hubd: audit.jsonl ends with record {total - 3}, and {total} were written: the rest was removed\n"
        assert (done.returncode, done.stderr) == (1, text)
        directory(env).with_name("audit.head").unlink()
        assert run_hubd(["audit", "verify"], env).returncode == 0
        done = run_hubd(["audit", "verify", "--head", head], env)
        assert (done.returncode, done.stderr.startswith(f"hubd: no record has the hash {head}")) == (1, True)
        for wrong in (["verify", "--head", "xyz"], ["query", "--since", "yesterday"], ["tail", "-n", "x"]):
            assert run_hubd(["audit", *wrong], env).returncode in (1, 2)


@pytest.mark.covers("AUD-07")
def test_a_log_that_is_removed_is_missed(tmp_path):
    with running_hub(tmp_path, DEMO) as hub:
        assert hubd(hub, "call", "demo__add", "a=2", "b=40").returncode == 0
        while "ok" not in outs(hub.env):
            pass
        (directory(hub.env) / "audit.jsonl").unlink()
        assert hubd(hub, "call", "demo__add", "a=2", "b=41").returncode == 0
        while "somebody has removed the audit log, or cut it" not in hubd(hub, "status").stdout:
            pass
        assert re.search("records of the audit log up to number [0-9]+ are missing", hub.process.tail())
        assert hub.process.stop() == 0
        done = run_hubd(["audit", "verify"], hub.env)
        assert done.returncode == 1
        assert "line 2 of audit.jsonl says that records before it are missing" in done.stderr.replace("\n", " ")


@pytest.mark.covers("AUD-07")
def test_the_hub_that_runs_is_asked_for_what_it_has_written(tmp_path):
    with running_hub(tmp_path, DEMO) as hub:
        for number in range(5):
            assert hubd(hub, "call", "demo__add", "a=2", f"b={number}").returncode == 0
        while outs(hub.env).count("ok") < 5:
            pass
        path, head = directory(hub.env) / "audit.jsonl", directory(hub.env).with_name("audit.head")
        while json.loads(head.read_text())["n"] != len(records(hub.env)):  # after a second of silence
            pass
        assert hubd(hub, "audit", "verify").returncode == 0
        total, lines, kept = len(records(hub.env)), path.read_bytes().splitlines(keepends=True), head.read_bytes()
        path.write_bytes(b"".join(lines[:3]))
        head.unlink()
        done = hubd(hub, "audit", "verify")
        text = f"hubd: audit.jsonl ends with record 3, and {total} were written: the rest was removed\n"
        assert (done.returncode, done.stderr) == (1, text)
        elsewhere = {**hub.env, "XDG_STATE_HOME": str(tmp_path / "elsewhere")}
        copy = directory(elsewhere)
        copy.mkdir(parents=True)
        (copy / "audit.jsonl").write_bytes(b"".join(lines[:3]))
        assert run_hubd(["audit", "verify"], elsewhere).returncode == 0, "it writes no log there"
        os.kill(hub.process.pid, signal.SIGKILL)
        assert hub.process.exit_code() != 0
        assert run_hubd(["audit", "verify"], hub.env).returncode == 0, "nobody knows"
        head.write_bytes(kept)
        assert run_hubd(["audit", "verify"], hub.env).stderr == text


@pytest.mark.covers("AUD-07")
def test_a_log_of_a_second_hub_that_is_removed_is_missed(tmp_path):
    with running_hub(tmp_path, DEMO) as hub:
        with on_stdio(hub.config, hub.env, tmp_path / "stdio.log"):
            pass
        assert hub.process.stop() == 0
        env, total = hub.env, len(records(hub.env, "audit-2.jsonl"))
        assert run_hubd(["audit", "verify"], env).returncode == 0
        for path in directory(env).glob("audit-2*"):
            path.unlink()
        done = run_hubd(["audit", "verify", "--json"], env)
        assert done.returncode == 1
        assert {"name": "audit-2.jsonl", "records": 0, "head": "", "missing": total} in json.loads(done.stdout)["logs"]
        head = records(env)[-1]["h"]
        assert "no record has" not in run_hubd(["audit", "verify", "--head", head], env).stderr
        assert "no record has" in run_hubd(["audit", "verify", "--head", "0" * 64], env).stderr


def test_without_a_log_it_is_said_where_it_would_be(tmp_path):
    env = own_directories(tmp_path)
    for command in ([], ["tail"], ["query"], ["verify"]):
        done = run_hubd(["audit", *command], env)
        assert done.returncode == 1
        assert done.stderr.replace("\n", " ").startswith("hubd: there is no audit log in ")


def test_an_audit_log_that_is_switched_off_leaves_nothing(tmp_path):
    with running_hub(tmp_path, f"{DEMO}[audit]\nenabled = false\n") as hub:
        assert hubd(hub, "call", "demo__add", "a=2", "b=40").returncode == 0
        assert json.loads(hubd(hub, "status", "--json").stdout).get("audit") is None
        assert hub.process.stop() == 0
        assert not directory(hub.env).exists()


@pytest.mark.covers("AUD-03", "F-D-06")
def test_a_state_directory_that_cannot_be_written_stops_nothing(tmp_path):
    with running_hub(tmp_path, DEMO) as hub:
        assert hub.process.stop() == 0
        place = directory(hub.env)
    for path in place.iterdir():
        path.unlink()
    place.rmdir()
    place.write_text("in the way")
    with running_hub(tmp_path, DEMO) as hub:
        assert hubd(hub, "call", "demo__add", "a=2", "b=40").returncode == 0
        warnings = json.loads(hubd(hub, "status", "--json").stdout)["audit"]
        assert "cannot be written" in warnings["problem"]
        shown = hubd(hub, "status").stdout.replace("\n", " ")
        assert "calls go on" in shown
        assert hub.process.stop() == 0
