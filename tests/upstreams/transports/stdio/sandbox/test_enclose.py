"""The sandbox of one process: when there is one, why there is none, and what of the machine it shows."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from config.loading.assemble import load_all
from config.security_settings import Sandbox
from config.settings import UpstreamConfig
from hub.link.hub_errors import UpstreamConfined
from tests.support.sandboxes import Machine
from upstreams.transports.stdio.process import child_environment
from upstreams.transports.stdio.sandbox.arguments import Bind
from upstreams.transports.stdio.sandbox.enclose import FORBIDDEN, NOT_INSTALLED, Sandboxes


@pytest.fixture
def machine(tmp_path, monkeypatch):
    return Machine(tmp_path, monkeypatch)


def server(command="true", cwd="/", args=(), **box):
    return UpstreamConfig(command=command, args=args, cwd=str(cwd), sandbox=Sandbox(**box))


async def enclose(sandboxes, config):
    return await sandboxes.enclose(config, "up", child_environment(config, os.environ))


def bwrap_that(path, script):
    """A program in the place of bubblewrap."""
    path.mkdir()
    (path / "bwrap").write_text(f"#!/bin/sh\n{script}\n")
    (path / "bwrap").chmod(0o755)
    return Sandboxes(environ={"PATH": str(path)})


# --- whether there is one ---------------------------------------------------------------------------------------------


@pytest.mark.covers("BOX-10")
async def test_a_server_is_shielded_unasked_where_bubblewrap_works(machine):
    found = await enclose(machine.sandboxes(), server())
    assert (found.preset, found.why) == ("shield", "")
    assert found.bubblewrap[0] == str(machine.found.path)
    assert found.places.hidden[:2] == (str(machine.state), str(machine.run))


@pytest.mark.covers("BOX-10")
async def test_where_it_is_not_installed_there_is_no_sandbox_and_the_reason_is_said(machine, tmp_path, monkeypatch):
    monkeypatch.setattr("os.defpath", str(tmp_path))
    found = await enclose(Sandboxes(environ={"PATH": str(tmp_path)}), server())
    assert (found.preset, found.why, found.words()) == ("off", NOT_INSTALLED, [])


@pytest.mark.covers("BOX-10")
@pytest.mark.parametrize(
    ("script", "said"),
    [
        ('echo "bwrap: setting up uid map: Permission denied" >&2; exit 1', "setting up uid map: Permission denied"),
        ('echo "bwrap: Unknown option --cap-drop" >&2; exit 1', "Unknown option --cap-drop"),
        ("exit 3", "status 3"),
    ],
)
async def test_where_it_does_not_work_there_is_none_either(machine, tmp_path, script, said):
    found = await enclose(bwrap_that(tmp_path / "bin", script), server())
    assert found.preset == "off"
    assert found.why.startswith(FORBIDDEN.partition("{")[0])
    assert said in found.why


@pytest.mark.covers("BOX-10")
async def test_one_that_is_installed_later_counts_at_the_next_start(machine, tmp_path):
    sandboxes = bwrap_that(tmp_path / "bin", "exit 1")
    assert (await enclose(sandboxes, server())).preset == "off"
    (tmp_path / "bin/bwrap").write_text("#!/bin/sh\nexit 0\n")
    assert (await enclose(sandboxes, server())).preset == "shield"
    (tmp_path / "bin/bwrap").write_text("#!/bin/sh\nexit 1\n")  # it worked once: it is not tried again
    assert (await enclose(sandboxes, server())).preset == "shield"


@pytest.mark.covers("BOX-10")
async def test_snaps_programs_that_change_their_user_and_hubs_get_none_unasked(machine, tmp_path):
    own = tmp_path / "sudo"
    own.write_bytes(b"")
    own.chmod(0o755 | stat.S_ISUID)
    for config in (
        server("/snap/bin/x"),
        server(str(own)),
        server("podman", args=("run", "-i", "mcp/time")),
        server("/usr/local/bin/hubd"),
        server("uvx", args=("mcp-hubd", "serve", "--stdio")),
        server(sys.executable, args=("-m", "hub", "serve", "--stdio")),
    ):
        found = await enclose(machine.sandboxes(), config)
        assert found.preset == "off"
        assert found.why
    assert (await enclose(machine.sandboxes(), server(str(own), preset="shield"))).preset == "shield"


@pytest.mark.covers("BOX-11")
async def test_a_written_preset_that_cannot_be_had_stops_the_server(machine, tmp_path):
    sandboxes = bwrap_that(tmp_path / "bin", "exit 1")
    for preset in ("shield", "own-home", "offline"):
        with pytest.raises(UpstreamConfined, match='sandbox "' + preset + '" cannot be had: .* fallback = "off"'):
            await enclose(sandboxes, server(preset=preset))
    found = await enclose(sandboxes, server(preset="own-home", fallback="off"))
    assert found.preset == "off"
    assert found.why


@pytest.mark.covers("BOX-11")
async def test_what_is_to_be_shown_has_to_be_there(machine):
    with pytest.raises(UpstreamConfined, match="/nowhere is not there: make it, or take it out"):
        await enclose(machine.sandboxes(), server(preset="own-home", read=("/nowhere",)))


async def test_off_is_no_sandbox(machine):
    assert (await enclose(machine.sandboxes(), server(preset="off"))).words() == []


@pytest.mark.covers("BOX-14")
async def test_limits_hold_without_a_sandbox_too_but_for_that_of_processes(machine, tmp_path):
    found = await enclose(machine.sandboxes(), server(preset="off", memory_bytes=1 << 30))
    assert found.words()[1:] == [f"--data={1 << 30}"]
    found = await enclose(bwrap_that(tmp_path / "bin", "exit 1"), server(memory_bytes=1 << 30, processes=9))
    assert found.words()[1:] == [f"--data={1 << 30}"]


# --- what it shows ----------------------------------------------------------------------------------------------------


@pytest.mark.covers("BOX-12")
async def test_the_files_of_the_configuration_are_guarded_and_variables_closed(machine):
    (machine.config / "upstreams.d").mkdir()
    (machine.config / "upstreams.d/a.toml").write_text('[upstreams.a]\ncommand = "true"\n')
    (machine.config / "data.sqlite").write_text("")
    loaded = load_all(None, os.environ)
    places = (await enclose(machine.sandboxes(lambda: loaded), server())).places
    guarded = {Path(bind.at) for bind in places.guarded}
    assert guarded == {
        machine.config / "hubd.toml",
        machine.config / "upstreams.d",
        machine.config / "upstreams.d/a.toml",
    }
    assert places.closed == (str(machine.config / "hubd.env"),)
    assert str(machine.config) not in places.hidden  # something of a server's is kept there


@pytest.mark.covers("BOX-12")
async def test_a_directory_with_no_files_but_the_hubs_own_is_hidden(machine):
    (machine.config / "programs").mkdir()
    loaded = load_all(None, os.environ)
    places = (await enclose(machine.sandboxes(lambda: loaded), server())).places
    assert str(machine.config) in places.hidden
    assert places.beside == (str(machine.config / "programs"),)


@pytest.mark.covers("BOX-12")
async def test_a_home_of_its_own_shows_tool_chains_and_what_is_named(machine, tmp_path, monkeypatch):
    (machine.home / ".nvm").mkdir()
    (machine.home / "my-go").mkdir()
    (tmp_path / "real").mkdir()
    (machine.home / "src").symlink_to(tmp_path / "real")
    monkeypatch.setenv("GOROOT", str(machine.home / "my-go"))
    monkeypatch.setenv("JAVA_HOME", str(machine.home))  # would show everything
    monkeypatch.setenv("PYENV_ROOT", "")
    config = server(
        cwd=machine.home / "notes", preset="own-home", read=(str(machine.home / "src"),), write=("/var/tmp",)
    )
    places = (await enclose(machine.sandboxes(), config)).places
    assert places.home == str(machine.home)
    assert places.own == str(machine.state / "homes/up")
    assert (machine.state / "homes/up").is_dir()
    shown = {bind.at: bind.source for bind in places.shown if bind.at.startswith(str(machine.home))}
    wanted = {".nvm": ".nvm", "my-go": "my-go", "notes": "notes", "src": "../real"}
    assert shown == {str(machine.home / at): str((machine.home / source).resolve()) for at, source in wanted.items()}
    assert places.writable == (Bind("/var/tmp", "/var/tmp"),)
    assert places.cwd == str(machine.home / "notes")


@pytest.mark.covers("BOX-12")
async def test_a_link_that_a_server_made_leads_no_server_anywhere(machine, tmp_path):
    """What a server may write, it may replace by a link to what it is not shown, for its next start."""
    (inbox := machine.home / "inbox").mkdir()
    (inbox / "done").symlink_to(machine.home / ".ssh")
    (machine.home / "archive").symlink_to("inbox/done")  # the user's own, as it was meant
    (inbox / "theirs").mkdir()
    (tmp_path / "mail").symlink_to(inbox)
    for path in (inbox / "done", machine.home / "archive", tmp_path / "mail/done"):
        both = server(preset="own-home", write=(str(inbox), str(path)))
        with pytest.raises(UpstreamConfined, match=f"{inbox}/done; name its target"):
            await enclose(machine.sandboxes(), both)
    config = server(preset="own-home", read=(str(tmp_path / "mail/theirs"),), write=(str(tmp_path / "mail"),))
    places = (await enclose(machine.sandboxes(), config)).places
    assert places.writable == (Bind(str(inbox), str(tmp_path / "mail")),)
    text = f"[upstreams.a]\ncommand = 'a'\nsandbox = {{ preset = 'own-home', write = ['{inbox}'] }}\n"
    (machine.config / "hubd.toml").write_text(text)
    loaded = load_all(None, os.environ)
    with pytest.raises(UpstreamConfined, match="a link that a server may have made"):
        await enclose(machine.sandboxes(lambda: loaded), server(preset="own-home", read=(str(inbox / "done"),)))


@pytest.mark.covers("BOX-12")
async def test_a_working_directory_that_nobody_chose_or_that_holds_the_home_is_not_shown(machine, tmp_path):
    loaded = load_all(None, os.environ)
    places = (await enclose(machine.sandboxes(lambda: loaded), server(cwd=machine.config, preset="own-home"))).places
    assert places.cwd == ""
    places = (await enclose(machine.sandboxes(), server(cwd=tmp_path, preset="own-home"))).places
    assert places.cwd == str(tmp_path)
    assert str(tmp_path) not in {bind.at for bind in places.shown}


@pytest.mark.covers("BOX-11")
async def test_a_user_without_a_home_cannot_have_another(machine, monkeypatch):
    monkeypatch.setenv("HOME", "/")
    with pytest.raises(UpstreamConfined, match="the home directory /"):
        await enclose(machine.sandboxes(), server(preset="own-home"))


@pytest.mark.covers("BOX-16")
@pytest.mark.parametrize("preset", ["shield", "own-home", "offline"])
def test_presets_can_be_had_by_any_user(machine, preset):
    """As `nobody`, from a directory that `nobody` may enter."""
    assert machine.sandboxes().problem_of(preset) == ""
    if os.getuid() == 0:
        from upstreams.transports.stdio.sandbox.arguments import ALL, SKELETONS

        argv = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
        argv += [str(machine.found.path), *ALL, *SKELETONS[preset], "id", "-u"]
        done = subprocess.run(argv, capture_output=True, env=machine.found.env, cwd="/", timeout=30)
        assert done.stdout.split() == [b"65534"], done.stderr
