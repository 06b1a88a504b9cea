"""Access to the HTTP listener: Host and Origin are checked first, then a credential.

Nothing here reads a body: a refusal is decided from the head alone, before anything else is done for the request. Which
paths beside MCP need no credential is told by whoever makes `Access`. A page that a browser loaded from somewhere else
is kept out by Host and Origin; another program of this machine by the token.

Credentials are judged in their order: what a trusted proxy says, tokens of hosts, tokens of authorization servers. A
proxy is known by a secret that it sends, from an address that it may have; or, on this machine, by the user that it
runs as, which the kernel tells while the connection is open. From anybody else its field is no credential but an error.
"""

import hmac
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial
from ipaddress import ip_address
from typing import TYPE_CHECKING, Final

import trio
from msgspec import Struct

from config.security_settings import SECRET_HEADER, TrustedProxy
from hub.downstream.access import refusals
from hub.downstream.access.hub_urls import LOOPBACK_NAMES, with_port
from hub.downstream.access.resource_metadata import MCP_PATH
from hub.downstream.access.token_files import PREFIX
from hub.downstream.access.token_lookup import NamedTokens
from hub.link.call_interface import OWNER, Identity
from hub.net.http_request import EarlyReply, HttpRequest, Undecided

if TYPE_CHECKING:
    from hub.downstream.access.issuer_token_verdicts import IssuerTokens
    from hub.sign_in.connection_owner import ConnectionOwners

DASHBOARD: Final = "/ui"
"""Where all of the dashboard is."""
MAX_PERSON: Final = 256
REPEATED: Final = ", "
"""Stands between the values of a field that was sent twice."""
_READABLE: Final = (("Access-Control-Expose-Headers", "WWW-Authenticate, Mcp-Session-Id"), ("Vary", "Origin"))
PREFLIGHT: Final = EarlyReply(
    204,
    b"",
    (
        ("Access-Control-Allow-Methods", "GET, POST, DELETE"),
        ("Access-Control-Allow-Headers", "Authorization, *"),
        ("Access-Control-Max-Age", "600"),
    ),
)
"""The answer to a page of `allowed_origins` that asks beforehand whether it may ask (CORS, Fetch 3.2)."""


class ProxiedPersons:
    """Judges what a proxy says. `ends` tells which user is at the other end of a connection."""

    def __init__(self, settings: TrustedProxy, ends: "ConnectionOwners") -> None:
        self.header = settings.header.lower()
        self._secret = None if settings.secret is None else settings.secret.reveal().encode()
        self._uids = frozenset(settings.peer_uid)
        self._peers = frozenset(ip_address(peer) for peer in settings.peers)
        self._ends = ends

    def check(self, request: HttpRequest) -> Identity | EarlyReply | Undecided | None:
        """The person that the proxy names; None: the request names nobody."""
        if (person := request.headers.get(self.header)) is None:
            return None
        if not 1 <= len(person) <= MAX_PERSON or not person.isprintable() or REPEATED in person:
            return refusals.NOT_THE_PROXY
        shown = request.headers.pop(SECRET_HEADER.lower(), "")
        if not self._comes_from_peer(request):
            return refusals.NOT_THE_PROXY
        identity = Identity(f"proxy/{person}", "proxy")
        if self._secret is not None and hmac.compare_digest(shown.encode(), self._secret):
            return identity
        return partial(self._check_user, request, identity) if self._uids else refusals.NOT_THE_PROXY

    def _comes_from_peer(self, request: HttpRequest) -> bool:
        ends = request.ends()
        try:
            return ends is not None and ip_address(ends.peer[0]) in self._peers
        except ValueError:
            return False

    async def _check_user(self, request: HttpRequest, identity: Identity) -> EarlyReply | None:
        """Judge a proxy that shows no secret: it has to be one of the users, at this moment."""
        if (ends := request.ends()) is None or not ip_address(ends.peer[0]).is_loopback:
            return refusals.NOT_THE_PROXY
        if await trio.to_thread.run_sync(self._ends.uid_of, ends) not in self._uids:
            return refusals.NOT_THE_PROXY
        request.identity = identity
        return None


