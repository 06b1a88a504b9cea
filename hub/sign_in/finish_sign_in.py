"""The end of a sign-in: the authorization response that a browser brings back, its meaning (RFC 6749 4.1.2, RFC 9207)
and its use.

A response is judged in this order, and a later step is not looked at before the earlier ones: the request is a
navigation of a browser; no parameter twice, none too long; its state (which the caller looks up); the issuer; the
error; the code. Nothing of an error is shown before the issuer is known to be the right one.

A code works once, so its use goes on in a task of its own whatever becomes of the browser or the terminal that brought
it: tokens, a grant that is kept and used, and everybody told.
"""

import logging
from collections.abc import Mapping
from typing import Final
from urllib.parse import unquote_to_bytes, urlsplit

import trio
from msgspec import Struct
from msgspec.structs import replace

from hub.control.sign_in_messages import SignInOutcome
from hub.link.hub_errors import HubError
from hub.sign_in.ask_authorization_server import Surroundings
from hub.sign_in.discover_before_sign_in import SignInPreflights
from hub.sign_in.pending_sign_ins import SignInRecord, Ticket, Tickets
from hub.sign_in.redirect_uris import ReturnAddresses
from hub.wire.printable import printable
from upstreams.oauth.model import AuthorizationServer, Grant, OAuthProblem, OAuthUnavailable, account_of

MAX_QUERY_BYTES: Final = 8 << 10
MAX_VALUE_BYTES: Final = 4 << 10
"""Codes of some authorization servers are longer than 2 KB."""
MAX_PARAMETERS: Final = 32
MAX_ERROR: Final = 64
MAX_DESCRIPTION: Final = 200
SHOWN: Final = frozenset({"error", "error_description"})
"""Parameters that are only shown, and made printable for that; in others a control character is a trick."""

log = logging.getLogger("hubd")

STALE_CLIENT: Final = frozenset({"invalid_client", "unauthorized_client"})
"""Errors of servers that know the hub no more: it registers anew."""


class BadResponse(Exception):
    """A response that says nothing: it belongs to no sign-in of this hub, or cannot be read in one way only."""


class RefusedResponse(OAuthProblem):
    """A response that ends the sign-in that it belongs to; `code`: the `error` in it."""


def is_navigation(headers: Mapping[str, str]) -> bool:
    """True if a browser says that a person opens this as a page of its own, or if it says nothing of that.

    Not in a frame, not as a picture, not by a script, and not beforehand (Fetch Metadata, `Sec-Purpose`). A browser
    sends no `Origin` then, whoever redirects to here."""
    if headers.keys() & {"origin", "sec-purpose", "purpose", "x-moz", "x-purpose"}:
        return False
    mode, place = headers.get("sec-fetch-mode", "navigate"), headers.get("sec-fetch-dest", "document")
    return (mode, place) == ("navigate", "document")


def read_query(query: str) -> dict[str, str]:
    """The parameters of a query, each of which is there once. Raises BadResponse: one is there twice, is too long, or
    is no text."""
    if len(query) > MAX_QUERY_BYTES or query.count("&") >= MAX_PARAMETERS:
        raise BadResponse("The address is too long")
    found: dict[str, str] = {}
    for part in filter(None, query.split("&")):
        name, _, value = part.partition("=")
        if (key := _text(name)) in found:
            raise BadResponse("The address has a parameter twice")
        found[key] = _text(value, is_shown=key in SHOWN)
    return found


def _text(part: str, *, is_shown: bool = False) -> str:
    data = unquote_to_bytes(part.replace("+", " "))
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise BadResponse("The address is no text") from None
    is_plain = is_shown or not any(character < " " or character == "\x7f" for character in text)
    if len(data) > MAX_VALUE_BYTES or not is_plain:
        raise BadResponse("The address has a parameter that is too long, or holds a control character")
    return text


def judge(parameters: Mapping[str, str], server: AuthorizationServer) -> str:
    """The code in a response to a request to `server`. Raises RefusedResponse: it has none, or does not come from the
    authorization server that was asked."""
    issuer, sender = server.issuer, parameters.get("iss")
    if sender is None and server.sends_issuer:
        text = f"An answer came that does not say who sent it, though {issuer} always does, so it is not trusted"
        raise RefusedResponse(text)
    if sender not in (None, issuer):
        raise RefusedResponse(f"An answer came from another authorization server than {issuer}, so it is not trusted")
    if (error := parameters.get("error")) is not None:
        raise RefusedResponse(_say(issuer, error, parameters.get("error_description", "")), code=error)
    if code := parameters.get("code"):
        return code
    raise RefusedResponse(f"{issuer} sent the browser back without a code")


def _say(issuer: str, error: str, description: str) -> str:
    if error == "access_denied" and not description:
        return f"{issuer} says that access was denied"
    shown = printable(error[:MAX_ERROR])[:MAX_ERROR]
    detail = printable(description[:MAX_DESCRIPTION])[:MAX_DESCRIPTION]
    return f"{issuer} refused: {shown}{detail and f' ({detail})'}"


