"""URL elicitation: visits to pages, for upstreams that ask for one, and where a person has to sign in first.

An upstream of 2025-11-25 asks by the error -32042. Its call has ended; a person has to open one or more URLs, and then
the call is made again. The host is told by its revision and capabilities:

    2025-11-25, mode url    the error, with ids of the hub's own; `PageVisits` tells hosts when a visit ends
    modern, mode url        an input request for each page. Its retry waits a while for the upstream to say that all
                            visits are done, then the upstream is called afresh
    modern, no mode url     -32021: there is no other way
    others                  the pages as text, for the model to pass on

With sign-ins it is the hub that sends people to a page of its own. A host that sends nobody to pages gets a text.

The host of a pipeline is asked while a step waits, in either era; then the step is called again, and no other.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from itertools import count
from typing import Any, Final, Protocol

import trio
from msgspec import Raw, Struct

from hub.bridge.pending_url_elicitations import PageVisits
from hub.bridge.questions_in_results import MAX_AT_ONCE, MAX_ROUNDS, Crossing, InputRefused, admit
from hub.bridge.sealed_request_state import Binding, RequestState, RequestStates, input_required
from hub.link.call_interface import Caller, Upstream
from hub.link.hub_errors import Executed, HubError, UpstreamProtocolError, UpstreamUnauthorized
from hub.wire.capabilities import URL, elicitation_modes
from hub.wire.jsonrpc import Failure, RemoteProtocolError, Reply, Result, peek_array, peek_object, peek_str, raw
from hub.wire.mcp import ELICIT, L4, MAY_ASK, MISSING_CAPABILITY, MODERN, URL_ELICITATION_REQUIRED, Era
from hub.wire.questions.askable_questions import Question, QuestionRefusal, check_capabilities
from hub.wire.questions.check_and_translate import answer_for_upstream, page_host, question_for_host
from hub.wire.total_item_limit import data_of

AGAIN: Final = "again"
"""Mode of the request states made here."""
AGAIN_TTL_S: Final = 24 * 3600.0
"""Time for a person to visit the page. The hub keeps nothing meanwhile."""
URL_WAIT_S: Final = 30.0
"""Time that a retry waits for the upstream to report the visits as done."""
SIGN_IN_WAIT_S: Final = 300.0
"""Time that a step of a legacy host waits for a sign-in: that host is not to ask again and again meanwhile."""


class VisitNeeded(HubError):
    """The upstream needs a visit to a page, and the host cannot ask for one."""

    kind = "url_elicitation_required"
    executed = Executed.NO
    retryable = True

    @property
    def for_log(self) -> str:
        return f"{self.upstream} needs a page to be opened first"


class Page(Struct, frozen=True):
    """A page to visit."""

    id: str
    """Id of the visit at the upstream."""
    url: str
    message: str
    question: Question


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

    def visit(self, upstream: str, caller: Caller) -> SignInVisit | None:
        """The page for the person behind `caller`; None: there is none that would work now."""

    def advice(self, upstream: str, caller: Caller) -> str:
        """The text for the model: what the person has to do, with the address of a page if one would work now."""


FindGuide = Callable[[], Awaitable[SignInGuide]]
"""Finds the guide, and loads it if that has not been done yet."""


class SignInNeeded(UpstreamUnauthorized):
    """A person has to sign in first; the text says how."""

    retryable = True


class UrlElicitations:
    """Carries visits between upstreams and hosts. `visits` is told of the ids that hosts of 2025-11-25 are given."""

    def __init__(self, states: RequestStates, visits: PageVisits) -> None:
        self._states = states
        self._visits = visits
        self.find_guide: FindGuide | None = None
        """Without one nobody is asked to sign in."""

    def visit(self, reply: Reply, crossing: Crossing, *, round: int = 1) -> Reply:
        """Handle an error that asks for a visit to a page; other replies are returned unchanged. `round` counts such
        errors of the operation. Raises VisitNeeded: see there; UpstreamProtocolError: the error does not say what to
        visit, or comes again and again."""
        upstream, caller = crossing.upstream, crossing.exchange.caller
        if not (pages := self._pages_wanted(reply, crossing, round)):
            return reply
        assert isinstance(reply, Failure), "it wants pages"
        try:
            asked = self.ask(pages, data_of(reply), crossing, message=reply.message, round=round, own=False)
        except QuestionRefusal:
            if caller.era is Era.MODERN:
                needed = raw({"requiredCapabilities": {"elicitation": {URL: {}}}})
                return Failure(MISSING_CAPABILITY, reply.message, needed)
            raise VisitNeeded(_in_words(pages, upstream.name), upstream=upstream.name) from None
        upstream.elicitations.forget(page.id for page in pages)
        return asked

    def _pages_wanted(self, reply: Reply, crossing: Crossing, round: int) -> list[Page]:
        """The pages that a reply asks for; [] if none. Raises UpstreamProtocolError: as `visit`."""
        upstream = crossing.upstream
        if not isinstance(reply, Failure) or reply.code != URL_ELICITATION_REQUIRED:
            return []
        if upstream.version_for(crossing.exchange.caller) != L4:
            return []
        pages = _pages(reply, upstream.name)
        if round > MAX_ROUNDS:
            text = f"{upstream.name} asked more than {MAX_ROUNDS} times to open a page for one operation"
            raise UpstreamProtocolError(text, upstream=upstream.name)
        admit(upstream, {page.id: page.question for page in pages})
        return pages

    async def call_step(self, call: Callable[[], Awaitable[Reply]], crossing: Crossing) -> Reply:
        """The reply to a step of a pipeline, which is called again after visits to pages. Raises as `visit` and
        `ask_to_sign_in`; InputRefused: the person does not want to. Cancellation: passes to `call`, or withdraws the
        question."""
        upstream, caller = crossing.upstream, crossing.exchange.caller
        for round in count(1):
            try:
                reply = await call()
            except UpstreamUnauthorized as error:
                guide = await self._look_for_guide(error, crossing)
                if guide is None:
                    raise
                page = self._sign_in_page(guide, crossing, round)
                if page is None or not _may_be_asked([page], caller):
                    raise self._sign_in_needed(guide, crossing) from None
                wait_s = URL_WAIT_S if caller.era is Era.MODERN else SIGN_IN_WAIT_S
                await self._send_to([page], crossing, wait_s, _say_declined(upstream.name))
                continue
            if not (pages := self._pages_wanted(reply, crossing, round)):
                return reply
            if not _may_be_asked(pages, caller):
                raise VisitNeeded(_in_words(pages, upstream.name), upstream=upstream.name)
            upstream.elicitations.forget(page.id for page in pages)
            await self._send_to(pages, crossing, URL_WAIT_S, _say_refused(upstream.name))
        raise AssertionError("rounds are limited")

    async def _send_to(self, pages: list[Page], crossing: Crossing, wait_s: float, refused: str) -> None:
        """Have a person sent to pages, one after the other, and wait a while for the end of the visits."""
        for page in pages:
            reply = await crossing.exchange.ask(page.question)
            if isinstance(reply, Failure):
                refused = (
                    f"{crossing.upstream.name} needs a page to be opened, and nobody could be asked: {reply.message}"
                )
            elif isinstance(reply, Result) and peek_str(peek_object(reply.value).get("action")) == "accept":
                continue
            raise InputRefused(refused, upstream=crossing.upstream.name, executed=Executed.NO)
        with trio.move_on_after(wait_s):
            await crossing.upstream.elicitations.wait_for(page.id for page in pages)

    def ask(
        self, pages: list[Page], members: dict[str, Any], crossing: Crossing, *, message: str, round: int, own: bool
    ) -> Reply:
        """Ask the host to have `pages` visited: by the error with these `members`, or by input requests. `own`: the hub
        wants that itself. Raises QuestionRefusal: it cannot be asked."""
        caller = crossing.exchange.caller
        for page in pages:
            check_capabilities(page.question, caller.capabilities)
        shown = [question_for_host(page.question, caller.version) for page in pages]
        if caller.era is Era.MODERN:
            requests, ids = {}, {}
            for number, (page, params) in enumerate(zip(pages, shown, strict=True), 1):
                requests[f"q{number}"] = raw({"method": ELICIT, "params": params})
                ids[f"q{number}"] = page.id
            return self._ask(crossing.binding, requests, ids, round, own=own)
        for page in pages:
            self._visits.on_visit_begun(crossing.upstream.name, page.id, caller.conversation)
        return Failure(URL_ELICITATION_REQUIRED, message, raw({**members, "elicitations": shown}))

    async def ask_to_sign_in(self, error: UpstreamUnauthorized, crossing: Crossing, *, round: int) -> Reply | None:
        """The reply to an operation that failed with `error`; None: there is nothing to be done about it. `round`
        counts such failures of the operation. Raises SignInNeeded: the host can only be told what to do."""
        if (guide := await self._look_for_guide(error, crossing)) is None:
            return None
        if (page := self._sign_in_page(guide, crossing, round)) is not None:
            facts = SignInNeeded(page.message, upstream=crossing.upstream.name).facts()
            with suppress(QuestionRefusal):  # nobody is sent to an address like that
                return self.ask([page], facts, crossing, message=page.message, round=round, own=True)
        raise self._sign_in_needed(guide, crossing)

    async def _look_for_guide(self, error: UpstreamUnauthorized, crossing: Crossing) -> SignInGuide | None:
        """The guide for a sign-in that an error wants; None: there is nothing to be done about it."""
        if self.find_guide is None or not error.asks_person or not crossing.upstream.config.signs_in_by_person:
            return None
        guide = await self.find_guide()
        await guide.look(crossing.upstream.name, crossing.exchange.caller)
        return guide

    def _sign_in_page(self, guide: SignInGuide, crossing: Crossing, round: int) -> Page | None:
        """The page that a host may be sent to; None: it can only be told what to do."""
        name, caller = crossing.upstream.name, crossing.exchange.caller
        visits_pages = URL in elicitation_modes(caller.capabilities) and caller.version in (L4, MODERN)
        if not visits_pages or crossing.request.method not in MAY_ASK or round > MAX_ROUNDS:
            return None
        visit = guide.visit(name, caller)
        return None if visit is None else page_of(visit.id, visit.url, visit.message, name)

    def _sign_in_needed(self, guide: SignInGuide, crossing: Crossing) -> SignInNeeded:
        name = crossing.upstream.name
        for_people = f"{name} needs a sign-in: run `hubd auth {name}`"
        return SignInNeeded(guide.advice(name, crossing.exchange.caller), upstream=name, for_people=for_people)

    async def resume(self, state: RequestState, answers: Mapping[str, Raw], upstream: Upstream) -> Reply | None:
        """Answer a retry with a `state` of mode `AGAIN` and these `answers`; None: call the upstream afresh, in the
        round of `round_of`.

        Waits for visits at most `URL_WAIT_S`; an upstream need not say when they are done. Raises InputRefused: the
        person does not want to."""
        requests = peek_object(state.members.get("r"))
        ids = {key: peek_str(id) or "" for key, id in peek_object(state.members.get("i")).items()}
        missing = {key: value for key, value in requests.items() if key not in answers}
        actions = []
        try:
            for key in requests.keys() & answers.keys():
                question = Question(ELICIT, peek_object(peek_object(requests[key]).get("params")), upstream.name, L4)
                answer = answer_for_upstream(question, answers[key], MODERN)
                actions.append(peek_str(peek_object(answer).get("action")))
        except RemoteProtocolError as error:
            return error.failure
        own = "o" in state.members
        if any(action != "accept" for action in actions):
            text = _say_declined(upstream.name) if own else _say_refused(upstream.name)
            raise InputRefused(text, upstream=upstream.name, executed=Executed.NO)
        if missing:
            return self._ask(state.binding, missing, ids, round_of(state), own=own)
        with trio.move_on_after(URL_WAIT_S):
            await upstream.elicitations.wait_for(ids.values())
        return None

    def _ask(self, binding: Binding, requests: dict[str, Raw], ids: dict[str, str], round: int, *, own: bool) -> Reply:
        kept = {"r": requests, "i": ids, "n": round} | ({"o": True} if own else {})
        return input_required(requests, self._states.seal(AGAIN, binding, kept, ttl_s=AGAIN_TTL_S, here=True))


def round_of(state: RequestState) -> int:
    """The round that an upstream is called in after `UrlElicitations.resume`, for the next `visit`."""
    return int(bytes(state.members["n"])) + 1


def _pages(failure: Failure, upstream: str) -> list[Page]:
    """Read the pages that an error names. Raises UpstreamProtocolError."""
    found = peek_array(data_of(failure).get("elicitations"))
    pages: list[Page] = []
    for params in map(peek_object, found[:MAX_AT_ONCE]):
        id, url, message = (peek_str(params.get(name)) for name in ("elicitationId", "url", "message"))
        if id is None or url is None or message is None:
            break
        try:
            page_host(url)
        except QuestionRefusal as refused:
            text = f"{upstream} cannot go on before a page is opened. {refused.failure.message}"
            raise UpstreamProtocolError(text, upstream=upstream, executed=Executed.NO) from None
        pages.append(page_of(id, url, message, upstream, params))
    if not pages or len(pages) != len(found):
        text = f"{upstream} wants a page to be opened, but does not say which: {failure.message[:200]}"
        raise UpstreamProtocolError(text, upstream=upstream, executed=Executed.NO)
    return pages


def page_of(id: str, url: str, message: str, upstream: str, more: Mapping[str, Raw] = {}) -> Page:
    """The page at `url`, to which `upstream` or the hub on behalf of it sends people."""
    params = {**more, "elicitationId": raw(id), "url": raw(url), "message": raw(message), "mode": raw(URL)}
    return Page(id, url, message, Question(ELICIT, params, upstream, L4))


def _may_be_asked(pages: Iterable[Page], caller: Caller) -> bool:
    """True if a person can be sent to these pages by their host."""
    try:
        for page in pages:
            check_capabilities(page.question, caller.capabilities)
            question_for_host(page.question, caller.version)
    except QuestionRefusal:
        return False
    return True


def _say_refused(upstream: str) -> str:
    return f"{upstream} needs a page to be opened before it can go on, which was refused"


def _say_declined(upstream: str) -> str:
    return f"The sign-in for {upstream} was declined; nothing was called."


def _in_words(pages: Iterable[Page], upstream: str) -> str:
    lines = "".join(f"- {page.message}: {page.url}\n" for page in pages)
    return f"{upstream} cannot go on before the user has opened this in a browser:\n{lines}Then call it again."
