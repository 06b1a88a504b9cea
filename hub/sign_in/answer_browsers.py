"""The answers to browsers in a sign-in: the page it begins with, the callback, and the page it ends with.

Whoever made the listener has checked `Host`. Of a browser on this machine it is checked that it is the user's own, of
one behind a proxy that the proxy vouches for the person; nothing else that a request says is believed. Where the hub
cannot tell whose browser it is (`SignIns.tells_codes`), the page asks for the code that the asker was given beside the
address: another user of the machine may read the address in the list of processes, and would sign in with an account of
his own in the owner's place, but does not see the code. Only who typed it learns the state of the request, so the
callback is let through by that. Neither addresses nor queries are logged.
"""

import hmac
import secrets
import time
from typing import Final

import msgspec
import trio

from hub.control.sign_in_messages import SignInOutcome
from hub.link.bounded_dict import BoundedDict
from hub.link.hub_errors import HubError
from hub.net.look_after_connections import HttpRequest, HttpResponse
from hub.sign_in.ask_authorization_server import Surroundings
from hub.sign_in.authorization_request import host_of
from hub.sign_in.connection_owner import LOOPBACK_HOST, Who, is_forwarded, is_from_here
from hub.sign_in.finish_sign_in import BadResponse, is_navigation, read_query
from hub.sign_in.pages import CODE, HEADERS, HTML, begin_page, code_page, page
from hub.sign_in.pending_sign_ins import MAX_TRIES, Invitation, SignInRecord, Ticket
from hub.sign_in.redirect_uris import PROXIED
from hub.sign_in.sign_ins import SignIns
from upstreams.oauth.client_metadata import client_document
from upstreams.oauth.model import IDENTITY_PROVIDER, OAuthProblem, OAuthUnavailable

BEGIN: Final = "/oauth/begin/"
DONE: Final = "/oauth/done/"
DOCUMENT: Final = "/oauth/client.json"
COOKIE: Final = "__Host-hubd-signin"
COOKIE_S: Final = 600
DONE_S: Final = 600.0
MAX_DONE: Final = 64
NO_SUCH_SIGN_IN: Final = (
    'This hub did not begin this sign-in, or it is over. If you began it with "hubd auth" on another machine, paste'
    " this page's address into that terminal. If somebody sent you here, close it: its address opens your account."
)

Headers = tuple[tuple[str, str], ...]


def make_sign_ins(around: Surroundings) -> SignIns:
    """The sign-ins of a hub, with their pages."""
    return SignIns(around, lambda sign_ins: Browsers(sign_ins, around).handle)


