"""Mending: moves a broken folder of npx aside, once, so that the next attempt installs anew.

A folder that breaks again is not moved again before the server has been connected: then the package itself lacks
something, and an endless row of installs would help nobody. Nor is one from which another program runs.
"""

import logging
import os
from pathlib import Path
from typing import Final

import trio

from config.settings import UpstreamConfig
from upstreams.cold_start.gate import command_key
from upstreams.cold_start.npx_cache import Breakage, BrokenNpxCache, move_aside
from upstreams.remembered import RememberedFacts

log = logging.getLogger(__name__)

MENDED: Final = "npx_mended"
"""The section of the memory that lists servers whose folder was moved aside since they were connected last."""
MAX_COMMAND_BYTES: Final = 1 << 14
MAX_PROCESSES: Final = 1 << 16


def is_mended(config: UpstreamConfig, memory: RememberedFacts) -> bool:
    """True if the folder of this server was moved aside since it was connected last."""
    return memory.get(MENDED, command_key(config)) is not None


def forget_mending(config: UpstreamConfig, memory: RememberedFacts) -> None:
    """The server is connected."""
    memory.put(MENDED, command_key(config), None)


async def mend(name: str, config: UpstreamConfig, breakage: Breakage, memory: RememberedFacts) -> BrokenNpxCache:
    """Move the broken folder of a server aside, if that has not been done; the error that says what became of it.

    The sentence is for hosts; paths are in the notes, for `hubd status`. Cancellation: it is moved all the same.
    """
    text = f"{name} cannot start: its folder in the cache of npx is incomplete ({breakage.why})"
    if is_mended(config, memory):
        error = BrokenNpxCache(f"{text}, again after it was installed anew", breakage, upstream=name)
        error.add_note(f"remove it and restart the server, or ask the package's author: rm -r {breakage.folder}")
        return error
    if pid := await trio.to_thread.run_sync(user_of, breakage.folder):
        error = BrokenNpxCache(f"{text}, and another program runs from it", breakage, upstream=name)
        error.add_note(f"end process {pid} and restart the server, or remove it yourself: rm -r {breakage.folder}")
        return error
    memory.put(MENDED, command_key(config), breakage.folder.name)
    try:
        aside: Path = await trio.to_thread.run_sync(move_aside, breakage.folder)
    except OSError as error_of_move:
        error = BrokenNpxCache(f"{text}, and it cannot be moved aside", breakage, upstream=name)
        error.add_note(f"{error_of_move.strerror or error_of_move}; remove it yourself: rm -r {breakage.folder}")
        return error
    log.warning("%s: %s is incomplete (%s), and was moved to %s", name, breakage.folder, breakage.why, aside)
    error = BrokenNpxCache(f"{text}; it was moved aside, and npx installs it anew", breakage, upstream=name)
    error.add_note(f"{breakage.folder} is called {aside.name} now and may be removed")
    return error


def user_of(folder: Path) -> int:
    """The id of a living process whose command line names the folder; 0: there is none that can be seen. Blocks."""
    needle = os.fsencode(f"/{folder.parent.name}/{folder.name}/")
    try:
        names = os.listdir("/proc")
    except OSError:
        return 0
    for name in [name for name in names if name.isdigit()][:MAX_PROCESSES]:
        try:
            with open(f"/proc/{name}/cmdline", "rb") as file:
                if needle in file.read(MAX_COMMAND_BYTES):
                    return int(name)
        except OSError:  # it has ended, or is another user's
            continue
    return 0
