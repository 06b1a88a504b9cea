"""`hubd pins`: what servers have changed of their definitions since these were approved; files of approved hashes."""

from collections import Counter
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from pathlib import Path
from time import localtime, strftime
from typing import Any, Final

from msgspec import to_builtins

from config.atomic_writes import read_file, replace_file
from hub.cli.context import EX_FAILED, CommandFailed, Context, Output, UsageError, agreed, ask_hub
from hub.cli.parser import add
from hub.cli.render.blocks import Block, Line, Table, paint
from hub.cli.render.words import count_of
from hub.control.methods import APPROVE_PINS, EXPORT_PINS, PINS
from hub.control.pin_messages import PinChange, PinnedServer, WordChange
from hub.wire.printable import visible

MAX_LINE: Final = 400
"""Characters shown of one line; `--json` has all."""
CONTEXT: Final = 40
"""Characters shown before a difference far into a line."""
NOUNS: Final = {"tools": "tool", "prompts": "prompt", "resourceTemplates": "template"}


def add_commands(commands: Any) -> None:
    """`pins`."""
    pins = add(commands, "pins", _pins, json=True)
    pins.add_value("name", "NAME", "a server or a tool; or `check`, or `export FILE`; all if none", nargs="?")
    pins.add_value("more", "FILE", "of `export` the file to write, of `check` a server", nargs="?")
    pins.epilog = (
        "`hubd pins check` exits 1 if anything differs from what was approved. `hubd pins export FILE`\n"
        f"writes the approved hashes, for `pins_file` in [policy].\n\n{pins.epilog}"
    )


def _pins(options: Context, output: Output) -> None:
    if options.name == "export":
        return _export(options, output)
    if options.name == "check":
        return _check(options, output)
    if options.more is not None:
        raise UsageError(f"unexpected argument: {options.more}", options.parser.format_usage())
    servers = ask_hub(PINS, name=options.name, shows=options.name is not None)
    output.answer(
        to_builtins(servers),
        lambda: [*differences(servers[0]), *_next_step(servers[0])] if options.name else overview(servers),
    )


def _check(options: Context, output: Output) -> None:
    """Exit 1 if a server lists anything else than was approved."""
    differing = [each for each in ask_hub(PINS, name=options.more) if each.changes or each.problem]
    output.set(servers=to_builtins(differing))
    for each in differing:
        output.say(f"{each.name}: {sum_up(each)}")
    if differing:
        output.exit_with(EX_FAILED)
    else:
        output.say("all definitions are as they were approved")


def _export(options: Context, output: Output) -> None:
    if options.more is None:
        raise UsageError("name the file to write: hubd pins export FILE", options.parser.format_usage())
    text, path = ask_hub(EXPORT_PINS), Path(options.more)
    if not text:
        raise CommandFailed("nothing was approved yet, so there is nothing to write")
    replace_file(path, text.encode(), was=read_file(path))
    output.set(file=str(path))
    output.say(f"wrote what was approved to {path}")


# --- what is shown ----------------------------------------------------------------------------------------------------


def overview(servers: Sequence[PinnedServer]) -> list[Block]:
    """`hubd pins`: a row for each server."""
    rows = [(paint(each.name, "name"), each.pinning, _approval(each), sum_up(each) or None) for each in servers]
    notes = [[*_remarks(each)] for each in servers]
    return [Table(("SERVER", "PINNING", "APPROVED", "DIFFERS"), rows, shorten=("SERVER", "DIFFERS"), notes=notes)]


def sum_up(server: PinnedServer) -> str:
    """The differences of a server, counted; "": there are none."""
    counts = Counter(change.change for change in server.changes)
    counts["held back"] = sum(change.held for change in server.changes)
    return ", ".join([*(f"{count} {what}" for what, count in counts.items() if count), *filter(None, [server.problem])])


def _approval(server: PinnedServer) -> str | None:
    day = "" if server.approved_at is None else f"{strftime('%Y-%m-%d', localtime(server.approved_at))}, "
    return f"{day}{server.approved}" or None


