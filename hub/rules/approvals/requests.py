"""Requests: the calls that wait for a person's yes, each under a short id, and how many of them there may be. Pure:
time is an argument.

    asked   -> yes, for this call or for the next equal one     -> gone when a call takes it
            -> no                                               -> gone when a call has heard of it
            -> nothing for `ttl_s`                              -> gone

Equal requests join: those of one program for the same thing of the same server with the same arguments. The limits are
those of one program, so that no other has less for it: `MAX_OPEN` questions that it shows at a time, `MAX_WAITING`
calls that wait, `MAX_KEPT` requests, and `NEW_PER_MINUTE` new ones. Whoever said no to a tool `MAX_DECLINES` times
within `DECLINE_S` is not asked about it for as long again.
"""

import secrets
from collections import Counter, deque
from collections.abc import Callable
from typing import Final

from msgspec import Raw, Struct, field

from hub.bridge.sealed_request_state import NO_ROUND, FirstRound
from hub.calls.chain import Target
from hub.catalog.endpoint_views import View
from hub.link.bounded_dict import BoundedDict
from hub.link.call_interface import Caller, Identity
from hub.link.hub_errors import Overloaded
from hub.link.rate_limits import TokenBucket

RETRY_MS: Final = 60_000
MAX_OPEN: Final = 3
MAX_WAITING: Final = 16
NEW_PER_MINUTE: Final = 10
MAX_DECLINES: Final = 3
DECLINE_S: Final = 600.0
MAX_KEPT: Final = 24
"""Requests of one program."""
MAX_REQUESTS: Final = 256
"""Requests of all programs; for one more the oldest goes of the program that has most."""
MAX_STATES: Final = 16
"""Questions of one request that modern hosts may still answer."""
MAX_KNOWN: Final = 1024
"""Programs, and tools, whose recent requests are remembered."""
_LETTERS: Final = "ABCDEFGHJKLMNPQRSTUVWXYZ"
_SIGNS: Final = f"{_LETTERS}23456789"
"""Without those that are easily mistaken for others."""


class Subject(Struct, frozen=True):
    """The thing that somebody wants to use, as it is defined now. Hashable."""

    principal: str
    host: str
    upstream: str
    kind: str
    original: str
    """Its own name or URI there."""
    definition: str
    """Digest of its definition; "": it has none."""

    @property
    def identity(self) -> Identity:
        """The program that wants it."""
        return Identity(self.principal, self.host)

    @property
    def thing(self) -> "Subject":
        """The same, however it is defined."""
        return Subject(self.principal, self.host, self.upstream, self.kind, self.original, "")


class Wish(Struct, frozen=True):
    """One call for which a yes is needed."""

    subject: Subject
    digest: str
    """Digest of the final arguments."""
    exposed: str
    """The name or URI under which the host asks for it."""
    rule: str
    """The rule that asks, for people."""
    runs: str
    """Digest of the program or address behind the upstream."""
    text: str
    """The question, as people are shown it."""
    shown: Raw
    """The final arguments, without secrets."""
    short: str
    """The same on one line of a list."""
    caller: Caller
    view: View
    target: Target
    is_too_large: bool = False
    """Nobody could look through it; nothing of its arguments is here."""
    ref: int = 0
    """The number of its intent, for records."""
    says: tuple[str, ...] = ()
    """As in `Verdict`; of no rule, the name of what asks."""

    @property
    def key(self) -> tuple[Subject, str, str]:
        """The same for wishes to which one yes is good: for this thing as it is now, with these arguments, there."""
        return self.subject, self.digest, self.runs


class ApprovalRequest(Struct, eq=False):
    """One wish, or several equal ones, that a person is to decide on."""

    id: str
    wish: Wish
    """The newest of them."""
    made_at: float
    expires_at: float
    waiting: int = 0
    """Calls that wait for the decision."""
    first: FirstRound = NO_ROUND
    """The call for which it was made."""
    is_shown: bool = False
    """A host shows it to its user now, and waits with its call."""
    states: BoundedDict[str, None] = field(default_factory=lambda: BoundedDict(MAX_STATES))
    """The questions to modern hosts that have no answer yet."""
    is_approved: bool = False
    """One call may take this yes."""
    is_declined: bool = False