class Browsers:
    """Answers the requests of browsers."""

    def __init__(self, sign_ins: SignIns, around: Surroundings) -> None:
        self._sign_ins = sign_ins
        self._around = around
        self._done_with: BoundedDict[str, tuple[float, SignInOutcome, str]] = BoundedDict(MAX_DONE)
        """Outcomes to be shown, until when, and where the sign-in may be tried once more; by the id of the page."""

    async def handle(self, request: HttpRequest, response: HttpResponse) -> None:
        """Answer one request; the connection is not used again."""
        response.is_last()
        path = request.path
        if path.startswith(BEGIN):
            await self._begin(request, response, path.removeprefix(BEGIN))
        elif path.startswith(DONE):
            self._done(response, path.removeprefix(DONE))
        elif path == DOCUMENT:
            self._document(response)
        else:
            await self._callback(request, response)

    # --- begin --------------------------------------------------------------------------------------------------------

    async def _begin(self, request: HttpRequest, response: HttpResponse, id: str) -> None:
        """Show where the sign-in leads, with one link; a browser that a terminal opened is sent on."""
        if request.method == "HEAD":
            _show(response, 200, b"")
            return
        found = self._sign_ins.tickets.by_id(id)
        if not is_navigation(request.headers):
            _tell(response, 403, "Not here", "Open this address in a window of its own.")
        elif found is None or found[1].tries >= MAX_TRIES:
            text = 'This sign-in was never asked for, or it is over. To sign in, run "hubd auth NAME".'
            _tell(response, 404, "Over", text)
        elif not (refusal := await self._refusal(request, found[0])):
            await self._go_on(request, response, *found, is_known=False)
        elif not self._is_for_code(request, found[0], refusal):
            _tell(response, 403, "Not this browser", refusal)
        elif (code := _code(request)) and found[1].admits(code):
            await self._go_on(request, response, *found, is_known=True)
        else:
            _show(response, 200, code_page(found[0].server_name, _ask(found[1]), is_wrong=bool(code)))

    def _is_for_code(self, request: HttpRequest, ticket: Ticket, refusal: str) -> bool:
        """True if a browser that is refused for this reason may go on by the code: it came to an address of this
        machine, and all that is wrong is that nobody can tell whose it is."""
        if refusal != _unknown_browser(ticket.server_name) or is_forwarded(request.headers):
            return False
        is_near = LOOPBACK_HOST.fullmatch(request.headers.get("host", "")) is not None
        return is_near and self._sign_ins.tells_codes(ticket.principal)

    async def _go_on(
        self, request: HttpRequest, response: HttpResponse, ticket: Ticket, invitation: Invitation, *, is_known: bool
    ) -> None:
        """`is_known`: the browser is known by the code, and no more is asked of it."""
        cookie = "" if is_known or is_from_here(request) else secrets.token_urlsafe()
        try:
            record, url = await self._sign_ins.prepare(ticket, invitation, on_terminal=is_known, cookie=cookie)
        except OAuthProblem as error:
            _tell(response, 409, f"No sign-in for {ticket.server_name}", str(error))
            return
        except (OAuthUnavailable, HubError) as error:
            _tell(response, 503, f"No sign-in for {ticket.server_name} now", f"{error}. Reload this page to try again.")
            return
        more = (_cookie_field(cookie, COOKIE_S),) if cookie else ()
        if invitation.is_told and not is_known:
            _show(response, 302, b"", (("Location", url), *more))
        else:
            _show(response, 200, self._page(ticket, invitation, record, url), more)

    def _page(self, ticket: Ticket, invitation: Invitation, record: SignInRecord, url: str) -> bytes:
        server, resource = record.discovery.server, record.discovery.resource
        hosts = host_of(server.issuer), host_of(server.authorization_endpoint)
        for_all = resource.resource if resource.is_parent else ""
        return begin_page(ticket.server_name, *hosts, record.scope, _ask(invitation), url, for_all=for_all)

    # --- callback -----------------------------------------------------------------------------------------------------

    async def _callback(self, request: HttpRequest, response: HttpResponse) -> None:
        """Take an authorization response, and send the browser to an address without its code."""
        if not is_navigation(request.headers):
            _tell(response, 403, "Not here", NO_SUCH_SIGN_IN)
            return
        try:
            parameters = read_query(request.query)
        except BadResponse:
            parameters = {}
        record = self._sign_ins.tickets.find_record(parameters.get("state", ""))
        if record is None or not _came_to(request, record):
            _tell(response, 403, "No such sign-in", NO_SUCH_SIGN_IN)
            return
        if not record.on_terminal and (refusal := await self._refusal(request, record.ticket, record)):
            _tell(response, 403, "Not this browser", refusal)
            return
        outcome = await self._sign_ins.responses.use(record, parameters)
        again = "" if outcome.state == "signed_in" or record.on_terminal else f"{BEGIN}{record.invitation.id}"
        done = secrets.token_urlsafe()
        self._done_with.put(done, (trio.current_time() + DONE_S, outcome, again))
        gone = (_cookie_field("", 0),) if record.cookie else ()
        _show(response, 303, b"", (("Location", f"{DONE}{done}"), *gone))

    # --- who ----------------------------------------------------------------------------------------------------------

    async def _refusal(self, request: HttpRequest, ticket: Ticket, record: SignInRecord | None = None) -> str:
        """The reason why the browser is not let go on; "": it is that of the person who is to sign in."""
        unknown = _unknown_browser(ticket.server_name)
        cookie = record.cookie if record is not None else ""
        if cookie and not hmac.compare_digest(_cookie(request).encode(), cookie.encode()):
            return unknown
        if is_from_here(request) and self._sign_ins.addresses.proxy_origin() is None:
            who = await self._around.ends.who(request)
            of_a_server = (
                "This browser was started by a server that hubd runs, and a server must not sign in for you. Open this"
                " address in a browser that you have started yourself, or run"
                f' "hubd auth {ticket.server_name} --no-browser" in a terminal.'
            )
            return {Who.OWN: "", Who.SERVER: of_a_server}.get(who, unknown)
        principal = "" if request.identity is None else request.identity.principal
        return "" if principal == ticket.principal and principal.startswith(PROXIED) else unknown

    # --- the rest -----------------------------------------------------------------------------------------------------

    def _done(self, response: HttpResponse, id: str) -> None:
        ends_at, outcome, again = self._done_with.get(id, (0.0, None, ""))
        if outcome is None or ends_at <= trio.current_time():
            _tell(response, 404, "Over", "There is nothing here any more. You can close this page.")
            return
        title, last = "Not signed in", "Nothing was changed."
        if outcome.state == "signed_in":
            title = f"Signed in for {outcome.upstream or IDENTITY_PROVIDER}"
            last = "You can close this page and go back to your terminal, or to the program that asked."
        _show(response, 200, page(title, (outcome.text, last), (again, "Try again") if again else None))

    def _document(self, response: HttpResponse) -> None:
        if (base := self._sign_ins.addresses.proxy_origin()) is None:
            _tell(response, 404, "Nothing here", "This hub publishes no document about itself.")
            return
        body = msgspec.json.encode(client_document(base, self._around.config().oauth))
        response.reply(200, body, (("Cache-Control", "max-age=300"), ("X-Content-Type-Options", "nosniff")))


