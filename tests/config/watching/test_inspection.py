"""Contents and directories of watched files."""

from config.loading.safe_reading import MAX_PROJECT_BYTES
from config.watching.inspection import inspect


def test_links_in_a_circle_are_no_trap(tmp_path):
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    digest, lookouts = inspect([tmp_path / "a"], [tmp_path / "b"])
    assert digest
    assert str(tmp_path) in lookouts


def test_what_is_too_large_is_not_read_to_its_end(tmp_path):
    (tmp_path / ".hubd.toml").write_bytes(b"x" * (MAX_PROJECT_BYTES + 10))
    before = inspect([tmp_path / ".hubd.toml"], [])
    (tmp_path / ".hubd.toml").write_bytes(b"x" * (MAX_PROJECT_BYTES + 5))
    assert inspect([tmp_path / ".hubd.toml"], []) == before
