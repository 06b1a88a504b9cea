"""How often an idle hub wakes: a hub of its own with one connected server and one idle host on the unix socket.

    python tests/guard/idle_hub.py [seconds]

It lives in the home directory: in a directory for temporary files others make noise that its watches hear.

Counted are the voluntary context switches of all its threads (`/proc/PID/task/*/status`): each is a sleep that ended.
"""

import re
import sys
import tempfile
import threading
from contextlib import closing
from pathlib import Path

from tests.guard.count_calls import UnixHost, hub
from tests.support.processes import HUBD

SETTLE_S = 75
"""What is written after a start, and what lingers after a call, is over then, and files have been quiet for long."""


def wakes(pid: int) -> dict[str, int]:
    """Voluntary context switches so far, by thread: its number and name."""
    found = {}
    for task in Path(f"/proc/{pid}/task").iterdir():
        status = (task / "status").read_text()
        switches = re.search(r"^voluntary_ctxt_switches:\s*(\d+)$", status, re.M)
        assert switches
        found[f"{task.name} {(task / 'comm').read_text().strip()}"] = int(switches[1])
    return found


def count_wakes(directory: Path, seconds: float) -> dict[str, int]:
    """How often each thread of an idle hub woke within `seconds`."""
    with hub(directory, str(HUBD)) as (env, process):
        process.wait_for(r"https?://[^\s\"]+:(\d+)/mcp")
        with closing(UnixHost(f"{env['XDG_RUNTIME_DIR']}/hubd/hubd.sock", 1)) as host:
            host.round()
            threading.Event().wait(SETTLE_S)
            before = wakes(process.pid)
            threading.Event().wait(seconds)
            after = wakes(process.pid)
    return {thread: count - before.get(thread, 0) for thread, count in after.items()}


if __name__ == "__main__":
    span = float(sys.argv[1]) if len(sys.argv) > 1 else 30.0
    with tempfile.TemporaryDirectory(dir=Path.home()) as name:
        counts = count_wakes(Path(name), span)
    for thread, count in counts.items():
        sys.stdout.write(f"{count:6d}  {thread}\n")
    sys.stdout.write(f"{sum(counts.values()) / span:6.2f} wakes a second\n")