METRICS_PATH: Final = "/metrics"
MAX_CREDENTIAL: Final = 2_048
"""Characters of a credential with the longest of our own tokens."""
MAX_SCHEME: Final = 64
"""Characters before a token, spaces included. Longer credentials are not the hub's own."""
_BEARER = re.compile(r"[Bb][Ee][Aa][Rr][Ee][Rr] +([A-Za-z0-9._~+/-]+=*)")


async def _let_in(find_reply: Undecided) -> None:
    """Let in whoever it is, whose identity is left in the request, if there is one."""
    await find_reply()


@dataclass(eq=False, repr=False, kw_only=True)
class Access:
    """The rules of one listener.

    `hosts` and `origins` come on top of the loopback names with `port`; an entry of `hosts` without a port means
    `port`, and one with 80 or 443 is met without it, too, as a proxy's hosts write it. `token` None: everyone who
    passes Host and Origin is the hub's owner (`auth = "none"`). `others` judge whoever shows another credential, or
    none; a request with the header field `named_by` is theirs, too, whatever it shows. `scrapes` gives the token that
    opens `GET /metrics` and nothing else; None: there is none. `public` replies to requests
    that need no credential, or by `ANYBODY` lets them in; it gives None for all others, and is not asked about
    `MCP_PATH`. `refused` is told of whom `guard` does not let in. `dashboard` judges
    what is for that, by the values of Host; None: there is none."""

    port: int
    hosts: Collection[str] = ()
    origins: Collection[str] = ()
    token: str | None = None
    others: "Credentials | None" = None
    named_by: str = ""
    scrapes: Callable[[], str | None] = lambda: None
    public: Callable[[HttpRequest], EarlyReply | None] = lambda request: None
    refused: Callable[[HttpRequest, EarlyReply], None] = lambda request, reply: None
    dashboard: Callable[[HttpRequest, Collection[str]], EarlyReply | Undecided | None] | None = None

    def __post_init__(self) -> None:
        port, token = self.port, self.token
        self._hosts = frozenset(with_port(name.lower(), port) for name in (*LOOPBACK_NAMES, *self.hosts))
        self._hosts |= frozenset(name.rpartition(":")[0] for name in self._hosts if name.endswith((":80", ":443")))
        shown = "" if port == 80 else f":{port}"
        self._origins = frozenset((*(f"http://{name}{shown}" for name in LOOPBACK_NAMES), *self.origins))
        self._readers = {origin: (("Access-Control-Allow-Origin", origin), *_READABLE) for origin in self.origins}
        """The header fields of each answer to a page of an allowed origin, which may read it."""
        self._token = None if token is None else token.encode()
        self._longest = 0 if token is None else len(token) + MAX_SCHEME
        self._identity = Identity(OWNER, "http")

    def check(self, request: HttpRequest) -> Identity | EarlyReply | Undecided:
        """The identity of the sender, or the refusal: 403 for a wrong Host or Origin, 401 for a missing or wrong token.

        Values are compared whole, with the few that are allowed: nothing is parsed that could be read in two ways. Only
        the case of Host is ignored (RFC 9110 4.2.3)."""
        headers = request.headers
        if headers.get("host", "").lower() not in self._hosts:
            return refusals.FORBIDDEN
        if (origin := headers.get("origin")) is not None:
            if origin not in self._origins:
                return refusals.FORBIDDEN
            if origin in self._readers:
                request.reply_with(self._readers[origin])
                if request.method == "OPTIONS":
                    return PREFLIGHT
        if self._token is None:
            return self._identity
        shown = headers.get("authorization", "")
        found = _BEARER.fullmatch(shown) if len(shown) <= self._longest else None
        if found is not None and hmac.compare_digest(found[1].encode(), self._token) and self.named_by not in headers:
            return self._identity
        if request.path == METRICS_PATH and self._scrapes(request, shown):
            return self._identity
        if self.others is not None:
            return self.others.check(request)
        return refusals.WRONG_TOKEN if _BEARER.fullmatch(shown) else refusals.NO_TOKEN

    def _scrapes(self, request: HttpRequest, shown: str) -> bool:
        """True if this is `GET` with the token of the metrics."""
        token = self.scrapes()
        if token is None or request.method != "GET" or self.named_by in request.headers:
            return False
        return hmac.compare_digest(_token_in(shown[:MAX_CREDENTIAL]).encode(), token.encode())

    def refuse_scopes(self, scopes: Collection[str], path: str) -> EarlyReply | None:
        """403 to whoever came with a token of an issuer, and lacks these scopes for what it asks for; None: no issuer
        could give them."""
        issued = None if self.others is None else self.others.issued
        return None if issued is None else refusals.missing_scopes(" ".join(scopes), issued.metadata.url_for(path))

    def guard(self, request: HttpRequest) -> EarlyReply | Undecided | None:
        """`check` as the guard of an `HttpServer`: what it finds is left in `request.identity`."""
        if self.dashboard is not None and request.path.startswith(DASHBOARD):
            return self._judge_for_dashboard(request, self.dashboard(request, self._hosts))
        found = self.check(request)
        is_open = request.path != MCP_PATH and found is not refusals.FORBIDDEN
        if is_open and (reply := self.public(request)) is not None:
            if reply is not refusals.ANYBODY:
                return reply
            request.make_public()
            request.identity = found if isinstance(found, Identity) else None
            return None if isinstance(found, Identity | EarlyReply) else partial(_let_in, found)
        if isinstance(found, Identity):
            request.identity = found
            return None
        if not isinstance(found, EarlyReply):
            return partial(self._decide, request, found)
        if found is not PREFLIGHT:
            self.refused(request, found)
        return found

    def _judge_for_dashboard(
        self, request: HttpRequest, found: EarlyReply | Undecided | None
    ) -> EarlyReply | Undecided | None:
        if found is None or isinstance(found, EarlyReply):
            if found is not None and found.status != 404:
                self.refused(request, found)
            return found
        return partial(self._decide, request, found)

    async def _decide(self, request: HttpRequest, find_reply: Undecided) -> EarlyReply | None:
        if (reply := await find_reply()) is not None:
            self.refused(request, reply)
        return reply


