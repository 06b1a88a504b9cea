"""Real servers that ask for roots, and real hosts that have some."""

import pytest

from tests.real.recorded import OFFICIAL, SERVERS, table
from tests.support.processes import NODE, PYTHON_1, ROOT, running, running_hub
from tests.support.rooted import Rooted

HOST = ROOT / "tests" / "real" / "hosts" / "rooted.py"
FILESYSTEM = {"command": str(NODE), "args": [str(OFFICIAL / "server-filesystem" / "dist" / "index.js")]}
CURIOUS = {"command": str(PYTHON_1), "args": [str(SERVERS / "flows1_server.py"), "old"]}


def said(answer):
    return answer["content"][0]["text"]


def is_told(host, folder):
    """True once the server has the folder: on a busy machine it may take a first call before it asks for roots."""
    calls = (said(host.tell("call", "files__list_allowed_directories")) for _ in range(100))
    return any(answer.endswith(str(folder)) for answer in calls)


@pytest.fixture
def folders(tmp_path):
    made = [tmp_path / "one", tmp_path / "two"]
    for folder in made:
        folder.mkdir()
    return made


@pytest.fixture
def hosts(tmp_path, folders):
    """Two hosts, each at work in its folder, before servers as they are configured."""
    config = [
        table("files", roots="host", **FILESYSTEM),
        table("old", **CURIOUS),
        table("none", roots="none", **CURIOUS),
    ]
    with running_hub(tmp_path, "\n".join(["startup_grace_s = 60.0", *config]), auth="none") as hub:
        argv = [[PYTHON_1, HOST, hub.url, folder.as_uri()] for folder in folders]
        with running(argv[0], tmp_path / "one.log") as one, running(argv[1], tmp_path / "two.log") as two:
            yield Rooted(one), Rooted(two)


@pytest.mark.covers("G-11")
def test_servers_that_ask_for_roots_get_those_of_each_host(hosts, folders):
    for host, folder in zip(hosts, folders, strict=True):
        assert is_told(host, folder)
    refused = said(hosts[0].tell("call", "old__roots_aside"))
    assert 'it is given no roots; with roots = "host" it is given those of each host' in refused
    for host, folder in zip(hosts, folders, strict=True):
        assert said(host.tell("call", "old__roots_aside")) == folder.as_uri()
        assert 'with roots = "host"' in said(host.tell("call", "none__roots_aside"))
