"""From a file to a `HubConfig`, and from a wrong file to a sentence that helps."""

import contextlib
import os
from pathlib import Path

import pytest

from config.diagnostics import ConfigError
from config.loading.assemble import load_all
from config.loading.checks import upstream
from config.loading.read_source import find_config
from config.setting_declarations import Secret
from config.settings import HubConfig, Timeouts, UpstreamConfig
from tests.support.tables import each_row


def load(path: Path, environ: dict[str, str]) -> HubConfig:
    return load_all(path, environ).config


def warnings(path: Path) -> list[str]:
    return [str(each).removeprefix(str(path)) for each in load_all(path, {}).warnings]


@pytest.fixture
def file(tmp_path: Path):
    def write(text: str, name: str = "hubd.toml") -> Path:
        path = tmp_path / name
        path.write_text(text)
        return path

    return write


def refusal(path: Path, environ: dict[str, str] | None = None) -> str:
    with pytest.raises(ConfigError) as caught:
        load(path, environ or {})
    text = str(caught.value)
    assert text.startswith(str(path)), text
    return text.removeprefix(str(path))


# --- what is read -----------------------------------------------------------------------------------------------------


def test_every_setting_arrives(file, tmp_path):
    path = file("""
        listen = "[::1]:9000"
        auth = "none"
        allowed_origins = ["https://app.example"]
        startup_grace_s = 1
        page_size = 100

        [upstreams.files]
        command = "npx"
        args = ["-y", "server"]
        env = { TOKEN = "t", "ODD-NAME" = "" }
        cwd = "data"
        prefix = ""
        era = "legacy"
        timeouts = { call = 5, start = 0.5 }
        tool_timeouts = { slow = 900 }

        [upstreams.remote]
        url = "https://example.com/mcp"
        headers = { Authorization = "Bearer x" }
        transport = "sse"
        aliases = ["old"]
        disabled = true
    """)
    assert load(path, {}) == HubConfig(
        listen="[::1]:9000",
        auth="none",
        allowed_origins=("https://app.example",),
        startup_grace_s=1.0,
        page_size=100,
        upstreams={
            "files": UpstreamConfig(
                command="npx",
                args=("-y", "server"),
                env={"TOKEN": Secret("t"), "ODD-NAME": Secret("")},
                cwd=str(tmp_path / "data"),
                prefix="",
                era="legacy",
                timeouts=Timeouts(call=5.0, start=0.5),
                tool_timeouts={"slow": 900.0},
            ),
            "remote": UpstreamConfig(
                url="https://example.com/mcp",
                headers={"Authorization": Secret("Bearer x")},
                transport="sse",
                aliases=("old",),
                disabled=True,
            ),
        },
    )


def test_upstreams_keep_the_order_of_the_file(file):
    names = ["zeta", "alpha", "mid"]
    path = file("".join(f'[upstreams.{name}]\ncommand = "x"\n' for name in names))
    assert list(load(path, {}).upstreams) == names


def test_no_file_is_a_hub_without_upstreams():
    assert load(None, {}) == HubConfig()


def test_a_file_without_upstreams_is_served_with_a_warning(file):
    path = file('listen = "127.0.0.1:0"')
    assert load(path, {}).upstreams == {}
    assert warnings(path) == [": names no upstreams; add [upstreams.NAME] with `command` or `url`"]


@pytest.mark.covers("EW-3")
@pytest.mark.parametrize(
    ("url", "warned"),
    [
        ("ws://h/mcp?token=abc", True),
        ("wss://h/?x=1&API-Key=abc", True),
        ("wss://h/?x=1&apiKey=abc", True),
        ("wss://h/?x=1", False),
        ("wss://h/?monkey=1", False),
        ("https://h/?token=abc", False),
    ],
)
def test_a_secret_in_the_url_of_a_websocket_is_warned_of(file, url, warned):
    found = warnings(file(f'[upstreams.a]\nurl = "{url}"'))
    assert ["upstreams.a.url: seems to hold a secret" in line for line in found] == [True] * warned
    assert "abc" not in "".join(found)


def test_a_websocket_needs_its_extra(file, monkeypatch):
    path = file('[upstreams.a]\nurl = "wss://h"')
    assert load(path, {}).upstreams["a"].speaks_websocket
    monkeypatch.setattr(upstream, "HAS_WEBSOCKET", False)
    with pytest.raises(ConfigError, match="needs the extra `ws`"):
        load(path, {})


