"""`hubd tools --pick`, with an editor that follows a script."""

import json
import shlex
import sys
import tomllib

import pytest

from tests.support.attached import hubd, upstream
from tests.support.processes import HUBD
from tests.support.terminal import Terminal

pytestmark = pytest.mark.covers("EP-10")

CODING = """
[profiles.coding]   # for work
hosts = ["cursor"]
tools = ["files__*"]
# the end
"""
SERVERS = "\n".join(
    [
        "# mine\nstartup_grace_s = 60",
        upstream("files", {"tools": ["read", "write", "move"]}),
        upstream("mail", {"tools": ["send", "fetch"]}),
    ]
)


def editor(directory, *steps):
    """An editor that runs these Python expressions, which change `text`, one each time it is started."""
    (script := directory / "my editor.py").write_text(
        "import pathlib, sys\n"
        f"steps = {steps!r}\n"
        "count = pathlib.Path(sys.argv[0] + '.count')\n"
        "at = len(count.read_text()) if count.exists() else 0\n"
        "count.write_text('x' * (at + 1))\n"
        "path = pathlib.Path(sys.argv[-1])\n"
        "text = path.read_text()\n"
        "pathlib.Path(sys.argv[0] + '.seen').write_text(text)\n"
        "path.write_text(eval(steps[at]))\n"
    )
    return f"{shlex.quote(sys.executable)} {shlex.quote(str(script))}"


def seen(directory):
    return (directory / "my editor.py.seen").read_text()


def pick(hub, directory, name, *steps, code=0):
    """What the command says, and whether it left its file behind."""
    again = hub._replace(
        env={**hub.env, "VISUAL": editor(directory, *steps), "EDITOR": "false", "TMPDIR": str(directory)}
    )
    done = hubd(again, "tools", "--pick", name, "--config", hub.config)
    assert done.returncode == code, done
    assert "Traceback" not in done.stderr
    return done.stdout + done.stderr


def profiles(hub):
    return tomllib.loads(hub.config.read_text()).get("profiles", {})


def left(directory):
    return list(directory.glob("hubd-pick-*"))


def test_a_new_profile(hub, tmp_path):
    said = pick(hub, tmp_path, "small", "text.replace('files__write', '#files__write').replace('mail__fetch ', '#')")
    assert "small: 3 tools" in said
    assert profiles(hub) == {"small": {"tools": ["files__*", "mail__send", "!files__write"]}}
    assert hub.config.read_text().startswith(SERVERS)
    assert left(tmp_path) == []
    names = [tool["name"] for tool in json.loads(hubd(hub, "tools", "--profile", "small", "--json").stdout)]
    assert names == ["files__read", "files__move", "mail__send"]
    assert hubd(hub, "tools", "--profile", "small").stdout.splitlines()[0].startswith("files__read")
    costs = json.loads(hubd(hub, "tools", "--profile", "small", "--cost", "--json").stdout)["tools"]
    assert {each["name"] for each in costs} == {*names}


def test_a_label_of_a_host_names_its_profile(hub, tmp_path):
    pick(hub, tmp_path, "windsurf", "text.replace('mail__', '#mail__')")
    assert "# The tools of the profile windsurf (windsurf): all of 5 tools" in seen(tmp_path)
    assert profiles(hub) == {"windsurf": {"hosts": ["windsurf"], "servers": ["files"]}}


def test_a_profile_that_is_there_is_changed_and_nothing_around_it(hub, tmp_path):
    hub.config.write_text(SERVERS + CODING)
    hubd(hub, "reload")
    said = pick(hub, tmp_path, "cursor", "text.replace('#mail__send', 'mail__send')")
    assert "# The tools of the profile coding (cursor): 3 tools" in seen(tmp_path)
    assert "#mail__fetch" in seen(tmp_path)
    assert "coding: 4 tools" in said
    assert hub.config.read_text() == SERVERS + CODING.replace('["files__*"]', '["files__*", "mail__send"]')


@pytest.mark.parametrize(
    ("step", "why"),
    [
        ("text", "closed as it was"),
        ("''", "no line of a tool any more"),
        ("'# nothing'", "to leave all tools out, put `#` before each"),
        ("text.replace('files__', ' files__')", "the profile coding shows these tools already"),
    ],
)
def test_nothing_chosen_or_nothing_changed_changes_nothing_and_says_why(hub, tmp_path, step, why):
    hub.config.write_text(SERVERS + CODING)
    hubd(hub, "reload")
    said = pick(hub, tmp_path, "coding", step)
    assert "nothing was changed" in said
    assert why in said
    assert hub.config.read_text() == SERVERS + CODING
    assert left(tmp_path) == []


