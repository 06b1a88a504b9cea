"""The daemon as a process: who gets in, how it stops, what it leaves behind (nothing)."""

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from config.diagnostics import ConfigError
from config.loading.assemble import load_all
from config.settings import DEFAULT_LISTEN
from hub.daemon.make_keys_store_sessions_audit import store_for
from hub.link.sealing import load_keys
from hub.wire.mcp import HUB_FAILURE
from tests.support.attached import (
    ASK,
    DEMO,
    INITIALIZE,
    Host,
    Post,
    children,
    ended,
    hubd,
    ready,
    upstream,
    wait_until_it_stops_accepting,
)
from tests.support.commands import run_hubd
from tests.support.failure_facts import but_ref
from tests.support.processes import HUBD, Hub, Process, own_directories, running, running_hub
from tests.support.restarts import TICK


@pytest.mark.covers("SEC-02", "F-D-01")
def test_the_demo_from_start_to_stop(tmp_path):
    with running_hub(tmp_path, DEMO) as hub:
        assert "demo__add" in {tool["name"] for tool in json.loads(hubd(hub, "tools", "--json").stdout)}
        status = json.loads(hubd(hub, "status", "--json").stdout)
        assert [(upstream["name"], upstream["state"]) for upstream in status["upstreams"]] == [("demo", "connected")]
        assert not status["warnings"]
        done = hubd(hub, "call", "demo__add", "a=2", "b=40")
        assert (done.returncode, done.stdout.strip()) == (0, "2 + 40 = 42")
        done = hubd(hub, "call", "demo__add", "--json", "-", "--raw", stdin='{"a": 2, "b": 40}')
        assert "42" in json.loads(done.stdout)["content"][0]["text"]
        done = hubd(hub, "call", "demo__unheard-of")
        assert done.returncode == 1
        assert done.stderr == "hubd: there is no tool demo__unheard-of; `hubd tools` lists all\n"
        done = hubd(hub, "call", "demo__ad", "--raw")
        meant = 'there is no tool demo__ad; did you mean "demo__add"?'
        assert json.loads(done.stdout)["error"]["message"] == meant

        for wrong in ({}, {"token": "x"}, {"token": ""}, {"token": hub.token + "x"}, {"query": f"?token={hub.token}"}):
            assert Post(hub, "demo__add", {"a": 2, "b": 40}, **wrong).answer()[0] == 401
        code, message = Post(hub, "demo__add", {"a": 2, "b": 40}, token=hub.token).answer()
        assert code == 200
        assert message["result"]["content"][0]["text"] == "2 + 40 = 42"

        left = children(hub)
        assert left
        assert hubd(hub, "stop").returncode == 0
        assert hub.process.stop() == 0
        assert ended(left)
        assert not list(Path(hub.env["XDG_RUNTIME_DIR"]).rglob("*.sock"))
        for command in (["status"], ["logs", "demo"]):
            done = hubd(hub, *command)
            assert done.returncode == 69
            assert done.stderr.startswith("hubd: no hub is running")
        done = hubd(hub, "stop")
        assert (done.returncode, done.stdout) == (0, "no hub is running\n")


@pytest.mark.covers("SEC-02")
def test_a_hub_without_a_token_says_so_until_it_ends(tmp_path):
    with running_hub(tmp_path, DEMO, auth="none") as hub:
        code, message = Post(hub, "demo__add", {"a": 1, "b": 2}).answer()
        assert (code, message["result"]["content"][0]["text"]) == (200, "1 + 2 = 3")
        assert "warning: HTTP needs no token" in hubd(hub, "status").stdout
        assert "HTTP needs no token" in hub.process.tail()