def test_relative_paths_are_relative_to_the_file(file, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", "/home/me")
    path = file("""
        [upstreams.a]
        command = "./bin/server"
        [upstreams.b]
        command = "bin/server"
        cwd = "below"
        [upstreams.c]
        command = "~/server"
        cwd = "~/data"
        [upstreams.d]
        command = "server"
        [upstreams.e]
        url = "https://example.com/mcp"
    """)
    found = {name: (upstream.command, upstream.cwd) for name, upstream in load(path, {}).upstreams.items()}
    assert found == {
        "a": (str(tmp_path / "bin/server"), str(tmp_path)),
        "b": (str(tmp_path / "below/bin/server"), str(tmp_path / "below")),
        "c": ("/home/me/server", "/home/me/data"),
        "d": ("server", str(tmp_path)),
        "e": (None, None),
    }


def test_a_byte_order_mark_is_no_part_of_the_file(file):
    assert "a" in load(file('\ufeff[upstreams.a]\ncommand = "x"'), {}).upstreams


# --- variables --------------------------------------------------------------------------------------------------------


def test_variables_are_replaced_where_they_are_allowed(file, tmp_path):
    (tmp_path / "token").write_text("from file\n")
    path = file("""
        [upstreams.a]
        command = "${BIN:-python}"
        args = ["${env:ONE}", "$${ONE}", "$ONE", "x${ONE}y${TWO}"]
        env = { A = "${file:token}", B = "${EMPTY}", C = "${EMPTY:-filled}", D = "${NONE:-}" }
        cwd = "/${ONE}"
        [upstreams.b]
        url = "https://${env:HOST:-example.com}/mcp"
        headers = { X = "Bearer ${TWO}" }
    """)
    config = load(path, {"ONE": "1", "TWO": "${ONE}", "EMPTY": ""})
    a, b = config.upstreams["a"], config.upstreams["b"]
    assert (a.command, a.args, a.cwd) == ("python", ("1", "${ONE}", "$ONE", "x1y${ONE}"), "/1")
    assert {name: value.reveal() for name, value in a.env.items()} == {
        "A": "from file",
        "B": "",
        "C": "filled",
        "D": "",
    }
    assert (b.url, b.headers["X"].reveal()) == ("https://example.com/mcp", "Bearer ${ONE}")


@pytest.mark.covers("SEC-60")
@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (
            "${NOPE}",
            "the variable NOPE is not set: run `hubd secret set NOPE`, set it in the environment of hubd, or in",
        ),
        ("${env:NOPE}", "the variable NOPE is not set"),
        ("${file:absent}", "cannot read"),
        ("${file:.}", "it is not a plain file"),
        ("${input:token}", "an editor asks for, and hubd cannot ask: put it into an environment variable or a file"),
        ("${config:token}", "write ${VAR}, ${VAR:-default}, ${env:VAR}, ${file:path}, ${secret:NAME}"),
        ("${workspaceFolder}/x", "has a meaning only in the files of a project"),
        ("${A B}", "means nothing here"),
        ("${A", "has no `}`"),
    ],
)
def test_a_reference_that_leads_nowhere_names_key_and_line(file, value, expected):
    text = refusal(file(f'[upstreams.a]\ncommand = "x"\n[upstreams.a.env]\nOTHER = "1"\nTOKEN = "{value}"\n'))
    assert text.startswith(", line 5: upstreams.a.env.TOKEN: ")
    assert expected in text


def test_files_that_are_no_secrets_are_refused(file, tmp_path):
    (tmp_path / "large").write_bytes(b"x" * 100_000)
    (tmp_path / "binary").write_bytes(b"\xff")
    text = '[upstreams.a]\ncommand = "${file:%s}"'
    assert "is larger than 64 KB" in refusal(file(text % "large"))
    assert "is not UTF-8 text" in refusal(file(text % "binary"))
    assert "holds a NUL character" in refusal(file(text % "a\\u0000b"))


@pytest.mark.parametrize("listen", ["localhost:1", "127.9.9.9:1", "[::1]:0"])
def test_loopback_needs_no_token(file, listen):
    assert load(file(f'listen = "{listen}"\nauth = "none"'), {}).auth == "none"


def test_a_disabled_upstream_needs_no_variables(file):
    config = load(file('[upstreams.a]\nurl = "${NOPE}"\ndisabled = true\n'), {})
    assert config.upstreams["a"].disabled


# --- what is refused --------------------------------------------------------------------------------------------------

