"""Budgets of tokens: function calls of a request whose token was seen before. `token_costs` measures their time."""

import pytest

from tests.guard.token_costs import checks, upstream_request
from tests.support.counting import calls_of

BUDGETS = {"own": 10, "of a host": 25, "JWT": 28, "asked about": 31}
"""Those of issuers look at two clocks: the time of day, and trio's, which nobody sets."""
UPSTREAM_BUDGET = 29


@pytest.mark.parametrize("name", BUDGETS)
async def test_a_token_that_is_known_costs_no_more_than_its_budget(name, tmp_path):
    work = (await checks(tmp_path))[name]
    assert calls_of(work) <= BUDGETS[name]


async def test_a_request_to_an_upstream_at_which_somebody_is_signed_in(tmp_path):
    work = await upstream_request(tmp_path)
    assert calls_of(work) <= UPSTREAM_BUDGET
