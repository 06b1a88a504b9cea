"""Verdicts on tokens of authorization servers: which count, for whom, and for how long that is remembered.

    a JWT          read strictly, then judged by the keys of its issuer      kept until it ends, 5 minutes at most
    another text   the one issuer is asked that can be asked (RFC 7662)      kept for 30 s; while streams hang on it,
                                                                             asked again every 5 minutes
    a refusal                                                                kept for 10 s

Judging by keys that are there is done at once; what needs the network is a decision that the connection waits for. One
token is asked about again after the other, so that a slow server is not asked by many at once, and what its issuer has
taken back ends the streams that hang on it. While nobody can say, a stream goes on until the last answer's end.
"""

import logging
from collections.abc import Awaitable, Callable
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary

import trio
from msgspec import Struct

from config.security_settings import AccessConfig
from hub.downstream.access.claims import TokenVerdict, lacking
from hub.downstream.access.read_unverified_jwt import Jwt, Unfit, Unsigned, read_jwt
from hub.downstream.access.refusals import NOT_NOW, missing_scopes, sign_in
from hub.downstream.access.resource_metadata import ResourceMetadata
from hub.downstream.access.trusted_issuer import CannotAsk, Issuer
from hub.link.call_interface import Identity
from hub.link.fault_isolation import keep_going
from hub.link.rate_limits import TokenBucket
from hub.link.sync_primitives import Promise
from hub.net.access_lifetime import Lease
from hub.net.http_request import EarlyReply, HttpRequest, Undecided

if TYPE_CHECKING:
    from upstreams.fetch.fetcher import Fetcher

log = logging.getLogger("hubd")
AGAIN_S: Final = 300.0
FAILED_S: Final = 60.0
"""Time after which is tried again what nobody could say."""
MAX_WATCHED: Final = 4096


class _Watched(Struct):
    """One token on which streams may hang."""

    token: str
    verdict: TokenVerdict
    lease: Lease
    seen: float
    """Time at which somebody was let in by it."""
    due: float
    """Time at which it is looked at."""

    def __repr__(self) -> str:
        return f"<_Watched {self.lease!r}>"


class AskedAgain:
    """The leases of tokens that `issuer` is asked about; None: of none. `run` must be running. `wall`: the time of day
    in seconds."""

    def __init__(self, issuer: Issuer | None, wall: Callable[[], float]) -> None:
        self._issuer = issuer
        self._wall = wall
        self._watched: dict[bytes, _Watched] = {}
        self._changed = trio.Event()

    def lease(self, digest: bytes, token: str, verdict: TokenVerdict) -> Lease:
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
        if (watched := self._watched.pop(digest, None)) is not None:
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
        if (now := trio.current_time()) < watched.due:
            return  # somebody was let in by it meanwhile, for which it was asked about
        if not watched.lease.is_held:
            if now >= watched.seen + AGAIN_S:
                self.end(digest)
            watched.due = now + AGAIN_S
            return
        assert self._issuer is not None, "nobody else gives tokens to ask about"
        verdict: TokenVerdict | None = None
        may_go_on = False
        try:
            verdict = await self._issuer.ask(watched.token)
        except CannotAsk:
            may_go_on = self._wall() < watched.verdict.until
        except Unfit:
            pass
        if self._watched.get(digest) is not watched:
            return  # it was ended meanwhile
        if may_go_on:
            watched.due = min(trio.current_time() + FAILED_S, self._due(watched.verdict))
        elif verdict is None or not _is_same(verdict, watched.verdict):
            log.info("streams end: their token was taken back or changed, or has ended and nobody can say")
            self.end(digest)
        else:
            watched.verdict, watched.due = verdict, self._due(verdict)

    def _due(self, verdict: TokenVerdict) -> float:
        return trio.current_time() + max(0.0, min(AGAIN_S, verdict.until - self._wall()))

    def _make_room(self) -> bool:
        """Forget a token on which nothing hangs; False: there is none."""
        idle = next((digest for digest, each in self._watched.items() if not each.lease.is_held), None)
        if idle is not None:
            self.end(idle)
        return idle is not None


def _is_same(one: TokenVerdict, other: TokenVerdict) -> bool:
    """True if both let in the same person to the same."""
    return (one.identity, one.rights, one.audiences) == (other.identity, other.rights, other.audiences)