class Credentials(Struct, frozen=True):
    """Everything by which somebody is let in who does not show the hub's own token."""

    named: NamedTokens
    issued: "IssuerTokens | None" = None
    proxied: ProxiedPersons | None = None

    def check(self, request: HttpRequest) -> Identity | EarlyReply | Undecided:
        """The identity of the sender, or why there is none yet, or none at all."""
        if self.proxied is not None and (found := self.proxied.check(request)) is not None:
            return found
        if (issued := self.issued) is not None and "access_token=" in request.query:
            return refusals.TOKEN_IN_QUERY
        if not (token := _token_in(request.headers.get("authorization", ""))):
            return refusals.NO_TOKEN if issued is None else issued.refusal(request, with_token=False)
        if (named := self.named.find(token)) is not None:
            request.lease = named.lease
            return named.identity
        if issued is None:
            return refusals.WRONG_TOKEN
        if token.startswith(PREFIX):  # one of ours that is no more: nobody else is shown it
            return issued.refusal(request, with_token=True)
        return issued.check(request, token)


def _token_in(authorization: str) -> str:
    """The token in `Authorization`; "": there is none, or it is not visible ASCII: of all else a header field can only
    hold spaces and tabs. A pattern would take longer than all the rest, for a token of a thousand characters."""
    scheme, _, token = authorization.partition(" ")
    token = token.lstrip(" ")
    return token if scheme.lower() == "bearer" and token.isascii() and not (" " in token or "\t" in token) else ""
