"""Large messages find their memory ready: they cost next to no page faults, and it is given back when all is quiet.

Counted are the minor faults of the hub's own process (`/proc/PID/stat`). They do not depend on the speed or load of the
machine.
"""

import platform
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from tests.guard.count_calls import HttpHost, hub

pytestmark = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc is told to keep freed memory")

MOST = 5
"""Minor faults per request."""
WARM_UP = 20
REQUESTS = 50
RUNS = 3
MB = 1 << 20
NAMES = ("echo", *(f"echo{number}" for number in range(2, 11)))
"""Ten servers with a hundred tools each: a single one with all would leave the C library used to large blocks."""


def _list(host: HttpHost) -> int:
    return len(host.ask("tools/list", {}))


def _large_reply(host: HttpHost) -> int:
    arguments = {"text": "x" * 1024, "times": 1024}
    return len(host.ask("tools/call", {"name": "echo__echo", "arguments": arguments}))


def _large_both_ways(host: HttpHost) -> int:
    return len(host.ask("tools/call", {"name": "echo__echo", "arguments": {"text": "x" * MB}}))


def faults(pid: int) -> int:
    """Minor page faults of the process so far."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[7])


def count_faults(directory: Path, request: Callable[[HttpHost], int], least: int) -> float:
    """Page faults per request, the least of all runs; each answer has at least `least` bytes."""
    program = sys.executable, "-m", "hub"
    with hub(directory, *program, server=["hundred"], names=NAMES) as (env, process):
        port = int(process.wait_for(r"https?://[^\s\"]+:(\d+)/mcp")[1])
        token = Path(env["XDG_STATE_HOME"], "hubd", "token").read_text().strip()
        with closing(HttpHost(port, token, "legacy", 1)) as host:
            for _ in range(WARM_UP):
                assert request(host) >= least
            found = []
            for _ in range(RUNS):
                before = faults(process.pid)
                for _ in range(REQUESTS):
                    request(host)
                found.append((faults(process.pid) - before) / REQUESTS)
    return min(found)


@pytest.mark.in_turn(1)
@pytest.mark.parametrize(
    ("request_", "least"),
    [
        pytest.param(_list, 600_000, id="list of 1 000 tools"),
        pytest.param(_large_reply, MB, id="1 MB in the reply"),
        pytest.param(_large_both_ways, MB, id="1 MB both ways"),
    ],
)
def test_a_large_message_costs_next_to_no_page_faults(request_, least, tmp_path):
    cost = count_faults(tmp_path, request_, least)
    assert cost <= MOST, f"{cost:.1f} page faults per request"
