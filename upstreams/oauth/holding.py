"""The pause when an upstream refuses a token that is fresh: another one would be no better, so nothing is tried for
a minute; and it is found out whether the upstream names another authorization server by now."""

import logging
from math import inf
from typing import Final

import trio

from config.oauth_settings import UpstreamOAuth
from upstreams.oauth import texts
from upstreams.oauth.model import Challenge, OAuthProblem, OAuthUnavailable, same_issuer
from upstreams.oauth.parts import Shared

log = logging.getLogger(__name__)

HOLD_S: Final = 60.0


class Hold:
    """Holds one credential back. Times are of the shared clock."""

    def __init__(self, upstream: str, url: str, settings: UpstreamOAuth, shared: Shared) -> None:
        self.until = -inf
        self.has_moved = False
        """The upstream names another authorization server than that of the grant: only a person goes on from there."""
        self._upstream = upstream
        self._url = url
        self._settings = settings
        self._shared = shared
        self._looking = trio.Lock()

    def __repr__(self) -> str:
        return f"<Hold of {self._upstream}{', which has moved' if self.has_moved else ''}>"

    @property
    def is_on(self) -> bool:
        """True if nothing is to be tried now."""
        return self._shared.clock() < self.until

    def release(self) -> None:
        """Try again at once."""
        self.until, self.has_moved = -inf, False

    async def begin(self, issuer: str, challenge: Challenge) -> str:
        """Find out whether the upstream has left `issuer`, and hold back from then on; why, for a person. "": another
        task has done that meanwhile."""
        async with self._looking:
            if self.is_on:
                return ""
            text = texts.token_refused(self._upstream, issuer)
            try:
                found = await self._shared.finding.discover(self._url, self._settings, challenge, (issuer,))
            except (OAuthProblem, OAuthUnavailable) as error:
                log.info("%s", error)
            else:
                if not same_issuer(found.server.issuer, issuer):
                    text = texts.other_issuer(self._upstream, found.server.issuer, issuer)
                    self.has_moved = True
            self.until = self._shared.clock() + HOLD_S
            return text
