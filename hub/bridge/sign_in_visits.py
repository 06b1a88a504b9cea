"""Calls of upstreams at which a person has to sign in first: each kind of host is told in its own way.

As with pages that upstreams want to be visited (`url_elicitation`), but it is the hub that sends people there, to a
page of its own, and knows when they are done. A host that sends nobody to pages gets a text, in which the command
always helps; so there is no capability that it would have to declare.
"""

from collections.abc import Awaitable, Callable
from typing import Protocol

from msgspec import Struct

from hub.bridge.input_rounds import MAX_ROUNDS, Crossing
from hub.bridge.url_elicitation import UrlElicitations, page_of
from hub.link.hub_errors import UpstreamUnauthorized
from hub.link.interface import Caller
from hub.wire.declarations import URL, elicitation_modes
from hub.wire.jsonrpc import Reply
from hub.wire.mcp import L4, MAY_ASK, Era
from hub.wire.questions.question import QuestionRefusal


class SignInVisit(Struct, frozen=True):
    """A page that a host may send its user to."""

    url: str
    id: str
    """The hub's own id of this visit (`elicitationId`), which says nothing of where the page is."""
    message: str
    """The text for the person who is to go there."""
    code: str = ""
    """The code that the page asks for, in groups; "": it asks for none."""


class SignInGuide(Protocol):
    """Knows where people sign in; `hub.sign_in.sign_ins.SignIns` is one.

    When a sign-in is done, `hub.app.Hub.visit_done` is to be called with the id of its visit.
    """

    async def look(self, upstream: str, caller: Caller) -> None:
        """Find out, within some seconds, what `visit` and `advice` have to say. Raises nothing."""
        ...

    def visit(self, upstream: str, caller: Caller) -> SignInVisit | None:
        """The page for the person behind `caller`; None: there is none that would work now."""
        ...

    def advice(self, upstream: str, caller: Caller) -> str:
        """The text for the model: what the person has to do, with the address of a page if one would work now."""
        ...


FindGuide = Callable[[], Awaitable[SignInGuide]]
"""Finds the guide, and loads it if that has not been done yet."""


class SignInNeeded(UpstreamUnauthorized):
    """A person has to sign in first; the text says how."""

    retryable = True


class SignInVisits:
    """Asks hosts to have people sign in. Without a guide nobody is asked anything."""

    def __init__(self, urls: UrlElicitations) -> None:
        self._urls = urls
        self.find_guide: FindGuide | None = None

    async def ask(self, error: UpstreamUnauthorized, crossing: Crossing, *, round: int) -> Reply | None:
        """The reply to an operation that failed with `error`; None: there is nothing to be done about it. `round`
        counts such failures of the operation.

        Raises:
            SignInNeeded: the host can only be told what to do.
        """
        name, caller = crossing.upstream.name, crossing.exchange.caller
        if self.find_guide is None or not error.asks_person or not crossing.upstream.config.signs_in_by_person:
            return None
        guide = await self.find_guide()
        await guide.look(name, caller)
        if crossing.request.method in MAY_ASK and round <= MAX_ROUNDS and _visits_pages(caller):
            visit = guide.visit(name, caller)
            if visit is not None:
                facts = SignInNeeded(visit.message, upstream=name).facts()
                page = page_of(visit.id, visit.url, visit.message, name)
                try:
                    return self._urls.ask([page], facts, crossing, message=visit.message, round=round, own=True)
                except QuestionRefusal:  # nobody is sent to an address like that
                    pass
        raise SignInNeeded(guide.advice(name, caller), upstream=name)


def _visits_pages(caller: Caller) -> bool:
    """True if a host can be asked to have a page visited."""
    is_able = caller.era is Era.MODERN or caller.version == L4
    return is_able and URL in elicitation_modes(caller.capabilities)
