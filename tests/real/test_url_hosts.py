"""Hosts that have the hub's URL and no token: they are told what to do, not that a sign-in failed."""

import http.client
import subprocess
from urllib.parse import urlsplit

import pytest

from tests.real.recorded import table
from tests.support.processes import NODE, PACKAGES, PYTHON_2, running_hub

MCP_REMOTE = PACKAGES / "mcp-remote" / "dist" / "proxy.js"
ADVICE = "It asks for a token: run `hubd token` and send what it prints as `Authorization: Bearer TOKEN`"


@pytest.fixture(scope="module")
def time_hub(tmp_path_factory):
    config = table("time", command=str(PYTHON_2), args=["-m", "mcp_server_time", "--local-timezone", "UTC"])
    with running_hub(tmp_path_factory.mktemp("hub"), config) as hub:
        yield hub


@pytest.mark.covers("FH-12")
def test_mcp_remote_shows_the_hubs_own_sentence(time_hub, tmp_path):
    env = {**time_hub.env, "MCP_REMOTE_CONFIG_DIR": str(tmp_path / "mcp-auth"), "NO_COLOR": "1"}
    done = subprocess.run(
        [str(NODE), str(MCP_REMOTE), time_hub.url],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        env=env,
        timeout=60,
        check=False,
    )
    fatal = [line for line in done.stderr.splitlines() if "Fatal error" in line]
    assert fatal, done.stderr[-3000:]
    assert ADVICE in fatal[0]
    assert "HTTP 401" not in fatal[0]


@pytest.mark.covers("FH-12")
def test_the_token_is_asked_for_before_it_is_said_whether_a_name_exists(time_hub):
    address = urlsplit(time_hub.url).netloc

    def ask(path, **headers):
        connection = http.client.HTTPConnection(address, timeout=30)
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        said = answer.status, answer.read()
        connection.close()
        return said

    there, nobody = ask("/mcp/time"), ask("/mcp/nobody")
    assert there == nobody
    assert there[0] == 401
    bearer = {"Authorization": f"Bearer {time_hub.token}"}
    assert (ask("/mcp/time", **bearer)[0], ask("/mcp/nobody", **bearer)[0]) == (405, 404)
