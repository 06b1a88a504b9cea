"""Which variables of the hub a server gets."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from config.environment.pass_variables_by_patterns import PASSED, mistakes, passing, select_passed
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
