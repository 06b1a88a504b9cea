"""Malformed answers of an HTTP upstream: no crash, no hang, no leaked task.

HUBD_FUZZ inputs per test (300; the long run takes 10000). A failure names the number of its input, which alone decides
what is sent; HUBD_FUZZ_SEED starts there.
"""

import json
import os
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

import pytest
import trio

from config.remembered_facts import Memory
from config.settings import UpstreamConfig
from hub.link.hub_errors import HubError
from hub.linux.socket_watch import socket_watch
from hub.wire.jsonrpc import Failure, Result
from tests.support.descriptors import LOOKS, left_open, open_descriptors, pause
from tests.support.http_fixture import Ear, Fixture, config_for, run
from tests.support.http_peer import PeerRequest, Script, Talk, http_peer
from upstreams.deadline_watch import deadline_watch
from upstreams.session_contract import CallTimeouts

COUNT: Final = int(os.environ.get("HUBD_FUZZ", "300"))
FIRST: Final = int(os.environ.get("HUBD_FUZZ_SEED", "0"))
SLOW_S: Final = 0.25
"""No input may cost more; four times that where the machine is busy."""

TOKENS: Final = (
    *(
        b"\r\n",
        b"\n",
        b"\r",
        b"\r\n\r\n",
        b"\n\n",
        b"\0",
        b" ",
        b"\t",
        b":",
        b"data: ",
        b"id: ",
        b"retry: 0\n",
        b"event: x\n",
    ),
    *(b"\xff", b"\xc3", b"\xe2\x80\xa8", b"\xef\xbb\xbf", b"\\ud83d", b"\\u0000", b"1e999", b"-0", b"9" * 40, b"NaN"),
    *(
        b"null",
        b"true",
        b"[]",
        b"{}",
        b'"',
        b"[" * 2000,
        b'{"a":' * 200,
        b"0\r\n\r\n",
        b"ffffffffffffffff\r\n",
        b"-1\r\n",
    ),
    *(b"Content-Length: 5\r\n", b"Content-Length: 99999999999\r\n", b"Transfer-Encoding: chunked\r\n", b"x" * 70_000),
    *(
        b"Content-Encoding: gzip\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\n",
        b"HTTP/1.1 ",
        b"HTTP/1.0 ",
        b"Connection: close\r\n",
    ),
    *(b'"jsonrpc":"2.0",', b'"id":1,', b'"method":"ping",', b'"params":{},', b'"result":{},', b'"error":{},'),
)
STATUSES: Final = (*[200] * 60, 202, 204, 302, 400, 401, 403, 404, 405, 406, 409, 429, 500, 503, 999)


class Garbler:
    """Makes one malformed answer of a number."""

    def __init__(self, number: int) -> None:
        self._random = random.Random(number)

    def answer(self, request: PeerRequest) -> bytes:
        """Something like an HTTP answer to `request`."""
        random = self._random
        message = self._message(request)
        streamed = random.random() < 0.5
        body = self._stream(message) if streamed else json.dumps(message).encode()
        if random.random() < 0.7:
            body = self._garble(body)
        kind = b"text/event-stream" if streamed else b"application/json"
        if random.random() < 0.05:
            kind = random.choice([b"text/html", b"", b"application/json; charset=utf-8", b"TEXT/EVENT-STREAM", b"\xff"])
        head = b"HTTP/1.1 %d X\r\nContent-Type: %b\r\n" % (random.choice(STATUSES), kind)
        framing = random.random()
        if framing < 0.4:
            whole = head + b"Content-Length: %d\r\n\r\n" % len(body) + body
        elif framing < 0.8:
            whole = head + b"Transfer-Encoding: chunked\r\n\r\n" + self._chunks(body)
        else:
            whole = head + b"\r\n" + body
        return self._garble(whole) if random.random() < 0.25 else whole

    def _message(self, request: PeerRequest) -> Any:
        random = self._random
        id = request.json.get("id")
        result = {"jsonrpc": "2.0", "id": id, "result": random.choice([{}, {"tools": [{"name": "t"}]}, [], 1, None])}
        error = {"jsonrpc": "2.0", "id": random.choice([id, None, "x"]), "error": {"code": -32020, "message": "x"}}
        note = {"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": id, "progress": 1}}
        question = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
        return random.choice([result, result, error, note, question, [result], [note, question, error], [], 5, "x"])

    def _stream(self, message: Any) -> bytes:
        random = self._random
        events = [b"data: %b\n\n" % json.dumps(message).encode() for _ in range(random.choice([1, 1, 2, 5]))]
        events.insert(
            0, random.choice([b"", b": hello\n\n", b"id: 1\ndata:\n\n", b"retry: 1\n\n", b"event: y\ndata: z\n\n"])
        )
        return b"".join(events)

    def _chunks(self, body: bytes) -> bytes:
        size = self._random.choice([1, 7, 1000, 1 << 20]) if len(body) < 1000 else 1 << 14
        parts = [body[at : at + size] for at in range(0, len(body), size)]
        return b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"

    def _garble(self, data: bytes) -> bytes:
        random = self._random
        for _ in range(random.choice([1, 1, 2, 5])):
            at, to = sorted((random.randrange(len(data) + 1), random.randrange(len(data) + 1)))
            match random.randrange(7):
                case 0:
                    data = data[:at]
                case 1:
                    data = data[:at] + random.choice(TOKENS) + data[at:]
                case 2:
                    data = data[:at] + random.choice(TOKENS) + data[to:]
                case 3:
                    data = data[:to] + data[at:]
                case 4:
                    data = data[:at] + random.randbytes(random.choice([1, 1, 4, 40])) + data[at + 1 :]
                case 5:
                    data = data[:at] + data[to:]
                case 6:
                    data = data[:at] + data[at:to][::-1] + data[to:]
        return data

    def cut(self, data: bytes) -> list[bytes]:
        """`data` in the pieces in which it is sent."""
        at = self._random.randrange(len(data) + 1)
        return [piece for piece in (data[:at], data[at:]) if piece]


