"""Real servers that npx installs into an empty cache, and caches that are broken."""

import os
import shutil
import signal
from pathlib import Path

import pytest

from tests.support.npx_servers import FEW, MEMORY, a_cold_hub
from tests.support.restarts import TICK

pytestmark = pytest.mark.everything

SHORT_S = 2
"""Shorter than any install takes."""


@pytest.mark.covers("FH-3")
@pytest.mark.timeout(600)
def test_servers_get_the_time_of_their_install_and_mend_a_cache_that_lost_a_package(tmp_path):
    with a_cold_hub(tmp_path, FEW, start_s=SHORT_S) as hub:
        servers = hub.until_connected(within_s=300)
        assert [each["ends_lately"] for each in servers.values()] == [0, 0], "no attempt failed"
        folder = hub.folder(MEMORY)
        shutil.rmtree(folder / "node_modules" / "zod")
        hub.hubd("restart", "memory")
        servers = hub.until(
            lambda all: all["memory"]["last_error"] and all["memory"]["state"] == "connected", within_s=300
        )
        assert "incomplete (ERR_MODULE_NOT_FOUND); it was moved aside" in servers["memory"]["last_error"]
        assert str(folder) in servers["memory"]["last_error"]
        assert (folder.parent / f"{folder.name}.broken-1" / "package.json").is_file()
        assert (folder / "node_modules" / "zod").is_dir()
        assert servers["thinking"]["state"] == "connected"


@pytest.mark.covers("FH-3")
@pytest.mark.timeout(600)
@pytest.mark.parametrize("at", ["concurrency.lock", "node_modules"])
def test_an_install_that_was_killed_is_done_again(tmp_path, at):
    with a_cold_hub(tmp_path, {"memory": [MEMORY]}, start_s=SHORT_S) as hub:
        lock = hub.folder(MEMORY) / "concurrency.lock"
        while not (lock.parent / at).exists():
            TICK.wait(0.01)
        os.killpg(installer(hub.npx), signal.SIGKILL)
        if lock.is_dir():
            os.utime(lock, (0, 0))  # npm waits for a minute else
        hub.until_connected(within_s=300)


def installer(npx):
    """The process group of npm at work for this cache."""
    home = f"HOME={npx.parents[1]}".encode()
    for path in Path("/proc").iterdir():
        if path.name.isdigit():
            try:
                argv, environ = (path / "cmdline").read_bytes(), (path / "environ").read_bytes()
            except OSError:
                continue
            if argv.startswith((b"npm", b"node")) and home in environ.split(b"\0"):
                return os.getpgid(int(path.name))
    raise AssertionError("npm is not at work")
