"""The page of metrics: the text, written in pieces, between which the hub does all else that there is to do."""

import logging
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

import trio

from hub.link.hub_errors import HubError
from hub.link.sync_primitives import DirtyFlag, Promise
from hub.net.http_request import HttpRequest
from hub.net.response_writer import HttpResponse

if TYPE_CHECKING:
    from hub.telemetry.prometheus_text import Family

log = logging.getLogger("hubd")

PAUSE_S: Final = 0.0004
"""Pause behind a whole piece: if the next one followed at once, a call would be held up by each in turn."""
SHARED_S: Final = 1.0
"""Time for which the same text is told."""
FAILED: Final = "The metrics cannot be told; the hub's log says more"


class MetricsPage:
    """Writes the metrics once for all who ask at about the same time. `run` must be running."""

    def __init__(self, tell: Callable[[], Iterable["Family"]]) -> None:
        self._tell = tell
        self._wanted = DirtyFlag()
        self._text: Promise[tuple[bytes, ...]] = Promise()
        """In pieces; none: it could not be written."""

    async def run(self) -> None:
        """Write the text whenever somebody asks, for ever."""
        while True:
            await self._wanted.take()
            from hub.telemetry.prometheus_text import SERIES, write  # not above: most hubs are not asked

            pieces: list[bytes] = []
            try:
                for texts in write(self._tell()):
                    pieces += texts
                    await trio.sleep(PAUSE_S if len(texts) >= SERIES else 0)
            except Exception:  # who asks is told so
                log.exception("the metrics could not be written")
                pieces.clear()
            self._text.fulfil(tuple(pieces))
            await trio.sleep(SHARED_S)
            self._text = Promise()

    async def _wait(self) -> tuple[bytes, ...]:
        if not self._text.is_fulfilled:
            self._wanted.set()
        return await self._text.wait()

    async def handle(self, request: HttpRequest, response: HttpResponse) -> None:
        """Answer `GET /metrics`."""
        if pieces := await self._wait():
            from hub.telemetry.prometheus_text import CONTENT_TYPE  # not above, as in `run`

            response.reply(200, pieces, content_type=CONTENT_TYPE)
        else:
            response.reply(500, b'{"error":"%b"}' % FAILED.encode())

    async def metrics(self) -> str:
        """The text, for the control socket. Raises HubError: it could not be written."""
        if pieces := await self._wait():
            return b"".join(pieces).decode()
        raise HubError(FAILED)
