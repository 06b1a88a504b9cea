"""The control socket: the real server, spoken to by the real client and by clumsy ones."""

import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from hub.control.answers import Cleared
from hub.control.client import ControlClient
from hub.control.client_errors import ControlFailed, HubNotRunning
from hub.control.methods import CACHE, CACHE_CLEAR, LOGS, RELOAD, RESTART, STATUS, TOOLS, Nothing
from hub.control.server import serve_control
from hub.daemon.bind_unix import bind_unix
from tests.support import echo_daemon
from tests.support.echo_daemon import Api


@asynccontextmanager
async def serving(path: Path) -> AsyncIterator[Api]:
    api = Api()
    async with trio.open_nursery() as nursery:
        listener = trio.SocketListener(trio.socket.from_stdlib_socket(bind_unix(path)))
        await nursery.start(serve_control, listener, api)
        yield api
        nursery.cancel_scope.cancel()


def tools(client: ControlClient):
    return client.request(TOOLS)


def restart(client: ControlClient, name: str):
    return client.request(RESTART, name=name)


def records(client: ControlClient, lines: int):
    return client.request_both(LOGS, name="demo", lines=lines)[0]["records"]


async def in_thread(path: Path, function):
    """What `function` returns for a client, which blocks and so needs a thread."""

    def work():
        with ControlClient(path) as client:
            return function(client)

    with trio.fail_after(30):
        return await trio.to_thread.run_sync(work)


async def test_every_method(tmp_path):
    async with serving(tmp_path / "c") as api:
        status = await in_thread(tmp_path / "c", lambda client: client.request(STATUS))
        assert status.upstreams[0].name == "demo"
        assert await in_thread(tmp_path / "c", tools) == echo_daemon.TOOLS
        assert await in_thread(tmp_path / "c", lambda client: restart(client, "demo")) == Nothing()
        with pytest.raises(ControlFailed, match="ü\u2028"):
            await in_thread(tmp_path / "c", lambda client: restart(client, "ü\u2028"))
        assert (await in_thread(tmp_path / "c", lambda client: client.request(CACHE))).entries == 1
        assert await in_thread(tmp_path / "c", lambda client: client.request(CACHE_CLEAR)) == Cleared(1)
        assert not api.stopped.is_set()


async def test_names_of_files_need_not_be_utf_8(tmp_path):
    async with serving(tmp_path / "c") as api:

        async def status():
            return {
                "summary": "",
                "warnings": [],
                "problems": [],
                "pending": [],
                "config": {"files": ("/caf\udce9/hubd.toml",), "caf\udce9": 1},
            }

        api.status = api.reload = status
        for method in (STATUS, RELOAD):
            assert (await in_thread(tmp_path / "c", lambda client, method=method: client.request_both(method)[0]))[
                "config"
            ] == {"files": ["/caf\\udce9/hubd.toml"], "caf\\udce9": 1}


async def test_several_requests_on_one_connection(tmp_path):
    async with serving(tmp_path / "c"):
        found = await in_thread(
            tmp_path / "c", lambda client: [tools(client), client.request(CACHE_CLEAR), tools(client)]
        )
        assert found == [echo_daemon.TOOLS, Cleared(1), echo_daemon.TOOLS]


async def test_a_failing_request_harms_no_other(tmp_path, caplog):
    async with serving(tmp_path / "c"):

        def both(client: ControlClient):
            with pytest.raises(ControlFailed, match="failed to answer: RuntimeError; its log says more") as caught:
                restart(client, "crash")
            assert "canary" not in str(caught.value)
            return tools(client)

        assert await in_thread(tmp_path / "c", both) == echo_daemon.TOOLS
    assert "canary" in caplog.text


async def test_a_request_too_many_is_refused_with_the_reason(tmp_path, caplog):
    async with serving(tmp_path / "c"):
        with pytest.raises(ControlFailed, match="256 requests of this account are running already"):
            await in_thread(tmp_path / "c", lambda client: restart(client, "one-too-many"))
    assert caplog.text == ""


async def test_stop_returns_when_the_daemon_has_ended(tmp_path):
    ended: list[str] = []
    async with trio.open_nursery() as nursery:

        async def stop() -> None:
            await in_thread(tmp_path / "c", ControlClient.stop)
            ended.append("client")

        async with serving(tmp_path / "c") as api:
            nursery.start_soon(stop)
            await api.stopped.wait()
            assert ended == []
        ended.append("server")
    assert sorted(ended) == ["client", "server"]


async def test_a_client_that_leaves_cancels_its_request(tmp_path):
    async with serving(tmp_path / "c") as api:
        with trio.fail_after(30):
            async with await trio.open_unix_socket(str(tmp_path / "c")) as client:
                await client.send_all(request("restart", {"name": "wait"}) + request("restart", {"name": "quick"}))
                assert b"no server quick" in await client.receive_some(65536)
            await api.cancelled.wait()


