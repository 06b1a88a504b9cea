"""Savings by sharing: 5 hosts with 8 stdio servers each, with and without hubd, in processes and memory.

    .venv/bin/python tests/load/sharing.py

The servers are real ones, of Node and of Python (`make deps`). Every host shakes hands with all its servers and reads
their tools before anything is counted. Memory is PSS: pages that processes share are counted once.
"""

import contextlib
import json
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import psutil

from tests.support.processes import HUBD, NODE_ENV, PACKAGES, PYTHON_2, Process, own_directories

TESTS = Path(__file__).parent.parent

MODERN_META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}
HOSTS = 5
OFFICIAL = PACKAGES / "@modelcontextprotocol"
SERVERS = TESTS / "real" / "servers"
INITIALIZE = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "host", "version": "1"}}


class Taken(NamedTuple):
    """Number and memory of a set of processes. `servers`: how many of them are MCP servers."""

    processes: int
    servers: int
    pss_mb: float
    rss_mb: float
    tools: int
    """The tools that the last host sees."""


def servers(folder: Path) -> dict[str, list[str]]:
    """Eight commands: four of Node, four of Python."""
    (folder / "a").mkdir(exist_ok=True)
    (folder / "b").mkdir(exist_ok=True)
    files = OFFICIAL / "server-filesystem" / "dist" / "index.js"
    commands: dict[str, list[object]] = {
        "everything": ["node", OFFICIAL / "server-everything" / "dist" / "index.js"],
        "files-a": ["node", files, folder / "a"],
        "files-b": ["node", files, folder / "b"],
        "node": ["node", SERVERS / "node2_server.cjs", "node"],
        "time-utc": [PYTHON_2, "-m", "mcp_server_time", "--local-timezone", "UTC"],
        "time-rome": [PYTHON_2, "-m", "mcp_server_time", "--local-timezone", "Europe/Rome"],
        "py-a": [PYTHON_2, SERVERS / "py2_server.py", "a"],
        "py-b": [PYTHON_2, SERVERS / "py2_server.py", "b"],
    }
    return {name: [str(part) for part in command] for name, command in commands.items()}


def config(commands: dict[str, list[str]]) -> str:
    """A hubd.toml with these servers."""
    env = ", ".join(f"{name} = {json.dumps(value)}" for name, value in NODE_ENV.items())
    parts = ['listen = "127.0.0.1:0"\nstartup_grace_s = 60.0\n']
    for name, (command, *args) in commands.items():
        parts.append(
            f"[upstreams.{name}]\ncommand = {json.dumps(command)}\nargs = {json.dumps(args)}\nenv = {{ {env} }}\n"
        )
    return "\n".join(parts)


def attach(process: Process) -> int:
    """Attach to a server, or to all of them, over stdio; returns the number of tools."""
    answer = _ask(process, 1, "initialize", INITIALIZE)
    if "result" in answer:
        process.write(b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n')
        answer = _ask(process, 2, "tools/list", {})
    else:  # it speaks the newest revision only
        answer = _ask(process, 2, "tools/list", {"_meta": MODERN_META})
    return len(answer["result"]["tools"])


def _ask(process: Process, id: int, method: str, params: dict[str, object]) -> dict[str, Any]:
    process.write(json.dumps({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).encode() + b"\n")
    answer: dict[str, Any] = json.loads(process.wait_for(rf'"id":\s*{id}\b').string)
    return answer


def taken(roots: Sequence[psutil.Process], commands: dict[str, list[str]], tools: int) -> Taken:
    """Number and memory of these processes and their descendants."""
    everyone = {each for root in roots for each in (root, *root.children(recursive=True))}
    scripts = [command[1:] for command in commands.values()]
    found = [each for each in everyone if any(each.cmdline()[1:] == script for script in scripts)]
    memory = [each.memory_full_info() for each in everyone]
    return Taken(
        len(everyone), len(found), sum(each.pss for each in memory) / 1e6, sum(each.rss for each in memory) / 1e6, tools
    )


def without_hubd(folder: Path, hosts: int = HOSTS) -> Taken:
    """Measure hosts that each start all servers."""
    env = own_directories(folder) | NODE_ENV
    commands = servers(folder)
    with contextlib.ExitStack() as stack:
        started = []
        for host in range(hosts):
            tools = 0
            for name, command in commands.items():
                process = stack.enter_context(_running(command, folder / f"{host}-{name}.log", env))
                started.append(psutil.Process(process.pid))
                tools += attach(process)
        return taken(started, commands, tools)


def with_hubd(folder: Path, hosts: int = HOSTS) -> Taken:
    """Measure hosts that start `hubd connect`; the first one starts the daemon."""
    env = own_directories(folder)
    commands = servers(folder)
    directory = Path(env["XDG_CONFIG_HOME"], "hubd")
    directory.mkdir(mode=0o700)
    (directory / "hubd.toml").write_text(config(commands))
    with contextlib.ExitStack() as stack:
        stack.callback(_stop_hub, folder, env)
        started = []
        for host in range(hosts):
            process = stack.enter_context(_running([str(HUBD), "connect"], folder / f"{host}.log", env))
            started.append(psutil.Process(process.pid))
            tools = attach(process)
        lock = Path(env["XDG_RUNTIME_DIR"], "hubd", "hubd.lock")
        started.append(psutil.Process(int(lock.read_text())))
        return taken(started, commands, tools)


@contextlib.contextmanager
def _running(argv: Sequence[str], log: Path, env: dict[str, str]) -> Iterator[Process]:
    process = Process(argv, log, env=env)
    try:
        yield process
    finally:
        process.stop(patience_s=5)


def _stop_hub(folder: Path, env: dict[str, str]) -> None:
    stop = Process([HUBD, "stop"], folder / "stop.log", env=env)
    stop.exit_code()
    stop.stop()


def report(alone: Taken, shared: Taken) -> str:
    """The table of the README."""
    rows = [
        ("", "without hubd", "with hubd"),
        ("---", "---:", "---:"),
        ("MCP server processes", alone.servers, shared.servers),
        ("all processes (shims and daemon included)", alone.processes, shared.processes),
        ("memory, PSS", f"{alone.pss_mb:.0f} MB", f"{shared.pss_mb:.0f} MB"),
        ("memory, RSS", f"{alone.rss_mb:.0f} MB", f"{shared.rss_mb:.0f} MB"),
    ]
    return "\n".join(f"| {' | '.join(map(str, row))} |" for row in rows)


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="hubd-") as directory:
        folder = Path(directory)
        (folder / "alone").mkdir()
        (folder / "shared").mkdir()
        alone, shared = without_hubd(folder / "alone"), with_hubd(folder / "shared")
    sys.stdout.write(f"{HOSTS} hosts, 8 stdio servers each:\n\n{report(alone, shared)}\n")


if __name__ == "__main__":
    main()