WRONG = [
    ('[upstreams.a]\ncomand = "x"', ', line 2: upstreams.a.comand: an upstream has either `command`'),
    ('[upstreams.a]\ncomand = "x"', 'and here is neither; is this meant to be "command"?'),
    ('[upstreams.a]\ncommand = "x"\nsession_mode = "per-host"', '3: upstreams.a.session_mode: must be one of "auto",'),
    ('[upstreams.a]\ncommand = "x"\nroots = "hosts"', 'roots: must be one of "auto", "none", "host", or a list'),
    ('[upstreams.a]\ncommand = "x"\nroots = true', 'roots: must be one of "auto", "none", "host", or a list'),
    ("listen = 8765", ", line 1: listen: expected text in quotes, not a whole number"),
    ('listen = "8765"', ', line 1: listen: expected HOST:PORT such as "127.0.0.1:8765"'),
    ('listen = "127.0.0.1:99999"', "expected HOST:PORT"),
    ('listen = "::1:80"', "expected HOST:PORT"),
    ('listen = "${VAR}"', "variables are not replaced here"),
    ('auth = "nope"', ', line 1: auth: must be one of "token", "oauth", "proxy", "none"'),
    ('listen = "0.0.0.0:80"', ", line 1: listen: 0.0.0.0:80 can be reached from other machines"),
    ('listen = "0.0.0.0:80"\nauth = "none"', ", line 2: auth: \"none\" is allowed on loopback only"),
    ('listen = "example.com:80"\nauth = "none"', ", line 2: auth: \"none\" is allowed on loopback only"),
    ("name_budget = 5", "name_budget: must be from 32 to 64"),
    ("page_size = -1", "page_size: must be a number of entries"),
    ("drain_s = nan", "drain_s: must be a number of seconds"),
    ("upstreams = 1", "upstreams: expected tables: write [upstreams.NAME]"),
    ('[upstreams]\ncommand = "x"', ", line 2: upstreams.command: a server needs a name of its own"),
    ("[upstreams.a]", ", line 1: upstreams.a: an upstream has either `command`"),
    ('[upstreams.a]\ncommand = "x"\nurl = "http://h"', ", line 1: upstreams.a: an upstream has either"),
    ('[upstreams.a]\ncommand = ""', "upstreams.a.command: is empty"),
    ('[upstreams.a]\ncommand = ["x"]', ", line 2: upstreams.a.command: expected text in quotes, not a list"),
    ('[upstreams.a]\ncommand = "x"\nargs = "y"', ", line 3: upstreams.a.args: expected a list, not text in quotes"),
    ('[upstreams.a]\ncommand = "x"\nenv = { A = 1 }', ", line 3: upstreams.a.env.A: expected text in quotes"),
    ('[upstreams.a]\ncommand = "x"\nenv = { "A=B" = "1" }', "is no name for a variable"),
    ('[upstreams.a]\ncommand = "x"\nargs = ["a\\u0000b"]', "upstreams.a.args: holds a NUL"),
    ('[upstreams.a]\ncommand = "x"\nheaders = { A = "1" }', "upstreams.a.headers: belongs to a `url`"),
    ('[upstreams.a]\ncommand = "x"\ntransport = "sse"', "upstreams.a.transport: \"sse\" needs a `url`"),
    ('[upstreams.a]\nurl = "http://h"\nargs = ["x"]', ", line 3: upstreams.a.args: belongs to a `command`"),
    ('[upstreams.a]\nurl = "http://h"\ntransport = "stdio"', '"stdio" needs a `command`'),
    ('[upstreams.a]\nurl = "http://h"\ntransport = "ws"', '"ws" needs a `url` that begins with ws:// or wss://'),
    ('[upstreams.a]\nurl = "ws://h"\ntransport = "http"', '"http" needs a `url` that begins with http:// or https://'),
    ('[upstreams.a]\ncommand = "x"\ntransport = "ws"', '"ws" needs a `url`'),
    ('[upstreams.a]\nurl = "ftp://h"', 'upstreams.a.url: expected an address such as "https://example.com/mcp"'),
    ('[upstreams.a]\nurl = "http://h:x/"', "upstreams.a.url: expected an address"),
    ('[upstreams.a]\nurl = "http://h/a b"', "upstreams.a.url: expected an address"),
    ('[upstreams.a]\nurl = "http://u:p@h/"', "send it in `headers` as Authorization"),
    ('[upstreams.a]\nurl = "http://h"\nheaders = { "A B" = "1" }', "is no name for a header"),
    ('[upstreams.a]\nurl = "http://h"\nheaders = { A = "1\\r\\nB: 2" }', "upstreams.a.headers.A: is no value for a"),
    ('[upstreams.a]\nurl = "http://h"\n[upstreams.a.timeouts]\ncall = 0', ", line 4: upstreams.a.timeouts.call: must"),
    ('[upstreams.a]\nurl = "http://h"\ntool_timeouts = { x = inf }', "tool_timeouts.x: must be a number of seconds"),
    ('[upstreams."My Server"]\ncommand = "x"', '"My Server" cannot name a server: use lower-case words'),
    ('[upstreams."My Server"]\ncommand = "x"', 'write for instance "my-server"'),
    ('[upstreams.a__b]\ncommand = "x"', 'write for instance "a-b"'),
    ('[upstreams.a_]\ncommand = "x"', "cannot name a server"),
    ('[upstreams.a]\ncommand = "x"\nprefix = "b.c"', ", line 3: upstreams.a.prefix: \"b.c\" cannot name"),
    ('[upstreams.a-b]\ncommand = "x"\n[upstreams.a_b]\ncommand = "x"', ', line 3: upstreams.a_b: "a_b" is taken'),
    ('[upstreams.a]\ncommand = "x"\n[upstreams.b]\ncommand = "x"\naliases = ["a"]', '.aliases: "a" is taken'),
    ('[upstreams.a]\ncommand="x"\nprefix=""\n[upstreams.b]\ncommand="x"\nprefix=""', ", line 6: upstreams.b.prefix:"),
    ("a = \nb = 1", ", line 1: is not TOML at column 5: Invalid value"),
    ("[upstreams.a]\ncommand = \"x", "is not TOML"),
    ("", ": is empty; write at least one [upstreams.NAME]"),
    (" \n\n", ": is empty"),
]  # fmt: skip


