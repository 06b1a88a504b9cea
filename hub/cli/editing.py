"""Commands that change the configuration: `add`, `remove`, `enable`, `disable`, `edit`.

They work whether or not a hub runs. A change that would break the configuration is refused before anything is written.
"""

import argparse
import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from hub.cli import adding
from hub.cli.drafts import save, say_problems, show, tell_hub
from hub.cli.editor import edit
from hub.cli.subcommand import EX_CONFIG, EX_OK, Told, add, add_config

if TYPE_CHECKING:
    from config.editing.draft import Draft

_MEMBERS: Final = """\
  name, did  the server, and added, removed, enabled, disabled, edited or unchanged
  dry_run    whether it was only tried
  files      of each that changes: file, backup (null: it is new) and diff, without secrets
  hub        whether one took it up: "running"; "refused"; "elsewhere", it reads other files; "none"
  problems   why it was refused: file, line, key and text of each
  warnings   what works, and probably not as meant"""

_EPILOG: Final = """examples:
  hubd add files -- npx -y @modelcontextprotocol/server-filesystem /home/me/notes
  hubd add github --url https://example.com/mcp --header 'Authorization=Bearer ${GITHUB_TOKEN}'
  hubd add db --env 'DATABASE_URL=${file:~/.secrets/db-url}' --set timeouts.call=600 -- db-mcp
"""


def add_commands(commands: Any) -> None:
    """`add`, `remove`, `enable`, `disable`, `edit`."""
    new = add(commands, "add", _add, "add a server to the configuration", json=_MEMBERS)
    new.usage = "hubd add NAME [options] -- COMMAND [ARGUMENT ...]\n       hubd add NAME [options] --url URL"
    new.hint = "the command to run goes behind `--`"
    new.epilog = f"{_EPILOG}\n{new.epilog}"
    new.add_argument("name", metavar="NAME", help="lower-case words joined by single dashes")
    new.add_argument("--url", metavar="URL", help="a server to open, in place of a command to run")
    new.add_argument("--env", metavar="KEY=VALUE", action="append", default=[], help="a variable for the command")
    new.add_argument("--header", metavar="KEY=VALUE", action="append", default=[], help="a header for the URL")
    new.add_argument("--cwd", metavar="DIRECTORY", help="where the command runs")
    new.add_argument("--disabled", action="store_true", help="known, not started")
    new.add_argument(
        "--set",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="any other setting, as in --set timeouts.call=600",
    )
    remove = add(commands, "remove", _remove, "remove a server from the configuration", json=_MEMBERS)
    enable = add(commands, "enable", _enable, "turn a server of the configuration on", json=_MEMBERS)
    disable = add(commands, "disable", _disable, "turn a server off and keep its settings", json=_MEMBERS)
    for each in (remove, enable, disable):
        each.add_argument("name", metavar="NAME", help="the server's name as `hubd status` shows it")
    for each in (new, remove, enable, disable):
        each.add_argument("--dry-run", action="store_true", help="show what would be changed, and change nothing")
    text = "edit hubd.toml with $VISUAL or $EDITOR; saved when it is right"
    for each in (new, remove, enable, disable, add(commands, "edit", edit, text, json=_MEMBERS)):
        add_config(each)


def apart(arguments: Sequence[str]) -> tuple[Sequence[str], Sequence[str]]:
    """The command line, and what follows `--` of `hubd add`: a command line of its own, whose options are not ours."""
    if arguments[:1] != ["add"] or "--" not in arguments:
        return arguments, ()
    at = list(arguments).index("--")
    return arguments[:at], arguments[at + 1 :]


# --- add --------------------------------------------------------------------------------------------------------------


def _add(options: argparse.Namespace) -> int:
    values = adding.settings_of(options)

    def change(draft: "Draft") -> tuple[str, str]:
        draft.add(options.name, values)
        return "added", f"added {options.name}"

    return _changed(options, change, adding.warnings(options.name, values))


# --- remove, enable, disable ------------------------------------------------------------------------------------------


def _remove(options: argparse.Namespace) -> int:
    def change(draft: "Draft") -> tuple[str, str]:
        beneath = draft.remove(options.name)
        rest = f"; what {beneath.source.path} says of it holds now" if beneath is not None else ""
        return "removed", f"removed {options.name}{rest}"

    return _changed(options, change)


def _enable(options: argparse.Namespace) -> int:
    return _switch(options, disabled=False)


def _disable(options: argparse.Namespace) -> int:
    return _switch(options, disabled=True)


def _switch(options: argparse.Namespace, *, disabled: bool) -> int:
    word = "disabled" if disabled else "enabled"

    def change(draft: "Draft") -> tuple[str, str]:
        if draft.switch(options.name, disabled=disabled):
            return word, f"{word} {options.name}"
        return "unchanged", f"{options.name} is {word}"

    return _changed(options, change)


# --- what all of them do ----------------------------------------------------------------------------------------------


def _changed(
    options: argparse.Namespace, change: "Callable[[Draft], tuple[str, str]]", warnings: Sequence[str] = ()
) -> int:
    """Make one change, unless it would break something. `change` says what it did, in one word and in some."""
    from config.editing.draft import Draft
    from config.files import locked
    from config.paths import state_dir

    told: Told = options.told
    told.set(name=options.name, warnings=[])
    with locked(state_dir()):
        draft = Draft(options.config, os.environ)
        did, done = change(draft)
        if problems := draft.problems():
            say_problems(problems, told)
            return told.fail(EX_CONFIG, "that would be no configuration a hub can use; nothing was changed")
        for warning in (*draft.doubts(options.name), *warnings):
            told.warn(str(warning))
        if options.dry_run:
            show(draft, did, told)
            return EX_OK
        saved = save(draft, did, done, told)
    return tell_hub(saved, told)