NONE = "__import__('re').sub('(?m)^(?=[fm])', '#', text)"


def test_all_left_out_is_written(hub, tmp_path):
    hub.config.write_text(SERVERS + CODING)
    hubd(hub, "reload")
    assert "coding: no tools\n" in pick(hub, tmp_path, "coding", NONE)
    assert profiles(hub) == {"coding": {"hosts": ["cursor"], "tools": []}}
    assert json.loads(hubd(hub, "tools", "--profile", "coding", "--json").stdout) == []


@pytest.mark.parametrize(("answer", "written"), [("n", False), ("y", True)])
def test_whoever_leaves_all_out_at_a_terminal_is_asked(hub, tmp_path, answer, written):
    env = {**hub.env, "VISUAL": editor(tmp_path, NONE), "TMPDIR": str(tmp_path)}
    with Terminal([HUBD, "tools", "--pick", "small", "--config", hub.config], env, columns=120) as terminal:
        terminal.see("No tool is left: hosts of small would be shown none. Write that")
        terminal.type(f"{answer}\n")
        assert terminal.end()[0] == 0
    assert profiles(hub) == ({"small": {"tools": []}} if written else {})


def test_a_new_profile_of_all_tools_says_nothing_new(hub, tmp_path):
    said = pick(hub, tmp_path, "small", "text + '\\n'")
    assert (
        "all tools were chosen, which is what hosts without a profile are shown: no profile small was written" in said
    )
    assert profiles(hub) == {}


def test_a_profile_that_no_host_has_says_how_one_gets_it(hub, tmp_path):
    step = "text.replace('mail__', '#mail__')"
    said = pick(hub, tmp_path, "small", step)
    assert "# The tools of the profile small (of no host yet)" in seen(tmp_path)
    assert "no host is shown it yet: list labels of hosts as `hosts` of [profiles.small]" in said
    assert "`hubd connect --profile small`, or the URL /mcp/~small" in said
    said = pick(hub, tmp_path, "default", step, step)
    assert "no host is shown it" not in said


@pytest.mark.parametrize(("name", "meant"), [("windsruf", "windsurf"), ("codng", "coding"), ("defualt", "default")])
def test_a_name_that_is_probably_misspelt_is_refused_or_asked_about(hub, tmp_path, name, meant):
    hub.config.write_text(SERVERS + CODING)
    hubd(hub, "reload")
    said = pick(hub, tmp_path, name, "text.replace('mail__', '#mail__')", code=2)
    assert f'there is neither a profile nor a host {name}; did you mean "{meant}"?' in said
    assert not (tmp_path / "my editor.py.seen").exists()
    env = {**hub.env, "VISUAL": editor(tmp_path, "text.replace('mail__', '#mail__')"), "TMPDIR": str(tmp_path)}
    for answer in ("n", "y"):
        with Terminal([HUBD, "tools", "--pick", name, "--config", hub.config], env, columns=120) as terminal:
            terminal.see(f"Make a new profile {name}")
            terminal.type(f"{answer}\n")
            code, out = terminal.end()
        assert (code, "nothing was changed" in out) == (0, answer == "n")
    assert profiles(hub)[name] == {"servers": ["files"]}


def test_a_name_that_goes_on_from_another_one_is_a_new_one(hub, tmp_path):
    pick(hub, tmp_path, "cursor2", "text.replace('mail__', '#mail__')")
    assert "cursor2" in profiles(hub)


def test_a_broken_list_is_kept_where_nobody_can_be_asked(hub, tmp_path):
    said = pick(hub, tmp_path, "small", "text.replace('files__read', 'files__raed')", code=1)
    assert 'there is no tool files__raed; did you mean "files__read"?' in said
    (folder,) = left(tmp_path)
    assert f"your list is in {folder}/small.tools" in said
    assert "files__raed" in (folder / "small.tools").read_text()
    assert profiles(hub) == {}


