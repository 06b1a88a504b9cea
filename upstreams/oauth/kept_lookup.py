"""Looking for the grant that is kept: at the first need, and again where another process may have a sign-in by now."""

from collections.abc import Callable
from math import inf
from typing import TYPE_CHECKING, Final

import trio

from config.oauth_settings import UpstreamOAuth
from hub.link.hub_errors import UpstreamUnresolved
from hub.link.loading import load
from upstreams.oauth.model import Grant
from upstreams.oauth.parts import Shared
from upstreams.oauth.standing import Standing

if TYPE_CHECKING:
    from upstreams.oauth.obtaining import Obtaining

LOCKED_S: Final = 10.0
"""A keyring that is locked is asked again after so long."""
LOOK_AGAIN_S: Final = 5.0
"""Interval of looking whether another process has a sign-in by now."""


class KeptLookup:
    """Looks for one credential, that of `principal` at the upstream at `url`, and takes what is found into `standing`.
    `is_loaded`: there is nothing to look for at first."""

    def __init__(
        self,
        upstream: str,
        url: str,
        principal: str,
        settings: UpstreamOAuth,
        shared: Shared,
        standing: Standing,
        obtaining: "Callable[[], Obtaining]",
        *,
        is_loaded: bool,
    ) -> None:
        self.is_loaded = is_loaded
        """It was looked for, or there is a newer one."""
        self.looked_at = -inf
        self._upstream = upstream
        self._url = url
        self._principal = principal
        self._settings = settings
        self._shared = shared
        self._standing = standing
        self._obtaining = obtaining
        self._turn = trio.Lock()
        self._locked_until = -inf

    def __repr__(self) -> str:
        return f"<KeptLookup for {self._principal}@{self._upstream}>"

    def is_due(self, now: float) -> bool:
        """True if it is time to look whether another process has a sign-in by now."""
        return self._obtaining().by_person and now - self.looked_at >= LOOK_AGAIN_S

    async def load(self, *, again: bool = False) -> None:
        """Read the grant that is kept. `again`: perhaps another process has one by now.

        Raises:
            UpstreamUnresolved: the key cannot be had now.
        """
        standing = self._standing
        async with self._turn:
            if self.is_loaded and not again:
                return
            if self.is_loaded and standing.grant is not None and standing.state != "needed":
                return
            self.looked_at = now = self._shared.clock()
            if now < self._locked_until:
                raise UpstreamUnresolved(standing.problem, upstream=self._upstream)
            grant, problem = await self._found()
            self.is_loaded = True
            if problem:
                standing.due = inf
                standing.note("refused", problem)
            elif grant is None:
                standing.due = inf if standing.grant is None else standing.due
            elif grant != standing.grant:
                is_renewable = self._obtaining().can(grant)
                standing.use(grant, self._shared.wall(), self._shared.clock(), is_renewable=is_renewable)
                standing.note("ended" if grant.sign_in_needed else "tokens", grant.note)

    async def _found(self) -> tuple[Grant | None, str]:
        await load("upstreams.oauth.kept")
        from upstreams.oauth.kept import kept_grant
        from upstreams.oauth.store.seal import KeyLocked

        try:
            return await kept_grant(self._upstream, self._principal, self._url, self._settings, self._shared)
        except KeyLocked as locked:
            self._locked_until = self._shared.clock() + LOCKED_S
            self._standing.cannot_look(str(locked))
            raise UpstreamUnresolved(str(locked), upstream=self._upstream) from None

    async def load_if_possible(self) -> None:
        """`load` again, though the key cannot be had."""
        try:
            await self.load(again=True)
        except UpstreamUnresolved:
            self.is_loaded = True
