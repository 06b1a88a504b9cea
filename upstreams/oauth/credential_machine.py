"""The state machine of one credential: its token, how long that lasts, its renewal, and what failures lead to. Pure.

    none      nothing is known; requests go without a token, and the server may let them in
    needed    a person has to sign in, or the configuration is to be corrected; a token that still lasts is used
    good      there is a token
    renewing  another token is being asked for
    waiting   that failed; it is tried again with the next request after a pause

Beside these a person may be signing in (`asking`): that covers the state, and does not change it. So a token that is
there is used meanwhile, and if nothing comes of it all is as before.

`Shared` is what all credentials of a hub have in common. Times are of the hub's clock, in seconds; a time of day is
called `wall`.
"""

from collections.abc import Awaitable, Callable
from math import inf
from typing import TYPE_CHECKING, Final, Literal

from msgspec import Struct

from config.name_globs import NameChoice
from config.security_settings import IdentityProvider
from hub.link.hub_errors import UpstreamDenied, UpstreamUnauthorized
from upstreams.oauth import model
from upstreams.oauth.model import Challenge, Grant, GrantKey, OAuthAccount, sign_in_command, sign_in_needed

if TYPE_CHECKING:
    from upstreams.fetch.fetcher import Fetcher
    from upstreams.oauth.store.grant_store import GrantStore

State = Literal["none", "needed", "good", "renewing", "waiting"]
VisibleState = Literal["none", "needed", "asking", "good", "renewing", "waiting"]
Event = Literal["refused", "tokens", "begun", "paused", "ended", "forgotten"]
"""The server wants a token and there is none; tokens came; a renewal begins; there is no answer now; there is nothing
to renew with any more; the grant is forgotten."""
TRANSITIONS: Final[dict[State, dict[Event, State]]] = {
    "none": {"refused": "needed", "tokens": "good", "begun": "renewing", "ended": "needed"},
    "needed": {"refused": "needed", "tokens": "good", "begun": "renewing", "ended": "needed"},
    "good": {"refused": "needed", "tokens": "good", "begun": "renewing", "ended": "needed"},
    "renewing": {"refused": "needed", "tokens": "good", "paused": "waiting", "ended": "needed"},
    "waiting": {"refused": "needed", "tokens": "good", "begun": "renewing", "paused": "waiting", "ended": "needed"},
}

SHORTEST_MARGIN_S: Final = 30.0
LONGEST_MARGIN_S: Final = 300.0
MARGIN_PART: Final = 0.1
"""A token is renewed before a request if less than this part of its life is left, within the two bounds."""
CLOCKS_DIFFER_S: Final = 5.0
"""A time of day may be so much ahead, since the clock is corrected now and then."""
YOUNG_S: Final = 30.0
"""A token that the server refuses so soon is not renewed: another one would be no better."""
FIRST_PAUSE_S: Final = 1.0
LONGEST_PAUSE_S: Final = 60.0
UNCLEAR_PAUSE_S: Final = 60.0
"""Pause after a refusal that does not say why."""
HOLD_S: Final = 60.0
"""Pause after a fresh token was refused."""
MAX_STEP_UPS: Final = 2
"""Sign-ins for more scopes that one operation leads to."""
MAX_OPERATIONS: Final = 256


class Shared(Struct, frozen=True, kw_only=True):
    """The parts that all credentials of one hub share."""

    store: "Callable[[], GrantStore]"
    """Made at the first call, which may block."""
    fetch: "Fetcher"
    wall: Callable[[], float]
    """The time of day."""
    clock: Callable[[], float]
    """Seconds on a clock that nobody sets and that counts while the machine sleeps."""
    spawn: Callable[[str, Callable[[], Awaitable[None]]], None]
    """Runs a task that whoever waits for it does not own; the text names it in the log."""
    idp: Callable[[], IdentityProvider]
    """The company's identity provider, as it is configured now."""
    idp_grant: Callable[[str], Awaitable[Grant]]
    """The grant of a principal's sign-in there, with an ID token that lasts. Raises OAuthProblem, OAuthUnavailable."""


class RenewalOutcome(Struct, frozen=True):
    """The outcome of a renewal."""

    event: Event
    grant: Grant | None = None
    """To be used from now on; None: the one there was, if any."""
    text: str = ""
    """The reason why there is no other token."""
    retry_after_s: float | None = None
    unclear: bool = False
    """The server did not say why it refuses."""
    is_kept: bool = True
    """False: the grant is in memory only, since it could not be written."""


