"""A session over HTTP with a scripted server, and recorders at both ends."""

import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from msgspec import Raw

from config.remembered_facts import Memory
from config.setting_declarations import Secret
from config.settings import UpstreamConfig
from hub.link.call_interface import Caller, Identity, Operation
from hub.link.hub_errors import HubError, without_frames
from hub.link.memory_budget import Budget
from hub.wire.jsonrpc import Failure, Reply, Result, raw
from hub.wire.mcp import MODERN, Kind
from hub.wire.questions.askable_questions import Question
from tests.support.http_peer import Handler, HttpPeer, PeerRequest, Talk, http_peer
from tests.support.schemas import validate
from upstreams.session_contract import COMMON, CallTimeouts, Session, SessionTerms
from upstreams.status_facts import SandboxFacts
from upstreams.transports.choose_transport import run_session

TIMEOUTS = CallTimeouts(300.0, 3600.0)
TEXT = {"content": [{"type": "text", "text": "called"}]}


class Ear:
    """SessionEvents, and the host's end of one call."""

    def __init__(self, *, wants_progress: bool = True, answer: Any = None) -> None:
        self.caller = Caller(Identity("me", "test"), MODERN, {}, "debug")
        self.answer = answer
        """Its answer to questions; None: never any."""
        self.questions: list[Question] = []
        self.withdrawn: list[Question] = []
        self.events: list[str] = []
        self.wants_progress = wants_progress
        self.kinds: list[Kind] = []
        self.logs: list[Any] = []
        self.notes: list[str] = []
        self.steps: list[Any] = []
        self.endings = 0
        self.forgettings = 0
        self.hearing: list[bool] = []
        self.uris: list[str] = []
        self.heard = trio.Event()

    def changed(self, kinds: tuple[Kind, ...]) -> None:
        self.kinds += kinds
        self._hear()

    def forgotten(self) -> None:
        self.forgettings += 1

    def hears(self, on: bool) -> None:
        self.hearing.append(on)

    def updated(self, uri: str) -> None:
        self.uris.append(uri)
        self._hear()

    def ended(self) -> None:
        self.endings += 1

    def log(self, params: dict[str, Raw]) -> None:
        self.logs.append(json.loads(bytes(raw(params))))
        self._hear()

    def progress(self, params: dict[str, Raw]) -> None:
        self.steps.append(json.loads(bytes(raw(params))))
        self._hear()

    def note_sent(self) -> None:
        pass

    async def ask(self, question: Question) -> Reply:
        self.questions.append(question)
        self._hear()
        try:
            if self.answer is None:
                await trio.sleep_forever()
            await trio.lowlevel.checkpoint()
        except trio.Cancelled:
            self.withdrawn.append(question)
            self._hear()
            raise
        return self.answer if isinstance(self.answer, Failure) else Result(raw(self.answer))

    def said(self, line: str, pid: int) -> None: ...

    def note(self, text: str) -> None:
        self.notes.append(text)

    def sandboxed(self, facts: SandboxFacts) -> None: ...

    def admit(self, question: Question, asked: int) -> None: ...

    def roots_withheld(self) -> None:
        self.events.append("roots withheld")

    def asked(self, method: str) -> None:
        self.events.append("asked")

    def answered(self, method: str, reply: Reply) -> None: ...

    def unattributed(self, method: str) -> None:
        self.events.append(f"unattributed {method}")

    def elicited(self, id: str) -> None:
        self.events.append(f"elicited {id}")
        self._hear()

    async def until(self, condition: Callable[[], object]) -> None:
        """Wait until recorded events make `condition` true."""
        while not condition():
            await self.heard.wait()

    def _hear(self) -> None:
        self.heard.set()
        self.heard = trio.Event()


class Fixture:
    """A server, and the session with it that runs."""

    session: Session

    def __init__(self, peer: HttpPeer, ear: Ear, memory: Memory, terms: SessionTerms = COMMON, **settings: Any) -> None:
        self.peer, self.ear, self.memory, self._terms = peer, ear, memory, terms
        self._config = config_for(peer, **settings)
        self._end: HubError | None = None
        self._over = trio.Event()

    async def run(self, *, task_status: trio.TaskStatus[None]) -> None:
        def started(session: Session) -> None:
            self.session = session
            task_status.started()

        try:
            await run_session(self._config, "far", self.ear, self.memory, self._terms, started)
        except HubError as error:
            self._end = without_frames(error)
            self._over.set()

    @property
    def over(self) -> bool:
        """Whether the session has ended by itself."""
        return self._end is not None

    async def end(self) -> HubError:
        """Wait until the session has ended by itself; returns the reason."""
        await self._over.wait()
        assert self._end is not None
        return self._end

    async def call(
        self, name: str = "t", arguments: Any = None, *, exchange: Ear | None = None, timeouts: CallTimeouts = TIMEOUTS
    ) -> Any:
        params = {"name": raw(name), "arguments": raw({} if arguments is None else arguments)}
        reply = await self.session.call(Operation("tools/call", params), exchange or Ear(), timeouts)
        return json.loads(bytes(reply.value)) if isinstance(reply, Result) else reply


def config_for(peer: HttpPeer, **more: Any) -> UpstreamConfig:
    return UpstreamConfig(url=peer.url, headers={"X-Key": Secret("k")}, **more)


@asynccontextmanager
async def running(
    handler: Handler, *, memory: Memory | None = None, terms: SessionTerms = COMMON, **more: Any
) -> AsyncIterator[Fixture]:
    memory, ear = memory or Memory(None), Ear()
    async with http_peer(handler) as peer, trio.open_nursery() as nursery:
        it = Fixture(peer, ear, memory, terms, **more)
        await nursery.start(it.run)
        yield it
        nursery.cancel_scope.cancel()
    judge(peer, it.session.facts.version)


def judge(peer: HttpPeer, version: str) -> None:
    """Check all sent messages by the schema of their revision."""
    for request in peer.requests:
        if request.body:
            modern = request.headers.get("mcp-protocol-version") == MODERN
            validate(request.body, MODERN if modern else version, sender="client")


async def run(
    config: UpstreamConfig,
    *,
    ear: Ear | None = None,
    memory: Memory | None = None,
    budget: Budget | None = None,
    environ: Mapping[str, str] | None = None,
    task_status: trio.TaskStatus[Session] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Run a session; `nursery.start` returns it."""
    memory, started = memory or Memory(None), task_status.started
    await run_session(config, "far", ear or Ear(), memory, COMMON, started, budget=budget, environ=environ or {})


async def failing(handler: Handler, *, memory: Memory | None = None, **more: Any) -> None:
    """Run a session that cannot be opened; raises the reason."""
    failure: HubError | None = None
    async with http_peer(handler) as peer:
        try:
            await run(config_for(peer, **more), memory=memory)
        except HubError as error:
            failure = without_frames(error)
    assert failure is not None
    raise without_frames(failure)


def answering(*, status: int = 200, body: bytes = b"", **headers: str) -> Handler:
    async def handler(request: PeerRequest, talk: Talk) -> None:
        await talk.reply(status=status, body=body, headers={k.replace("_", "-"): v for k, v in headers.items()})

    return handler


def note(method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": method, "params": params}


def log_note(text: str) -> dict[str, Any]:
    return note("notifications/message", level="info", data=text)


ERAS = pytest.mark.parametrize("era", ["legacy", "modern"])