def read_pasted(line: str) -> tuple[str, dict[str, str]]:
    """The path and the parameters of an address that a person copied out of a browser. Raises BadResponse: it is no
    such address; the text says what is."""
    address = line.strip().strip("<>\"'")
    wanted = "Paste the whole address of the page that did not load; it begins with http and holds code= and state="
    if len(address) > MAX_QUERY_BYTES + 1024:
        raise BadResponse(f"That is too long. {wanted}")
    try:
        parts = urlsplit(address)
    except ValueError:
        raise BadResponse(wanted) from None
    if parts.scheme not in ("http", "https") or not parts.netloc or not address.isprintable():
        raise BadResponse(wanted)
    parameters = read_query(parts.query)
    if "state" not in parameters:
        raise BadResponse(wanted)
    return parts.path, parameters


class Responses(Struct, eq=False):
    """Responses that have come back: what they lead to."""

    around: Surroundings
    tickets: Tickets
    preflights: SignInPreflights
    addresses: ReturnAddresses

    async def use(self, record: SignInRecord, parameters: dict[str, str]) -> SignInOutcome:
        """Carry on with the response that a record waits for, which is spent by that.

        Cancellation: it goes on all the same, since a code works once."""
        record.ticket.is_unanswered = False
        done: list[SignInOutcome] = []
        over = trio.Event()

        async def carry_on() -> None:
            try:
                done.append(await self._answer(record, parameters))
            finally:
                over.set()

        self.around.spawn(carry_on)  # first: if it cannot be carried on with, the response is not spent either
        self.tickets.spend(record)
        await over.wait()
        return done[0] if done else self._failure(record, "The hub failed at it; its log says more")

    async def _answer(self, record: SignInRecord, parameters: dict[str, str]) -> SignInOutcome:
        ticket = record.ticket
        try:
            code = judge(parameters, record.discovery.server)
            grant = await self._redeem(record, code)
            await self.around.accounts.keep(grant)
            if ticket.agreed == grant.key.issuer:
                yes = ticket.upstream, ticket.principal, ticket.agreed
                await self.around.accounts.ask(lambda store: store.facts.agree(*yes))
        except OAuthProblem as error:
            self._learn(ticket, error.code)
            is_denied = isinstance(error, RefusedResponse) and error.code == "access_denied"
            outcome = self._failure(record, str(error), "denied" if is_denied else "failed")
        except (OAuthUnavailable, HubError) as error:
            outcome = self._failure(record, str(error))
        else:
            outcome = self._success(record, grant)
        log.info("sign-in at %s: %s", ticket.server_name, outcome.state)
        ticket.tell(outcome)
        return outcome

    async def _redeem(self, record: SignInRecord, code: str) -> Grant:
        """Get the tokens for a code. Raises OAuthProblem, OAuthUnavailable: as `AuthorizationServers`."""
        ticket = record.ticket
        if (config := self.around.upstream(ticket.upstream)) is None or config.url is None:
            raise OAuthProblem(f"{ticket.server_name} was removed meanwhile")
        if account_of(ticket.upstream, config, ticket.principal) != record.account:
            raise OAuthProblem(
                f"The configuration of {ticket.server_name} has changed since this sign-in began, so what it came back"
                " with is not used. Begin it again."
            )
        return await self.around.servers.redeem(record, code)

    def _success(self, record: SignInRecord, grant: Grant) -> SignInOutcome:
        """End the ticket, start the upstream, and tell everybody."""
        ticket = record.ticket
        self.tickets.end(ticket)
        self.preflights.forget(ticket.upstream, ticket.principal)
        self.addresses.listeners.release(record.redirect)
        self.around.signed_in(ticket.upstream, ticket.visit)
        lacking = sorted(set(record.scope.split()).difference(grant.scope.split(), ["offline_access"]))
        less = f" Not granted: {', '.join(lacking)}." if lacking else ""
        issuer, renewable = grant.key.issuer, grant.refresh_token is not None
        text = f"Signed in for {ticket.server_name} at {issuer}.{less}"
        facts = {"issuer": issuer, "scope": grant.scope, "until": grant.expires_at, "renewable": renewable}
        return ticket.outcome_of("signed_in", text, **facts)

    def _failure(self, record: SignInRecord, text: str, state: str = "failed") -> SignInOutcome:
        return record.ticket.outcome_of(state, text, issuer=record.discovery.server.issuer)

    def _learn(self, ticket: Ticket, code: str) -> None:
        """Do the next try another way, if the error says so."""
        if code in STALE_CLIENT:
            ticket.wish = replace(ticket.wish, anew=True, other_method=code == "invalid_client")
        elif code == "invalid_scope":
            ticket.wish = replace(ticket.wish, with_scope=True)
        self.preflights.forget(ticket.upstream, ticket.principal)