@pytest.mark.covers("SEC-01")
@pytest.mark.parametrize(
    ("listen", "auth", "proxy", "complaint"),
    [
        ("0.0.0.0:0", "token", False, "behind_tls_proxy = true"),
        ("[::]:0", "token", False, "behind_tls_proxy = true"),
        ("0.0.0.0:0", "none", False, "loopback only"),
        ("0.0.0.0:0", "none", True, "loopback only"),
        ("0.0.0.0:0", "token", True, None),
        ("localhost:0", "none", False, None),
    ],
)
def test_who_may_reach_the_hub_is_no_accident(tmp_path, listen, auth, proxy, complaint):
    env = own_directories(tmp_path)
    (config := tmp_path / "hubd.toml").write_text(f"behind_tls_proxy = {str(proxy).lower()}\n")
    with running(
        [HUBD, "serve", "--config", config, "--listen", listen, "--auth", auth], tmp_path / "log", env=env, forked=True
    ) as it:
        if complaint is None:
            assert it.wait_for(r"hubd listens on http://(0\.0\.0\.0|127\.0\.0\.1):\d+/mcp")
            assert it.stop() == 0
        else:
            assert it.exit_code() == 78
            assert complaint in it.tail()
            assert not it.said


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ('listen = "127.0.0.1:0"\n', ["A host that opens URLs (TOKEN", "http://127.0.0.1:PORT/mcp"]),
        (
            'listen = "0.0.0.0:0"\nbehind_tls_proxy = true\nallowed_hosts = ["hub.example.com:443", "two:8443"]\n',
            [
                "A host beyond the proxy that opens URLs (TOKEN stands for what `hubd token` prints; "
                "https://two:8443/mcp leads here, too):",
                '"url": "https://hub.example.com/mcp"',
                "A host of this machine that opens URLs",
                '"url": "http://127.0.0.1:PORT/mcp"',
            ],
        ),
        (
            'listen = "127.0.0.1:0"\nbehind_tls_proxy = true\nauth = "none"\n',
            [
                "A host beyond the proxy that opens URLs:",
                '"url": "https://NAME/mcp"',
                "NAME is what hosts call the proxy",
            ],
        ),
    ],
)
def test_a_host_is_told_the_url_that_it_can_use(tmp_path, settings, said):
    (config := tmp_path / "hubd.toml").write_text(settings)
    env = own_directories(tmp_path)
    with running([HUBD, "serve", "--config", config], tmp_path / "log", env=env, forked=True) as process:
        port = process.wait_for(r"hubd listens on http://[^:]+:(\d+)/mcp")[1]
        for text in said:
            process.wait_for(re.escape(text.replace("PORT", port)))
        assert process.stop() == 0


def test_the_shim_passes_on_why_it_is_refused(tmp_path):
    with running_hub(tmp_path, DEMO) as hub:
        done = hubd(hub, "connect", "--profile", "work")
        assert "There is no profile 'work' in this hub" in json.loads(done.stdout)["error"]["message"]
        argv, pipe = [HUBD, "connect", "--profile", "work"], subprocess.PIPE
        with subprocess.Popen(argv, env=hub.env, stdin=pipe, stdout=pipe, stderr=pipe) as host:
            host.stdin.write(f"{json.dumps(ASK)}\n".encode())
            host.stdin.flush()
            answer = json.loads(host.stdout.readline())
            assert (answer["id"], "there are: none" in answer["error"]["message"]) == (ASK["id"], True)
        done = hubd(hub, "connect", "--profile", "default", "--host", "x", stdin=f"{json.dumps(ASK)}\n")
        assert json.loads(done.stdout)["result"]["protocolVersion"] == "2025-11-25"
        assert done.returncode == 0


@pytest.mark.covers("F-D-07", "M-07")
def test_a_crowd_of_hosts_leaves_descriptors_for_the_rest(tmp_path):
    env = own_directories(tmp_path)
    argv = ["sh", "-c", f"ulimit -n 80; exec {HUBD} serve --listen 127.0.0.1:0"]
    with running(argv, tmp_path / "log", env=env) as process, contextlib.ExitStack() as stack:
        url = process.wait_for(r"hubd listens on (\S+)")[1]
        hub = Hub(url, None, env, tmp_path, process)
        assert hubd(hub, "tools").returncode == 0
        answers = [_attach(stack, hub) for _ in range(100)]
        assert sum("result" in answer for answer in answers) == 20
        assert "at most 20 hosts" in answers[-1]["error"]["message"]
        assert hubd(hub, "status").returncode == 0
        assert "at most 20 hosts" in hubd(hub, "call", "demo__add", "a=2", "b=40").stderr, "a command is a host, too"
        stack.close()
        while "result" not in _attach(stack, hub):
            pass  # those that have left make room
        log = process.tail()
        assert "Traceback" not in log
        assert log.count("at most 20 hosts") == 1


