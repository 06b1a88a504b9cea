"""SignIns: the flow of all sign-ins of one hub, for terminals, hosts and browsers alike.

    begin (a terminal), visit (a host) -> ticket
    begin page -> discover -> register -> authorization request, which makes a record
    callback, or an address that was pasted -> judged -> tokens -> grant, durable -> upstream started -> waiters told

A sign-in that fails leaves its ticket standing, so that it can be tried again from the same page; one that succeeds
ends it.
"""

from collections.abc import Callable
from typing import Final

import trio
from msgspec.structs import replace

from config.server_names import server_of
from config.settings import ReplicaConfig
from hub.bridge.url_elicitation import SignInVisit
from hub.control.sign_in_messages import SignInOutcome, SignInStep, SignInTrial
from hub.link.call_interface import OWNER, Caller
from hub.link.hub_errors import UpstreamUnauthorized, UpstreamUnavailable
from hub.net.look_after_connections import Handler
from hub.sign_in.ask_authorization_server import Surroundings
from hub.sign_in.authorization_request import host_of, new_secrets
from hub.sign_in.discover_before_sign_in import SignInPreflights, check_scope, join_scopes, too_slow
from hub.sign_in.finish_sign_in import BadResponse, Responses, read_pasted
from hub.sign_in.parse_redirect_uri import WILDCARDS
from hub.sign_in.pending_sign_ins import RECORD_S, Invitation, SignInRecord, Ticket, Tickets, state_hash
from hub.sign_in.redirect_uris import ReturnAddresses
from upstreams.oauth.client_id import ClientWish
from upstreams.oauth.discovery.discover import choose_scopes
from upstreams.oauth.model import Challenge, NoSignIn, OAuthAccount, OAuthProblem, OAuthUnavailable, account_of

LOOK_S: Final = 5.0
"""Time that a host's call waits for what a sign-in would begin with."""


class Begun(SignInStep, frozen=True, kw_only=True):
    """A sign-in that a terminal has begun; or `unusual`, if a person has to agree first, or `wants_token`, if there is
    no sign-in."""

    ticket: Ticket | None = None
    told: trio.Event | None = None
    """Set when there is an outcome."""
    expires_s: float = RECORD_S


