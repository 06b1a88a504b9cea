"""Which variables of a shell are recorded for servers."""

from pathlib import Path

import pytest

from config.environment.variables_to_record import recording, why_not_unasked

SYSTEM = "/usr/local/bin:/usr/bin:/bin"
GOOD = {"PATH": f"/home/me/.local/bin:{SYSTEM}", "NODE_EXTRA_CA_CERTS": "/etc/ca.pem"}


@pytest.mark.covers("FH-4")
def test_what_outlives_a_login_is_recorded():
    lasting = {
        **GOOD,
        "LANG": "C.UTF-8",
        "https_proxy": "http://proxy:3128",
        "npm_config_registry": "https://npm.example",
        "XDG_CACHE_HOME": "/home/me/cache",
        "XDG_DATA_DIRS": "/usr/share",
        "DOCKER_HOST": "unix:///run/user/1000/docker.sock",
    }
    login = {
        **dict.fromkeys(("HOME", "USER", "LOGNAME", "SHELL", "TERM", "TMPDIR", "DISPLAY", "WAYLAND_DISPLAY"), "/x"),
        **dict.fromkeys(("XAUTHORITY", "XDG_RUNTIME_DIR", "XDG_SESSION_ID", "XDG_SEAT", "XDG_CURRENT_DESKTOP"), "/x"),
        **dict.fromkeys(("DBUS_SESSION_BUS_ADDRESS", "SSH_AUTH_SOCK", "HUBD_RUNTIME_DIR", "MISE_SHELL"), "/x"),
    }
    found = recording({**lasting, **login, "EDITOR": "vi"})
    assert found.values == lasting
    assert found.left_out == {}


@pytest.mark.covers("FH-4", "SEC-51")
def test_a_secret_is_recorded_only_if_pass_names_it_in_full():
    environ = {"HTTPS_PROXY": "http://me:hunter2@proxy:3128", "MY_TOKEN": "x", "MY_REGION": "here"}
    found = recording(environ)
    assert found.values == {}
    assert found.left_out.keys() == {"HTTPS_PROXY"}
    found = recording(environ, [(), ("MY_*",), ("HTTPS_PROXY", "!MY_REGION")])
    assert found.values == {"MY_REGION": "here", "HTTPS_PROXY": environ["HTTPS_PROXY"]}
    assert found.left_out.keys() == {"MY_TOKEN"}


def test_what_cannot_be_written_on_a_line_is_left_out():
    found = recording({"PATH": "/bin", "LANG": "a\nb", "NODE_EXTRA_CA_CERTS": ""})
    assert found.values == {"PATH": "/bin"}
    assert "one line" in found.left_out["LANG"]


def test_what_npm_sets_for_its_scripts_is_not_the_users():
    environ = {"npm_config_registry": "https://npm.example", "npm_config_local_prefix": "/shop"}
    assert recording(environ).values == environ
    assert recording({**environ, "npm_execpath": "/x/npm-cli.js"}).values == {}


@pytest.mark.covers("FH-4")
@pytest.mark.parametrize(
    "directory",
    [
        *("", ".", "bin", "node_modules/.bin", "/home/me/.npm/_npx/0123456789abcdef/node_modules/.bin"),
        *("/home/me/.cache/uv/archive-v0/abc/bin", "/home/me/.cache/pnpm/dlx-123/node_modules/.bin"),
    ],
)
def test_directories_of_one_run_are_not_recorded(directory):
    found = recording({"PATH": f"{directory}:/home/me/bin:{SYSTEM}:/home/me/bin/"}, commands=["npx"])
    assert found.values == {"PATH": f"/home/me/bin:{SYSTEM}"}
    assert list(found.left_out) == ([directory] if directory else [])


def program(directory: Path, name: str) -> str:
    directory.mkdir(parents=True, exist_ok=True)
    (directory / name).write_text("#!/bin/sh\n")
    (directory / name).chmod(0o755)
    return str(directory)


