"""A hub in memory with its dashboard on a real port, and browsers that ask it: every header is theirs to choose."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import trio

from config.loading.assemble import Loaded
from hub.daemon.api import DaemonApi
from hub.daemon.bind_http import Bound, listen_tcp
from hub.daemon.dashboard.dependencies import Parts
from hub.daemon.dashboard.lazy_dashboard import Dashboard
from hub.daemon.decision_requests import DecisionRequests
from hub.daemon.http_listener import HttpListener
from hub.daemon.live.calls_and_overview import LiveRequests
from hub.daemon.reload import Reloader
from hub.sign_in.connection_owner import ConnectionOwners
from tests.support.fakes import FakeUpstream
from tests.support.house import House, a_house
from tests.support.http_client import Answer, Client
from tests.support.http_fakes import make_durable_sessions

ANOTHER_UID = 4242
OWN = ConnectionOwners(blind=False)
"""For it, programs of this user are its own, as those of a user without privileges are for a hub of theirs."""
STRANGE = ConnectionOwners(ANOTHER_UID, blind=False)
"""The same, for a hub of another user."""


class World:
    """A hub, and who looks at it."""

    def __init__(self, house: House, listener: HttpListener, dashboard: Dashboard) -> None:
        self.house = house
        self.hub = house.hub
        self.listener = listener
        self.dashboard = dashboard
        self.host = f"127.0.0.1:{listener.address[1]}"
        """The value of Host of a browser."""

    async def ticket(self, *, is_printed: bool = True) -> str:
        """A ticket, as the user gets it, and from now on the name in its address."""
        issued = self.dashboard.tickets.issue(is_printed=is_printed)
        self.host = f"{issued[1].host}:{self.listener.address[1]}"
        return issued[0]

    async def connect(self) -> Client:
        return Client(await trio.open_tcp_stream(*self.listener.address))

    async def ask(
        self, path: str, body: object = None, *, key: str = "", method: str = "", host: str = "", **fields: str
    ) -> Answer:
        """The answer to a request of a page: a GET without a body, a POST with one."""
        client = await self.connect()
        await client.send(self.request(path, body, key=key, method=method, host=host, **fields))
        answer = await client.head() if method == "HEAD" else await client.answer()
        await client.stream.aclose()
        return answer

    def request(
        self, path: str, body: object = None, *, key: str = "", method: str = "", host: str = "", **fields: str
    ) -> bytes:
        data = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        given = {"Host": host or self.host, "Accept": "application/json"}
        if key:
            given["Authorization"] = f"Bearer {key}"
        if body is not None:
            given |= {"Content-Type": "application/json", "Content-Length": str(len(data))}
        given |= {name.replace("_", "-"): value for name, value in fields.items()}
        lines = [f"{method or ('GET' if body is None else 'POST')} {path} HTTP/1.1"]
        return "\r\n".join([*lines, *(f"{name}: {value}" for name, value in given.items()), "", ""]).encode() + data

    async def sign_in(self) -> str:
        """The key of a page that was opened by a printed ticket."""
        answer = await self.ask("/ui/api/login", {"ticket": await self.ticket()})
        assert answer.status == 200, answer.body
        return json.loads(answer.body)["key"]

    async def read(self, path: str, key: str) -> Any:
        """What a page is told at `path` below `/ui/api/`."""
        answer = await self.ask(f"/ui/api/{path}", key=key)
        assert answer.status == 200, answer.body
        return json.loads(answer.body)

    async def do(self, action: str, given: object, key: str) -> tuple[int, Any]:
        """The outcome of an action: its status, and what is said."""
        answer = await self.ask(f"/ui/api/do/{action}", given, key=key)
        return answer.status, json.loads(answer.body)

    @asynccontextmanager
    async def page(self, key: str, query: str = "") -> AsyncIterator["Page"]:
        """A page that is open."""
        client = await self.connect()
        try:
            await client.send(self.request(f"/ui/api/feed{query}", key=key))
            answer = await client.head()
            assert answer.status == 200
            yield Page(client, answer)
        finally:
            client.stream.socket.close()


class Page:
    """A page with its stream of events."""

    def __init__(self, client: Client, answer: Answer) -> None:
        self.client = client
        self.answer = answer
        self._text = b""
        self._skipped: list[tuple[str, Any]] = []

    async def event(self) -> tuple[str, Any]:
        """The next event."""
        while b"\n\n" not in self._text:
            if not (chunk := await self.client.chunk()):
                raise EOFError
            self._text += chunk
        event, _, self._text = self._text.partition(b"\n\n")
        members = dict(line.split(": ", 1) for line in event.decode().split("\n") if not line.startswith(":"))
        return (members["event"], json.loads(members["data"])) if members else await self.event()

    async def until(self, name: str) -> Any:
        """The data of the first event of this name that was not asked for yet; those of other names may be, later."""
        with trio.fail_after(30):
            for at, (event, data) in enumerate(self._skipped):
                if event == name:
                    del self._skipped[at]
                    return data
            while (found := await self.event())[0] != name:
                self._skipped.append(found)
            return found[1]


async def _refuse_changes(*_: object) -> None:
    raise AssertionError("nothing is reloaded here")


@asynccontextmanager
async def a_dashboard(
    tmp_path: Any, monkeypatch: Any, fakes: dict[str, FakeUpstream] | None = None, *, owners: Any = OWN, **settings: Any
) -> AsyncIterator[World]:
    """A hub over `fakes` that knows its `owners`."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr("hub.sign_in.connection_owner.ConnectionOwners", lambda: owners)
    async with a_house(fakes or {}, **settings) as house, trio.open_nursery() as nursery:
        hub = house.hub
        listener = HttpListener(hub, Bound(listen_tcp("127.0.0.1:0")), make_durable_sessions())
        decisions = DecisionRequests(hub, tuple)
        reloader = Reloader(
            Loaded(config=hub.config), lambda: Loaded(config=hub.config), _refuse_changes, wall=lambda: 0.0
        )
        api = DaemonApi(hub, listener, reloader)
        trust = tmp_path / "trust.json"
        live = LiveRequests(hub, api.status)
        parts = Parts(hub, api, live, decisions, None, reloader, listener.status, listener.note_refusal, trust)
        dashboard = Dashboard(parts, lambda: listener.address, lambda: tmp_path / "dashboard")
        listener.dashboard = dashboard
        await nursery.start(listener.run)
        yield World(house, listener, dashboard)
        nursery.cancel_scope.cancel()