UNKNOWN = "ignored: unknown setting; "
DOUBTFUL = [
    ('listen = "127.0.0.1:1"\nlisen = 1', 2, "lisen", UNKNOWN + 'did you mean "listen"?'),
    ('[mcpServers.a]\ncommand = "x"\n[upstreams.a]\nurl = "http://h"', 1, "mcpServers", 'did you mean "upstreams"?'),
    ('listen = "127.0.0.1:1"\n[mcp_servers.a]\ncommand = "x"', 2, "mcp_servers", 'did you mean "upstreams"?'),
    ('[upstreams.a]\ncommand = "x"\ncomand = "x"', 3, "upstreams.a.comand", UNKNOWN + 'did you mean "command"?'),
    ('[upstreams.a]\nurl = "http://h"\n\ntype = "http"', 4, "upstreams.a.type", 'did you mean "transport"?'),
    ('[upstreams.a]\nurl = "http://h"\ntimeouts = { calls = 1 }', 3, "upstreams.a.timeouts.calls", 'mean "call"?'),
    ('[upstreams.a]\nurl = "http://h"\n[upstreams.a.restart]\nzzzz = 1', 4, "upstreams.a.restart.zzzz", "known are:"),
    ('[upstreams.a]\ncommand = "x"\npark_ttl_s = 5', 3, "upstreams.a.park_ttl_s", "it is a setting of the whole hub"),
    ('session_mode = "shared"', 1, "session_mode", "it is a setting of one upstream; write it below [upstreams.NAME]"),
]  # fmt: skip


@pytest.mark.covers("F-C-02")
@pytest.mark.parametrize(("text", "line", "key", "expected"), DOUBTFUL)
def test_an_unknown_setting_is_passed_over_with_a_warning(file, text, line, key, expected):
    [warning, *_] = warnings(file(text))
    assert warning.startswith(f", line {line}: {key}: ignored: ")
    assert expected in warning


def test_all_that_is_wrong_is_found(file):
    path = file("""
        listen = 1
        page_size = -1
        upstreams.three = 3
        [upstreams.one]
        command = "x"
        era = "late"
        args = "y"
        unknown = 1
        env = { A = 1, B = "${NOPE}" }
        [upstreams.two]
        url = "ftp://h"
        timeouts = { call = 0 }
        [upstreams."4 u"]
        command = ""
    """)
    with pytest.raises(ConfigError, match=r"\(10 more problems: see `hubd validate`\)") as caught:
        load(path, {})
    assert {(diagnostic.line, ".".join(diagnostic.keys)) for diagnostic in caught.value.diagnostics} == {
        (2, "listen"),
        (3, "page_size"),
        (4, "upstreams.three"),
        (7, "upstreams.one.era"),
        (8, "upstreams.one.args"),
        (10, "upstreams.one.env.A"),
        (10, "upstreams.one.env.B"),
        (12, "upstreams.two.url"),
        (13, "upstreams.two.timeouts.call"),
        (14, "upstreams.4 u"),
        (15, "upstreams.4 u.command"),
    }
    assert [diagnostic.line for diagnostic in caught.value.warnings] == [9]
    assert {diagnostic.file for diagnostic in caught.value.diagnostics} == {path}


