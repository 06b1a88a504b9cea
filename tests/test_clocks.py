"""The modules that use the time of day, and so must bear its jumps.

All others use the clock of the event loop, which neither jumps nor counts while the machine sleeps.
"""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
WALL = {("time", "time"), ("time", "time_ns"), ("datetime", "now"), ("datetime", "utcnow"), ("datetime", "today")}
MAY_LOOK = {
    "hub/daemon/make_keys_store_sessions_audit.py": "dates files of what upstreams offered, and log lines of upstreams",
    "hub/app.py": "dates what hosts carry, which outlives the process (the clock of a boot would not)",
    "hub/net/open_connections.py": "the Date header",
    "hub/daemon/logs/forms.py": "log records",
    "hub/cli": "commands that a person gives",
    "upstreams/demo": "a tool that tells the time",
}


def looks(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Attribute):
            of = node.value
            name = of.id if isinstance(of, ast.Name) else of.attr if isinstance(of, ast.Attribute) else ""
            if (name, node.attr) in WALL:
                yield node.lineno
        elif isinstance(node, ast.Name) and node.id == "formatdate":
            yield node.lineno


def is_allowed(name):
    return any(name == each or name.startswith(f"{each}/") for each in MAY_LOOK)


@pytest.mark.covers("F-D-11")
def test_no_timer_goes_by_the_time_of_day():
    found = {
        name
        for package in ("hub", "upstreams", "config", "cache")
        for path in (ROOT / package).rglob("*.py")
        if list(looks(path)) and not is_allowed(name := str(path.relative_to(ROOT)))
    }
    assert found == set()
