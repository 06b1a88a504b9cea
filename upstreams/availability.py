"""Availability of one upstream: its state, why it is away, when it is tried again.

The state follows the table of `lifecycle`; everything that happens is noted in `history`. Only sync methods change it,
called by the runner; everybody else reads, waits for `news`, or asks for an attempt by `want`.
"""

import logging
from math import ceil
from typing import Final

import trio

from config.server_names import server_of
from config.settings import UpstreamConfig
from hub.link import hub_errors
from hub.link.backoff import jitter
from hub.link.sync_primitives import Bell
from upstreams.journal.events_and_trouble import History
from upstreams.journal.journal import Journal
from upstreams.lifecycle import TRANSITIONS, Event, State
from upstreams.redact import CommonSecrets
from upstreams.retry_pauses import Backoff

log = logging.getLogger(__name__)

_GIVES_UP: Final = (hub_errors.UpstreamVersionError, hub_errors.UpstreamLoop, hub_errors.UpstreamConfined)
GIVEN_UP: Final = frozenset({State.FAILED, State.UNAUTHORIZED, State.UNRESOLVED})
"""States in which nothing is tried until a call needs the upstream."""


def removal_error(name: str) -> hub_errors.UpstreamUnavailable:
    """The error of a call of an upstream that the configuration does not have any more."""
    text = f"{name} was removed from the hub's configuration; list what there is, and use something else"
    for_people = f"{name} was removed from the configuration; `hubd tools` lists what there is"
    return hub_errors.UpstreamUnavailable(text, upstream=name, for_people=for_people)


