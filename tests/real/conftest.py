"""One hub in front of all real servers, for all tests of this folder, and a record of its messages."""

import contextlib
import os
import shutil
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.real.recorded import OFFICIAL, SERVERS, Records, table
from tests.support.debian import find
from tests.support.processes import NODE_ENV, PYTHON_2, free_port, running, running_hub

LONG = ("test_cold_starts.py", "test_container.py", "test_replicas_served.py", "test_installed.py")
"""Modules with tests that take half a minute."""


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(items):
    """Mark all tests of this folder before other hooks look. They stand together, and what they share ends with the
    last of them in a process: its relays are threads of this process, and tests that count its descriptors would see
    them. Tests that share records, or a fixture of their module, run in one process, or each would make its own. What
    takes longest comes first, or one process would go on alone at the end: those of the records, with the check of
    these after them, the others that share something, those of `LONG`."""
    here = {item for item in items if item.path.parent == Path(__file__).parent}
    for item in here:
        item.add_marker(pytest.mark.real)
        if "records" in item.fixturenames:
            item.add_marker(pytest.mark.xdist_group("flows" if item.path.name == "test_flows.py" else "records"))
        elif _shares_a_fixture(item) and not item.get_closest_marker("xdist_group"):
            item.add_marker(pytest.mark.xdist_group(item.path.stem))
    yield
    items.sort(key=lambda item: _place(item) if item in here else (False, 0))


def _shares_a_fixture(item):
    return any(each.scope == "module" for found in item._fixtureinfo.name2fixturedefs.values() for each in found)


def _place(item):
    if item.path.name == "test_real_traffic.py":
        return True, 1
    if "records" in item.fixturenames:
        return True, 0
    if item.get_closest_marker("xdist_group"):
        return True, 2
    return True, 3 if item.path.name in LONG else 4


@pytest.fixture(scope="package", autouse=True)
def bubblewrap(tmp_path_factory):
    """Bubblewrap, where hubs find it: so servers run as they do by default on machines that have it."""
    (folder := tmp_path_factory.mktemp("bubblewrap")).chmod(0o755)
    if (found := find("bwrap")) is not None:
        (folder / "bwrap").symlink_to(found.path)
    before = os.environ["PATH"]
    os.environ["PATH"] = f"{folder}:{before}"
    yield
    os.environ["PATH"] = before


@pytest.fixture(scope="package")
def files(tmp_path_factory):
    """The folder that the filesystem server may see."""
    folder = tmp_path_factory.mktemp("files").resolve()
    (folder / "hello.txt").write_text("hello from a file\n")
    return folder


@pytest.fixture(scope="package")
def records(tmp_path_factory):
    return Records(tmp_path_factory.mktemp("records"))


@pytest.fixture(scope="package")
def hub(tmp_path_factory, files, records):
    """A running hub whose upstreams are all the real servers, old and new, over every transport; all are recorded.

    Its URL is that of a relay which records the hosts.
    """
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
        for name, url in urls.items():
            parts = urlsplit(url)
            relay = stack.enter_context(records.relay("upstream", name, parts.port))
            urls[name] = parts._replace(netloc=relay.address).geturl()
        front = stack.enter_context(records.relay("host", "hub"))

        def child(name, *argv, **entries):
            command, *args = records.tee("upstream", name, argv)
            return table(name, command=command, args=args, **entries)

        node = shutil.which("node")
        config = [
            f'allowed_hosts = ["{front.address}"]',
            # Claims of contested URIs then go by the order below, however slowly the servers start.
            "startup_grace_s = 60.0",
            child("everything", node, everything),
            table("every-http", url=urls["every-http"]),
            table("every-sse", url=urls["every-sse"], transport="sse"),
            child("files", node, OFFICIAL / "server-filesystem" / "dist" / "index.js", files),
            child("time", PYTHON_2, "-m", "mcp_server_time", "--local-timezone", "UTC"),
            # Each host its own: beside the calls of others nobody can tell whose a log message is.
            child("py", PYTHON_2, SERVERS / "py2_server.py", "py", session_mode="per_host"),
            table("py-http", url=urls["py-http"]),
            child("node", node, SERVERS / "node2_server.cjs", "node", env=NODE_ENV, session_mode="per_host"),
            table("node-http", url=urls["node-http"]),
        ]
        started = stack.enter_context(running_hub(directory, "\n".join(config)))
        parts = urlsplit(started.url)
        front.port = parts.port
        yield started._replace(url=parts._replace(netloc=front.address).geturl())
