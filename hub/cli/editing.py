"""Commands that change the configuration: `add`, `remove`, `enable`, `disable`, `edit`.

They work whether or not a hub runs. A change that would break the configuration is refused before anything is written.
A hub that runs may still refuse what was written, since it has an environment of its own: it is asked.
"""

import argparse
import os
import shlex
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from hub.cli import adding
from hub.cli.base import (
    EX_CONFIG,
    EX_FAILED,
    EX_OK,
    Told,
    UsageError,
    add,
    add_config,
    agreed,
    client,
    now,
)
from hub.cli.config import remark_object
from hub.cli.diffs import of_configuration
from hub.control_client import HubNotRunning

if TYPE_CHECKING:
    from config.edit import Draft
    from config.errors import Remark

_MEMBERS: Final = """\
  name, did  the server, and added, removed, enabled, disabled, edited or unchanged
  dry_run    whether it was only tried
  files      of each that changes: file, backup (null: it is new) and diff, without secrets
  hub        whether one took it up: "running"; "refused"; "elsewhere", it reads other files; "none"
  problems   why it was refused: file, line, key and text of each
  warnings   what works, and probably not as meant"""

EDITORS: Final = ("sensible-editor", "editor", "nano", "vi")
"""Tried when neither $VISUAL nor $EDITOR names one."""
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
    edit = add(commands, "edit", _edit, text, json=_MEMBERS)
    for each in (new, remove, enable, disable, edit):
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


# --- edit -------------------------------------------------------------------------------------------------------------


def _edit(options: argparse.Namespace) -> int:
    import shutil
    import tempfile

    from config.edit import Draft
    from config.errors import EditError

    told: Told = options.told
    editor = _editor()
    draft = Draft(options.config, os.environ)
    was = draft.text()
    folder = Path(tempfile.mkdtemp(prefix="hubd-edit-"))
    copy = folder / draft.main.name
    copy.write_bytes(was.encode())
    code = EX_OK
    try:
        while problems := _edited(editor, copy, draft, told):
            _say_problems(problems, told)
            if not _again(told):
                return told.fail(EX_CONFIG, f"{draft.main} was left as it is; your text is in {copy}")
        if draft.text() == was:
            told.set(did="unchanged", dry_run=False, files=[])
            told.say(f"nothing changed in {draft.main}")
        else:
            for doubt in draft.doubts_of_main():
                told.warn(str(doubt))
            code = _told_hub(_save(draft, "edited", "edited", told), told)
    except EditError as error:
        if copy.exists() and copy.read_bytes() != was.encode():
            return told.fail(EX_FAILED, f"{error}. Your text is in {copy}")
        shutil.rmtree(folder)
        return told.fail(EX_FAILED, str(error))
    shutil.rmtree(folder)
    return code


def _edited(editor: list[str], copy: Path, draft: "Draft", told: Told) -> "Sequence[Remark]":
    """Have a person edit the copy; what is wrong with the draft now.

    Raises:
        EditError: the editor failed, or what it saved is no text.
    """
    import subprocess

    from config.errors import EditError

    try:
        output = sys.stderr.fileno() if told.json else None  # standard output is the object's alone
        code = subprocess.run([*editor, str(copy)], check=False, stdout=output).returncode
    except OSError as error:
        raise EditError(f"cannot start the editor {editor[0]}: {error.strerror}") from None
    if code != 0:
        raise EditError(f"the editor ended with code {code}, and {draft.main} was left as it is")
    try:
        draft.replace(copy.read_bytes().decode())
    except FileNotFoundError:
        raise EditError(f"the editor left no file, and {draft.main} was left as it is") from None
    except UnicodeDecodeError:
        raise EditError(f"what was saved is not UTF-8 text, and {draft.main} was left as it is") from None
    return draft.problems_of_main()


def _editor() -> list[str]:
    import shutil

    for variable in ("VISUAL", "EDITOR"):
        if words := shlex.split(os.environ.get(variable, "")):
            return words
    for name in EDITORS:
        if shutil.which(name):
            return [name]
    raise UsageError("there is no editor here: name one in VISUAL or EDITOR")