class Availability:
    """State and back-off of one upstream."""

    def __init__(self, name: str, config: UpstreamConfig, journal: Journal, common: CommonSecrets | None) -> None:
        self.state = State.DISABLED if config.disabled else State.IDLE
        self.retired = False
        """The upstream takes no more calls: the configuration replaced or removed it."""
        self.waits_for = ""
        """The reason why the upstream is not started although nothing has failed; "": nothing is in its way."""
        self._wanted = trio.Event()
        """Set by whoever needs the upstream and finds that it is idle, or given up."""
        self.backoff = Backoff(jitter, attempts=config.restart.attempts)
        self.history = History(config, journal, trio.current_time(), common)
        self._name = name
        self._failure: type[hub_errors.UpstreamUnavailable] = hub_errors.UpstreamUnavailable
        """The error of calls while the upstream is away."""
        self._refusal: type[hub_errors.UpstreamUnauthorized] = hub_errors.UpstreamUnauthorized
        """The same while it refuses the hub."""
        self.news = Bell()
        """Rung whenever the state may have changed."""

    # --- for those who need it ----------------------------------------------------------------------------------------

    def adjust(self, config: UpstreamConfig) -> None:
        """Go by the limits of `config`; start an idle upstream that is to run always."""
        self.backoff.attempts = config.restart.attempts
        if config.start == "eager" and not config.idle_stop_s:
            self.want()

    def want(self) -> None:
        """Have an upstream tried that is idle, or was given up."""
        self._wanted.set()

    async def until_wanted(self) -> None:
        """Wait until a host needs an upstream that is idle, or was given up."""
        await self._wanted.wait()

    def retry_if_due(self) -> None:
        """Have the upstream tried, if an attempt is due: a host needs it, or looks at lists that include it."""
        if self.state in GIVEN_UP and self.backoff.retry_in_s(trio.current_time()) <= 0:
            self._wanted.set()

    def refuse_if_hopeless(self) -> None:
        """Return if the upstream is or will be started; this call starts an idle one, and a failed one if that is due.
        Raises UpstreamUnavailable: it will not be available soon."""
        if self.retired:
            raise removal_error(self._name)
        self.refuse_if_disabled()
        if self.state is State.IDLE:
            self._wanted.set()
        if self.state in GIVEN_UP:
            if (wait_s := self.backoff.retry_in_s(trio.current_time())) > 0:
                raise self.unavailable(f"{self._name} is not available", retry_after_s=wait_s)
            self.retry_if_due()

    def refuse_if_disabled(self) -> None:
        """Return unless the upstream is disabled. Raises UpstreamUnavailable: it is."""
        if self.state is State.DISABLED:
            remedy = f"run `hubd enable {server_of(self._name)}`"
            text = f"{self._name} is disabled in the hub's configuration; use something else, or let the user {remedy}"
            for_people = f"{self._name} is disabled: {remedy}"
            raise hub_errors.UpstreamUnavailable(text, upstream=self._name, for_people=for_people)

    def unavailable(self, text: str, *, progress: str = "", retry_after_s: float = 0.0) -> hub_errors.HubError:
        """The error of a call: `text` says what happened; added are the reason, and what to do. `progress`: the reason
        is that the upstream is on its way."""
        text += f" (state: {self.state.value})"
        if progress:
            text += f": {progress}. Try again in a minute; `hubd status` shows how far it is."
            return hub_errors.UpstreamUnavailable(text, upstream=self._name)
        is_refused = self.state is State.UNAUTHORIZED
        kind = self._refusal if is_refused else self._failure
        reason = (self.history.last_error or "").partition("\n")[0] or self.waits_for or "No reason is known"
        text += f". {reason.rstrip('.')}"
        now = f"run `hubd restart {self._name}`"
        for_people = f"{text}; {now} to try it now; `hubd logs {self._name}` shows all of it"
        text += "."
        if seconds := ceil(retry_after_s):
            text += f" Try again in {seconds} second{'s' * (seconds != 1)}, or let the user look at `hubd status`"
            text += f" and {now}."
        else:
            text += " Try again later, or let the user look at `hubd status`."
        retry_after_ms = None if is_refused else ceil(retry_after_s * 1000) or None  # time alone changes no refusal
        return kind(text, upstream=self._name, retry_after_ms=retry_after_ms, for_people=for_people)

    # --- what becomes of it -------------------------------------------------------------------------------------------

    def move(self, event: Event) -> None:
        """Change state by the table."""
        before, self.state = self.state, TRANSITIONS[self.state][event]
        if event is Event.START:
            self.history.attempted()
        if self.state is not before:
            self.history.moved(trio.current_time())
            log.debug("%s: %s to %s", self._name, before.value, self.state.value)
        self.news.ring()

    def opened(self, how: str, pid: int | None) -> None:
        self.backoff.opened(trio.current_time())
        self.move(Event.OPENED)
        self.history.opened(how, pid)
        log.info("%s is connected: %s", self._name, how)

    def fail(self, error: hub_errors.HubError | None) -> float | None:
        """A session ended, or could not be opened; seconds until the next attempt, None: not before `want`."""
        now = trio.current_time()
        self.history.failed(error, now)
        is_loop, is_denied = isinstance(error, hub_errors.UpstreamLoop), isinstance(error, hub_errors.UpstreamDenied)
        self._failure = hub_errors.UpstreamLoop if is_loop else hub_errors.UpstreamUnavailable
        self._refusal = hub_errors.UpstreamDenied if is_denied else hub_errors.UpstreamUnauthorized
        pause_s = self.backoff.next_pause_s(now)
        event = Event.LOST
        if isinstance(error, hub_errors.UpstreamUnauthorized) and error.retry_after_ms is None:
            event = Event.REFUSED
        elif isinstance(error, hub_errors.UpstreamUnresolved):
            event = Event.UNRESOLVED
        elif pause_s is None or isinstance(error, _GIVES_UP):
            event = Event.GAVE_UP
        if event is not Event.LOST or pause_s is None:
            self._wanted = trio.Event()
            self.move(event)
            self.history.note(f"{self.state.value}: retried on the next call")
            return None
        self.history.pauses(pause_s, now)
        self.move(event)
        return pause_s

    def rests(self, idle_s: float) -> None:
        """No host has needed the upstream for `idle_s` seconds: it is stopped until `want`."""
        log.info("%s is stopped: nobody has needed it for %g s", self._name, idle_s)
        self._wanted = trio.Event()
        self.history.rests(idle_s)
        self.move(Event.UNUSED)

    def restarted(self) -> None:
        """The upstream starts over by command."""
        self.backoff.reset()
        self.history.restarted()
        self.move(Event.RESTART)
