"""A hub whose servers npx installs into a cache of its own, which is empty at first."""

import contextlib
import shutil
from collections.abc import Callable
from hashlib import sha512
from pathlib import Path

from tests.real.recorded import table
from tests.support.commands import run_hubd
from tests.support.looking import Rows, until, until_connected
from tests.support.processes import own_directories, running_hub

MEMORY = "@modelcontextprotocol/server-memory@2026.8.31"
THINKING = "@modelcontextprotocol/server-sequential-thinking@2026.8.31"
FEW = {"memory": [MEMORY], "thinking": [THINKING]}
MANY = {
    **FEW,
    "everything": ["@modelcontextprotocol/server-everything@2026.8.31"],
    "files": ["@modelcontextprotocol/server-filesystem@2026.8.31", "."],
    "context7": ["@upstash/context7-mcp@4.1.1"],
    "playwright": ["@playwright/mcp@0.0.83"],
    "notion": ["@notionhq/notion-mcp-server@2.5.2"],
    "github": ["@modelcontextprotocol/server-github@2025.4.8"],
}


class ColdHub:
    """A hub, and the cache of its servers."""

    def __init__(self, env: dict[str, str]) -> None:
        self._env = env
        self.npx = Path(env["HOME"], ".npm", "_npx")

    def folder(self, package: str) -> Path:
        """The folder that npx installs one package in."""
        return self.npx / sha512(package.encode()).hexdigest()[:16]

    def hubd(self, *argv: str) -> str:
        """What a command prints."""
        found = run_hubd(argv, self._env, timeout=300)
        assert found.returncode == 0, found.stderr
        return found.stdout

    def until(self, condition: Callable[[Rows], object], *, within_s: float) -> Rows:
        """Wait for what the servers do; the servers as they are then."""
        return until(self._env, condition, within_s=within_s)

    def until_connected(self, *, within_s: float) -> Rows:
        return until_connected(self._env, within_s=within_s)


@contextlib.contextmanager
def a_cold_hub(directory: Path, servers: dict[str, list[str]], *, start_s: float):
    """A hub that runs during the block."""
    env = own_directories(directory)
    npmrc = Path("~/.npmrc").expanduser()
    if npmrc.exists():
        shutil.copy(npmrc, env["HOME"])
    config = [
        table(name, command="npx", args=["-y", *args], timeouts={"start": start_s}) for name, args in servers.items()
    ]
    with running_hub(directory, "\n".join(config), auth="none") as hub:
        yield ColdHub(hub.env)
