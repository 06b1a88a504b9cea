"""Commands that change the configuration: `remove`, `enable`, `disable`, `edit`; and how each of them is carried out.

They work whether or not a hub runs. A change that would break the configuration is refused before anything is written.
"""

import argparse
import os
from collections.abc import Callable, Sequence
from functools import partial
from os import EX_CONFIG, EX_OK
from typing import TYPE_CHECKING, Any, Final

from hub.cli.drafts import on_main_file, reload_hub, save, say_problems, show
from hub.cli.editor import edit
from hub.cli.subcommand import Output, add, add_config, add_no_wait

if TYPE_CHECKING:
    from config.editing.draft import Draft

MEMBERS: Final = """\
  name, did  the server, and added, removed, enabled, disabled, edited, updated or unchanged
  dry_run    whether it was only tried
  files      of each that changes: file, backup (null: it is new) and diff, without secrets
  hub        whether one took it up: "running"; "refused"; "elsewhere", it reads other files; "none"
  servers    of each that was waited for: name, state (as in `hubd status --json`), installing, tools, tokens, why,
             sign_in (the command by which a person signs in, where that is needed)
  problems   why it was refused: file, line, key and text of each
  warnings   what works, and probably not as meant"""


def add_commands(commands: Any) -> None:
    """`remove`, `enable`, `disable`, `edit`."""
    remove = add(commands, "remove", on_main_file(_remove), json=MEMBERS)
    on, off = (on_main_file(partial(_switch, disabled=disabled)) for disabled in (False, True))
    enable = add(commands, "enable", on, json=MEMBERS)
    disable = add(commands, "disable", off, json=MEMBERS)
    for each in (remove, enable, disable):
        each.add_argument("name", metavar="NAME", help="the server's name as `hubd status` shows it")
    for each in (remove, enable, disable):
        each.add_argument("--dry-run", action="store_true", help="show what would be changed, and change nothing")
    edits = add(commands, "edit", on_main_file(edit), json=MEMBERS)
    for each in (enable, edits):
        add_no_wait(each)
    for each in (remove, enable, disable, edits):
        add_config(each)


# --- remove, enable, disable ------------------------------------------------------------------------------------------


def _remove(options: argparse.Namespace) -> int:
    from hub.cli.lost_servers import hosts_that_lost, say_lost
    from hub.cli.secret_commands import say_unused, secrets_of

    lost = hosts_that_lost(options.name, options.config)

    def change(draft: "Draft") -> tuple[str, str]:
        beneath = draft.remove(options.name)
        if beneath is not None:
            lost.clear()
        rest = f"; what {beneath.source.path} says of it holds now" if beneath is not None else ""
        return "removed", f"removed {options.name}{rest}"

    kept = secrets_of(options.name, options.config)
    code = changed(options, change)
    if code == EX_OK and not options.dry_run:
        say_unused(kept, options.config, options.output)
    say_lost(options.name, lost if code == EX_OK else (), options.output)
    return code


def _switch(options: argparse.Namespace, *, disabled: bool) -> int:
    word = "disabled" if disabled else "enabled"

    def change(draft: "Draft") -> tuple[str, str]:
        if draft.switch(options.name, disabled=disabled):
            return word, f"{word} {options.name}"
        return "unchanged", f"{options.name} is {word}"

    return changed(options, change, waits=not disabled)


# --- what all of them do, and `add` -----------------------------------------------------------------------------------


def changed(
    options: argparse.Namespace,
    change: "Callable[[Draft], tuple[str, str]]",
    warnings: Sequence[str] = (),
    *,
    waits: bool = False,
    offers: bool = False,
) -> int:
    """Make one change, unless it would break the configuration. `change` says what it did by a word and a sentence.

    `waits`: the server should run then, so it is waited for; `offers`: if it wants a sign-in, a person is asked for it.
    """
    from config.editing.draft import Draft
    from config.files import locked
    from config.hub_paths import state_dir

    output: Output = options.output
    output.set(name=options.name, warnings=output.listed("warnings"))
    with locked(state_dir()):
        draft = Draft(options.config, os.environ)
        did, done = change(draft)
        if problems := draft.problems():
            say_problems(problems, output)
            return output.fail(EX_CONFIG, "that would be no configuration a hub can use; nothing was changed")
        for warning in (*draft.warnings(options.name), *warnings):
            output.warn(str(warning))
        if options.dry_run:
            show(draft, did, output)
            return EX_OK
        saved = save(draft, did, done, output)
    wait = not getattr(options, "no_wait", False)
    return reload_hub(saved, output, [options.name] if waits else (), wait=wait, offers=offers)
