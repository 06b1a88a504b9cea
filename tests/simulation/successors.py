"""A series of hubs with one state, and hosts that outlive them: behind a shim, or as sessions over HTTP.

A dict keeps the files of the hubs; a killed hub writes no more. Shims are the real `hub.shim.replay`,
without its file descriptors.
"""

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import trio
import trio.testing

from config.remembered_facts import Memory
from config.settings import HubConfig
from hub.app import Hub
from hub.daemon.api import DaemonApi
from hub.downstream.http.durable_sessions import DurableSessions
from hub.downstream.http.endpoint import Endpoint
from hub.downstream.lines import connection
from hub.downstream.lines.connection import LineHost as Attached
from hub.link.call_interface import Identity
from hub.link.sealing import Sealer, Signer
from hub.projects.find_project_of_host import TrustedProjects
from hub.shim.reconnecting_pump import AGAIN_S
from hub.shim.replay import Replay
from hub.wire.mcp import UNDERSTOOD, Era
from tests.support.fakes import FakeUpstream, opener
from tests.support.house import House, HttpHost, JudgedHost, LineHost, Question, preamble_of
from tests.support.http_fakes import Open
from upstreams.inventory.last_known_lists import LastKnown, ListsDraft

KEY = b"k" * 32
PARTING_S = 1.0


# --- what outlives a hub ----------------------------------------------------------------------------------------------


class Disk:
    """The files that one run of the hub reads and writes."""

    def __init__(self, files: dict[str, bytes]) -> None:
        self.files = files
        self.broken = False
        """Whether writing has ended."""

    def put(self, name: str, data: bytes) -> None:
        if not self.broken:
            self.files[name] = data


class KeptMemory(Memory):
    """A memory on a `Disk`."""

    def __init__(self, disk: Disk, name: str) -> None:
        self._disk = disk
        super().__init__(Path(name))

    def _read(self, path: Path) -> None:
        if (draft := self._disk.files.get(path.name)) is not None:
            self._sections = msgspec.json.decode(draft)["sections"]

    def write(self, draft: bytes) -> None:
        assert self._path is not None
        self._disk.put(self._path.name, draft)


class KeptLists(LastKnown):
    """Last known lists of upstreams, on a `Disk`."""

    def __init__(self, disk: Disk) -> None:
        super().__init__(Path("lists"))
        self._disk = disk

    def _read_all(self, directory: Path, names: Iterable[str]) -> dict[str, ListsDraft]:
        files = self._disk.files
        return {name: msgspec.json.decode(files[f"lists/{name}"], type=ListsDraft) for name in names if self._has(name)}

    def _has(self, name: str) -> bool:
        return f"lists/{name}" in self._disk.files

    def _write_all(self, drafts: Mapping[str, ListsDraft]) -> dict[str, str]:
        for name, draft in drafts.items():
            self._disk.put(f"lists/{name}", msgspec.json.encode(draft))
        return {}

    def _prune(self, directory: Path) -> None:
        pass


# --- hosts ------------------------------------------------------------------------------------------------------------


class ShimmedHost(LineHost):
    """A host behind the shim, which continues with the next hub."""

    _house: "Street"

    def __init__(self, house: "Street", version: str, identity: Identity, endpoint: str) -> None:
        super().__init__(house, version, identity, endpoint)
        self.recall = Replay()
        self.gone = False
        self.connected = self._parted = self._retrying = False
        self._unsent: list[bytes] = []

    async def open(self) -> None:
        self.connect()
        await self.greet()

    def connect(self) -> None:
        """Connect to the present hub."""
        self._stream, self._theirs = trio.testing.memory_stream_pair()
        self._house.hub_nursery.start_soon(self._serve_at, self._house.hub, self._theirs)
        self._house.nursery.start_soon(self._hear, self._stream)
        self.connected, self._parted, self._retrying = True, False, False
        self._put(self.recall.greeting())
        if self.recall.greeted:
            self._resume()

    async def _serve_at(self, hub: Hub, theirs: Any) -> None:
        said = preamble_of(self.workplace, is_bound=self.is_bound, bye=True)
        try:
            await connection.LineHost(theirs, self.identity, hub.router, hub.hosts, said).serve()
        finally:
            await theirs.aclose()

    async def _hear(self, stream: Any) -> None:
        data = b""
        with suppress(trio.ClosedResourceError, trio.BrokenResourceError):
            async for chunk in stream:
                whole, newline, data = (data + chunk).rpartition(b"\n")
                greeted = self.recall.greeted
                self._say(self.recall.on_hub_lines(whole + newline))
                if not greeted and self.recall.greeted:
                    self._resume()
                elif self.recall.unsubscribed or self.recall.stopping:
                    self._put_in()
                if self.recall.refused and not self._retrying:
                    self._retrying = True
                    self._house.hub_nursery.start_soon(self._retry)
        if not self.gone:
            self.connected = False
            self._say(self.recall.on_loss())
            if not self._house.is_down:
                self.complaints.append(f"the hub hung up on {self!r}")

    async def _retry(self) -> None:
        for pause_s in AGAIN_S:
            if self.gone or not self.recall.refused:
                break
            await trio.sleep(pause_s)
            self.recall.retry()
            self._put_in()
            await trio.sleep(self._house.hub.config.drain_s)
        self._retrying = False

    def _say(self, lines: bytes) -> None:
        for line in lines.splitlines():
            self._take(line)

    def _resume(self) -> None:
        if self.recall.refusal:
            self.complaints.append(f"{self!r} is refused: {self.recall.refusal}")
        self._put(self.recall.rest())
        unsent, self._unsent = self._unsent, []
        for line in unsent:
            self._forward(line)

    def _put_in(self) -> None:
        if lines := self.recall.due():
            self._put(lines)
        elif self.recall.stopping and not (self._parted or self.recall.questions):
            self._parted = True
            self._put(UNDERSTOOD + b"\n")

    def _put(self, data: bytes) -> bool:
        """Whether the hub has received it."""
        with suppress(trio.ClosedResourceError):
            self._theirs.receive_stream.put_data(data)
            return True
        return False

    def _forward(self, line: bytes) -> None:
        held = self.recall.stopping and not self.recall.questions
        if self.connected and self.recall.greeted and not held and self._put(line):
            self.recall.sent(line)
        else:
            self._unsent.append(line)

    async def send(self, message: dict[str, Any], question: Question | None) -> None:
        if self.gone:
            raise trio.ClosedResourceError
        if question is not None:
            self.questions[question.id] = question
        self._forward(json.dumps(message).encode() + b"\n")
        await trio.lowlevel.checkpoint()

    async def leave(self) -> None:
        self.gone = True
        await self._stream.aclose()

    def cut(self) -> None:
        pass

    async def come_back(self) -> None:
        self.connect()


