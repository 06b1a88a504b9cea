"""Fixed arguments whose references lead nowhere: a hub that starts and reloads without their tools, and says so;
secrets among them; and values that do not fit what a tool says."""

import json
import sys

import pytest

from config.loading.assemble import Loaded
from config.profile_settings import Profile, ToolOverride
from config.secret_references import Reference, mark_reference
from config.secrets.fill_secret_values import with_given
from config.settings import HubConfig
from hub.daemon.served_configuration import START_PATIENCE_S, FixedReferences
from tests.support.attached import INITIALIZE, Host, hubd
from tests.support.looking import until, until_connected
from tests.support.processes import running_hub

TELLER = r"""
import json, sys
TOOLS = [
    {"name": "tell", "inputSchema": {"type": "object", "properties": {
        "pin": {"type": "string"}, "id": {"type": "integer"}}}},
    {"name": "other", "inputSchema": {"type": "object"}},
]
for line in sys.stdin:
    request = json.loads(line)
    id, method, params = request.get("id"), request["method"], request.get("params") or {}
    result = {}
    if method == "initialize":
        result = {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}},
                  "serverInfo": {"name": "teller", "version": "1"}}
    elif method == "tools/list":
        result = {"tools": TOOLS}
    elif method == "tools/call":
        result = {"content": [{"type": "text", "text": json.dumps(params["arguments"])}]}
    if id is not None:
        print(json.dumps({"jsonrpc": "2.0", "id": id, "result": result}), flush=True)
"""
CONFIG = """
[upstreams.teller]
command = {python}
args = ["-I", {program}]
era = "legacy"
[profiles.bare]
hosts = ["cursor"]
[profiles.bare.override.teller__tell]
fix = {{ {fix} }}
"""
SHOWING = (["status"], ["profiles"], ["doctor"], ["logs", "hub", "-n", "500"])


def hub_that_fixes(tmp_path, fix):
    program = tmp_path / "teller.py"
    program.write_text(TELLER)
    return running_hub(
        tmp_path, CONFIG.format(python=json.dumps(sys.executable), program=json.dumps(str(program)), fix=fix)
    )


class Asking:
    """One host, and what it is shown."""

    def __init__(self, host):
        self._host = host
        self._id = 0
        self.result("initialize", INITIALIZE)

    def result(self, method, params):
        self._id += 1
        self._host.ask(self._id, method, params)
        while (message := self._host.receive()).get("id") != self._id:
            pass
        return message.get("result")

    def tools(self):
        return sorted(each["name"] for each in self.result("tools/list", {})["tools"])

    def told(self):
        return json.loads(self.result("tools/call", {"name": "teller__tell", "arguments": {}})["content"][0]["text"])


BOTH = ["teller__other", "teller__tell"]


def everywhere(hub, tmp_path):
    """What each place says where people look, on one line."""
    texts = {command[0]: hubd(hub, *command).stdout for command in SHOWING}
    validated = hubd(hub, "validate", hub.config)
    assert validated.returncode == 0
    texts["validate"] = validated.stderr
    texts["log"] = (tmp_path / "hubd.log").read_text()
    return {place: " ".join(text.split()) for place, text in texts.items()}


def secret(hub, *arguments, stdin=""):
    return hubd(hub, "secret", *arguments, "--config", hub.config, stdin=stdin)


@pytest.mark.covers("EP-6")
def test_a_file_that_is_not_there_costs_its_tool_and_nothing_else(tmp_path):
    with hub_that_fixes(tmp_path, 'pin = "${file:pin}"') as hub:
        until_connected(hub.env, "teller")
        with Host(hub, host="cursor") as host:
            asking = Asking(host)
            assert asking.tools() == ["teller__other"]
            assert asking.result("tools/call", {"name": "teller__tell", "arguments": {"pin": "mine"}}) is None
            for place, text in everywhere(hub, tmp_path).items():
                assert "bare" in text, place
                assert "teller__tell" in text, place
                assert "pin" in text, place
                assert "No such file or directory" in text, place
            (tmp_path / "pin").write_text("v4lue")
            until(hub.env, lambda _: asking.tools() == BOTH)
            assert asking.told() == {"pin": "v4lue"}

            (tmp_path / "pin").unlink()
            hub.config.write_text(hub.config.read_text() + '[profiles.late]\nhosts = ["zed"]\n')
            until(hub.env, lambda _: asking.tools() == ["teller__other"])
        # Two files changed, perhaps in two reloads: the host can lose the tool before the other profile is read.
        until(hub.env, lambda _: "late" in hubd(hub, "profiles").stdout)


