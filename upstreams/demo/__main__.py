"""The loop around `Demo`: standard input to standard output until input ends.

Without trio, so that the process stays small. It writes before it reads on, which is safe only because its client, the
hub, never stops reading.
"""

import contextlib
import math
import os
import select
import time
from datetime import datetime
from typing import Final

from upstreams.demo.server import Demo

READ_BYTES: Final = 1 << 16
STDIN: Final = 0
STDOUT: Final = 1

_clock = time.monotonic  # noqa: TID251 (no trio here, so not its clock either)


def main() -> None:
    """Serve until the client closes our input or stops reading our output."""
    with contextlib.suppress(BrokenPipeError, KeyboardInterrupt):
        _serve(Demo(lambda: datetime.now().astimezone().isoformat(" ", "seconds")))


def _serve(demo: Demo) -> None:
    pending = b""
    while True:
        due = demo.due()
        readable, _, _ = select.select([STDIN], [], [], None if due == math.inf else max(0.0, due - _clock()))
        if readable:
            if not (data := os.read(STDIN, READ_BYTES)):
                return
            *lines, pending = (pending + data).split(b"\n")
            for line in lines:
                if not line.isspace() and line:
                    _send(demo.receive(line, _clock()))
        _send(demo.tick(_clock()))


def _send(messages: list[bytes]) -> None:
    left = memoryview(b"".join(message + b"\n" for message in messages))
    while left:
        left = left[os.write(STDOUT, left) :]


if __name__ == "__main__":
    main()
