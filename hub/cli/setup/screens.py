"""Screens of a setup: what was found and tried, all that would be written on one of them, and what came of it."""

import shlex
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from config.hosts.host_servers import Server
from config.hosts.import_plan import Import
from config.hosts.known_hosts import Place
from config.hosts.removal_choice import SIGN_IN, HostRemovals, Served, Stays
from config.hosts.removed_originals import out_again
from config.hub_paths import backup_dir
from hub.cli.await_server_starts import UP
from hub.cli.configuration.env_command import Capture
from hub.cli.hosts.change_host_files import below_home, configuration_diff, host_diff, text_diff
from hub.cli.render.blocks import Block, Cell, Table, paint
from hub.cli.render.costs import warning_of
from hub.cli.render.words import about, count_of, group, join_names
from hub.cli.setup.carry_out import SetupPlan
from hub.cli.setup.survey_hosts import Survey
from hub.cli.setup.verdicts import ServerVerdict
from hub.control.answers import HostRow, UpstreamRow
from hub.wire.printable import printable

UNDO = "hubd uninstall --all --restore-originals"
MOST_DIRECTORIES = 6
"""Directories of PATH in a sentence; further ones are counted."""
STYLES = {"works": "good", "in the hub": "good", "sign-in needed": "warning", "does not work": "bad", "left": "dim"}


# --- what was found ---------------------------------------------------------------------------------------------------


def findings(survey: Survey, home: Path) -> Iterator[Block]:
    """The hosts, and files that cannot be read."""
    hosts = count_of(len(survey.titles), "host")
    servers = count_of(len(survey.servers), "server")
    yield f"Found {hosts} with {servers}: {join_names(survey.titles)}." if survey.titles else "No host can be changed."
    for place, why in survey.unreadable:
        yield paint(f"{place.title}: {below_home(place.path, home)} is left as it is: {why}", "warning")


def results(found: Sequence[ServerVerdict]) -> Iterator[Block]:
    """Each server once: what became of it, and the hosts that have it."""
    hosts: dict[tuple[str, str], list[ServerVerdict]] = {}
    for each in found:
        is_hosts = each.did == "left" or not each.name  # the hub's name may be that of another host
        hosts.setdefault((each.key, each.host) if is_hosts else (each.name, each.did), []).append(each)
    rows: list[list[Cell]] = []
    notes: list[list[Block]] = []
    order = list(STYLES)
    for (name, _), all in sorted(hosts.items(), key=lambda item: order.index(item[1][0].did)):
        first = all[0]
        what: str = "left alone" if first.did == "left" else first.did
        if first.did == "does not work" and first.outcome is not None and first.outcome.is_on_its_way:
            what = "no answer yet"
        titles = ", ".join(dict.fromkeys(each.title for each in all))
        rows.append([paint(name, "name"), paint(what, STYLES[first.did]), offer(first), titles])
        stays = "stays there: " if first.stays else ""
        notes.append([f"{stays}{_short(first)}"] if first.why else [])
    if rows:
        wrap = ("IN", "OFFERS", "SERVER", "RESULT")
        yield Table(("SERVER", "RESULT", "OFFERS", "IN"), rows, wrap=wrap, notes=notes)  # type: ignore[arg-type]


def stay(found: Sequence[ServerVerdict], why: Mapping[str, str]) -> Iterator[Block]:
    """The servers that stay with their hosts after all. `why`: by the hub's name."""
    for reason in dict.fromkeys(why.values()):
        names = [name for name, each in why.items() if each == reason]
        titles = join_names(list(dict.fromkeys(each.title for each in found if each.name in names)))
        yield paint(f"{join_names(names)} {'stays' if len(names) == 1 else 'stay'} with {titles}: {reason}", "warning")


def _short(each: ServerVerdict) -> str:
    """The reason, without advice on what to write into the hub's files: it is not there yet."""
    if each.did == "sign-in needed":
        then = f"after this {each.sign_in}, then `hubd setup` again takes it over"
        return then if each.sign_in else "its host signs in to it; the hub needs `headers.Authorization` for it"
    return each.why.partition(": set it in")[0]


