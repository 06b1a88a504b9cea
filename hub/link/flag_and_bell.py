"""Two ways to wake tasks: a flag, which merges changes for one task, and a bell, which wakes everybody."""

import trio


class DirtyFlag:
    """Says that there is work to do, for one task that waits for it."""

    def __init__(self) -> None:
        self._event = trio.Event()

    def set(self) -> None:
        """Set the flag."""
        self._event.set()

    async def take(self) -> None:
        """Wait until the flag is set, and clear it."""
        await self._event.wait()
        self._event = trio.Event()


class Bell:
    """Says that something happened, to everybody who waits at that moment."""

    def __init__(self) -> None:
        self._event = trio.Event()

    def ring(self) -> None:
        """Wake whoever waits."""
        event, self._event = self._event, trio.Event()
        event.set()

    async def wait(self) -> None:
        """Wait until the bell rings next."""
        await self._event.wait()
