"""A home with ten hosts as people have them, for `hubd setup`.

Their files are those of `host_homes`. The programs that these name (`npx`, `uvx`, `docker`) are stand-ins that start
real MCP server processes, or fail as the real ones do.
"""

import contextlib
import json
import os
import shlex
import shutil
import stat
import sys
from pathlib import Path
from typing import Any

from config.editing.text import serverfile
from config.hosts.known_hosts import all_hosts
from tests.support import host_homes
from tests.support.commands import run_hubd
from tests.support.processes import own_directories

SCRIPTED = Path(__file__).with_name("scripted.py")
HOSTS = (
    *("claude-desktop", "claude-code", "cursor", "copilot", "junie", "cline", "codex", "gemini", "opencode", "kiro"),
)
SENTRY = "https://mcp.sentry.dev/mcp"
_SETPRIV = shutil.which("setpriv") or "setpriv"
AS_USER = () if os.geteuid() else (_SETPRIV, "--bounding-set=-dac_override,-dac_read_search")
"""Runs a command so that the modes of files hold for it, also if this is root."""
TOKEN = "ghp_" + 36 * "a"
DEAD = "http://127.0.0.1:1/mcp"
KIRO = """{
  "mcpServers": {
    "time": { "command": "uvx", "args": ["mcp-server-time==2025.7.1"], "disabled": false },
    "knowledge": { "command": "npx", "args": ["-y", "@modelcontextprotocol/server-memory@2025.8.4"] }
  },
  "powers": {"enabled": []}
}
"""
TRACE = "Traceback (most recent call last):\n  File \"server.py\", line 1\nModuleNotFoundError: No module named 'x'\n"
SERVERS = {
    "server-filesystem": {"tools": ["read_file", "write_file"]},
    "mcp-server-time": {"tools": ["get_current_time"]},
    "server-memory": {"tools": ["create_entities"]},
    "mcp-server-fetch": {"tools": ["fetch"]},
    "context7-mcp": {"tools": ["resolve"]},
    "server-everything": {"tools": ["echo", "add"]},
    "github-mcp-server": {"tools": ["search_code"]},
    "mcp-remote": {"start": [["stderr", TRACE], ["exit", 1]]},
}
"""Scripts of the servers, by a part of their package's name."""
SLOW = "context7-mcp"
WORKING = {
    "claude-desktop": ("filesystem",),
    "cursor": ("github",),
    "copilot": ("time",),
    "junie": ("memory",),
    "cline": ("fetch",),
    "codex": ("context7",),
    "opencode": ("everything",),
    "kiro": ("time", "knowledge"),
}
"""The servers that work in their hosts."""


class SetupHome:
    """The home, and commands that run in it."""

    def __init__(self, directory: Path, *, sentry: str = DEAD, servers: dict[str, list[str]] | None = None) -> None:
        """`sentry`: the URL that wants a sign-in; `servers`: command lines in place of the scripted ones."""
        self.directory = directory
        self.home = directory / "me"
        self.env = own_directories(directory) | {"HOME": str(self.home), "NO_COLOR": "1"}
        self.env["XDG_CONFIG_HOME"] = str(self.home / ".config")
        self.env["XDG_STATE_HOME"] = str(self.home / ".local" / "state")
        self.env["PATH"] = str(self._stand_ins(servers or {}))  # and nothing else: a real npx would be recorded first
        self.env["LANG"] = "C.UTF-8"
        self.paths = host_homes.write(self.home, *HOSTS)
        self.paths["kiro"].write_text(KIRO)
        changes = [("claude-code", SENTRY, sentry), ("cursor", "http://localhost:4100/mcp", DEAD)]
        changes.append(("opencode", "{env:LEVEL}", "{env:LANG}"))  # which a hub has, too, that a host starts
        for host, old, new in changes:
            path = self.paths[host]
            path.write_bytes(path.read_bytes().replace(old.encode(), new.encode()))

    def _stand_ins(self, servers: dict[str, list[str]]) -> Path:
        folder = self.directory / "bin"
        folder.mkdir()
        os.mkfifo(folder / "fetched")
        python = [sys.executable, "-I", "-S", str(SCRIPTED)]
        cases = []
        for name, script in SERVERS.items():
            command = shlex.join(servers.get(name) or [*python, json.dumps(script)])
            fetch = (
                shlex.join(["test", "-e", f"{folder}/cached"])
                + f" || /bin/cat {shlex.quote(f'{folder}/fetched')} >&2; "
            )
            check = f'test "$GITHUB_PERSONAL_ACCESS_TOKEN" = {TOKEN} || exit 1; '
            first = {SLOW: fetch, "github-mcp-server": check}.get(name, "")
            cases.append(f"    *{name}*) {first}exec {command} ;;")
        text = "\n".join(["#!/bin/sh", 'case "$*" in', *cases, "esac", 'echo "no such package" >&2', "exit 1", ""])
        for name in ("npx", "uvx", "docker"):
            (folder / name).write_text(text)
            (folder / name).chmod(stat.S_IRWXU)
        return folder

    def fetch(self) -> None:
        """Let the slow server be installed: those that wait start, and later ones do so at once."""
        folder = self.directory / "bin"
        (folder / "cached").touch()
        with contextlib.suppress(OSError):  # nobody waits
            os.close(os.open(folder / "fetched", os.O_WRONLY | os.O_NONBLOCK))

    def unfetch(self) -> None:
        """Let the slow server be installed anew at its next start."""
        (self.directory / "bin" / "cached").unlink()

    def entries(self, host: str, *, all: bool = False) -> list[dict[str, Any]]:
        """The entries of a host's file by which it starts programs, or all that are not turned off."""
        known = all_hosts()[host]
        found = serverfile.entries(known.shape, self.paths[host].read_text()).values()
        on = [each for each in found if not (known.off and each.items() >= known.off.items())]
        return [each for each in on if all or "command" in each]

    def hub_files(self) -> list[Path]:
        """The hub's own configuration."""
        return sorted(path for path in (self.home / ".config" / "hubd").rglob("*") if path.is_file())

    def contents(self) -> dict[str, bytes]:
        """The files of all hosts."""
        return {host: path.read_bytes() for host, path in self.paths.items()}

    def run(self, *arguments: str, code: int = 0) -> str:
        """What a command says."""
        done = run_hubd(arguments, self.env, timeout=110, prefix=AS_USER)
        assert done.returncode == code, done.stdout + done.stderr
        assert "Traceback" not in done.stderr.replace(TRACE, "")
        return done.stdout + done.stderr

    def told(self, *arguments: str, code: int = 0) -> dict[str, object]:
        """The one object that a command prints."""
        done = run_hubd([*arguments, "--json"], self.env, timeout=110, prefix=AS_USER)
        assert done.returncode == code, done.stdout + done.stderr
        found: dict[str, object] = json.loads(done.stdout)
        return found
