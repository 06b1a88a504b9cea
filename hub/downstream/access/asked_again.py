"""Streams of whoever showed a token that an issuer was asked about: it is asked again, and what it has taken back ends
them.

One token is asked about after the other, so that a slow server is not asked by many at once. While nobody can say, a
stream goes on until the time that the last answer named.
"""

import logging
from collections.abc import Awaitable, Callable
from typing import Final

import trio
from msgspec import Struct

from hub.downstream.access.claims import Unfit, Verdict
from hub.downstream.access.issuer import CannotAsk
from hub.link.lease import Lease

log = logging.getLogger("hubd")
AGAIN_S: Final = 300.0
FAILED_S: Final = 60.0
"""Time after which is tried again what nobody could say."""
MAX_WATCHED: Final = 4096


class _Watched(Struct):
    """One token on which streams may hang."""

    token: str
    verdict: Verdict
    lease: Lease
    seen: float
    """Time at which somebody was let in by it."""
    due: float
    """Time at which it is looked at."""

    def __repr__(self) -> str:
        return f"<_Watched {self.lease!r}>"


class AskedAgain:
    """The leases of tokens that an issuer is asked about. `run` must be running. `ask` says what a token is worth;
    `wall`: the time of day in seconds."""

    def __init__(self, ask: Callable[[str], Awaitable[Verdict | Unfit]], wall: Callable[[], float]) -> None:
        self._ask = ask
        self._wall = wall
        self._watched: dict[bytes, _Watched] = {}
        self._changed = trio.Event()

    def lease(self, digest: bytes, token: str, verdict: Verdict) -> Lease:
        """The lease of whoever shows `token`, of which the issuer has just said `verdict`."""
        now = trio.current_time()
        watched = self._watched.get(digest)
        if watched is not None and not watched.lease.is_over and _is_same(watched.verdict, verdict):
            watched.verdict, watched.seen, watched.due = verdict, now, self._due(verdict)
            return watched.lease
        self.end(digest)
        if len(self._watched) >= MAX_WATCHED and not self._make_room():
            return Lease(self._due(verdict))  # whoever opens its streams anew is judged anew
        made = self._watched[digest] = _Watched(token, verdict, Lease(), now, self._due(verdict))
        self._changed.set()
        return made.lease

    def end(self, digest: bytes) -> None:
        """End what hangs on a token: it does not count any more, or means somebody else."""
        watched = self._watched.pop(digest, None)
        if watched is not None:
            watched.lease.end()

    async def run(self) -> None:
        """Ask again, whenever it is time, until cancelled."""
        while True:
            digest = min(self._watched, key=lambda each: self._watched[each].due, default=b"")
            with trio.move_on_at(self._watched[digest].due if digest else float("inf")):
                await self._changed.wait()
            if self._changed.is_set():
                self._changed = trio.Event()
            elif digest in self._watched:
                await self._look(digest, self._watched[digest])

    async def _look(self, digest: bytes, watched: _Watched) -> None:
        now = trio.current_time()
        if now < watched.due:
            return  # somebody was let in by it meanwhile, for which it was asked about
        if not watched.lease.is_held:
            if now >= watched.seen + AGAIN_S:
                self.end(digest)
            watched.due = now + AGAIN_S
            return
        try:
            verdict: Verdict | Unfit | None = await self._ask(watched.token)
        except CannotAsk:
            verdict = None
        if self._watched.get(digest) is not watched:
            return  # it was ended meanwhile
        if verdict is None and self._wall() < watched.verdict.until:
            watched.due = min(trio.current_time() + FAILED_S, self._due(watched.verdict))
        elif not isinstance(verdict, Verdict) or not _is_same(verdict, watched.verdict):
            log.info("streams end: their token was taken back or changed, or has ended and nobody can say")
            self.end(digest)
        else:
            watched.verdict, watched.due = verdict, self._due(verdict)

    def _due(self, verdict: Verdict) -> float:
        return trio.current_time() + max(0.0, min(AGAIN_S, verdict.until - self._wall()))

    def _make_room(self) -> bool:
        """Forget a token on which nothing hangs; False: there is none."""
        idle = next((digest for digest, each in self._watched.items() if not each.lease.is_held), None)
        if idle is not None:
            self.end(idle)
        return idle is not None


def _is_same(one: Verdict, other: Verdict) -> bool:
    """True if both let in the same person to the same."""
    return (one.identity, one.scopes, one.audiences) == (other.identity, other.scopes, other.audiences)