class FuzzedScript(Script):
    """Answers what the test is about with garbage, once armed; everything else as it should be."""

    def __init__(self, era: str) -> None:
        super().__init__(era)
        self.garbler: Garbler | None = None
        self.methods: frozenset[str] = frozenset()

    async def __call__(self, request: PeerRequest, talk: Talk) -> None:
        garbler = self.garbler
        if garbler is None or (request.rpc or request.method) not in self.methods:
            return await super().__call__(request, talk)
        for piece in garbler.cut(garbler.answer(request)):
            await talk.raw(piece)
        await talk.close()


@asynccontextmanager
async def nothing_left() -> AsyncIterator[None]:
    """There are no more tasks and descriptors in the end than before."""
    deadline_watch()
    socket_watch()
    await trio.testing.wait_all_tasks_blocked()
    tasks, descriptors = trio.lowlevel.current_statistics().tasks_living, open_descriptors()
    yield
    for _ in range(20):
        await trio.testing.wait_all_tasks_blocked()
    for _ in range(LOOKS):
        if not left_open(descriptors):
            break
        pause()
        await trio.testing.wait_all_tasks_blocked()
    left = left_open(descriptors)
    assert not left, left
    assert trio.lowlevel.current_statistics().tasks_living == tasks


async def fuzz(era: str, methods: set[str], step: Callable[[Fixture], Awaitable[None]]) -> None:
    """Let `step` meet COUNT garbled answers to `methods`, in sessions that are replaced when they end."""
    script = FuzzedScript(era)
    script.methods = frozenset(methods)
    async with http_peer(script) as peer, nothing_left():
        number = FIRST
        while number < FIRST + COUNT:
            it = Fixture(peer, Ear(), Memory(None), era=era)
            script.garbler = None
            async with trio.open_nursery() as nursery:
                await nursery.start(it.run)
                while number < FIRST + COUNT and not it.over:
                    script.garbler = Garbler(number)
                    start = time.thread_time()  # not that of a machine with other things to do
                    try:
                        with trio.fail_after(1000):
                            await step(it)
                    except BaseException:
                        print(f"HUBD_FUZZ_SEED={number} HUBD_FUZZ=1")  # noqa: T201
                        raise
                    assert time.thread_time() - start < 4 * SLOW_S, f"input {number} is slow"
                    peer.requests.clear()
                    await trio.testing.wait_all_tasks_blocked()
                    number += 1
                nursery.cancel_scope.cancel()


ERAS = pytest.mark.parametrize("era", ["legacy", "modern"])


@pytest.mark.covers("F-R-13", "F-R-14", "F-R-15", "F-R-20")
@ERAS
async def test_answers_to_calls(era: str, autojump_clock: trio.abc.Clock) -> None:
    async def step(it: Fixture) -> None:
        with suppress(HubError):
            reply = await it.call(timeouts=CallTimeouts(20, 60))
            assert not isinstance(reply, Result)

    await fuzz(era, {"tools/call", "GET"}, step)


@pytest.mark.covers("F-R-13", "F-R-14", "F-R-15")
@ERAS
async def test_answers_to_lists(era: str, autojump_clock: trio.abc.Clock) -> None:
    async def step(it: Fixture) -> None:
        with suppress(HubError), trio.move_on_after(60):
            assert isinstance(await it.session.request("tools/list", {}), Result | Failure)

    await fuzz(era, {"tools/list", "GET"}, step)


@pytest.mark.covers("F-R-13", "F-R-15", "V-19")
async def test_answers_to_the_first_question(autojump_clock: trio.abc.Clock) -> None:
    async def step(it: Fixture) -> None:
        with suppress(HubError), trio.move_on_after(60):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_run_quietly, config_for(it.peer))
                await trio.sleep(50)
                nursery.cancel_scope.cancel()

    await fuzz("legacy", {"server/discover", "initialize", "notifications/initialized", "GET", "DELETE"}, step)


async def _run_quietly(config: UpstreamConfig) -> None:
    with suppress(HubError):
        await run(config)
