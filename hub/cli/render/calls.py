"""`hubd calls` as blocks of a screen. Pure."""

from collections.abc import Iterator, Sequence
from time import localtime, strftime
from typing import Final

from config.server_names import ACCOUNT_MARK
from config.settings import OWNER
from hub.cli.render.blocks import Block, Cell, Line, Table, paint
from hub.cli.render.words import about, duration, group, latency, money, percent, size
from hub.control.call_messages import CallRow, CallTotals, RunningRow
from hub.control.overview_messages import CostRow
from hub.wire.printable import printable

UNKNOWN: Final = "? = nobody knows whether it was carried out"
YOU: Final = "you"
_QUIET: Final = frozenset({"asked", "cancelled", "approval_required"})


def has_costs(calls: Sequence[CallRow]) -> bool:
    """True if one of them has a price."""
    return any(call.cost for call in calls)


def has_people(calls: Sequence[CallRow]) -> bool:
    """True if one of them is of another than the hub's owner."""
    return any(call.principal not in ("", OWNER) for call in calls)


def call_table(
    calls: Sequence[CallRow],
    *,
    shows_heads: bool = True,
    is_padded: bool = False,
    with_costs: bool | None = None,
    with_people: bool | None = None,
) -> Table:
    """Operations, one on each line. `is_padded`: cells have a least width, so that lines which come later stand below;
    together with the gaps these are 80. `with_costs`, `with_people`: whether there are these columns; None: if one has
    a price, or is of another than the hub's owner."""
    host, name, result = (8, 20, 10) if is_padded else (0, 0, 0)
    costs = has_costs(calls) if with_costs is None else with_costs
    people = has_people(calls) if with_people is None else with_people
    heads = ["TIME", "REF", *(["PERSON"] * people), "HOST", "CALL", "TOOK", "RESULT", "OUT", *(["COST"] * costs)]
    places = {head: at for at, head in enumerate(heads)}
    rows = [
        (
            paint(time_of(call.at), "dim"),
            call.ref,
            *((f"{YOU if call.principal in ('', OWNER) else call.principal:{host}}",) if people else ()),
            f"{call.host:{host}}",
            paint(f"{_spell_name(call):{name}}", "name"),
            f"{latency(call.took_s):>7}",
            outcome(call, result),
            f"{size(call.size) if call.size else '-':>7}",
            *((money(call.cost) if call.cost else None,) if costs else ()),
        )
        for call in calls
    ]
    notes = [list(_contents(call)) for call in calls]
    shorten = [places[head] for head in ("CALL", "RESULT", "HOST", "PERSON") if head in places]
    drop = [places[head] for head in ("COST", "OUT", "REF", "HOST") if head in places]
    return Table(heads, rows, shorten, drop, notes=notes, shows_heads=shows_heads)


def _spell_name(call: CallRow) -> str:
    """What was called, and as which of several accounts."""
    return f"{call.name} ({call.upstream})" if ACCOUNT_MARK in call.upstream else call.name


def _contents(call: CallRow) -> Iterator[Line]:
    for name, text in (("arguments", call.arguments), ("result", call.result)):
        if text is not None:
            yield paint(f"{name} ", "dim") + printable(text)


def cost_blocks(costs: Sequence[CostRow]) -> list[Block]:
    """`hubd calls --costs`."""
    if not costs:
        return ["no call was carried out since the hub started"]
    rows: list[tuple[Cell, ...]] = [
        (each.host, paint(each.server, "name"), each.calls, about(each.tokens), _price(each.cost)) for each in costs
    ]
    rows += [*_sums(costs, of_host=True), *_sums(costs, of_host=False)]
    rows.append(_sum("together", " ", costs))
    heads = ("HOST", "SERVER", "CALLS", "TOKENS OF RESULTS", "COST")
    blocks: list[Block] = [Table(heads, rows, shorten=(0, 1), drop=(3, 2))]
    if not any(each.cost for each in costs):
        blocks.append(paint("no server has a price; `price` below [upstreams.NAME] in hubd.toml says it", "dim"))
    else:
        blocks.append(paint("all calls since the hub started, at the prices of now", "dim"))
    return blocks


