"""The use of an authorization response: tokens for its code, a grant that is kept and used, and everybody told.

A code works once, so this goes on in a task of its own whatever becomes of the browser or the terminal that brought it.
"""

import logging
from typing import Final

import trio
from msgspec.structs import replace

from hub.control.sign_ins import SignInOutcome
from hub.link.hub_errors import HubError
from hub.sign_in.callback import Expected, RefusedResponse, judge
from hub.sign_in.prospects import Prospects
from hub.sign_in.return_address import ReturnAddresses
from hub.sign_in.servers import Surroundings
from hub.sign_in.tickets import SignInRecord, Ticket, Tickets, target_of
from upstreams.oauth.model import Grant, OAuthProblem, OAuthUnavailable

log = logging.getLogger("hubd")

STALE_CLIENT: Final = frozenset({"invalid_client", "unauthorized_client"})
"""Errors of servers that know the hub no more: it registers anew."""


class Responses:
    """Carries on with responses."""

    def __init__(
        self, around: Surroundings, tickets: Tickets, prospects: Prospects, addresses: ReturnAddresses
    ) -> None:
        self._around = around
        self._tickets = tickets
        self._prospects = prospects
        self._addresses = addresses

    async def use(self, record: SignInRecord, parameters: dict[str, str]) -> SignInOutcome:
        """Carry on with the response that a record waits for, which is spent by that.

        Cancellation: it goes on all the same, since a code works once.
        """
        record.ticket.is_unanswered = False
        done: list[SignInOutcome] = []
        over = trio.Event()

        async def carry_on() -> None:
            try:
                done.append(await self._answer(record, parameters))
            finally:
                over.set()

        self._around.spawn(carry_on)  # first: if it cannot be carried on with, the response is not spent either
        self._tickets.spend(record)
        await over.wait()
        return done[0] if done else self._failure(record, "The hub failed at it; its log says more")

    async def _answer(self, record: SignInRecord, parameters: dict[str, str]) -> SignInOutcome:
        ticket, server = record.ticket, record.discovery.server
        try:
            code = judge(parameters, Expected(server.issuer, server.sends_issuer))
            grant = await self._redeem(record, code)
            await self._around.accounts.keep(grant)
            if ticket.agreed == grant.key.issuer:
                yes = ticket.upstream, ticket.principal, ticket.agreed
                await self._around.accounts.ask(lambda store: store.facts.agree(*yes))
        except RefusedResponse as error:
            self._learn(ticket, error.code)
            outcome = self._failure(record, str(error), "denied" if error.code == "access_denied" else "failed")
        except OAuthProblem as error:
            self._learn(ticket, error.code)
            outcome = self._failure(record, str(error))
        except (OAuthUnavailable, HubError) as error:
            outcome = self._failure(record, str(error))
        else:
            outcome = self._success(record, grant)
        log.info("sign-in at %s: %s", ticket.server_name, outcome.state)
        ticket.tell(outcome)
        return outcome

    async def _redeem(self, record: SignInRecord, code: str) -> Grant:
        """Get the tokens for a code.

        Raises:
            OAuthProblem, OAuthUnavailable: as `Servers`.
        """
        ticket = record.ticket
        config = self._around.upstream(ticket.upstream)
        if config is None or config.url is None:
            raise OAuthProblem(f"{ticket.server_name} was removed meanwhile")
        if target_of(config) != record.target:
            raise OAuthProblem(
                f"The configuration of {ticket.server_name} has changed since this sign-in began, so what it came back"
                " with is not used. Begin it again."
            )
        return await self._around.servers.redeem(config, record, code)

    def _success(self, record: SignInRecord, grant: Grant) -> SignInOutcome:
        """End the ticket, start the upstream, and tell everybody."""
        ticket = record.ticket
        self._tickets.end(ticket)
        self._prospects.forget(ticket.upstream, ticket.principal)
        self._addresses.listeners.release(record.redirect)
        self._around.signed_in(ticket.upstream, ticket.visit)
        lacking = set(record.scope.split()) - set(grant.scope.split()) - {"offline_access"}
        less = f" Not granted: {', '.join(sorted(lacking))}." if lacking else ""
        return SignInOutcome(
            upstream=ticket.upstream,
            principal=ticket.principal,
            state="signed_in",
            text=f"Signed in for {ticket.server_name} at {grant.key.issuer}.{less}",
            issuer=grant.key.issuer,
            scope=grant.scope,
            until=grant.expires_at,
            renewable=grant.refresh_token is not None,
        )

    def _failure(self, record: SignInRecord, text: str, state: str = "failed") -> SignInOutcome:
        ticket, issuer = record.ticket, record.discovery.server.issuer
        return SignInOutcome(
            upstream=ticket.upstream, principal=ticket.principal, state=state, text=text, issuer=issuer
        )

    def _learn(self, ticket: Ticket, code: str) -> None:
        """Do the next try another way, if the error says so."""
        if code in STALE_CLIENT:
            ticket.wish = replace(ticket.wish, anew=True, other_method=code == "invalid_client")
        elif code == "invalid_scope":
            ticket.wish = replace(ticket.wish, with_scope=True)
        self._prospects.forget(ticket.upstream, ticket.principal)