def request(method: str, params: object) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode() + b"\n"


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b"{\n", -32700),
        (b"\xff\n", -32700),
        (b"[" * 1000 + b"\n", -32700),
        (b"[]\n", -32600),
        (b'{"jsonrpc":"2.0","id":1}\n', -32600),
        (request("nope", {}), -32601),
        (request("restart", {}), -32602),
        (request("restart", {"name": 5}), -32602),
        (request("restart", []), -32602),
        (request("cache_clear", {"name": 5}), -32602),
        (request("cache_clear", {"name": "nope"}), -32603),
    ],
)
async def test_clumsy_clients_are_answered(tmp_path, line, code):
    async with serving(tmp_path / "c"):
        with trio.fail_after(30):
            async with await trio.open_unix_socket(str(tmp_path / "c")) as client:
                await client.send_all(b"\n" + line)
                answer = json.loads(await client.receive_some(65536))
                assert answer["error"]["code"] == code
                await client.send_all(request("tools", {}))
                assert json.loads(await client.receive_some(65536))["result"] == echo_daemon.TOOLS


@pytest.mark.covers("SEC-13")
async def test_a_request_that_is_too_long_is_refused_in_one_sentence(tmp_path):
    async with serving(tmp_path / "c"):

        def too_much(client: ControlClient):
            with pytest.raises(ControlFailed, match=r"too long; .* 64 KiB"):
                restart(client, "x" * (40 << 20))

        await in_thread(tmp_path / "c", too_much)
        assert await in_thread(tmp_path / "c", tools) == echo_daemon.TOOLS


@pytest.mark.covers("SEC-04")
async def test_other_users_are_refused(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr("hub.control.server.peer_uid", lambda socket: os.getuid() + 1)
    async with serving(tmp_path / "c"):
        with pytest.raises(HubNotRunning):
            await in_thread(tmp_path / "c", tools)
    assert "refused a control connection of uid" in caplog.text


def test_nothing_there_is_one_helpful_sentence(tmp_path):
    path = tmp_path / "c"
    with pytest.raises(HubNotRunning, match=r"no hub is running \(nothing listens on .*\); `hubd start` starts one"):
        ControlClient(path)
    bind_unix(path).close()
    with pytest.raises(HubNotRunning, match="no hub is running"):
        ControlClient(path)
    path.unlink()
    path.mkdir()
    with pytest.raises(HubNotRunning):
        ControlClient(path)


# --- logs -------------------------------------------------------------------------------------------------------------


async def test_logs_are_the_last_records(tmp_path):
    async with serving(tmp_path / "c"):
        found = await in_thread(tmp_path / "c", lambda client: records(client, 10))
        said = {"at": 1_800_000_000.5, "kind": "state", "text": "connecting", "pid": None, "name": "demo"}
        assert found[0] == said | {"level": "", "ref": "", "about": ""}
        assert found[1]["pid"] == 7
        assert await in_thread(tmp_path / "c", lambda client: records(client, 1)) == found[1:]


async def test_logs_of_an_unknown_upstream_name_those_there_are(tmp_path):
    async with serving(tmp_path / "c"):

        def unknown(client: ControlClient):
            with pytest.raises(ControlFailed, match="no server nope; there are: demo"):
                client.request(LOGS, name="nope")

        await in_thread(tmp_path / "c", unknown)


async def test_logs_are_followed_until_the_client_leaves(tmp_path):
    async with serving(tmp_path / "c") as api:
        journal = api.journals["demo"]
        with trio.fail_after(30):
            async with await trio.open_unix_socket(str(tmp_path / "c")) as client:
                await client.send_all(request("logs", {"name": "demo", "lines": 1, "follow": True}))
                answer = json.loads(await client.receive_some(65536))
                assert [record["kind"] for record in answer["result"]["records"]] == ["stderr"]
                journal.add("state", "gone")
                more = json.loads(await client.receive_some(65536))
                assert more["method"] == "logs"
                assert more["params"]["lost"] == 0
                assert [record["text"] for record in more["params"]["records"]] == ["gone"]
                await client.send_all(request("tools", {}))
                assert json.loads(await client.receive_some(65536))["result"] == echo_daemon.TOOLS
            while journal._followers:
                await trio.testing.wait_all_tasks_blocked(0.01)


@pytest.mark.covers("I-5", "I-3")
async def test_a_follower_that_does_not_read_loses_records_and_holds_up_nobody(tmp_path):
    async with serving(tmp_path / "c") as api:
        journal = api.journals["demo"]
        with trio.fail_after(60):
            async with await trio.open_unix_socket(str(tmp_path / "c")) as client:
                await client.send_all(request("logs", {"name": "demo", "lines": 0, "follow": True}))
                await client.receive_some(65536)
                for number in range(20):
                    for _ in range(1000):
                        journal.add("stderr", f"{number} " + "x" * 1000)
                    await trio.testing.wait_all_tasks_blocked(0.001)
                data = b""
                while b'"lost":0' in data[-40:] or b'"lost":' not in data[-40:]:
                    data += await client.receive_some(1 << 20)
                messages = [json.loads(line)["params"] for line in data.splitlines()]
                assert sum(params["lost"] + len(params["records"]) for params in messages) == 20_000
        assert await in_thread(tmp_path / "c", tools) == echo_daemon.TOOLS


async def test_the_client_follows_too(tmp_path):
    async with serving(tmp_path / "c") as api:

        def first_two(client: ControlClient):
            records = client.follow("demo", 1)
            first = next(records)
            trio.from_thread.run_sync(api.journals["demo"].add, "log", "second")
            return first["text"], next(records)["text"]

        assert await in_thread(tmp_path / "c", first_two) == ("it \\x1b[31mfell", "second")