def _sums(costs: Sequence[CostRow], *, of_host: bool) -> Iterator[tuple[Cell, ...]]:
    """A row for each host, or for each server, where there are several, and one has more than one row."""
    found = group(((each.host if of_host else each.server), each) for each in costs)
    if 1 < len(found) < len(costs):
        for name, its in sorted(found.items()):
            yield _sum(name if of_host else "all", "all" if of_host else name, its)


def _sum(host: str, server: str, costs: Sequence[CostRow]) -> tuple[Cell, ...]:
    """The row of several together."""
    tokens, cost = about(sum(each.tokens for each in costs)), sum(each.cost for each in costs)
    return paint(host, "bold"), server, sum(each.calls for each in costs), tokens, _price(cost)


def _price(cost: float) -> str:
    """A sum with its point below those of others."""
    whole, point, rest = (money(cost) if cost else "-").partition(".")
    return f"{whole:>4}{point}{rest:<4}" if point else f"{whole:>4}"


def outcome(call: CallRow, cells: int = 0) -> Line:
    """How an operation ended, in so many cells; `?`: nobody knows whether it was carried out."""
    text = f"{(call.outcome or 'ok') + '?' * (call.executed == 'unknown'):{cells}}"
    return paint(text, "bad") if call.failed else paint(text, "dim") if call.outcome in _QUIET else text


def time_of(at: float) -> str:
    """The time of this machine, with the day if that is not this one."""
    when, now = localtime(at), localtime()
    return strftime("%H:%M:%S" if when[:3] == now[:3] else "%Y-%m-%d %H:%M:%S", when)


def _precisely(at: float) -> str:
    return f"{time_of(at)}.{int(at % 1 * 1000):03}"


def one_call(call: CallRow) -> Iterator[Block]:
    """All about one operation but its log."""
    yield paint(f"{call.ref}  ", "dim") + paint(call.name, "name")
    result = outcome(call) + ("; nobody knows whether it was carried out" if call.executed == "unknown" else "")
    whose = "" if call.name == call.own else f", there {call.own}" if call.own else ""
    rows: list[tuple[str, Line]] = [
        ("host", f"{call.host}, account {call.principal}, over {call.transport}"),
        ("server", f"{call.upstream}: {call.method}{whose}"),
        ("began", _precisely(call.at - call.took_s)),
        ("sent", _describe_wait(call)),
        *((("first answer", f"after {latency(call.first_answer_s)}"),) if call.first_answer_s is not None else ()),
        ("ended", f"{_precisely(call.at)}, after {latency(call.took_s)}"),
        ("result", result),
        ("arguments", size(call.sent)),
        ("answer", f"{size(call.size)}, {about(call.tokens)} tokens{', from memory' if call.cached else ''}"),
    ]
    if call.cost:
        rows.append(("cost", money(call.cost)))
    yield Table((), rows, wrap=(1,), indent=2)
    yield from _contents(call)
    if call.outcome == "tool_error" and call.result is None:
        wanted = f'record = ["arguments", "result"] in [upstreams.{call.upstream}]'
        yield paint(f"its result says why, and is not recorded; {wanted} has that of later calls kept", "dim")


def _describe_wait(call: CallRow) -> str:
    if call.waited_s is None:
        return "nothing was sent for it"
    return f"{_precisely(call.at - call.took_s + call.waited_s)}, after a wait of {latency(call.waited_s)}"


def one_running(row: RunningRow) -> Line:
    """One operation that is not over."""
    line = paint(f"{row.ref}  ", "dim") + paint(row.name, "name")
    return line + f"  of {row.upstream}, asked by {row.host}, has run for {duration(row.for_s)}"


def totals(found: CallTotals) -> str:
    """The line of `hubd status`; "": nothing was called."""
    if not found.calls and not found.busy:
        return ""
    parts = [f"calls: {found.calls:,}".replace(",", " ")]
    if found.failed_ratio is not None:
        parts += [f"{found.lately} in the last 5 min", f"{percent(found.failed_ratio)} of these failed"]
    if found.p50_s is not None and found.p95_s is not None:
        parts += [f"p50 {latency(found.p50_s)}", f"p95 {latency(found.p95_s)}"]
    if found.cost:
        parts.append(f"cost {money(found.cost)}")
    return ", ".join(parts)
