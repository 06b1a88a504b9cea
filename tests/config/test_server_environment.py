"""The environment of servers as `hubd env` shows it."""

import pytest

from config.loading.assemble import load_all
from config.server_environment import shown_environment

TEXT = """[defaults]
env = { ALL = "plain" }
pass = ["MY_*", "SECRET_THING", "!DISPLAY"]
[upstreams.one]
command = "x"
env = { PATH = "/mine" }
pass = ["DISPLAY"]
"""
SHELL = {
    "PATH": "/usr/bin",
    "DISPLAY": ":0",
    "MY_REGION": "here",
    "MY_TOKEN": "canary",
    "SECRET_THING": "canary",
    "HTTPS_PROXY": "http://me:canary@proxy",
    "NOTIFY_SOCKET": "/run/notify",
}


@pytest.mark.covers("SEC-51", "SEC-61", "FH-4")
def test_each_value_says_where_it_comes_from_and_secrets_stay_secret(tmp_path):
    path, own = tmp_path / "hubd.toml", tmp_path / "hubd.env"
    path.write_text(TEXT)
    own.write_text("# mine\nPATH=/all\nMY_REGION=there\n")
    loaded = load_all(path, SHELL)
    for name, expected, withheld in (
        (None, {"ALL": 2}, {"DISPLAY": "pattern", "HTTPS_PROXY": "secret", "MY_TOKEN": "secret"}),
        ("one", {"ALL": 2, "PATH": 6}, {"HTTPS_PROXY": "secret", "MY_TOKEN": "secret"}),
    ):
        shown = shown_environment(loaded, name)
        assert "canary" not in str(shown)
        by_name = {each.name: each for each in shown.variables}
        assert {each.name: each.line for each in shown.variables if each.source == "configuration"} == expected
        assert {by_name[each].value for each in expected} == {"***"}
        assert {by_name[each].file for each in expected} == {str(path)}
        region = by_name["MY_REGION"]
        assert (region.value, region.source, region.file, region.line) == ("there", "hubd.env", str(own), 3)
        assert (by_name["SECRET_THING"].value, by_name["SECRET_THING"].source) == ("***", "environment")
        assert {each.name: each.reason for each in shown.withheld} == withheld
        assert ("DISPLAY" in by_name) == (name == "one")
        assert [*by_name] == sorted(by_name)
