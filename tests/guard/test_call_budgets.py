"""Budgets of a plain call: Python function calls, system calls, and no garbage that only the collector could free.

Counts hardly depend on the speed or load of the machine: where a call takes longer, more of what runs by the clock
comes by, and less leaves together. So one that is too high is looked at again. When the code gets better, lower the
budget.
"""

import pytest

from tests.guard.count_calls import MODES, count
from tests.support.everything import draw

TOLERANCE = 1.08
ATTEMPTS = 4
BUDGETS = {
    "HTTP legacy, 1 at a time": (201, 9.1),
    "HTTP legacy, 64 at a time": (120, 2.3),
    "HTTP modern, 1 at a time": (238, 9.1),
    "unix socket, 1 at a time": (186, 8.1),
    "unix socket, 64 at a time": (93, 0.39),
}
"""Python function calls and system calls of one plain call; three functions are of the audit log, four count it."""


@pytest.mark.parametrize("name", draw(3, MODES))
def test_a_plain_call_costs_no_more_than_its_budget(name, tmp_path):
    calls, system = BUDGETS[name]
    for attempt in range(ATTEMPTS):
        (directory := tmp_path / str(attempt)).mkdir()
        cost = count(MODES[name], directory)
        assert cost.cycles == 0, f"{name}: {cost.cycles} objects in reference cycles"
        if cost.calls <= calls * TOLERANCE and cost.system <= system * TOLERANCE:
            break
    assert cost.calls <= calls * TOLERANCE, f"{name}: {cost.calls:.1f} Python function calls in place of {calls}"
    assert cost.system <= system * TOLERANCE, f"{name}: {cost.system:.2f} system calls in place of {system}"