@pytest.mark.covers("FH-4")
def test_a_virtual_environment_goes_to_the_end_and_only_if_a_server_is_found_nowhere_else(tmp_path):
    venv = program(tmp_path / "venv" / "bin", "only-here")
    program(tmp_path / "venv" / "bin", "sh")
    for marks in ({"VIRTUAL_ENV": f"{tmp_path}/venv/"}, {"CONDA_PREFIX": f"{tmp_path}/venv", "CONDA_DEFAULT_ENV": "x"}):
        environ = {"PATH": f"{venv}:/usr/bin:/bin", **marks}
        assert recording(environ, commands=["sh", "only-here"]).values == {"PATH": f"/usr/bin:/bin:{venv}"}
        found = recording(environ, commands=["sh"])
        assert found.values == {"PATH": "/usr/bin:/bin"}
        assert "no server needs it" in found.left_out[venv]


def test_conda_itself_is_no_project():
    environ = {"PATH": "/home/me/conda/bin:/bin", "CONDA_PREFIX": "/home/me/conda", "CONDA_DEFAULT_ENV": "base"}
    assert recording(environ).values == {"PATH": "/home/me/conda/bin:/bin"}


def test_a_link_of_one_shell_is_followed_to_what_stays(tmp_path):
    version, shell = tmp_path / "node" / "bin", tmp_path / "fnm_multishells" / "1_2"
    program(version, "only-here")
    shell.mkdir(parents=True)
    (shell / "bin").symlink_to(version)
    found = recording({"PATH": f"{shell}/bin:/bin"}, commands=["only-here"])
    assert found.values == {"PATH": f"/bin:{version}"}, "at the end, since these lie among temporary files"


@pytest.mark.covers("FH-4")
@pytest.mark.parametrize("attended", [False, True])
def test_a_shell_that_has_more_is_recorded_unasked(attended):
    for recorded in (None, {"PATH": SYSTEM}, {"PATH": "/nonexistent/gone:/bin"}):
        assert why_not_unasked({}, recorded, GOOD, attended=attended) is None


@pytest.mark.covers("FH-4")
@pytest.mark.parametrize("attended", [False, True])
def test_a_shell_that_lacks_something_is_not(attended, tmp_path):
    good = {**GOOD, "PATH": f"{tmp_path}:{SYSTEM}"}
    poor = {"PATH": SYSTEM, "NODE_EXTRA_CA_CERTS": "/etc/ca.pem"}
    said = f"this shell lacks {tmp_path}" if attended else ""
    assert why_not_unasked({}, good, poor, attended=attended) == said
    assert why_not_unasked({}, good, {**poor, "PATH": f"/home/me/new:{SYSTEM}"}, attended=attended) == (
        f"this shell lacks {tmp_path}"
    )
    without = {"PATH": good["PATH"]}
    said = "this shell lacks NODE_EXTRA_CA_CERTS" if attended else ""
    assert why_not_unasked({}, good, without, attended=attended) == said


def test_scripts_change_no_value_and_record_no_poor_shell():
    other = {**GOOD, "NODE_EXTRA_CA_CERTS": "/ci/ca.pem"}
    assert why_not_unasked({}, GOOD, other, attended=True) is None
    assert "nobody is at the terminal" in str(why_not_unasked({}, GOOD, other, attended=False))
    assert why_not_unasked({}, None, {"PATH": SYSTEM}, attended=False) == ""
    assert why_not_unasked({}, None, {"PATH": SYSTEM}, attended=True) is None
    assert why_not_unasked({}, GOOD, GOOD, attended=True) == ""


@pytest.mark.parametrize("mark", ["SUDO_USER", "DIRENV_DIR", "IN_NIX_SHELL"])
def test_a_shell_that_something_else_made_is_not_recorded_unasked(mark):
    assert str(why_not_unasked({mark: "-/shop"}, None, GOOD, attended=True)).startswith("this is a shell of")
