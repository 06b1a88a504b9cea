"""Tickets and records: who was asked to sign in where, and which requests are on their way. In memory, bounded.

A ticket is one (upstream, principal) that wants a sign-in. Whoever asks for it has an invitation: an address that
people open, whose page names who asked. Going on from there makes a record, which waits for one authorization response.
No invitation is a credential: who opens it is checked.

State changes in sync functions only; time is trio's clock, handed in.
"""

import secrets
from collections import deque
from collections.abc import Callable, Iterator
from hashlib import sha256
from typing import Any, Final

import trio
from msgspec import Struct, field

from hub.control.sign_in_messages import SignInOutcome
from hub.link.bounded_dict import BoundedDict
from hub.sign_in.authorization_request import AuthorizationRequest
from upstreams.oauth.client_id import ClientWish
from upstreams.oauth.model import IDENTITY_PROVIDER

TICKET_S: Final = 3600.0
RECORD_S: Final = 600.0
MAX_TICKETS: Final = 256
MAX_RECORDS: Final = 64
PER_TICKET: Final = 3
ASKED_PER_HOUR: Final = 3
"""Sign-ins at one upstream that hosts may ask for."""
MAX_INVITATIONS: Final = 16
MAX_TRIES: Final = 5
"""Codes that may be tried at one invitation."""
CODES: Final = 1_000_000
ID_BYTES: Final = 24


class SignInRecord(AuthorizationRequest, frozen=True, eq=False, kw_only=True):
    """One authorization request that was made, and waits for its response."""

    state: bytes
    """The hash of its state."""
    ticket: "Ticket"
    invitation: "Invitation"
    on_terminal: bool
    """Its address was shown on a terminal, or on a page to whoever knew the code, and nowhere else, so whoever has its
    state saw one of these."""
    ends_at: float
    cookie: str = ""
    """The cookie of the browser that began it, where that is on another machine; "": none is needed."""

    def __repr__(self) -> str:
        return f"<Record of {self.ticket!r}>"


class Invitation(Struct, eq=False, kw_only=True):
    """The way of one asker to the sign-in of a ticket."""

    id: str
    by: str
    """The program that asked, as a label."""
    is_told: bool
    """It asked on a terminal, which has said all that the page says."""
    code: str
    """The code that stands beside the address, and not in it: addresses that are opened are seen by other users in the
    list of processes. Whoever knows it was shown it by the asker."""
    asked_at: float
    """Wall time of the last request."""
    tries: int = 0

    def __repr__(self) -> str:
        return f"<Invitation by {self.by}>"

    @property
    def shown_code(self) -> str:
        """The code as people read it."""
        return f"{self.code[:3]} {self.code[3:]}"

    def admits(self, code: str) -> bool:
        """True if this is the code; each try counts, until there is none left."""
        self.tries += 1
        typed = "".join(character for character in code if character.isalnum())
        return self.tries <= MAX_TRIES and secrets.compare_digest(typed.encode(), self.code.encode())


class Ticket(Struct, eq=False, kw_only=True):
    """One sign-in that is wanted."""

    visit: str
    """The hub's own id for hosts, which is no address."""
    upstream: str
    principal: str
    ends_at: float
    invitations: dict[tuple[str, bool], Invitation] = {}
    """By asker, and whether that is a terminal; the oldest are dropped."""
    scope: str = ""
    """Scopes to ask for beside those that are found out."""
    agreed: str = ""
    """The issuer to which a person at a terminal has agreed, though something about it is unusual; "": to none."""
    wish: ClientWish = ClientWish()
    """The client id that the next request is made with."""
    is_unanswered: bool = False
    """Nobody has come back from the last request of a terminal: servers tell only the browser of a client that they
    have forgotten."""
    records: deque[SignInRecord] = field(default_factory=lambda: deque(maxlen=PER_TICKET))
    outcome: SignInOutcome | None = None
    """The latest one; after a failure another try may follow."""
    changed: trio.Event = field(default_factory=trio.Event)
    lock: trio.Lock = field(default_factory=trio.Lock)
    """Held while a request is prepared."""
    is_asked: bool = False
    """The credential knows that a person is being asked."""
    over: bool = False
    """It is done with, and makes no more records."""

    def __repr__(self) -> str:
        return f"<Ticket {self.upstream} of {self.principal}{', over' if self.over else ''}>"

    @property
    def server_name(self) -> str:
        """For people."""
        return self.upstream or IDENTITY_PROVIDER

    def outcome_of(self, state: str, text: str, **more: Any) -> SignInOutcome:
        """The outcome of a sign-in; it is not told yet."""
        return SignInOutcome(upstream=self.upstream, principal=self.principal, state=state, text=text, **more)

    def tell(self, outcome: SignInOutcome) -> None:
        """Note an outcome, and wake whoever waits for one."""
        self.outcome = outcome
        self.changed.set()
        self.changed = trio.Event()


