"""Real servers in sandboxes: they work, in homes of their own and without a network, and see what they are shown."""

import json
import shutil

import pytest

from tests.hub.daemon.test_secrets import command, rows, until
from tests.real.recorded import OFFICIAL
from tests.support.processes import PYTHON_2, running_hub
from tests.support.sandboxes import use_bubblewrap


@pytest.fixture
def sandboxes(monkeypatch):
    use_bubblewrap(monkeypatch)


def server(name, argv, sandbox):
    first, *args = map(str, argv)
    return f"[upstreams.{name}]\ncommand = {json.dumps(first)}\nargs = {json.dumps(args)}\nsandbox = {sandbox}\n"


@pytest.mark.covers("BOX-12", "BOX-16")
def test_real_servers_work_in_sandboxes(tmp_path, sandboxes):
    notes, other = tmp_path / "notes", tmp_path / "other"
    for folder in (notes, other):
        folder.mkdir()
        (folder / "hello.txt").write_text("hello\n")
    node = shutil.which("node")
    servers = {
        "everything": [node, OFFICIAL / "server-everything" / "dist" / "index.js"],
        "time": [PYTHON_2, "-m", "mcp_server_time", "--local-timezone", "UTC"],
        "files": [node, OFFICIAL / "server-filesystem" / "dist" / "index.js", notes],
    }
    presets = {"auto": '"auto"', "home": f'{{ preset = "own-home", write = ["{notes}"] }}'}
    presets["offline"] = f'{{ preset = "offline", write = ["{notes}"] }}'
    names = {f"{name}-{preset}": (argv, box) for name, argv in servers.items() for preset, box in presets.items()}
    with running_hub(tmp_path, "\n".join(server(name, *each) for name, each in names.items())) as hub:
        until(lambda: all(row["state"] == "connected" and row["counts"]["tools"] for row in rows(hub).values()))
        found = rows(hub)
        for name in servers:
            assert len({found[f"{name}-{preset}"]["counts"]["tools"] for preset in presets}) == 1
        assert {found[f"time-{preset}"]["sandbox"]["preset"] for preset in presets} == {"shield", "own-home", "offline"}
        for preset in presets:
            said = command(hub, "call", f"files-{preset}__read_text_file", f"path={notes}/hello.txt")
            assert "hello" in said
            command(hub, "call", f"files-{preset}__write_file", f"path={notes}/{preset}.txt", "content=x")
            assert (notes / f"{preset}.txt").read_text() == "x"
