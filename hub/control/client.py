"""The control socket's client, for the command line: blocking, on plain sockets, without trio (which costs 90 ms).

hub.request(RESTART, name=x)        the result as its struct
hub.request_both(STATUS)            before it as the hub's JSON, for programs
"""

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, TypeVar, cast

from msgspec import ValidationError

from hub.control.client_errors import ControlFailed, HubHangs, HubNotRunning, NothingListens, NotUnderstood
from hub.control.hung_hub import QUIET_S, connect_within, pid_in_lock, refuse_hung
from hub.control.interruptible_wait import now_s, readable
from hub.control.methods import LOGS, STOP, Method, read
from hub.linux.peer_credentials import ForeignPeer, refuse_foreign_hub
from hub.linux.processes import hold

CONNECT_S: Final = 5.0
STOP_S: Final = 60.0
EXIT_S: Final = 10.0
"""Seconds that its process has to end after it has closed everything."""
PIECE_BYTES: Final = 1 << 18

Result = TypeVar("Result")


class ControlClient:
    """One connection to a running daemon. Requests are answered one after the other.

    Every method raises HubNotRunning when the daemon goes away meanwhile, HubHangs if it answers nobody, ControlFailed
    for its refusals and if it does not answer in time, and NotUnderstood if its answer is too large or not what
    `methods` describes."""

    def __init__(self, path: Path, patience_s: float | None = None, *, doubts: bool = True) -> None:
        """Connect. `patience_s`: for connecting and all answers together; by default as long as each may take.
        `doubts`: find out whether a silent hub hangs. Raises HubNotRunning: nothing listens at `path`, or another user
        does; HubHangs: too many wait there already."""
        self._path = path
        self._patience_s = patience_s
        self._doubts = doubts and patience_s is None
        self._end_at = None if patience_s is None else now_s() + patience_s
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connect_within(self._socket, path, CONNECT_S if patience_s is None else min(CONNECT_S, patience_s))
            refuse_foreign_hub(self._socket, str(path))
        except (OSError, ForeignPeer) as error:
            self._socket.close()
            raise self._failure(error) from None
        self._received = bytearray()
        self._last_id = 0

    def __enter__(self) -> "ControlClient":
        return self

    def __exit__(self, *_error: object) -> None:
        self._socket.close()

    def request(self, method: Method[Result], **params: object) -> Result:
        """Send a request; its result. `params` that are None are left out."""
        return self.request_both(method, **params)[1]

    def request_both(self, method: Method[Result], **params: object) -> tuple[Any, Result]:
        """As `request`; before the result the JSON of it that the hub sent, for programs."""
        self._last_id += 1
        given = {name: value for name, value in params.items() if value is not None}
        message = {"jsonrpc": "2.0", "id": self._last_id, "method": method.name, "params": given}
        line = self._line(method, method.answer_s, json.dumps(message).encode() + b"\n")
        if not line:
            raise HubNotRunning("the hub stopped before it answered; `hubd start` starts it again")
        answer = _object(method, line)
        if "error" in answer:
            raise ControlFailed(_message(method, answer["error"]))
        result = answer.get("result")
        return result, _read(method, result, "result")

    def follow(self, name: str | None, lines: int, **wanted: object) -> Iterator[dict[str, Any]]:
        """The last records of an upstream's journal, or of all, then new ones for ever; `wanted`: see `DaemonApi.logs`.
        Records of kind `lost` say how many are missing."""
        yield from self.request_both(LOGS, name=name, lines=lines, follow=True, **wanted)[0]["records"]
        while True:
            params, logs = self._further(LOGS)
            lost, records = logs.lost, params["records"]
            if lost and records:
                yield {**records[0], "kind": "lost", "text": f"{lost} records were lost: too slow a reader"}
            yield from records

    def further(self, method: Method[Result]) -> Result:
        """The next result of an endless method, after the one that `request` returned; waits as long as it takes."""
        return self._further(method)[1]

    def _further(self, method: Method[Result]) -> tuple[Any, Result]:
        line = self._line(method, None)
        if not line:
            raise HubNotRunning("the hub has stopped")
        params = _object(method, line).get("params")
        return params, _read(method, params, "params")

    @property
    def has_more(self) -> bool:
        """A further result was received already; else the socket gets readable when one comes."""
        return b"\n" in self._received

    def fileno(self) -> int:
        """The descriptor of the socket, to wait for several things at once."""
        return self._socket.fileno()

    def stop(self) -> None:
        """Stop the daemon; returns when its process has ended."""
        with hold(pid_in_lock(self._path)) as process:
            self.request(STOP)
            until = now_s() + STOP_S
            try:
                while self._received_more(until):
                    self._received.clear()
            except TimeoutError:
                raise ControlFailed(f"the hub was told to stop, but has not ended after {STOP_S:.0f} s") from None
            except OSError:
                pass
            if process is not None:  # readable once it has ended
                readable([process], EXIT_S)

    # --- one request and its answer

    def _line(self, method: Method[Any], patience_s: float | None, request: bytes = b"") -> bytes:
        """Send `request`; the next line of the hub's, b"" if it ends before that."""
        patience_s, until = self._patience_s or patience_s, self._end_at
        if until is None and patience_s is not None:
            until = now_s() + patience_s
        doubt_at = now_s() + QUIET_S if request and self._doubts else None
        try:
            left_s = self._limit(until)
            if request:
                self._socket.settimeout(left_s)
                self._socket.sendall(request)
            seen = 0
            while (end := self._received.find(b"\n", seen)) < 0:
                seen = len(self._received)
                if seen > method.max_bytes:
                    raise _not_understood(method, f"is larger than {method.max_bytes >> 20} MiB")
                try:
                    if not self._received_more(until if doubt_at is None or self._received else doubt_at):
                        return b""
                except TimeoutError:
                    if doubt_at is None or self._received:
                        raise
                    doubt_at = None
                    refuse_hung(self._path)
        except TimeoutError:
            raise ControlFailed(f"the hub did not answer within {patience_s:.0f} s") from None
        except OSError as error:
            raise self._failure(error) from None
        line = bytes(self._received[:end])
        del self._received[: end + 1]
        return line

    def _received_more(self, until: float | None) -> bool:
        """Wait for more bytes and keep them; False: the hub has ended the connection. TimeoutError: nothing came."""
        if not readable([self._socket.fileno()], self._limit(until)):
            raise TimeoutError
        data = self._socket.recv(PIECE_BYTES)
        self._received += data
        return bool(data)

    def _limit(self, until: float | None) -> float | None:
        """The seconds that are left for all waits together: a few bytes now and then would prolong a limit for each for
        ever. TimeoutError: there are none."""
        left_s = None if until is None else until - now_s()
        if left_s is not None and left_s <= 0:
            raise TimeoutError
        return left_s

    def _failure(self, error: OSError | ForeignPeer) -> HubNotRunning | HubHangs:
        if isinstance(error, ForeignPeer):
            return HubNotRunning(str(error))
        if isinstance(error, BlockingIOError):  # its backlog is full
            return HubHangs(pid_in_lock(self._path))
        if isinstance(error, FileNotFoundError | ConnectionRefusedError):
            return NothingListens(f"no hub is running (nothing listens on {self._path}); `hubd start` starts one")
        return HubNotRunning(f"the hub on {self._path} cannot be reached: {error.strerror or error}")


def _object(method: Method[Any], line: bytes) -> dict[str, Any]:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        raise _not_understood(method, "is not JSON that can be read") from None
    if not isinstance(value, dict):
        raise _not_understood(method, "is not of the shape expected (it is no message)")
    return value


def _message(method: Method[Any], error: object) -> str:
    if not (isinstance(error, dict) and isinstance(error.get("message"), str)):
        raise _not_understood(method, "is not of the shape expected (see its error.message)")
    return cast(str, error["message"])


def _read(method: Method[Result], value: object, name: str) -> Result:
    """`value`, the part `name` of an answer, as a result."""
    try:
        return read(method, value)
    except RecursionError:
        raise _not_understood(method, "is nested too deep") from None
    except ValidationError as error:
        text = str(error).replace("`$", f"`{name}") if "`$" in str(error) else f"{error} - at `{name}`"
        raise _not_understood(method, f"is not of the shape expected ({text})") from None


def _not_understood(method: Method[Any], why: str) -> NotUnderstood:
    todo = "is the running hub another version? Run `hubd stop`; the next host, or `hubd serve`, starts this one"
    return NotUnderstood(f"the hub's answer to `{method.name}` {why}; {todo}")
