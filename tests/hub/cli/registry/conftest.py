"""A home whose official registry is a recorded one on loopback."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.hub.cli.test_editing import Home
from tests.support.registry_entries import EXAMPLES
from tests.support.registry_server import RegistryServer, registry_server


@pytest.fixture
def recorded() -> Iterator[RegistryServer]:
    """A registry with all examples."""
    with registry_server() as found:
        for each in EXAMPLES.values():
            found.add(each)
        yield found


@pytest.fixture
def home(tmp_path: Path, recorded: RegistryServer) -> Home:
    """A home that asks this registry, and has no keyring."""
    home = Home(tmp_path)
    home.env["PYTHON_KEYRING_BACKEND"] = "keyring.backends.fail.Keyring"
    home.write(f'[registries.official]\nurl = "{recorded.url}"\n')
    return home
