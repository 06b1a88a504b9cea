"""The files of `hubd import`: showing what would be written, and writing it."""

import shlex
from collections.abc import Mapping, Sequence
from os import EX_OK
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hub.cli.change_report import host_diff, text_diff
from hub.cli.subcommand import EX_FAILED, Output, now

if TYPE_CHECKING:
    from config.hosts.import_choice import Import
    from config.hosts.import_writing import Write
    from config.hosts.leaving import RemovalCommand
    from config.settings import HubConfig


def show_writes(writes: "Sequence[Write]", secrets: Sequence[str], output: Output) -> None:
    """Show what would be written, as diffs without `secrets`."""
    for write in writes:
        diff = _diff(write, secrets)
        output.append("files", _file(write.path, None, diff))
        output.say(diff)


def carry_out_writes(writes: "Sequence[Write]", secrets: Sequence[str], output: Output) -> int:
    """Write files of the hub, and of hosts. A failure of one does not stop the others, and is said. The exit code.

    Raises:
        EditError: nothing can be written.
    """
    done, code = write_each(writes, output)
    for write, backup in done:
        output.append("files", _file(write.path, backup, _diff(write, secrets)))
        output.say(f"wrote {write.path}")
    if backups := [backup for _, backup in done if backup is not None]:
        output.say(f"the old files are in {backups[0].parent}")
    return code


def write_each(writes: "Sequence[Write]", output: Output) -> "tuple[list[tuple[Write, Path | None]], int]":
    """Write each file, and remember what is taken out of it. A failure of one does not stop the others, and is said.
    Those that were written with their backups, and the exit code.

    Raises:
        EditError: nothing can be written.
    """
    from config.errors import EditError
    from config.files import locked
    from config.hosts.import_writing import carry_out
    from config.hosts.originals import Originals
    from config.hub_paths import originals_path, state_dir

    done: list[tuple[Write, Path | None]] = []
    code = EX_OK
    if not writes:
        return done, code
    with locked(state_dir()):
        remembered = Originals(originals_path())
        for write in writes:
            before = remembered.get(write.path)
            if write.originals:  # recorded before the change: what was not taken out is never put back
                remembered.add(write.path, write.originals)
            try:
                done.append((write, carry_out(write, now())))
            except EditError as error:
                if write.originals:
                    remembered.put(write.path, before)
                code = output.fail(EX_FAILED, str(error))
    return done, code


def run_removals(
    calls: "Sequence[RemovalCommand]", environ: Mapping[str, str], output: Output
) -> "tuple[list[RemovalCommand], int]":
    """Have programs of hosts take servers out, and remember these. A failure of one does not stop the others, and is
    said. Those that were run, and the exit code.

    Raises:
        EditError: nothing can be written.
    """
    from config.errors import EditError
    from config.files import locked
    from config.hosts.install import run_program
    from config.hosts.originals import Originals
    from config.hub_paths import originals_path, state_dir

    done: list[RemovalCommand] = []
    code = EX_OK
    if not calls:
        return done, code
    with locked(state_dir()):
        remembered = Originals(originals_path())
        for call in calls:
            if not _is_same(call):
                key = call.original.key
                code = output.fail(
                    EX_FAILED, f'{call.path}: "{key}" was changed meanwhile, and left as it is; run this again'
                )
                continue
            before = remembered.get(call.path)
            remembered.add(call.path, [call.original])
            try:
                run_program(call.command, environ)
            except EditError as error:
                if _is_there(call):
                    remembered.put(call.path, before)
                code = output.fail(EX_FAILED, str(error))
                continue
            output.append("commands", shlex.join(call.command))
            done.append(call)
    return done, code


def remember_hosts(result: "Import") -> None:
    """Keep what each host had itself, with its own choice of tools.

    Raises:
        EditError: it cannot be written.
    """
    from config.files import locked
    from config.hosts.remembered import HadBefore
    from config.hub_paths import had_before_path, state_dir

    with locked(state_dir()):
        HadBefore(had_before_path()).add(result.had)


def offered(config: "HubConfig") -> dict[str, tuple[str, ...]]:
    """The setting `tools` of each server that the hub has."""
    return {name: upstream.tools for name, upstream in config.upstreams.items()}


def _diff(write: "Write", secrets: Sequence[str]) -> str:
    """The diff of a file, without secrets."""
    before = write.before or ""
    if write.place is not None:
        return host_diff(write.place, before.encode(), write.after.encode())
    return text_diff(write.path, before, write.after, secrets)


def _file(path: Path, backup: Path | None, diff: str) -> dict[str, Any]:
    return {"file": str(path), "backup": backup and str(backup), "diff": diff}


def _is_same(call: "RemovalCommand") -> bool:
    """True if the host's file has the server as it was when this was planned."""
    from config.editing.text import serverfile
    from config.editing.text.change import EditRefused
    from config.errors import EditError
    from config.hosts.install import text_at

    try:
        return bool(
            serverfile.entries(call.original.shape, text_at(call.path)).get(call.original.key) == call.original.entry
        )
    except (EditError, EditRefused):
        return False


def _is_there(call: "RemovalCommand") -> bool:
    """True if the host's file still has the server, although its program was to take it out; False if nobody knows."""
    from config.editing.text.change import EditRefused
    from config.errors import EditError
    from config.hosts.install import text_at

    try:
        return not call.original.is_out(text_at(call.path))
    except (EditError, EditRefused):
        return False