@pytest.mark.covers("EP-6", "SEC-61")
def test_a_secret_is_put_in_once_it_is_kept_and_shown_by_nobody(tmp_path):
    with hub_that_fixes(tmp_path, 'pin = "key ${secret:PIN}"') as hub:
        hub.env["PYTHON_KEYRING_BACKEND"] = "keyring.backends.fail.Keyring"
        until_connected(hub.env, "teller")
        with Host(hub, host="cursor") as host:
            asking = Asking(host)
            assert asking.tools() == ["teller__other"]
            for place, text in everywhere(hub, tmp_path).items():
                assert "there is no secret PIN: run `hubd secret set PIN`" in text, place
            assert "used by profile bare" in secret(hub, "set", "PIN", stdin="f1rst-s3cret\n").stdout
            until(hub.env, lambda _: asking.tools() == BOTH)
            assert asking.told() == {"pin": "key f1rst-s3cret"}
            secret(hub, "set", "PIN", stdin="s3cond-s3cret\n")
            until(hub.env, lambda _: asking.told() == {"pin": "key s3cond-s3cret"})
        effective = hubd(hub, "config", "--effective", "--config", hub.config).stdout
        assert "bare" in effective
        shown = json.dumps(everywhere(hub, tmp_path)) + effective
        assert "s3cret" not in shown
        assert "profile bare" in secret(hub, "ls").stdout


@pytest.mark.covers("EP-6")
def test_a_value_of_the_wrong_type_is_warned_of_and_the_tool_is_there(tmp_path):
    with hub_that_fixes(tmp_path, 'id = "seven", pin = "7"') as hub:
        until_connected(hub.env, "teller")
        with Host(hub, host="cursor") as host:
            assert Asking(host).tools() == BOTH
        said = "does not fit: 'teller__tell' (\"id\" is to be a whole number, and is a text)"
        for place, text in everywhere(hub, tmp_path).items():
            assert place in ("validate", "log") or said in text, place


def profiles_with(*references):
    fix = {str(number): mark_reference(each) for number, each in enumerate(references)}
    return with_given({"p": Profile(override={"a__x": ToolOverride(fix=fix)})}, {}, {})


def test_secrets_are_read_once_a_version_and_the_start_waits_for_none(tmp_path):
    asked = []

    def read(references, environ, patience_s):
        asked.append((list(references), patience_s))
        return {each: f"of {each.text}" for each in references if each.text != "LOCKED"}, {
            each: f"{each} has no value: it is locked" for each in references if each.text == "LOCKED"
        }

    a, newer, locked = (
        Reference("secret", "A", "01"),
        Reference("secret", "A", "02"),
        Reference("secret", "LOCKED", "03"),
    )
    credential = Reference("credential", "C")
    fixed = FixedReferences(read)

    def fill(*references):
        return fixed.fill(
            Loaded(config=HubConfig(profiles=profiles_with(*references)), files=(tmp_path / "hubd.toml",))
        )

    first = fill(a, locked, credential)
    (warning,) = first.warnings
    assert warning.text.startswith("${secret:LOCKED} has no value: it is locked. Then run `hubd reload`. Until")
    assert list(first.config.profiles["p"].override["a__x"].unread) == ["1"]
    assert not fill(a, credential).warnings
    assert not fill(newer).warnings
    assert [each for each, _ in asked] == [[a, locked, credential], [credential], [newer]]
    assert [patience_s for _, patience_s in asked] == [START_PATIENCE_S, 60.0, 60.0]
