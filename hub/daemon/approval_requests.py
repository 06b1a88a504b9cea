"""Requests of the command line about approvals.

A yes is for a person to give: it is refused to programs of hosts and of servers, which descend from what attached a
host, or from the hub. A no is taken from everybody. What a host approves for itself in the form that it shows is its
user's affair.
"""

import logging
import os
from collections.abc import AsyncGenerator, Callable, Iterable
from typing import TYPE_CHECKING, Literal

import trio

from hub.app import Hub
from hub.control import approval_messages as messages
from hub.control.server import asker
from hub.link.hub_errors import Executed, HubError
from hub.linux.processes import Process, find_process
from upstreams.redact import Mask

if TYPE_CHECKING:
    from hub.rules.approvals.approvals import Approvals

log = logging.getLogger("hubd")


class OnlyAPerson(HubError):
    """A program asks for what only a person may do."""

    kind = "denied"
    executed = Executed.NO


class ApprovalRequests:
    """Carries them out, by their names in `hub.control.methods`. `shims`: the processes by which hosts are attached."""

    def __init__(self, hub: Hub, shims: Callable[[], Iterable[Process]]) -> None:
        self._hub = hub
        self._shims = shims

    @property
    def _approvals(self) -> "Approvals":
        return self._hub.approvals

    async def approvals(self, follow: bool = False) -> AsyncGenerator[messages.ApprovalList, None]:
        """All requests and approvals; with `follow` then, for ever, all of them whenever something changes. Meanwhile
        calls wait for a decision."""
        from hub.rules.approvals.listing import list_approvals  # most hubs have no rule that asks

        approvals = self._approvals
        if not follow:
            yield list_approvals(approvals, self._find_mask)
            return
        with approvals.watch():
            while True:
                edition = approvals.edition
                yield list_approvals(approvals, self._find_mask)
                while approvals.edition == edition:
                    await approvals.changed.wait()

    def _find_mask(self, name: str) -> Mask:
        upstream = self._hub.supervisor.upstreams.get(name)
        return Mask(None if upstream is None else upstream.config, self._hub.secrets)

    async def approval_show(self, id: str) -> messages.ShownRequest:
        """One request, with all of its arguments. Raises HubError: there is none of this id."""
        from hub.rules.approvals.listing import show_request

        return show_request(self._approvals, id, self._find_mask)

    async def approval_give(
        self, id: str, lasting: Literal["once", "session", "hour", "always"] = "once"
    ) -> messages.DecidedRequest:
        """Approve a request. Raises HubError: there is none of this id, or no person asks for that."""
        request = self._approvals.find(id)
        if why := await self._why_no_person():
            log.warning("refused to approve the request %s: %s", id, why)
            self._approvals.write_down("refuse", request.wish, request=id, why=why)
            text = "`hubd approve` was run by a program of a host or a server, and only a person may do that"
            raise OnlyAPerson(f"{text}. Run it in a terminal.")
        waiting = request.waiting
        request, lasts = await self._approvals.approve(id, lasting)
        return messages.DecidedRequest(id, request.wish.subject.host, request.wish.exposed, lasts, waiting)

    async def approval_deny(self, id: str) -> messages.DecidedRequest:
        """Deny a request. Raises HubError: there is none of this id."""
        waiting = self._approvals.find(id).waiting
        request = self._approvals.deny(id)
        return messages.DecidedRequest(id, request.wish.subject.host, request.wish.exposed, "", waiting)

    async def approval_revoke(self, id: str = "", tool: str = "", all: bool = False) -> messages.RevokedApprovals:
        """End the approval of this id, those of tools with names like `tool`, or all. Raises HubError: there are
        none."""
        ended = await self._approvals.revoke(id, tool, all=all)
        return messages.RevokedApprovals(tuple(grant.exposed for grant in ended))

    async def _why_no_person(self) -> str:
        return await why_no_person(self._shims())


async def why_no_person(shims: Iterable[Process]) -> str:
    """The reason why a program of a host or a server may be asking; "": it is a person. `shims` as in
    `ApprovalRequests`."""
    from hub.sign_in.connection_owner import why_of_a_host

    pid, attached = asker.get(), tuple(shims)
    return await trio.to_thread.run_sync(lambda: why_of_a_host(find_process(pid), attached, os.getpid()))
