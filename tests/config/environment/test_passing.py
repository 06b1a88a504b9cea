"""Which variables of the hub a server gets."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from config.environment.passing import PASSED, mistakes, passing, recording, select_passed, why_not_unasked
from config.secrets.detection import looks_secret

SHELL = {
    "HOME": "/home/me",
    "PATH": "/home/me/bin:/usr/bin",
    "LC_TIME": "C.UTF-8",
    "LANG": "C.UTF-8",
    "SSL_CERT_FILE": "/etc/ca.pem",
    "NODE_EXTRA_CA_CERTS": "/etc/ca.pem",
    "https_proxy": "http://proxy:3128",
    "NO_PROXY": "localhost,10.0.0.0/8",
    "DISPLAY": ":0",
    "XAUTHORITY": "/run/user/1000/xauth",
    "XDG_RUNTIME_DIR": "/run/user/1000",
    "DBUS_SESSION_BUS_ADDRESS": "unix:abstract=/tmp/dbus-x,guid=0123456789abcdef0123456789abcdef",
    "SSH_AUTH_SOCK": "/tmp/ssh-x/agent.1",
    "DOCKER_HOST": "unix:///run/user/1000/docker.sock",
    "UV_PYTHON_PREFERENCE": "managed",
    "npm_config_registry": "https://npm.example",
    "NVM_DIR": "/home/me/.nvm",
}


@pytest.mark.covers("SEC-51", "FH-5")
def test_what_programs_need_to_reach_network_and_desktop_is_passed():
    assert select_passed(SHELL) == SHELL


@pytest.mark.covers("SEC-51", "FH-5")
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("AWS_SECRET_ACCESS_KEY", "canary"),
        ("GITHUB_TOKEN", "ghp_0123456789abcdefghij"),
        ("PYTHONPATH", "/evil"),
        ("LD_PRELOAD", "/evil.so"),
        ("NODE_OPTIONS", "--inspect"),
        ("VIRTUAL_ENV", "/venv"),
        ("EDITOR", "vi"),
        ("LANG", "() { :; }; echo hacked"),
        ("https_PROXY", "() { :; }; echo hacked"),
    ],
)
def test_nothing_else_is(name, value):
    assert select_passed({name: value}) == {}


@pytest.mark.covers("SEC-51", "FH-5")
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("HTTPS_PROXY", "http://me:hunter2@proxy:3128"),
        ("UV_PUBLISH_TOKEN", "x"),
        ("UV_INDEX_URL", "https://me:hunter2@pypi.example/simple"),
        ("npm_config__authToken", "x"),
        ("XDG_ACTIVATION_TOKEN", "gnome-shell/1"),
        ("MY_SETTING", "ghp_0123456789abcdefghij"),
    ],
)
def test_a_secret_passes_by_its_full_name_only(name, value):
    for patterns in ((), ("*",), (f"{name[:-1]}*",), (f"{name[:-1]}?",), (name, f"!{name}")):
        assert select_passed({name: value}, patterns) == {}, patterns
    assert passing({name: value}, ("*",)).withheld == {name: "secret"}
    assert (
        select_passed({name: value}, (name,)) == select_passed({name: value}, ("*", name, "!NODE_*")) == {name: value}
    )


@pytest.mark.covers("FH-5")
def test_patterns_add_and_take_out_and_the_last_one_decides():
    environ = {"DISPLAY": ":0", "AWS_REGION": "here", "AWS_PROFILE": "me", "aws_region": "no"}
    assert select_passed(environ, ("AWS_*", "!DISPLAY")) == {"AWS_REGION": "here", "AWS_PROFILE": "me"}
    assert select_passed(environ, ("AWS_*", "!AWS_PROFILE", "!*DIS*", "DISPLAY")).keys() == {"AWS_REGION", "DISPLAY"}
    assert passing(environ, ("!DISPLAY", "!AWS_*")).withheld == {"DISPLAY": "pattern"}
    assert select_passed({"PATH": "/bin", "HOME": "/"}, ("!*",)) == {}


PARTS = st.sampled_from(["MY", "API", "TOKEN", "KEY", "XDG", "DIR", "PROXY", "URL", "AUTH", "UV", "x"])
NAMES = st.lists(PARTS, min_size=1, max_size=3).map("_".join)
VALUES = st.sampled_from(
    ["", "plain", "/home/me", "http://me:pw@host/", "ghp_0123456789abcdefghij", "0" * 20 + "abc" * 9]
)
PATTERNS = st.lists(
    st.one_of(NAMES, NAMES.map("!".__add__), st.sampled_from(["*", "!*", "*_*", "X*", "!XDG_*", "[MU]*"]))
)


@pytest.mark.covers("SEC-51", "FH-5")
@given(st.dictionaries(NAMES, VALUES), PATTERNS)
def test_whatever_the_patterns_are_no_secret_passes_that_is_not_named(environ, patterns):
    found = passing(environ, tuple(patterns))
    for name, value in found.passed.items():
        assert environ[name] == value
        assert name in patterns or not looks_secret(name, value)
    assert not found.passed.keys() & found.withheld.keys()


@pytest.mark.covers("SEC-51")
def test_what_was_set_for_the_hub_passes_by_no_pattern():
    environ = dict.fromkeys(("HUBD_RUNTIME_DIR", "NOTIFY_SOCKET", "LISTEN_FDS", "WATCHDOG_USEC", "INVOCATION_ID"), "/x")
    assert select_passed(environ, ("*", "HUBD_*")) == {}
    unit = {"XDG_STATE_HOME": "/var/lib/private", "STATE_DIRECTORY": "/var/lib/hubd"}
    assert select_passed(unit, ("*",)) == {}
    assert select_passed({"XDG_STATE_HOME": "/home/me/state"}) == {"XDG_STATE_HOME": "/home/me/state"}


def test_what_is_no_pattern_is_told():
    assert [*mistakes((*PASSED, "!X_*", "[AB]C"))] == []
    assert len([*mistakes(("", "!", "A=b", "A B", "A\0"))]) == 5


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
