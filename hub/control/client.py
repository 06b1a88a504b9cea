"""The control socket's client, for the command line: blocking, on plain sockets, without trio (which costs 90 ms)."""

import json
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Final, cast

from hub.control.answers import ANSWERS, MORE_LOGS, OBJECT, Answer, Shape, misfit
from hub.net.peer_credentials import ForeignPeer, refuse_foreign_hub

CONNECT_S: Final = 5.0
STOP_S: Final = 60.0
PIECE_BYTES: Final = 1 << 18


class HubNotRunning(Exception):
    """Nothing answers on the control socket. The text is one sentence that says what to do."""


class ControlFailed(Exception):
    """The hub refused or failed a control request."""


class NotUnderstood(ControlFailed):
    """The hub answered what no hub of this version answers."""


class ControlClient:
    """One connection to a running daemon. Requests are answered one after the other.

    Every method raises HubNotRunning when the daemon goes away meanwhile, ControlFailed for its refusals and if it does
    not answer in time, and NotUnderstood if its answer is not of the shape or size that `answers` describes.
    """

    def __init__(self, path: Path, patience_s: float | None = None) -> None:
        """Connect. `patience_s`: for connecting and all answers together; by default as long as each may take.

        Raises:
            HubNotRunning: nothing listens at `path`, or another user does.
        """
        self._path = path
        self._patience_s = patience_s
        self._end_at = None if patience_s is None else _now() + patience_s
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(CONNECT_S if patience_s is None else min(CONNECT_S, patience_s))
        try:
            self._socket.connect(str(path))
            refuse_foreign_hub(self._socket, str(path))
        except OSError as error:
            self._socket.close()
            raise self._not_running(error) from None
        except ForeignPeer as error:
            self._socket.close()
            raise HubNotRunning(str(error)) from None
        self._received = bytearray()
        self._last_id = 0

    def __enter__(self) -> "ControlClient":
        return self

    def __exit__(
        self, type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._socket.close()

    def status(self) -> dict[str, Any]:
        """Everything `hubd status` shows."""
        return cast(dict[str, Any], self._request("status", {}))

    def tools(self) -> list[dict[str, Any]]:
        """The merged tools as hosts see them."""
        return cast(list[dict[str, Any]], self._request("tools", {}))

    def call(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """The result of a tool call, or an object with the member `error`. Waits as long as the hub does (D-15)."""
        return cast(dict[str, Any], self._request("call", {"name": name, "arguments": arguments}))

    def cache(self) -> dict[str, Any]:
        """Everything `hubd cache` shows; see `cache.statistics.CacheStatistics`."""
        return cast(dict[str, Any], self._request("cache", {}))

    def cache_clear(self, name: str | None) -> int:
        """Have what was read of an upstream, or of all, forgotten; how many resources that were."""
        params = {} if name is None else {"name": name}
        return int(cast(dict[str, Any], self._request("cache_clear", params))["cleared"])

    def restart(self, name: str) -> None:
        """Start an upstream anew, without waiting for it."""
        self._request("restart", {"name": name})

    def reload(self) -> dict[str, Any]:
        """Have the configuration read again; what came of it."""
        return cast(dict[str, Any], self._request("reload", {}))

    def logs(self, name: str, lines: int) -> list[dict[str, Any]]:
        """The last records of an upstream's journal, oldest first; see `upstreams.journal.journal.Record`."""
        return self._logs(name, lines, follow=False)

    def follow(self, name: str, lines: int) -> Iterator[dict[str, Any]]:
        """As `logs`, and then for ever those that come. A record of the kind `lost` says how many are missing."""
        yield from self._logs(name, lines, follow=True)
        expected = ANSWERS["logs"]._replace(shape=MORE_LOGS, patience_s=None)
        while True:
            line = self._line("logs", expected)
            if not line:
                raise HubNotRunning("the hub has stopped")
            params = self._understood("logs", line, MORE_LOGS)["params"]
            if (lost := params["lost"]) and params["records"]:
                yield {**params["records"][0], "kind": "lost", "text": f"{lost} records were lost: too slow a reader"}
            yield from params["records"]

    def _logs(self, name: str, lines: int, *, follow: bool) -> list[dict[str, Any]]:
        params = {"name": name, "lines": lines, "follow": follow}
        answer = cast(dict[str, Any], self._request("logs", params))
        return cast(list[dict[str, Any]], answer["records"])

    def stop(self) -> None:
        """Stop the daemon; returns when it has ended."""
        self._request("stop", {})
        until = _now() + STOP_S
        try:
            while self._received_more(until):
                self._received.clear()
        except TimeoutError:
            raise ControlFailed(f"the hub was told to stop and has not ended after {STOP_S:.0f} s") from None
        except OSError:
            return

    # --- one request and its answer

    def _request(self, method: str, params: dict[str, Any]) -> object:
        """The result.

        Raises:
            HubNotRunning, ControlFailed, NotUnderstood: as the class says.
        """
        self._last_id += 1
        message = {"jsonrpc": "2.0", "id": self._last_id, "method": method, "params": params}
        expected = ANSWERS[method]
        line = self._line(method, expected, json.dumps(message).encode() + b"\n")
        if not line:
            raise HubNotRunning("the hub stopped before it answered; `hubd serve` starts it again")
        answer = self._understood(method, line, OBJECT)
        if "error" in answer:
            refused = self._fitting(method, answer["error"], {"message!": str}, "error")
            raise ControlFailed(cast(dict[str, str], refused)["message"])
        return self._fitting(method, answer.get("result"), expected.shape, "result")

    def _line(self, method: str, expected: Answer, request: bytes = b"") -> bytes:
        """Send `request`; the next line of the hub's, b"" if it ends before that.

        Raises:
            HubNotRunning, ControlFailed, NotUnderstood: as the class says.
        """
        patience_s, until = self._patience_s or expected.patience_s, self._end_at
        if until is None and patience_s is not None:
            until = _now() + patience_s
        try:
            self._wait_until(until)
            if request:
                self._socket.sendall(request)
            seen = 0
            while (end := self._received.find(b"\n", seen)) < 0:
                seen = len(self._received)
                if seen > expected.max_bytes:
                    raise _not_understood(method, f"is larger than {expected.max_bytes >> 20} MiB")
                if not self._received_more(until):
                    return b""
        except TimeoutError:
            raise ControlFailed(f"the hub did not answer within {patience_s:.0f} s") from None
        except OSError as error:
            raise self._not_running(error) from None
        line = bytes(self._received[:end])
        del self._received[: end + 1]
        return line

    def _received_more(self, until: float | None) -> bool:
        """Wait for more bytes and keep them; False: there will be none.

        Raises:
            TimeoutError: nothing came until then.
            OSError: the connection is lost.
        """
        self._wait_until(until)
        data = self._socket.recv(PIECE_BYTES)
        self._received += data
        return bool(data)

    def _wait_until(self, until: float | None) -> None:
        """Have the socket wait no longer than that: all its waits together, and not each, which a few bytes now and
        then would prolong for ever.

        Raises:
            TimeoutError: it is later already.
        """
        left_s = None if until is None else until - _now()
        if left_s is not None and left_s <= 0:
            raise TimeoutError
        self._socket.settimeout(left_s)

    def _understood(self, method: str, line: bytes, shape: Shape) -> dict[str, Any]:
        """The object on a line.

        Raises:
            NotUnderstood: it is no JSON, or not of this shape.
        """
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            raise _not_understood(method, "is not JSON that can be read") from None
        return cast(dict[str, Any], self._fitting(method, value, shape, "message"))

    def _fitting(self, method: str, value: object, shape: Shape, name: str) -> object:
        """`value`, which is `name` of an answer.

        Raises:
            NotUnderstood: it is not of this shape.
        """
        if wrong := misfit(value, shape, name):
            raise _not_understood(method, f"is not of the shape expected (see its {wrong})")
        return value

    def _not_running(self, error: OSError) -> HubNotRunning:
        if isinstance(error, FileNotFoundError | ConnectionRefusedError):
            return HubNotRunning(f"no hub is running (nothing listens on {self._path}); `hubd serve` starts one")
        return HubNotRunning(f"the hub on {self._path} cannot be reached: {error.strerror or error}")


def _not_understood(method: str, why: str) -> NotUnderstood:
    todo = "is the hub that runs another version? Run `hubd stop`; the next host, or `hubd serve`, starts this one"
    return NotUnderstood(f"the hub's answer to `{method}` {why}; {todo}")


def _now() -> float:
    return time.monotonic()  # noqa: TID251 - nothing here runs under trio
