"""`hubd doctor`: what is wrong on this machine, why that matters, and what to do."""

import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import structs

from config import base_directories
from config.atomic_writes import lock_edits
from config.diagnostics import Diagnostic, EditError
from config.editing.draft_across_files import Draft
from config.hub_paths import state_dir
from config.remembered_facts import Memory
from hub.cli.checks import (
    hosts,
    machine_state,
    other_and_dead_hubs,
    running_hub,
    servers,
    stores,
    variables_servers_lack,
    what_hub_reports,
)
from hub.cli.checks.findings import Finding, KeepVariables, Restrict, RunHubd, WriteCommand, join_few, unreadable
from hub.cli.checks.judge_token import findings_on
from hub.cli.configuration.save_draft import reload_hub, save
from hub.cli.context import EX_FAILED, Context, Output, UsageError, ask_hub, now, own_command
from hub.cli.parser import add, add_config
from hub.cli.render.blocks import Block, paint
from hub.cli.shell_secrets import keep_of_hub
from hub.cli.systemd_units import run_program
from hub.control.answers import Status
from hub.control.client import ControlClient
from hub.control.client_errors import ControlFailed, HubHangs, HubNotRunning
from hub.control.methods import SIGN_IN_TRIALS, STATUS
from hub.control.sign_in_messages import SignInTrial
from hub.daemon.banner import is_root
from hub.shim.start_daemon import is_alive
from hub.wire.mcp import HUBD_VERSION
from upstreams.inventory.last_known_lists import LastConnected

LEVELS: Final[dict[str, str]] = {"note": "dim", "warning": "warning", "problem": "bad"}
"""The style of each level, the mildest first."""
NOTHING: Final = "nothing is wrong"
STRANGER_S: Final = 2.0
"""Time limit for the answer of a hub other than this shell's."""


def add_commands(commands: Any) -> None:
    """`doctor`."""
    doctor = add(commands, "doctor", _doctor, json=True)
    doctor.add_flag("--strict", "with advice on what works, such as packages to pin")
    doctor.add_flag("--fix", "do what has one safe answer, say what, and look again")
    doctor.add_value(
        "--token", "FILE", "say of the token in FILE whom the hub lets in by it, or why not (-: the input)"
    )
    add_config(doctor)


def _show(found: list[Finding], options: Context) -> None:
    objects = [msgspec.to_builtins(finding.as_object()) for finding in found]
    options.output.answer(objects, lambda: findings_blocks(found))
    if any(finding.level != "note" for finding in found):
        options.output.exit_with(EX_FAILED)


def findings_blocks(found: Sequence[Finding]) -> list[Block]:
    """The findings, then how many there are of each level, and how many `hubd doctor --fix` would mend."""
    if not found:
        return [paint(NOTHING, "good")]
    blocks: list[Block] = []
    for finding in sorted(found, key=lambda each: list(LEVELS).index(each.level)):
        level = paint(f"{finding.level}: ", LEVELS[finding.level])
        blocks.append(level + paint(finding.what, "bold") + paint(f"; {finding.why}", "dim"))
        blocks.append(f"    fix: {finding.fix}")
    counted: Counter[str] = Counter(each.level for each in found)
    levels = [level for level in reversed(LEVELS) if counted[level]]
    counts = ", ".join(f"{counted[level]} {level}{'s' * (counted[level] != 1)}" for level in levels)
    mended = sum(each.repair is not None for each in found)
    hint = f"; `hubd doctor --fix` mends {mended}" if mended else ""
    return [*blocks, "", paint(counts, LEVELS[levels[0]]) + hint]


def _doctor(options: Context, output: Output) -> None:
    if options.token is not None:
        return _show(findings_on(options.token, options.config), options)
    found = findings(_look(options), strict=options.strict)
    if options.fix and repair(found, options):
        output.say("")
        found = findings(_look(options), strict=options.strict)
    elif options.fix and found:
        output.say("nothing here has one safe fix that hubd could do by itself\n")
    _show(found, options)


def _look(options: Context) -> machine_state.MachineState:
    status, hangs = None, ""
    try:
        status = _status()
    except HubHangs as error:
        hangs = str(error)
    known = machine_state.MachineState(
        machine=options.machine,
        version=HUBD_VERSION,
        status=status,
        hangs=hangs,
        directory=Path.cwd(),
        status_at=partial(_status_at, patience_s=STRANGER_S),
        root=is_root(),
        trials=_sign_in_trials,
    )
    state = Path(base_directories.state_dir())
    remembered = LastConnected(Memory(state / "memory.json"), lambda: now().timestamp())
    return machine_state.examine(known, state, options.config, lambda upstream: remembered.ago_s(upstream) is not None)


def _sign_in_trials() -> Mapping[str, SignInTrial]:
    with suppress(OSError, HubNotRunning, HubHangs, ControlFailed):  # a hub of before, too
        return {trial.upstream: trial for trial in ask_hub(SIGN_IN_TRIALS).trials}
    return {}


def _status_at(path: Path, patience_s: float | None = None) -> Status | None:
    """The status of the hub behind a control socket; None: it does not answer. HubHangs only without a `patience_s`."""
    try:
        with ControlClient(path, patience_s) as hub:
            return hub.request(STATUS)
    except (OSError, HubNotRunning, ControlFailed):
        return None


def _status() -> Status | None:
    """The status of the running hub; None: none runs, and none is started for this."""
    directory = base_directories.runtime_dir()
    with suppress(OSError):
        return _status_at(Path(directory, "control.sock")) if is_alive(f"{directory}/hubd.lock") else None
    return None


