"""Signals: the first SIGTERM or SIGINT stops the hub in order, the second at once."""

import logging
import signal
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final

import trio

from hub.linux.orphans import THIS_HUB, kill_marked

log = logging.getLogger("hubd")

STOPS: Final = (signal.SIGTERM, signal.SIGINT)


@contextmanager
def receive(*others: signal.Signals) -> Iterator[AsyncIterator[int]]:
    """Receive the signals that stop a hub, and `others`. Signals before and after that change nothing."""
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
    """Call `stop` at the first signal that stops; call the function of one of the `others`. At the second call `hurry`,
    kill all children, and return."""
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
