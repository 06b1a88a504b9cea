"""The memory that an idle hub takes, and a session of a host: what is private to the process (`/proc/PID/status`)."""

import re
import sys
from contextlib import ExitStack, closing
from itertools import pairwise
from pathlib import Path

import pytest

from tests.guard.count_calls import HttpHost, hub

pytestmark = [
    pytest.mark.skipif(sys.dont_write_bytecode, reason="a hub that compiles itself takes five megabytes more"),
    pytest.mark.skipif(sys.version_info >= (3, 12), reason="the bounds are those of Python 3.11"),
]

IDLE_KB = 30_700
"""With one server over stdio, after the first host has come; the seed of hashes makes a difference of 1 400."""
SESSION_KB = 12.0
"""A session over HTTP, and the connection on which it has asked; its host does not listen."""
SESSIONS = 120
"""So many, twice: tables of Python that double at times (interned strings take half a megabyte) do so once."""


def _private_kb(pid: int) -> int:
    found = re.search(r"^RssAnon:\s*(\d+) kB$", Path(f"/proc/{pid}/status").read_text(), re.M)
    assert found
    return int(found[1])


def test_the_weight_of_a_hub_and_of_its_sessions(tmp_path: Path) -> None:
    program = sys.executable, "-m", "hub"
    with hub(tmp_path, *program) as (_, process):
        process.wait_for(r"https?://[^\s\"]+:(\d+)/mcp")  # it is compiled from now on
    with hub(tmp_path, *program) as (env, process), ExitStack() as hosts:
        port = int(process.wait_for(r"https?://[^\s\"]+:(\d+)/mcp")[1])
        token = Path(env["XDG_STATE_HOME"], "hubd", "token").read_text().strip()

        def come() -> None:
            hosts.enter_context(closing(HttpHost(port, token, "legacy", 1))).ask("tools/list", {})

        come()
        sizes = [_private_kb(process.pid)]
        for _ in range(2):
            for _ in range(SESSIONS):
                come()
            sizes.append(_private_kb(process.pid))
    assert sizes[0] <= IDLE_KB
    assert min(after - before for before, after in pairwise(sizes)) <= SESSION_KB * SESSIONS, sizes
