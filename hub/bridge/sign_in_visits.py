"""Calls of upstreams at which a person has to sign in first: each kind of host is told in its own way.

As with pages that upstreams want to be visited (`url_elicitation`), but it is the hub that sends people there, to a
page of its own, and knows when they are done. A host that sends nobody to pages gets a text, in which the command
always helps; so there is no capability that it would have to declare.
"""

from typing import Protocol

from hub.bridge.input_requests import MAX_ROUNDS
from hub.bridge.url_elicitation import UrlElicitations, page_of
from hub.link.hub_errors import UpstreamUnauthorized
from hub.link.interface import Caller, Upstream
from hub.wire.capabilities import URL, elicitation_modes
from hub.wire.jsonrpc import Reply, Request
from hub.wire.mcp import L4, MAY_ASK, Era
from hub.wire.questions.question import QuestionRefusal


class Visit(Protocol):
    """A page on which a person signs in."""

    @property
    def url(self) -> str: ...

    @property
    def id(self) -> str:
        """The hub's own id of the visit, which says nothing of where the page is."""
        ...

    @property
    def message(self) -> str:
        """The text for the person who is to go there."""
        ...


class SignInGuide(Protocol):
    """Knows where people sign in; `hub.sign_in.sign_ins.SignIns` is one.

    When a sign-in is done, `hub.app.Hub.visit_done` is to be called with the id of its visit.
    """

    async def look(self, upstream: str, caller: Caller) -> None:
        """Find out, within some seconds, what `visit` and `advice` have to say. Raises nothing."""
        ...

    def visit(self, upstream: str, caller: Caller) -> Visit | None:
        """The page for the person behind `caller`; None: there is none that would work now."""
        ...

    def advice(self, upstream: str, caller: Caller) -> str:
        """The text for the model: what the person has to do, with the address of a page if one would work now."""
        ...


class SignInNeeded(UpstreamUnauthorized):
    """A person has to sign in first; the text says how."""

    retryable = True


class SignInVisits:
    """Asks hosts to have people sign in. Without a guide nobody is asked anything."""

    def __init__(self, urls: UrlElicitations) -> None:
        self._urls = urls
        self._guide: SignInGuide | None = None

    def __repr__(self) -> str:
        return f"<SignInVisits guided by {self._guide!r}>"

    def follow(self, guide: SignInGuide) -> None:
        """Send people where `guide` says, from now on."""
        self._guide = guide

    async def ask(
        self, error: UpstreamUnauthorized, upstream: Upstream, caller: Caller, request: Request, *, round: int
    ) -> Reply | None:
        """The reply to `request` of `caller`, which failed with `error`; None: there is nothing to be done about it.
        `round` counts such failures of the operation.

        Raises:
            SignInNeeded: the host can only be told what to do.
        """
        guide, name = self._guide, upstream.name
        if guide is None or not error.asks_person or not upstream.config.signs_in_by_person:
            return None
        await guide.look(name, caller)
        if request.method in MAY_ASK and round <= MAX_ROUNDS and _visits_pages(caller):
            visit = guide.visit(name, caller)
            if visit is not None:
                facts = SignInNeeded(visit.message, upstream=name).facts()
                page = page_of(visit.id, visit.url, visit.message, name)
                try:
                    return self._urls.ask(
                        [page], facts, upstream, caller, request, message=visit.message, round=round, own=True
                    )
                except QuestionRefusal:  # nobody is sent to an address like that
                    pass
        raise SignInNeeded(guide.advice(name, caller), upstream=name)


def _visits_pages(caller: Caller) -> bool:
    """True if a host can be asked to have a page visited."""
    is_able = caller.era is Era.MODERN or caller.version == L4
    return is_able and URL in elicitation_modes(caller.capabilities)
