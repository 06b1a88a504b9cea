"""A hub that plays one sign-in: real sockets, and answers of a test's choice; for the command line."""

import json
import queue
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from hub.daemon.bind_unix import bind_unix

ISSUER = "https://id.example"
URL = "http://127.0.0.1:8765/oauth/begin/ticket"
AUTHORIZATION_URL = "https://id.example/authorize?state=abc&client_id=x"
STEP = {
    "issuer": ISSUER,
    "scope": "notes.read offline_access",
    "server_url": "https://notes.example/mcp",
    "url": URL,
    "authorization_url": AUTHORIZATION_URL,
    "port": 8765,
    "expires_s": 600.0,
}
SIGNED_IN = {
    "upstream": "notes",
    "principal": "local",
    "state": "signed_in",
    "text": "signed in",
    "issuer": ISSUER,
    "scope": "notes.read",
    "until": None,
    "renewable": True,
}
CONNECTED = {"name": "notes", "state": "connected", "counts": {"tools": 12}, "tokens": 900}


class SignInHub:
    """What it was asked is in `asked`. `steps` are the first steps of its sign-ins, the last one again and again."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.steps: list[Mapping[str, Any]] = [STEP]
        self.answers: dict[str, Any] = {}
        """Results by method; a text is an error."""
        self.upstreams: list[Mapping[str, Any]] = [CONNECTED]
        self.files: list[str] = []
        """What it has read."""
        self.outcomes: queue.Queue[Mapping[str, Any] | None] = queue.Queue()
        """Of the sign-in that runs; None: the hub hangs up."""
        self.good_addresses: dict[str, Mapping[str, Any]] = {}
        """Addresses that may be pasted, and the outcomes."""

    def params(self, method: str) -> list[dict[str, Any]]:
        """The params of all requests of this kind."""
        return [params for name, params in self.asked if name == method]

    def serve(self, connection: socket.socket) -> None:
        with connection, suppress(OSError):
            for line in connection.makefile("rb"):
                request = json.loads(line)
                self.asked.append((request["method"], request["params"]))
                if not self._answer(connection, request):
                    return

    def _answer(self, connection: socket.socket, request: dict[str, Any]) -> bool:
        method, params = request["method"], request["params"]
        result = self._result(method, params)
        said = {"error": {"code": -32603, "message": result}} if isinstance(result, str) else {"result": result}
        _send(connection, {"jsonrpc": "2.0", "id": request["id"], **said})
        if method == "sign_in" and isinstance(result, Mapping) and not result.get("unusual"):
            outcome = self.outcomes.get()
            if outcome is None:
                return False
            _send(connection, {"jsonrpc": "2.0", "method": method, "params": {"outcome": outcome}})
        return True

    def _result(self, method: str, params: dict[str, Any]) -> Any:
        if method in self.answers:
            return self.answers[method]
        if method == "sign_in":
            return self.steps.pop(0) if len(self.steps) > 1 else self.steps[0]
        if method == "sign_in_finish":
            return self.good_addresses.get(params["address"], "This hub did not begin the sign-in of that address")
        if method == "status":
            return {"upstreams": self.upstreams, "config": {"files": self.files, "watched": self.files}}
        if method == "reload":
            return {"summary": "changed", "pending": [], "warnings": []}
        return f"There is no control method {method}"


def _send(connection: socket.socket, message: object) -> None:
    connection.sendall(json.dumps(message).encode() + b"\n")


@contextmanager
def sign_in_hub(env: Mapping[str, str]) -> Iterator[SignInHub]:
    """The hub that commands with this environment find."""
    directory = Path(env["XDG_RUNTIME_DIR"], "hubd")
    directory.mkdir(mode=0o700, exist_ok=True)
    hub = SignInHub()
    threads: list[threading.Thread] = []

    def accept(listener: socket.socket) -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            each = threading.Thread(target=hub.serve, args=(connection,), daemon=True)
            each.start()

    with bind_unix(directory / "control.sock") as control, bind_unix(directory / "hubd.sock") as lines:
        for listener in (control, lines):
            listener.setblocking(True)
            threads.append(threading.Thread(target=accept, args=(listener,), daemon=True))
            threads[-1].start()
        try:
            yield hub
        finally:
            hub.outcomes.put(None)
            for listener in (control, lines):
                listener.shutdown(socket.SHUT_RDWR)
    for thread in threads:
        thread.join(10)
