"""`hubd env`: the environment that servers get. `hubd env capture`: that of this shell, recorded in hubd.env."""

import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct, structs

from config.atomic_writes import lock_edits, read_file, replace_file
from config.diagnostics import EditError
from config.environment.hubd_env import NotReadable, in_block, outside, with_block
from config.environment.variables_to_record import recording, why_not_unasked
from config.hub_paths import backup_dir, config_file, state_dir
from config.loading.assemble import load_or_defaults
from config.loading.gather import OWN_VARIABLES
from config.loading.variables import MAX_FILE_BYTES
from config.settings import HubConfig, UpstreamConfig
from config.show.server_environment import ShownEnvironment, ShownVariable, show_environment
from hub.cli.context import CommandFailed, Context, Output, UsageError, ask_hub, nearest, now
from hub.cli.parser import add, add_config, on_main_file
from hub.cli.render.blocks import Table
from hub.cli.shell_secrets import keep_of_hub
from hub.control.client_errors import ControlFailed, HubNotRunning
from hub.control.methods import ENVIRONMENT, RELOAD

_MEMBERS: Final = """\
  server     its name, or null: a server that says nothing of its environment
  hub        whether the running hub told it; else it is what a hub would have that this shell starts
  variables  of each: name, value (secrets masked), source (configuration, hubd.env, environment), file and line
  withheld   what a pattern names and the server does not get: name and reason (secret, pattern, own)
of `capture`: file, did (written, unchanged, would be written), backup, variables (recorded, by name), added, changed,
           removed, and left_out (reasons, by name)"""
CAPTURE: Final = "capture"
_REASONS: Final = {
    "secret": "looks like a secret; name it in full in `pass`",
    "pattern": "taken out by `pass`",
    "own": "set for the hub itself",
}


def add_commands(commands: Any) -> None:
    """`env`."""
    parser = add(commands, "env", _env, json=_MEMBERS)
    parser.description = (
        f"{parser.description}\n\n`hubd env capture` records PATH and the like of this shell in hubd.env, so "
        "that servers get the\nsame whoever starts the hub."
    )
    parser.add_value("name", "NAME", f"of this server; `{CAPTURE}`: record that of this shell", nargs="?")
    parser.add_flag("--dry-run", f"with `{CAPTURE}`: show it, and write nothing")
    add_config(parser)


def _env(options: Context, output: Output) -> None:
    if options.name == CAPTURE:
        return on_main_file(_capture)(options, output)
    if options.dry_run:
        raise UsageError(f"--dry-run belongs to `hubd env {CAPTURE}`")
    shown = None if options.config else _of_hub(options.name)
    is_of_hub = shown is not None
    if shown is None:
        shown = _of_shell(options)
    output.set(server=options.name, hub=is_of_hub, **msgspec.to_builtins(shown))
    _say_shown(shown, "the environment of the hub" if is_of_hub else "this shell", output)
    if not is_of_hub:
        output.remark("no hub is running; this is what a hub would give that this shell starts")


def _of_hub(name: str | None) -> ShownEnvironment | None:
    """The answer of the running hub; None: none runs."""
    with suppress(HubNotRunning):
        return ask_hub(ENVIRONMENT, name=name)
    return None


def _of_shell(options: Context) -> ShownEnvironment:
    loaded = options.loaded
    known = loaded.config.upstreams
    if options.name is not None and options.name not in known:
        hint = nearest(options.name, [*known, CAPTURE]) or f"there are: {', '.join(known) or 'none'}"
        raise UsageError(f"there is no server {options.name}; {hint}")
    return show_environment(loaded, options.name)


def _say_shown(shown: ShownEnvironment, environment: str, output: Output) -> None:
    rows = [(each.name, each.value, _whence(each, environment)) for each in shown.variables]
    output.show(Table(("NAME", "VALUE", "FROM"), rows, shorten=("VALUE", "FROM")))
    if shown.withheld:
        rest = [(each.name, _REASONS[each.reason]) for each in shown.withheld]
        output.show("", "Not passed on:", Table((), rest, indent=2))


def _whence(variable: ShownVariable, environment: str) -> str:
    if variable.source == "environment":
        return environment
    line = "" if variable.line is None else f", line {variable.line}"
    return f"{Path(variable.file or variable.source).name}{line}"


# --- capture ----------------------------------------------------------------------------------------------------------


class Capture(Struct, frozen=True, kw_only=True):
    """The change of a `hubd.env` that records a shell."""

    path: Path
    before: bytes | None
    """None: there is no file yet."""
    after: bytes
    recorded: dict[str, str] | None
    """The variables that were recorded until now; None: nothing."""
    values: dict[str, str]
    """The variables that are recorded then."""
    left_out: dict[str, str]
    """The reasons, by the name of a variable or directory."""

    @property
    def changes(self) -> bool:
        """True if the file is another one then."""
        return self.after != (self.before or b"")


def environment_file(config: Path) -> Path | None:
    """The `hubd.env` beside this main file; None: a host's own file has none."""
    return config.with_name(OWN_VARIABLES) if config.suffix == ".toml" else None


