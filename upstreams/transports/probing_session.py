"""Probing session: a session over one stream whose first messages find out the era of the server. One that ends when it
is probed is started again, without that.

    start -> shake hands -> serve -> it ends, falls silent, breaks the protocol, or `run` is cancelled
"""

from collections.abc import Callable
from typing import Final

import trio

from hub.link.channel import ChannelClosed, OutboxFull
from hub.link.hub_errors import HubError, UpstreamProtocolError, UpstreamUnavailable, without_frames
from hub.link.peer import BadPeer
from hub.wire.capabilities import ServerFacts
from hub.wire.jsonrpc import RemoteProtocolError
from hub.wire.mcp import Era
from upstreams.session_contract import Session, SessionSetup
from upstreams.transports.negotiation import about, expect_era, remember, shake_hands
from upstreams.transports.shared_stream_session import StreamSession

LAST_READ_S: Final = 0.2
"""Time to read on once nothing can be sent any more: the server may have said why."""


class EndedInHandshake(UpstreamUnavailable):
    """The server ended the session before it could be used."""

    of_the_probe = True
    """False: for another reason than that it was asked what it does not know."""


class ProbingSession(StreamSession):
    """A session of a process or a connection, which `_run_once` starts and ends."""

    def __init__(self, given: SessionSetup) -> None:
        super().__init__(given.name, given.events, given.terms)
        self._config, self._memory = given.config, given.memory
        self._budget, self._environ = given.budget, given.environ

    async def run(self, started: Callable[[Session], None]) -> None:
        """Serve until the session ends. As `run_session`."""
        expected = expect_era(self._config, self._memory)
        try:
            await self._run_once(expected, started)
        except EndedInHandshake as error:
            if self._config.era != "auto" or expected is Era.LEGACY or not error.of_the_probe:
                raise
            await self._run_once(Era.LEGACY, started)

    async def _run_once(self, expected: Era | None, started: Callable[[Session], None]) -> None:
        """Start, shake hands and serve until the session ends; raise why it did."""
        raise NotImplementedError

    async def _shake_hands(
        self, scope: trio.CancelScope, expected: Era | None, started: Callable[[Session], None]
    ) -> HubError | None:
        """Shake hands within `scope`; why that cannot be, unless it is that the session ends, which then cancels us."""
        facts = None
        try:
            with scope:
                facts = await shake_hands(self.peer, self._config, expected, self.terms.capabilities)
            if facts is None:
                text = f"{self.name} did not complete the handshake {self._describe_delay()}"
                return UpstreamUnavailable(text, upstream=self.name)
        except HubError as error:
            return without_frames(about(error, self.name))
        except RemoteProtocolError as error:
            return UpstreamProtocolError(f"{self.name} shakes hands in malformed messages: {error}", upstream=self.name)
        except (ChannelClosed, OutboxFull, BadPeer):
            return None
        self._agreed(facts)
        if self._is_era_certain(facts, expected):
            remember(self._config, self._memory, facts)
        started(self)
        return None

    def _describe_delay(self) -> str:
        return f"within {self._config.timeouts.start:g} seconds"

    def _is_era_certain(self, facts: ServerFacts, expected: Era | None) -> bool:
        """True if the server would be found to speak this era at any time."""
        return True

    async def _last_read(self, ending: trio.Event) -> None:
        await ending.wait()
        await trio.sleep(LAST_READ_S)
        self._scope.cancel()
