"""`hubd add`, `remove`, `enable`, `disable` and `edit` as commands, in a home of their own."""

import contextlib
import json
import os
import pty
import re
import shlex
import subprocess
import sys
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from config.show.json_schema import schema
from hub.cli.configuration.edit_command import EDITORS
from tests.support import attached
from tests.support.commands import run_hubd
from tests.support.looking import until, until_connected
from tests.support.processes import HUBD, own_directories, running, running_hub
from tests.support.terminal import Terminal

DEMO = "[upstreams.demo]\ncommand = 'true'\n"
SECRET = "ghp_0123456789abcdefghijABCDEFGHIJ"


class Home:
    """A user's directories, and commands that run there."""

    def __init__(self, directory):
        self.env = own_directories(directory)
        self.env["TMPDIR"] = str(directory)
        self.file = Path(self.env["XDG_CONFIG_HOME"], "hubd", "hubd.toml")
        self.backups = Path(self.env["XDG_STATE_HOME"], "hubd", "backups")

    def write(self, text):
        self.file.parent.mkdir(mode=0o700, exist_ok=True)
        self.file.write_text(text)

    def run(self, *arguments, code=0, **env):
        """Everything a command says."""
        done = run_hubd(arguments, self.env | env)
        assert done.returncode == code, done.stdout + done.stderr
        assert "Traceback" not in done.stderr
        return done.stdout + done.stderr

    def told(self, command, *arguments, **env):
        """The object that a command prints for programs."""
        return json.loads(self.run(command, "--json", *arguments, **env).partition("\nhubd: ")[0])

    def upstreams(self):
        return tomllib.loads(self.file.read_text()).get("upstreams", {})


@pytest.fixture
def home(tmp_path):
    return Home(tmp_path)


# --- add --------------------------------------------------------------------------------------------------------------


def test_add_a_command(home):
    said = home.run(
        *("add", "files", "--env", "A=b=c", "--env", "B=${HOME}", "--cwd", "~/x", "--disabled"),
        *(
            "--set",
            "timeouts.call=600",
            "--set",
            "era=modern",
            "--set",
            'aliases=["old"]',
            "--",
            "sh",
            "-c",
            "x -- y",
            "--env",
        ),
    )
    assert f"added files: {home.file} (new)\nno hub is running; the next one will read it\n" in said
    assert home.upstreams() == {
        "files": {
            "command": "sh",
            "args": ["-c", "x -- y", "--env"],
            "env": {"A": "b=c", "B": "${HOME}"},
            "cwd": f"{home.env['HOME']}/x",
            "disabled": True,
            "timeouts": {"call": 600},
            "era": "modern",
            "aliases": ["old"],
        }
    }
    assert home.file.read_text().startswith("#:schema ./hubd.schema.json\n")
    assert json.loads(home.file.with_name("hubd.schema.json").read_text()) == schema()
    assert home.file.stat().st_mode & 0o777 == 0o600
    assert home.file.parent.stat().st_mode & 0o777 == 0o700


def test_add_a_url(home):
    home.write(f"# mine\n{DEMO}")
    said = home.run("add", "there", "--header", "X-A: b", "--header", "X-B=c:d", "--url", "https://example.com/mcp?a=b")
    assert home.upstreams()["there"] == {"url": "https://example.com/mcp?a=b", "headers": {"X-A": "b", "X-B": "c:d"}}
    assert home.file.read_text().startswith(f"# mine\n{DEMO}")
    [backup] = home.backups.iterdir()
    assert f"(before: {backup})" in said
    assert backup.read_text() == f"# mine\n{DEMO}"
    assert "warning" not in said