def test_a_broken_list_is_asked_again(hub, tmp_path):
    steps = "text.replace('files__read', 'files__raed')", "text.replace('files__raed', '#files__read')"
    env = {**hub.env, "VISUAL": editor(tmp_path, *steps), "TMPDIR": str(tmp_path)}
    with Terminal([HUBD, "tools", "--pick", "small", "--config", hub.config], env, columns=120) as terminal:
        terminal.wait_for("edit it again")
        terminal.type("y\n")
        code, out = terminal.end()
    assert code == 0, out
    assert profiles(hub) == {"small": {"tools": ["files__*", "mail__*", "!files__read"]}}


def test_ctrl_c_in_place_of_editing_again_says_where_the_list_is(hub, tmp_path):
    step = "text.replace('files__read', 'files__raed')"
    env = {**hub.env, "VISUAL": editor(tmp_path, step), "TMPDIR": str(tmp_path)}
    words = [HUBD, "tools", "--pick", "small", "--edit", "--config", hub.config]
    with Terminal(words, env, columns=400) as terminal:
        terminal.wait_for("edit it again")
        terminal.type("\x03")
        code, out = terminal.end()
    (folder,) = left(tmp_path)
    assert (code, f"your list is in {folder}/small.tools\n" in out) == (130, True)


def test_a_choice_that_cannot_be_written_is_kept(hub, tmp_path):
    many = upstream("many", {"tools": [f"t{number}" for number in range(1_700)]})
    hub.config.write_text(f"{SERVERS}\n{many}")
    hubd(hub, "reload")
    assert hubd(hub, "restart", "many").returncode == 0  # it waits until the server is connected
    said = pick(hub, tmp_path, "small", "__import__('re').sub('(?m)^many__t1[0-5]', '#', text)", code=78)
    assert "and 1000 are the most; choose by globs" in said
    assert "nothing was changed" in said
    (folder,) = left(tmp_path)
    assert f"your list is in {folder}/small.tools" in said
    assert profiles(hub) == {}


@pytest.mark.parametrize(
    ("command", "said"), [("false", "the editor ended with code 1"), ("/no/such", "cannot start the editor /no/such")]
)
def test_an_editor_that_fails_changes_nothing(hub, tmp_path, command, said):
    again = hub._replace(env={**hub.env, "VISUAL": command, "TMPDIR": str(tmp_path)})
    done = hubd(again, "tools", "--pick", "small", "--config", hub.config)
    assert done.returncode == 1
    assert said in done.stderr
    assert left(tmp_path) == []


@pytest.mark.parametrize("name", ["A B", "~x", "", "x" * 40])
def test_a_name_that_no_profile_can_have(hub, tmp_path, name):
    assert "cannot be the name of a profile" in pick(hub, tmp_path, name, "text", code=2)


def test_for_programs(hub, tmp_path):
    again = hub._replace(env={**hub.env, "VISUAL": editor(tmp_path, "text.replace('mail__', '#mail__')")})
    done = hubd(again, "tools", "--pick", "small", "--json", "--config", hub.config)
    found = json.loads(done.stdout)
    assert {name: found[name] for name in ("profile", "did", "servers", "shown", "hub")} == {
        "profile": "small",
        "did": "written",
        "servers": ["files"],
        "shown": 3,
        "hub": "running",
    }


DISABLED = """
[upstreams.corp]
command = "corp"
disabled = true
[upstreams.bare]
command = "bare"
disabled = true
prefix = ""
"""


@pytest.fixture
def away(hub):
    """The hub, with two servers that are not connected."""
    hub.config.write_text(SERVERS + DISABLED)
    hubd(hub, "reload")
    return hub


def test_servers_that_are_not_connected_are_said_and_can_be_left_out(away, tmp_path):
    leaving_one = "text.replace('mail__', '#mail__')"
    said = pick(away, tmp_path, "small", leaving_one)
    assert "\ncorp__*  corp is disabled\nbare:*  bare is disabled\n" in seen(tmp_path)
    assert "not connected now, and shown with all their tools once they are: corp, bare" in said
    assert profiles(away) == {"small": {"servers": ["files", "corp", "bare"]}}
    said = pick(away, tmp_path, "other", "", f"{leaving_one}.replace('corp__', '#corp__').replace('bare:', '#bare:')")
    assert "not connected now" not in said
    assert profiles(away)["other"] == {"servers": ["files"]}


