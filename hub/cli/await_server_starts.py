"""Waiting for servers of the running hub: until each is connected, or it is clear that it will not be.

`watch` asks the hub for its status again and again, and draws a line for each server meanwhile where it can.
"""

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from os import EX_TEMPFAIL
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import asdict

from hub.cli.context import Output
from hub.cli.render.blocks import Block
from hub.cli.render.words import about, duration, last_words
from hub.control.answers import UpstreamRow
from hub.control.client import ControlClient
from hub.control.interruptible_wait import now_s
from hub.control.methods import STATUS
from hub.wire.printable import printable
from upstreams.journal.lacking_variable import hint_at_variable

LIMIT_S: Final = 10.0
"""Seconds that a command waits for a server that is not being installed."""
FAILURES: Final = 2
"""Attempts in a row that have to fail before a command stops waiting; the hub goes on trying."""
PAUSE_S: Final = 0.15
SLACK_S: Final = 0.5
"""An error that is older than the wait by so much was there before."""

UP: Final = frozenset({"connected", "idle"})
ENDED: Final = frozenset({"failed", "unauthorized", "unresolved", "disabled"})
ABSENT: Final = "absent"
"""The state of a server that the hub does not have."""


class ServerOutcome(Struct, frozen=True, kw_only=True):
    """The outcome for one server in the time that was waited for it."""

    name: str
    state: str
    """As in `hubd status --json`, or `absent`."""
    installing: bool = False
    """It was still being installed when the wait ended."""
    queued: bool = False
    """It was still waiting until others have been installed."""
    tools: int | None = None
    prompts: int | None = None
    resources: int | None = None
    templates: int | None = None
    tokens: int | None = None
    """Estimate of what its tools cost a model; None: not known."""
    why: str = ""
    """The error on one line; "" if there is none."""
    sign_in: str = ""
    """The command by which a person signs in there; "": nobody has to."""
    waited_s: float = 0.0

    @property
    def works(self) -> bool:
        """True if calls reach it: it is connected, or the first call starts it."""
        return self.state in UP

    @property
    def is_on_its_way(self) -> bool:
        """True if it may still work: nothing has gone wrong so far."""
        return not (self.works or self.why or self.state in ENDED or self.state == ABSENT)

    def __str__(self) -> str:
        """A sentence for people."""
        return f"{self.name}: {self.summary}"

    @property
    def summary(self) -> str:
        """The sentence without the name."""
        if self.works:
            state = self.state if self.state == "connected" else "started by its first call"
            return ", ".join([state, *self.offers])
        if self.state in ("disabled", ABSENT):
            return self.state if self.state == "disabled" else "the hub does not have it"
        if self.sign_in:
            return f"sign-in needed; sign in: {self.sign_in}"
        state = "sign-in needed" if self.state == "unauthorized" else self.state
        if self.state not in ENDED:
            doing = "still installing" if self.installing else "waiting for other installs"
            doing = doing if self.installing or self.queued else "not connected" if self.why else "still connecting"
            state = f"{doing} after {duration(self.waited_s)}"
        return f"{state}: {self.why}" if self.why else state

    @property
    def progress(self) -> str:
        """A line for people while it is waited for."""
        doing = "installing" if self.installing else "waiting for other installs" if self.queued else "connecting"
        return f"{self.name}: {doing} {duration(self.waited_s)}" + (f" ({self.why})" if self.why else "")

    @property
    def offers(self) -> Iterator[str]:
        """Its offer: `12 tools`, `~3 100 tokens`."""
        others = ((self.prompts, "prompt"), (self.resources, "resource"), (self.templates, "template"))
        for count, noun in ((self.tools, "tool"), *others):
            if count or (count == 0 and noun == "tool" and not any(number for number, _ in others)):
                yield f"{count} {noun}{'s' * (count != 1)}"
        if self.tokens:
            yield f"{about(self.tokens)} tokens"

    def as_object(self) -> dict[str, Any]:
        """For programs."""
        facts = {name: getattr(self, name) for name in ("name", "state", "installing", "tools", "tokens")}
        return {**facts, "why": self.why or None, **({"sign_in": self.sign_in} if self.sign_in else {})}


Draw = Callable[[Mapping[str, ServerOutcome], Collection[str]], "list[Block]"]
"""Makes the live lines of what was found so far, and of the names that are still waited for."""


