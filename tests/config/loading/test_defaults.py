"""`[defaults]` of the main file: settings of all servers."""

from pathlib import Path

import pytest

from config.diagnostics import ConfigError
from config.loading.assemble import Loaded, load_all
from config.loading.gather import gather
from config.projects import load_project
from config.setting_declarations import Secret
from config.settings import HubConfig, ServerSettings, Timeouts
from config.show.effective import hub_settings, upstreams

ALL = """
[defaults]
env = { A = "all", B = "all" }
pass = ["AWS_*", "!DISPLAY"]
timeouts = { call = 600, start = 90 }
era = "legacy"
[upstreams.one]
command = "x"
[upstreams.two]
command = "y"
env = { B = "own" }
pass = ["DISPLAY"]
timeouts = { start = 5 }
era = "modern"
[upstreams.web]
url = "http://h/mcp"
"""


@pytest.fixture
def read(tmp_path: Path):
    def read(text: str, environ: dict[str, str] | None = None, *, partly: bool = False) -> Loaded:
        path = tmp_path / "hubd.toml"
        path.write_text(text)
        return load_all(path, environ or {}, partly=partly)

    return read


def refusal(read, text: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        read(text)
    return [str(each).partition("hubd.toml, ")[2] for each in caught.value.diagnostics]


@pytest.mark.covers("FH-5")
def test_a_servers_own_value_wins_and_tables_are_joined_by_key(read):
    servers = read(ALL).config.upstreams
    assert servers["one"].env == {"A": Secret("all"), "B": Secret("all")}
    assert servers["two"].env == {"A": Secret("all"), "B": Secret("own")}
    assert servers["one"].pass_ == ("AWS_*", "!DISPLAY")
    assert servers["two"].pass_ == ("AWS_*", "!DISPLAY", "DISPLAY")
    assert servers["one"].timeouts == Timeouts(call=600, start=90)
    assert servers["two"].timeouts == Timeouts(call=600, start=5)
    assert [each.era for each in servers.values()] == ["legacy", "modern", "legacy"]
    assert servers["web"].env == {}
    assert servers["web"].pass_ == ()
    assert servers["web"].timeouts == Timeouts(call=600, start=90)


@pytest.mark.covers("FH-5")
def test_a_server_may_say_the_usual_value_again(read):
    text = '[defaults]\ndisabled = true\ncache = false\n[upstreams.a]\ncommand = "x"\ndisabled = false\ncache = true\n'
    server = read(f'{text}[upstreams.b]\ncommand = "x"\n').config.upstreams
    assert [(each.disabled, each.cache) for each in server.values()] == [(False, True), (True, False)]


def test_they_hold_for_imported_servers_and_for_those_of_hosts(read, tmp_path):
    (tmp_path / "imported").mkdir()
    (tmp_path / "imported" / "cursor.toml").write_text('[upstreams.a]\ncommand = "x"\nenv = { A = "1" }\n')
    (tmp_path / "upstreams.d").mkdir()
    (tmp_path / "upstreams.d" / "b.json").write_text('{"mcpServers": {"b": {"command": "x"}}}')
    servers = read('[defaults]\npass = ["X"]\nenv = { A = "0", B = "0" }\n').config.upstreams
    assert servers["a"].env == {"A": Secret("1"), "B": Secret("0")}
    assert servers["a"].pass_ == servers["b"].pass_ == ("X",)


@pytest.mark.covers("FH-5")
@pytest.mark.parametrize("key", ["command", "args", "cwd", "url", "headers", "prefix", "aliases"])
def test_what_says_which_server_one_is_does_not_stand_there(read, key):
    loaded = read(f'[defaults]\n{key} = "x"\n[upstreams.a]\ncommand = "y"\n')
    [warning] = loaded.warnings
    assert str(warning).endswith(
        f"defaults.{key}: ignored: it says which server one is; write it below [upstreams.NAME]"
    )
    assert loaded.config.upstreams["a"].command == "y"


@pytest.mark.covers("FH-5")
def test_they_stand_in_the_main_file_only(read, tmp_path):
    (tmp_path / "upstreams.d").mkdir()
    (tmp_path / "upstreams.d" / "b.toml").write_text('[defaults]\nera = "legacy"\n[upstreams.b]\ncommand = "x"\n')
    with pytest.raises(ConfigError, match="defaults: is a setting of the whole hub"):
        read('[upstreams.a]\ncommand = "x"\n')


@pytest.mark.parametrize("setting", ["pass = ['X']", "defaults = { era = 'legacy' }"])
def test_a_host_may_mean_something_else_by_such_a_name(read, tmp_path, setting):
    (tmp_path / "imported").mkdir()
    (tmp_path / "imported" / "codex.toml").write_text(f"[mcp_servers.a]\ncommand = 'x'\n{setting}\n")
    assert read("# mine\n").config.upstreams["a"].pass_ == ()


def test_mistakes_are_told_once_with_their_line(read):
    text = (
        '[defaults]\nera = "late"\npass = ["A=b"]\nenv = { A = 1, "B=" = "x" }\ntimeouts = { call = 0 }\nrestarts = 1\n'
    )
    two = '[upstreams.a]\ncommand = "x"\n[upstreams.b]\ncommand = "y"\n'
    assert sorted(refusal(read, text + two)) == [
        'line 2: defaults.era: must be one of "auto", "legacy", "modern"',
        'line 3: defaults.pass: expected names of variables such as "NODE_*" or "!DISPLAY"; values belong in `env`',
        'line 4: defaults.env."B=": is no name for a variable: it is empty or holds `=`',
        "line 4: defaults.env.A: expected text in quotes",
        "line 5: defaults.timeouts.call: must be a number of seconds above 0",
    ]


@pytest.mark.covers("I-2")
def test_a_variable_that_is_missing_there_concerns_servers_that_need_it(read):
    text = '[defaults]\nenv = { A = "${NOPE}" }\n[upstreams.a]\ncommand = "x"\n[upstreams.web]\nurl = "http://h"\n'
    own = '[upstreams.own]\ncommand = "x"\nenv = { A = "1" }\n'
    loaded = read(text + own, partly=True)
    assert loaded.config.upstreams.keys() == {"web", "own"}
    assert [each.unresolved for each in loaded.unresolved] == ["a"]
    assert str(loaded.unresolved[0]).partition("hubd.toml, ")[2].startswith("line 2: defaults.env.A: the variable NOPE")
    assert read(text + own, {"NOPE": "1"}).config.upstreams["a"].env == {"A": Secret("1")}


def test_they_are_shown_with_the_line_they_come_from(read, tmp_path):
    loaded = read(ALL)
    assert loaded.origins["upstreams", "one", "era"].line == 6
    assert loaded.origins["upstreams", "two", "era"].line == 14
    gathered = gather(tmp_path / "hubd.toml", {})
    shown = {each.keys: each.value for each in hub_settings(gathered, defaults=True) if each.keys[0] == "defaults"}
    assert shown == {
        ("defaults", "env", "A"): "***",
        ("defaults", "env", "B"): "***",
        ("defaults", "pass"): ["AWS_*", "!DISPLAY"],
        ("defaults", "timeouts", "call"): 600,
        ("defaults", "timeouts", "start"): 90,
        ("defaults", "era"): "legacy",
    }
    two = {each.keys: (each.value, each.origin.line) for each in upstreams(gathered, defaults=False)[1].settings}
    assert two["pass",] == (["AWS_*", "!DISPLAY", "DISPLAY"], 12)
    assert two["timeouts", "call"] == (600, 5)
    assert two["env", "A"] == ("***", 3)


def test_servers_of_a_project_have_them_too(tmp_path):
    root = tmp_path / "shop"
    root.mkdir()
    (root / ".hubd.toml").write_text('[upstreams.db]\ncommand = "x"\npass = ["Y"]\n[upstreams.web]\nurl = "http://h"\n')
    base = HubConfig(defaults=ServerSettings(env={"A": Secret("1")}, pass_=("X",), era="legacy"))
    servers = load_project(root, {}, base).upstreams
    assert servers["db"].env == {"A": Secret("1")}
    assert servers["db"].pass_ == ("X", "Y")
    assert servers["web"].env == {}
    assert servers["web"].era == "legacy"
