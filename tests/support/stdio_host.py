"""A host that starts one entry of its file, as hosts do, and asks it for its tools."""

import json
import os
import signal
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}


class StdioHost:
    """A legacy host with one server over stdio."""

    def __init__(self, entry: Mapping[str, Any], env: Mapping[str, str]) -> None:
        command = entry["command"]
        words = command if isinstance(command, list) else [command, *entry.get("args", ())]
        variables = entry.get("env") or entry.get("environment") or {}
        self._popen = subprocess.Popen(
            words,
            env={**env, **{name: value for name, value in variables.items() if not value.startswith("{")}},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self._id = 0

    def __enter__(self) -> "StdioHost":
        return self

    def __exit__(self, *error: object) -> None:
        for pipe in (self._popen.stdin, self._popen.stdout):
            assert pipe is not None
            with suppress(BrokenPipeError):  # what an entry that is no server left unread
                pipe.close()
        os.killpg(self._popen.pid, signal.SIGKILL)
        self._popen.wait()

    def _send(self, **message: Any) -> None:
        assert self._popen.stdin is not None
        self._popen.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        self._popen.stdin.flush()

    def request(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """The result of a request."""
        assert self._popen.stdout is not None
        self._id += 1
        self._send(id=self._id, method=method, params=params)
        for line in self._popen.stdout:
            message = json.loads(line)
            if message.get("id") == self._id and "method" not in message:
                result: dict[str, Any] = message["result"]
                return result
        raise EOFError(method)

    def tools(self) -> list[str]:
        """The names of its tools; none, if it is no server."""
        try:
            self.request("initialize", HELLO)
            self._send(method="notifications/initialized")
            return [tool["name"] for tool in self.request("tools/list", {})["tools"]]
        except (EOFError, BrokenPipeError):
            return []