@pytest.mark.parametrize(
    ("arguments", "code", "expected"),
    [
        (["x"], 2, "after `--`, or which URL"),
        (["x", "--url", "https://example.com", "--", "y"], 2, "after `--`, or which URL"),
        (["x", "--"], 2, "after `--`, or which URL"),
        (["x", "--env", "A", "--", "y"], 2, "--env takes KEY=VALUE"),
        (["x", "--header", "A", "--url", "https://example.com"], 2, "--header takes KEY=VALUE"),
        (["x", "--set", "timeout=5", "--", "y"], 2, 'no setting "timeout"; did you mean "timeouts"?'),
        (["x", "--set", "timeouts=5", "--set", "timeouts.call=5", "--", "y"], 2, "timeouts has a value already"),
        (["x", "--set", "era=modern", "--set", "era=auto", "--", "y"], 2, "era: it has a value already"),
        (["My_Server!", "--", "y"], 1, 'for instance "my-server"'),
        (["demo", "--", "y"], 1, "already, in"),
        (["x", "--url", "nonsense"], 78, 'upstreams.x.url: expected an address such as "https://example.com/mcp"'),
        (["x", "--env", "A=${NOT_SET_ANYWHERE}", "--", "y"], 78, "the variable NOT_SET_ANYWHERE is not set"),
        (["x", "--set", "env.A=5", "--set", "headers=1", "--", "y"], 78, "expected text in quotes"),
        (["x", "--set", "era=soon", "--", "y"], 78, 'must be one of "auto", "legacy", "modern"'),
    ],
)
def test_what_makes_no_sense_changes_nothing(home, arguments, code, expected):
    home.write(DEMO)
    assert expected in home.run("add", *arguments, code=code)
    assert home.file.read_text() == DEMO
    assert not home.backups.exists()


@pytest.mark.covers("SEC-61")
@pytest.mark.parametrize(
    ("arguments", "advice"),
    [
        (["--env", f"GITHUB_PAT={SECRET}", "--", "sh"], "better pass --secrets store, or write '${secret:GITHUB_PAT}'"),
        (["--env", "MY_API_KEY=hunter2", "--", "sh"], "or '${MY_API_KEY}' (a variable"),
        (["--header", f"Authorization=Bearer {SECRET}", "--url", "https://e.com"], "'Bearer ${X_TOKEN}'"),
        (["--url", f"https://e.com/?api_key={SECRET}"], "url seems to hold a secret"),
        (["--", "sh", "--token", SECRET], "args seems to hold a secret"),
        (["--", "sh", "-e", "API_TOKEN=hunter2"], "args seems to hold a secret"),
    ],
)
def test_a_secret_in_the_file_is_warned_of_and_not_repeated(home, arguments, advice):
    said = home.run("add", "x", *arguments)
    assert advice in said
    assert SECRET not in said
    assert "hunter2" not in said


def test_variables_are_no_secrets(home):
    said = home.run("add", "x", "--header", "Authorization=Bearer ${T}", "--url", "https://e.com", T="x")
    assert "warning" not in said


def test_a_command_that_is_not_there_and_a_name_that_could_be_better_are_warned_of(home):
    said = home.run("add", "with_underscore", "--", "no-such-command")
    assert "warning: there is no command no-such-command on the PATH" in said
    assert '"with_underscore" works, but' in said
    assert "with_underscore" in home.upstreams()


@pytest.mark.parametrize(
    ("options", "setting", "name"),
    [
        (
            ["--env", f"GITHUB_PAT={SECRET}", "--", "sh"],
            {"env": {"GITHUB_PAT": "${secret:X_GITHUB_PAT}"}},
            "X_GITHUB_PAT",
        ),
        (
            ["--header", f"Authorization=Bearer {SECRET}", "--url", "https://e.com"],
            {"headers": {"Authorization": "Bearer ${secret:X_TOKEN}"}},
            "X_TOKEN",
        ),
        (["--", "sh", "--token", SECRET], {"args": ["--token", "${secret:X_ARG_1}"]}, "X_ARG_1"),
    ],
)
def test_a_secret_is_kept_apart_for_scripts(home, options, setting, name):
    home.env["PYTHON_KEYRING_BACKEND"] = "keyring.backends.fail.Keyring"
    kept = Path(home.env["XDG_STATE_HOME"], "hubd", "secrets.json")
    tried = home.run("add", "x", "--secrets", "store", "--dry-run", *options)
    assert f"${{secret:{name}}}" in tried
    assert not kept.exists()
    said = home.run("add", "x", "--secrets", "store", *options)
    assert re.search(rf"kept in a file only you can read( \(.*\))?: {name}", said)
    assert "warning" not in said
    assert home.upstreams()["x"].items() >= setting.items()
    assert json.loads(kept.read_text())["secrets"][name]["value"] == SECRET
    assert SECRET not in tried + said + home.file.read_text()


