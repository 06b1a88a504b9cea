"""Several hubs of one configuration in one process, each with its HTTP on loopback, and a directory between them.

    fleet = Fleet(nursery)
    a, b = await fleet.start("a"), await fleet.start("b")
    host = await a.host()                   # its session is at `a`
    b.turn(host)                            # its requests now arrive at `b` first

A host's requests go to the endpoint of a hub without HTTP; messages between hubs go over sockets.
"""

from collections.abc import Awaitable
from pathlib import Path
from typing import Any

import trio
import trio.testing

from cache.shared_store import StoreUnreachable
from config.remembered_facts import Memory
from config.settings import HubConfig, UpstreamConfig
from hub.app import Hub
from hub.downstream.host_conversations import Hosts
from hub.downstream.http.durable_sessions import DurableSessions
from hub.downstream.http.endpoint import Endpoint
from hub.fleet import route_to_owner
from hub.fleet.membership import Membership, Registration
from hub.fleet.session_ownership import PublishedFacts, runs_of
from hub.link.call_interface import Identity
from hub.link.sealing import Keys, Sealer, Signer
from hub.net.http_request import EarlyReply
from hub.net.look_after_connections import HttpRequest, HttpServer
from hub.wire.mcp import L4
from tests.support.fakes import FakeUpstream, opener
from tests.support.http_fakes import ALICE, Answered, Host, Scripted

KEY = b"k" * 32
WHO = "x-who"


class Facts:
    """A directory in memory; `away`: it does not answer."""

    def __init__(self) -> None:
        self.values: dict[str, tuple[bytes, float]] = {}
        self.away = False
        self.asked: list[str] = []

    def present(self, name: str) -> bytes | None:
        if self.away:
            raise StoreUnreachable("away")
        value, until = self.values.get(name, (b"", 0.0))
        return value if until > trio.current_time() else None

    async def get(self, name: str) -> bytes | None:
        await trio.lowlevel.checkpoint()
        self.asked.append(name)
        return self.present(name)

    async def put(self, name: str, value: bytes, ttl_s: float) -> None:
        await trio.lowlevel.checkpoint()
        self.present(name)
        self.values[name] = value, trio.current_time() + ttl_s

    async def swap(self, name: str, old: bytes | None, new: bytes, ttl_s: float) -> bool:
        await trio.lowlevel.checkpoint()
        if self.present(name) != old:
            return False
        self.values[name] = new, trio.current_time() + ttl_s
        return True

    async def delete(self, name: str) -> None:
        await trio.lowlevel.checkpoint()
        self.present(name)
        self.values.pop(name, None)


class Open:
    """Access by a header that names the principal."""

    def check(self, request: HttpRequest) -> Identity | EarlyReply:
        return Identity(*request.headers[WHO].split(" "))

    def guard(self, request: HttpRequest) -> EarlyReply | None:
        request.identity = Identity(*request.headers[WHO].split(" "))
        return None


class FleetHost(Host):
    """A host that names its principal, so that another hub knows it, too."""

    async def http(self, method: str, body: bytes = b"", headers: Any = None, **more: Any) -> Answered:
        who = {WHO: f"{self.identity.principal} {self.identity.host}"}
        return await super().http(method, body, {**(headers or {}), **who}, **more)