KEEP_S: Final = 300.0
KEEP_ASKED_S: Final = 30.0
KEEP_REFUSED_S: Final = 10.0
MAX_KEPT: Final = 4096
MAX_REFUSED: Final = 1024
MAX_ASKED_CHARS: Final = 4096
MAX_ASKING: Final = 8
ASKED_PER_S: Final = 20.0


class _Kept(Struct, frozen=True):
    verdict: TokenVerdict
    until: float
    """The time of trio's clock: the time of day may be set back."""
    lease: Lease
    lacks: bool
    """A required scope is not among its own."""


FindVerdict = Callable[[], Awaitable[_Kept]]


class IssuerTokens:
    """Judges tokens by the issuers of a configuration. `run` must be running. `wall`: the time of day in seconds."""

    def __init__(self, access: AccessConfig, resource: str, fetch: "Fetcher", wall: Callable[[], float]) -> None:
        """`resource`: the hub's URL, which tokens must be for."""
        self.issuers = {each.issuer: Issuer(each, fetch, wall, self._keys_changed) for each in access.issuers}
        self.metadata = ResourceMetadata(resource, list(self.issuers), access.required_scopes)
        self._required = access.required_scopes
        self._scopes = " ".join(access.required_scopes)
        self._wall = wall
        self._asked = next((issuer for issuer in self.issuers.values() if issuer.can_be_asked), None)
        self._kept: dict[bytes, _Kept] = {}
        self._refused: dict[bytes, float] = {}
        self._leases: WeakKeyDictionary[Lease, TokenVerdict] = WeakKeyDictionary()
        """All that something hangs on, also of verdicts that had to make room."""
        self._again = AskedAgain(self._asked, wall)
        self._asking: dict[bytes, Promise[bool]] = {}
        """Running questions to the issuer; true if nobody could say, so that it is no use to ask again."""
        self._questions = TokenBucket(ASKED_PER_S, ASKED_PER_S)

    async def run(self) -> None:
        """Keep the keys of all issuers fresh, and ask about tokens again on which streams hang, until cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(keep_going, "Asking about tokens again", self._again.run)
            for issuer in self.issuers.values():
                nursery.start_soon(keep_going, f"Reading the keys of {issuer.settings.name}", issuer.run)

    def end(self) -> None:
        """Forget all verdicts, and end what hangs on them: other rules hold from now on."""
        for lease in list(self._leases):
            lease.end()
        self._leases.clear()
        self._kept.clear()
        self._refused.clear()

    def end_streams(self) -> None:
        """End the streams of tokens that have ended by the time of day, which may have been behind when they began."""
        for lease, verdict in list(self._leases.items()):
            if verdict.until <= self._wall():
                lease.shake()

    def check(self, request: HttpRequest, token: str) -> Identity | EarlyReply | Undecided:
        """The identity of whoever shows `token`, or why there is none yet, or none at all."""
        digest = sha256(token.encode()).digest()
        now = trio.current_time()
        kept = self._kept.get(digest)
        is_good = kept is not None and now < kept.until and self._wall() < kept.verdict.until
        if kept is not None and is_good and not kept.lease.is_over:
            return self._admit(request, kept)
        if self._refused.get(digest, now) > now:
            return self.refusal(request, with_token=True)
        try:
            found = self._look_at(token, digest)
        except Unfit:
            return self._refuse(request, digest)
        return self._admit(request, found) if isinstance(found, _Kept) else partial(self._wait, request, digest, found)

    def refusal(self, request: HttpRequest, *, with_token: bool) -> EarlyReply:
        """401, with where to sign in."""
        return sign_in(self._scopes, self.metadata.url_for(request.path), with_token=with_token)

    # --- a token that is not remembered -------------------------------------------------------------------------------

    def _look_at(self, token: str, digest: bytes) -> _Kept | FindVerdict:
        """The verdict, or the way to one, if the network is needed for that. Raises Unfit: the token does not count."""
        if token.count(".") != 2:
            if self._asked is None or len(token) > MAX_ASKED_CHARS:
                raise Unfit("no issuer can be asked about it")
            return partial(self._ask, token, digest, self._asked)
        jwt = read_jwt(token)
        if (issuer := self.issuers.get(jwt.issuer)) is None:
            raise Unfit("its issuer is none of those that are trusted")
        if issuer.has_keys:
            try:
                return self._keep(digest, issuer.judge(jwt))
            except Unsigned:
                if not issuer.may_read_keys:
                    raise
        return partial(self._read_keys, jwt, issuer, digest)

    async def _wait(self, request: HttpRequest, digest: bytes, find: FindVerdict) -> EarlyReply | None:
        """Find the verdict, and leave the identity in the request, as a guard does."""
        try:
            found = self._admit(request, await find())
        except CannotAsk:
            return NOT_NOW
        except Unfit:
            return self._refuse(request, digest)
        if isinstance(found, EarlyReply):
            return found
        request.identity = found
        return None

    async def _read_keys(self, jwt: Jwt, issuer: Issuer, digest: bytes) -> _Kept:
        """Judge by the keys that the issuer has now."""
        await issuer.read_keys()
        if not issuer.has_keys:
            raise CannotAsk(issuer.problem) if issuer.problem else Unfit("its issuer signs no tokens")
        return self._keep(digest, issuer.judge(jwt))

    async def _ask(self, token: str, digest: bytes, issuer: Issuer) -> _Kept:
        """Ask the issuer, once for all who show the token at the same time."""
        while (running := self._asking.get(digest)) is not None:
            if await running.wait():
                raise CannotAsk("whoever asked was told nothing")
            now = trio.current_time()
            if (kept := self._kept.get(digest)) is not None and now < kept.until and not kept.lease.is_over:
                return kept
            if self._refused.get(digest, now) > now:
                raise Unfit("it was refused just now")
        if len(self._asking) >= MAX_ASKING or not self._questions.take(trio.current_time()):
            raise CannotAsk("too much is asked at a time")
        question = self._asking[digest] = Promise()
        try:
            verdict = await issuer.ask(token)
        except CannotAsk as error:
            question.fulfil(True)
            log.warning("nobody can say what a token is worth: %s", error)
            raise
        except Unfit:
            self._again.end(digest)
            raise
        finally:
            self._asking.pop(digest).fulfil(False)
        return self._keep(digest, verdict, asked=token)

    def _keys_changed(self) -> None:
        """Forget the verdicts of keys that are gone."""
        there = {(url, key.print) for url, issuer in self.issuers.items() for key in issuer.keys}
        for lease, verdict in list(self._leases.items()):
            if verdict.key and (verdict.issuer, verdict.key) not in there:
                lease.end()
                del self._leases[lease]
        self._kept = {digest: kept for digest, kept in self._kept.items() if not kept.lease.is_over}
        self._refused.clear()

    # --- what is remembered -------------------------------------------------------------------------------------------

    def _keep(self, digest: bytes, verdict: TokenVerdict, *, asked: str = "") -> _Kept:
        """Remember a verdict. `asked`: the token, if its issuer was asked about it."""
        now = trio.current_time()
        ends_at = now + verdict.until - self._wall()
        before = self._kept.pop(digest, None)
        if len(self._kept) >= MAX_KEPT:
            del self._kept[next(iter(self._kept))]
        if asked:
            lease = self._again.lease(digest, asked, verdict)
        else:
            lease = before.lease if before is not None else Lease()
            lease.limit(ends_at)
        self._leases[lease] = verdict
        lacks = bool(self._required) and lacking(self._required, verdict.scopes)
        if lacks:
            who = verdict.identity.principal
            log.info("a token of %s is refused (403): it has not all scopes of %s", who, self._scopes)
        until = min(ends_at, now + (KEEP_ASKED_S if asked else KEEP_S))
        kept = self._kept[digest] = _Kept(verdict, until, lease, lacks)
        return kept

    def _refuse(self, request: HttpRequest, digest: bytes) -> EarlyReply:
        if len(self._refused) >= MAX_REFUSED:
            del self._refused[next(iter(self._refused))]
        self._refused[digest] = trio.current_time() + KEEP_REFUSED_S
        return self.refusal(request, with_token=True)

    def _admit(self, request: HttpRequest, kept: _Kept) -> Identity | EarlyReply:
        """The identity, if the token is for what the request is about, and has the scopes that are needed."""
        verdict, path = kept.verdict, request.path
        if self.metadata.resource not in verdict.audiences:
            more = self.issuers[verdict.issuer].settings.audiences
            if not self.metadata.is_opened_by(verdict.audiences, path, more):
                return self.refusal(request, with_token=True)
        if kept.lacks:
            return missing_scopes(self._scopes, self.metadata.url_for(path))
        request.lease = kept.lease
        request.rights = verdict.rights
        return verdict.identity