def test_nothing_is_kept_of_a_server_that_cannot_be_added(home):
    home.write(DEMO)
    said = home.run("add", "demo", "--secrets", "store", "--env", f"A_KEY={SECRET}", "--", "sh", code=1)
    assert 'there is a server "demo" already' in said
    home.run("add", "x", "--secrets", "store", "--set", "ping_s=-1", "--env", f"A_KEY={SECRET}", "--", "sh", code=78)
    assert not Path(home.env["XDG_STATE_HOME"], "hubd", "secrets.json").exists()


@pytest.mark.parametrize("answer", ["", "n"])
def test_on_a_terminal_it_asks_where_a_secret_is_to_be_kept(home, answer):
    home.env["PYTHON_KEYRING_BACKEND"] = "keyring.backends.fail.Keyring"
    pid, terminal = pty.fork()
    if not pid:
        argv = [str(HUBD), "add", "x", "--env", f"API_KEY={SECRET}", "--", "sh"]
        os.execve(HUBD, argv, home.env)
    said = b""
    while b"[Y/n]" not in said:
        said += os.read(terminal, 1024)
    assert b"env.API_KEY looks secret" in said
    os.write(terminal, f"{answer}\n".encode())
    with contextlib.suppress(OSError):
        while os.read(terminal, 1024):
            pass
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    os.close(terminal)
    assert home.upstreams()["x"]["env"]["API_KEY"] == ("${secret:X_API_KEY}" if not answer else SECRET)


# --- remove, enable, disable ------------------------------------------------------------------------------------------


def test_a_server_comes_is_turned_off_and_on_and_goes(home):
    home.write(f"# mine\n{DEMO}")
    before = home.file.read_text()
    home.run("add", "x", "--", "sh")
    added = home.file.read_text()
    assert f"disabled x: {home.file}" in home.run("disable", "x")
    assert home.upstreams()["x"] == {"command": "sh", "disabled": True}
    assert home.run("disable", "x") == "x is disabled already; nothing was changed\n"
    assert f"enabled x: {home.file}" in home.run("enable", "x")
    assert home.file.read_text() == added
    assert f"removed x: {home.file}" in home.run("remove", "x")
    assert home.file.read_text() == before
    assert 'there is no server "x"; there are: demo' in home.run("remove", "x", code=1)
    assert 'did you mean "demo"?' in home.run("enable", "dmo", code=1)


def test_the_demo_is_no_server_of_the_configuration(home):
    said = home.run("disable", "demo", code=1)
    assert "Without one a hub serves the demo, which goes with the first `hubd add`" in said


def test_another_file_by_its_name(home, tmp_path):
    (file := tmp_path / "own.toml").write_text(DEMO)
    home.run("add", "x", "--config", file, "--", "sh")
    assert set(tomllib.loads(file.read_text())["upstreams"]) == {"demo", "x"}
    assert not home.file.exists()


def test_the_hub_that_runs_takes_up_what_was_added_and_removed(home, tmp_path):
    with running_hub(tmp_path, DEMO) as hub:

        def known():
            return {each["name"]: each["state"] for each in json.loads(home.run("status", "--json"))["upstreams"]}

        took = "applied by the running hub\n"
        assert took in home.run("disable", "demo", "--config", hub.config)
        assert known() == {"demo": "disabled"}
        assert took in home.run("add", "x", "--config", hub.config, "--disabled", "--", "sh")
        assert known() == {"demo": "disabled", "x": "disabled"}
        assert took in home.run("remove", "x", "--config", hub.config)
        assert known() == {"demo": "disabled"}
        home.write("")
        other = home.run("add", "x", "--config", home.file, "--", "sh")
        assert f"the running hub reads other files: {hub.config}" in other


