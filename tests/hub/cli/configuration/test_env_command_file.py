"""Recording a shell in hubd.env: only the block changes, and the file is its owner's alone."""

import errno
import os
from datetime import UTC, datetime

import pytest

from config.diagnostics import EditError
from config.environment.hubd_env import in_block
from config.settings import HubConfig, ServerSettings, UpstreamConfig
from hub.cli.configuration.env_command import environment_file, plan_capture, write_capture

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SHELL = {"PATH": "/home/me/bin:/usr/bin", "NODE_EXTRA_CA_CERTS": "/etc/ca.pem", "GITHUB_TOKEN": "canary"}


@pytest.fixture
def record(tmp_path):
    path = tmp_path / "hubd" / "hubd.env"
    path.parent.mkdir(mode=0o700)

    def record(environ=SHELL, config=None):
        planned = plan_capture(path, environ, config or HubConfig())
        if planned.changes:
            write_capture(planned, NOW, tmp_path / "backups")
        return planned

    record.path = path
    return record


def mode(path):
    return path.stat().st_mode & 0o777


@pytest.mark.covers("FH-4")
def test_a_new_file_and_one_of_the_users(record):
    record()
    assert mode(record.path) == 0o600
    assert in_block(record.path.read_bytes()) == {name: SHELL[name] for name in ("PATH", "NODE_EXTRA_CA_CERTS")}
    mine = b"# mine \xc3\xbc\r\n\nGITHUB_TOKEN='x'  # why"
    record.path.write_bytes(mine)
    record.path.chmod(0o644)
    planned = record()
    assert (planned.recorded, mode(record.path)) == (None, 0o600)
    assert record.path.read_bytes().endswith(mine)
    assert not record().changes
    planned = record({"PATH": "/bin"})
    assert planned.recorded == {name: SHELL[name] for name in ("PATH", "NODE_EXTRA_CA_CERTS")}
    assert record.path.read_bytes().endswith(mine)
    assert in_block(record.path.read_bytes()) == {"PATH": "/bin"}


def test_lines_of_the_users_are_left_to_them(record):
    record.path.write_text("PATH=/mine\n")
    planned = record()
    assert planned.values == {"NODE_EXTRA_CA_CERTS": "/etc/ca.pem"}
    assert "a line of yours" in planned.left_out["PATH"]


def test_a_link_stays_a_link(record, tmp_path):
    real = tmp_path / "dotfiles.env"
    real.write_text("A=1\n")
    record.path.symlink_to(real)
    record()
    assert record.path.is_symlink()
    assert real.read_text().endswith("\nA=1\n")
    assert mode(real) == 0o600


def test_what_pass_names_is_recorded_too(record):
    shell = {**SHELL, "AWS_REGION": "here", "AWS_SECRET_ACCESS_KEY": "canary", "DB_PASSWORD": "mine"}
    server = UpstreamConfig(command="x", pass_=("DB_PASSWORD",))
    config = HubConfig(defaults=ServerSettings(pass_=("AWS_*",)), upstreams={"db": server})
    assert record(shell, config).values.keys() == {"PATH", "NODE_EXTRA_CA_CERTS", "AWS_REGION", "DB_PASSWORD"}
    assert "canary" not in record.path.read_text()


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"nothing\n", "line 1 is not of the form KEY=VALUE"),
        (b"A=\xff\n", "is not UTF-8 text"),
        (b"\xef\xbb\xbfA=1\n", "line 1 is not of the form KEY=VALUE"),
        (b"# >>> hubd env capture >>>\nA=1\n", "does not hold the marks"),
        (b"A=" + b"x" * (1 << 16), "would be larger than 64 KB"),
    ],
)
def test_a_file_that_cannot_be_used_is_left_as_it_is(record, data, said):
    record.path.write_bytes(data)
    with pytest.raises(EditError, match=f"hubd.env: .*{said}.*left as it is"):
        record()
    assert record.path.read_bytes() == data


def test_what_others_could_have_written_is_not_touched(record):
    record.path.write_text("A=1\n")
    record.path.chmod(0o666)
    with pytest.raises(EditError, match="others may write it"):
        record()
    record.path.unlink()
    os.mkfifo(record.path)
    with pytest.raises(EditError, match="not a plain file"):
        record()


def test_a_file_that_cannot_be_made_private_is_left_as_it_was(record, monkeypatch):
    record.path.write_bytes(b"A=1\n")
    record.path.chmod(0o644)

    def refuse(descriptor, mode):
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "fchmod", refuse)
    with pytest.raises(EditError, match="Operation not permitted; it was left as it is"):
        record()
    assert (record.path.read_bytes(), mode(record.path)) == (b"A=1\n", 0o644)


def test_a_hosts_own_file_has_none(tmp_path):
    assert environment_file(tmp_path / "hubd.toml") == tmp_path / "hubd.env"
    assert environment_file(tmp_path / "mcp.json") is None
