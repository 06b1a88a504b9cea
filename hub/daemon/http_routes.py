"""Routes of a hub's address, a golden list: MCP, the pages beside it, and what is answered without the token.

    GET, HEAD  /livez    200 without a body; 503 once the hub stops          no token
    GET, HEAD  /         one page of plain text for people                   no token
    GET, HEAD  /oauth/begin/TICKET, /oauth/done/ID, /oauth/client.json       no token
    GET        /oauth/callback, /oauth/callback/N                            no token
               sign-ins of people at servers (`hub.sign_in.answer_browsers`)
    GET        /healthz  200                                                 token
    GET        /metrics  200, for Prometheus (`hub.daemon.metrics`)          token, the hub's or one for this alone
    POST       /secrets  200; only where a server takes secrets of people    token of another than the owner
               (`hub.daemon.keys_of_people`)
    GET, HEAD  /.well-known/oauth-protected-resource, and that with /mcp or /mcp/NAME behind it
                         200, metadata; only with auth = "oauth"             no token
    any        /mcp, /mcp/NAME, /mcp/@PROJECT, /mcp/~PROFILE                 token
               MCP (`hub.downstream.http.endpoint`); a token of one profile opens /mcp, which is that profile then, and
               /mcp/~PROFILE, and every other below /mcp is a 404
    GET, HEAD  /ui, /ui/NAME; any /ui/api/NAME                               ticket or key of a page
               the dashboard (`hub.daemon.dashboard`); browsers are led there from /
    every other request is a 404 with one body, token or not: OAuth clients look for metadata of the hub, and shall find
    none, in place of a refusal that they take for the failure of a sign-in. The hub is no authorization server, and has
    no metadata of one

`Host` and `Origin` come first on all. A new page is one more row of `PAGES`; one that shows something of the hub is a
row that `Daemon` puts into `HttpListener.pages`, such as `TokenPage(partial(metrics, self._api))`: it has `DaemonApi`.
"""

import re
from collections.abc import Awaitable
from typing import Final

from msgspec import Struct

from hub.downstream.access.access import DASHBOARD
from hub.downstream.access.refusals import ANYBODY
from hub.downstream.access.resource_metadata import MCP_PATH, ResourceMetadata
from hub.downstream.http.refusals import NOTHING_HERE
from hub.link.call_interface import OWNER, Identity
from hub.net.look_after_connections import EarlyReply, Handler, HttpRequest, HttpResponse

WELCOME: Final = b"""\
This is hubd, a hub for MCP servers: hosts such as Claude Code, Cursor or VS Code reach all servers of its owner here.

MCP is at /mcp (all servers) and /mcp/NAME (one of them), for hosts that send the hub's token:

  hubd install        puts the hub into your hosts, which is all that most people need
  hubd token          prints the token, to send as "Authorization: Bearer TOKEN"
  hubd status         shows servers and hosts
  hubd doctor         finds what does not work, and says what to do

/livez answers 200 while the hub runs, for balancers and health checks.
"""
NOT_FOUND: Final = EarlyReply(404, NOTHING_HERE)
NOT_FOUND_HERE: Final = EarlyReply(
    404, b'{"error":"There is nothing at this path; MCP is at /mcp, /mcp/<upstream> and /mcp/~<profile>"}'
)
ALIVE: Final = EarlyReply(200, b"")
STOPPING: Final = EarlyReply(503, b"", (("Retry-After", "1"),))
SIGN_IN: Final = "/oauth/"
BESIDE: Final = (SIGN_IN, DASHBOARD)
TO_DASHBOARD: Final = EarlyReply(302, b"", (("Location", f"{DASHBOARD}/"), ("Cache-Control", "no-store")))
_SIGN_IN = re.compile(r"/oauth/((begin|done)/[\w-]{1,64}|callback(/[1-9][0-9]{0,5})?|client\.json)", re.A)
PAGE: Final = EarlyReply(200, WELCOME, (("X-Content-Type-Options", "nosniff"),), "text/plain; charset=utf-8")


async def _healthz(request: HttpRequest, response: HttpResponse) -> None:
    """Liveness: an answer is all that a balancer asks for."""
    response.reply(200, b'{"status":"ok"}')


class TokenPage(Struct, frozen=True):
    """A page for those who have a token. To whoever may not open it, it is not there."""

    handle: Handler
    is_owners: bool = True
    """Only the hub's owner may open it: no other principal, and no token of one profile. Else anybody with a token."""

    def opens_for(self, identity: Identity | None) -> bool:
        """True if who has shown this credential may open it."""
        return not self.is_owners or (identity is not None and identity.principal == OWNER and not identity.profile)


Pages = dict[tuple[str, str], TokenPage]
"""Pages by method and path."""
PAGES: Final[Pages] = {("GET", "/healthz"): TokenPage(_healthz, is_owners=False)}


def public_reply(
    request: HttpRequest, *, stopping: bool, signs_in: bool, metadata: ResourceMetadata | None = None
) -> EarlyReply | None:
    """The reply to a request that is for no page of those who have a token, and of which no token is asked; None: it is
    one for MCP. `metadata`: those of a hub that takes tokens of authorization servers."""
    path = request.path
    if path == MCP_PATH or path.startswith(f"{MCP_PATH}/"):
        return None
    if request.method in ("GET", "HEAD"):
        if path == "/livez":
            return STOPPING if stopping else ALIVE
        if path == "/":
            return PAGE
        if signs_in and _is_of_a_sign_in(request):
            return STOPPING if stopping else ANYBODY
        if metadata is not None and (document := metadata.reply(request)) is not None:
            return document
    return NOT_FOUND if metadata is None else NOT_FOUND_HERE


def _is_of_a_sign_in(request: HttpRequest) -> bool:
    """True if a browser of a person who signs in may ask for this. Bodies of strangers are not read."""
    path, headers = request.path, request.headers
    if not path.startswith(SIGN_IN) or not _SIGN_IN.fullmatch(path):
        return False
    if request.method == "HEAD" and path.startswith(f"{SIGN_IN}callback"):
        return False
    return "transfer-encoding" not in headers and headers.get("content-length", "0") == "0"


def route(
    mcp: Handler, sign_in: Handler | None = None, pages: Pages = PAGES, dashboard: Handler | None = None
) -> Handler:
    """A handler that hands each request to its page, or to that of a `sign_in` or the `dashboard`; all others go to
    `mcp`, which refuses unknown paths, and so those of pages that who asks may not open."""

    def handle(request: HttpRequest, response: HttpResponse) -> Awaitable[None] | None:
        if request.path.startswith(BESIDE):
            if sign_in is not None and request.path.startswith(SIGN_IN):
                return sign_in(request, response)
            if dashboard is not None and request.path.startswith(DASHBOARD):
                return dashboard(request, response)
        page = pages.get((request.method, request.path))
        return (page.handle if page is not None and page.opens_for(request.identity) else mcp)(request, response)

    return handle
