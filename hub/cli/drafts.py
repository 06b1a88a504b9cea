"""Drafts: a changed configuration that is shown, or saved and taken up by the running hub.

The hub may refuse what was saved, since it has an environment of its own: it is asked.
"""

import argparse
import os
import sys
from collections.abc import Collection, Sequence
from os import EX_CONFIG, EX_OK
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hub.cli.change_report import configuration_diff
from hub.cli.config import diagnostic_object
from hub.cli.subcommand import Command, Output, client, now
from hub.control.errors import HubNotRunning

if TYPE_CHECKING:
    from config.editing.draft import Draft, FileChange
    from config.errors import Diagnostic
    from hub.control.answers import ConfigStatus


def on_main_file(command: Command) -> Command:
    """The same command, for the main file of the running hub where no option names one, which is noted: the usual
    file may be one that nobody reads. A hub that hangs is not waited for, and nothing is changed then (HubHangs)."""

    def run(options: argparse.Namespace) -> int:
        if options.config is None and (used := _main_file_of_hub()) is not None:
            options.config = used
            options.output.note(f"this is about {used}, which the running hub uses; --config names another file")
        return command(options)

    return run


def _main_file_of_hub() -> Path | None:
    """The main file of the running hub; None: none runs, or it uses the usual one."""
    from config.hub_paths import config_file
    from hub.control.methods import STATUS

    try:
        with client() as hub:
            watched = hub.request(STATUS).config.watched
    except HubNotRunning:
        return None
    if not watched or os.path.realpath(watched[0]) == os.path.realpath(config_file()):
        return None
    return Path(watched[0])


def say_problems(problems: "Sequence[Diagnostic]", output: Output) -> None:
    """Report the problems of a draft."""
    output.set(problems=[diagnostic_object(each) for each in problems])
    for problem in problems:
        print(f"hubd: {problem}", file=sys.stderr)


def show(draft: "Draft", did: str, output: Output) -> None:
    """Show the changes of a draft, without making them."""
    files = [_as_object(change, None) for change in draft.changes()]
    output.set(did=did, dry_run=True, files=files)
    output.say("\n".join(each["diff"] for each in files) if files else "nothing would be changed")


def save(draft: "Draft", did: str, done: str, output: Output) -> list[Path]:
    """Save a draft and report it; the files that were changed."""
    from config.hub_paths import backup_dir

    changes = draft.changes()
    saved = draft.save(now(), backup_dir())
    files = [_as_object(change, each.backup) for each, change in zip(saved, changes, strict=True)]
    output.set(did=did, dry_run=False, files=files)
    for each in saved:
        output.say(f"{done}: {each.path}" + (f" (before: in {each.backup.parent})" if each.backup else " (new)"))
    if not saved:
        output.say(f"{done} already; nothing was changed")
    return [each.path for each in saved]


def _as_object(change: "FileChange", backup: Path | None) -> dict[str, Any]:
    """The change of one file, for programs."""
    diff = configuration_diff(change.path, change.before or "", change.after)
    return {"file": str(change.path), "backup": backup and str(backup), "diff": diff}


def reload_hub(
    changed: Sequence[Path],
    output: Output,
    servers: Collection[str] = (),
    *,
    wait: bool = True,
    offers: bool = False,
) -> int:
    """Have the running hub reload, and report whether it accepts the change; the exit code.

    `servers`: those that should run then. They are waited for, and reported, unless `wait` is false. `offers`: whoever
    sits at the terminal may sign in at once where that is wanted.
    """
    if not changed:
        return EX_OK
    from hub.cli.server_watch import say_outcomes, watch
    from hub.cli.sign_in.offer import offered
    from hub.control.methods import RELOAD, STATUS

    try:
        hub = client()
    except HubNotRunning:
        output.set(hub="none")
        output.say("no hub is running; the next one will read it")
        if servers:
            output.note(f"`hubd start` starts one, and `hubd status` shows then how {' and '.join(servers)} does")
        return EX_OK
    with hub:
        config = hub.request(STATUS).config
        if not _is_watched(changed, config):
            output.set(hub="elsewhere")
            output.say(f"the running hub reads other files: {', '.join(config.files)}")
            return EX_OK
        reloaded = hub.request(RELOAD)
        problem = reloaded.problem
        if problem is None:
            output.set(hub="running")
            output.say("applied by the running hub")
            if not (wait and servers):
                return EX_OK
            found = watch(hub, servers, output)
            signed_in = offered(found.values(), output) if offers else None
            return say_outcomes(found.values(), output) if signed_in is None else signed_in
    output.set(hub="refused")
    own = Path(_watched(config)[0]).with_name("hubd.env")
    text = f"saved, but the running hub refuses it and keeps its configuration: {problem}. That hub does not have the"
    return output.fail(EX_CONFIG, f"{text} variables of this shell: write those it needs into {own}")


def _watched(config: "ConfigStatus") -> Sequence[str]:
    """The paths that a hub of this configuration reads, the main file first."""
    return config.watched or config.files


def _is_watched(changed: Sequence[Path], config: "ConfigStatus") -> bool:
    """True if a hub of this configuration reads any of the changed files."""
    watched = [path for path in _watched(config) if os.path.exists(path)]
    return any(os.path.samefile(place, path) for each in changed for place in (each, each.parent) for path in watched)
