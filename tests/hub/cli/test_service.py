"""`hubd service`: units that systemd takes, and commands that leave this machine alone: `systemctl` is a stand-in."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from hub.cli import systemd_units
from tests.support.commands import run_hubd
from tests.support.processes import HUBD, ROOT, own_directories, running_hub

ANALYZE = shutil.which("systemd-analyze")
needs_systemd = pytest.mark.skipif(ANALYZE is None, reason="systemd-analyze is missing; on Debian: apt install systemd")
DEMO = "[upstreams.demo]\ncommand = 'true'\n"
AWKWARD = "with space, 100% and $dollar"


class Place:
    """A user's directories, and a `systemctl` that writes down what it is asked."""

    def __init__(self, directory):
        self.env = own_directories(directory)
        self.units = Path(self.env["XDG_CONFIG_HOME"], "systemd", "user")
        self.calls = directory / "calls"
        bin = directory / "bin"
        bin.mkdir()
        self.systemctl = bin / "systemctl"
        self.stand_in("exit 0")
        self.env["PATH"] = f"{bin}:/usr/bin:/bin"

    def stand_in(self, script):
        """What `systemctl` does once it has written down its arguments."""
        self.systemctl.write_text(f'#!/bin/sh\necho "$@" >>{shlex.quote(str(self.calls))}\n{script}\n')
        self.systemctl.chmod(0o755)

    def asked(self):
        """The calls so far, without those that only look."""
        lines = self.calls.read_text().splitlines() if self.calls.exists() else []
        self.calls.unlink(missing_ok=True)
        return [line for line in lines if " show " not in line]

    def run(self, *arguments, code=0, **env):
        done = run_hubd(["service", *arguments], self.env | env)
        assert done.returncode == code, done.stderr + done.stdout
        return done.stderr + done.stdout


@pytest.fixture
def place(tmp_path):
    return Place(tmp_path)


# --- what systemd says of the units -----------------------------------------------------------------------------------


@pytest.fixture
def command(tmp_path):
    """`hubd` at an awkward place."""
    (tmp_path / AWKWARD).mkdir()
    (link := tmp_path / AWKWARD / "hubd").symlink_to(HUBD)
    return str(link)


def verified(tmp_path, texts, *manager):
    """What `systemd-analyze verify` says of these files."""
    env = own_directories(tmp_path)
    (folder := tmp_path / "verified").mkdir(exist_ok=True)
    for name, text in texts.items():
        (folder / name).write_text(text)
    argv = [ANALYZE, "verify", "--recursive-errors=no", *manager, *(folder / name for name in texts)]
    done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=60, check=False)
    return [line for line in done.stderr.splitlines() if "man page" not in line and "verified/hubd" in line]


def texts_of(found):
    return {path.name: text for path, text in found.files.items()}


@needs_systemd
@pytest.mark.parametrize(
    "environ", [{}, {"PATH": f"/usr/bin:/{AWKWARD}\\"}, dict.fromkeys(systemd_units.PASSED, "/a b%c")]
)
def test_systemd_takes_the_units_of_a_user(tmp_path, command, environ):
    texts = texts_of(systemd_units.user_service(command, environ))
    assert verified(tmp_path, texts, "--user") == []
    for name in environ:
        assert f'Environment="{name}=/' in texts["hubd.service"]
    if "HUBD_RUNTIME_DIR" in environ:
        assert "ListenStream=/a b%%c/hubd.sock\n" in texts["hubd.socket"]
    assert verified(tmp_path, {"hubd.service": texts["hubd.service"] + "[Service]\nNoSuchKey=1\n"}, "--user")