class SignIns:
    """All sign-ins of a hub."""

    def __init__(self, around: Surroundings, pages: "Callable[[SignIns], Handler]") -> None:
        """`pages`: makes the handler of browsers' requests for these sign-ins."""
        self._around = around
        self.tickets = Tickets(trio.current_time, around.wall)
        self.preflights = SignInPreflights(around, trio.current_time)
        self.handle: Handler = pages(self)
        self.addresses = ReturnAddresses(around, self.handle)
        self.responses = Responses(around, self.tickets, self.preflights, self.addresses)

    # --- for hosts ----------------------------------------------------------------------------------------------------

    async def look(self, upstream: str, caller: Caller) -> None:
        """Find out, within some seconds, whether `visit` can offer a page; to be awaited before it."""
        upstream = self._around.name_of(upstream)
        if (account := self._account(upstream, caller)) is not None:
            with trio.move_on_after(LOOK_S) as looking:
                await self.preflights.look(account)
            if looking.cancelled_caught:
                self.preflights.note_slow(account)

    def visit(self, upstream: str, caller: Caller) -> SignInVisit | None:
        """The page on which the user of a host signs in; None: there is none that would work now."""
        upstream = self._around.name_of(upstream)
        account, principal = self._account(upstream, caller), caller.identity.principal
        base = None if account is None else self.addresses.begin_base(principal)
        if account is None or base is None or self._is_one_of_several or self.preflights.why_not(account) != "":
            return None
        tells = self.tells_codes(principal)
        if self._around.ends.blind and base.startswith("http:") and not tells:
            return None
        if self.tickets.find(upstream, principal) is None:
            if not self.tickets.may_ask(upstream, principal):
                return None
            self.tickets.note_asked(upstream, principal)
        ticket = self.tickets.obtain(upstream, principal)
        invitation = self.tickets.invite(ticket, caller.identity.host)
        code = invitation.shown_code if tells else ""
        text = f"{upstream} needs you to sign in at {self._server(account)}."
        text += f" The page asks for this code: {code}" if code else ""
        return SignInVisit(f"{base}/oauth/begin/{invitation.id}", ticket.visit, text, code)

    def tells_codes(self, principal: str) -> bool:
        """True if pages ask `principal` for a code, since the hub cannot tell whose browser it is: it is blind, or
        listens at all addresses, as in a container, where browsers are those of another machine. Only the owner is
        asked: whoever else may use the hub could have others sign in in his place by telling them the code."""
        listening = self._around.listening()
        cannot_tell = self._around.ends.blind or (listening is not None and listening.host in WILDCARDS)
        return cannot_tell and principal == OWNER and self.addresses.proxy_origin() is None

    def advice(self, upstream: str, caller: Caller) -> str:
        """The text for a host's model about a call that needs a sign-in first."""
        upstream = self._around.name_of(upstream)
        if (account := self._account(upstream, caller)) is None:
            if (config := self._around.upstream(upstream)) is not None and config.across_principals:
                needed = f"{upstream} needs a sign-in, and its owner has to sign in"
                return f"{needed}: all of this hub use the owner's account."
            text = f"{upstream} needs a sign-in, and the owner of this hub does not share an account there."
            text += f" In the owner's hubd.toml, below [upstreams.{server_of(upstream)}], across_principals = true"
            text += " shares it, and"
            return f'{text} oauth.account = "each" lets everybody sign in.'
        if self._is_one_of_several:
            return _one_of_several(upstream)
        known, why = self.preflights.find(account), self.preflights.why_not(account)
        if why and known is not None and (known.discovery is not None or isinstance(known.failure, NoSignIn)):
            return why
        visit = self.visit(upstream, caller)
        if visit is None and not why and not self.tickets.may_ask(upstream, account.principal):
            return _too_many(upstream)
        server = self._server(account)
        at, way = f" at {server}" if server else "", ""
        if visit is not None:
            way = f" or to open {visit.url}{visit.code and f' and type the code {visit.code} there'}"
        return f'{upstream} needs you to sign in{at}. Ask the user to run "hubd auth {upstream}"{way}, then try again.'

    def _account(self, upstream: str, caller: Caller) -> OAuthAccount | None:
        """The account that a call of `caller` needs at an upstream; None: there is none, or it is not the caller's to
        sign in there."""
        config, principal = self._around.upstream(upstream), caller.identity.principal
        if config is None or (not config.is_each and principal != OWNER):
            return None
        return account_of(upstream, config, principal)

    def _server(self, account: OAuthAccount) -> str:
        known = self.preflights.find(account)
        return "" if known is None or known.discovery is None else host_of(known.discovery.server.issuer)

    # --- for terminals ------------------------------------------------------------------------------------------------

    async def begin(
        self, upstream: str, *, scope: str = "", reset: bool = False, yes: bool = False, by_program: bool = False
    ) -> Begun:
        """Begin a sign-in of the owner's at a terminal; the person there has agreed to what is unusual if `yes`.
        `by_program`: a program of a host or a server may have asked, so only the person's own browser can end it.
        Raises HubError: it cannot begin; the text says why."""
        upstream, principal = self._around.name_of(upstream), OWNER
        account = self._load_account(upstream, principal)
        url = account.url
        try:
            check_scope(account, scope)
            discovery = await self.preflights.discover(account, anew=True)
            unusual = self.preflights.unusual(account)
            agreed = discovery.server.issuer if unusual else ""
            if not unusual and not self.tickets.may_ask(upstream, principal):
                unusual = _too_many(upstream)
            if unusual and not yes:
                return Begun(issuer=discovery.server.issuer, scope=discovery.scope, server_url=url, unusual=unusual)
            ticket = self.tickets.obtain(upstream, principal)
            invitation = self.tickets.invite(ticket, "hubd auth", is_told=True)
            ticket.agreed = agreed or ticket.agreed
            ticket.scope = scope
            if reset or ticket.is_unanswered:
                ticket.wish = replace(ticket.wish, anew=True)
            record, opened = await self.prepare(ticket, invitation, on_terminal=not by_program)
            ticket.is_unanswered = True
        except NoSignIn as error:
            return Begun(wants_token=str(error), server_url=url)
        except (OAuthProblem, OAuthUnavailable) as error:
            raise UpstreamUnauthorized(str(error), upstream=upstream) from None
        base = self.addresses.begin_base(principal, record.redirect)
        page = "" if base is None or not base.startswith("http:") else f"{base}/oauth/begin/{invitation.id}"
        tells = bool(page) and by_program and self.tells_codes(principal)
        return Begun(
            ticket=ticket,
            told=ticket.changed,
            server_url=url,
            url="" if self._around.ends.blind else page,
            authorization_url=page if tells else opened,
            code=invitation.shown_code if tells else "",
            issuer=discovery.server.issuer,
            scope=record.scope,
            port=record.redirect.port if record.redirect.is_loopback else 0,
        )

    async def trial(self, upstream: str) -> SignInTrial:
        """The prospects of a sign-in of the owner's; nothing is registered, and nobody is asked to sign in. Raises
        HubError: no sign-in is made there."""
        upstream = self._around.name_of(upstream)
        account = self._load_account(upstream, OWNER)
        credential = self._around.accounts.find(upstream, OWNER)
        challenge = Challenge() if credential is None else credential.challenge
        problem, is_passing, wants_token = f"{too_slow(upstream)}.", True, False
        with trio.move_on_after(LOOK_S):
            try:
                found = await self._around.servers.discover(account, challenge)
                redirect_uri = await self.addresses.expect(account.settings, found.server)
                await self._around.servers.search(account, found, redirect_uri).foresee()
                problem, is_passing = "", False
            except OAuthProblem as error:
                problem, is_passing, wants_token = str(error), False, isinstance(error, NoSignIn)
            except OAuthUnavailable as error:
                problem = str(error)
        if wants_token and credential is not None:
            credential.note_problem(problem)
        return SignInTrial(upstream, problem, is_passing, wants_token)

    def _load_account(self, upstream: str, principal: str) -> OAuthAccount:
        if (config := self._around.upstream(upstream)) is None and not upstream:
            raise UpstreamUnavailable("There is no identity provider; set issuer and client_id below [oauth.idp]")
        if config is None:
            raise UpstreamUnavailable(f"There is no server {upstream}; `hubd status` lists them")
        if config.url is None:
            text = f'{upstream} is a program and signs in by itself; "hubd logs {upstream}" shows what it says.'
            raise UpstreamUnavailable(text, upstream=upstream)
        if self._is_one_of_several:
            raise UpstreamUnavailable(_one_of_several(upstream), upstream=upstream)
        if config.oauth.grant != "authorization_code" or "authorization" in map(str.lower, config.headers):
            text = f"{upstream} needs nobody to sign in: its configuration says how the hub is let in there"
            raise UpstreamUnavailable(text, upstream=upstream)
        return account_of(upstream, config, principal)

    @property
    def _is_one_of_several(self) -> bool:
        """True if other hubs serve the same hosts, which would not have what people sign in for here."""
        return self._around.config().replica != ReplicaConfig()

    async def wait(self, begun: Begun, within_s: float = RECORD_S) -> SignInOutcome:
        """The outcome of a sign-in that was begun. Cancellation: it stands as it is."""
        ticket, told = begun.ticket, begun.told
        assert ticket is not None, "there is one unless a person has to agree"
        assert told is not None
        with trio.move_on_after(within_s):
            await told.wait()
        if told.is_set() and ticket.outcome is not None:
            return ticket.outcome
        text = f"Nobody signed in at {begun.issuer} within {within_s / 60:.0f} minutes; nothing was changed"
        return ticket.outcome_of("timed_out", text, issuer=begun.issuer)

    async def finish(self, address: str) -> SignInOutcome:
        """Carry on with the address of a page that did not load, which a person has copied. Raises HubError: it belongs
        to no sign-in of this hub; those that are on their way go on."""
        try:
            path, parameters = read_pasted(address)
        except BadResponse as error:
            raise UpstreamUnavailable(str(error)) from None
        record = self.tickets.find_record(parameters["state"])
        if record is None or record.redirect.path != path:
            text = "This hub did not begin the sign-in of that address, or it is over; begin it again"
            raise UpstreamUnavailable(text)
        return await self.responses.use(record, parameters)

    # --- the request --------------------------------------------------------------------------------------------------

    async def prepare(
        self, ticket: Ticket, invitation: Invitation, *, on_terminal: bool, cookie: str = ""
    ) -> tuple[SignInRecord, str]:
        """Make an authorization request: its record and its URL. Raises OAuthProblem: it cannot be made, or a person at
        a terminal has to agree first; OAuthUnavailable: a server cannot be asked now; HubError: no sign-in is made
        there."""
        account = self._load_account(ticket.upstream, ticket.principal)
        settings = account.settings
        async with ticket.lock:
            discovery = await self.preflights.discover(account)
            if (why := self.preflights.unusual(account)) and ticket.agreed != discovery.server.issuer:
                raise OAuthProblem(why)
            redirect = await self.addresses.choose(settings, discovery.server)
            client = await self._around.servers.client(account, discovery, redirect.text, ticket.wish)
            ticket.wish = ClientWish()
            if client.redirect_uri and client.redirect_uri != redirect.text:
                redirect = self.addresses.listen_at(client.redirect_uri)
            wanted = join_scopes(discovery.scope, ticket.scope).split()
            scope = " ".join(choose_scopes(ticket.server_name, wanted, settings))
            resource = "" if settings.resource_parameter == "omit" else discovery.resource.resource
            state, verifier, nonce = new_secrets()
            record = SignInRecord(
                state=state_hash(state),
                verifier=verifier,
                nonce=nonce,
                ticket=ticket,
                invitation=invitation,
                account=account,
                discovery=discovery,
                client=client,
                redirect=redirect,
                scope=scope,
                resource=resource,
                on_terminal=on_terminal,
                ends_at=trio.current_time() + RECORD_S,
                cookie=cookie,
            )
            url = record.url(state)
            self.tickets.keep(record)
            self._tell_asking(ticket)
            return record, url

    def _tell_asking(self, ticket: Ticket) -> None:
        """Have the credential know that a person is being asked, until there is an outcome or time is up."""
        credential = self._around.accounts.find(ticket.upstream, ticket.principal)
        if credential is None or ticket.is_asked:
            return

        async def ask() -> None:
            credential.asking(True)
            try:
                with trio.move_on_after(RECORD_S):
                    await told.wait()
            finally:
                ticket.is_asked = False
                credential.asking(False)

        ticket.is_asked, told = True, ticket.changed
        self._around.spawn(ask)


def _one_of_several(upstream: str) -> str:
    who = upstream or "The identity provider"
    text = f"{who} needs a sign-in, and this hub is one of several ([replica]), which do not share sign-ins."
    text += f" The operator can set headers.Authorization of {who} instead, or have the hubs come as themselves"
    return f'{text} (oauth.grant = "client_credentials").'


def _too_many(upstream: str) -> str:
    text = f"{upstream} has asked for more than three sign-ins within an hour. If you want another one, run"
    return f'{text} "hubd auth {upstream}" in a terminal.'
