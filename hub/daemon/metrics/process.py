"""Metrics of the process, under the names that clients of Prometheus give them."""

import os
import sys
import time
from collections.abc import Iterator
from typing import Final

from hub.app import WALL
from hub.linux.processes import PROC, find_stat
from hub.telemetry.prometheus_text import Family
from hub.wire.mcp import HUBD_VERSION

_SELF: Final = PROC / "self"
_TICKS: Final = os.sysconf("SC_CLK_TCK")
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")


def tell_process() -> Iterator[Family]:
    """What is told of this process. Raises OSError: the system does not tell."""
    build = (("version", HUBD_VERSION), ("python", ".".join(map(str, sys.version_info[:3]))))
    yield Family("hubd_build_info", "gauge", "The hub that is running.", [(build, 1)])
    if (stat := find_stat(os.getpid())) is not None:
        since_s = time.clock_gettime(time.CLOCK_BOOTTIME) - stat.began / _TICKS
        text = "Start of the hub, in seconds since 1970."
        yield Family("process_start_time_seconds", "gauge", text, [((), round(WALL() - since_s, 2))])
    text = "Processor time of the hub, without its servers."
    yield Family("process_cpu_seconds_total", "counter", text, [((), round(time.process_time(), 3))])
    pages = int((_SELF / "statm").read_text().split()[1])
    yield Family("process_resident_memory_bytes", "gauge", "Memory of the hub.", [((), pages * _PAGE)])
    text = "Open file descriptors of the hub."
    yield Family("process_open_fds", "gauge", text, [((), len(os.listdir(_SELF / "fd")))])
