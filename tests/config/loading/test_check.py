"""Small judgements about settings; `test_one_file` shows the others through whole files."""

import pytest

from config.loading.check import check_hub, is_loopback, problems_of_upstream, warnings_of_upstream
from config.loading.safe_reading import Problem
from config.setting import Secret
from config.settings import HubConfig, Timeouts, UpstreamConfig


@pytest.mark.covers("SEC-01")
@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1", True),
        ("127.5.5.5", True),
        ("::1", True),
        ("localhost", True),
        ("0.0.0.0", False),
        ("::", False),
        ("", False),
        ("192.168.1.1", False),
        ("localhost.evil.test", False),
    ],
)
def test_loopback_is_what_only_this_machine_reaches(host, expected):
    assert is_loopback(host) is expected


@pytest.mark.covers("G-11")
@pytest.mark.parametrize(
    ("settings", "key", "text"),
    [
        ({"roots": ()}, "roots", "empty"),
        ({"roots": ("/home/me",)}, "roots", "file:///"),
        ({"roots": ("file:///ok", "https://example.com/")}, "roots", "file:///"),
        ({"roots": ("file://elsewhere/share",)}, "roots", "file:///"),
        ({"roots": ("file:///a b",)}, "roots", "file:///"),
        ({"roots": "host", "session_mode": "singleton"}, "roots", "allows only one"),
        ({"roots": "host", "session_mode": "shared"}, "roots", "allows only one"),
        ({"roots": "host", "client_features": "none"}, "roots", "no effect"),
        ({"timeouts": Timeouts(session_idle=0)}, "session_idle", "above 0"),
        ({"timeouts": Timeouts(session_idle=-1)}, "session_idle", "above 0"),
    ],
)
def test_sharing_that_cannot_be(settings, key, text):
    [problem] = problems_of_upstream(UpstreamConfig(command="x", **settings))
    assert problem.keys[-1] == key
    assert text in str(problem)


@pytest.mark.parametrize(
    "settings",
    [
        {"roots": ("file:///home/me", "file://localhost/c:/x%20y")},
        {"roots": ("file:///home/me",), "session_mode": "singleton"},
        {"roots": "host", "session_mode": "per_host"},
        {"roots": "host", "across_principals": True},
        {"session_mode": "singleton", "across_principals": True},
        {"client_features": "none", "roots": ("file:///home/me",)},
    ],
)
def test_sharing_that_can_be(settings):
    assert not list(problems_of_upstream(UpstreamConfig(command="x", **settings)))


@pytest.mark.parametrize(
    ("settings", "key"),
    [
        ({"park_ttl_s": -1}, "park_ttl_s"),
        ({"park_total_s": float("inf")}, "park_total_s"),
        ({"park_ttl_s": 100, "park_total_s": 99}, "park_total_s"),
        ({"synthetic_progress_s": -0.1}, "synthetic_progress_s"),
    ],
)
def test_times_that_cannot_be(settings, key):
    with pytest.raises(Problem) as caught:
        check_hub(HubConfig(**settings))
    assert caught.value.keys == (key,)


@pytest.mark.parametrize(
    ("command", "is_warned"),
    [("npx -y foo", True), ("npx", False), ("/opt/my program", False), ("./my program", False), (None, False)],
)
def test_a_command_that_holds_its_arguments(command, is_warned):
    upstream = UpstreamConfig(command=command)
    assert ['command = "npx"' in str(warning) for warning in warnings_of_upstream(upstream)] == [True] * is_warned
    assert list(warnings_of_upstream(UpstreamConfig(command=command, disabled=True))) == []


@pytest.mark.covers("F-C-02")
@pytest.mark.parametrize(
    ("settings", "keys"),
    [
        ({"command": "\ud800"}, ("command",)),
        ({"command": "x", "args": ("caf\udce9",)}, ("args",)),
        ({"command": "x", "cwd": "/caf\udce9", "disabled": True}, ("cwd",)),
        ({"command": "x", "env": {"A": Secret("\udcff")}}, ("env", "A")),
        ({"url": "http://h/", "headers": {"A": Secret("\udcff")}, "disabled": True}, ("headers", "A")),
    ],
)
def test_what_is_not_utf_8_is_refused(settings, keys):
    [problem] = problems_of_upstream(UpstreamConfig(**settings))
    assert problem.keys == keys
    assert "UTF-8" in str(problem)


@pytest.mark.covers("I-5")
@pytest.mark.parametrize("size", [0, -1, (64 << 20) - 1, (1 << 40) + 1])
def test_a_budget_of_memory_is_neither_tiny_nor_endless(size):
    with pytest.raises(Problem, match="64 MiB"):
        check_hub(HubConfig(global_buffer_bytes=size))


@pytest.mark.parametrize("size", [64 << 20, 256 << 20, 1 << 40])
def test_a_budget_of_memory(size):
    check_hub(HubConfig(global_buffer_bytes=size))