@pytest.mark.covers("F-C-01")
@each_row("text, expected", WRONG)
def test_what_is_wrong_is_said_with_line_and_remedy(file, text, expected):
    assert expected in refusal(file(text))


@pytest.mark.covers("SEC-61")
def test_problems_and_reprs_do_not_show_secrets(file):
    environ = {"CANARY": "c4n4ry\n"}
    for setting in ('env = { A = "${CANARY}\\u0000" }', 'args = ["${CANARY}\\u0000"]'):
        assert "c4n4ry" not in refusal(file(f'[upstreams.a]\ncommand = "x"\n{setting}'), environ)
    for url, headers in (("http://h", '{ A = "${CANARY}" }'), ("x://${CANARY}", "{}")):
        assert "c4n4ry" not in refusal(file(f'[upstreams.a]\nurl = "{url}"\nheaders = {headers}'), environ)
    sound = load(file('[upstreams.a]\ncommand = "x"\nenv = { A = "${CANARY}" }'), environ)
    assert "c4n4ry" not in repr(sound)


@pytest.mark.parametrize("name", ["time_server", "sequential-thinking", "Everything", "up0"])
def test_unusual_names_work_with_a_warning(file, name):
    path = file(f'[upstreams.{name}]\ncommand = "x"')
    assert list(load(path, {}).upstreams) == [name]
    assert bool(warnings(path)) == (name not in ("sequential-thinking", "up0"))


# --- the file itself --------------------------------------------------------------------------------------------------


@pytest.mark.covers("F-C-03")
def test_no_prefix_of_a_file_crashes_or_reads_as_something_else(file):
    whole = 'listen = "127.0.0.1:0"\n[upstreams.a]\ncommand = "x"\nargs = ["1", "2"]\n[upstreams.b]\nurl = "http://h"\n'
    expected = load(file(whole), {})
    for length in range(len(whole)):
        path = file(whole[:length])
        with contextlib.suppress(ConfigError):
            found = load(path, {})
            assert all(expected.upstreams[name].command == up.command for name, up in found.upstreams.items())


@pytest.mark.covers("F-C-03")
def test_what_is_no_plain_file_is_refused_at_once(tmp_path):
    fifo = tmp_path / "fifo.toml"
    os.mkfifo(fifo)
    assert "is not a plain file" in refusal(fifo)
    assert "is not a plain file" in refusal(tmp_path)
    assert "cannot be read: No such file" in refusal(tmp_path / "absent.toml")
    huge = tmp_path / "huge.toml"
    with huge.open("wb") as sparse:
        sparse.truncate((16 << 20) + 1)
    assert "is larger than 1 MB" in refusal(huge)
    assert "is larger than 16 MB" in refusal(huge.rename(tmp_path / "huge.json"))
    latin = tmp_path / "latin.toml"
    latin.write_bytes(b"# a\n# \xe9\n")
    assert refusal(latin).startswith(", line 2: is not UTF-8")


@pytest.mark.covers("F-C-10", "SEC-50")
def test_a_file_that_others_can_change_is_refused(file, tmp_path):
    path = file('[upstreams.a]\ncommand = "x"')
    path.chmod(0o666)
    assert f"others may write it, and it decides which commands hubd runs; run `chmod go-w {path}`" in refusal(path)
    path.chmod(0o644)
    tmp_path.chmod(0o777)
    assert f": others may write its directory {tmp_path}, and it decides" in refusal(path)
    tmp_path.chmod(0o1777)  # as /tmp: others may add files there, and not replace ours
    load(path, {})


@pytest.mark.covers("F-C-10", "SEC-50")
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to someone else")
def test_a_file_of_another_user_is_refused(file, monkeypatch):
    path = file('[upstreams.a]\ncommand = "x"')
    os.chown(path, 12345, 12345)
    assert "belongs to another user (uid 12345)" in refusal(path)


def test_the_file_that_is_looked_for(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert find_config(None) is None
    assert find_config(Path("x.json")) == Path("x.json")
    own = tmp_path / "hubd" / "hubd.toml"
    own.parent.mkdir()
    own.symlink_to("nowhere")
    assert find_config(None) == own, "a dangling link is a file that cannot be read, not a missing one"
    with pytest.raises(ConfigError, match="cannot be read"):
        load(own, {})


def test_warnings_name_the_place(file):
    path = file('{"mcpServers": {\n"My_Server": {"command": "x"}}}', "servers.json")
    assert list(load(path, {}).upstreams) == ["my-server"]
    [warning] = load_all(path, {}).warnings
    assert (warning.file, warning.line, warning.keys) == (path, 2, ("mcpServers", "My_Server"))
    assert '"My_Server" is called "my-server" here' in warning.text
