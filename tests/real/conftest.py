"""One hub in front of every real server at once, for all tests of this folder."""

import contextlib
import json
import os
import shutil
from pathlib import Path

import pytest
from processes import NODE_ENV, PACKAGES, PYTHON_2, free_port, running, running_hub

SERVERS = Path(__file__).parent / "servers"
OFFICIAL = PACKAGES / "@modelcontextprotocol"


def pytest_collection_modifyitems(items):
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.real)


def table(name, **entries):
    """One `[upstreams.NAME]` of a hubd.toml; JSON's strings and arrays are TOML's."""
    lines = [f"[upstreams.{name}]"]
    for key, value in entries.items():
        if isinstance(value, dict):
            inner = ", ".join(f"{each} = {json.dumps(text)}" for each, text in value.items())
            lines.append(f"{key} = {{ {inner} }}")
        else:
            lines.append(f"{key} = {json.dumps(value)}")
    return "\n".join(lines)


@pytest.fixture(scope="session")
def files(tmp_path_factory):
    """The folder that the filesystem server may see."""
    folder = tmp_path_factory.mktemp("files").resolve()
    (folder / "hello.txt").write_text("hello from a file\n")
    return folder


@pytest.fixture(scope="session")
def hub(tmp_path_factory, files):
    """A running hub whose upstreams are all the real servers, old and new, over every transport."""
    directory = tmp_path_factory.mktemp("hub")
    everything = OFFICIAL / "server-everything" / "dist" / "index.js"
    with contextlib.ExitStack() as stack:
        urls = {}
        for name, argv in {
            "py-http": [PYTHON_2, SERVERS / "py2_server.py", "pyhttp", "--http"],
            "node-http": ["node", SERVERS / "node2_server.cjs", "nodehttp", "--http"],
        }.items():
            server = stack.enter_context(running(argv, directory / f"{name}.log", env={**os.environ, **NODE_ENV}))
            urls[name] = server.wait_for(r"http://\S+")[0]
        for name, (how, path) in {"every-http": ("streamableHttp", "mcp"), "every-sse": ("sse", "sse")}.items():
            port = free_port()
            env = {**os.environ, "PORT": str(port)}
            argv = ["node", everything, how]
            server = stack.enter_context(running(argv, directory / f"{name}.log", env=env, merged=True))
            server.wait_for(f"port {port}")
            urls[name] = f"http://127.0.0.1:{port}/{path}"
        node = shutil.which("node")
        config = [
            # Claims of contested URIs then go by the order below, however slowly the servers start.
            "startup_grace_s = 60.0",
            table("everything", command=node, args=[str(everything)]),
            table("every-http", url=urls["every-http"]),
            table("every-sse", url=urls["every-sse"], transport="sse"),
            table("files", command=node, args=[str(OFFICIAL / "server-filesystem" / "dist" / "index.js"), str(files)]),
            table("time", command=str(PYTHON_2), args=["-m", "mcp_server_time", "--local-timezone", "UTC"]),
            table("py", command=str(PYTHON_2), args=[str(SERVERS / "py2_server.py"), "py"]),
            table("py-http", url=urls["py-http"]),
            table("node", command=node, args=[str(SERVERS / "node2_server.cjs"), "node"], env=NODE_ENV),
            table("node-http", url=urls["node-http"]),
        ]
        yield stack.enter_context(running_hub(directory, "\n".join(config)))