@needs_systemd
@pytest.mark.covers("SEC-94")
def test_systemd_takes_the_unit_of_the_machine_and_calls_it_safe(tmp_path, command):
    texts = texts_of(systemd_units.system_service(command))
    assert verified(tmp_path, texts) == []
    argv = [ANALYZE, "security", "--offline=true", tmp_path / "verified" / "hubd.service"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    rating = re.search(r"Overall exposure level for hubd\.service: ([\d.]+)", done.stdout)
    assert rating is not None, done.stderr
    assert float(rating[1]) <= 2.0


def test_the_units_say_what_the_daemon_needs():
    unit = systemd_units.template("hubd.service")
    for line in ("Type=notify", "KillMode=mixed", "RestartPreventExitStatus=78", "WatchdogSec=20s", "UMask=0077"):
        assert f"\n{line}\n" in unit
        assert f"\n{line}\n" in systemd_units.template("hubd-system.service")


@pytest.mark.parametrize("path", ["/home/me/.local/bin/hubd", "/root/x/hubd", "/tmp/hubd"])
def test_a_hardened_service_does_not_start_what_it_cannot_see(path):
    assert "install hubd for everyone" in systemd_units.out_of_reach(path)
    assert systemd_units.out_of_reach("/opt/hubd/bin/hubd") is None


# --- the commands -----------------------------------------------------------------------------------------------------


def test_from_install_to_uninstall(place):
    said = place.run("install")
    assert place.asked() == ["--user daemon-reload", "--user enable hubd.socket hubd.service"]
    assert f"ExecStart={HUBD} serve\n" in (place.units / "hubd.service").read_text()
    assert f"Environment=PATH={place.env['PATH']}\n" in (place.units / "hubd.service").read_text()
    assert (place.units / "hubd.socket").stat().st_mode & 0o777 == 0o644
    for word in (f"written   {place.units / 'hubd.socket'}", "not started", "undone by: hubd service uninstall"):
        assert word in said
    assert "unchanged" in place.run("install")
    place.asked()

    said = place.run("uninstall")
    assert place.asked() == ["--user disable --now hubd.service hubd.socket", "--user daemon-reload"]
    assert f"removed {place.units / 'hubd.service'}" in said
    assert list(place.units.iterdir()) == []
    assert place.run("uninstall") == "there is nothing to uninstall\n"
    assert place.asked() == []


def test_programs_are_told(place):
    shown = json.loads(place.run("install", "--print", "--json"))
    assert [each["did"] for each in shown["files"]] == ["shown", "shown"]
    done = json.loads(place.run("install", "--json"))
    names = ["hubd.socket", "hubd.service"]
    assert done["files"] == [{"file": str(place.units / name), "did": "written"} for name in names]
    assert (done["enabled"], done["started"], done["undo"]) == (True, False, "hubd service uninstall")
    assert {(place.units / name).read_text() for name in names} == {each["text"] for each in shown["files"]}
    again = json.loads(place.run("install", "--now", "--json"))
    assert [each["did"] for each in again["files"]] == ["unchanged", "unchanged"]
    assert again["started"] is True
    gone = json.loads(place.run("uninstall", "--json"))
    assert [each["did"] for each in gone["files"]] == ["removed", "removed"]
    assert json.loads(place.run("uninstall", "--json")) == {"files": []}


def test_a_hub_that_runs_makes_way_and_no_shim_starts_another(place, tmp_path):
    with running_hub(tmp_path, DEMO) as hub:
        lock = Path(place.env["XDG_RUNTIME_DIR"], "hubd", "start.lock")
        place.stand_in(f'flock -n {shlex.quote(str(lock))} true || echo "  nobody else starts one" >>{place.calls}')
        assert "stopped the hub that ran without it" in place.run("install", "--now")
        assert hub.process.exit_code() == 0
    calls = place.asked()
    assert calls[2:] == [
        "--user stop hubd.service",
        "  nobody else starts one",
        "--user restart hubd.socket",
        "  nobody else starts one",
        "--user restart hubd.service",
        "  nobody else starts one",
    ]


def test_print_touches_nothing(place):
    shown = place.run("install", "--print")
    assert place.run("install", "--dry-run") == shown
    assert f"ExecStart={HUBD} serve\n" in shown
    assert "DynamicUser=yes" in place.run("install", "--print", "--system")
    assert (place.asked(), place.units.exists()) == ([], False)


def test_the_socket_is_where_this_shell_looks_for_it(place):
    elsewhere = f"{place.env['XDG_RUNTIME_DIR']}/hubd"
    shown = place.run("install", "--print")
    assert f"ListenStream={elsewhere}/hubd.sock\n" in shown
    assert f"Environment=HUBD_RUNTIME_DIR={elsewhere}\n" in shown
    usual = place.run("install", "--print", XDG_RUNTIME_DIR=f"/run/user/{os.getuid()}")
    assert "ListenStream=%t/hubd/hubd.sock\n" in usual
    assert "HUBD_RUNTIME_DIR" not in usual


def test_without_systemd_the_units_are_shown_with_what_to_do(place):
    place.stand_in("echo 'Failed to connect to bus: No medium found' >&2; exit 1")
    said = place.run("install", code=1)
    assert "`systemctl --user` does not work here: Failed to connect to bus: No medium found; nothing was" in said
    assert "ListenStream=" in said
    place.systemctl.unlink()
    said = place.run("install", "--now", code=1, PATH=str(place.systemctl.parent))
    assert "there is no systemctl on this machine; nothing was changed" in said
    assert "`hubd connect` starts the hub without any service" in said
    assert not place.units.exists()
    assert "not installed" in place.run("status", code=1, PATH=str(place.systemctl.parent))


def test_a_manager_that_refuses_is_quoted(place):
    place.stand_in('case "$*" in *enable*) echo "Unit is masked." >&2; exit 1;; esac')
    said = place.run("install", code=1)
    assert "hubd: `systemctl --user enable hubd.socket hubd.service` failed: Unit is masked." in said


def test_units_of_others_are_left_alone(place):
    place.units.mkdir(parents=True)
    (mine := place.units / "hubd.service").write_text("[Service]\nExecStart=/my/own\n")
    assert "was not written by `hubd service install`" in place.run("install", code=1)
    assert mine.read_text() == "[Service]\nExecStart=/my/own\n"
    assert not (place.units / "hubd.socket").exists()
    place.run("uninstall")
    assert mine.exists()


def test_status(place):
    assert "not installed" in place.run("status", code=1)
    place.run("install")
    place.stand_in(
        "echo ActiveState=active; echo SubState=running; echo UnitFileState=enabled; echo 'StatusText=3 hosts'"
    )
    said = place.run("status")
    assert f"{place.units / 'hubd.service'}  installed" in said
    assert "hubd.service  enabled, active, running, 3 hosts" in said
    assert '"ActiveState": "active"' in place.run("status", "--json")
    (place.units / "hubd.service").write_text("# hubd service install of long ago\n")
    assert "differs from what `hubd service install` would write" in place.run("status")


def test_a_variable_that_only_the_shell_knows_is_noted(place):
    directory = Path(place.env["XDG_CONFIG_HOME"], "hubd")
    directory.mkdir(mode=0o700)
    (directory / "hubd.toml").write_text(
        "[upstreams.x]\nurl = 'https://example.com'\nheaders = { A = '${MY_TOKEN}' }\n"
    )
    said = place.run("install", MY_TOKEN="x")
    assert "MY_TOKEN" in said
    assert f"belong into {directory / 'hubd.env'}" in said
    (directory / "hubd.env").write_text("# mine\nMY_TOKEN='secret'\n")
    assert "MY_TOKEN" not in place.run("install", MY_TOKEN="x")


def test_service_alone_is_wrong_usage(place):
    assert "install" in place.run(code=2)


# --- in a wheel -------------------------------------------------------------------------------------------------------


def test_a_wheel_holds_the_units(tmp_path):
    argv = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", tmp_path / "dist"]
    subprocess.run(argv, cwd=ROOT, capture_output=True, timeout=120, check=True)
    [wheel] = (tmp_path / "dist").glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        tops = {name.split("/")[0] for name in archive.namelist()}
        assert {top for top in tops if not top.startswith("mcp_hubd-")} == {"cache", "config", "hub", "upstreams"}
        archive.extractall(tmp_path / "site")
        assert not [name for name in archive.namelist() if name.endswith((".md", ".cfg", ".conf"))]
    code = """if True:
        import os, sys
        sys.path.insert(0, sys.argv[1])
        from hub.cli import systemd_units
        assert systemd_units.__file__.startswith(sys.argv[1])
        units = [name for name in os.listdir(sys.argv[2]) if name.endswith((".service", ".socket"))]
        assert len(units) == 3
        for name in units:
            assert systemd_units.template(name) == open(os.path.join(sys.argv[2], name)).read(), name
        print("found")
    """
    argv = [sys.executable, "-I", "-c", code, str(tmp_path / "site"), str(ROOT / "systemd")]
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(argv, env=env, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout, done.stderr) == ("found\n", "")
