"""Who may ask below `/ui/`: judged from the head of a request alone.

Files hold no data, so a browser that names the hub may have them. All else wants a ticket or a key, and one that could
be read by others is good in a browser of the hub's user alone, which the kernel tells: a page that is open sends its
key to whoever has the port while the hub is away. Without cookies there is nothing that another site could ride on;
Origin and Sec-Fetch-Site are looked at all the same.
"""

import logging
import re
from collections.abc import Callable, Collection
from functools import partial
from typing import Final

import trio
from msgspec import json

from config.settings import HubConfig
from hub.daemon.dashboard.tickets import LABEL, PageKey, PageTickets
from hub.daemon.http_routes import NOT_FOUND
from hub.downstream.access.refusals import FORBIDDEN
from hub.link.call_interface import Identity
from hub.link.rate_limits import TokenBucket
from hub.net.http_request import EarlyReply, HttpRequest, Undecided
from hub.sign_in.connection_owner import LOOPBACK_HOST, ConnectionOwners, Who, is_near

log = logging.getLogger("hubd")

API: Final = "/ui/api/"
LOGIN: Final = f"{API}login"
HEADERS: Final = (
    (
        "Content-Security-Policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; base-uri 'none'; "
        "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
    ),
    ("X-Content-Type-Options", "nosniff"),
    ("Referrer-Policy", "no-referrer"),
    ("Cross-Origin-Opener-Policy", "same-origin"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    ("Cache-Control", "no-store"),
)
"""Header fields of every answer."""
MAX_BODY: Final = 64 << 10
MAX_LOGIN_BODY: Final = 1 << 10
_BEARER: Final = re.compile(r"[Bb]earer +(v1\.[0-9a-f]{8}\.[A-Za-z0-9_-]{1,1000})")
_NOTED: Final = 3
"""Strange browsers within a minute that are written down one by one."""


def refusal(status: int, kind: str, text: str) -> EarlyReply:
    """Make a refusal with a sentence for people."""
    return EarlyReply(status, json.encode({"error": text, "kind": kind}), HEADERS)


BAD_REQUEST: Final = refusal(400, "bad_request", "The request is none of this page's")
TOO_LARGE: Final = refusal(413, "bad_request", "The request is too large")
FOREIGN: Final = refusal(403, "foreign", "The request comes from another page")
SIGNED_OUT: Final = refusal(401, "signed_out", "Signed out. Run `hubd dashboard` in a terminal to sign in again.")
STRANGE: Final = (
    "hubd cannot see that this browser is yours. Run `hubd dashboard --print` where the hub runs, and open that here."
)
OF_A_SERVER: Final = (
    "This browser was started by a server that hubd runs, and a server must not decide for you. Open the dashboard in a"
    " browser that you have started yourself."
)


class DashboardGuard:
    """Judges requests. `ends` tells whose browser is at the other end of a connection."""

    def __init__(self, tickets: PageTickets, ends: ConnectionOwners, read_config: Callable[[], HubConfig]) -> None:
        self._tickets = tickets
        self._ends = ends
        self._read_config = read_config
        self._strange = TokenBucket(_NOTED, _NOTED / 60)

    @property
    def is_blind(self) -> bool:
        """True if nobody's browser can be told from anybody else's."""
        return self._ends.blind

    def judge(self, request: HttpRequest, hosts: Collection[str]) -> EarlyReply | Undecided | None:
        """The refusal of a request; None: it may pass, and has an identity if it showed a key. `hosts`: the values of
        Host that the listener answers to beside the names of the dashboard."""
        host = request.headers.get("host", "").lower()
        if not (is_named(request) or host in hosts):
            return FORBIDDEN
        if not is_shown(request, self._read_config()):
            return NOT_FOUND
        if not request.path.startswith(API):
            if request.method not in ("GET", "HEAD") or _has_body(request):
                return BAD_REQUEST
            request.make_public()
            return None
        if (refused := self._find_fault(request, host)) is not None:
            return refused
        if request.path == LOGIN:
            request.make_public()
            return None
        found = _BEARER.fullmatch(request.headers.get("authorization", ""))
        key = None if found is None else self._tickets.open(found[1])
        if key is None:
            return SIGNED_OUT
        if not key.is_printed:
            return partial(self._look, request, key)
        request.let_in(Identity(key.principal, "dashboard"))
        return None

    def _find_fault(self, request: HttpRequest, host: str) -> EarlyReply | None:
        """The refusal of what no page of ours sends."""
        headers, config = request.headers, self._read_config()
        own = {f"http://{host}", *([f"https://{host}"] if config.behind_tls_proxy else [])}
        if headers.get("origin", f"http://{host}") not in own:
            return FOREIGN
        if headers.get("sec-fetch-site", "same-origin") != "same-origin":
            return FOREIGN
        if request.method == "GET":
            return BAD_REQUEST if _has_body(request) or request.path == LOGIN else None
        if request.method != "POST" or headers.get("content-type", "").partition(";")[0].strip() != "application/json":
            return BAD_REQUEST
        most = MAX_LOGIN_BODY if request.path == LOGIN else MAX_BODY
        size = headers.get("content-length", "")
        return None if size.isdigit() and int(size) <= most and "transfer-encoding" not in headers else TOO_LARGE

    async def _look(self, request: HttpRequest, key: PageKey) -> EarlyReply | None:
        if await self.why_strange(request):
            return SIGNED_OUT
        request.let_in(Identity(key.principal, "dashboard"))
        return None

    async def why_strange(self, request: HttpRequest) -> str:
        """The reason why a browser is not known as one of the hub's user, on this machine; "": it is."""
        who = await self._ends.who(request) if is_near(request) else Who.UNKNOWN
        if who is Who.OWN:
            return ""
        if self._strange.take(trio.current_time()):
            log.warning("the dashboard was asked for by a browser that is not known as the user's: %s", who.value)
        return OF_A_SERVER if who is Who.SERVER else STRANGE


def is_named(request: HttpRequest) -> bool:
    """True if the hub is asked for by a name of the dashboard, and at the port where it is."""
    name, _, port = request.headers.get("host", "").lower().partition(":")
    ends = request.ends()
    return ends is not None and LABEL.fullmatch(name) is not None and (port or "80") == str(ends.own[1])


def is_shown(request: HttpRequest, config: HubConfig) -> bool:
    """True if the dashboard is shown to where this request comes from."""
    enabled = config.dashboard.enabled
    if enabled != "local":
        return enabled == "on"
    is_local_name = is_named(request) or LOOPBACK_HOST.fullmatch(request.headers.get("host", "")) is not None
    return is_local_name and is_near(request) and not config.behind_tls_proxy


def _has_body(request: HttpRequest) -> bool:
    return "transfer-encoding" in request.headers or request.headers.get("content-length", "0") != "0"
