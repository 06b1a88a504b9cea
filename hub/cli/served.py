"""Servers that the hub serves: those that are connected through it now, or were within a day. Only these may be taken
out of hosts."""

import os
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from hub.cli.render.last_words import last_words
from hub.cli.subcommand import Output, UsageError, client

if TYPE_CHECKING:
    from hub.cli.server_watch import ServerOutcome
    from hub.control.answers import Status, UpstreamRow

LIMIT_S: Final = 45.0
"""Seconds that a command waits for servers that are not being installed."""


def served(
    names: Sequence[str],
    output: Output,
    *,
    main: Path,
    can_start: bool = True,
    projects: Mapping[str, Path] = {},
) -> dict[str, str]:
    """Of each server the reason why the hub does not serve it; "": it does. If no hub runs one is started, and the
    servers are waited for.

    `main` is the main file that the hub must have; `can_start`: it is the usual one, which a new hub would use.
    `projects`: servers that are only in the file of a project, which run while a host works there.

    Raises:
        UsageError: the hub uses another main file.
        HubNotRunning, ControlFailed, NotUnderstood: as `ControlClient`.
        ConfigError: the configuration or the directories of the hub cannot be used.
    """
    from hub.cli.server_watch import watch
    from hub.cli.start_hub import start_hub
    from hub.control.methods import RELOAD, STATUS

    if not names and not projects:
        return {}
    if can_start and start_hub():
        output.note("the hub was started, since only a hub that runs can tell which servers work")
    with client() as hub:
        _refuse_other(hub.request(STATUS), main)
        hub.request(RELOAD)  # it takes up changed files by itself, but somewhat later
        watch(hub, names, output, limit_s=LIMIT_S)
        status = hub.request(STATUS)
        return reasons(names, status) | {name: _why_not_in(project, name, status) for name, project in projects.items()}


def _why_not_in(project: Path, name: str, status: "Status") -> str:
    endpoint = next((each.endpoint for each in status.projects if each.root == os.path.realpath(project)), None)
    if endpoint is None:
        return f"the hub starts it for hosts that work in {project}, and none does now"
    name = f"{name}@{endpoint.rpartition('@')[2]}"
    return why_not_served(next((row for row in status.upstreams if row.name == name), None))


def tried(names: Sequence[str], output: Output, *, main: Path) -> "dict[str, ServerOutcome]":
    """The outcomes of servers in a hub that runs with this main file: each is waited for a while. Empty: none runs."""
    from hub.cli.server_watch import watch
    from hub.control.errors import ControlFailed, HubNotRunning
    from hub.control.methods import RELOAD, STATUS

    try:
        with client() as hub:
            _refuse_other(hub.request(STATUS), main)
            hub.request(RELOAD)
            return watch(hub, names, output) if names else {}
    except (HubNotRunning, ControlFailed, UsageError):
        return {}


def status_of(main: Path) -> "Status":
    """The status of the hub that runs with this main file.

    Raises:
        UsageError: it uses another one.
        HubNotRunning, ControlFailed, NotUnderstood: as `ControlClient`.
    """
    from hub.control.methods import STATUS

    with client() as hub:
        status = hub.request(STATUS)
    _refuse_other(status, main)
    return status


def _refuse_other(status: "Status", main: Path) -> None:
    used = status.config.watched
    if used and str(main) not in used:
        raise UsageError(f"the hub that runs uses {used[0]}, not {main}")


def reasons(names: Collection[str], status: "Status") -> dict[str, str]:
    """Of each server the reason why the hub does not serve it; "": it does. Pure."""
    rows = {row.name: row for row in status.upstreams}
    return {name: why_not_served(rows.get(name)) for name in names}


def why_not_served(row: "UpstreamRow | None") -> str:
    """The reason why the hub does not serve a server, by its row in the status; "": it does. Pure."""
    from config.hosts.leaving import SIGN_IN

    if row is None:
        return "the running hub does not have it"
    if row.state == "unauthorized":
        return SIGN_IN
    if row.state == "connected" or (row.connected_ago_s is not None and row.state != "disabled"):
        return ""
    words = last_words(row.last_error) if row.last_error else ""
    if row.state in ("failed", "unresolved"):
        return f"{row.state}: {words}" if words else row.state
    if row.state == "disabled":
        return f"the hub has it disabled; run `hubd enable {row.name}` first"
    if row.state == "idle":
        return f"it was not started within a day; `hubd restart {row.name}` starts it"
    return f"not connected yet: {words}" if words else "not connected yet"
