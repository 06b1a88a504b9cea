"""Servers that are starting: what they offer may not be known yet, so a command waits for them, and says so."""

import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, TypeVar

from config.loading.assemble import load_or_defaults
from config.settings import HubConfig, Timeouts
from hub.cli.await_server_starts import PAUSE_S, is_starting
from hub.cli.client.connection import CallRefused
from hub.cli.context import UsageError, ask_hub
from hub.cli.render.words import duration
from hub.control.answers import Status, UpstreamRow
from hub.control.interruptible_wait import now_s
from hub.control.methods import STATUS
from hub.wire.printable import printable

Result = TypeVar("Result")
Concerns = Callable[["UpstreamRow"], bool]
"""True for a server that a command may need."""
LISTING_S: Final = 5.0
"""A server that was connected so short a time before the command may still have been listing what it offers."""
SAY_AFTER_S: Final = 1.0
"""Seconds of waiting after which it is said."""
STATES: Final = {"unauthorized": "waiting for a sign-in", "idle": "not started"}
"""Adjectives for states that are none."""


def owns(name: str) -> Concerns:
    """The server that a name begins with: `time` of `time__now`, and of `time` alone."""
    return lambda row: name == row.name or name.startswith(f"{row.name}__")


def anyone(row: "UpstreamRow") -> bool:
    """Any server: a URI does not say whose it is."""
    return True


def once_connected(act: Callable[[], Result], concerns: Concerns) -> Result:
    """The value that `act` returns. Where it is refused, and servers that it `concerns` are starting, it is done again
    whenever one of these is connected or has failed, until none is starting or `timeouts.start` is over. What it reads
    of standard input it has to keep. Raises Refused, UsageError: of the last time; HubNotRunning, ControlFailed,
    NotUnderstood: as `ControlClient`."""
    changes = _wait_for_changes(concerns, now_s())
    while True:
        try:
            return act()
        except (CallRefused, UsageError):
            if not next(changes, False):
                raise


def _wait_for_changes(concerns: Concerns, began_at: float) -> Iterator[bool]:
    """Wait for servers that a command concerns and that are starting: True whenever one of them is not any more, or may
    have listed what it offers after the command began, perhaps between its refusal and the first look: trying once too
    often does no harm. The end: none is starting, or the time is over. `began_at`: when the command began."""
    before: frozenset[str] | None = None
    until, is_said = began_at, False
    while True:
        status = ask_hub(STATUS)
        found = [row for row in status.upstreams if concerns(row)]
        starting = [row for row in found if is_starting(row)]
        names = frozenset(row.name for row in starting)
        if before is None:
            upstreams = config_of_hub(status).upstreams if names else {}
            limits = [upstreams[name].timeouts if name in upstreams else Timeouts() for name in names]
            until = began_at + max((limit.start for limit in limits), default=0.0)
            lately_s = now_s() - began_at + LISTING_S
            connected = [row for row in found if row.state == "connected" and not row.settling]
            is_due = any((row.since_s or 0.0) <= lately_s for row in connected)
        else:
            is_due = bool(before - names)
        before = names
        if is_due:
            yield True
            continue
        if not names or now_s() > until:
            return
        if not is_said and now_s() - began_at > SAY_AFTER_S:
            is_said = True
            print(f"{'; '.join(map(doing, starting))} ...", file=sys.stderr, flush=True)
        time.sleep(PAUSE_S)  # noqa: TID251 - nothing here runs under trio


def doing(row: "UpstreamRow") -> str:
    """The work that a server that is starting does now: `time is connecting`."""
    if row.installing:
        since = f" for {duration(row.installing_s)}" if row.installing_s is not None else ""
        return f"{printable(row.name)} is being installed{since}"
    if row.queued:
        return f"{printable(row.name)} waits until other servers are installed"
    return f"{printable(row.name)} is {'connecting again' if row.state == 'reconnecting' else 'connecting'}"


def why_away(concerns: Concerns) -> str:
    """The reason why a server that a command concerns is away, and what to do; "": none is."""
    row = next((each for each in ask_hub(STATUS).upstreams if concerns(each)), None)
    if row is None or (row.state == "connected" and not is_starting(row)):
        return ""
    if is_starting(row):
        return f"{doing(row)}, and was not ready in time; `hubd status` shows how far it is"
    why = (row.last_error or "").partition("\n")[0].rstrip(".")  # a sentence goes on
    if row.state == "disabled":
        return f"{row.name} is disabled: run `hubd enable {row.name}`"
    state = STATES.get(row.state, row.state)
    return f"{row.name} is {state}{f': {why}' if why else ''}; `hubd logs {row.name}` shows all of it"


def config_of_hub(status: Status) -> HubConfig:
    """The configuration in the files of the running hub; the defaults, if these cannot be read."""
    watched = status.config.watched
    return load_or_defaults(Path(watched[0]) if watched else None, os.environ)
