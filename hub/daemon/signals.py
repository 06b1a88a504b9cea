"""Signals to a hub: the first that is to stop it stops it in order, the second at once."""

import logging
import signal
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final

import trio

from upstreams.transports.stdio.orphans import THIS_HUB, kill_marked

log = logging.getLogger("hubd")

STOPS: Final = (signal.SIGTERM, signal.SIGINT)


@contextmanager
def received(*others: signal.Signals) -> Iterator[AsyncIterator[int]]:
    """The signals that stop a hub, and `others`. Those that come before it can obey, or after, change nothing."""
    for number in (*STOPS, *others):
        signal.signal(number, signal.SIG_IGN)
    with trio.open_signal_receiver(*STOPS, *others) as signals:
        yield signals


async def obey(
    signals: AsyncIterator[int],
    stop: Callable[[], None],
    hurry: Callable[[], None],
    others: Mapping[int, Callable[[], None]],
) -> None:
    """Call `stop` at the first signal, unless it is one of the `others`, which do what they stand for. At the second
    one call `hurry`, kill all children, and return (F-D-02)."""
    stops = 0
    async for number in signals:
        if number in others:
            others[number]()
            continue
        stops += 1
        if stops == 2:
            break
        stop()
    log.warning("stopping at once: children are killed, running calls end")
    hurry()
    await trio.to_thread.run_sync(kill_marked, THIS_HUB)
