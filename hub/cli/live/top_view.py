"""What `hubd top` shows, and what keys mean there. Pure."""

from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Any, Final, NamedTuple

from hub.cli.render.blocks import Block, Cell, Line, Table, paint
from hub.cli.render.words import about, count_of, duration, latency, money, percent
from hub.control.overview_messages import AttachedRow, Overview, ServerRow

KEYS: Final = "q quit  s sort  p pause  Enter log  r restart  c calls  h hosts  ? help"
BACK: Final = "Esc back  q quit  p pause"
HELP: Final = (
    ("up, down", "choose a server"),
    ("Enter", "the log of the server"),
    ("r", "restart the server; asks first"),
    ("c", "the last calls"),
    ("h", "the hosts, and what their calls cost"),
    ("s", "sort by another column"),
    ("p", "pause: nothing changes until p is pressed again"),
    ("Esc", "back to the servers"),
    ("q", "quit"),
)
SPARK_CELLS: Final = 12
"""Cells of the line that shows the calls of the last minute, with five seconds in each."""
LEVELS: Final = "▁▂▃▄▅▆▇█"
RUNNING_ROWS: Final = 5
LEAST_CELLS: Final = 18
"""Cells of a name or an error that others than the least important columns give way to."""
REASONS: Final = 3
"""Servers of which the whole reason is said why they are broken."""
_ORDER: Final = {"bad": 0, "warning": 1}
_STYLES: Final = {"good": "good", "bad": "bad", "off": "dim"}
_SORTS: Final[tuple[tuple[str, Callable[[ServerRow], Any]], ...]] = (
    ("BUSY", lambda row: (-row.busy, _ORDER.get(row.health, 2), -(row.failed_ratio or 0), row.name)),
    ("FAILED", lambda row: (-(row.failed_ratio or 0), _ORDER.get(row.health, 2), row.name)),
    ("P95", lambda row: (-(row.p95_s or 0), row.name)),
    ("/MIN", lambda row: (-row.rate, -row.calls, row.name)),
    ("COST", lambda row: (-row.cost, row.name)),
    ("SERVER", lambda row: row.name),
)


class KeyAction(NamedTuple):
    """What somebody wants by a key: `quit`, or to `restart` a server."""

    what: str
    name: str = ""


