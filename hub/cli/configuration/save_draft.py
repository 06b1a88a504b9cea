"""Saving of a changed configuration, and its report: problems, diffs, and whether the running hub takes it up."""

import os
import sys
from collections.abc import Callable, Collection, Sequence
from os import EX_CONFIG
from pathlib import Path
from typing import Any

from config.diagnostics import ConfigError, Diagnostic
from config.editing.draft_across_files import UNUSABLE, Draft, FileChange
from config.hub_paths import backup_dir
from hub.cli.await_server_starts import ServerOutcome, say_outcomes, watch
from hub.cli.context import Output, client, now
from hub.cli.hosts.change_host_files import configuration_diff
from hub.control.answers import ConfigStatus
from hub.control.client_errors import HubNotRunning
from hub.control.methods import RELOAD, STATUS

Offer = Callable[[Collection[ServerOutcome], Output], bool]


def diagnostic_object(diagnostic: Diagnostic) -> dict[str, Any]:
    """A remark about a place in a file, for programs."""
    place = {"file": str(diagnostic.file), "line": diagnostic.line, "key": list(diagnostic.keys)}
    return {**place, "text": diagnostic.text}


def say_problems(problems: Sequence[Diagnostic], output: Output) -> None:
    """Report the problems of a draft."""
    output.set(problems=[diagnostic_object(each) for each in problems])
    for problem in problems:
        print(f"hubd: {problem}", file=sys.stderr)


def refuse_unusable(draft: Draft, output: Output) -> None:
    """Report the problems of a draft, and raise ConfigError if there are any."""
    if problems := draft.problems():
        say_problems(problems, output)
        raise ConfigError(UNUSABLE)


def show(draft: Draft, did: str, output: Output) -> None:
    """Show the changes of a draft, without making them."""
    files = [_as_object(change, None) for change in draft.changes()]
    output.set(did=did, dry_run=True, files=files)
    output.say("\n".join(each["diff"] for each in files) if files else "nothing would be changed")


def save(draft: Draft, did: str, done: str, output: Output) -> list[Path]:
    """Save a draft and report it; the files that were changed."""
    changes = draft.changes()
    saved = draft.save(now(), backup_dir())
    files = [_as_object(change, saved[change.path]) for change in changes]
    output.set(did=did, dry_run=False, files=files)
    for path, backup in saved.items():
        output.say(f"{done}: {path}" + (f" (before: {backup})" if backup else " (new)"))
    if not saved:
        output.say(f"{done} already; nothing was changed")
    return list(saved)


def _as_object(change: FileChange, backup: Path | None) -> dict[str, Any]:
    diff = configuration_diff(change.path, change.before or "", change.after)
    return {"file": str(change.path), "backup": backup and str(backup), "diff": diff}


def reload_hub(
    changed: Sequence[Path],
    output: Output,
    servers: Collection[str] = (),
    *,
    wait: bool = True,
    offer: Offer | None = None,
) -> None:
    """Have the running hub reload, and report whether it accepts the change. `servers`: those that should run then.
    They are waited for, and reported, unless `wait` is false. `offer`: asks whoever sits at the terminal to sign in at
    once where that is wanted; False: it comes to nothing."""
    if not changed:
        return
    try:
        hub = client()
    except HubNotRunning:
        output.set(hub="none")
        output.say("no hub is running; the next one will read it")
        if servers:
            output.note(f"`hubd start` starts one, and `hubd status` shows then how {' and '.join(servers)} does")
        return
    with hub:
        config = hub.request(STATUS).config
        if not _is_watched(changed, config):
            output.set(hub="elsewhere")
            output.say(f"the running hub reads other files: {', '.join(config.files)}")
            return
        problem = hub.request(RELOAD).problem
        if problem is None:
            output.set(hub="running")
            output.say("applied by the running hub")
            if not (wait and servers):
                return
            found = watch(hub, servers, output)
            if not (offer and offer(found.values(), output)):
                say_outcomes(found.values(), output)
            return
    output.set(hub="refused")
    own = Path((config.watched or config.files)[0]).with_name("hubd.env")
    text = f"saved, but the running hub refuses it and keeps its configuration: {problem}. That hub does not have the"
    output.fail(f"{text} variables of this shell: write those it needs into {own}", EX_CONFIG)


def _is_watched(changed: Sequence[Path], config: ConfigStatus) -> bool:
    watched = [path for path in config.watched or config.files if os.path.exists(path)]
    return any(os.path.samefile(place, path) for each in changed for place in (each, each.parent) for path in watched)
