"""The states of a credential. Pure.

    none      nothing is known; requests go without a token, and the server may let them in
    needed    a person has to sign in, or the configuration is to be corrected; a token that still lasts is used
    good      there is a token
    renewing  another token is being asked for
    waiting   that failed; it is tried again with the next request after a pause

Beside these a person may be signing in (`asking`): that covers the state, and does not change it. So a token that is
there is used meanwhile, and if nothing comes of it all is as before.
"""

from typing import Final, Literal

State = Literal["none", "needed", "good", "renewing", "waiting"]
Shown = Literal["none", "needed", "asking", "good", "renewing", "waiting"]
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


def after(state: State, event: Event) -> State:
    """The state after `event`."""
    return "none" if event == "forgotten" else TRANSITIONS[state][event]
