"""A hub that counts its work: Python function calls, system calls, objects in reference cycles.

    python counted_hub.py ARGS      the arguments of `hubd serve`

SIGUSR2 starts the count, the next one ends it: then one line of JSON on standard output says `calls` (frames that were
entered, resumed coroutines among them), `system` (system calls of the main thread on sockets, pipes and epoll) and
`cycles` (objects that only the collector freed).
"""

import gc
import json
import os
import signal
import sys
from types import FrameType

from hub.cli.main import main

SYSTEM = frozenset(
    {
        "poll",
        "register",
        "modify",
        "unregister",
        "read",
        "write",
        "readv",
        "writev",
        "recv",
        "recv_into",
        "recvmsg",
        "send",
        "sendmsg",
        "sendall",
        "accept",
    }
)
"""Names of C functions of `os`, of sockets and of epoll, each of which is one system call."""
OF = ("posix", "_socket", "select")


class Count:
    """The counts since the last start."""

    def __init__(self) -> None:
        self.is_on = False
        self.calls = 0
        self.system = 0

    def event(self, frame: FrameType, event: str, what: object) -> None:
        """A profile event of the main thread."""
        if event == "call":
            self.calls += 1
        elif event == "c_call" and getattr(what, "__name__", "") in SYSTEM and _is_system(what):
            self.system += 1

    def turn(self, *_: object) -> None:
        """Start or end the count. The output comes last, so that the next signal finds it ready."""
        self.is_on = not self.is_on
        if self.is_on:
            gc.collect()
            gc.disable()
            self.calls = self.system = 0
            sys.setprofile(self.event)
            os.write(1, b"counting\n")
        else:
            sys.setprofile(None)
            found = {"calls": self.calls, "system": self.system, "cycles": gc.collect()}
            gc.enable()
            os.write(1, json.dumps(found).encode() + b"\n")


def _is_system(function: object) -> bool:
    owner = getattr(function, "__self__", None)
    module = owner.__name__ if isinstance(owner, type(os)) else type(owner).__module__
    return module in OF or isinstance(owner, __import__("socket").socket)


if __name__ == "__main__":
    signal.signal(signal.SIGUSR2, Count().turn)
    sys.exit(main(["serve", *sys.argv[1:]]))
