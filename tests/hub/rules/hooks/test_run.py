"""How hooks are asked: programs and addresses, with their bounds."""

import json
import os
import sys

import pytest
import trio

from config.security_settings import HookConfig
from hub.rules.hooks.messages import BEFORE, HookFailed, Opinion
from hub.rules.hooks.run import MAX_RUNNING, MAX_WAITING, Hook


def python(code, **settings):
    return Hook(HookConfig(name="h", command=(sys.executable, "-c", code), **settings), os.environ)


async def test_a_program_is_told_and_answers():
    code = "import sys, json; told = json.load(sys.stdin); sys.stderr.write(told['tool_name']); sys.exit(2)"
    opinion = await python(code, timeout_s=60.0).ask(b'{"tool_name": "mcp__a__b"}', BEFORE, "a")
    assert opinion == ("deny", "mcp__a__b", None)


@pytest.mark.covers("POL-43")
@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("import time; time.sleep(60)", "within 1 seconds"),
        ("import time, os; os.close(1); os.close(2); time.sleep(60)", "within 1 seconds"),
        ("import sys; sys.stdout.write('x' * (2 << 20))", "more than 1024 KB"),
        ("import sys; sys.exit(1)", "exited with 1"),
        ("import os; os.kill(os.getpid(), 9)", "exited with -9"),
        ("print('no JSON')", "no JSON"),
    ],
)
async def test_what_is_no_answer(code, why):
    limit_s = 1.0 if "within" in why else 60.0
    with pytest.raises(HookFailed, match=why):
        await python(code, timeout_s=limit_s).ask(b"{}", BEFORE, "a")


async def test_a_program_that_is_not_there():
    hook = Hook(HookConfig(name="h", command=("/nonexistent/check",)), os.environ)
    with pytest.raises(HookFailed, match="was not found"):
        await hook.ask(b"{}", BEFORE, "a")


@pytest.mark.covers("POL-43")
async def test_its_environment_is_clean(monkeypatch):
    monkeypatch.setenv("GITHUB_TOKEN", "ghp_0123456789abcdef0123456789abcdef0123")
    monkeypatch.setenv("HUBD_RUNTIME_DIR", "/x")
    code = "import os, sys; sys.stderr.write(' '.join(sorted(os.environ))); sys.exit(2)"
    names = (await python(code, timeout_s=60.0).ask(b"{}", BEFORE, "a")).reason.split()
    assert "PATH" in names
    assert not {"GITHUB_TOKEN", "HUBD_RUNTIME_DIR"} & set(names)


CHILD = """
import subprocess, sys, time
child = subprocess.Popen(["sleep", "60"])
open(sys.argv[1], "w").write(str(child.pid))
time.sleep(60)
"""


@pytest.mark.covers("POL-43")
async def test_a_cancelled_call_ends_the_program(tmp_path):
    file = tmp_path / "pid"
    hook = Hook(HookConfig(name="h", command=(sys.executable, "-c", CHILD, str(file))), os.environ)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(hook.ask, b"{}", BEFORE, "a")
        await _until(lambda: file.exists() and file.read_text())
        nursery.cancel_scope.cancel()
    await _until(lambda: not _runs(int(file.read_text())))


async def _until(is_so):
    with trio.fail_after(20):
        while not is_so():  # noqa: ASYNC110 - nobody else tells
            await trio.sleep(0.02)


def _runs(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.covers("POL-43")
async def test_few_are_asked_at_a_time():
    hook = python("import time; time.sleep(2)", timeout_s=30.0)
    failures = []

    async def ask():
        try:
            await hook.ask(b"{}", BEFORE, "a")
        except HookFailed as error:
            failures.append(str(error))

    with trio.move_on_after(1):
        async with trio.open_nursery() as nursery:
            for _ in range(MAX_RUNNING + MAX_WAITING + 3):
                nursery.start_soon(ask)
    assert failures == ["too many calls wait for it"] * 3


@pytest.mark.covers("I-3", "POL-43")
async def test_programs_take_turns_and_time_begins_with_the_turn(tmp_path, monkeypatch, autojump_clock):
    hook = python("", timeout_s=5.0)

    async def run(message, event):
        await trio.sleep(4)
        return Opinion("deny", message.decode())

    monkeypatch.setattr(hook, "_run", run)
    ended, failures = [], []

    async def ask(program):
        try:
            await hook.ask(program.encode(), BEFORE, program)
            ended.append((program, trio.current_time()))
        except HookFailed:
            failures.append(program)

    began = trio.current_time()
    async with trio.open_nursery() as nursery:
        for _ in range(MAX_RUNNING + MAX_WAITING):
            nursery.start_soon(ask, "a")
        await trio.sleep(1)
        nursery.start_soon(ask, "b")
    assert failures == ["a"]  # the newest of whoever has most makes room
    assert [at - began for program, at in ended if program == "b"] == [8]
    assert len(ended) == MAX_RUNNING + MAX_WAITING


@pytest.mark.covers("POL-41")
async def test_an_address_is_asked():
    got = []
    answers = [
        (200, {"hookSpecificOutput": {"permissionDecision": "deny", "permissionDecisionReason": "no"}}),
        (200, None),
        (500, {}),
        (302, {}),
        (200, ""),
    ]

    async def serve(stream):
        data = b""
        while b"\r\n\r\n" not in data or len(data.partition(b"\r\n\r\n")[2]) < 2:
            data += await stream.receive_some()
        got.append(data)
        status, body = answers.pop(0)
        text = json.dumps(body).encode() if body else b""
        length = "" if body == "" else f"Content-Length: {len(text)}\r\n"
        head = f"HTTP/1.1 {status} X\r\nLocation: http://127.0.0.1:1/\r\n{length}\r\n"
        await stream.send_all(head.encode() + text)
        await stream.aclose()

    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(trio.serve_tcp, serve, 0)
        port = listeners[0].socket.getsockname()[1]
        hook = Hook(HookConfig(name="h", url=f"http://127.0.0.1:{port}/hook"), {})
        assert (await hook.ask(b'{"tool_name":"x"}', BEFORE, "a")).decision == "deny"
        assert (await hook.ask(b"{}", BEFORE, "a")).decision == ""
        for status in (500, 302):
            with pytest.raises(HookFailed, match=f"status {status}"):
                await hook.ask(b"{}", BEFORE, "a")
        with pytest.raises(HookFailed, match="cut off"):
            await hook.ask(b"{}", BEFORE, "a")
        nursery.cancel_scope.cancel()
    assert got[0].startswith(b"POST /hook ")
    assert got[0].endswith(b'{"tool_name":"x"}')