def offer(each: ServerVerdict) -> str:
    """`12 tools, ~3 100 tokens`."""
    return ", ".join(each.outcome.offers) if each.outcome is not None and each.outcome.works else ""


def secrets(held: Sequence[tuple[str, Server]]) -> Iterator[Block]:
    """The servers whose settings hold secrets, and where. No values."""
    yield "These hold what looks like secrets:"
    for name, server in held:
        yield f"  {name} ({server.place.title}): {server.held}"


# --- what would be written --------------------------------------------------------------------------------------------


def costs(result: Import, verdicts: Sequence[ServerVerdict], places: Sequence[Place]) -> Iterator[Block]:
    """The tools that every host would be shown, as far as they were seen now, and the hosts that take fewer."""
    names = {name for name, _ in result.all}
    seen = {each.name: each.outcome for each in verdicts if each.outcome is not None and each.name in names}
    tools = sum(each.tools or 0 for each in seen.values())
    tokens = sum(each.tokens or 0 for each in seen.values())
    if not tools:
        return
    what = "The new ones:" if any(each.did == "in the hub" for each in verdicts) else "Together"
    yield f"{what} {count_of(tools, 'tool')}, {about(tokens)} tokens, for every host."
    rows = [HostRow(host=place.host.title, label=place.host.id, tools=tools, tokens=tokens) for place in places]
    if warning := warning_of(rows):
        yield paint(f"{warning}; `hubd tools --cost` shows what is large", "warning")
    yield ""


def all_changes(plan: SetupPlan, home: Path) -> Iterator[Block]:
    """The one screen: every file, and what changes in it."""
    rows: list[list[Cell]] = []
    if plan.imported:
        number = sum(_servers_in(write.after) - _servers_in(write.before or "") for write in plan.imported)
        folder = plan.imported[0].path.parent
        files = count_of(len(plan.imported), "file")
        rows.append(["hubd", f"{below_home(folder, home)}/", f"{count_of(number, 'server')}, in {files}"])
    if plan.capture is not None:
        others = [name for name in plan.capture.values if name != "PATH"]
        more = f", {', '.join(others)}" if len(others) < 3 else f" and {len(others)} more"
        rows.append(["hubd", below_home(plan.capture.path, home), f"PATH{more * bool(others)} of this shell"])
    if plan.secrets is not None and plan.secrets.values:
        rows.append(["hubd", "hubd secret", ", ".join(plan.secrets.values)])
    for each in plan.installs:
        originals = plan.originals(each.place)
        out, off = ([one.key for one in originals if bool(one.off) is is_off] for is_off in (False, True))
        changes = ["the hub"] * each.changes + [f"without {', '.join(out)}"] * bool(out)
        changes += [f"{join_names(off)} switched off"] * bool(off)
        if changes:
            rows.append([each.place.title, below_home(each.place.path, home), ", ".join(changes)])
    yield paint("What would be written", "bold")
    if rows:
        yield Table(("WHERE", "FILE", "CHANGE"), rows, wrap=("FILE", "CHANGE", "WHERE"), least=32, indent=2)
    for each in plan.refused:
        where = below_home(each.place.path, home)
        yield paint(f"  {each.place.title}: {where} is left as it is: {each.why}", "warning")
    for stays in plan.host_removals.stays:
        yield f"  {_say_kept(stays)}"
    if plan.start == "service":
        yield "  The hub becomes a service of systemd, and is started now."
    elif plan.start == "background":
        yield "  The hub is started in the background; hosts start it again when they need it."
    yield f"Each file is copied to {below_home(backup_dir(), home)} first."
    yield from _undone(plan)


def _say_kept(stays: Stays) -> str:
    if stays.why == SIGN_IN:
        then = f"`hubd auth {stays.name}`, then `hubd setup` again takes it over"
        return f"{stays.place.title} keeps {stays.key} until you have signed in: {then}"
    return f"{stays.place.title} keeps {stays.key}: {stays.why}"


def undo(plan: SetupPlan) -> str | None:
    """The command that undoes it; None: nothing of it belongs to hosts."""
    at_hosts = plan.imported or plan.added or plan.host_removals.writes
    return UNDO if at_hosts or (plan.secrets is not None and plan.secrets.values) else None