class Tickets:
    """All of them. `now`: the clock; `wall`: for people."""

    def __init__(self, now: Callable[[], float], wall: Callable[[], float]) -> None:
        self._now = now
        self._wall = wall
        self._of: BoundedDict[tuple[str, str], Ticket] = BoundedDict(MAX_TICKETS)
        self._asked: BoundedDict[tuple[str, str], deque[float]] = BoundedDict(MAX_TICKETS)
        self._records: BoundedDict[bytes, SignInRecord] = BoundedDict(MAX_RECORDS)
        self._unanswered: BoundedDict[tuple[str, str], bool] = BoundedDict(MAX_TICKETS)

    def __iter__(self) -> Iterator[Ticket]:
        now = self._now()
        return iter([ticket for ticket in self._of.values() if ticket.ends_at > now and not ticket.over])

    # --- tickets

    def find(self, upstream: str, principal: str) -> Ticket | None:
        """The ticket that stands, if one does."""
        ticket = self._of.get((upstream, principal))
        return None if ticket is None or ticket.over or ticket.ends_at <= self._now() else ticket

    def obtain(self, upstream: str, principal: str) -> Ticket:
        """The ticket that stands, or a new one."""
        if (ticket := self.find(upstream, principal)) is not None:
            return ticket
        key = upstream, principal
        if (before := self._of.get(key)) is not None:
            self._end(before)
        wish = ClientWish(anew=self._unanswered.pop(key, False))
        visit, ends_at = f"sign-in-{_id()}", self._now() + TICKET_S
        ticket = Ticket(visit=visit, upstream=upstream, principal=principal, ends_at=ends_at, wish=wish)
        self._of.put(key, ticket)
        return ticket

    def invite(self, ticket: Ticket, by: str, *, is_told: bool = False) -> Invitation:
        """The invitation of an asker, who asks for it now."""
        if (known := ticket.invitations.pop((by, is_told), None)) is None or known.tries >= MAX_TRIES:
            code = f"{secrets.randbelow(CODES):06}"
            known = Invitation(id=_id(), by=by, is_told=is_told, code=code, asked_at=self._wall())
        known.asked_at = self._wall()
        if len(ticket.invitations) == MAX_INVITATIONS:
            del ticket.invitations[next(iter(ticket.invitations))]
        ticket.invitations[by, is_told] = known
        return known

    def by_id(self, id: str) -> tuple[Ticket, Invitation] | None:
        """The ticket of an address that somebody opened, and whose address that is."""
        known = ((ticket, each) for ticket in self for each in ticket.invitations.values())
        return next((found for found in known if secrets.compare_digest(found[1].id, id)), None)

    def may_ask(self, upstream: str, principal: str) -> bool:
        """True if hosts may ask for another sign-in of this kind; false after `ASKED_PER_HOUR` in an hour."""
        since = self._now() - TICKET_S
        return sum(at > since for at in self._asked.get((upstream, principal), ())) < ASKED_PER_HOUR

    def note_asked(self, upstream: str, principal: str) -> None:
        """Note that a host asked for a sign-in for which no ticket stood."""
        asked = self._asked.get((upstream, principal)) or deque(maxlen=ASKED_PER_HOUR + 1)
        asked.append(self._now())
        self._asked.put((upstream, principal), asked)

    def end(self, ticket: Ticket) -> None:
        """Forget a ticket that is done with, and its records."""
        self._end(ticket)
        if self._of.get((ticket.upstream, ticket.principal)) is ticket:
            del self._of[ticket.upstream, ticket.principal]

    def _end(self, ticket: Ticket) -> None:
        ticket.over = True
        for record in ticket.records:
            self._records.pop(record.state, None)
            if record.client.kind == "registered" and ticket.outcome is None:
                self._unanswered.put((ticket.upstream, ticket.principal), True)
        ticket.records.clear()

    # --- records

    def keep(self, record: SignInRecord) -> None:
        """Wait for the response to a request; of one ticket the last three count."""
        ticket = record.ticket
        if len(ticket.records) == PER_TICKET:
            self._records.pop(ticket.records[0].state, None)
        ticket.records.append(record)
        self._records.put(record.state, record)

    def find_record(self, state: str) -> SignInRecord | None:
        """The record of a state, which stays what it is."""
        record = self._records.get(state_hash(state))
        return None if record is None or record.ends_at <= self._now() or record.ticket.over else record

    def spend(self, record: SignInRecord) -> None:
        """Forget a record: its response has come."""
        self._records.pop(record.state, None)
        if record in record.ticket.records:
            record.ticket.records.remove(record)


def state_hash(state: str) -> bytes:
    """The hash under which a state is kept."""
    return sha256(state.encode("utf-8", "surrogatepass")).digest()


def _id() -> str:
    return secrets.token_urlsafe(ID_BYTES)
