"""A hub that has the rights of root says so, wherever people look; in a container it says nothing."""

import json
import os
import sys

import msgspec
import pytest

from hub.cli.checks import daemons
from hub.cli.checks.evidence import Examined
from hub.cli.render.status import status as shown
from hub.control.answers import Status
from hub.daemon.root_warning import ADVICE, CONTAINER_MARKS, CONTAINER_VARIABLE, ROOT, is_root
from tests.support.attached import DEMO
from tests.support.commands import run_hubd
from tests.support.processes import HUBD, own_directories, running
from tests.support.terminal import drawn


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
    contained = CONTAINER_VARIABLE in os.environ or any(map(os.path.exists, CONTAINER_MARKS))
    assert is_root() == (os.geteuid() == 0 and not contained)


SERVE = """
import sys
import hub.daemon.root_warning
hub.daemon.root_warning.is_root = lambda: True
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
    return Examined(
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
    [found] = daemons.root(examined(status=Status(version="1", root=True)))
    assert (found.level, found.what, found.fix) == ("warning", ROOT, ADVICE)
    [found] = daemons.root(examined(status=None, root=True))
    assert found.what.startswith("you are root")
    assert "hubd service install --system" in found.fix
    for status, root in ((Status(version="1", root=False), True), (None, False)):
        assert list(daemons.root(examined(status=status, root=root))) == []
