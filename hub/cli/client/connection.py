"""A session with the hub, as a host on its unix socket: blocking, without trio (which costs 90 ms to import)."""

import json
import socket
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from io import BufferedReader
from itertools import count
from typing import Any, Final, Self

from config.loading.checks.profiles import OWN_LABEL
from hub.cli.background_hub import connect_or_start
from hub.cli.client.person_at_terminal import Terminal
from hub.cli.context import Context
from hub.control.client_errors import ControlFailed, HubNotRunning, NotUnderstood
from hub.control.interruptible_wait import readable
from hub.wire.mcp import HUBD_VERSION, L4
from hub.wire.vocabulary import FOR_PEOPLE, METHOD_NOT_FOUND

MAX_BYTES: Final = 256 << 20
"""The longest line that is read, as long as the hub sends any."""
MAX_PAGES: Final = 1000

Object = dict[str, Any]


def for_people(facts: Any) -> str:
    """The sentence for people among the facts of a refusal of the hub; "": its text does, or it is no such refusal."""
    return str(facts.get(FOR_PEOPLE) or "") if isinstance(facts, dict) else ""


class CallRefused(ControlFailed):
    """The hub, or the server behind it, answered a request with an error."""

    def __init__(self, error: Mapping[str, Any]) -> None:
        super().__init__(for_people(error.get("data")) or str(error.get("message", "")))
        self.error = dict(error)
        """The error object of JSON-RPC."""


class _PatientReader(socket.SocketIO):
    """The bytes of a socket; Ctrl-C always ends the wait for more."""

    def readinto(self, buffer: Any) -> int | None:
        readable([self.fileno()])
        return super().readinto(buffer)


class HubSession:
    """One session with the hub. Requests are answered one after the other; questions are asked while they run."""

    def __init__(self, stream: socket.socket, person: Terminal, label: str = "", profile: str | None = None) -> None:
        """Begin the session; `profile`: as a host of this profile. Raises HubNotRunning, ControlFailed, NotUnderstood:
        as `request`."""
        self._stream = stream
        self._file = BufferedReader(_PatientReader(stream, "r"))
        self._person = person
        self._ids = count(1)
        self._running: int | None = None
        self._send({"hubd": 1, "host": label, **({} if profile is None else {"profile": profile})})
        client = {"name": "hubd", "version": HUBD_VERSION}
        params = {"protocolVersion": L4, "capabilities": person.capabilities, "clientInfo": client}
        welcome = self.request("initialize", params)
        self.capabilities: Object = welcome.get("capabilities") or {}
        """The capabilities of the hub, that is, of all its servers."""
        self.instructions = str(welcome.get("instructions") or "")
        self.notify("notifications/initialized")

    def request(self, method: str, params: Mapping[str, Any] | None = None) -> Object:
        """Send a request; its result. Raises Refused: it was answered with an error; HubNotRunning: the hub went away
        meanwhile; NotUnderstood: what the hub says is no JSON-RPC."""
        self._running = next(self._ids)
        self._send({"jsonrpc": "2.0", "id": self._running, "method": method, "params": params or {}})
        while True:
            message = self._receive()
            if "method" in message:
                self._heed(message)
            elif message.get("id") in (self._running, None):  # without an id: this host is refused
                break
        self._running = None
        if isinstance(error := message.get("error"), dict):
            raise CallRefused(error)
        return _object(message.get("result"))

    def items(self, method: str, member: str) -> list[Object]:
        """All items of a list, page by page. Raises as `request`."""
        found: list[Object] = []
        cursor: Any = None
        for _ in range(MAX_PAGES):
            page = self.request(method, {} if cursor is None else {"cursor": cursor})
            found += [item for item in page.get(member) or () if isinstance(item, dict)]
            cursor = page.get("nextCursor")
            if cursor is None:
                break
        return found

    def notify(self, method: str, **params: Any) -> None:
        """Send a notification."""
        self._send({"jsonrpc": "2.0", "method": method, "params": params})

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """End the session. Ctrl-C cancels what runs: nobody waits for it any more."""
        if kind is not None and issubclass(kind, KeyboardInterrupt) and self._running is not None:
            self.notify("notifications/cancelled", requestId=self._running, reason="interrupted")
        self._file.close()
        self._stream.close()

    def _heed(self, message: Object) -> None:
        method, params = str(message["method"]), _object(message.get("params"))
        if "id" not in message:
            return self._person.told(method, params)
        reply: Object = {"jsonrpc": "2.0", "id": message["id"]}
        result = {} if method == "ping" else self._person.answer(method, params)
        if result is None:
            text = f"{method} is not answered on the command line"
            return self._send({**reply, "error": {"code": METHOD_NOT_FOUND, "message": text}})
        return self._send({**reply, "result": result})

    def _send(self, message: Object) -> None:
        with suppress(OSError):  # what the hub said before it went away, and that it did, is read
            self._stream.sendall(json.dumps(message).encode() + b"\n")

    def _receive(self) -> Object:
        try:
            line = self._file.readline(MAX_BYTES)
        except OSError as error:
            raise HubNotRunning(f"the hub went away: {error.strerror}") from None
        if not line:
            raise HubNotRunning("the hub stopped before it answered; the outcome is unknown")
        try:
            return _object(json.loads(line))
        except (ValueError, RecursionError):
            raise NotUnderstood("the hub answers what this version does not understand: no JSON") from None


def _object(value: Any) -> Object:
    return value if isinstance(value, dict) else {}


@contextmanager
def session(options: Context, profile: str | None = None) -> Iterator[HubSession]:
    """A session with the hub, which is started if need be. Progress, logs and questions go to standard error.
    `profile`: as a host of this profile. Raises: HubNotRunning, ControlFailed, NotUnderstood as `HubSession`."""
    output = options.output
    stream, started = connect_or_start()
    if started:
        output.remark("the hub was started")
    progress = output.progress
    with progress.live_lines() as redraw:

        def show(text: str) -> None:
            redraw([])
            progress.show(text)

        person = Terminal(
            attended=output.is_attended() and sys.stderr is not None and sys.stderr.isatty(),
            show=(lambda text: None) if output.json else show,
            live=lambda text: redraw([text] if text else []),
        )
        with HubSession(stream, person, OWN_LABEL, profile) as hub:
            yield hub
            redraw([])