class Top:
    """The screen as it is now."""

    def __init__(self) -> None:
        self.page = "servers"
        """Or `hosts`, `log`, `calls`, `help`."""
        self.content: Sequence[Block] = ()
        """Of the pages `log` and `calls`."""
        self.problem = ""
        """The reason why nothing new is known."""
        self.note = ""
        """What has become of the last wish."""
        self._seen = Overview()
        self._is_paused = False
        self._sort = 0
        self._chosen = ""
        self._first = 0
        """The first server that is drawn."""
        self._asks = False

    @property
    def server(self) -> str:
        """The server that is chosen; "": there is none."""
        names = [row.name for row in self._order()]
        return self._chosen if self._chosen in names else next(iter(names), "")

    @property
    def is_paused(self) -> bool:
        """True if nothing is to change."""
        return self._is_paused

    def see(self, overview: Overview) -> None:
        """Take over what is known now."""
        self.problem = ""
        if not self._is_paused:
            self._seen = overview

    def press(self, key: str) -> KeyAction | None:
        """Do what a key means."""
        self.note = ""
        if self._asks:
            self._asks = False
            return KeyAction("restart", self.server) if key in ("y", "Y") else None
        if key == "q":
            return KeyAction("quit")
        if key == "p":
            self._is_paused = not self._is_paused
        elif key == "escape":
            self._turn_to("servers")
        elif (page := {"c": "calls", "h": "hosts", "?": "help"}.get(key)) is not None:
            self._turn_to("servers" if self.page == page else page)
        elif self.page == "servers":
            self._press_at_servers(key)
        return None

    def _press_at_servers(self, key: str) -> None:
        names = [row.name for row in self._order()]
        if key == "s":
            self._sort = (self._sort + 1) % len(_SORTS)
        elif key == "enter" and self.server:
            self._turn_to("log")
        elif key == "r" and self.server:
            self._asks = True
        elif key in ("up", "down") and names:
            at = names.index(self.server) + (1 if key == "down" else -1)
            self._chosen = names[max(0, min(len(names) - 1, at))]

    def _turn_to(self, page: str) -> None:
        self.page, self.content = page, ()

    def _order(self) -> list[ServerRow]:
        return sorted(self._seen.servers, key=_SORTS[self._sort][1])

    # --- what is drawn

    def blocks(self, rows: int) -> list[Block]:
        """The screen, in so many lines, none of which is to wrap."""
        above = list(self._above())
        body = {"servers": self._servers, "hosts": self._hosts, "help": self._help}.get(self.page, self._page)
        room = max(1, rows - len(above) - 2)
        return [*above, *body(room), "", cut(self._below())][: max(rows, 2)]

    def _above(self) -> Iterator[Block]:
        yield _heading(self._seen)
        if self.problem:
            yield cut(paint(self.problem, "bad"))
        if self._seen.reload.problem:
            yield cut(paint("the configuration has errors, and the one before is still in use: hubd status", "bad"))

    def _below(self) -> Line:
        if self._asks:
            return paint(f"restart {self.server}? y restarts it, any other key does not", "warning")
        text = self.note or (KEYS if self.page == "servers" else BACK)
        return paint("PAUSED  ", "warning") + text if self._is_paused else paint(text, "dim")

    def _servers(self, room: int) -> Iterator[Block]:
        running = self._seen.running
        least = min(len(running), RUNNING_ROWS, max(1, room // 3))
        servers = self._order()
        height = max(1, min(len(servers), room - 1 - least))
        at = next((at for at, row in enumerate(servers) if row.name == self.server), 0)
        self._first = max(at - height + 1, min(self._first, at, len(servers) - height), 0)
        if servers:
            yield self._table(servers[self._first : self._first + height])
        else:
            yield cut("no servers; `hubd add` adds one")
        room -= 1 + height
        reasons = [f"{row.label or row.name}: {row.why}" for row in servers if row.health == "bad" and row.why]
        for text in reasons[: max(0, min(REASONS, room - least))]:
            yield cut(paint(text, "bad"))
            room -= 1
        shown = running[: max(0, room)]
        if shown:
            yield Table(
                (),
                [
                    (
                        paint("RUNNING", "bold") if not number else " " * 7,
                        row.ref,
                        row.host,
                        paint(row.name, "name"),
                        latency(row.for_s),
                    )
                    for number, row in enumerate(shown)
                ],
                shorten=(3, 2),
                drop=(1, 0, 2),
            )

    def _table(self, servers: Sequence[ServerRow]) -> Table:
        has_cost = any(row.cost for row in self._seen.servers)
        heads = ["SERVER", "STATE", "/MIN", "FAILED", "P50", "P95", "BUSY", *(["COST"] * has_cost), "LAST ERROR"]
        drop = ("P50", *(("COST",) * has_cost), "/MIN", "BUSY", "FAILED", "LAST ERROR", "P95")
        rows = [self._row(row, has_cost=has_cost) for row in servers]
        sort = _SORTS[self._sort][0]
        places = {head: at for at, head in enumerate(heads)}
        shown = [f"  {head}" if head == "SERVER" else f"{head}*" if head == sort else head for head in heads]
        return Table(shown, rows, shorten=(len(heads) - 1, 0), drop=[places[head] for head in drop], least=LEAST_CELLS)

    def _row(self, row: ServerRow, *, has_cost: bool) -> tuple[Cell, ...]:
        is_chosen, ratio = row.name == self.server, row.failed_ratio
        failed = "-" if ratio is None else percent(ratio)
        fails = ratio is not None and ratio > self._seen.limits.failed_ratio
        p95 = "-" if row.p95_s is None else latency(row.p95_s)
        return (
            paint(f"> {row.label or row.name}", "bold") if is_chosen else f"  {row.label or row.name}",
            paint(row.word, _STYLES.get(row.health, "warning")),
            round(60 * row.rate),
            paint(f"{failed:>6}", "bad") if fails else f"{failed:>6}",
            f"{'-' if row.p50_s is None else latency(row.p50_s):>6}",
            paint(f"{p95:>6}", "warning") if row.slow else f"{p95:>6}",
            row.busy,
            *((f"{money(row.cost) if row.cost else '-':>5}",) if has_cost else ()),
            _trouble(row),
        )

    def _hosts(self, room: int) -> Iterator[Block]:
        heads = ("HOST", "PROFILE", "TOOLS", "TOKENS", "IDLE", "BUSY", "CALLS", "COST")
        rows = [_host(each) for each in sorted(self._seen.hosts, key=lambda each: (-each.in_flight, each.host))]
        yield Table(heads, rows[: max(1, room - 1)], shorten=(0, 1), drop=(3, 1, 2, 4)) if rows else "no hosts attached"

    def _help(self, room: int) -> Iterator[Block]:
        yield Table((), HELP[:room], shorten=(1,))

    def _page(self, room: int) -> Iterator[Block]:
        yield cut(paint(f"log of {self.server}" if self.page == "log" else "the last calls", "bold"))
        yield from map(cut_block, self.content[-(room - 1) :] if room > 1 else ())


def cut(line: Line) -> Table:
    """A line that loses its end where it is too wide."""
    return Table((), [(line,)], shorten=(0,), least=1)


def cut_block(block: Block) -> Block:
    """The same, of a line; tables are as they are."""
    return block if isinstance(block, Table) else cut(block)


def _heading(seen: Overview) -> Table:
    totals = seen.totals
    parts: list[tuple[int, Line]] = [
        (9, paint(f"hubd {seen.version}", "bold")),
        (5, f"up {duration(seen.uptime_s)}"),
        (4, count_of(len(seen.hosts), "host")),
        (6, f"{totals.busy} running"),
        (3, f"{totals.rate:.1f}/s {spark(seen.seconds.calls)}"),
    ]
    if totals.failed_ratio is not None:
        is_bad = totals.failed_ratio > seen.limits.failed_ratio
        text = f"{percent(totals.failed_ratio)} failed"
        parts.append((8, paint(text, "bad") if is_bad else text))
    if totals.cost:
        parts.append((2, f"cost {money(totals.cost)}"))
    if seen.inbox:
        parts.append((7, paint(count_of(seen.inbox, "decision"), "warning")))
    order = sorted(range(len(parts)), key=lambda at: parts[at][0])
    return Table((), [[text for _, text in parts]], drop=order)


def spark(calls: Sequence[int]) -> str:
    """The calls of the last minute as a line of bars."""
    step = 60 // SPARK_CELLS
    sums = [sum(calls[at : at + step]) for at in range(max(0, len(calls) - 60), len(calls), step)]
    most = max(chain(sums, [1]))
    return "".join(LEVELS[-(-each * (len(LEVELS) - 1) // most)] for each in sums)


def _trouble(row: ServerRow) -> str | None:
    """Why a server is not well, or how its last call failed."""
    if row.why or row.last_error is None:
        return row.why
    return f"{row.last_error.error_type} {duration(row.last_error.ago_s)} ago"


def _host(row: AttachedRow) -> tuple[Cell, ...]:
    name = row.host if row.label in ("", row.host) else f"{row.host} ({row.label})"
    tokens = None if row.tokens is None else about(row.tokens)
    figures = row.in_flight, row.calls, money(row.cost) if row.cost else None
    return paint(name, "name"), row.profile, row.tools, tokens, duration(row.idle_s), *figures
