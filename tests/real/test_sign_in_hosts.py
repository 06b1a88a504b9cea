"""Hosts on real SDKs send their users to the hub's page, and have the result after one sign-in."""

import json
import os
from itertools import product

import pytest

from hub.sign_in.connection_owner import ConnectionOwners
from tests.real.recorded import SERVERS
from tests.support.everything import everything_but
from tests.support.oauth.rig import open_page
from tests.support.processes import HUBD, NODE, NODE_ENV, PYTHON_2, running
from tests.support.signing_hub import signing_hub

HOSTS = SERVERS.parent / "hosts"
SDKS = {"python-2": ([PYTHON_2, HOSTS / "visiting2.py"], {}), "npm-1": ([NODE, HOSTS / "visiting.cjs"], NODE_ENV)}


@pytest.mark.parametrize(
    ("sdk", "carrier"), everything_but([("python-2", "stdio"), ("npm-1", "http")], product(SDKS, ("stdio", "http")))
)
def test_a_host_sends_its_user_to_the_page(oauth, tmp_path, sdk, carrier):
    """The modern one waits with its retry; that of 2025-11-25 calls again when it is told that the page is done."""
    notes = oauth.liar()
    argv, env = SDKS[sdk]
    with signing_hub(tmp_path, {"notes": notes.url}) as hub:
        hub.until_refused()
        plan = {"tool": "notes__sign_in", "url": hub.hub.url, "token": hub.hub.token}
        if carrier == "stdio":
            plan = {"tool": "notes__sign_in", "command": [str(HUBD), "connect"], "env": hub.hub.env}
        host_env = {**os.environ, **env}
        with running([*argv, json.dumps(plan)], tmp_path / "host.log", env=host_env, cwd=tmp_path) as host:
            visit = host.wait_for(r"^VISIT (\S+) (.*)$")
            assert (" code: " in visit[2]) == ConnectionOwners().blind
            open_page(visit[1], visit[2])
            assert "List the tools again" in host.wait_for(r"^RESULT (.*)$")[1]
            assert host.exit_code() == 0
        assert hub.call().is_good
    assert len(notes.asked("authorization")) == 1