def test_a_list_can_begin_with_nothing(away, tmp_path):
    env = {**away.env, "VISUAL": editor(tmp_path, "text.replace('#files__read', 'files__read')")}
    done = hubd(away._replace(env=env), "tools", "--pick", "windsurf", "--empty", "--json", "--config", away.config)
    assert "#mail__send" in seen(tmp_path)
    assert "#corp__*" in seen(tmp_path)
    assert profiles(away) == {"windsurf": {"hosts": ["windsurf"], "servers": ["files"], "tools": ["files__read"]}}
    assert json.loads(done.stdout)["away"] == []


def test_names_of_what_is_not_here_can_be_left_out(away, tmp_path):
    away.config.write_text(SERVERS + DISABLED + '[profiles.few]\ntools = ["files__read", "corp__*", "old__find", "!x"]')
    hubd(away, "reload")
    pick(away, tmp_path, "few", "text.replace('old__', '#old__').replace('#mail__send', 'mail__send')")
    assert "\ncorp__*  corp is disabled\nold__find  not here now" in seen(tmp_path)
    assert profiles(away)["few"]["tools"] == ["files__read", "mail__send", "corp__*", "!x"]


def test_a_server_alone_can_be_chosen_before_it_is_connected(away, tmp_path):
    pick(away, tmp_path, "small", f"{NONE}.replace('#files__read', 'files__read')")
    assert profiles(away)["small"]["tools"] == ["!files__write", "!files__move"]
    pick(away, tmp_path, "small", "", "__import__('re').sub('(?m)^(?=[fmb])', '#', text)")
    assert profiles(away) == {"small": {"servers": ["corp"], "tools": ["corp__*"]}}


@pytest.mark.parametrize("options", [["--empty"], ["--edit"]])
def test_options_of_a_pick_alone(hub, options):
    done = hubd(hub, "tools", *options)
    assert (done.returncode, "--empty and --edit go with --pick PROFILE" in done.stderr) == (2, True)


# --- at a terminal ----------------------------------------------------------------------------------------------------

DOWN = "\x1b[B"


def arrows(hub, *options, columns=80, rows=24, **env):
    return Terminal([HUBD, "tools", "--config", hub.config, *options], {**hub.env, **env}, columns=columns, rows=rows)


def test_arrows_and_space_choose(hub):
    with arrows(hub, "--pick", "windsurf", "--empty", NO_COLOR="1") as terminal:
        terminal.wait_for("> \\[ ] files__read")
        terminal.wait_for("Enter writes")
        terminal.type(f"{DOWN} /mail\n")
        terminal.wait_for("/mail  2 of 5")
        terminal.type("a\x1b")
        terminal.wait_for("3 tools")
        terminal.wait_for("Enter writes")
        terminal.type("\n")
        code, out = terminal.end()
        assert code == 0, out
        assert terminal.attributes() == terminal.first_attributes
    assert "windsurf: 3 tools" in out
    assert "\x1b[1m" not in out
    assert profiles(hub) == {"windsurf": {"hosts": ["windsurf"], "tools": ["files__write", "mail__*"]}}


@pytest.mark.parametrize(("keys", "code"), [(" q", 0), ("a\x1b", 0), ("n\x03", 130)])
def test_arrows_given_up_change_nothing(hub, keys, code):
    with arrows(hub, "--pick", "small") as terminal:
        terminal.wait_for("Enter writes")
        terminal.type(keys)
        assert terminal.end()[0] == code
        assert terminal.attributes() == terminal.first_attributes
    assert profiles(hub) == {}


@pytest.mark.parametrize(("options", "variables"), [(["--edit"], {}), ([], {"EDITOR": "my-editor"})])
def test_an_editor_opens_for_who_names_one_or_wants_one(hub, tmp_path, options, variables):
    (tmp_path / "sensible-editor").write_text("#!/bin/sh\necho it is edited\n")
    (tmp_path / "sensible-editor").rename(tmp_path / variables.get("EDITOR", "sensible-editor"))
    next(tmp_path.glob("*-editor")).chmod(0o755)
    path = f"{tmp_path}:{hub.env['PATH']}"
    with arrows(hub, "--pick", "small", *options, **variables, PATH=path) as terminal:
        code, out = terminal.end()
    assert (code, "it is edited" in out, "closed as it was" in out) == (0, True, True), out
