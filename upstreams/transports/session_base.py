"""Base class of sessions, their frame: running calls and what the upstream reports on them, its questions, and pings
after silence.

A ping that is not answered is only noted: calls may still be.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

import trio
from msgspec import Raw

from hub.link.call_interface import Exchange
from hub.wire.capabilities import ServerFacts
from hub.wire.jsonrpc import Notification, peek_str, raw
from hub.wire.mcp import ELICITED, LIST_CHANGED, PROGRESS_TOKEN, TASKS_RESULT, UPDATED, Era
from upstreams.deadline_watch import DeadlineWatch
from upstreams.questions.attribution import TaskTokens
from upstreams.questions.questions import Questions
from upstreams.running_call import Running
from upstreams.session_contract import SessionEvents, SessionTerms
from upstreams.transports.request_params_for_era import DeclaredCapabilities

PING_ANSWER_S: Final = 15.0
"""Seconds that the upstream has to answer a ping."""

log = logging.getLogger(__name__)


class SessionFrame:
    """The part of `upstreams.session_contract.Session` that all sessions have.

    A legacy upstream is pinged after one to two times `terms.ping_s` seconds of silence; 0: never. `_send_ping` returns
    when a ping is answered, or cannot be sent; `_heard` counts what came from the upstream.
    """

    transport = ""
    pid: int | None = None
    era: Era
    facts: ServerFacts
    watch: DeadlineWatch

    def __init__(self, name: str, events: SessionEvents, terms: SessionTerms, *, one_stream: bool = False) -> None:
        self.name = name
        self.events = events
        self.terms = terms
        self._questions = Questions(name, events, terms, self._notify, lambda: self.facts.version, one_stream)
        self.running = self._questions.running
        """All operations, by the ids of their requests and in the order of sending."""
        self.declared = DeclaredCapabilities(terms)
        self._owner: Exchange | None = None
        """The exchange of the host that owns the session, if it can be told things between its calls."""
        self._tokens = TaskTokens()
        self._ping_s = terms.ping_s
        self._unanswered: tuple[int, float] | None = None
        """Amount that had been heard when a ping was not answered, and time of the first such ping."""

    def _notify(self, method: str, params: dict[str, Raw]) -> None:
        """Send a notification."""

    # --- calls --------------------------------------------------------------------------------------------------------

    def _enter(self, running: Running) -> None:
        """Enter a call that is sent now; `leave` must follow."""
        self.running[running.id] = running
        exchange = running.exchange
        if self.terms.exclusive and exchange.caller.lasting and exchange.caller.era is Era.LEGACY:
            self._owner = exchange
        if running.operation.method == TASKS_RESULT:
            self._tokens.wait(running)

    def leave(self, running: Running) -> None:
        """The call is over: what the upstream asked meanwhile is withdrawn."""
        del self.running[running.id]
        self.watch.remove(running)
        if running.operation.method == TASKS_RESULT:
            self._tokens.leave(running)
        if running.questions:
            running.withdraw()

    def _report_progress(self, params: dict[str, Raw], calls: Mapping[int, Running]) -> None:
        """Tell the host of the call that a `notifications/progress` is about: one of `calls`, or that waits for a task.
        The idle time of the call starts anew."""
        token, params = split_progress(params)
        running = None if token is None else calls.get(token) or self._tokens.find(token)
        if running is not None:
            running.touch()
            running.exchange.progress(self._mask_param(params, "message"))

    def _report_log(self, params: dict[str, Raw], running: Running | None) -> None:
        """Pass a `notifications/message` to the host of `running`; None: to the owner of the session, or to the hub."""
        params = prefix_log(self.name, params)
        owner = self._owner if running is None else running.exchange
        if owner is None:
            self.events.log(params)
        else:
            owner.log(self._mask_param(params, "data"))

    def _mask_param(self, params: dict[str, Raw], name: str) -> dict[str, Raw]:
        return {**params, name: self.terms.mask_data(params[name])} if name in params else params

    # --- the host that owns the session -------------------------------------------------------------------------------

    async def welcome(self, exchange: Exchange) -> None:
        if self.era is Era.LEGACY:
            await self._questions.welcome(exchange)

    def roots_changed(self) -> None:
        if self.era is Era.LEGACY:
            self._questions.roots_changed()

    # --- pings --------------------------------------------------------------------------------------------------------

    @property
    def is_pinged(self) -> bool:
        return self._ping_s > 0

    @property
    def silent_s(self) -> float | None:
        if self._unanswered is None or self._unanswered[0] != self._heard():
            return None
        return round(trio.current_time() - self._unanswered[1], 1)

    async def _watch_silence(self, check: Callable[[], Awaitable[None]]) -> None:
        """Call `check`, which pings, whenever nothing was heard for a while and no call is running; for ever."""
        if not self._ping_s:
            await trio.sleep_forever()
        while True:
            heard = self._heard()
            await trio.sleep(self._ping_s)
            if self._heard() == heard and not self.running:
                await check()

    async def _ping(self) -> None:
        sent_at = trio.current_time()
        with trio.move_on_after(PING_ANSWER_S):
            await self._send_ping()
            return
        if self.silent_s is None:
            self._unanswered = self._heard(), sent_at
            self.events.note("does not answer pings; its session is kept")
            log.warning("%s does not answer a ping; its session is kept", self.name)

    async def _send_ping(self) -> None:
        raise NotImplementedError

    def _heard(self) -> int:
        raise NotImplementedError


# --- what is read from notifications ----------------------------------------------------------------------------------


def split_progress(params: dict[str, Raw]) -> tuple[int | None, dict[str, Raw]]:
    """The token of a `notifications/progress`, if it can be one of ours, and the params without it."""
    token = params.get(PROGRESS_TOKEN)
    rest = {name: value for name, value in params.items() if name not in (PROGRESS_TOKEN, "_meta")}
    text = b"" if token is None else bytes(token)
    return (int(text) if text.isdigit() and len(text) < 20 else None), rest


def prefix_log(name: str, params: dict[str, Raw]) -> dict[str, Raw]:
    """The params of a `notifications/message` with the upstream's name before its logger."""
    logger = peek_str(params.get("logger"))
    rest = {key: value for key, value in params.items() if key != "_meta"}
    return {**rest, "logger": raw(f"{name}/{logger}" if logger else name)}


def announce(events: SessionEvents, notification: Notification) -> bool:
    """Tell `events` what a notification says of the upstream as a whole; False: it says something else."""
    method, params = notification.method, notification.params
    if kinds := LIST_CHANGED.get(method):
        events.changed(kinds)
    elif method == UPDATED:
        if (uri := peek_str(params.get("uri"))) is not None:
            events.updated(uri)
    elif method == ELICITED:
        if (visit := peek_str(params.get("elicitationId"))) is not None:
            events.elicited(visit)
    else:
        return False
    return True
