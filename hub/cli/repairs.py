"""`hubd doctor --fix`: does what has one safe answer, and says what it did."""

import argparse
import os
import subprocess
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from hub.cli.checks.evidence import Finding, InstallHub, KeepVariables, RecordShell, Restrict, WriteCommand
from hub.cli.drafts import reload_hub, save
from hub.cli.shell_variables import keep_of_hub
from hub.cli.subcommand import EX_FAILED, Output, UsageError, own_command

if TYPE_CHECKING:
    from pathlib import Path

COMMAND_S: Final = 120


def repair(found: Sequence[Finding], options: argparse.Namespace) -> bool:
    """Do the repairs of these findings; whether there were any. A repair that fails is said, and the next is done.

    Raises:
        ConfigError: the configuration that is to be changed cannot be read.
    """
    output = Output(json=options.json)  # never ended: programs get the findings alone
    repairs = [finding.repair for finding in found if finding.repair is not None]
    _write_commands([each for each in repairs if isinstance(each, WriteCommand)], options, output)
    for each in dict.fromkeys(repairs):
        if isinstance(each, Restrict):
            _restrict(each, output)
        elif isinstance(each, InstallHub):
            _run(["install", "--yes", *(["--http"] if each.by_url else []), each.host], output)
        elif isinstance(each, KeepVariables):
            keep_of_hub(options.config, output)
        elif isinstance(each, RecordShell):
            _run(["env", "capture", *(["--config", str(options.config)] if options.config else [])], output)
    return bool(repairs)


def _write_commands(wanted: Sequence[WriteCommand], options: argparse.Namespace, output: Output) -> None:
    """Write the whole paths of commands, and wait for their servers."""
    from config.errors import EditError
    from config.files import locked
    from config.hub_paths import state_dir

    changed: dict[Path, None] = {}
    written = []
    for name, command in [(name, each.command) for each in wanted for name in each.servers]:
        try:
            with locked(state_dir()):
                changed |= dict.fromkeys(_write_command(name, command, options, output))
        except EditError as error:
            output.fail(EX_FAILED, f"not fixed: {error}")
        else:
            written.append(name)
    reload_hub(list(changed), output, written)


def _write_command(name: str, command: str, options: argparse.Namespace, output: Output) -> "list[Path]":
    """Write the whole path of one command; the files that changed.

    Raises:
        EditError: it cannot be written.
    """
    from config.editing.draft import Draft
    from config.errors import EditError

    draft = Draft(options.config, os.environ)
    draft.assign(name, "command", command)
    if problems := draft.problems():
        raise EditError(str(problems[0]))
    return save(draft, "edited", f"fixed: {name} is started by {command}", output)


def _restrict(wanted: Restrict, output: Output) -> None:
    try:
        os.chmod(wanted.path, wanted.mode)
    except OSError as error:
        output.fail(EX_FAILED, f"not fixed: {wanted.path}: {error.strerror}")
    else:
        output.say(f"fixed: only you may use {wanted.path} (mode {wanted.mode:03o})")


def _run(words: Sequence[str], output: Output) -> None:
    """Run one of hubd's own commands, and say what it said."""
    shown = f"`hubd {' '.join(words)}`"
    try:
        argv = [own_command(), *words]
        done = subprocess.run(
            argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=COMMAND_S, check=False
        )
    except (UsageError, OSError, subprocess.TimeoutExpired) as error:
        output.fail(EX_FAILED, f"not fixed: {shown}: {error}")
        return
    if done.returncode:
        output.fail(EX_FAILED, f"not fixed: {shown}: {done.stderr.strip()}")
    else:
        output.say(f"fixed by {shown}: {done.stdout.strip() or done.stderr.strip()}")
