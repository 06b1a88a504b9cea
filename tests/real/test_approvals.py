"""Approvals with hosts and servers on the official SDKs of both eras: asked in the host, called only after a yes."""

import json
import subprocess
from pathlib import Path

import pytest

from tests.real.recorded import SERVERS, table
from tests.support.attached import said
from tests.support.everything import draw
from tests.support.looking import until_connected
from tests.support.processes import HUBD, PYTHON_1, PYTHON_2, running_hub

HOSTS = Path(__file__).parent / "hosts"
LIMIT_S = 60
PROGRAMS = {"L": (PYTHON_1, "approving1.py"), "M": (PYTHON_2, "approving2.py")}
SERVERS_OF = {"L": "old", "M": "new"}
ONCE = {"action": "accept", "content": {"decision": "once"}}
SESSION = {"action": "accept", "content": {"decision": "session"}}
HOUR = {"action": "accept", "content": {"decision": "hour"}}
MANY = {"elicitation": {"per_minute": 100}}
"""For servers that all tests here cause to ask, within a minute where the machine is fast."""


@pytest.fixture(scope="module")
def hub(tmp_path_factory):
    servers = [
        table(
            "old",
            command=str(PYTHON_1),
            args=[str(SERVERS / "flows1_server.py"), "old"],
            session_mode="per_host",
            **MANY,
        ),
        table("new", command=str(PYTHON_2), args=[str(SERVERS / "flows2_server.py"), "new"], **MANY),
        '[policy]\nask = ["*"]',
    ]
    with running_hub(tmp_path_factory.mktemp("hub"), "\n".join(["startup_grace_s = 60.0", *servers])) as hub:
        until_connected(hub.env, "old", "new")
        yield hub


@pytest.mark.covers("POL-21", "POL-23")
@pytest.mark.parametrize(("pair", "way"), draw(3, ["LL", "LM", "ML", "MM"], ["stdio", "http"]))
def test_hosts_on_the_sdks_ask_their_users(hub, pair, way):
    python, script = PROGRAMS[pair[0]]
    tool = f"{SERVERS_OF[pair[1]]}__elicit"
    for_longer = HOUR if (pair[0], way) == ("M", "http") else SESSION
    answers = [{"action": "decline"}, {"action": "cancel"}, ONCE, for_longer]
    form = {"action": "accept", "content": {"name": "Ann"}}
    plan = {"tool": tool, "arguments": {"text": "Name?"}, "answers": answers, "calls": 5, "form": form}
    host = f"sdk-{pair}-{way}".lower()  # of this test alone: what one host may have people asked in a minute is limited
    if way == "http":
        plan |= {"url": hub.url, "token": said(hub, "token", "new", host, "--host", host).split()[0]}
    else:
        plan |= {"command": [str(HUBD), "connect", "--host", host], "env": hub.env}
    done = subprocess.run([python, HOSTS / script, json.dumps(plan)], capture_output=True, text=True, timeout=LIMIT_S)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    by_hub = [message for message in report["asked"] if message.startswith('hubd: may "')]
    assert len(by_hub) == 4, report  # the last call needed no question
    assert all(f"run {tool}?" in message for message in by_hub)
    assert len(report["asked"]) == 4 + 3, report  # what the server asked was asked behind the yes
    errors = [error for error, _ in report["results"]]
    assert errors == [True, True, False, False, False], report
    texts = [text for _, text in report["results"]]
    assert texts[0].startswith("Not run: the user said no.")
    assert texts[1].startswith("Not run: a person has to approve this first.")
