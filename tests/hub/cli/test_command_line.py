"""The command line as a real process; the daemon behind it is an echo with the real control server."""

import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hub.cli.context import UsageError
from hub.cli.parser import Commands, Parser, make_parser
from tests.support import echo_daemon, processes
from tests.support.commands import run_hubd
from tests.support.everything import draw

COMMANDS = [
    *("serve", "connect", "status", "tools", "call", "restart", "token", "stop", "version"),
    *("logs", "reload", "service", "doctor", "add", "remove", "enable", "disable", "edit", "config", "validate"),
    *("cache", "schema", "trust", "untrust", "install", "uninstall", "import", "secret"),
]
PATIENCE_S = 30


class Place:
    """A user's directories, and commands that run there."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.env = processes.own_directories(directory)

    def run(self, *arguments: str, stdin: str = "", **env: str) -> tuple[int, str, str]:
        done = run_hubd(arguments, self.env | env, input=stdin, cwd=self.directory)
        return done.returncode, done.stdout, done.stderr

    def start(self) -> subprocess.Popen[bytes]:
        """The echo, listening."""
        argv = [sys.executable, "-I", echo_daemon.__file__, str(self.directory / "starts")]
        daemon = subprocess.Popen(argv, env=self.env, stdout=subprocess.PIPE)
        assert daemon.stdout is not None
        assert daemon.stdout.readline() == b"ready\n"
        return daemon


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """A place where a daemon runs."""
    place = Place(tmp_path_factory.mktemp("busy"))
    with place.start() as daemon:
        yield place
        daemon.terminate()


# --- without a daemon -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["status", "restart x", "cache", "cache clear"])
def test_without_a_hub_one_sentence_says_what_to_do(place, command):
    code, out, err = place.run(*command.split())
    assert (code, out) == (69, "")
    assert re.fullmatch(r"hubd: no hub is running \(nothing listens on .*\); `hubd start` starts one\n", err)


@pytest.mark.parametrize(
    ("code", "loaded"),
    [
        ("main([])", ""),
        ("main(['token'])", "msgspec"),
        ("main(['status']); import hub.cli.render.status, hub.cli.render.cache", "msgspec"),
        ("import hub.shim.main", ""),
    ],
)
def test_asking_the_hub_loads_nothing_heavy(place: Place, code: str, loaded: str) -> None:
    code = (
        f"import sys, io; from hub.cli.main import main; said, sys.stdout = sys.stdout, io.StringIO(); {code}\n"
        "heavy = {'trio', 'msgspec', 'tomlkit', 'yaml', 'cryptography', 'watchfiles', 'rich'}\n"
        "print(*sorted(heavy & set(sys.modules)), file=said)"
    )
    argv = [sys.executable, "-c", code]
    root = Path(__file__).parents[3]
    done = subprocess.run(argv, env=place.env, cwd=root, capture_output=True, text=True, timeout=PATIENCE_S, check=True)
    assert done.stdout == f"{loaded}\n"


@pytest.mark.parametrize(
    ("words", "same"),
    [
        ("rm x", "remove x"),
        ("login x", "auth x"),
        ("secret list", "secret ls"),
        ("secret remove X", "secret rm X"),
        ("token rm x", "token revoke x"),
        ("token remove x", "token revoke x"),
        ("profile rm x", "profile remove x"),
        ("profile ls", "profiles"),
        ("profile list", "profiles"),
    ],
)
def test_one_deed_has_the_names_that_others_give_it(words, same):
    known = make_parser()
    assert known.parse_args(words.split()).command is known.parse_args(same.split()).command


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("usage", "there is no command hubd usage; `hubd tools --cost` shows how much of the tools is used"),
        ("completion tcsh", "argument shell: tcsh is none of bash, zsh, fish"),
        ("serve --auth xyz", "argument --auth: xyz is none of token, oauth, proxy, none"),
        ("cache clean", 'there is no command hubd cache clean; did you mean "clear"?'),
    ],
)
def test_a_word_that_is_not_there_leads_to_those_that_are(words, said):
    with pytest.raises(UsageError) as refused:
        make_parser().parse_args(words.split())
    assert str(refused.value) == said


def test_every_listed_command_is_described_by_its_module():
    commands = Commands()
    assert all(isinstance(commands[name], Parser) for name in commands)


def test_version(place):
    code, out, err = place.run("--version")
    assert (code, err) == (0, "")
    assert re.fullmatch(r"hubd \d+\.\d+\.\d+\n", out)
    assert place.run("version") == (0, out, "")
    assert json.loads(place.run("version", "--json")[1])["version"] in out


def test_the_token_is_the_configured_one_whatever_else_is_wrong(place):
    own = place.run("token")[1]
    assert re.fullmatch(r"[\w-]{43}\n", own)
    path = place.directory / "hub.toml"
    path.write_text('token = "${HUB_TOKEN}"\n[upstreams.a]\ncommand = "x"\nenv = { A = "${NOT_SET}" }\n')
    named = ("token", "--config", str(path))
    assert place.run(*named, HUB_TOKEN="t0ken-of-16-chars") == (0, "t0ken-of-16-chars\n", "")
    assert json.loads(place.run(*named, "--json", HUB_TOKEN="t0ken-of-16-chars")[1]) == {"token": "t0ken-of-16-chars"}
    code, out, err = place.run(*named)
    assert (code, out) == (78, "")
    assert f"{path}, line 1: token: the variable HUB_TOKEN is not set" in err
    assert place.run(*named, HUB_TOKEN="short")[0] == 78
    path.write_text("page_size = 1\n")
    assert place.run(*named) == (0, own, "")


def test_help_documents_commands_and_exit_codes(place):
    code, out, _ = place.run("--help")
    assert code == 0
    assert all(re.search(rf"^    {command} ", out, re.M) for command in COMMANDS)
    assert all(re.search(rf"^  {code} +\w", out, re.M) for code in (0, 1, 2, 69, 75, 78))
    assert "hubd.toml" in out
    for command in COMMANDS:
        code, out, _ = place.run(command, "--help")
        assert (code, out.startswith(f"usage: hubd {command}")) == (0, True)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ((), "usage: hubd"),
        (("nope",), "there is no command hubd nope; `hubd --help` lists them"),
        (("stauts",), 'there is no command hubd stauts; did you mean "status"?'),
        (("cache", "claer"), 'there is no command hubd cache claer; did you mean "clear"?'),
        (("service", "instal", "--now"), 'there is no command hubd service instal; did you mean "install"?'),
        (("--versoin",), 'there is no option --versoin; did you mean "--version"?'),
        (("status", "--jsn"), 'there is no option --jsn; did you mean "--json"?'),
        (("install", "--dry-rn=1", "cursor"), 'there is no option --dry-rn; did you mean "--dry-run"?'),
        (("status", "--something"), "there is no option --something; `hubd status --help` lists them"),
        (("status", "here"), "unexpected argument: here"),
        (("add", "x", "npx"), "unexpected argument: npx; the command to run goes behind `--`"),
        (("--dry-run",), "there is no option --dry-run; `hubd --help` lists them"),
        (("serve", "--auth", "tokn"), 'tokn is none of token, oauth, proxy, none; did you mean "token"?'),
        (("serve", "--listen", "8765"), 'expected HOST:PORT such as "127.0.0.1:8765"'),
        (("call",), "required: NAME\n"),
        (("connect", "--nope"), "there is no option --nope"),
        (("connect", "here"), "unexpected argument: here"),
        (("connect", "--hots", "x"), 'there is no option --hots; did you mean "--host"?'),
    ],
)
def test_wrong_usage_is_2(place, arguments, expected):
    code, out, err = place.run(*arguments)
    assert (code, out) == (2, "")
    assert expected in err


@pytest.mark.parametrize(
    ("command", "code", "message"),
    [
        ("status", 69, "no hub is running"),
        ("logs x", 69, "no hub is running"),
        ("reload", 69, "no hub is running"),
        ("status --jsno", 2, "there is no option --jsno"),
        ("stauts", 2, "there is no command hubd stauts"),
        ("add x", 2, "which URL to open"),
        ("add x --config /nowhere/x.toml --url nonsense", 78, "no configuration a hub can use"),
        ("remove x", 1, 'there is no server "x"'),
        ("edit", 1, "the editor ended with code 1"),
        ("trust", 2, "has a .hubd.toml or .mcp.json"),
        ("untrust", 1, "was allowed"),
        ("install curser", 2, 'did you mean "cursor"?'),
        ("uninstall", 2, "name hosts"),
        ("import --project nowhere", 2, "there is no directory"),
        ("service install", 1, "nothing was changed"),
        ("config --config /nowhere/x.toml", 78, "/nowhere/x.toml"),
    ],
)
def test_programs_get_errors_in_one_form(place, command, code, message):
    found, out, err = place.run(*command.split(), "--json", EDITOR="false", VISUAL="", PATH="/nowhere:/bin")
    assert found == code
    error = json.loads(out)["error"]
    assert error["code"] == code
    assert message in error["message"]
    assert err.endswith(f"hubd: {error['message']}\n"), "people hear the same"


HOSTILE = "\x1b[2J\x9b31m\u202e\u2066\u200b\x7f\U000e0041"


@pytest.mark.covers("SEC-54")
@pytest.mark.parametrize(
    "words",
    [
        ("status" + HOSTILE,),
        ("status", HOSTILE),
        ("status", "--" + HOSTILE),
        ("logs", HOSTILE),
        ("call", HOSTILE, "--raw"),
        ("config", "--config", "/nowhere/" + HOSTILE),
        ("config", "--config", "/nowhere/" + HOSTILE, "--json"),
        ("install", HOSTILE, "--json"),
        ("remove", HOSTILE, "--json"),
        ("import", "--project", HOSTILE),
        ("add", "x", "--url", "https://" + HOSTILE),
        ("connect", HOSTILE),
        ("connect", "--" + HOSTILE),
        ("serve", "--config", "/nowhere/" + HOSTILE),
    ],
)
def test_what_is_told_of_arguments_obeys_nothing(place, words):
    code, out, err = place.run(*words)
    if words[0] == "call":
        place.run("stop")  # it has started a hub
    assert code != 0
    for text in (out, err):
        assert all(line.isprintable() for line in text.replace("\t", "").split("\n")), text


@pytest.mark.covers("SEC-54")
def test_json_is_printed_with_escapes_and_means_the_same(busy):
    code, out, _ = busy.run("call", "demo__echo", f"text={HOSTILE}", "--raw")
    assert code == 0
    assert json.loads(out)["_meta"] == {"text": HOSTILE}
    assert all(line.isprintable() for line in out.split("\n")), out


def test_the_program_after_a_failed_call_gets_an_object(place):
    place.directory.joinpath("xdg_config_home/hubd").mkdir(parents=True)
    place.directory.joinpath("xdg_config_home/hubd/hubd.toml").write_text("[")
    code, out, _ = place.run("call", "x", "--raw")
    assert (code, json.loads(out)["error"]["code"]) == (78, 78)


def test_in_a_pipe_sentences_keep_their_order(place):
    """Those on standard output, and those on standard error."""
    both = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    done = subprocess.run([processes.HUBD, "add", "x", "--", "no-such-command"], env=place.env, check=True, **both)
    begins = [line.split()[0] for line in done.stdout.splitlines()]
    assert begins == ["hubd:", "added", "no", "hubd:"]


def test_all_but_three_commands_take_json(place):
    texts = {command: place.run(*command.split(), "--help")[1] for command in COMMANDS}
    texts |= {f"service {each}": place.run("service", each, "--help")[1] for each in ("install", "uninstall", "status")}
    texts |= {f"secret {each}": place.run("secret", each, "--help")[1] for each in ("set", "ls", "rm")}
    without = {command for command, text in texts.items() if "--json  " not in text}
    assert without == {"serve", "connect", "call", "service", "secret"}


@pytest.mark.covers("F-D-10")
def test_a_directory_that_is_not_private_is_78(place):
    place.directory.joinpath("open").mkdir()
    place.directory.joinpath("open").chmod(0o755)
    code, out, err = place.run("status", HUBD_RUNTIME_DIR=str(place.directory / "open"))
    assert (code, out) == (78, "")
    assert "run `chmod 700" in err


# --- with one ---------------------------------------------------------------------------------------------------------


@pytest.mark.covers("SEC-54")
def test_status(busy):
    code, out, err = busy.run("status")
    assert (code, err) == (0, "")
    assert out.startswith("hubd 1.2.3, up 5 min\n")
    assert re.search(
        r"^demo +connected +4 min +stdio +2026-07-28 +- +- +2 +- +0 +1 +0\n    last error: it \\x1b\[31mfell\n"
        r"    degraded: too many",
        out,
        re.M,
    )
    assert json.loads(busy.run("status", "--json")[1])["upstreams"][0]["last_error"] == "it \x1b[31mfell"


def test_tools(busy):
    assert busy.run("tools") == (0, "demo__echo  Say it back\ndemo__fail  -\n", "")
    assert json.loads(busy.run("tools", "--json")[1]) == echo_daemon.TOOLS
    assert busy.run("tools", "demo") == busy.run("tools", "demo__") == busy.run("tools")
    assert busy.run("tools", "demo__f") == (0, "demo__fail  -\n", "")
    assert json.loads(busy.run("tools", "demo__f", "--json")[1]) == echo_daemon.TOOLS[1:]
    assert busy.run("tools", "demo__fail") == (0, "demo__fail()\n\nhubd call demo__fail\n", "")
    refused = 'hubd: no tool begins with dmo, and no server has this name; did you mean "demo"?\n'
    assert busy.run("tools", "dmo") == (1, "", refused)


@pytest.mark.parametrize(
    ("words", "arguments"),
    [
        ((), {}),
        (("text=hello there",), {"text": "hello there"}),
        (("text=5", "n=5"), {"text": "5", "n": 5}),
        (("--json", '{"text": 5, "deep": {"a": [1]}}'), {"text": 5, "deep": {"a": [1]}}),
        (("--json", "-"), {"from": "stdin"}),
    ],
)
def test_call(busy, words, arguments):
    code, out, err = busy.run("call", "demo__echo", *words, stdin='{"from": "stdin"}')
    assert (code, err) == (0, "")
    assert json.loads(out) == arguments, "the text of the result is printed as it is"


def test_a_raw_call_prints_the_whole_result(busy):
    code, out, _ = busy.run("call", "demo__echo", "text=x", "--raw")
    assert code == 0
    assert json.loads(out)["_meta"] == {"text": "x"}
    code, out, _ = busy.run("call", "demo__fail", "--raw")
    assert code == 1
    assert json.loads(out)["isError"] is True


@pytest.mark.parametrize(
    ("arguments", "code", "expected"),
    [
        (("demo__fail",), 1, "no such luck"),
        (("demo__nope",), 1, "there is no tool demo__nope"),
        (("crash",), 1, "The hub failed to answer"),
        (("demo__echo", "word"), 2, 'expected KEY=VALUE, got "word"'),
        (("demo__echo", "a=1", "--json", "{}"), 2, "not both"),
        (("demo__echo", "--json", "{"), 2, "--json: not JSON"),
        (("demo__echo", "--json", "[]"), 2, "a JSON object"),
    ],
)
def test_a_failed_call_says_why_on_stderr(busy, arguments, code, expected):
    found, out, err = busy.run("call", *arguments)
    assert (found, out) == (code, "")
    assert expected in err


def test_a_reader_that_stops_reading_is_no_error(busy):
    done = subprocess.run(
        ["/bin/sh", "-c", f"{processes.HUBD} tools --json | :"],
        env=busy.env,
        capture_output=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.stderr == b""


def test_an_interrupted_call_is_130(place):
    with place.start() as daemon:
        call = subprocess.Popen([processes.HUBD, "call", "wait"], env=place.env, stderr=subprocess.PIPE)
        assert daemon.stdout.readline() == b"waiting\n"
        call.send_signal(signal.SIGINT)
        assert call.communicate(timeout=PATIENCE_S)[1] == b""
        assert call.returncode == 130
        assert daemon.stdout.readline() == b"cancelled\n"
        daemon.terminate()


def test_restart(busy):
    assert busy.run("restart", "demo", "--no-wait") == (0, "restarting demo\n", "")
    assert busy.run("restart", "demo") == (0, "restarting demo\ndemo: connected, 2 tools, 1 resource\n", "")
    told = json.loads(busy.run("restart", "demo", "--json")[1])
    assert (told["restarting"], [each["name"] for each in told["servers"]]) == ("demo", ["demo"])
    code, _, said = busy.run("restart")
    assert (code, said.count("`hubd stop`, then `hubd start`")) == (2, 1)
    assert busy.run("restart", "dmo") == (1, "", "hubd: There is no server dmo; there are: demo\n")


def test_cache(busy):
    code, out, err = busy.run("cache")
    assert (code, err) == (0, "")
    assert out.startswith("1 resource of at most 10, 812 B of 1 KiB; the oldest was read 5 s ago")
    assert json.loads(busy.run("cache", "--json")[1])["counts"]["hits"] == 3


def test_cache_clear(busy):
    assert busy.run("cache", "clear") == (0, "cleared: 1 resource\n", "")
    assert busy.run("cache", "clear", "demo") == (0, "cleared: 1 resource of demo\n", "")
    assert json.loads(busy.run("cache", "clear", "demo", "--json")[1]) == {"cleared": 1, "upstream": "demo"}
    assert busy.run("cache", "clear", "dmo") == (1, "", "hubd: There is no server dmo; there are: demo\n")
    assert busy.run("cache", "claer")[0] == 2


def test_stop_waits_for_the_end(place):
    with place.start() as daemon:
        assert place.run("stop") == (0, "stopped\n", "")
        assert daemon.wait(PATIENCE_S) == 0
    assert place.run("status")[0] == 69
    assert place.run("stop") == (0, "no hub is running\n", "")
    assert json.loads(place.run("stop", "--json")[1]) == {"stopped": False}


# --- nothing of a working directory or PYTHONPATH gets in -------------------------------------------------------------

MODULES = ("hub", "config", "cache", "upstreams", "msgspec", "trio", "argparse", "json", "socket")


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """A folder full of modules that must not be imported: each leaves a trace."""
    folder = tmp_path / "hostile"
    folder.mkdir()
    for module in MODULES:
        trace = f"open({str(tmp_path / 'trace')!r}, 'a').write('{module} ')\nraise SystemExit('hostile {module}')\n"
        (folder / f"{module}.py").write_text(trace)
    return folder


@pytest.mark.covers("SEC-50")
@pytest.mark.parametrize(
    "command", draw(3, ["serve --help", "connect --help", "status", "stop", "version", "token", "remove x", "service"])
)
def test_every_command_is_our_own(hostile, tmp_path, command):
    env = processes.own_directories(tmp_path / "own")
    usual = subprocess.run([processes.HUBD, *command.split()], env=env, capture_output=True, text=True, check=False)
    for path in (str(hostile), ".", f"/nowhere:{hostile}"):
        found = subprocess.run(
            [processes.HUBD, *command.split()],
            env=env | {"PYTHONPATH": path},
            cwd=hostile,
            capture_output=True,
            text=True,
            check=False,
        )
        assert (found.returncode, found.stdout, found.stderr) == (usual.returncode, usual.stdout, usual.stderr)
    assert not (tmp_path / "trace").exists()