@pytest.mark.parametrize("usual", [None, DEMO])
def test_the_file_of_the_hub_that_runs_is_edited_where_none_is_named(home, tmp_path, usual):
    if usual is not None:
        home.write(usual)
    with running_hub(tmp_path, attached.DEMO) as hub, attached.ready(hub):
        until_connected(hub.env, "demo")
        note = f"this is about {hub.config}, which the running hub uses; --config names another file"

        def states():
            return {each["name"]: each["state"] for each in home.told("status")["upstreams"]}

        for command, found in (
            (("add", "x", "--disabled", "--", "sh"), {"demo": "connected", "x": "disabled"}),
            (("disable", "demo"), {"demo": "disabled", "x": "disabled"}),
            (("enable", "demo"), {"demo": "connected", "x": "disabled"}),
            (("remove", "demo"), {"x": "disabled"}),
            (("edit",), {"y": "disabled"}),
        ):
            own = editor(tmp_path, '[upstreams.y]\ncommand = "sh"\ndisabled = true\n')
            told = home.told(*command, VISUAL=own)
            assert (told["files"][0]["file"], told["hub"], told["notes"]) == (str(hub.config), "running", [note])
            until(hub.env, lambda rows: {name: row["state"] for name, row in rows.items()} == found)  # noqa: B023
        said = home.run("add", "z", "--disabled", "--", "sh")
        assert note in " ".join(said.split())
        assert f"added z: {hub.config}" in said
        home.run("env", "capture")
        assert hub.config.with_name("hubd.env").exists()
        assert not home.file.with_name("hubd.env").exists()
        (cursor := Path(home.env["HOME"], ".cursor")).mkdir()
        (cursor / "mcp.json").write_text('{"mcpServers": {"i": {"command": "cat", "disabled": true}}}')
        assert home.told("import", "cursor", "--yes")["notes"][0] == note
        home.run("reload")
        assert states() == {"y": "disabled", "z": "disabled", "i": "disabled"}
        assert (home.file.read_text() if home.file.exists() else None) == usual
    home.run("add", "w", "--disabled", "--", "sh")
    assert "w" in home.upstreams(), "a socket that nobody listens at any more names no file"


@contextlib.contextmanager
def serving(home, tmp_path):
    """A hub that reads the user's own configuration."""
    with running([HUBD, "serve", "--listen", "127.0.0.1:0"], tmp_path / "log", env=home.env, forked=True) as process:
        process.wait_for("hubd listens on")
        yield


def install(home, host, flag):
    (entry,) = home.told("install", host, flag)["hosts"]
    return Path(entry["file"]).read_text()


def test_secrets_tokens_and_the_record_of_the_shell_are_of_the_hub_that_runs(home, tmp_path):
    own = 40 * "t"
    uses = "[upstreams.demo]\ncommand = 'true'\nargs = ['${secret:OURS}']\n"
    home.write("")
    with running_hub(tmp_path, f"token = '{own}'\n{uses}[profiles.work]\n", auth="none") as hub:
        note = f"this is about {hub.config}, which the running hub uses; --config names another file"
        listed = json.loads(home.run("secret", "ls", "--json"))
        assert [(each["name"], each["servers"]) for each in listed["secrets"]] == [("OURS", ["demo"])]
        assert listed["notes"] == [note]
        done = run_hubd(["token"], home.env)
        assert done.stdout.strip() == own
        assert note in " ".join(done.stderr.split())
        assert json.loads(home.run("token", "--json")) == {"token": own, "notes": [note]}
        assert json.loads(home.run("token", "new", "laptop", "--profile", "work", "--json"))["notes"][0] == note
        home.run("install", "cursor")
        each, by_url = (json.loads(install(home, *flags)) for flags in (("kiro", "--each"), ("windsurf", "--http")))
        assert list(each["mcpServers"]) == ["demo"]
        assert own in json.dumps(by_url["mcpServers"]["hub"]), "the token of the file that the hub uses"
        assert hub.config.with_name("hubd.env").exists()
        assert not home.file.with_name("hubd.env").exists()


