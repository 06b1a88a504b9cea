"""Routes of the dashboard: static files, signing in, what pages ask for, and what may be done there.

    GET   /ui/NAME            a file of `static`
    POST  /ui/api/login       a key for a ticket
    GET   /ui/api/NAME        a row of `READS`
    GET   /ui/api/feed        the stream of a page that is open (`feed`)
    POST  /ui/api/do/NAME     a row of `actions.ACTIONS`

Whoever comes here was let in by `guard`. Every answer is JSON, or a file; a refusal is a sentence for people.
"""

import logging
import re
from collections.abc import Awaitable, Callable, Mapping
from contextlib import aclosing
from pathlib import Path
from typing import Final
from urllib.parse import parse_qsl

import trio
from msgspec import MsgspecError, Raw, Struct, json, structs

from config.diagnostics import ConfigError, EditError
from hub.control.answers import Logs
from hub.control.methods import LOG_LINES
from hub.control.server import A_PERSON, asker, convert_params, to_json
from hub.daemon.dashboard.actions import Actions
from hub.daemon.dashboard.dependencies import Parts
from hub.daemon.dashboard.details import Details
from hub.daemon.dashboard.feed import ALL, Feed
from hub.daemon.dashboard.guard import API, BAD_REQUEST, HEADERS, LOGIN, DashboardGuard, refusal
from hub.daemon.dashboard.inbox_items_and_decisions import Inbox, Moved
from hub.daemon.dashboard.messages import LoginResult
from hub.daemon.dashboard.tickets import PageTickets
from hub.daemon.logs.handlers import OWN_NAME
from hub.link.call_interface import OWNER
from hub.link.hub_errors import HubError, UpstreamUnavailable
from hub.link.rate_limits import TokenBucket
from hub.net.http_request import EarlyReply, HttpRequest
from hub.net.response_writer import HttpResponse

log = logging.getLogger("hubd")

STATIC: Final = Path(__file__).with_name("static")
FEED: Final = f"{API}feed"
DO: Final = f"{API}do/"
TYPES: Final[Mapping[str, str]] = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
_FILE: Final = re.compile(r"((?:[a-z0-9_-]+/)?[a-z0-9_-]+)\.(html|css|js|svg)")
WRONG_TICKETS: Final = 10
"""Wrong tickets that are looked at within a minute."""
OLD_TICKET: Final = refusal(403, "ticket", "This ticket was used or is older than 60 s. Run `hubd dashboard` again.")
SLOW_DOWN: Final = refusal(429, "slow_down", "Too many wrong tickets; try again in a minute.")
NOT_HERE: Final = refusal(404, "not_found", "There is nothing at this path")
MAX_FIELDS: Final = 8

Read = Callable[..., Awaitable[object]]


class LoginRequest(Struct, frozen=True):
    """A ticket to be redeemed."""

    ticket: str