class ReturningHost(HttpHost):
    """A host of the endpoint that continues its session at the next hub."""

    _house: "Street"

    def __init__(self, house: "Street", version: str, identity: Identity, endpoint: str) -> None:
        super().__init__(house, version, identity, endpoint)
        self._hearing = trio.CancelScope()
        self.gone = False
        self.hasty = True  # whoever waits for the hub to have time for it would go on beside the next move

    async def _get(self, into: Any) -> None:
        with trio.CancelScope() as self._hearing:
            await super()._get(into)

    async def send(self, message: dict[str, Any], question: Question | None) -> None:
        if self._house.is_down:
            raise trio.BrokenResourceError
        await super().send(message, question)

    async def _post(self, message: Any, question: Question, into: Any) -> None:
        await super()._post(message, question, into)
        if self._house.is_down and not question.done.is_set():
            question.cut = True  # type: ignore[attr-defined]
            question.done.set()

    async def leave(self) -> None:
        self.gone = True
        await super().leave()

    def cut(self) -> None:
        self.kill_now()
        self._hearing.cancel()

    async def come_back(self) -> None:
        self.http.endpoint = self._house.endpoint
        if self.era is Era.LEGACY:
            self.listening = self.response_to(None)
            self._house.nursery.start_soon(self._get, self.listening)
            await self.listening.arrived.wait()


KINDS: dict[str, Any] = {"lines": ShimmedHost, "http": ReturningHost}


# --- the house --------------------------------------------------------------------------------------------------------


class Street(House):
    """A house in which one hub follows another."""

    hub_nursery: trio.Nursery

    def __init__(self, fakes: dict[str, FakeUpstream], nursery: trio.Nursery, reader: TrustedProjects) -> None:
        self.fakes = fakes
        self.nursery = nursery
        self.hosts: list[JudgedHost] = []
        self.is_down = True
        self._files: dict[str, bytes] = {}
        self._reader = reader
        self._over = trio.Event()

    async def start(self, config: HubConfig) -> None:
        """Start the next hub, and attach all hosts."""
        self._disk = Disk(self._files)
        self.hub = Hub(
            config,
            KeptMemory(self._disk, "memory"),
            Sealer(KEY),
            run_session=opener(self.fakes),
            last_known=KeptLists(self._disk),
            reader=self._reader,
        )
        begun = trio.current_time()
        durable = DurableSessions(Signer(KEY), KeptMemory(self._disk, "sessions"), lambda: 1e9 + trio.current_time())
        assert trio.current_time() == begun
        self.api = DaemonApi(self.hub)
        self.endpoint = Endpoint(Open(), self.hub.router, self.hub.hosts, durable)
        self._over = trio.Event()
        await self.nursery.start(self._run)
        self.is_down = False
        for host in self.hosts:
            if not host.gone:  # type: ignore[attr-defined]
                await host.come_back()  # type: ignore[attr-defined]

    async def _run(self, *, task_status: trio.TaskStatus[None]) -> None:
        over = self._over
        async with trio.open_nursery() as self.hub_nursery:
            await self.hub_nursery.start(self.hub.run)
            self.hub_nursery.start_soon(self.endpoint.run)
            task_status.started()
        over.set()

    async def stop(self, *, orderly: bool) -> None:
        """Stop the hub as its daemon does; or kill it."""
        if orderly:
            with trio.move_on_after(self.hub.config.drain_s):
                await self._drain()
        self.is_down = True
        self._disk.broken = not orderly
        for host in self.hosts:
            host.cut()  # type: ignore[attr-defined]
        self.hub_nursery.cancel_scope.cancel()
        await self._over.wait()
        await trio.testing.wait_all_tasks_blocked()

    async def _drain(self) -> None:
        lines = [host for host in self.hub.hosts if isinstance(host, Attached)]
        for host in lines:
            host.goodbye()
        self.hub.subscriptions.end_streams()
        self.endpoint.drain()
        with trio.move_on_after(PARTING_S):
            for host in lines:
                if host.parted is not None:
                    await host.parted.wait()
        await self.hub.hosts.requests.wait_none()
        for host in lines:
            await host.flush()

    async def host(self, carrier: str = "lines", version: str = "", **more: Any) -> Any:
        """Attach a host, with the arguments of `House.host`."""
        host = KINDS[carrier](self, version, more.pop("identity"), "")
        host.capabilities = more.pop("capabilities", {})
        for name, value in more.items():
            setattr(host, name, value)
        self.hosts.append(host)
        await host.open()
        return host
