"""Commands that change the configuration: `add`, `remove`, `enable`, `disable`, `edit`.

They work whether or not a hub runs, and tell it nothing: it watches its files. A change that would break the
configuration is refused before anything is written.
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
    UsageError,
    add,
    add_config,
    agreed,
    client,
    failed,
    is_attended,
    now,
    warn,
)
from hub.control_client import ControlFailed, HubNotRunning

if TYPE_CHECKING:
    from config.edit import Draft
    from config.errors import Remark

EDITORS: Final = ("sensible-editor", "editor", "nano", "vi")
"""Tried when neither $VISUAL nor $EDITOR names one."""
_EPILOG: Final = """examples:
  hubd add files -- npx -y @modelcontextprotocol/server-filesystem /home/me/notes
  hubd add github --url https://example.com/mcp --header 'Authorization=Bearer ${GITHUB_TOKEN}'
  hubd add db --env 'DATABASE_URL=${file:~/.secrets/db-url}' --set timeouts.call=600 -- db-mcp
"""


def add_commands(commands: Any) -> None:
    """`add`, `remove`, `enable`, `disable`, `edit`."""
    new = add(commands, "add", _add, "add a server to the configuration")
    new.usage = "hubd add NAME [options] -- COMMAND [ARGUMENT ...]\n       hubd add NAME [options] --url URL"
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
    remove = add(commands, "remove", _remove, "remove a server from the configuration")
    enable = add(commands, "enable", _enable, "turn a server of the configuration on")
    disable = add(commands, "disable", _disable, "turn a server off and keep its settings")
    for each in (remove, enable, disable):
        each.add_argument("name", metavar="NAME", help="the server's name as `hubd status` shows it")
    edit = add(commands, "edit", _edit, "edit hubd.toml with $VISUAL or $EDITOR; saved when it is right")
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

    def change(draft: "Draft") -> str:
        draft.add(options.name, values)
        return f"added {options.name}"

    return _changed(options, change, adding.warnings(options.name, values))


# --- remove, enable, disable ------------------------------------------------------------------------------------------


def _remove(options: argparse.Namespace) -> int:
    def change(draft: "Draft") -> str:
        beneath = draft.remove(options.name)
        rest = f"; what {beneath.source.path} says of it holds now" if beneath is not None else ""
        return f"removed {options.name}{rest}"

    return _changed(options, change)


def _enable(options: argparse.Namespace) -> int:
    return _switch(options, disabled=False)


def _disable(options: argparse.Namespace) -> int:
    return _switch(options, disabled=True)


def _switch(options: argparse.Namespace, *, disabled: bool) -> int:
    word = "disabled" if disabled else "enabled"

    def change(draft: "Draft") -> str:
        return (
            f"{word} {options.name}" if draft.switch(options.name, disabled=disabled) else f"{options.name} is {word}"
        )

    return _changed(options, change)


# --- edit -------------------------------------------------------------------------------------------------------------


def _edit(options: argparse.Namespace) -> int:
    import shutil
    import tempfile

    from config.edit import Draft
    from config.errors import EditError

    editor = _editor()
    draft = Draft(options.config, os.environ)
    was = draft.text()
    folder = Path(tempfile.mkdtemp(prefix="hubd-edit-"))
    copy = folder / draft.main.name
    copy.write_bytes(was.encode())
    try:
        while problems := _edited(editor, copy, draft):
            _show(problems)
            if not _again():
                return failed(EX_CONFIG, f"{draft.main} was left as it is; your text is in {copy}")
        if draft.text() == was:
            print(f"nothing changed in {draft.main}")
        else:
            for doubt in draft.doubts_of_main():
                warn(str(doubt))
            _save(draft, "edited")
    except EditError as error:
        if copy.exists() and copy.read_bytes() != was.encode():
            return failed(EX_FAILED, f"{error}. Your text is in {copy}")
        shutil.rmtree(folder)
        return failed(EX_FAILED, str(error))
    shutil.rmtree(folder)
    return EX_OK


def _edited(editor: list[str], copy: Path, draft: "Draft") -> "Sequence[Remark]":
    """Have a person edit the copy; what is wrong with the draft now.

    Raises:
        EditError: the editor failed, or what it saved is no text.
    """
    import subprocess

    from config.errors import EditError

    try:
        code = subprocess.run([*editor, str(copy)], check=False).returncode
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


def _again() -> bool:
    """Whether to go on editing; nobody who could be asked does not."""
    return is_attended() and agreed("edit it again?", default=True)


def _show(problems: "Sequence[Remark]") -> None:
    for problem in problems:
        print(f"hubd: {problem}", file=sys.stderr)


# --- what all of them do ----------------------------------------------------------------------------------------------


def _changed(options: argparse.Namespace, change: "Callable[[Draft], str]", warnings: Sequence[str] = ()) -> int:
    """Make one change, unless it would break something."""
    from config.edit import Draft
    from config.files import locked
    from config.paths import state_dir

    with locked(state_dir()):
        draft = Draft(options.config, os.environ)
        done = change(draft)
        if problems := draft.problems():
            _show(problems)
            return failed(EX_CONFIG, "that would be no configuration a hub can use; nothing was changed")
        for warning in (*draft.doubts(options.name), *warnings):
            warn(str(warning))
        _save(draft, done)
    return EX_OK


def _save(draft: "Draft", done: str) -> None:
    """Put a draft in place, and say what that means."""
    from config.paths import backup_dir

    saved = draft.save(now(), backup_dir())
    for each in saved:
        print(f"{done}: {each.path}" + (f" (before: {each.backup})" if each.backup else " (new)"))
    print(_taken_up([each.path for each in saved]) if saved else f"{done} already; nothing was changed")


def _taken_up(changed: Sequence[Path]) -> str:
    """What a hub that runs makes of it."""
    try:
        with client() as hub:
            config = hub.status().get("config", {})
    except (HubNotRunning, ControlFailed):
        return "no hub is running; the next one reads it"
    read = config.get("files") or []
    if read and not any(os.path.samefile(one, other) for one in changed for other in read if os.path.exists(other)):
        return f"the hub that runs reads other files: {', '.join(read)}"
    return "the hub that runs takes it up by itself; `hubd status` shows it"