class Replica:
    """One hub of a fleet."""

    router: Any
    hub: Hub | None = None

    def __init__(self, fleet: "Fleet", name: str, keys: Keys | bytes) -> None:
        self.fleet = fleet
        self.name = name
        self.keys = keys
        self.seen: list[HttpRequest] = []
        """The requests that arrived over its own HTTP."""
        self._scope = trio.CancelScope()
        self._over = trio.Event()

    async def host(self, version: str = L4, *, identity: Identity = ALICE, **more: Any) -> FleetHost:
        """A host with a session here."""
        host = FleetHost(self.gate, identity, **more)
        host.capabilities = {"elicitation": {}}
        await host.initialize(version)
        await host.notify("notifications/initialized")
        return host

    def turn(self, host: Any) -> Any:
        """Route the requests of `host` to this hub first."""
        host.endpoint = self.gate
        return host

    async def listen(self, host: Host, **headers: str | None) -> Answered:
        """The messages on a host's own stream; returns once the stream is open."""
        answered = Answered()
        self.fleet.nursery.start_soon(lambda: host.get(into=answered, **headers))
        await answered.arrived.wait()
        return answered

    def start(self, work: Any) -> Answered:
        """Begin a request; `work` gets the response to write."""
        answered = Answered()

        async def run() -> None:
            await work(answered)

        self.fleet.nursery.start_soon(run)
        return answered

    def handle(self, request: HttpRequest, response: Any) -> Awaitable[None] | None:
        self.seen.append(request)
        return self.gate.handle(request, response)

    async def run(self, *, task_status: trio.TaskStatus[None]) -> None:
        listener = (await trio.open_tcp_listeners(0, host="127.0.0.1"))[0]
        port = listener.socket.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        journal = Memory(self.fleet.path and self.fleet.path / f"{self.name}.json")
        notes = PublishedFacts(self.fleet.facts)
        self.durable = DurableSessions(Signer(self.keys), journal, lambda: self.fleet.now, self.name, notes.put)
        me = Registration(self.durable.run_id, self.name, self.url)
        self.membership = Membership(me, self.fleet.facts, self.durable.was_mine)
        try:
            with self._scope:
                async with trio.open_nursery() as nursery:
                    hosts = await self._make_router(nursery)
                    self.endpoint = Endpoint(Open(), self.router, hosts, self.durable)
                    self.gate = route_to_owner.OwnerRouter(
                        self.endpoint, route_to_owner.Fleet(self.membership, notes), self.durable, self.runs_of
                    )
                    self.server = HttpServer(self.handle, Open().guard)
                    await nursery.start(self.server.serve, [listener])
                    nursery.start_soon(self.endpoint.run)
                    nursery.start_soon(self.gate.run)
                    while not self.membership.status().registered and not self.fleet.facts.away:
                        await trio.lowlevel.checkpoint()
                    task_status.started()
        finally:
            self._over.set()

    async def _make_router(self, nursery: trio.Nursery) -> Hosts:
        if self.fleet.fakes is None:
            self.router = Scripted()
            return Hosts()
        fakes = {name: make() for name, make in self.fleet.fakes.items()}
        self.fakes: dict[str, FakeUpstream] = fakes
        config = HubConfig(upstreams={name: UpstreamConfig(command=name) for name in fakes})
        run = self.durable.run_id
        sealer, opens, is_elsewhere = Sealer(self.keys), opener(fakes), self.membership.is_elsewhere
        self.hub = hub = Hub(config, Memory(None), sealer, run_session=opens, run=run, is_elsewhere=is_elsewhere)
        await nursery.start(hub.run)
        self.router = hub.router
        return hub.hosts

    def runs_of(self, request: Any) -> tuple[str, ...]:
        return () if self.hub is None else runs_of(request, self.hub.states, self.hub.bridge.tasks.handles)

    async def kill(self) -> None:
        """End it as if its power had failed: nobody is told."""
        self._scope.cancel()
        await self._over.wait()

    async def stop(self) -> None:
        """Stop it in order: it leaves the fleet, then ends."""
        await self.gate.ownership.deregister()
        await self.kill()


class Fleet:
    """Hubs behind one balancer. `fakes` makes the upstreams of each; by default `Scripted` is the router."""

    def __init__(self, nursery: trio.Nursery, path: Path | None = None, fakes: Any = None) -> None:
        self.nursery = nursery
        self.path = path
        self.fakes = fakes
        self.facts = Facts()
        self.now = 1_800_000_000.0

    async def start(self, name: str, keys: Keys | bytes = KEY) -> Replica:
        """Start one more hub."""
        replica = Replica(self, name, keys)
        await self.nursery.start(replica.run)
        return replica

    def grow_old(self) -> None:
        """Let the directory look as if it had existed for long."""
        self.facts.values.pop("young", None)