def test_a_hub_that_has_only_read_what_was_imported_takes_up_the_first_file_of_the_user(home, tmp_path):
    (imported := home.file.parent / "imported").mkdir(parents=True, mode=0o700)
    (imported / "cursor.toml").write_text("[upstreams.one]\ncommand = 'true'\ndisabled = true\n")
    with serving(home, tmp_path):
        assert "applied by the running hub" in home.run("add", "two", "--disabled", "--", "sh")
        assert "applied by the running hub" in home.run("remove", "two")


def test_a_file_that_cannot_be_read_is_the_same_mistake_for_every_command(home, tmp_path):
    home.write(DEMO)
    with serving(home, tmp_path):
        home.write("[upstreams")
        for command in ("reload", "add x -- sh", "remove demo", "disable demo", "enable x"):
            assert "line 1: is not TOML" in home.run(*command.split(), code=78)
        home.write("\n")
        home.run("add", "x", "--disabled", "--", "sh")


def test_a_server_that_needs_a_variable_which_only_the_shell_has_hinders_no_other_change(home, tmp_path):
    home.write(DEMO)
    with serving(home, tmp_path):
        said = home.run("add", "x", "--", "sh", "${ONLY_HERE}", code=1, ONLY_HERE="1")
        assert "ONLY_HERE is set in this shell only: run `hubd secret set ONLY_HERE`" in said
        assert "x: unresolved" in said
        assert "the variable ONLY_HERE is not set: run `hubd secret set ONLY_HERE`" in said
        assert "applied by the running hub" in home.run("add", "y", "--disabled", "--", "sh")


def test_what_the_running_hub_refuses_is_told_with_what_it_lacks(home, tmp_path):
    home.write(DEMO)
    with serving(home, tmp_path):
        home.write('token = "${ONLY_HERE}"\n' + DEMO)
        variable = {"ONLY_HERE": 40 * "x"}
        said = home.run("add", "x", "--json", "--disabled", "--", "sh", code=78, **variable)
        told = json.loads(said.partition("\nhubd: ")[0])
        assert (told["did"], told["hub"], told["error"]["code"]) == ("added", "refused", 78)
        assert "token: the variable ONLY_HERE is not set" in told["error"]["message"]
        assert told["error"]["message"].endswith(f"write those it needs into {home.file.with_name('hubd.env')}")
        home.file.with_name("hubd.env").write_text(f"ONLY_HERE={variable['ONLY_HERE']}\n")
        assert "applied by the running hub" in home.run("remove", "x")


def test_two_at_once_both_count(home):
    with ThreadPoolExecutor(6) as pool:
        racers = [pool.submit(run_hubd, ["add", f"s{number}", "--", "sh"], home.env) for number in range(6)]
    assert [racer.result().returncode for racer in racers] == [0] * 6
    assert set(home.upstreams()) == {f"s{number}" for number in range(6)}


@pytest.mark.covers("SEC-61")
def test_what_would_be_changed_is_shown_without_secrets(home):
    home.write(f"{DEMO}env = {{ API_KEY = '{SECRET}' }}\n")
    before = home.file.read_text()
    said = home.run("add", "x", "--dry-run", "--env", f"TOKEN={SECRET}", "--", "sh")
    assert "+[upstreams.x]" in said
    assert SECRET not in said
    assert "-[upstreams.demo]" in home.run("remove", "demo", "--dry-run")
    assert "+disabled = true" in home.run("disable", "demo", "--dry-run")
    assert "nothing would be changed" in home.run("enable", "demo", "--dry-run")
    assert home.run("remove", "x", "--dry-run", code=1)
    assert home.file.read_text() == before
    assert not home.backups.exists()


# --- for programs -----------------------------------------------------------------------------------------------------


