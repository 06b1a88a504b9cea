"""A home with a configuration, and a project in it."""

from pathlib import Path

import pytest

from tests.support.processes import own_directories

MAIN = """\
page_size = 5
[upstreams.git]
prefix = "g"
env.TOKEN = "${TOKEN}"
[upstreams.web]
url = "https://example.com/mcp?key=c4n4ry"
headers = { Authorization = "Bearer c4n4ry", X-Key = "Bearer ${TOKEN}" }
"""
IMPORTED = """\
{"mcpServers": {
  "git": {"command": "x", "args": ["--key", "c4n4ry", "--pat=c4n4ry", "ghp_c4n4ryc4n4ryc4n4"], "env": {"A": "c4n4ry"}},
  "web": {"command": "old"}
}}
"""


@pytest.fixture
def home(tmp_path, monkeypatch) -> Path:
    for name, value in own_directories(tmp_path).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("TOKEN", "c4n4ry")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def files(home) -> Path:
    directory = home / "config/hubd"
    (directory / "imported").mkdir(parents=True)
    (directory / "hubd.toml").write_text(MAIN)
    (directory / "imported/c.json").write_text(IMPORTED)
    return directory


@pytest.fixture
def project(home) -> Path:
    root = home / "work"
    (root / "below").mkdir(parents=True)
    (root / ".mcp.json").write_text(
        '{"web": {"command": "run", "env": {"LD_PRELOAD": "./it.so", "API_KEY": "c4n4ry"}, "envFile": ".env"}}'
    )
    (root / ".env").write_text("X=c4n4ry\n")
    return root
