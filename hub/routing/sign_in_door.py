"""The hub's own tool of an upstream at which a person has to sign in, as something that operations are sent to.

Calling it does nothing at the upstream but connect. So it fails as every call does while a person has to sign in, and
hosts are asked in the same way; after that it says so.
"""

from config.settings import UpstreamConfig
from hub.catalog.sign_in_tool import lists_unknown_text, no_need_text
from hub.link.completed_elicitations import Elicitations
from hub.link.interface import Caller, Exchange, Operation
from hub.wire.jsonrpc import Reply, Result, raw
from hub.wire.mcp import RESULT_TYPE, Era, Snapshot, era_of
from upstreams.upstream import Upstream


class SignInDoor:
    """The tool of one upstream. Satisfies `hub.link.interface.Upstream`."""

    def __init__(self, upstream: Upstream) -> None:
        self.name = upstream.name
        self.config: UpstreamConfig = upstream.config
        self._upstream = upstream

    def __repr__(self) -> str:
        return f"<SignInDoor of {self._upstream!r}>"

    @property
    def snapshot(self) -> Snapshot:
        """The upstream's snapshot."""
        return self._upstream.snapshot

    @property
    def elicitations(self) -> Elicitations:
        """The upstream's visits to pages."""
        return self._upstream.elicitations

    async def call(self, operation: Operation, exchange: Exchange) -> Reply:
        """Wait until nobody has to sign in; say so.

        Raises:
            HubError: as `Upstream.wait_ready`.
        """
        await self._upstream.wait_ready(exchange)
        waits_for_owner = self._upstream.wants_sign_in and self._upstream.pool.has_own_account(exchange.caller)
        text = (lists_unknown_text if waits_for_owner else no_need_text)(self.name)
        members: dict[str, object] = {"content": [{"type": "text", "text": text}]}
        if waits_for_owner:
            members["isError"] = True
        if era_of(self.snapshot.version) is Era.MODERN:
            members[RESULT_TYPE] = "complete"
        return Result(raw(members))

    def version_for(self, caller: Caller) -> str:
        """The revision of what it answers."""
        return self.snapshot.version

    def expect(self, session: str, caller: Caller, for_s: float) -> None:
        """Keep a session of the upstream open."""
        self._upstream.expect(session, caller, for_s)

    def has_lost(self, session: str) -> bool:
        """True if a session of the upstream is over."""
        return self._upstream.has_lost(session)