def words_of_hub() -> tuple[dict[str, str], list[str]]:
    """The servers that the running hub cannot resolve in its own environment, with the reasons; and sentences: why it
    refuses its files, and its doubts about profiles, for which it takes the lists of servers. Empty, if none runs."""
    status = Status()
    with suppress(HubHangs):
        status = _status() or status
    unresolved = {row.name: row.last_error or "" for row in status.upstreams if row.state == "unresolved"}
    doubts = dict.fromkeys(text for row in status.profiles for text in row.warnings)
    refusals = [f"it keeps its configuration of before: {text}" for text in status.config.problems]
    return unresolved, [*refusals, *doubts]


def texts_of_unresolved(here: Sequence[Diagnostic], hub: Mapping[str, str]) -> Iterator[str]:
    """Sentences about servers that are unresolved, in this shell and in the running hub."""
    for each in here:
        yield f"{each}; a hub that this shell starts leaves out {each.unresolved}"
    for name, why in hub.items():
        yield f"the running hub has {name} unresolved: {why}"


def repair(found: Sequence[Finding], options: Context) -> bool:
    """Do the repairs of these findings; whether there were any. A repair that fails is said, and the next is done.
    Raises ConfigError: the configuration that is to be changed cannot be read."""
    output = Output(json=options.json)  # never ended: programs get the findings alone
    repairs = [finding.repair for finding in found if finding.repair is not None]
    _write_commands([each for each in repairs if isinstance(each, WriteCommand)], options, output)
    for each in dict.fromkeys(repairs):
        if isinstance(each, Restrict):
            _restrict(each, output)
        elif isinstance(each, RunHubd):
            config = ("--config", str(options.config)) if each.on_config and options.config else ()
            _run((*each.words, *config), output)
        elif isinstance(each, KeepVariables):
            keep_of_hub(options.config, output)
    return bool(repairs)


def _write_commands(wanted: Sequence[WriteCommand], options: Context, output: Output) -> None:
    changed: dict[Path, None] = {}
    written = []
    for name, command in ((name, each.command) for each in wanted for name in each.servers):
        try:
            with lock_edits(state_dir()):
                draft = Draft(options.config, os.environ)
                draft.assign(name, "command", command)
                if problems := draft.problems():
                    raise EditError(str(problems[0]))
                done = f"fixed: {name} is started by {command}"
                changed |= dict.fromkeys(save(draft, "edited", done, output))
        except EditError as error:
            output.fail(f"not fixed: {error}")
        else:
            written.append(name)
    reload_hub(list(changed), output, written)


def _restrict(wanted: Restrict, output: Output) -> None:
    try:
        os.chmod(wanted.path, wanted.mode)
    except OSError as error:
        return output.fail(f"not fixed: {wanted.path}: {error.strerror}")
    output.say(f"fixed: only you may use {wanted.path} (mode {wanted.mode:03o})")


def _run(words: Sequence[str], output: Output) -> None:
    """Run one of hubd's own commands, and say what it said."""
    shown = f"`hubd {' '.join(words)}`"
    try:
        done = run_program((own_command(), *words))
    except UsageError as error:
        return output.fail(f"not fixed: {shown}: {error}")
    if done.returncode:
        return output.fail(f"not fixed: {shown}: {done.stderr.strip()}")
    output.say(f"fixed by {shown}: {done.stdout.strip() or done.stderr.strip()}")


# --- all checks -------------------------------------------------------------------------------------------------------

CHECKS: Final[tuple[Callable[[machine_state.MachineState], Iterator[Finding]], ...]] = (
    servers.configuration,
    servers.same_server_twice,
    servers.three_legs,
    servers.commands,
    servers.working_directories,
    variables_servers_lack.last_words,
    variables_servers_lack.this_shell,
    variables_servers_lack.of_this_shell_only,
    servers.addresses,
    servers.roots,
    servers.sandboxes,
    stores.store,
    stores.same_names,
    hosts.entries,
    hosts.double_imports,
    hosts.double_projects,
    running_hub.daemon,
    what_hub_reports.limits,
    what_hub_reports.search_mode,
    what_hub_reports.profiles,
    what_hub_reports.pipelines,
    what_hub_reports.rules,
    running_hub.root,
    what_hub_reports.upstreams,
    other_and_dead_hubs.other_daemons,
    other_and_dead_hubs.stale_sockets,
    other_and_dead_hubs.leftovers,
    servers.open_files,
    hosts.several_principals,
    stores.secret_files,
    stores.unreadable_files,
)


ADVICE: Final = (servers.packages_to_pin, servers.missing_sandboxes)
"""Checks of what works, and could be better."""


def findings(examined: machine_state.MachineState, *, strict: bool = False) -> list[Finding]:
    """The findings of all checks, the worst first. A failed server is left out if another check found the cause.
    `strict`: with advice on what works."""
    found: list[Finding] = []
    for check in (*CHECKS, *(ADVICE if strict else ())):
        try:
            found.extend(check(examined))
        except OSError as error:  # a file that may not be read; the other checks go on
            found.append(unreadable(error.filename or check.__name__, error.strerror or str(error)))
    causes = (each.names for each in found if each.level == "problem" and each.check != "upstream")
    explained = {name for names in causes for name in names}
    found = [rest for each in found if (rest := _without_explained(each, explained)) is not None]
    return sorted(found, key=lambda finding: ("problem", "warning", "note").index(finding.level))


def _without_explained(finding: Finding, explained: set[str]) -> Finding | None:
    """A finding without the servers whose cause another one tells; None: nothing is left of it."""
    if finding.check != "upstream" or explained.isdisjoint(finding.names):
        return finding
    rest = [name for name in finding.names if name not in explained]
    if not rest:
        return None
    what = f"{join_few(rest)}: {finding.what.rpartition(': ')[2]}"
    return structs.replace(finding, what=what, names=tuple(rest))