def _undone(plan: SetupPlan) -> Iterator[Block]:
    """The way to undo it. `UNDO` takes back what every setup did, so it is not for the record of a shell alone."""
    if (command := undo(plan)) is not None:
        yield f"Undone by: {command}"
    elif plan.capture is not None:
        path = shlex.quote(str(plan.capture.path))
        was = f"copying {path} back from {shlex.quote(str(backup_dir()))}"
        yield f"Undone by: {was if plan.capture.before is not None else f'rm {path}'}"


def omissions(capture: Capture, path: str) -> list[str]:
    """The directories of this shell's PATH that are not recorded, a sentence for each reason."""
    directories = {*path.split(":"), *(name for name in capture.left_out if "/" in name)}
    reasons = group((why, printable(name)) for name, why in capture.left_out.items() if name in directories)
    return [
        f"not recorded of this shell's PATH: {join_names(names, MOST_DIRECTORIES + 1)} ({why})"
        for why, names in reasons.items()
    ]


def _servers_in(text: str) -> int:
    return len(tomllib.loads(text).get("upstreams", {}))


def diffs(plan: SetupPlan) -> list[Block]:
    """The changes of all files as diffs, without secrets."""
    found = [configuration_diff(write.path, write.before or "", write.after) for write in plan.imported]
    if (capture := plan.capture) is not None:  # which holds nothing that looks like a secret
        before, after = ((each or b"").decode(errors="replace") for each in (capture.before, capture.after))
        found.append(text_diff(capture.path, before, after, ()))
    writes = {write.path: write for write in plan.host_removals.writes if not write.command}
    for each in plan.added:
        if not each.program:
            gone = writes.pop(each.place.path, None)
            after = out_again((each.after or b"").decode(), () if gone is None else gone.originals)[0]
            found.append(host_diff(each.place, each.before or b"", after.encode()))
    for write in writes.values():
        assert write.place is not None
        found.append(host_diff(write.place, (write.before or "").encode(), write.after.encode()))
    return [text for text in found if text]


# --- what came of it --------------------------------------------------------------------------------------------------


def all_is_well(verdicts: Sequence[ServerVerdict], rows: Sequence[UpstreamRow]) -> Iterator[Block]:
    """There was nothing to do. `rows`: the servers of the running hub."""
    works = sum(row.state in UP for row in rows)
    waiting = {row.name: row.account.command for row in rows if row.state == "unauthorized" and row.account is not None}
    sign_ins = {name: command for name, command in waiting.items() if command}
    others = [row.name for row in rows if row.state not in (*UP, "disabled") and row.name not in sign_ins]
    staying = sum(each.stays for each in verdicts)
    text = f"nothing to change. {count_of(works, 'server')} through the hub{_staying(staying)}."
    is_well = not (others or sign_ins)
    yield paint(f"All is well: {text}" if is_well else f"There is {text}", "good" if is_well else "warning")
    if sign_ins:
        commands = join_names([f"`{command}`" for command in sign_ins.values()])
        yield f"Sign-in needed: {join_names([*sign_ins])}; run {commands}."
    if others:
        yield f"Not connected: {join_names(others)}; `hubd status` says why."


def _staying(number: int) -> str:
    if not number:
        return ""
    return f"; {count_of(number, 'server')} {'stays with its host' if number == 1 else 'stay with their hosts'}"


def last_lines(
    plan: SetupPlan, verdicts: Sequence[ServerVerdict], served: Served, left: HostRemovals, changed: Sequence[Place]
) -> Iterator[Block]:
    """The last lines."""
    works = sum(not why for why in served.values())
    staying = sum(each.stays for each in verdicts) + len(left.stays)
    yield paint(f"Done: {count_of(works, 'server')} through the hub{_staying(staying)}.", "good")
    for stays in left.stays:
        if stays.kind != "changed":  # which is said as a failure
            yield paint(f"  {_say_kept(stays)}", "warning")
    notes: list[str] = []
    for place in changed:
        note = place.host.note or f"restart {place.title}"
        notes.append(note if place.host.title in note else f"{place.title}: {note}")
    if notes:
        yield "So that your hosts see it:"
        yield from (f"  {note}" for note in dict.fromkeys(notes))
    yield from _undone(plan)