@pytest.mark.covers("SEC-61")
def test_programs_are_told_what_was_done(home):
    added = json.loads(home.run("add", "x", "--json", "--env", f"API_KEY={SECRET}", "--", "sh"))
    assert (added["name"], added["did"], added["dry_run"], added["hub"]) == ("x", "added", False, "none")
    (file,) = added["files"]
    assert (file["file"], file["backup"]) == (str(home.file), None)
    assert "+[upstreams.x]" in file["diff"]
    assert "API_KEY" in added["warnings"][0]
    assert SECRET not in json.dumps(added)
    before = home.file.read_text()
    tried = json.loads(home.run("disable", "x", "--dry-run", "--json"))
    assert home.file.read_text() == before
    done = json.loads(home.run("disable", "x", "--json"))
    assert (tried["did"], tried["dry_run"], done["did"], done["dry_run"]) == ("disabled", True, "disabled", False)
    assert tried["files"][0]["diff"] == done["files"][0]["diff"]
    assert Path(done["files"][0]["backup"]).read_text() == before
    again = json.loads(home.run("disable", "x", "--json"))
    assert (again["did"], again["files"]) == ("unchanged", [])
    assert json.loads(home.run("enable", "x", "--json"))["did"] == "enabled"
    assert json.loads(home.run("remove", "x", "--json"))["did"] == "removed"


def test_programs_are_told_what_was_wrong(home):
    done = run_hubd(["add", "x", "--json", "--url", "nonsense"], home.env)
    assert done.returncode == 78
    found = json.loads(done.stdout)
    assert found["error"]["code"] == 78
    (problem,) = found["problems"]
    assert (problem["file"], problem["key"]) == (str(home.file), ["upstreams", "x", "url"])
    assert not home.file.exists()


def test_programs_may_edit(home):
    home.write(DEMO)
    done = run_hubd(
        ["edit", "--json"], home.env | {"VISUAL": "", "EDITOR": "sh -c 'echo it talks; echo \"# more\" >> $0'"}
    )
    assert done.stderr == "it talks\n", "standard output is the object's alone"
    said = json.loads(done.stdout)
    assert said["did"] == "edited"
    assert "+# more" in said["files"][0]["diff"]


# --- edit -------------------------------------------------------------------------------------------------------------


def editor(tmp_path, *texts):
    """An editor that saves these texts, one each time it is started."""
    (script := tmp_path / "my editor.py").write_text(
        "import pathlib, sys\n"
        f"texts = {texts!r}\n"
        "count = pathlib.Path(sys.argv[0] + '.count')\n"
        "at = len(count.read_text()) if count.exists() else 0\n"
        "count.write_text('x' * (at + 1))\n"
        "assert pathlib.Path(sys.argv[-1]).stat().st_mode\n"
        "if texts[at] != '': pathlib.Path(sys.argv[-1]).write_bytes(texts[at].encode('latin-1'))\n"
    )
    return f"{shlex.quote(sys.executable)} {shlex.quote(str(script))}"


def test_edit_saves_what_is_right(home, tmp_path):
    home.write(DEMO)
    said = home.run("edit", VISUAL=editor(tmp_path, f"{DEMO}# more\n"), EDITOR="false")
    assert f"edited: {home.file} (before: " in said
    assert home.file.read_text() == f"{DEMO}# more\n"


def test_edit_begins_a_file_that_is_not_there(home, tmp_path):
    assert f"nothing changed in {home.file}" in home.run("edit", EDITOR=editor(tmp_path, ""))
    assert not home.file.exists()
    assert "(new)" in home.run("edit", EDITOR=editor(tmp_path, DEMO, DEMO))


@pytest.mark.covers("F-C-02", "I-7")
@pytest.mark.parametrize(
    ("text", "code", "expected"),
    [
        ("[upstreams.demo]\ncmmand = 'x'\n", 78, "hubd.toml, line 2: upstreams.demo"),
        ("[upstreams", 78, "line 1: is not TOML"),
        (" \n", 78, "is empty"),
        ("# \xff\n", 1, "is not UTF-8 text"),
    ],
)
def test_edit_keeps_what_is_wrong_out(home, tmp_path, text, code, expected):
    home.write(DEMO)
    said = home.run("edit", code=code, EDITOR=editor(tmp_path, text))
    assert expected in said
    assert home.file.read_text() == DEMO
    copy = Path(said.rstrip().removesuffix(".").split(" is in ")[-1])
    assert copy.name == "hubd.toml"
    assert copy.read_bytes() == text.encode("latin-1")
    assert copy.parent.stat().st_mode & 0o777 == 0o700


