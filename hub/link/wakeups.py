"""A flag that tasks wait for. It is raised any number of times and lowered once: changes merge."""

import trio


class DirtyFlag:
    """Something to do, however often it was said."""

    def __init__(self) -> None:
        self._event = trio.Event()

    def set(self) -> None:
        """There is something to do."""
        self._event.set()

    async def take(self) -> None:
        """Wait until there is, and lower the flag."""
        await self._event.wait()
        self._event = trio.Event()
