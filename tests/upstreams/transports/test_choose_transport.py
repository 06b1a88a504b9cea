"""The configuration chooses the transport."""

import pytest

from config.remembered_facts import Memory
from config.settings import UpstreamConfig
from hub.link.hub_errors import UpstreamUnavailable
from tests.support.http_fixture import Ear
from upstreams.session_contract import COMMON
from upstreams.transports.choose_transport import run_session


@pytest.mark.parametrize(
    ("address", "error"),
    [
        ({"command": "no-such-command-anywhere"}, "was not found"),
        ({"url": "http://127.0.0.1:1/mcp"}, "cannot be reached at http://127.0.0.1:1"),
    ],
)
async def test_the_configuration_chooses_the_transport(address, error):
    started = []
    with pytest.raises(UpstreamUnavailable, match=error):
        await run_session(UpstreamConfig(**address), "up", Ear(), Memory(None), COMMON, started.append)
    assert started == []
