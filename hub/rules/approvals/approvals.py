"""Approvals: what a hub waits for a person's yes for, and what people have decided, for hosts and commands alike.

A call joins a request (`hub.rules.approvals.requests`) and looks for a decision whenever the bell rings. A decision is
made by the host that was asked, or outside of it by a command; the first one counts.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import trio

from config.name_globs import NameChoice
from config.settings import ApprovalsConfig
from hub.control import approval_messages as messages
from hub.link.call_interface import Tenant
from hub.link.hub_errors import ApprovalDeclined, ApprovalRequired, Executed, HubError
from hub.link.sync_primitives import Bell
from hub.rules.approvals.grants import Grants, LastingApproval
from hub.rules.approvals.question_form import Decision, Lasting, offers
from hub.rules.approvals.requests import ApprovalRequest, Requests, Wish
from hub.rules.policy.judge import Note


class UnknownRequest(HubError):
    """There is no request or grant of this id, or a person cannot decide that about it."""

    kind = "unknown_request"
    executed = Executed.NO


class ApprovalMayReturn(HubError):
    """An approval has ended, and is still in the file, which can neither be written nor removed."""

    kind = "not_saved"
    executed = Executed.UNKNOWN


def approval_error(request: ApprovalRequest) -> ApprovalRequired:
    """The refusal of a call that nobody has agreed to yet. It names no command that decides."""
    text = (
        f"Not run: a person has to approve this first. Ask the user to decide on request {request.id} (hubd approvals"
        " shows it), then call again with the same arguments."
    )
    people = f"not run: a person has to approve request {request.id} first; `hubd approvals show {request.id}` shows it"
    error = ApprovalRequired(text, upstream=request.wish.subject.upstream, for_people=people)
    error.request = request.id
    return error


def decline_error(wish: Wish) -> ApprovalDeclined:
    """The refusal of a call that a person does not want."""
    text = "Not run: the user said no. Do not call it again unless the user asks for it."
    return ApprovalDeclined(text, upstream=wish.subject.upstream)


class Approvals:
    """All requests and grants of one hub."""

    def __init__(self, read_config: Callable[[], ApprovalsConfig], grants: Grants, note: Note) -> None:
        """`read_config`: reads the settings in effect."""
        self.grants = grants
        self.requests = Requests(grants.__contains__)
        self.changed = Bell()
        """Rung when there is another request, decision or rule."""
        self.edition = 0
        """Another number for each time that it was rung."""
        self.watchers = 0
        """People who watch for requests outside of hosts."""
        self._note = note
        self._read_config = read_config

    @property
    def config(self) -> ApprovalsConfig:
        """The settings in effect."""
        return self._read_config()

    def wake(self) -> None:
        """Have all who wait look again."""
        self.edition += 1
        self.changed.ring()

    @contextmanager
    def watch(self) -> Iterator[None]:
        """Somebody watches for requests meanwhile."""
        self.watchers += 1
        try:
            yield
        finally:
            self.watchers -= 1
            self.wake()

    # --- for calls

    def offers(self, wish: Wish) -> tuple[Lasting, ...]:
        """The answers that mean yes to a wish."""
        remember = self.config.remember or "once"
        if remember == "always" and not self.grants.lasts:
            remember = "session"
        return offers(remember, lasts=wish.caller.lasting)

    def hear(self, request: ApprovalRequest, wish: Wish) -> bool:
        """True if a call may go on by what was decided; a yes for one call is taken. Raises ApprovalDeclined: a person
        has said no."""
        self._heed_no(request, wish)
        is_approved, request.is_approved = request.is_approved, False
        return is_approved or self.grants.covers(wish)

    def _heed_no(self, request: ApprovalRequest, wish: Wish) -> None:
        if request.is_declined:
            self.requests.drop(request)
            if not request.waiting:  # else it was written down with the no
                self.write_down("refuse", wish, request=request.id)
            raise decline_error(wish)

    def is_decided(self, request: ApprovalRequest, wish: Wish) -> bool:
        """True if `hear` would not be False."""
        return request.is_declined or request.is_approved or self.grants.covers(wish)

    def decide(self, request: ApprovalRequest, wish: Wish, decision: Decision) -> None:
        """Take the decision of the host that was asked for its call, which goes on.

        Raises:
            ApprovalDeclined: it is no, or somebody else has said so before.
            ApprovalRequired: it is none; the request stays.
        """
        if decision == "nothing":
            raise approval_error(request)
        try:
            self._heed_no(request, wish)
            request.is_approved = False  # be it for this call, too
            if decision == "no":
                self._refuse(request, wish)
                raise decline_error(wish)
            self._agree(request, wish, decision)
        finally:
            self.requests.settle(request)

    def _agree(self, request: ApprovalRequest, wish: Wish, lasting: Lasting) -> None:
        """A person says yes to a wish."""
        if lasting in ("session", "hour"):
            self.grants.give_session(self.requests.new_id(), wish)
        elif lasting == "always":
            self.grants.give_always(self.requests.new_id(), wish, self.config.expire_days)
        self.write_down("approve", wish, request=request.id, lasts=lasting)
        self.wake()

    def _refuse(self, request: ApprovalRequest, wish: Wish) -> None:
        """A person says no to a wish."""
        self.requests.decline(request, trio.current_time())
        self.write_down("deny", wish, request=request.id)
        self.wake()

    def write_down(self, kind: str, wish: Wish, **members: object) -> None:
        """Have the audit note something about a wish."""
        subject = wish.subject
        who = {"p": subject.principal, "host": subject.host, "up": subject.upstream}
        self._note(kind, ref=wish.ref, **who, name=wish.exposed, rule=wish.rule, **members)

    # --- for people outside of hosts

    @property
    def undecided(self) -> int:
        """Requests that nobody has decided on."""
        return sum(not (each.is_approved or each.is_declined) for each in self.requests.all(trio.current_time()))

    def list_all(self) -> messages.ApprovalList:
        """All requests, the oldest first, and all grants."""
        now, wall = trio.current_time(), self.grants.wall()
        requests = tuple(_describe_request(each, now) for each in self.requests.all(now))
        return messages.ApprovalList(requests, tuple(_describe_grant(*each, wall) for each in self.grants))

    def show(self, id: str) -> messages.ShownRequest:
        """One request, with all of its arguments. Raises UnknownRequest."""
        wish = self.find(id).wish
        return messages.ShownRequest(id, wish.text, bytes(wish.shown).decode(errors="replace"), self.offers(wish))

    def find(self, id: str) -> ApprovalRequest:
        """The request of this id. Raises UnknownRequest."""
        if (request := self.requests.find(id, trio.current_time())) is None:
            raise UnknownRequest(f"There is no request {id}, or none any more; `hubd approvals` lists those there are")
        return request

    async def approve(self, id: str, lasting: Lasting) -> tuple[ApprovalRequest, Lasting]:
        """A person says yes to a request; the time for which it is good.

        Raises:
            UnknownRequest: there is none, it was decided already, or nobody may agree for so long.
        """
        request = self.find(id)
        wish = request.wish
        if request.is_approved or request.is_declined:
            raise UnknownRequest(f"{id} was {'approved' if request.is_approved else 'denied'} already")
        if lasting == "session" and not wish.caller.lasting:
            lasting = "hour"
        if lasting not in self.offers(wish):
            text = f"approvals may not last that long here: remember = {self.config.remember!r} in [approvals]"
            raise UnknownRequest(f"{text}; `hubd approve {id}` is for one call")
        if lasting == "once":
            self.requests.approve(request, trio.current_time() + self.config.ttl_s)
        elif not request.waiting:
            self.requests.drop(request)
        self._agree(request, wish, lasting)
        await self.grants.save()
        return request, lasting

    def deny(self, id: str, *, is_heard: bool = False) -> ApprovalRequest:
        """A person says no to a request; the next equal call is told, unless its caller has heard of it. Raises
        UnknownRequest: there is none, or it was decided already."""
        request = self.find(id)
        if request.is_declined:
            raise UnknownRequest(f"{id} was denied already")
        request.is_approved, request.is_declined = False, True
        if request.waiting or is_heard:
            self.requests.drop(request)
        self._refuse(request, request.wish)
        return request

    async def revoke(self, id: str = "", tool: str = "", *, all: bool = False) -> list[LastingApproval]:
        """End the grant of this id, those whose visible name fits a glob, or all.

        Raises:
            UnknownRequest: there is no such grant.
            ApprovalMayReturn: it has ended, but only until the hub starts anew.
        """
        tools = NameChoice((tool,))
        found = [each for each, grant, _ in self.grants if all or each == id or (tool and grant.exposed in tools)]
        if not found and not all:
            raise UnknownRequest(f"There is no approval {id or tool}; `hubd approvals` lists those there are")
        ended = [grant for grant in map(self.grants.revoke, found) if grant is not None]
        for grant in ended:
            self._note("revoke", p=grant.principal, host=grant.host, up=grant.upstream, name=grant.exposed)
        self.wake()
        await self.grants.save()
        if self.grants.may_return:
            raise ApprovalMayReturn(f"Taken back until the hub ends: {self.grants.problem}")
        return ended


def _describe_request(request: ApprovalRequest, now: float) -> messages.WaitingRequest:
    wish = request.wish
    return messages.WaitingRequest(
        id=request.id,
        host=wish.subject.host,
        name=wish.exposed,
        server=wish.subject.upstream,
        arguments=wish.short,
        rule=wish.rule,
        age_s=round(now - request.made_at, 1),
        left_s=round(max(0.0, request.expires_at - now), 1),
        waiting=request.waiting,
        decision="approved" if request.is_approved else "denied" if request.is_declined else "",
        principal=wish.subject.principal,
    )


def _describe_grant(id: str, grant: LastingApproval, tenant: Tenant | None, wall: float) -> messages.GivenApproval:
    left_s = None if grant.expires is None else round(grant.expires - wall, 1)
    lasts = "always" if tenant is None else "session" if left_s is None else "hour"
    about = {"host": grant.host, "name": grant.exposed, "server": grant.upstream, "rule": grant.rule}
    return messages.GivenApproval(id=id, **about, principal=grant.principal, lasts=lasts, left_s=left_s)
