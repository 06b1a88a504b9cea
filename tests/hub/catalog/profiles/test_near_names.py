"""Names that are like one that is not there."""

import pytest

from hub.catalog.profiles.near_names import AT_ONCE, LONGEST, MAX_COMPARED, MeantNames
from hub.catalog.steps import finish


@pytest.mark.parametrize(
    ("name", "known", "meant"),
    [
        ("raed_file", ["write_file", "read_file", "read_files"], "read_file"),
        ("raed_file", [], ""),
        ("raed_file", ["weather", "time"], ""),
        ("a", ["a" * (LONGEST + 1)], ""),
        ("same", ["same"], "same"),
        ("wanted", [*("x" * 9 for _ in range(MAX_COMPARED)), "wantet"], ""),
    ],
)
def test_the_one_most_like_it(name, known, meant):
    assert finish(MeantNames().of(name, known)) == meant


def test_few_are_compared_without_a_pause():
    pauses = list(MeantNames().of("name_0", (f"name_{number}" for number in range(1, 10 * MAX_COMPARED))))
    assert len(pauses) == MAX_COMPARED // AT_ONCE


def test_what_was_compared_before_is_known():
    known = [f"tool_{number}" for number in range(100)]
    first = MeantNames()
    assert finish(first.of("tol_7", known)) == "tool_7"
    second = MeantNames(first.compared)
    assert list(second.of("tol_7", known)) == []
    assert second.compared == first.compared
    assert list(second.of("tol_7", known[:50])) != [], "it may be another one among others"
