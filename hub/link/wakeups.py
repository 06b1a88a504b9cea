"""A flag to wait for: set any number of times, cleared once, so that changes merge."""

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