def plan_capture(path: Path, environ: Mapping[str, str], config: HubConfig) -> Capture:
    """The change that records `environ` for the servers of `config` in the file `path`. Variables that the user's own
    lines there set are left to these. Blocks. Raises EditError: the file cannot be read, or would be too large."""
    before = read_file(path, trusted=True)
    data = before or b""
    patterns = [config.defaults.pass_, *(each.pass_ for each in config.upstreams.values() if each.command)]
    started = (each.command for each in config.upstreams.values() if each.command and not each.disabled)
    commands = [command for command in started if "/" not in command]
    try:
        own, recorded = outside(data), in_block(data)
        found = recording(environ, patterns, commands)
        values = {name: value for name, value in found.values.items() if name not in own}
        after = with_block(data, values)
    except NotReadable as error:
        raise EditError(f"{path}: {error}; it was left as it is") from None
    if len(after) > MAX_FILE_BYTES:
        raise EditError(f"{path}: would be larger than {MAX_FILE_BYTES >> 10} KB; it was left as it is")
    left_out = found.left_out | {name: f"a line of yours in {path} sets it" for name in found.values if name in own}
    return Capture(path=path, before=before, after=after, recorded=recorded, values=values, left_out=left_out)


def write_capture(planned: Capture, now: datetime, backups: Path) -> Path | None:
    """Write the file, for its owner alone; the backup of the one before. Blocks. Raises EditError: the file is another
    one by now, or cannot be written."""
    return replace_file(planned.path, planned.after, was=planned.before, now=now, backups=backups, mode=0o600)


def _capture(options: Context, output: Output) -> None:
    path = environment_file((options.config or config_file()).expanduser().absolute())
    if path is None:
        raise CommandFailed(f"{options.config} is a host's own file, beside which no hubd.env counts")
    with lock_edits(state_dir()):
        planned = plan_capture(path, os.environ, load_or_defaults(options.config, os.environ))
        did, backup = "unchanged", None
        if planned.changes:
            did = "would be written" if options.dry_run else "written"
            backup = None if options.dry_run else write_capture(planned, now(), backup_dir())
    output.set(**_as_object(planned, did), backup=backup and str(backup))
    _say_capture(planned, did, output)
    if not options.dry_run:
        keep_of_hub(options.config, output)
    if did == "written":
        _have_it_read(output)


def _have_it_read(output: Output) -> None:
    """Have the running hub read the file at once, for servers that are restarted next: by itself it is somewhat
    later."""
    try:
        problem = ask_hub(RELOAD).problem
    except (HubNotRunning, ControlFailed):
        return
    if problem is not None:
        output.note(f"the running hub keeps the environment of before, since its configuration has errors: {problem}")


def _as_object(planned: Capture, did: str) -> dict[str, Any]:
    before = planned.recorded or {}
    return {
        "file": str(planned.path),
        "did": did,
        "variables": list(planned.values),
        "added": [name for name in planned.values if name not in before],
        "changed": [name for name, value in planned.values.items() if before.get(name, value) != value],
        "removed": [name for name in before if name not in planned.values],
        "left_out": planned.left_out,
    }


def _say_capture(planned: Capture, did: str, output: Output) -> None:
    before = planned.recorded or {}
    for name, value in planned.values.items():
        mark = " " if before.get(name) == value else "+" if name not in before else "~"
        output.say(f"{mark} {name}={value}")
    for name in before:
        if name not in planned.values:
            output.say(f"- {name}")
    for name, why in planned.left_out.items():
        output.say(f"left out: {name} ({why})")
    output.say(f"{did}: {planned.path}")
    if did == "written":
        output.say("servers get it when they start next; `hubd env` shows what they get")


# --- unasked ----------------------------------------------------------------------------------------------------------


def capture_unasked(named: Path | None, more: Mapping[str, UpstreamConfig] | None = None) -> tuple[Capture | None, str]:
    """The variables of this shell that a command records which puts the hub in place, without being asked: None, and
    perhaps the reason, if that would take something away. Keep it under the lock of edits until it is written.

    `named`: the main file, None: the user's own; `more`: servers that are about to be written. Raises EditError: the
    file cannot be read."""
    path = environment_file((named or config_file()).expanduser().absolute())
    if path is None:
        return None, ""
    config = load_or_defaults(named, os.environ)
    if more:
        config = structs.replace(config, upstreams={**config.upstreams, **more})
    planned = plan_capture(path, os.environ, config)
    # a person is at the terminal, also one who asked for JSON or said --yes
    is_attended = any(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stderr))
    why = why_not_unasked(os.environ, planned.recorded, planned.values, attended=is_attended)
    if why is None and planned.changes:
        return planned, ""
    return None, f"the environment of this shell was not recorded in {path}: {why}" if why else ""


def record_shell(named: Path | None, output: Output) -> None:
    """Record the environment of this shell, for a command that puts the hub in place, unless that would take something
    away. What it did is said in one line; that it could not is a note. `named`: as of `capture_unasked`."""
    try:
        with lock_edits(state_dir()):
            planned, why = capture_unasked(named)
            if planned is not None:
                write_capture(planned, now(), backup_dir())
    except EditError as error:
        output.note(f"the environment of this shell was not recorded: {error}")
        return
    if planned is None:
        if why:
            output.note(f"{why}; `hubd env {CAPTURE}` records it")
        return
    others = [name for name in planned.values if name != "PATH"]
    rest = f" and {', '.join(others) if len(others) < 4 else f'{len(others)} variables'}" if others else ""
    output.set(environment=_as_object(planned, "written"))
    output.say(f"recorded PATH{rest} of this shell for servers, in {planned.path}")
