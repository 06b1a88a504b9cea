"""A home whose official registry is a recorded one on loopback."""

import contextlib
import io
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hub.cli.main import main
from tests.hub.cli.configuration.test_make_change import Home
from tests.support.registry_entries import EXAMPLES
from tests.support.registry_server import RegistryServer, registry_server


class QuickHome(Home):
    """A home whose commands run in this process: most of the time of a command is the start of its own."""

    def run(self, *arguments: object, code: int = 0, **env: str) -> str:
        """Everything a command says."""
        out, err, before = io.StringIO(), io.StringIO(), dict(os.environ)
        with contextlib.ExitStack() as stack:
            nobody = stack.enter_context(open(os.devnull, encoding="utf-8"))
            stack.callback(setattr, sys, "stdin", sys.stdin)
            stack.callback(os.environ.update, before)
            stack.callback(os.environ.clear)
            sys.stdin = nobody
            os.environ.clear()
            os.environ.update(self.env | env)
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                found = main([str(each) for each in arguments])
        said = out.getvalue() + err.getvalue()
        assert found == code, said
        return said


@pytest.fixture
def recorded() -> Iterator[RegistryServer]:
    """A registry with all examples."""
    with registry_server() as found:
        for each in EXAMPLES.values():
            found.add(each)
        yield found


@pytest.fixture
def home(tmp_path: Path, recorded: RegistryServer) -> QuickHome:
    """A home that asks this registry, and has no keyring."""
    home = QuickHome(tmp_path)
    home.env["PYTHON_KEYRING_BACKEND"] = "keyring.backends.fail.Keyring"
    home.write(f'[registries.official]\nurl = "{recorded.url}"\n')
    return home
