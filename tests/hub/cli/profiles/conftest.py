"""A hub that all tests of a module share; the module says its configuration as `SERVERS`."""

import pytest

from tests.support.attached import hubd
from tests.support.processes import running_hub


@pytest.fixture(scope="module")
def lasting(request, tmp_path_factory):
    with running_hub(tmp_path_factory.mktemp("hub"), request.module.SERVERS) as hub:
        yield hub


@pytest.fixture
def hub(request, lasting):
    """The hub, with its file as it was at first."""
    servers = request.module.SERVERS
    yield lasting
    if lasting.config.read_text() != servers:
        lasting.config.write_text(servers)
        done = hubd(lasting, "reload")
        assert done.returncode == 0, done