def _unknown_browser(upstream: str) -> str:
    return f'hubd cannot see that this browser is yours. Run "hubd auth {upstream} --no-browser" where hubd runs.'


def _came_to(request: HttpRequest, record: SignInRecord) -> bool:
    """True if the request came to the very address that was named in the authorization request."""
    redirect = record.redirect
    is_host = request.headers.get("host", "").lower() == redirect.text.split("/")[2].lower()
    return request.path == redirect.path and (is_host or not redirect.is_loopback)


def _ask(invitation: Invitation) -> str:
    return f"{invitation.by} asked for it at {time.strftime('%H:%M', time.localtime(invitation.asked_at))}."


def _code(request: HttpRequest) -> str:
    """The code that was typed in; "": none."""
    try:
        return read_query(request.query).get(CODE, "")
    except BadResponse:
        return ""


def _cookie_field(value: str, age_s: int) -> tuple[str, str]:
    return "Set-Cookie", f"{COOKIE}={value}; Path=/; Secure; HttpOnly; SameSite=Lax; Max-Age={age_s}"


def _cookie(request: HttpRequest) -> str:
    """The value of the cookie that ties a browser to its sign-in; "": there is not exactly one."""
    pairs = [part.strip().partition("=") for part in request.headers.get("cookie", "").split(";")]
    found = [value for name, _, value in pairs if name == COOKIE]
    return found[0] if len(found) == 1 else ""


def _tell(response: HttpResponse, status: int, title: str, text: str) -> None:
    _show(response, status, page(title, (text,)))


def _show(response: HttpResponse, status: int, body: bytes, more: Headers = ()) -> None:
    response.reply(status, body, (*HEADERS, *more), content_type=HTML)
