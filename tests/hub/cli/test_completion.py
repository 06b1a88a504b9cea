"""Completion of commands, options and names, in the shells themselves."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from hub.cli import completion
from hub.cli.completion import SHELLS, completions
from hub.cli.parser import make_parser
from tests.support import debian, echo_daemon, processes
from tests.support.commands import run_hubd
from tests.support.terminal import CODES, Terminal

STATUS = {
    "upstreams": [{"name": "files", "state": "connected"}, {"name": "time", "state": "failed"}],
    "profiles": [{"name": "coding", "tools": 5}, {"name": "$(x)"}],
}
TOOLS = [
    {
        "name": "files__read",
        "description": "Read a file.\nAnd more",
        "inputSchema": {
            "properties": {"path": {"type": "string"}, "-o": {}, "p=@x": {}, "tail": {"description": "lines"}}
        },
    },
    {"name": "time__now"},
    {"name": "evil__$(reboot)", "description": "\x1b[2J"},
    {"name": "evil__a b"},
    {"name": "evil__`x`"},
    {"name": "--json=@/etc/passwd"},
    {"name": "x" * 257, "inputSchema": {}},
]


def asked(method):
    return {"status": STATUS, "tools": TOOLS}[method]


def names(*words, ask=asked):
    return [name for name, _ in completions(make_parser(), words, ask)]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("stat",), ["status"]),
        (("cache", ""), ["clear"]),
        (("service", "inst"), ["install"]),
        (("help", "cache", "cl"), ["clear"]),
        (("restart", ""), ["files", "time"]),
        (("restart", "files", ""), []),
        (("auth", ""), ["files", "time"]),
        (("auth", "--st"), ["--status"]),
        (("logout", "t"), ["time"]),
        (("cache", "clear", "t"), ["time"]),
        (("logs", "-n", "5", ""), ["files", "time", "hub"]),
        (("--color", "never", "logs", "h"), ["hub"]),
        (("calls", "ti"), ["time", "time__now"]),
        (("tools", "ti"), ["time", "time__now"]),
        (("tools", "--un"), ["--unused"]),
        (("tools", "--profile", ""), ["coding"]),
        (("tools", "--profile=c"), ["--profile=coding"]),
        (
            ("tools", "--pick", "c"),
            ["coding", "claude-desktop", "claude-code", "cursor", "copilot", "cline", "continue", "codex"],
        ),
        (("token", "new", "x", "--profile", "co"), ["coding"]),
        (("profile", ""), ["suggest", "remove", "entry", "ls"]),
        (("profile", "suggest", "winds"), ["windsurf"]),
        (("profile", "suggest", "windsurf", "--w"), ["--write"]),
        (("call", ""), ["files__read", "time__now"]),
        (("call", "--json"), ["--json"]),
        (("call", "files__read", ""), ["path=", "tail="]),
        (("call", "files__read", "path=x", ""), ["tail="]),
        (("call", "nobody__x", ""), []),
        (("call", "--profile", "c"), ["coding"]),
        (("call", "--profile", "coding", "files__read", ""), ["path=", "tail="]),
        (("status", "--wa"), ["--watch"]),
        (("status", "--color", "a"), ["auto", "always"]),
        (("status", "--color=al"), ["--color=always"]),
        (("status", "--color", "=", "al"), ["always"]),
        (("status", "--color", "="), ["auto", "always", "never"]),
        (("serve", "--auth", ""), ["token", "oauth", "proxy", "none"]),
        (("serve", "--stdio", "--pro"), ["--profile"]),
        (("serve", "--stdio", "--profile", ""), ["coding"]),
        (("install", "claude-d"), ["claude-desktop"]),
        (("update", "t"), ["time"]),
        (("profile", "remove", ""), ["coding"]),
        (("add", "a/b", "--package", "p"), ["pypi"]),
        (("outd",), ["outdated"]),
        (("uninstall", "cursor", "code"), ["codex"]),
        (("completion", "z"), ["zsh"]),
        (("add", "x", "--", "np"), []),
        (("nonsense", ""), None),
        (("restart", "$(x"), []),
    ],
)
def test_what_a_word_may_become(words, expected):
    found = names(*words)
    assert found == expected or expected is None
    assert names(*words, ask=lambda method: None) is not None


def test_commands_are_told_once_and_with_what_they_do():
    found = dict(completions(make_parser(), [""], asked))
    assert {"status", "start", "stop", "add", "completion"} <= found.keys()
    assert not {"ls", "ps", "up", "down", "__complete"} & found.keys()
    assert all(found.values())
    assert dict(completions(make_parser(), ["call", "f"], asked)) == {"files__read": "Read a file."}


# --- as a command -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def env(tmp_path_factory):
    """The environment of a user whose hub runs, with `hubd` on PATH."""
    directory = tmp_path_factory.mktemp("place")
    env = processes.own_directories(directory)
    env["PATH"] = f"{processes.HUBD.parent}:{env['PATH']}"
    argv = [sys.executable, "-I", echo_daemon.__file__, str(directory / "starts")]
    with subprocess.Popen(argv, env=env, stdout=subprocess.PIPE) as daemon:
        assert daemon.stdout.readline() == b"ready\n"
        yield env
        daemon.terminate()


def test_it_says_nothing_where_no_hub_runs_and_starts_none(tmp_path):
    env = processes.own_directories(tmp_path)
    done = run_hubd(["__complete", "restart", ""], env, check=True)
    assert done.stdout + done.stderr == ""
    assert not list(Path(env["HUBD_RUNTIME_DIR"]).glob("*")) if "HUBD_RUNTIME_DIR" in env else True


def test_it_imports_nothing_heavy(env):
    code = (
        "import sys; from hub.cli.main import main; main(['__complete', 'call', ''])\n"
        "print(*sorted({'trio', 'msgspec', 'rich', 'tomlkit', 'yaml', 'cryptography'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=env,
        cwd=processes.ROOT,
        capture_output=True,
        text=True,
        check=True,
        timeout=30,
    )
    assert done.stdout == "demo__echo\tSay it back\ndemo__fail\t\n\n"


@pytest.mark.parametrize("shell", SHELLS)
def test_the_script_is_short(env, shell):
    done = run_hubd(["completion", shell], env, check=True)
    assert done.stdout == Path(completion.__file__).with_name(f"completion.{shell}").read_text()
    assert 5 <= done.stdout.count("\n") <= 10


# --- in shells --------------------------------------------------------------------------------------------------------


def typed(terminal, keys, pattern):
    """What is on the line after these keys."""
    before = len(terminal.output)
    terminal.type(keys)
    terminal.wait_for(pattern, before)
    terminal.type("\x15")


def test_in_bash(env, tmp_path):
    assert shutil.which("bash")
    (tmp_path / "rc").write_text(
        'PS1="> "\nbind "set bell-style none"\nbind "set show-all-if-ambiguous on"\n'
        'source <(hubd completion bash)\necho re""ady\n'
    )
    argv = ["bash", "--noprofile", "--rcfile", tmp_path / "rc", "-i"]
    with Terminal(argv, env, columns=120, cwd=tmp_path) as terminal:
        terminal.wait_for("ready")
        typed(terminal, "hubd stat\t", "hubd status ")
        typed(terminal, "hubd restart d\t", "restart demo ")
        typed(terminal, "hubd call demo__e\t", "call demo__echo ")
        typed(terminal, "hubd call demo__echo te\t", "text=")
        typed(terminal, "hubd status --color=al\t", "--color=always ")
        typed(terminal, "hubd call demo__\t", r"demo__echo\s+demo__fail")
        terminal.type("exit\n")
        terminal.end()


ZSH = debian.find("zsh")
FISH = debian.find("fish")


@pytest.mark.skipif(ZSH is None, reason="zsh is missing: make deps")
def test_in_zsh(env, tmp_path):
    unpacked = str(ZSH.path).startswith(str(debian.UNPACKED))
    paths = ""
    if unpacked:
        modules = next((debian.UNPACKED / "usr/lib").glob("*/zsh/*"))
        paths = f"module_path=({modules})\nfpath=({debian.UNPACKED}/usr/share/zsh/functions/**/*(/N))\n"
    rc = f'setopt extendedglob\n{paths}autoload -Uz compinit; compinit -u -D\nPS1="> "\nunsetopt beep\n'
    (tmp_path / ".zshrc").write_text(f"{rc}source <(hubd completion zsh)\necho re''ady\n")
    with Terminal([ZSH.path, "-d", "-i"], {**ZSH.env, **env, "ZDOTDIR": str(tmp_path)}, columns=120) as terminal:
        terminal.wait_for("ready")
        typed(terminal, "hubd stat\t", "us")
        typed(terminal, "hubd restart d\t", "emo")
        typed(terminal, "hubd call demo__echo te\t1", "xt=1")
        typed(terminal, "hubd call demo__\t", r"(?s)demo__echo.*Say it back.*demo__fail")
        terminal.type("exit\n")
        terminal.end()


@pytest.mark.skipif(FISH is None, reason="fish is missing: make deps")
def test_in_fish(env, tmp_path):
    script = "hubd completion fish | source; complete -C 'hubd stat'; complete -C 'hubd restart '"
    script += "; complete -C 'hubd call demo__'; complete -C 'hubd status --color=al'"
    home = {"HOME": str(tmp_path), "XDG_DATA_HOME": str(tmp_path)}
    done = subprocess.run(
        [FISH.path, "--no-config", "-c", script],
        env={**FISH.env, **env, **home},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    lines = CODES.sub("", done.stdout).splitlines()
    assert [line.split("\t")[0] for line in lines] == ["status", "demo", "demo__echo", "demo__fail", "--color=always"]
    assert "demo__echo\tSay it back" in lines


def test_registries_are_those_of_the_file_and_the_official_one(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert names("search", "--registry", "") == ["official"]
    (tmp_path / "hubd").mkdir()
    file = tmp_path / "hubd" / "hubd.toml"
    file.write_text('[registries.acme]\nurl = "https://x.example"\n[registries."$(x)"]\n')
    assert names("add", "a/b", "--registry", "") == ["acme", "official"]
    file.write_text("registries = 5")
    assert names("search", "--registry=") == ["--registry=official"]
    file.write_text("x")
    assert names("search", "x", "--registry", "off") == ["official"]


def test_names_that_shells_expand_as_jobs_are_left_out():
    def hub(method):
        return {"upstreams": [{"name": name, "state": "connected"} for name in ("%1", "%self", "time")]}

    assert names("restart", "", ask=hub) == ["time"]