def _attach(stack, hub):
    """What one more host is told."""
    host = stack.enter_context(Host(hub))
    with contextlib.suppress(BrokenPipeError):
        host.send(ASK)
    return host.receive()


@pytest.mark.covers("SEC-16", "I-3")
def test_a_host_that_asks_for_what_is_not_there_is_told_and_hurts_nobody(tmp_path):
    with running_hub(tmp_path, upstream("scripted", {})) as hub:
        for preamble, word in (({"upstream": "nope"}, "nope"), ({"profile": "work"}, "work")):
            for _ in range(20):
                with Host(hub, **preamble):
                    pass  # gone before it can be told
            with Host(hub, **preamble) as stranger:
                if "profile" in preamble:  # the other one is told though it stays silent
                    stranger.ask(1, "initialize", INITIALIZE)
                assert word in stranger.receive()["error"]["message"]
                assert stranger.receive() is None
        assert "did not say who it is" not in hub.process.tail()
        with Host(hub, profile="default") as polite:
            polite.ask(1, "initialize", INITIALIZE)
            assert polite.receive()["result"]["protocolVersion"] == "2025-11-25"


@pytest.mark.covers("F-H-04")
def test_a_host_that_reads_late_gets_all_its_large_answers(tmp_path):
    script = {"on": {"tools/call:big": [["big", 4_000_000]]}}
    with running_hub(tmp_path, upstream("scripted", script)) as hub, ready(hub) as host:
        for id in range(2, 12):
            host.ask(id, "tools/call", {"name": "scripted__big"})
        assert sorted(host.receive()["id"] for _ in range(10)) == list(range(2, 12))


@pytest.mark.covers("F-D-01")
def test_a_stop_waits_for_calls_of_hosts_on_the_socket(tmp_path):
    (held := tmp_path / "held").touch()
    script = {"on": {"tools/call:slow": [["await_gone", str(held)], ["serve"]]}}
    with running_hub(tmp_path, upstream("scripted", script)) as hub, ready(hub) as host:
        host.ask(2, "tools/call", {"name": "scripted__slow"})
        host.ask(3, "ping", {})
        assert host.receive()["id"] == 3, "the call was sent before"
        os.kill(hub.process.pid, signal.SIGTERM)
        held.unlink()
        assert host.receive()["id"] == 2
        assert host.receive() is None
        assert hub.process.stop() == 0


@pytest.mark.covers("F-D-01")
def test_a_stop_waits_for_calls_over_http_and_from_the_command_line(tmp_path):
    (held := tmp_path / "held").touch()
    config, begun = "", []
    for name in ("a", "b"):
        os.mkfifo(fifo := tmp_path / name)
        begun.append(fifo)
        steps = [["mark", str(fifo)], ["await_gone", str(held)], ["serve"]]
        config += upstream(name, {"on": {"tools/call:slow": steps}})
    with running_hub(tmp_path, config) as hub, ready(hub):
        post = Post(hub, "a__slow", {}, token=hub.token)
        with running([HUBD, "call", "b__slow"], tmp_path / "call.log", env=hub.env, forked=True) as call:
            for fifo in begun:
                fifo.read_text()  # once the upstream has the call
            os.kill(hub.process.pid, signal.SIGTERM)
            wait_until_it_stops_accepting(hub)
            held.unlink()
            code, message = post.answer()
            assert code == 200
            assert message["result"]["content"]
            assert call.exit_code() == 0
        assert hub.process.stop() == 0