def _again(told: Told) -> bool:
    """Whether to go on editing; nobody who could be asked does not."""
    return told.is_attended() and agreed("edit it again?", default=True)


def _say_problems(problems: "Sequence[Remark]", told: Told) -> None:
    told.set(problems=[remark_object(each) for each in problems])
    for problem in problems:
        print(f"hubd: {problem}", file=sys.stderr)


# --- what all of them do ----------------------------------------------------------------------------------------------


def _changed(
    options: argparse.Namespace, change: "Callable[[Draft], tuple[str, str]]", warnings: Sequence[str] = ()
) -> int:
    """Make one change, unless it would break something. `change` says what it did, in one word and in some."""
    from config.edit import Draft
    from config.files import locked
    from config.paths import state_dir

    told: Told = options.told
    told.set(name=options.name, warnings=[])
    with locked(state_dir()):
        draft = Draft(options.config, os.environ)
        did, done = change(draft)
        if problems := draft.problems():
            _say_problems(problems, told)
            return told.fail(EX_CONFIG, "that would be no configuration a hub can use; nothing was changed")
        for warning in (*draft.doubts(options.name), *warnings):
            told.warn(str(warning))
        if options.dry_run:
            _show(draft, did, told)
            return EX_OK
        saved = _save(draft, did, done, told)
    return _told_hub(saved, told)


def _show(draft: "Draft", did: str, told: Told) -> None:
    """What would be done."""
    changes = draft.changes()
    diffs = [of_configuration(each.path, each.before or "", each.after) for each in changes]
    files = [{"file": str(each.path), "backup": None, "diff": diff} for each, diff in zip(changes, diffs, strict=True)]
    told.set(did=did, dry_run=True, files=files)
    told.say("\n".join(diffs) if changes else "nothing would be changed")


def _save(draft: "Draft", did: str, done: str, told: Told) -> list[Path]:
    """Put a draft in place, and say so; the files that were changed."""
    from config.paths import backup_dir

    changes = draft.changes()
    saved = draft.save(now(), backup_dir())
    files = [
        {
            "file": str(each.path),
            "backup": each.backup and str(each.backup),
            "diff": of_configuration(change.path, change.before or "", change.after),
        }
        for each, change in zip(saved, changes, strict=True)
    ]
    told.set(did=did, dry_run=False, files=files)
    for each in saved:
        told.say(f"{done}: {each.path}" + (f" (before: {each.backup})" if each.backup else " (new)"))
    if not saved:
        told.say(f"{done} already; nothing was changed")
    return [each.path for each in saved]


def _told_hub(changed: Sequence[Path], told: Told) -> int:
    """Have a hub that runs read what was changed, and say what it makes of that; the exit code."""
    if not changed:
        return EX_OK
    try:
        with client() as hub:
            config = hub.status().get("config") or {}
            if not _is_watched(changed, config):
                told.set(hub="elsewhere")
                told.say(f"the hub that runs reads other files: {', '.join(config.get('files') or ())}")
                return EX_OK
            problem = hub.reload()["problem"]
    except HubNotRunning:
        told.set(hub="none")
        told.say("no hub is running; the next one reads it")
        return EX_OK
    if problem is None:
        told.set(hub="running")
        told.say("the hub that runs has taken it up; `hubd status` shows it")
        return EX_OK
    told.set(hub="refused")
    own = Path(_watched(config)[0]).with_name("hubd.env")
    text = f"it is saved, but the hub that runs refuses it and goes on as before: {problem}. That hub does not have the"
    return told.fail(EX_CONFIG, f"{text} variables of this shell: write those it needs into {own}")


def _watched(config: dict[str, Any]) -> list[str]:
    """What a hub reads that says this of its configuration, the main file first."""
    return config.get("watched") or config.get("files") or []


def _is_watched(changed: Sequence[Path], config: dict[str, Any]) -> bool:
    """Whether a hub that says this of its configuration reads any of these files."""
    watched = [path for path in _watched(config) if os.path.exists(path)]
    return any(os.path.samefile(place, path) for each in changed for place in (each, each.parent) for path in watched)