def _remarks(server: PinnedServer) -> Iterator[Line]:
    if server.problem:
        yield paint(f"nothing counts as approved: {server.problem}", "bad")
    if server.hidden:
        names = ", ".join(visible(_name(key)) for key in [*server.hidden][:3])
        more = f" and {len(server.hidden) - 3} more" if len(server.hidden) > 3 else ""
        then = "left out or held back" if server.left_out else "not shown to hosts"
        yield f"hidden characters in {names}{more}: {then}"


def differences(server: PinnedServer) -> list[Block]:
    """`hubd pins NAME`: all that a person has to see before an approval."""
    blocks: list[Block] = [*_remarks(server)]
    for change in server.changes:
        if not change.only_form:
            blocks += [*_change(change)]
    in_form = Counter(_kind(change.item) for change in server.changes if change.only_form)
    blocks += [f"{count_of(count, kind)} changed in form only" for kind, count in in_form.items()]
    blocks += [paint("flag: ", "warning") + visible(flag) for flag in server.flags]
    if server.pinning == "off":
        blocks.append(f"{server.name} is not pinned")
    elif not server.changes and not server.problem:
        blocks.append(f"{server.name} is as it was approved ({_approval(server) or 'nothing is listed yet'})")
    return blocks


def _next_step(server: PinnedServer) -> Iterator[Line]:
    if server.pinning != "off" and server.approved != "pins_file" and (server.changes or server.problem):
        yield paint(f"to approve this: hubd approve {server.name}", "dim")


def _kind(key: str) -> str:
    return NOUNS.get(key.partition("/")[0], "text")


def _name(key: str) -> str:
    return key.partition("/")[2] or key


def _change(change: PinChange) -> Iterator[Line]:
    name, kind = visible(_name(change.item)), _kind(change.item)
    is_new, held = change.change == "new", "  held back" if change.held else ""
    if change.change == "gone":
        yield paint(name, "name") + f"  {kind} is gone"
    elif is_new or change.hints or change.parameters:
        yield paint(name, "name") + f"  {'new ' if is_new else ''}{kind}{held}"
    for hint in change.hints:
        yield paint(f"! {hint}", "warning")
    for parameter in change.parameters:
        yield f"  parameter {visible(parameter)}"
    for words in change.words:
        if not is_new:
            yield paint(name, "name") + f"  {visible(words.where)}"
        yield from _exchange(words)


def _exchange(words: WordChange) -> Iterator[Line]:
    """The lines that differ, of what was and of what is."""
    old, new = ([] if text is None else text.split("\n") for text in (words.old, words.new))
    for tag, i, j, k, n in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag == "equal":
            continue
        for at, line in enumerate(old[i:j]):
            yield paint(f"- {_cut(line, new[k + at] if k + at < n else '')}", "bad")
        for at, line in enumerate(new[k:n]):
            yield paint(f"+ {_cut(line, old[i + at] if i + at < j else '')}", "good")


def _cut(line: str, other: str) -> str:
    """A line, and of a long one the part from where it differs from the `other`."""
    start = 0
    if len(line) > MAX_LINE:
        pairs = enumerate(zip(line, other, strict=False))
        start = max(0, next((at for at, (one, two) in pairs if one != two), min(len(line), len(other))) - CONTEXT)
    shown, rest = visible(line[start : start + MAX_LINE]), len(line) - start - MAX_LINE
    return f"{'...' if start else ''}{shown}" + (f" ... and {rest} more characters (see --json)" if rest > 0 else "")


def approve_pins(options: Context, output: Output) -> None:
    """Approve a server as it is shown here, or in the state that is named."""
    [server] = ask_hub(PINS, name=options.id, shows=options.state is None)
    state = server.state if options.state is None else options.state
    if options.state is None and (server.changes or server.problem):
        output.show(*differences(server))
        if output.json or not agreed("Approve this?", default=False):
            raise CommandFailed(
                f"nothing was approved; without a question: hubd approve {options.id} --state {server.state}"
            )
    count = ask_hub(APPROVE_PINS, name=server.name, state=state, item=server.item)
    output.set(server=server.name, item=server.item, items=count)
    what = f"{server.item.partition('/')[2]} of {server.name}" if server.item else server.name
    output.say(f"approved {what}: {count_of(count, 'definition')} that differed")