@pytest.mark.covers("EP-1")
def test_the_profile_of_a_hub_on_stdio_is_what_its_command_line_says(tmp_path):
    (config := tmp_path / "hubd.toml").write_text(
        upstream("scripted", {"tools": ["read", "write"]})
        + '[profiles.reading]\ntools = ["*__read"]\n[profiles.writing]\nhosts = ["stdio"]\ntools = ["*__write"]\n'
    )
    env, serve = own_directories(tmp_path), [HUBD, "serve", "--config", config]
    for profile, shown in (["--profile", "reading"], "read"), (["--profile=default"], "read, write"), ([], "write"):
        with running([*serve, "--stdio", *profile], tmp_path / "log", env=env, forked=True) as process:
            for id, (method, params) in enumerate([("initialize", INITIALIZE), ("tools/list", {})]):
                message = {"jsonrpc": "2.0", "id": id, "method": method, "params": params}
                process.write(json.dumps(message).encode() + b"\n")
                answer = json.loads(process.wait_for(rf'.*"id":{id}\b.*')[0])
            names = ", ".join(each["name"].removeprefix("scripted__") for each in answer["result"]["tools"])
            assert names == shown

    def refused(*arguments):
        done = run_hubd([*serve[1:], *arguments], env)
        return done.returncode, done.stderr

    for name in "nothing", "":
        code, said = refused("--stdio", "--profile", name)
        assert (code, said) == (78, f"hubd: --profile: there is no profile '{name}'; there are: reading, writing\n")
    code, said = refused("--profile", "reading")
    assert code == 2
    assert "--profile goes with --stdio" in said
    code, said = refused("--stdio", "--profile", "reading", "--upstream", "scripted")
    assert code == 2
    assert "--upstream" in said