class Routes:
    """Answers all that was let in."""

    def __init__(self, parts: Parts, tickets: PageTickets, guard: DashboardGuard) -> None:
        self._parts = parts
        self._tickets = tickets
        self._guard = guard
        self._inbox = Inbox(parts)
        self._actions = Actions(parts, self._inbox)
        self.feed = Feed(parts, self._inbox, tickets)
        self._wrong = TokenBucket(WRONG_TICKETS, WRONG_TICKETS / 60)
        details = Details(parts)
        self._reads: Mapping[str, Read] = {
            "overview": self.feed.look,
            "server": details.server,
            "call": details.operation,
            "config": details.config,
            "item": self._inbox.show,
            "logs": self._read_logs,
            "cache": parts.api.cache,
        }

    async def handle(self, request: HttpRequest, response: HttpResponse) -> None:
        """Answer one request."""
        path, method = request.path, request.method
        if not path.startswith(API):
            self._send_file(path, response)
        elif path == LOGIN:
            await self._sign_in(request, response)
        elif path == FEED:
            await self._stream(request, response)
        elif method == "GET":
            query = dict(parse_qsl(request.query, max_num_fields=MAX_FIELDS))
            await self._answer(self._reads.get(path.removeprefix(API)), query, response)
        elif path.startswith(DO):
            await self._act(request, path.removeprefix(DO), response)
        else:
            _refuse(response, NOT_HERE)

    async def _stream(self, request: HttpRequest, response: HttpResponse) -> None:
        key = self._tickets.open(request.headers.get("authorization", "").rpartition(" ")[2])
        log = dict(parse_qsl(request.query, max_num_fields=MAX_FIELDS)).get("log", "")
        names = (*self._parts.hub.supervisor.upstreams, OWN_NAME, ALL, "")
        if key is None or log not in names:
            _refuse(response, NOT_HERE)
        else:
            await self.feed.serve(response, key, log)

    def _send_file(self, path: str, response: HttpResponse) -> None:
        if path == "/ui":
            response.reply(302, b"", (*HEADERS, ("Location", "/ui/")))
            return
        found = _FILE.fullmatch(path.removeprefix("/ui/") or "index.html")
        try:
            data = (STATIC / found[0]).read_bytes() if found is not None else None
        except OSError:
            data = None
        if found is None or data is None:
            _refuse(response, NOT_HERE)
        else:
            response.reply(200, data, HEADERS, content_type=TYPES[found[2]])

    async def _sign_in(self, request: HttpRequest, response: HttpResponse) -> None:
        try:
            text = json.decode(request.body, type=LoginRequest).ticket
        except MsgspecError:
            _refuse(response, BAD_REQUEST)
            return
        refused, ticket = OLD_TICKET, self._tickets.find(text)
        if ticket is None and not self._wrong.take(trio.current_time()):
            refused = EarlyReply(SLOW_DOWN.status, SLOW_DOWN.body, (*HEADERS, ("Retry-After", "60")))
        elif ticket is not None and not ticket.is_printed and (why := await self._guard.why_strange(request)):
            refused = refusal(403, "browser", why)
        elif (redeemed := self._tickets.redeem(text)) is not None:
            key, seconds = redeemed
            self._parts.hub.audit.note("access", what="signed in", p=OWNER, path=LOGIN)
            result = LoginResult(key, seconds, OWNER, printed=ticket is not None and ticket.is_printed)
            response.reply(200, json.encode(result), HEADERS)
            return
        self._parts.note_refusal(request, refused)
        _refuse(response, refused)

    async def _act(self, request: HttpRequest, name: str, response: HttpResponse) -> None:
        """Do what is on the list, and write it down."""
        principal = "" if request.identity is None else request.identity.principal
        try:
            given = json.decode(request.body, type=dict[str, Raw])
        except MsgspecError:
            _refuse(response, BAD_REQUEST)
            return
        outcome = await self._answer(self._actions.by_name.get(name), given, response)
        if outcome is not None:
            values = {key: json.decode(value) for key, value in given.items()}
            self._actions.write_down(principal, name, values, outcome)

    async def _answer(self, do: Read | None, given: Mapping[str, object], response: HttpResponse) -> str | None:
        """Answer with what comes of it; "", or the reason why nothing did. None: it was not even tried."""
        if do is None:
            _refuse(response, NOT_HERE)
            return None
        try:
            params = structs.asdict(convert_params(do, given, strict=False))
        except MsgspecError as error:
            _refuse(response, refusal(400, "bad_request", str(error)))
            return None
        token = asker.set(A_PERSON)
        try:
            result = await do(**params)
            body, refused = bytes(to_json(result)), None
        except (HubError, ConfigError, EditError, OSError) as error:
            is_missing = isinstance(error, UpstreamUnavailable) and do in self._reads.values()
            kind = Moved.kind if isinstance(error, Moved) else "not_found" if is_missing else "refused"
            refused = refusal(404 if is_missing else 409, kind, str(error))
        except Exception as error:
            log.exception("the dashboard failed")
            text = f"The hub failed to answer: {type(error).__name__}; its log says more"
            refused = refusal(500, "internal", text)
        finally:
            asker.reset(token)
        if refused is None:
            response.reply(200, body, HEADERS)
            return ""
        _refuse(response, refused)
        return str(json.decode(refused.body)["error"])

    # --- reads --------------------------------------------------------------------------------------------------------

    async def _read_logs(self, name: str | None = None, lines: int = LOG_LINES) -> Logs:
        async with aclosing(self._parts.api.logs(name, lines)) as logs:
            return await anext(logs)


def _refuse(response: HttpResponse, refused: EarlyReply) -> None:
    response.reply(refused.status, refused.body, refused.headers)
