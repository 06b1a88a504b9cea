"""Eight servers that npx installs into an empty cache, at first with less time than that takes. `make load`."""

import os
import sys
from time import perf_counter

import pytest

from tests.support.npx_servers import MANY, a_cold_hub

pytestmark = pytest.mark.everything

START_S = 12


@pytest.mark.real
@pytest.mark.covers("FH-3")
@pytest.mark.timeout(1200)
@pytest.mark.skipif(os.environ.get("HUBD_LOAD") != "full", reason="takes minutes: make load")
def test_eight_servers_are_installed_and_connected(tmp_path, capsys):
    with a_cold_hub(tmp_path, MANY, start_s=START_S) as hub:
        begun = perf_counter()
        servers = hub.until_connected(within_s=900)
        took_s = perf_counter() - begun
        with capsys.disabled():
            sys.stdout.write(f"\n8 servers, empty npm cache, start = {START_S}: connected after {took_s:.0f} s\n")
        assert sum(each["ends_lately"] for each in servers.values()) == 0, "no attempt failed"
        assert [each["state"] for each in servers.values()] == ["connected"] * 8
