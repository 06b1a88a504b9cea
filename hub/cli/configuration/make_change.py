"""The way of each change of the configuration, and what `hubd add` does with it.

It works whether or not a hub runs. A change that would break the configuration is refused before anything is written.
The running hub may refuse what was saved, since it has an environment of its own: it is asked.
"""

import os
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from config.atomic_writes import lock_edits
from config.editing.draft_across_files import Draft
from config.hosts.secret_literals import NewSecrets
from config.hub_paths import state_dir
from config.secrets.detection import secrets_in
from hub.cli.configuration.save_draft import refuse_unusable, reload_hub, save, show
from hub.cli.context import EX_FAILED, EX_INTERRUPTED, Context
from hub.cli.profiles.tool_globs import say_left_out
from hub.cli.secret_commands import say_kept
from hub.cli.sign_in.commands import offer_sign_in

MEMBERS: Final = """\
  name, did  the server, and added, removed, enabled, disabled, edited, updated or unchanged
  dry_run    whether it was only tried
  files      of each that changes: file, backup (null: it is new) and diff, without secrets
  hub        whether one took it up: "running"; "refused"; "elsewhere", it reads other files; "none"
  servers    of each that was waited for: name, state (as in `hubd status --json`), installing, tools, tokens, why,
             sign_in (the command by which a person signs in, where that is needed)
  problems   why it was refused: file, line, key and text of each
  warnings   what works, and probably not as meant"""


def make_change(
    options: Context,
    change: Callable[[Draft], tuple[str, str]],
    warnings: Sequence[str] = (),
    *,
    new: NewSecrets | None = None,
    waits: bool = False,
    offers: bool = False,
) -> None:
    """Make one change, unless it would break the configuration. `change` says what it did by a word and a sentence.
    `new`: secrets that are kept first. `waits`: the server should run then, so it is waited for; `offers`: if it wants
    a sign-in, a person is asked for it."""
    output = options.output
    if new is not None and new.values and not options.dry_run:
        trial = Draft(options.config, os.environ)
        change(trial)
        if not trial.problems():
            say_kept(new.keep(), output)
    output.set(name=options.name, warnings=output.member("warnings", []))
    with lock_edits(state_dir()):
        draft = Draft(options.config, os.environ)
        did, done = change(draft)
        refuse_unusable(draft, output)
        for warning in (*draft.warnings(options.name), *warnings):
            output.warn(str(warning))
        if options.dry_run:
            return show(draft, did, output)
        saved = save(draft, did, done, output)
    wait, servers = not getattr(options, "no_wait", False), [options.name] if waits else ()
    reload_hub(saved, output, servers, wait=wait, offer=offer_sign_in if offers else None)


def add_server(options: Context, values: dict[str, Any], new: NewSecrets | None) -> None:
    """Add a server of the name `options.name`, and say which profiles leave it out."""
    name, output = options.name, options.output

    def change(draft: Draft) -> tuple[str, str]:
        draft.add(name, values)
        return "added", f"added {name}"

    waits = values.get("disabled") is not True
    try:
        make_change(options, change, _doubts_of(name, values), new=new, waits=waits, offers=True)
    except KeyboardInterrupt:
        output.exit_with(EX_INTERRUPTED)
    if output.member("did") == "added" and not options.dry_run:
        say_left_out(options, name, values)
        if output.code in (EX_FAILED, EX_INTERRUPTED):
            output.note(f"{name} stays in the configuration; `hubd remove {name}` takes it out again")


def _doubts_of(name: str, values: dict[str, Any]) -> list[str]:
    """Doubts about a new server, beyond the warnings of the configuration itself. Shows no values of settings."""
    found = [_of_secret(name, setting, key, value) for setting, key, value in _secrets(values)]
    command = values.get("command")
    if isinstance(command, str) and "${" not in command and "/" not in command and shutil.which(command) is None:
        found.append(f"there is no command {command} on the PATH of this shell")
    return found


def _secrets(values: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Values that look like secrets, each with its setting and the name in it, or "". Types are not checked yet."""
    for setting in ("env", "headers", "url", "args"):
        value = values.get(setting)
        if isinstance(value, dict):
            for key, each in value.items():
                yield from ((setting, key, secret) for secret in secrets_in(each, key))
        elif next(secrets_in(value), None) is not None:
            yield setting, "", ""


def _of_secret(name: str, setting: str, key: str, value: str) -> str:
    if not key:
        return f"{setting} seems to hold a secret; better pass --secrets store, or write ${{secret:NAME}} in its place"
    variable = re.sub(r"\W+", "_", key if setting == "env" else f"{name}_token").upper()
    scheme = "Bearer " if value.startswith("Bearer ") else ""
    return (
        f"{setting}.{key} looks like a secret and now stands in the file as it is; better pass --secrets store, or "
        f"write '{scheme}${{secret:{variable}}}' after `hubd secret set {variable}`, or '{scheme}${{{variable}}}' (a "
        "variable of the hub's environment)"
    )
