"""`hubd doctor`: what is wrong on this machine, why that matters, and what to do."""

import argparse
from functools import partial
from os import EX_OK
from typing import TYPE_CHECKING, Any, Final

from hub.cli.subcommand import EX_FAILED, add, add_config, as_json, now

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from config.errors import Diagnostic
    from config.settings import UpstreamConfig
    from hub.cli.checks.evidence import Examined, Finding
    from hub.control.answers import Status
    from hub.control.sign_ins import SignInTrial


STRANGER_S: Final = 2.0
"""Time limit for the answer of a hub other than this shell's."""


def add_commands(commands: Any) -> None:
    """`doctor`."""
    doctor = add(commands, "doctor", _doctor, json=True)
    doctor.add_argument("--strict", action="store_true", help="with advice on what works, such as packages to pin")
    doctor.add_argument("--fix", action="store_true", help="do what has one safe answer, say what, and look again")
    doctor.add_argument(
        "--token", metavar="FILE", help="say of the token in FILE whom the hub lets in by it, or why not (-: the input)"
    )
    add_config(doctor)


def _doctor(options: argparse.Namespace) -> int:
    from hub.cli.checks.shown_token import findings_on

    return _machine(options) if options.token is None else _show(findings_on(options.token, options.config), options)


def _show(found: "list[Finding]", options: argparse.Namespace) -> int:
    import msgspec

    from hub.cli.render.findings import findings_blocks

    if options.json:
        print(as_json([msgspec.to_builtins(finding.as_object()) for finding in found]))
    else:
        options.output.screen.show(*findings_blocks(found))
    return EX_FAILED if any(finding.level != "note" for finding in found) else EX_OK


def _machine(options: argparse.Namespace) -> int:
    from pathlib import Path

    from config import directories
    from config.hosts.facts import Machine
    from hub.cli.checks.all import findings
    from hub.cli.checks.evidence import examine
    from hub.cli.repairs import repair
    from hub.control.errors import HubHangs
    from hub.daemon.banner import is_root
    from hub.wire.mcp import HUBD_VERSION

    def examined() -> "Examined":
        status, hangs = None, ""
        try:
            status = _status()
        except HubHangs as error:
            hangs = str(error)
        return examine(
            Machine.this(),
            version=HUBD_VERSION,
            status=status,
            hangs=hangs,
            records=Path(directories.state_dir(), "installed.json"),
            token=Path(directories.state_dir(), "token"),
            trust=Path(directories.state_dir(), "trust.json"),
            directory=Path.cwd(),
            config=options.config,
            status_at=partial(_status_at, patience_s=STRANGER_S),
            root=is_root(),
            lately=_connected_lately(),
            trials=_sign_in_trials,
        )

    found = findings(examined(), strict=options.strict)
    if options.fix and repair(found, options):
        options.output.say("")
        found = findings(examined(), strict=options.strict)
    elif options.fix and found:
        options.output.say("nothing here has one safe fix that hubd could do by itself\n")
    return _show(found, options)


def _connected_lately() -> "Callable[[UpstreamConfig], bool]":
    """True if a hub was connected to a server within a day, as the last one remembers."""
    from pathlib import Path

    from config import directories
    from config.saved_state import Memory
    from upstreams.remembered import LastConnected

    remembered = LastConnected(Memory(Path(directories.state_dir(), "memory.json")), lambda: now().timestamp())
    return lambda config: remembered.ago_s(config) is not None


def _sign_in_trials() -> "Mapping[str, SignInTrial]":
    """The prospects of the sign-ins that servers wait for, as the running hub finds out."""
    from hub.cli.subcommand import client
    from hub.control.errors import ControlFailed, HubHangs, HubNotRunning
    from hub.control.methods import SIGN_IN_TRIALS

    try:
        with client() as hub:
            return {trial.upstream: trial for trial in hub.request(SIGN_IN_TRIALS).trials}
    except (OSError, HubNotRunning, HubHangs, ControlFailed):  # a hub of before, too
        return {}


def _status_at(path: "Path", patience_s: float | None = None) -> "Status | None":
    """The status of the hub behind a control socket; None: it does not answer.

    Raises:
        HubHangs: it is not known whether it ever will; only without a `patience_s`.
    """
    from hub.control.client import ControlClient
    from hub.control.errors import ControlFailed, HubNotRunning
    from hub.control.methods import STATUS

    try:
        with ControlClient(path, patience_s) as hub:
            return hub.request(STATUS)
    except (OSError, HubNotRunning, ControlFailed):
        return None


def _status() -> "Status | None":
    """The status of the running hub; None: none runs, and none is started for this.

    Raises:
        HubHangs: it does not answer.
    """
    from pathlib import Path

    from config import directories
    from hub.shim.start_daemon import is_alive

    directory = directories.runtime_dir()
    try:
        return _status_at(Path(directory, "control.sock")) if is_alive(f"{directory}/hubd.lock") else None
    except OSError:
        return None


def unresolved_in_hub() -> dict[str, str]:
    """The servers that the running hub cannot resolve in its own environment, with the reasons; none, if none runs."""
    from hub.control.errors import HubHangs

    try:
        status = _status()
    except HubHangs:
        return {}
    rows = () if status is None else status.upstreams
    return {row.name: row.last_error or "" for row in rows if row.state == "unresolved"}


def unresolved_texts(here: "Sequence[Diagnostic]", hub: "Mapping[str, str]") -> "Iterator[str]":
    """What is unresolved in this shell, and what in the running hub, as sentences."""
    for each in here:
        yield f"{each}; a hub that this shell starts leaves out {each.unresolved}"
    for name, why in hub.items():
        yield f"the running hub has {name} unresolved: {why}"