@pytest.mark.covers("F-D-02", "I-8")
def test_a_second_signal_ends_a_hub_on_stdio_and_its_children(tmp_path):
    script = {"start": [["deafen"]], "on": {"tools/call:stuck": [["hang"]]}}
    (config := tmp_path / "hubd.toml").write_text(upstream("scripted", script))
    argv = [HUBD, "serve", "--stdio", "--config", config]
    with running(argv, tmp_path / "log", env=own_directories(tmp_path)) as process:
        calls = [
            ("initialize", INITIALIZE),
            ("tools/list", {}),
            ("tools/call", {"name": "scripted__stuck"}),
            ("ping", {}),
        ]
        for id, (method, params) in enumerate(calls):
            process.write(json.dumps({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).encode() + b"\n")
            if method != "tools/call":
                process.wait_for(rf'"id":{id}\b')
        left = psutil.Process(process.pid).children(recursive=True)
        assert left
        while (code := process.signalled(signal.SIGTERM)) is None:
            pass  # again: two signals at once may arrive as one
        assert code == 0
        assert ended(left)
        assert "stopping at once" in process.tail()


@pytest.mark.covers("F-D-01", "F-D-02")
@pytest.mark.parametrize("hurried", [False, True], ids=["drained", "hurried"])
def test_calls_that_outlive_a_stop_are_answered(tmp_path, hurried):
    config, begun = f"drain_s = {60 if hurried else 0.2}\n", []
    for name in ("a", "b"):
        os.mkfifo(fifo := tmp_path / name)
        begun.append(fifo)
        config += upstream(name, {"on": {"tools/call:slow": [["mark", str(fifo)], ["hang"]]}})
    with running_hub(tmp_path, config) as hub, ready(hub) as host:
        post = Post(hub, "a__slow", {}, token=hub.token)
        host.ask(2, "tools/call", {"name": "b__slow"})
        for fifo in begun:
            fifo.read_text()  # once the upstream has the call
        os.kill(hub.process.pid, signal.SIGTERM)
        if hurried:
            wait_until_it_stops_accepting(hub)
            os.kill(hub.process.pid, signal.SIGTERM)
        for answer in (host.receive(), post.answer()[1]):
            facts = answer["result"]["_meta"][HUB_FAILURE]
            assert but_ref(facts) == {"hub": "draining", "executed": "unknown", "retryable": False}
        assert host.receive() is None
        assert hub.process.exit_code() == 0


@pytest.mark.covers("F-D-02", "I-8")
def test_a_second_signal_ends_the_waiting_and_the_children(tmp_path):
    script = {"start": [["deafen"]], "on": {"tools/call:stuck": [["hang"]]}}
    with running_hub(tmp_path, upstream("scripted", script)) as hub, ready(hub) as host:
        host.ask(2, "tools/call", {"name": "scripted__stuck"})
        host.ask(3, "ping", {})
        assert host.receive()["id"] == 3
        left = children(hub)
        assert left
        os.kill(hub.process.pid, signal.SIGTERM)
        wait_until_it_stops_accepting(hub)  # it does once the first signal has been heard
        os.kill(hub.process.pid, signal.SIGTERM)
        answer = host.receive()
        assert answer["id"] == 2
        facts = answer["result"]["_meta"][HUB_FAILURE]
        assert but_ref(facts) == {"hub": "draining", "executed": "unknown", "retryable": False}
        assert host.receive() is None
        assert hub.process.stop(patience_s=60) == 0
        assert ended(left)


@pytest.mark.covers("F-D-03", "M-05", "I-8")
def test_what_a_killed_hub_left_behind_is_gone_after_the_next_start(tmp_path):
    config = upstream("scripted", {"on": {"tools/call:stuck": [["hang"]]}})
    with running_hub(tmp_path, config) as hub, ready(hub) as host:
        host.ask(2, "tools/call", {"name": "scripted__stuck"})
        host.ask(3, "ping", {})
        assert host.receive()["id"] == 3
        left = children(hub)
        assert left
        os.kill(hub.process.pid, signal.SIGKILL)
        assert host.receive() is None
        assert all(process.is_running() for process in left), "it hangs, so it does not notice"
        with running_hub(tmp_path, config) as next_hub, ready(next_hub):
            assert ended(left)


@pytest.mark.covers("F-D-09", "F-C-01")
def test_a_hub_that_cannot_start_says_why_and_what_to_do(tmp_path):
    with running_hub(tmp_path, upstream("scripted", {})) as hub:
        again = subprocess.run([HUBD, "serve"], env=hub.env, capture_output=True, text=True, timeout=30, check=False)
        assert again.returncode == 75
        assert "already running" in again.stderr
        other = own_directories(tmp_path / "other")
        address = hub.url.split("/")[2]
        taken = [HUBD, "serve", "--listen", address]
        done = subprocess.run(taken, env=other, capture_output=True, text=True, timeout=30, check=False)
        assert done.returncode == 69
        assert f"cannot listen on {address}" in done.stderr
    (broken := tmp_path / "broken.toml").write_text("[upstreams.x]\ncomand = 'x'\n")
    argv = [HUBD, "serve", "--config", broken]
    done = subprocess.run(argv, env=other, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 78
    assert "broken.toml, line 2" in done.stderr
    assert "command" in done.stderr


def test_a_taken_port_that_nobody_chose_is_no_reason_not_to_start(tmp_path):
    env = own_directories(tmp_path)
    with contextlib.ExitStack() as stack:
        for _ in range(300):  # a hub of another test may have it, and end before this one starts
            with contextlib.suppress(OSError):
                stack.enter_context(socket.create_server(("127.0.0.1", int(DEFAULT_LISTEN.rpartition(":")[2]))))
                break
            TICK.wait(0.1)  # who has it still then, keeps it
        with running([HUBD, "serve"], tmp_path / "log", env=env, forked=True) as process:
            url = process.wait_for(r"hubd listens on (\S+)")[1]
            assert DEFAULT_LISTEN not in url
            assert DEFAULT_LISTEN in process.tail()
            shown = run_hubd(["status"], env)
            socket_path = Path(env["XDG_RUNTIME_DIR"], "hubd", "hubd.sock")
            assert shown.stdout.split("\n")[1] == f"listens on {url} and {socket_path}"
            warning = f"warning: {DEFAULT_LISTEN} was taken when the hub started, so it listens on {url}, now and"
            assert warning in shown.stdout
            assert f"serving the demo until {env['XDG_CONFIG_HOME']}/hubd/hubd.toml" in process.tail()


def test_a_store_without_its_client_is_refused_with_file_and_line(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "coredis", None)
    (file := tmp_path / "hubd.toml").write_text("[cache]\nurl = 'redis://127.0.0.1'\n")
    with pytest.raises(ConfigError, match=rf"{file}, line 2: cache.url: the client .* is not installed; run `"):
        store_for(load_all(file, {}), load_keys(None))


def test_a_hub_starts_though_nobody_reads_what_it_says(tmp_path):
    env = own_directories(tmp_path)
    argv = ["sh", "-c", f"exec {HUBD} serve --listen 127.0.0.1:0 >&-"]
    process = Process(argv, tmp_path / "log", env=env)
    try:
        status = [HUBD, "status", "--json"]
        while (done := subprocess.run(status, env=env, capture_output=True, timeout=30, check=False)).returncode == 69:
            assert process.is_running(), process.tail()
        assert json.loads(done.stdout)["upstreams"][0]["name"] == "demo"
    finally:
        assert process.stop() == 0