class CredentialMachine:
    """State of the credential of `account`. `may_be_kept`: there may be a grant from an earlier run, so the first
    request has to look for it."""

    def __init__(self, account: OAuthAccount, shared: Shared, *, may_be_kept: bool) -> None:
        self.account = account
        self.grant: Grant | None = None
        self.authorization = ""
        """The value of the header; "": there is none."""
        self.problem = ""
        """The note for a person: why there is no token, or why the last renewal failed."""
        self.due_at = -inf if may_be_kept else inf
        """The time from which something is to be done before a request."""
        self.ends = -inf
        """The time at which the access token ends, or was refused."""
        self.paused_until = -inf
        """The time before which no renewal is tried, since the last one failed."""
        self.held_until = -inf
        """The time before which nothing is tried, since a fresh token was refused."""
        self.has_moved = False
        """The upstream names another authorization server than that of the grant: only a person goes on from there."""
        self.is_kept = True
        """The grant could be written."""
        self.was_unclear = False
        """The last refusal of a renewal did not say why."""
        self.phase: State = "none"
        self._shared, self._now, self._wall = shared, shared.clock, shared.wall
        self._upstream = account.upstream
        self._got_at = -inf
        self._next_pause_s = FIRST_PAUSE_S
        self.askings = 0
        """People who sign in."""
        self._step_ups: dict[str, int] = {}

    @property
    def state(self) -> VisibleState:
        """For people, of whom one may be signing in, and other programs."""
        return "asking" if self.askings and self.phase != "renewing" else self.phase

    @property
    def is_usable(self) -> bool:
        """True if there is a token that lasts."""
        return bool(self.authorization) and self._now() < self.ends

    @property
    def is_renewable(self) -> bool:
        """True if it is renewed without a person."""
        return self.account.can_renew(self.grant)

    @property
    def is_young(self) -> bool:
        """True if there is a token that is so new that another one would be no better."""
        now = self._now()
        return self.grant is not None and now - self._got_at < YOUNG_S and now < self.ends

    # --- changes ------------------------------------------------------------------------------------------------------

    def note(self, event: Event, text: str = "") -> None:
        """Something has happened; `text` is what a person should know of it."""
        self.phase = "none" if event == "forgotten" else TRANSITIONS[self.phase][event]
        self.tell_person(text)

    def tell_person(self, text: str) -> None:
        """A person should know this; the state is as before."""
        self.problem = text
        self._changed()

    def asking(self, on: bool) -> None:
        """A sign-in by a person begins, or is over, whatever came of it."""
        self.askings = max(0, self.askings + (1 if on else -1))
        self._changed()

    def use(self, grant: Grant) -> None:
        """Take another grant; what has happened is noted after that."""
        now, wall = self._now(), self._wall()
        self.grant = grant
        self.ends = now + life_left_s(grant, wall)
        self.due_at = now + time_until_due_s(grant, wall) if self.is_renewable else self.ends
        self._got_at = now - max(0.0, wall - grant.obtained_at)
        authorization = f"Bearer {grant.access_token.reveal()}"
        if authorization != self.authorization:
            self.authorization = authorization
        self.end_pause()
        self.was_unclear = False

    def apply(self, outcome: RenewalOutcome) -> UpstreamUnauthorized | None:
        """Take over the outcome of a renewal; returns the failure of those who waited for it."""
        if outcome.event == "forgotten":
            self.release()
            self.forget()
            return self.failure(outcome.text)
        ends = self.ends
        if outcome.grant is not None:
            self.use(outcome.grant)
        if outcome.event == "tokens":
            self.is_kept = outcome.is_kept
            self.note("tokens", "" if outcome.is_kept else "It could not be kept, and is gone when the hub ends.")
            return None
        self.ends = min(self.ends, ends)  # a token that was refused is not good again
        now, is_paused = self._now(), outcome.event == "paused"
        if outcome.unclear:
            self.was_unclear = True
            self.paused_until = now + UNCLEAR_PAUSE_S
        elif is_paused or not self.account.by_person:
            self.paused_until = now + (self._next_pause_s if outcome.retry_after_s is None else outcome.retry_after_s)
            self._next_pause_s = min(self._next_pause_s * 2, LONGEST_PAUSE_S)
        self.note(outcome.event, outcome.text)
        if self.is_usable:
            self.due_at = max(now if is_paused else self.ends, self.paused_until)
            return None
        self.due_at = -inf
        return self.pause_failure() if is_paused else self.failure(outcome.text)

    def end_pause(self) -> None:
        """Renew with the next request; failures are counted anew."""
        self._next_pause_s, self.paused_until = FIRST_PAUSE_S, -inf

    def hold(self, text: str, *, has_moved: bool) -> None:
        """A fresh token was refused: nothing is tried for a while. `has_moved`: it may not even be shown any more."""
        self.held_until, self.has_moved = self._now() + HOLD_S, has_moved
        if has_moved:
            self.authorization = ""
        self.end()
        self.note("refused", text)

    def release(self) -> None:
        """Nothing is held back any more."""
        self.held_until, self.has_moved = -inf, False

    def end(self) -> None:
        """The access token was refused."""
        self.due_at = self.ends = -inf

    def forget(self) -> None:
        """There is no grant any more."""
        self.grant, self.authorization = None, ""
        self.due_at, self.ends = inf, -inf
        self.is_kept = True
        self.end_pause()
        self.note("forgotten")

    def _changed(self) -> None:
        """Called after every change."""

    # --- more scopes --------------------------------------------------------------------------------------------------

    def step_up(self, grant: Grant, challenge: Challenge, operation: str) -> str:
        """The scopes to ask for: granted, asked for before, and challenged; "": another sign-in is of no use."""
        challenged = challenge.scope.split()
        choice = NameChoice(self.account.settings.max_scopes or ("*",))
        scopes = dict.fromkeys([*grant.scope.split(), *grant.asked_scope.split(), *challenged])
        wanted = [scope for scope in scopes if scope in choice]
        tried, most = self._step_ups.get(operation, 0), MAX_STEP_UPS if self.account.by_person else 1
        is_forbidden = not set(challenged) <= set(wanted)
        gave_less = set(challenged) <= set(grant.asked_scope.split())
        if not challenged or is_forbidden or gave_less or tried >= most:
            return ""
        if len(self._step_ups) < MAX_OPERATIONS or operation in self._step_ups:
            self._step_ups[operation] = tried + 1
        return " ".join(wanted)

    # --- failures, as hosts are told ----------------------------------------------------------------------------------

    def sentence_to_sign_in(self) -> str:
        """The sentence that somebody has to sign in."""
        return sign_in_needed(self._upstream, self.grant.key.issuer if self.grant else "")

    def failure(self, text: str = "", retry_after_s: float | None = None) -> UpstreamUnauthorized:
        """The failure for the reason `text`, or for want of a sign-in."""
        retry_ms = None if retry_after_s is None else max(0, round(1000 * retry_after_s))
        text = text or self.sentence_to_sign_in()
        return UpstreamUnauthorized(text, upstream=self._upstream, retry_after_ms=retry_ms)

    def pause_failure(self) -> UpstreamUnauthorized:
        """The failure while the next renewal is paused."""
        why = self.problem.rstrip(".") or "the authorization server does not answer"
        retry_s = self.paused_until - self._now()
        who, again = self._upstream or model.IDENTITY_PROVIDER, f"It is tried again in {max(1, round(retry_s))} s."
        return self.failure(f"The sign-in for {who} cannot be renewed now: {why}. {again}", retry_s)

    def hold_failure(self) -> UpstreamUnauthorized:
        """The failure after a fresh token was refused."""
        return self.failure(self.problem, None if self.has_moved else self.held_until - self._now())

    def check_held(self) -> None:
        """Raise `hold_failure` while nothing is tried."""
        if self._now() < self.held_until:
            raise self.hold_failure()

    def check_usable(self) -> None:
        """Raise UpstreamUnauthorized if there is no token that lasts."""
        if not self.is_usable:
            raise self.pause_failure() if self._now() < self.paused_until else self.failure(self.problem)

    def scope_failure(self, operation: str, scope: str) -> UpstreamUnauthorized:
        """A person has to sign in for more scopes first."""
        wants = f"{self._upstream} wants the scopes {scope} for {_short(operation)}"
        return self.failure(f"{wants}; run {sign_in_command(self._upstream)} to sign in with them.")

    def denial(self, operation: str, scope: str) -> UpstreamDenied:
        """The scopes that an operation wants are not to be had, even with a new sign-in."""
        wants = f"it wants the scopes {scope or 'that it does not name'}, and the sign-in does not give them."
        return UpstreamDenied(f"{self._upstream} refuses {_short(operation)}: {wants}", upstream=self._upstream)


def life_left_s(grant: Grant, wall: float) -> float:
    """Seconds that the access token lasts at wall time `wall`; infinity: nobody knows. None are left of a token that
    begins in the future: the clock was set back, and nobody can tell."""
    if grant.expires_at is None:
        return inf
    if grant.obtained_at > wall + CLOCKS_DIFFER_S:
        return 0.0
    return max(grant.expires_at - wall, 0.0)


def time_until_due_s(grant: Grant, wall: float) -> float:
    """Seconds until the access token is to be renewed."""
    if grant.expires_at is None:
        return inf
    life_s = max(grant.expires_at - grant.obtained_at, 0.0)
    margin_s = max(SHORTEST_MARGIN_S, min(LONGEST_MARGIN_S, MARGIN_PART * life_s))
    return max(life_left_s(grant, wall) - min(margin_s, life_s / 2), 0.0)


def sign_in_of(grant: Grant | None) -> tuple[GrantKey, float] | None:
    """The key and time that all generations of one sign-in have in common."""
    return None if grant is None else (grant.key, grant.signed_in_at)


def _short(operation: str) -> str:
    return "".join(char for char in operation if char.isprintable())[:80]
