"""The standing of a credential: its token, how long that is good, and the state that people see. Pure.

Times are of the shared clock, and given; a time of day is called `wall`.
"""

from collections.abc import Callable
from math import inf

from upstreams.oauth.model import Grant
from upstreams.oauth.renewal import YOUNG_S, Pauses, left_s, until_due_s
from upstreams.oauth.states import Event, Shown, State, after


class Standing:
    """That of one credential. What `changed` refers to is called after each change of the state, and of what comes with
    it.

    `may_be_kept`: there may be a grant from an earlier run, so that the first request has to look for it.
    """

    def __init__(self, changed: Callable[[], Callable[[], None] | None], *, may_be_kept: bool) -> None:
        self.grant: Grant | None = None
        self.authorization = ""
        """The value of the header; "": there is none."""
        self.problem = ""
        """The note for a person: why there is no token, or why the last renewal failed."""
        self.due = -inf if may_be_kept else inf
        """The time from which something is to be done before a request."""
        self.ends = -inf
        """The time at which the access token ends, or was refused."""
        self.is_kept = True
        """The grant could be written."""
        self.was_unclear = False
        """The last refusal of a renewal did not say why."""
        self.pauses = Pauses()
        self.state: State = "none"
        self._got_at = -inf
        self._askings = 0
        self._listener = changed

    def __repr__(self) -> str:
        return f"<Standing {self.shown}>"

    @property
    def shown(self) -> Shown:
        """The state for people, of whom one may be signing in."""
        return "asking" if self._askings and self.state != "renewing" else self.state

    @property
    def is_asking(self) -> bool:
        """True while a person signs in."""
        return bool(self._askings)

    def _changed(self) -> None:
        if (changed := self._listener()) is not None:
            changed()

    def is_usable(self, now: float) -> bool:
        """True if there is a token that lasts."""
        return bool(self.authorization) and now < self.ends

    def is_young(self, now: float) -> bool:
        """True if there is a token that is so new that another one would be no better."""
        return self.grant is not None and now - self._got_at < YOUNG_S and now < self.ends

    def note(self, event: Event, text: str = "") -> None:
        """Something has happened; `text` is what a person should know of it."""
        self.state = after(self.state, event)
        self.problem = text
        self._changed()

    def cannot_look(self, why: str) -> None:
        """It cannot be found out now whether there is a grant; `why` is for people."""
        self.problem = why
        self._changed()

    def asking(self, on: bool) -> None:
        """A sign-in by a person begins, or is over, whatever came of it."""
        self._askings = max(0, self._askings + (1 if on else -1))
        self._changed()

    def use(self, grant: Grant, wall: float, now: float, *, is_renewable: bool) -> None:
        """Take another grant; what has happened is noted after that."""
        self.grant = grant
        self.ends = now + left_s(grant, wall)
        self.due = now + until_due_s(grant, wall) if is_renewable else self.ends
        self._got_at = now - max(0.0, wall - grant.obtained_at)
        authorization = f"Bearer {grant.access_token.reveal()}"
        if authorization != self.authorization:
            self.authorization = authorization
        self.pauses.succeeded()
        self.was_unclear = False

    def end(self, *, is_moved: bool = False) -> None:
        """The access token was refused. `is_moved`: it may not even be shown any more."""
        if is_moved:
            self.authorization = ""
        self.due = self.ends = -inf

    def forget(self) -> None:
        """There is no grant any more."""
        self.grant, self.authorization = None, ""
        self.due, self.ends = inf, -inf
        self.is_kept = True
        self.pauses.succeeded()
        self.note("forgotten")
