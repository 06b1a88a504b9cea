"""The open file descriptors of this process, for tests that must leave none behind.

Fewer than before are no fault: the garbage collector may close those of earlier tests at any time. A thread that an
earlier test did not wait for may open some meanwhile, and a busy kernel may tell of a closed connection late: so
what there is too many gets time to go, and what stays is named.
"""

import gc
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager

LOOKS = 600
"""With a pause between each, thirty seconds of real time: what is still open then was left."""


def open_descriptors() -> dict[int, str]:
    """What each open descriptor is of, without those in reference cycles of earlier tests."""
    gc.collect()
    found = {}
    for name in os.listdir("/proc/self/fd"):
        try:
            found[int(name)] = os.readlink(f"/proc/self/fd/{name}")
        except FileNotFoundError:
            continue  # the one by which they are listed
    return found


def left_open(before: dict[int, str]) -> list[str]:
    """What is open now and was not `before`; nothing if there are no more in all."""
    now = open_descriptors()
    return (
        [f"{number}: {of}" for number, of in now.items() if before.get(number) != of] if len(now) > len(before) else []
    )


def pause() -> None:
    """Let other threads and the kernel work, in real time: a clock that jumps does not wait for them."""
    time.sleep(0.05)  # noqa: TID251


@contextmanager
def no_descriptor_left() -> Iterator[None]:
    """There are no more descriptors in the end than before, at the latest after LOOKS."""
    before = open_descriptors()
    yield
    for _ in range(LOOKS):
        if not left_open(before):
            return
        pause()
    left = left_open(before)
    assert not left, left
