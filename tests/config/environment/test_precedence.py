"""The environment that the hub was started with, and the file over it."""

import pytest

from config.environment.precedence import CurrentEnvironment, for_this_process, joined

HOSTS = {
    "PATH": "/usr/bin:/bin",
    "HOME": "/home/me",
    "XDG_STATE_HOME": "/state",
    "HUBD_RUNTIME_DIR": "/run/x",
    "A": "1",
}


@pytest.mark.covers("FH-4")
def test_the_file_wins_but_for_what_says_where_it_is():
    own = {"PATH": "/all", "HOME": "/no", "XDG_STATE_HOME": "/no", "HUBD_RUNTIME_DIR": "/no", "XDG_CACHE_HOME": "/c"}
    assert joined(HOSTS, own) == {**HOSTS, "PATH": "/all", "XDG_CACHE_HOME": "/c"}
    assert joined(HOSTS, {}) == HOSTS


def test_the_hub_takes_over_nothing_that_would_move_its_files():
    assert for_this_process(joined({}, HOSTS)) == {"PATH": "/usr/bin:/bin", "A": "1"}


def test_the_current_environment_is_replaced_as_a_whole():
    current = CurrentEnvironment({"A": "secret"})
    assert "secret" not in repr(current)
    held = dict(current)
    current.replace({"B": "2"})
    assert dict(current) == {"B": "2"}
    assert held == {"A": "secret"}
    assert len(current) == 1
