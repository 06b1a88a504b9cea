"""A host as a program of its own, which starts the shim as hosts do: `busy_host.py HUBD LABEL`.

Reads calls, one a line as JSON: a tool, its arguments, and whether to wait for the end; answers those that it waits for
by what came of them. Whoever starts it is no program of a host, and so may decide as a person.
"""

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

INITIALIZE = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}


class BusyHost:
    """Such a program."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def call(self, tool: str, *, waits: bool = True, **arguments: object) -> Any:
        """The result of a call, or its error."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([tool, arguments, waits]) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline()) if waits else None


@contextlib.contextmanager
def busy_host(env: Mapping[str, str], label: str = "cursor", *, cwd: Path | None = None) -> Iterator[BusyHost]:
    """A host that is attached to the hub of this environment, and works in `cwd`."""
    argv = [sys.executable, __file__, str(Path(sys.prefix, "bin", "hubd")), label]
    argv = ["sh", "-c", '"$@"; exit', "sh", *argv]  # else it and this process are one program, as those of an app are
    with subprocess.Popen(
        argv, env=dict(env), cwd=cwd, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield BusyHost(process)
        assert process.stdin is not None
        process.stdin.close()


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main() -> None:
    hubd, label = sys.argv[1:]
    shim = subprocess.Popen(
        [hubd, "connect", "--host", label], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    assert shim.stdin is not None
    assert shim.stdout is not None

    def send(**message: object) -> None:
        assert shim.stdin is not None
        shim.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        shim.stdin.flush()

    def receive(id: int) -> dict[str, Any]:
        assert shim.stdout is not None
        for line in shim.stdout:
            message: dict[str, Any] = json.loads(line)
            if message.get("id") == id and "method" not in message:
                return message
        raise EOFError

    send(id=0, method="initialize", params=INITIALIZE)
    receive(0)
    send(method="notifications/initialized")
    send(id=1, method="tools/list", params={})
    receive(1)
    say("ready")
    for id, line in enumerate(sys.stdin, 2):
        tool, arguments, waits = json.loads(line)
        send(id=id, method="tools/call", params={"name": tool, "arguments": arguments})
        if waits:
            message = receive(id)
            say(json.dumps(message.get("result", message.get("error"))))
    shim.stdin.close()
    shim.wait()


if __name__ == "__main__":
    main()
