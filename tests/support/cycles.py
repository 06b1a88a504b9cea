"""Reference cycles, which stay in memory until a full collection, and an idle hub has none: exceptions that hold the
frames that hold them, and with these the messages in those frames.
"""

import gc
from collections import Counter
from collections.abc import Awaitable, Callable
from types import CoroutineType, FrameType, TracebackType

import trio
import trio.testing

OURS = ("hub.", "upstreams.", "cache.", "config.")
TIMES = 100


async def left_by(
    action: Callable[[], Awaitable[object]], times: int = TIMES, *, objects: bool = False
) -> dict[str, int]:
    """Run `action` again and again without the collector; returns the number of objects in cycles, by kind.

    Frames and exceptions; with `objects` also objects of ours, some of which know each other by design. Cycles of
    fixtures do not count.
    """
    for _ in range(3):  # what is made once and kept
        await action()
    await trio.testing.wait_all_tasks_blocked()
    gc.collect()
    gc.disable()
    try:
        for _ in range(times):
            await action()
        await trio.testing.wait_all_tasks_blocked()
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        found = Counter(filter(None, (_kind(it, objects) for it in gc.garbage)))
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
    return dict(found)


def _kind(it: object, objects: bool) -> str:
    if isinstance(it, FrameType):
        return f"frame of {it.f_code.co_qualname}" if "/tests/" not in it.f_code.co_filename else ""
    if isinstance(it, CoroutineType):
        return f"coroutine {it.__qualname__}" if "/tests/" not in it.cr_code.co_filename else ""
    if isinstance(it, BaseException | TracebackType) or (objects and type(it).__module__.startswith(OURS)):
        return type(it).__qualname__
    return ""
