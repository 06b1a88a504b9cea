"""The banner: how hosts come in, by each kind of access."""

import json
import os
import re
import sys

import msgspec
import pytest

from config.security_settings import AccessConfig, AccessIssuer, TrustedProxy
from config.settings import HubConfig
from hub.cli.checks import running_hub
from hub.cli.checks.machine_state import MachineState
from hub.cli.render.status import status as shown
from hub.control.answers import Status
from hub.daemon.banner import ADVICE, CONTAINER_VARIABLE, MARKS, ROOT, announce, is_root
from tests.support.attached import DEMO
from tests.support.commands import run_hubd
from tests.support.processes import HUBD, own_directories, running
from tests.support.terminal import drawn

TEAM = AccessIssuer(name="team", issuer="https://id.example")
PARTNER = AccessIssuer(name="partner", issuer="https://other.example")
PROXIED = {"behind_tls_proxy": True, "allowed_hosts": ("hub.example",), "listen": "127.0.0.1:8765"}
HERE, FAR = "http://127.0.0.1:8765/mcp", "https://hub.example:8765/mcp"


class Listener:
    """A listener that stands still."""

    address = ("127.0.0.1", 8765)
    url = HERE


def entries(config, capsys):
    """What is printed: each entry by URL with the words before it, and whether it shows a token."""
    announce(Listener(), config, shown=True)
    printed = capsys.readouterr().out
    found = {}
    for title, entry in re.findall(r"^(A host [^\n]*):\n(\{.*?^\})", printed, re.M | re.S):
        (made,) = json.loads(entry)["mcpServers"].values()
        if "url" in made:
            found[made["url"]] = title, "headers" in made
    return found


@pytest.mark.parametrize(
    ("config", "with_token", "said"),
    [
        (HubConfig(), {HERE: True}, "TOKEN stands for"),
        (HubConfig(auth="none"), {HERE: False}, "that opens URLs"),
        (
            HubConfig(auth="oauth", access=AccessConfig(issuers=(TEAM, PARTNER))),
            {HERE: False},
            "hosts sign in at https://id.example or https://other.example",
        ),
        (
            HubConfig(auth="oauth", access=AccessConfig(issuers=(TEAM,)), **PROXIED),
            {FAR: False, HERE: True},
            "hosts sign in at https://id.example",
        ),
        (
            HubConfig(auth="proxy", access=AccessConfig(proxy=TrustedProxy(header="X-P", peer_uid=(0,))), **PROXIED),
            {FAR: False, HERE: True},
            "the proxy says who comes",
        ),
        (HubConfig(**PROXIED), {FAR: True, HERE: True}, "TOKEN stands for"),
    ],
)
def test_an_entry_shows_the_token_that_opens_the_hub(config, with_token, said, capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("HUBD_RUNTIME_DIR", str(tmp_path))
    found = entries(config, capsys)
    assert {url: shows for url, (_, shows) in found.items()} == with_token
    assert said in next(iter(found.values()))[0]


@pytest.mark.covers("SEC-94")
def test_root_is_root_but_in_a_container(tmp_path):
    mark = tmp_path / "mark"
    assert is_root(0, [str(mark)], {})
    assert not is_root(1000, [str(mark)], {})
    assert not is_root(0, [str(mark)], {CONTAINER_VARIABLE: "10.0.0.1"})
    mark.touch()
    assert not is_root(0, [str(tmp_path / "other"), str(mark)], {})
    assert not is_root(0, [str(tmp_path)], {}), "it may be a directory"


@pytest.mark.covers("SEC-94")
def test_it_is_asked_of_this_process_and_this_machine():
    contained = CONTAINER_VARIABLE in os.environ or any(map(os.path.exists, MARKS))
    assert is_root() == (os.geteuid() == 0 and not contained)


SERVE = """
import sys
import hub.daemon.banner
hub.daemon.banner.is_root = lambda: True
from hub.cli.main import main
sys.exit(main(["serve", *sys.argv[1:]]))
"""


@pytest.mark.covers("SEC-94")
@pytest.mark.parametrize("root", [True, False])
def test_it_is_in_the_log_once_and_in_the_status(tmp_path, root):
    env = own_directories(tmp_path)
    (tmp_path / "hubd.toml").write_text(DEMO)
    start = [sys.executable, "-c", SERVE] if root else [HUBD, "serve"]
    argv = [*start, "--config", tmp_path / "hubd.toml", "--listen", "127.0.0.1:0"]
    if not root and is_root(environ=env):
        pytest.skip("it would be told so")
    with running(argv, tmp_path / "log", env=env, cwd=os.getcwd()) as process:
        process.wait_for("http://")
        done = run_hubd(["status", "--json"], env, check=True)
        status = json.loads(done.stdout)
    assert status["root"] is root
    log = (tmp_path / "log").read_text()
    assert log.count(ROOT) == root
    assert log.count(ADVICE) == root
    assert ("RUNS AS ROOT" in drawn(*shown(msgspec.convert(status, Status)))) is root


def examined(**more):
    return MachineState(
        machine=None,
        version="1",
        loaded=None,
        error=None,
        files=(),
        token=None,
        trust=None,
        directory=None,
        status_at=lambda _: None,
        **more,
    )


@pytest.mark.covers("SEC-94")
def test_the_doctor_says_what_to_do_instead():
    [found] = running_hub.root(examined(status=Status(version="1", root=True)))
    assert (found.level, found.what, found.fix) == ("warning", ROOT, ADVICE)
    [found] = running_hub.root(examined(status=None, root=True))
    assert found.what.startswith("you are root")
    assert "hubd service install --system" in found.fix
    for status, root in ((Status(version="1", root=False), True), (None, False)):
        assert list(running_hub.root(examined(status=status, root=root))) == []
