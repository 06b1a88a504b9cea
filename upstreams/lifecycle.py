"""Lifecycle of one upstream: its states as a table. Pure.

An upstream is `CONNECTING` until its first session opens or fails, and `RECONNECTING` from then on, between attempts
and during them. After `restart.attempts` attempts in a row that failed it is `FAILED`: nothing is tried until a call
needs it, and then once in `FAILED_PAUSE_S` (half open: one attempt that fails leads back at once). `UNAUTHORIZED` is
`FAILED` for want of credentials, and `UNRESOLVED` for want of a value that its configuration refers to. `IDLE` is an
upstream that no host needs: it is lazy and was not called yet, or was stopped after `idle_stop_s`; it costs nothing,
and the first call starts it. Only another configuration, which makes another upstream, leads out of `DISABLED`.
`RESTART`, by command, starts over from every other state.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Final

LOOP_ENDS: Final = 3
LOOP_WINDOW_S: Final = 300.0
"""An upstream that ended, or could not be started, so often within so long is in a crash loop."""


class State(Enum):
    """State of an upstream; the values are what `hubd status` shows."""

    IDLE = "idle"
    CONNECTING = "connecting"
    CONNECTED = "connected"
    RECONNECTING = "reconnecting"
    FAILED = "failed"
    DISABLED = "disabled"
    UNAUTHORIZED = "unauthorized"
    UNRESOLVED = "unresolved"


class Event(Enum):
    """Event that moves an upstream from state to state."""

    START = "start"
    """An attempt begins."""
    OPENED = "opened"
    LOST = "lost"
    """An attempt failed, or a session ended; another attempt follows."""
    GAVE_UP = "gave up"
    REFUSED = "refused"
    """The credentials are not good enough."""
    UNRESOLVED = "unresolved"
    """A reference of the configuration has no value."""
    UNUSED = "unused"
    """Nobody has needed it for `idle_stop_s`."""
    RESTART = "restart"


_COMMANDS: Final = {Event.RESTART: State.CONNECTING}
_ENDS: Final = {Event.LOST: State.RECONNECTING, Event.GAVE_UP: State.FAILED, Event.REFUSED: State.UNAUTHORIZED}
_OUTCOMES: Final = {Event.OPENED: State.CONNECTED, Event.UNRESOLVED: State.UNRESOLVED, **_ENDS}
_REST: Final = {Event.UNUSED: State.IDLE}
_ONCE_MORE: Final = {Event.START: State.RECONNECTING, **_COMMANDS}

TRANSITIONS: Final[Mapping[State, Mapping[Event, State]]] = {
    State.IDLE: {Event.START: State.CONNECTING, **_COMMANDS},
    State.CONNECTING: {Event.START: State.CONNECTING, **_OUTCOMES, **_COMMANDS},
    State.CONNECTED: {**_ENDS, **_REST, **_COMMANDS},
    State.RECONNECTING: {Event.START: State.RECONNECTING, **_OUTCOMES, **_REST, **_COMMANDS},
    **dict.fromkeys((State.FAILED, State.UNAUTHORIZED, State.UNRESOLVED), _ONCE_MORE),
    State.DISABLED: {},
}
