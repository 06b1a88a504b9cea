"""What is suggested for a host: what it called, else the servers it had, else all, up to what it takes."""

import pytest

from hub.cli.profiles.suggest_profile import MIN_CALLS, Limits, suggest
from hub.control.answers import ToolUse, ToolUses

pytestmark = pytest.mark.covers("EP-10")


def uses(calls=None, **servers):
    """Servers with so many tools of 100 tokens, called as told."""
    return ToolUses(
        tools=tuple(
            ToolUse(
                name=f"{server}__t{number}",
                server=server,
                tool=f"t{number}",
                tokens=100,
                calls=(calls or {}).get(f"{server}__t{number}", {}),
            )
            for server, count in servers.items()
            for number in range(count)
        ),
        since="2026-08-01",
        today="2026-11-23",
    )


def test_with_calls_enough_what_was_called_in_the_order_of_the_list():
    calls = {"big__t7": {"cursor": 15}, "small__t0": {"cursor": 4, "codex": 9}, "big__t3": {"cursor": 1}}
    found = suggest("cursor", uses(calls, big=50, small=2), {"small": ("*",)}, Limits(40))
    assert found.names == ("big__t3", "big__t7", "small__t0")
    assert found.why == "what it called in the last 30 days (20 calls)"


def test_of_too_many_that_were_called_those_that_were_called_most():
    calls = {f"big__t{number}": {"cursor": number + 1} for number in range(10)}
    assert suggest("cursor", uses(calls, big=50), {}, Limits(2)).names == ("big__t8", "big__t9")


def test_calls_of_other_hosts_tell_nothing():
    calls = {"big__t7": {"codex": 500}}
    found = suggest("cursor", uses(calls, big=50, small=2), {}, Limits(40))
    assert found.names == ("small__t0", "small__t1")


def test_what_was_called_is_never_left_out_for_what_it_had():
    """Few calls do not tell what else it needs, but these it does."""
    calls = {"big__t7": {"cursor": MIN_CALLS - 1}}
    found = suggest("cursor", uses(calls, big=50, small=2), {"small": ("*",)}, Limits(40))
    assert found.names == ("big__t7", "small__t0", "small__t1")
    assert found.why == "what it called (19 so far), and the servers that it had before hubd"
    crowded = suggest("cursor", uses(calls, big=50, small=2), {"small": ("*",)}, Limits(2))
    assert crowded.names == ("big__t7",)
    assert crowded.why.endswith(", the smallest first")


def test_the_servers_that_it_had_with_its_own_choice_the_smallest_first():
    had = {"big": ("t1*",), "small": ("!t0",), "gone": ("*",)}
    known = uses(big=50, small=3, other=1)
    found = suggest("cursor", known, had, Limits(40))
    assert found.names == ("big__t1", *(f"big__t1{digit}" for digit in range(10)), "small__t1", "small__t2")
    assert found.why == "the servers that it had before hubd"
    few = suggest("cursor", known, had, Limits(5))
    assert few.names == ("small__t1", "small__t2")
    assert few.why == "the servers that it had before hubd, the smallest first"


def test_what_it_had_is_in_no_more_than_the_tokens_it_can_spare():
    assert len(suggest("x", uses(a=4, b=5, c=6), {}, Limits(None, 950)).names) == 9


def test_without_a_record_of_an_import_all_servers_count():
    found = suggest("cursor", uses(a=30, b=9, c=100), {"gone": ("*",)}, Limits(40))
    assert len(found.names) == 39
    assert found.why == "all servers, the smallest first"


def test_a_host_without_known_limits_gets_all_it_had():
    assert len(suggest("cursor", uses(a=30, b=9, c=100), {"a": ("*",)}, Limits()).names) == 30


def test_where_no_server_fits_as_much_of_the_smallest_as_it_takes():
    found = suggest("cursor", uses(a=90, b=60), {}, Limits(40))
    assert found.names == tuple(f"b__t{number}" for number in range(40))
    assert found.why == "all servers, of the smallest as many tools as it takes"


def test_no_tools_at_all():
    assert suggest("cursor", ToolUses(), {}, Limits(40)).names == ()


@pytest.mark.parametrize(
    ("limits", "said"),
    [(Limits(), ""), (Limits(40), "40 tools"), (Limits(100, 20_000), "100 tools and ~20 000 tokens of tools")],
)
def test_limits_are_told(limits, said):
    assert str(limits) == said
