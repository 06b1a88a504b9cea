"""The status of a hub, looked at again and again: over its control socket, since a process for each look would take the
processor from what is waited for."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from hub.control.client import ControlClient
from hub.control.methods import STATUS
from tests.support.restarts import TICK

LOOK_S: Final = 0.1
PATIENCE_S: Final = 100.0

Rows = dict[str, dict[str, Any]]
"""Servers as status has them, by name."""


def status(env: Mapping[str, str]) -> dict[str, Any]:
    """What `hubd status --json` prints, of the hub that runs in this environment."""
    with ControlClient(Path(env["XDG_RUNTIME_DIR"], "hubd", "control.sock")) as hub:
        found: dict[str, Any] = hub.request_both(STATUS)[0]
        return found


def servers(env: Mapping[str, str]) -> Rows:
    """The servers of that hub."""
    return {row["name"]: row for row in status(env)["upstreams"]}


def until(env: Mapping[str, str], condition: Callable[[Rows], object], *, within_s: float = PATIENCE_S) -> Rows:
    """Wait until the servers are so; the servers as they are then."""
    for _ in range(round(within_s / LOOK_S)):
        found = servers(env)
        if condition(found):
            return found
        TICK.wait(LOOK_S)
    raise AssertionError(f"it never came to that: {found}")


def until_connected(env: Mapping[str, str], *names: str, within_s: float = PATIENCE_S) -> Rows:
    """Wait until these servers are connected, or all."""
    return until(
        env, lambda found: all(found[name]["state"] == "connected" for name in names or found), within_s=within_s
    )