def watch(
    hub: "ControlClient",
    names: Iterable[str],
    output: Output,
    *,
    limit_s: float = LIMIT_S,
    failures: int = FAILURES,
    draw: Draw | None = None,
    is_enough: Callable[[], bool] = lambda: False,
) -> dict[str, ServerOutcome]:
    """Wait until each server is connected, failed, unauthorized, unresolved or disabled, at most `limit_s` seconds;
    while one is being installed or waits for that, and `limit_s` after it. One that failed to start `failures` times in
    a row is waited for no longer, nor one that failed twice in the same words, installed or not. The outcomes are in
    the order of `names`. `draw` makes the live lines: by default one per server. `is_enough`: whether the rest is to be
    left as it is. Raises HubNotRunning, ControlFailed, NotUnderstood: as `ControlClient`; KeyboardInterrupt: the
    servers go on starting."""
    wanted = list(dict.fromkeys(names))
    began_at = until = now_s()
    again = _Again()
    with output.progress.live_lines() as redraw:
        while True:
            upstreams = hub.request(STATUS).upstreams
            rows = {row.label: row for row in upstreams} | {row.name: row for row in upstreams}
            now = now_s()
            waited_s = now - began_at
            found = {name: outcome(name, rows.get(name), waited_s) for name in wanted}
            again.look(upstreams, waited_s)
            hopeful = [name for name in wanted if name not in again.names]
            waiting = [name for name in hopeful if not _has_ended(rows.get(name), waited_s, failures)]
            if any(found[name].installing or found[name].queued for name in waiting):
                until = now
            if not waiting or now - until > limit_s or is_enough():
                return found
            redraw((draw or _lines)(found, waiting))
            time.sleep(PAUSE_S)  # noqa: TID251 - nothing here runs under trio


class _Again:
    """Servers that failed twice in a row in the same words: trying it once more, or installing anew, helps nothing."""

    def __init__(self) -> None:
        self.names: set[str] = set()
        self._first: dict[str, tuple[int, str]] = {}

    def look(self, rows: "Iterable[UpstreamRow]", waited_s: float) -> None:
        """Note how servers have failed by now."""
        for row in rows:
            failures = row.failures or 0
            if row.state in UP or not failures or not row.last_error or _is_old(row, waited_s):
                self._first.pop(row.name, None)
                self.names.discard(row.name)
                continue
            now = failures, last_words(row.last_error)
            before = self._first.setdefault(row.name, now)
            if failures > before[0]:
                (self.names.add if now[1] == before[1] else self.names.discard)(row.name)
                self._first[row.name] = now


def outcome(name: str, row: "UpstreamRow | None", waited_s: float) -> ServerOutcome:
    """The outcome so far. `row`: of the status; None: the hub does not have it."""
    if row is None:
        return ServerOutcome(name=name, state=ABSENT, waited_s=waited_s)
    counts = row.counts if row.counts is not None and not row.settling else None
    return ServerOutcome(
        name=name,
        state="reconnecting" if row.stale_config and row.state in UP else row.state,
        installing=row.installing,
        queued=row.queued,
        **({} if counts is None else asdict(counts)),
        tokens=row.tokens if counts else None,
        why=_why(row, waited_s),
        sign_in=row.account.command if row.account is not None and row.state == "unauthorized" else "",
        waited_s=waited_s,
    )


def _why(row: "UpstreamRow", waited_s: float) -> str:
    if row.stale_config:
        return f"it still runs with its old settings: {last_words(row.stale_config)}"
    if row.state in UP or not row.last_error or (row.state not in ENDED and _is_old(row, waited_s)):
        return ""
    return last_words(row.last_error)


def _is_old(row: "UpstreamRow", waited_s: float) -> bool:
    return row.last_error_ago_s is not None and row.last_error_ago_s > waited_s + SLACK_S


def _has_ended(row: "UpstreamRow | None", waited_s: float, failures: int) -> bool:
    """True if nothing more is to be expected of it soon. Of an unknown server: it may be about to be taken up."""
    if row is None:
        return waited_s > SLACK_S
    if row.state in UP:
        is_counted = row.tokens is not None or (row.since_s or 0.0) > SLACK_S  # which takes a moment
        return not row.stale_config and not row.settling and is_counted
    if row.state in ENDED:  # nobody tries it again; a moment, since a restart or a sign-in may be about to
        return waited_s > SLACK_S or not _is_old(row, waited_s)
    if (row.failures or 0) < failures or row.installing or row.queued:
        return False
    return not _is_old(row, waited_s)


def is_starting(row: "UpstreamRow", failures: int = FAILURES) -> bool:
    """True if it is not known what a server offers, and may be soon."""
    if row.state in UP:
        return row.state == "connected" and bool(row.settling)
    return row.state not in ENDED and ((row.failures or 0) < failures or row.installing or row.queued)


def _lines(found: Mapping[str, ServerOutcome], waiting: Collection[str]) -> "list[Block]":
    return [each.progress if each.name in waiting else str(each) for each in found.values()]


def say_outcomes(found: Collection[ServerOutcome], output: Output) -> None:
    """Report what became of servers: it is a failure if one does not come up, or is only not there yet."""
    for each in sorted(found, key=lambda each: each.is_on_its_way):  # of several failures the first code counts
        output.append("servers", each.as_object())
        text = printable(str(each))
        if each.is_on_its_way:
            output.fail(f"{text}; it goes on, `hubd status` shows how far it is", EX_TEMPFAIL)
        elif not (each.works or each.state == "disabled"):
            hint = f"; `hubd logs {each.name}` shows all of it" if each.state != ABSENT else "; see `hubd status`"
            is_all = each.sign_in or each.state == "unresolved"
            output.fail(text if is_all else f"{text}{hint}")
            if hint := hint_at_variable(each.why, each.name):
                output.note(hint)
        else:
            output.say(text)