def test_a_file_that_was_broken_and_is_left_so_is_not_kept_twice(home, tmp_path):
    (there := tmp_path / "tmp").mkdir()
    home.write("[upstreams")
    said = home.run("edit", code=78, EDITOR="true", TMPDIR=str(there))
    assert f"{home.file} was left as it is, and has these mistakes" in said
    assert list(there.iterdir()) == []


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("/no/such --thing", "cannot start the editor /no/such"),
        ("false", "the editor ended with code 1"),
        ("rm", "the editor left no file"),
    ],
)
def test_an_editor_that_fails_leaves_nothing_behind(home, tmp_path, command, expected):
    home.write(DEMO)
    (there := tmp_path / "tmp").mkdir()
    said = home.run("edit", code=1, EDITOR=command, TMPDIR=str(there))
    assert expected in said
    assert "Your text" not in said
    assert list(there.iterdir()) == []
    assert home.file.read_text() == DEMO


@pytest.mark.parametrize("words", [("edit",), ("edit", "--json"), ("tools", "--pick", "small")])
def test_no_editor_is_guessed_where_there_is_no_terminal(home, tmp_path, words):
    home.write(DEMO)
    (there := tmp_path / "bin").mkdir()
    (there / "vi").write_text("#!/bin/sh\necho it was started >&2\n")
    (there / "vi").chmod(0o755)
    said = home.run(*words, code=2, PATH=f"{there}:/bin:/usr/bin", VISUAL="", EDITOR="")
    assert "there is no terminal here for an editor" in said
    assert "set VISUAL" in said
    assert "it was started" not in said
    assert home.file.read_text() == DEMO


def test_an_editor_is_guessed_at_a_terminal_and_not_where_its_screen_would_go_into_a_file(home, tmp_path):
    home.write(DEMO)
    (there := tmp_path / "bin").mkdir()
    for name in EDITORS:
        (there / name).write_text("#!/bin/sh\n")
        (there / name).chmod(0o755)
    env = home.env | {"PATH": f"{there}:/bin:/usr/bin", "VISUAL": "", "EDITOR": ""}
    with Terminal([HUBD, "edit"], env) as terminal:
        code, out = terminal.end()
    assert (code, "nothing changed in" in out) == (0, True)
    with Terminal(["/bin/sh", "-c", f"exec {HUBD} edit >{tmp_path}/out"], env) as terminal:
        code, out = terminal.end()
    assert (code, "there is no terminal here" in out) == (2, True)


def test_an_editor_that_is_no_command_line(home):
    home.write(DEMO)
    assert "EDITOR is no command line" in home.run("edit", code=2, EDITOR="vi 'x", VISUAL="")


def test_edit_names_what_is_passed_over(home, tmp_path):
    home.write(DEMO)
    assert 'did you mean "drain_s"?' in home.run("edit", EDITOR=editor(tmp_path, f"drian_s = 1\n{DEMO}"))


def test_ctrl_c_in_place_of_editing_again_says_where_the_text_is(home, tmp_path):
    home.write(DEMO)
    env = home.env | {"EDITOR": editor(tmp_path, "[upstreams")}
    with Terminal([HUBD, "edit"], env, columns=400) as terminal:
        terminal.wait_for("edit it again")
        terminal.type("\x03")
        code, out = terminal.end()
    assert code == 130
    (kept,) = tmp_path.glob("hubd-edit-*/hubd.toml")
    assert f"{home.file} was left as it is; your text is in {kept}\n" in out


def test_a_person_may_edit_again(home, tmp_path):
    home.write(DEMO)
    host, ours = pty.openpty()
    try:
        env = home.env | {"EDITOR": editor(tmp_path, "[upstreams", f"{DEMO}# right\n")}
        edit = subprocess.Popen([HUBD, "edit"], env=env, stdin=ours, stderr=ours, stdout=subprocess.PIPE, text=True)
        asked = b""
        while b"edit it again? [Y/n]" not in asked:
            asked += os.read(host, 4096)
        assert b"is not TOML" in asked
        os.write(host, b"\n")
        said, _ = edit.communicate(timeout=60)
    finally:
        os.close(host)
        os.close(ours)
    assert edit.returncode == 0
    assert f"edited: {home.file}" in said
    assert home.file.read_text() == f"{DEMO}# right\n"
