"""The MCP Inspector's command line as host: one connection per question."""

import json
import subprocess

import pytest

from tests.support.processes import HUBD, NODE, PACKAGES

pytestmark = pytest.mark.everything

INSPECTOR = PACKAGES / "@modelcontextprotocol" / "inspector" / "clients" / "cli" / "build" / "index.js"
LIMIT_S = 60


@pytest.fixture(params=[("http", "legacy"), ("http", "modern"), ("stdio", "legacy")], ids="-".join)
def ask(request, hub, records):
    """Ask the hub something over one transport, in one era; the answer's JSON."""
    way, era = request.param
    if way == "http":
        target = ["--server-url", hub.url, "--transport", "http", "--header", f"Authorization: Bearer {hub.token}"]
    else:
        target = records.tee("host", "inspector", [HUBD, "connect", "--host", "inspector"])
        for name, value in hub.env.items():
            if name == "HOME" or name.startswith("XDG_"):
                target += ["-e", f"{name}={value}"]

    def ask(*question):
        argv = [str(NODE), str(INSPECTOR), *target, "--protocol-era", era, "--quiet", *question]
        done = subprocess.run(argv, capture_output=True, text=True, env=hub.env, timeout=LIMIT_S, check=False)
        assert done.returncode == 0, f"{done.stderr[-2000:]}\nhub:\n{hub.process.tail()}"
        return json.loads(done.stdout)

    return ask


def test_inspector_lists_calls_reads_and_prompts(ask):
    names = {tool["name"] for tool in ask("--method", "tools/list")["tools"]}
    assert {"everything__echo", "py__echo", "node-http__echo", "time__get_current_time"} <= names
    called = ask("--method", "tools/call", "--tool-name", "node__add", "--tool-arg", "a=2", "b=3")
    assert called["structuredContent"] == {"result": 5}
    read = ask("--method", "resources/read", "--uri", "py://item/7")
    assert read["contents"][0]["text"] == "item 7 of py"
    got = ask("--method", "prompts/get", "--prompt-name", "every-http__simple-prompt")
    assert got["messages"][0]["content"]["type"] == "text"
