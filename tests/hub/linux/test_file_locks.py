"""Locks of files: one holder at a time, and none once it has closed the file."""

import os

import pytest

from hub.linux.file_locks import hold_lock, try_lock


@pytest.fixture
def opened(tmp_path):
    """Opens the same file anew."""
    return lambda: os.open(tmp_path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def test_a_lock_has_one_holder(opened):
    other = opened()
    with hold_lock(opened()):
        assert not try_lock(other)
    assert try_lock(other)
    third = opened()
    assert not try_lock(third)
    os.close(other)
    assert try_lock(third)
    os.close(third)


def test_the_file_is_closed_whatever_happens(opened):
    descriptor = opened()
    with pytest.raises(KeyError), hold_lock(descriptor):
        raise KeyError
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)
