"""Log level of one session: the level that a legacy upstream is told, whenever it changes."""

import logging

import trio

from hub.link.hub_errors import HubError
from hub.link.sync_primitives import DirtyFlag
from hub.wire.jsonrpc import raw
from hub.wire.mcp import SET_LEVEL
from upstreams.session_contract import Session

log = logging.getLogger(__name__)


class LogLevel:
    """The log level that one session is told."""

    def __init__(self, name: str, limit_s: float) -> None:
        self.told = trio.Event()
        """Set while there is nothing to tell."""
        self.told.set()
        self._name = name
        self._limit_s = limit_s
        self._wanted: str | None = None
        self._changed = DirtyFlag()

    def want(self, level: str | None) -> None:
        """Have `level` told; None: no host wants log messages."""
        self._wanted = level
        if level is None:
            self.told.set()
            return
        if self.told.is_set():
            self.told = trio.Event()
        self._changed.set()

    async def keep(self, session: Session) -> None:
        """Tell `session`, whenever there is something new to tell, for ever."""
        told: str | None = None
        while True:
            await self._changed.take()
            while (level := self._wanted) is not None and level != told:
                told = level
                with trio.move_on_after(self._limit_s):
                    try:
                        await session.request(SET_LEVEL, {"level": raw(level)})
                    except HubError as error:
                        log.info("%s was not told the log level: %s", self._name, error)
            self.told.set()