class Requests:
    """All requests of a hub. `is_used` tells ids that something else has."""

    def __init__(self, is_used: Callable[[str], bool] = lambda id: False) -> None:
        self._is_used = is_used
        self._by_id: dict[str, ApprovalRequest] = {}
        self._new: BoundedDict[Identity, TokenBucket] = BoundedDict(MAX_KNOWN)
        self._declined: BoundedDict[Subject, deque[float]] = BoundedDict(MAX_KNOWN)
        self._unasked: BoundedDict[Subject, float] = BoundedDict(MAX_KNOWN)
        """Until when people are not asked about something."""

    def all(self, now: float) -> list[ApprovalRequest]:
        """Those that there are, the oldest first."""
        self._forget_old(now)
        return list(self._by_id.values())

    def find(self, id: str, now: float) -> ApprovalRequest | None:
        """The request of this id; None: there is none, or none any more."""
        self._forget_old(now)
        return self._by_id.get(id)

    def join(self, wish: Wish, now: float, ttl_s: float) -> ApprovalRequest:
        """The request of an equal wish, or a new one that is good for `ttl_s`.

        Raises:
            Overloaded: there are too many new ones.
        """
        self._forget_old(now)
        for found in self._by_id.values():
            if found.wish.key == wish.key:
                found.wish = wish
                return found
        counts = Counter(each.wish.subject.identity for each in self._by_id.values())
        if counts[wish.subject.identity] >= MAX_KEPT:
            raise _too_many("wait for a person's approval", wish)
        bucket = self._new.get(wish.subject.identity) or TokenBucket(NEW_PER_MINUTE, NEW_PER_MINUTE / 60)
        self._new.put(wish.subject.identity, bucket)
        if not bucket.take(now):
            raise _too_many("needed a person's approval within a minute", wish)
        if len(self._by_id) >= MAX_REQUESTS:
            self.drop(max(self._by_id.values(), key=lambda each: counts[each.wish.subject.identity]))
        request = ApprovalRequest(self.new_id(), wish, now, now + ttl_s)
        self._by_id[request.id] = request
        return request

    def drop(self, request: ApprovalRequest) -> None:
        """Forget a request; calls that wait for it still know it."""
        self._by_id.pop(request.id, None)

    def may_show(self, request: ApprovalRequest) -> bool:
        """True if its program may show it to its user now. One that it shows already, to a host that comes back with
        the answer, may be shown again."""
        if request.is_shown:
            return False
        open = sum(_is_of(each, request) and (each.is_shown or bool(each.states)) for each in self._by_id.values())
        return bool(request.states) or open < MAX_OPEN

    def may_wait(self, request: ApprovalRequest) -> bool:
        """True if one more call may wait for it."""
        waiting = sum(each.waiting for each in self._by_id.values() if _is_of(each, request))
        return waiting < MAX_OPEN + MAX_WAITING

    # --- decisions

    def approve(self, request: ApprovalRequest, until: float) -> None:
        """One call may go on: one that waits, or the next equal one until then."""
        request.is_approved = True
        request.expires_at = max(request.expires_at, until)

    def settle(self, request: ApprovalRequest) -> None:
        """A call has heard the decision: forget the request, unless others wait for one."""
        if not (request.waiting or request.states or request.is_approved):
            self.drop(request)

    def decline(self, request: ApprovalRequest, now: float) -> None:
        """Note that a person said no."""
        thing = request.wish.subject.thing
        times = self._declined.get(thing) or deque(maxlen=MAX_DECLINES)
        times.append(now)
        self._declined.put(thing, times)
        if len(times) == MAX_DECLINES and now - times[0] <= DECLINE_S:
            self._unasked.put(thing, now + DECLINE_S)
            del self._declined[thing]

    def is_unasked(self, subject: Subject, now: float) -> bool:
        """True if people are not asked about it, since they have said no so often."""
        return self._unasked.get(subject.thing, 0.0) > now

    def _forget_old(self, now: float) -> None:
        for request in [each for each in self._by_id.values() if each.expires_at <= now and not each.waiting]:
            self.drop(request)

    def new_id(self) -> str:
        while True:
            id = secrets.choice(_LETTERS) + "".join(secrets.choice(_SIGNS) for _ in range(3))
            if id not in self._by_id and not self._is_used(id):
                return id


def _too_many(what: str, wish: Wish) -> Overloaded:
    text = (
        f"Not run: too many calls of this program {what}. Ask the user to decide on those that wait, then call again."
    )
    return Overloaded(text, upstream=wish.subject.upstream, retry_after_ms=RETRY_MS)


def _is_of(one: ApprovalRequest, other: ApprovalRequest) -> bool:
    """True if both are of one program."""
    return one.wish.subject.identity == other.wish.subject.identity
