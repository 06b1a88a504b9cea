"""The control socket's client, for the command line: blocking, on plain sockets, without trio (which costs 90 ms)."""

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Final, cast

CONNECT_S: Final = 5.0
ANSWER_S: Final = 30.0
STOP_S: Final = 60.0


class HubNotRunning(Exception):
    """Nothing answers on the control socket. The text is one sentence that says what to do."""


class ControlFailed(Exception):
    """The hub refused or failed a control request."""


class ControlClient:
    """One connection to a running daemon. Requests are answered one after the other.

    Every method raises HubNotRunning when the daemon goes away meanwhile, and ControlFailed for its refusals.
    """

    def __init__(self, path: Path) -> None:
        """Connect.

        Raises:
            HubNotRunning: nothing listens at `path`.
        """
        self._path = path
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(CONNECT_S)
        try:
            self._socket.connect(str(path))
        except OSError as error:
            self._socket.close()
            raise self._not_running(error) from None
        self._file = self._socket.makefile("rb")
        self._last_id = 0

    def __enter__(self) -> "ControlClient":
        return self

    def __exit__(
        self, type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._file.close()
        self._socket.close()

    def status(self) -> dict[str, Any]:
        """Everything `hubd status` shows."""
        return cast(dict[str, Any], self._request("status", {}, ANSWER_S))

    def tools(self) -> list[dict[str, Any]]:
        """The merged tools as hosts see them."""
        return cast(list[dict[str, Any]], self._request("tools", {}, ANSWER_S))

    def call(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """The result of a tool call, or an object with the member `error`. Waits as long as the hub does (D-15)."""
        return cast(dict[str, Any], self._request("call", {"name": name, "arguments": arguments}, None))

    def cache(self) -> dict[str, Any]:
        """Everything `hubd cache` shows; see `cache.facts.CacheFacts`."""
        return cast(dict[str, Any], self._request("cache", {}, ANSWER_S))

    def cache_clear(self, name: str | None) -> int:
        """Have what was read of an upstream, or of all, forgotten; how many resources that were."""
        params = {} if name is None else {"name": name}
        return int(cast(dict[str, Any], self._request("cache_clear", params, ANSWER_S))["cleared"])

    def restart(self, name: str) -> None:
        """Start an upstream anew, without waiting for it."""
        self._request("restart", {"name": name}, ANSWER_S)

    def reload(self) -> dict[str, Any]:
        """Have the configuration read again; what came of it."""
        return cast(dict[str, Any], self._request("reload", {}, ANSWER_S))

    def logs(self, name: str, lines: int) -> list[dict[str, Any]]:
        """The last records of an upstream's journal, oldest first; see `upstreams.journal.Record`."""
        return self._logs(name, lines, follow=False)

    def follow(self, name: str, lines: int) -> Iterator[dict[str, Any]]:
        """As `logs`, and then for ever those that come. A record of the kind `lost` says how many are missing."""
        yield from self._logs(name, lines, follow=True)
        self._socket.settimeout(None)
        while True:
            try:
                line = self._file.readline()
            except OSError as error:
                raise self._not_running(error) from None
            if not line:
                raise HubNotRunning("the hub has stopped")
            params = json.loads(line)["params"]
            if lost := params["lost"]:
                yield {**params["records"][0], "kind": "lost", "text": f"{lost} records were lost: too slow a reader"}
            yield from params["records"]

    def _logs(self, name: str, lines: int, *, follow: bool) -> list[dict[str, Any]]:
        params = {"name": name, "lines": lines, "follow": follow}
        answer = cast(dict[str, Any], self._request("logs", params, ANSWER_S))
        return cast(list[dict[str, Any]], answer["records"])

    def stop(self) -> None:
        """Stop the daemon; returns when it has ended."""
        self._request("stop", {}, ANSWER_S)
        self._socket.settimeout(STOP_S)
        try:
            while self._file.readline():
                pass
        except TimeoutError:
            raise ControlFailed(f"the hub was told to stop and has not ended after {STOP_S:.0f} s") from None
        except OSError:
            return

    def _request(self, method: str, params: dict[str, Any], timeout_s: float | None) -> object:
        self._last_id += 1
        message = {"jsonrpc": "2.0", "id": self._last_id, "method": method, "params": params}
        self._socket.settimeout(timeout_s)
        try:
            self._socket.sendall(json.dumps(message).encode() + b"\n")
            line = self._file.readline()
        except TimeoutError:
            raise ControlFailed(f"the hub did not answer within {timeout_s:.0f} s") from None
        except OSError as error:
            raise self._not_running(error) from None
        if not line:
            raise HubNotRunning("the hub stopped before it answered; `hubd serve` starts it again")
        answer = json.loads(line)
        if "error" in answer:
            raise ControlFailed(answer["error"]["message"])
        return answer["result"]

    def _not_running(self, error: OSError) -> HubNotRunning:
        if isinstance(error, FileNotFoundError | ConnectionRefusedError):
            return HubNotRunning(f"no hub is running (nothing listens on {self._path}); `hubd serve` starts one")
        return HubNotRunning(f"the hub on {self._path} cannot be reached: {error.strerror or error}")
