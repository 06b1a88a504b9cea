"""The tree of tasks of a trio run as text, with the line at which each waits: for a test that hangs.

    <test 'test_caps'>
        tests/journeys/test_journey_subscriptions.py:333 in test_caps: error = await host.error(...)
        tests/support/house.py:63 in wait: await self.done.wait()
      nursery
        hub.app.Hub.run  (3 of these)
            hub/app.py:210 in run: await trio.sleep_forever()

Of each task the frames outside of libraries are shown, and the last frame in any case. Equal tasks, with all beneath
them, are shown once and counted.
"""

import linecache
import sysconfig
from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import Path
from types import FrameType
from typing import Any

import trio

ROOT = Path(__file__).parents[2]
STEP = "    "
OTHERS = tuple(sysconfig.get_paths()[name] for name in ("stdlib", "purelib", "platlib"))


def run_of_this_thread() -> Any:
    """The run of trio in this thread, if any: for a signal handler, which is not one of its tasks."""
    return getattr(trio._core._run.GLOBAL_RUN_CONTEXT, "runner", None)


def all_tasks(run: Any) -> list[trio.lowlevel.Task]:
    """The main task of a run and all beneath it, without trio's own."""
    found = [run.main_task] if run.main_task is not None else []
    for task in found:
        found += [child for nursery in task.child_nurseries for child in nursery.child_tasks]
    return found


def task_tree(run: Any) -> str:
    """The tree of all tasks of a run but trio's own."""
    main = run.main_task
    return "the run has not begun, or is over" if main is None else "\n".join(_lines(main))


def _lines(task: trio.lowlevel.Task) -> list[str]:
    lines = [task.name, *(STEP + each for each in _where(task))]
    for nursery in task.child_nurseries:
        if nursery.child_tasks:
            lines.append("  nursery" + (", cancelled" if nursery.cancel_scope.cancel_called else ""))
            lines += [STEP + line for line in _alike(map(_lines, nursery.child_tasks))]
    return lines


def _alike(trees: Iterable[list[str]]) -> Iterator[str]:
    for tree, same in groupby(sorted(trees)):
        count = len(list(same))
        yield tree[0] + (f"  ({count} of these)" if count > 1 else "")
        yield from tree[1:]


def _where(task: trio.lowlevel.Task) -> list[str]:
    frames = [(frame, line) for frame, line in task.iter_await_frames() if not _is_of_a_trap(frame)]
    if not frames:
        return ["is over"]
    own = [(frame, line) for frame, line in frames if _is_ours(frame)]
    if not own or own[-1] is not frames[-1]:
        own.append(frames[-1])
    return [_frame(frame, line) for frame, line in own]


def _frame(frame: FrameType, line: int) -> str:
    code = frame.f_code
    path = Path(code.co_filename)
    name = path.relative_to(ROOT) if path.is_relative_to(ROOT) and _is_ours(frame) else "/".join(path.parts[-2:])
    return f"{name}:{line} in {code.co_name}: {linecache.getline(code.co_filename, line).strip()}"


def _is_ours(frame: FrameType) -> bool:
    return not any(frame.f_code.co_filename.startswith(path) for path in OTHERS)


def _is_of_a_trap(frame: FrameType) -> bool:
    """Whether this is the last frame of each waiting task, which tells nothing."""
    return frame.f_code.co_filename.endswith("_traps.py")
