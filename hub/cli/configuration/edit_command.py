"""`hubd edit`: the main file in the user's editor. It is saved only once it is right."""

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Literal, TextIO

from config.diagnostics import ConfigError, EditError, Problem
from config.editing.draft_across_files import Draft
from config.loading.document import parse
from config.safe_reading import MAX_OWN_BYTES, read_plain
from hub.cli.configuration.make_change import MEMBERS
from hub.cli.configuration.save_draft import reload_hub, save, say_problems
from hub.cli.context import EX_INTERRUPTED, Context, Output, UsageError, agreed
from hub.cli.parser import add, add_config, add_no_wait, on_main_file

EDITORS: Final = ("sensible-editor", "editor", "nano", "vi")
"""Editors to try when neither $VISUAL nor $EDITOR is set."""


def add_commands(commands: Any) -> None:
    """`edit`."""
    parser = add(commands, "edit", on_main_file(_edit), json=MEMBERS)
    add_no_wait(parser)
    add_config(parser)


def _edit(options: Context, output: Output) -> None:
    editor = editor_command(output, "or change hubd.toml by other means, and run `hubd validate`")
    draft = Draft(options.config, os.environ)
    was = draft.text()
    with copy_to_edit(was, draft.main.name, "edit", output) as copy:
        while True:
            draft.replace(edit_text(editor, copy, draft.main, output))
            if not (problems := draft.problems_of_main()):
                break
            say_problems(problems, output)
            kept = f"{draft.main} was left as it is; your text is in {copy}"
            if not edit_again(output, kept):
                mistakes = f"{draft.main} was left as it is, and has these mistakes"
                raise ConfigError(mistakes if draft.text() == was else kept)
        if draft.text() == was:
            output.set(did="unchanged", dry_run=False, files=[])
            return output.say(f"nothing changed in {draft.main}")
        for warning in draft.warnings_of_main():
            output.warn(str(warning))
        changed = _servers_that_differ(draft.main, was, draft.text())
        saved = save(draft, "edited", "edited", output)
        reload_hub(saved, output, changed, wait=not options.no_wait)


@contextmanager
def copy_to_edit(text: str, name: str, by: Literal["edit", "pick"], output: Output) -> Iterator[Path]:
    """A copy of a text, of this name, in a folder of its own. Both are removed, unless the block fails and the user has
    changed the copy: an EditError names it. A list that was picked also stays where the command has failed."""
    folder = Path(tempfile.mkdtemp(prefix=f"hubd-{by}-"))
    copy = folder / name
    copy.write_bytes(text.encode())
    try:
        yield copy
    except Exception as error:
        if not copy.exists() or copy.read_bytes() == text.encode():
            shutil.rmtree(folder)
        elif isinstance(error, EditError):
            raise EditError(f"{error}. Your {'text' if by == 'edit' else 'list'} is in {copy}") from None
        raise
    if by == "pick" and output.code:
        print(f"hubd: your list is in {copy}", file=sys.stderr)
    else:
        shutil.rmtree(folder)


def _servers_that_differ(path: Path, before: str, after: str) -> list[str]:
    was, now = _tables_of_servers(path, before), _tables_of_servers(path, after)
    return [name for name, table in now.items() if table != was.get(name) and not table.get("disabled")]


def _tables_of_servers(path: Path, text: str) -> dict[str, Any]:
    try:
        found: dict[str, Any] = parse(text, path).tree.get("upstreams", {})
    except Problem:  # as it was before
        return {}
    return found


def edit_text(editor: list[str], copy: Path, main: Path, output: Output) -> str:
    """Have the user edit a file, a copy of something for `main`; what was saved. Raises EditError: the editor failed,
    or what it saved is no text."""
    try:
        child_output = sys.stderr.fileno() if output.json else None  # standard output is the object's alone
        code = subprocess.run([*editor, str(copy)], check=False, stdout=child_output).returncode
    except OSError as error:
        raise EditError(f"cannot start the editor {editor[0]}: {error.strerror}") from None
    if code != 0:
        raise EditError(f"the editor ended with code {code}, and {main} was left as it is")
    try:
        return read_plain(copy, MAX_OWN_BYTES + 1)[0].decode()
    except FileNotFoundError:
        raise EditError(f"the editor left no file, and {main} was left as it is") from None
    except UnicodeDecodeError:
        raise EditError(f"what was saved is not UTF-8 text, and {main} was left as it is") from None


def editor_command(output: Output, instead: str) -> list[str]:
    """The user's editor, and words of its command line. `instead`: what can be done without one, as a clause. Raises
    UsageError: there is none, or none that anybody could use here."""
    for variable in ("VISUAL", "EDITOR"):
        try:
            if words := shlex.split(os.environ.get(variable, "")):
                return words
        except ValueError as error:
            raise UsageError(f"{variable} is no command line: {error}") from None
    if not _is_terminal(sys.stdin) or not _is_terminal(sys.stderr if output.json else sys.stdout):
        text = "there is no terminal here for an editor, and neither VISUAL nor EDITOR names one that needs none"
        raise UsageError(f"{text}: run this in a terminal, set VISUAL, {instead}")
    for name in EDITORS:
        if shutil.which(name):
            return [name]
    raise UsageError(f"there is no editor here: name one in VISUAL or EDITOR, {instead}")


def _is_terminal(stream: TextIO | None) -> bool:
    return stream is not None and stream.isatty()


def edit_again(output: Output, kept: str) -> bool:
    """Ask whether to go on editing; without a user to ask: no. `kept`: where the text is, said on Ctrl-C. Raises
    KeyboardInterrupt: Ctrl-C."""
    try:
        return output.is_attended() and agreed("edit it again?", default=True)
    except KeyboardInterrupt:
        output.fail(kept, EX_INTERRUPTED)
        raise
