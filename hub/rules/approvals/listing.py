"""Listing: requests and grants as commands show them."""

from collections.abc import Iterable

import trio

from hub.control import approval_messages as messages
from hub.link.call_interface import Tenant
from hub.rules.approvals.approvals import Approvals
from hub.rules.approvals.grants import LastingApproval
from hub.rules.approvals.requests import ApprovalRequest


def list_approvals(approvals: Approvals) -> messages.ApprovalList:
    """All requests, the oldest first, and all grants."""
    now = trio.current_time()
    return messages.ApprovalList(
        tuple(_request(each, now) for each in approvals.requests.all(now)),
        tuple(_grants(approvals.grants, approvals.grants.wall())),
    )


def _request(request: ApprovalRequest, now: float) -> messages.WaitingRequest:
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


def _grants(
    grants: Iterable[tuple[str, LastingApproval, Tenant | None]], now: float
) -> Iterable[messages.GivenApproval]:
    for id, grant, tenant in grants:
        left_s = None if grant.expires is None else round(grant.expires - now, 1)
        yield messages.GivenApproval(
            id=id,
            host=grant.host,
            name=grant.exposed,
            server=grant.upstream,
            rule=grant.rule,
            lasts="always" if tenant is None else "session" if left_s is None else "hour",
            left_s=left_s,
            principal=grant.principal,
        )


def show_request(approvals: Approvals, id: str) -> messages.ShownRequest:
    """One request, with all of its arguments. Raises UnknownRequest."""
    wish = approvals.find(id).wish
    return messages.ShownRequest(id, wish.text, bytes(wish.shown).decode(errors="replace"), approvals.offers(wish))
