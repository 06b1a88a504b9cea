"""The command line as a host: real hubs, real servers, pipes and terminals."""

import json
import os
import re
import signal
import subprocess
import sys

import pytest

from tests.support.attached import DEMO, hubd, upstream
from tests.support.commands import run_hubd
from tests.support.processes import HUBD, own_directories, running_hub
from tests.support.terminal import Terminal, shown, widest

FORM = {
    "mode": "form",
    "message": "Which table?",
    "requestedSchema": {
        "type": "object",
        "properties": {
            "size": {"type": "integer", "title": "Seats", "minimum": 1},
            "where": {"type": "string", "enum": ["inside", "garden"]},
            "note": {"type": "string", "description": "Anything else"},
            "smoking": {"type": "boolean", "default": False},
        },
        "required": ["size", "where"],
    },
}
PAGE = {"mode": "url", "message": "Sign in", "url": "https://example.com/in?x=1", "elicitationId": "e1"}
SAMPLE = {"messages": [], "maxTokens": 5}
PATIENT = "startup_grace_s = 60\n"
ASKING = (
    upstream(
        "asking",
        {
            "on": {
                "tools/call:form": [["ask", "elicitation/create", FORM], ["reply_told"]],
                "tools/call:page": [["ask", "elicitation/create", PAGE], ["reply_told"]],
                "tools/call:sample": [["ask", "sampling/createMessage", SAMPLE], ["reply_told"]],
                "tools/call:noisy": [
                    [
                        "tell",
                        "notifications/message",
                        {"level": "warning", "logger": "me", "data": "careful \u001b[31m"},
                    ],
                    ["tell", "notifications/progress", {"progressToken": "$token", "progress": 1, "total": 3}],
                    ["serve"],
                ],
                "tools/call:sign-in": [["fail", -32042, "first sign in", {"elicitations": [PAGE]}]],
                "tools/call:hang": [["stderr", "hanging\n"], ["hang"]],
            }
        },
    )
    + 'session_mode = "per_host"  # each command is a host of its own\n'
)


@pytest.fixture(scope="module")
def hub(tmp_path_factory):
    with running_hub(tmp_path_factory.mktemp("place"), PATIENT + DEMO + ASKING) as hub:
        yield hub


def said(hub, *words, code=0, stdin=""):
    """Standard output and standard error of a command."""
    done = hubd(hub, *words, stdin=stdin)
    assert done.returncode == code, done.stderr
    return done.stdout, done.stderr


# --- tools ------------------------------------------------------------------------------------------------------------


def test_a_whole_name_shows_how_the_tool_is_called(hub):
    out, _ = said(hub, "tools", "demo__add")
    assert out.startswith("demo__add(a: number, b: number)\n")
    example = out.splitlines()[-1].split()
    assert example[:3] == ["hubd", "call", "demo__add"]
    assert said(hub, *example[1:])[0] == "1 + 1 = 2\n"


def test_the_server_may_be_a_word_of_its_own(hub):
    assert said(hub, "call", "demo", "add", "a=2", "b=40")[0] == "2 + 40 = 42\n"


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["add"], 'did you mean "demo__add"?'),
        (["demo__ad"], 'did you mean "demo__add"?'),
        (["nowhere__nothing"], "`hubd tools` lists all"),
    ],
)
def test_an_unknown_tool_is_answered_with_what_was_meant(hub, words, meant):
    assert said(hub, "call", *words, code=1) == ("", f"hubd: there is no tool {words[0]}; {meant}\n")


def test_a_tool_of_a_server_that_is_away_is_said_with_the_reason(tmp_path):
    away = '[upstreams.off]\ncommand = "off"\ndisabled = true\n[upstreams.gone]\ncommand = "/nowhere/gone"\n'
    with running_hub(tmp_path, away) as hub:
        off, gone = (said(hub, "call", name, code=1)[1] for name in ("off__echo", "gone__echo"))
    assert "run `hubd enable off`" in off
    assert re.match(r"hubd: gone__echo cannot be called: gone is \w+: gone cannot be started: .* was not found", gone)


def test_a_call_to_a_server_that_is_disabled_or_removed_says_what_a_person_can_do(tmp_path):
    with running_hub(tmp_path, DEMO + upstream("other", {})) as hub:
        call = "call", "demo__add", "a=1", "b=2"
        assert said(hub, *call)[0] == "1 + 2 = 3\n"
        said(hub, "disable", "demo", "--config", hub.config)
        assert said(hub, *call, code=1) == ("", "hubd: demo is disabled: run `hubd enable demo`\n")
        assert "let the user run" in said(hub, *call, "--raw", code=1)[0]
        said(hub, "remove", "demo", "--config", hub.config)
        gone = "hubd: demo was removed from the configuration; `hubd tools` lists what there is\n"
        assert said(hub, *call, code=1) == ("", gone)


def test_a_refusal_by_the_hub_speaks_to_the_person_at_the_terminal(tmp_path):
    with running_hub(tmp_path, DEMO) as hub:
        topic = "demo__explain", "topic=trees"
        asked = (
            ("read", "demo://welcome"),
            ("prompt", *topic),
            ("complete", *topic),
            ("call", "demo__add", "a=1", "b=2"),
        )
        assert said(hub, *asked[-1])[0] == "1 + 2 = 3\n"
        hub.config.write_text("[upstreams.demo]\ncommand = 'false'\nrestart = { attempts = 1 }\n")
        said(hub, "reload")
        said(hub, "restart", "demo", code=1)
        for words in asked:
            text = said(hub, *words, code=1)[1]
            assert "run `hubd restart demo` to try it now; `hubd logs demo` shows all of it" in text
            assert "let the user" not in text
        said(hub, "disable", "demo", "--config", hub.config)
        for words in asked:
            assert said(hub, *words, code=1)[1].endswith("demo is disabled: run `hubd enable demo`\n")


SLOW = "startup_grace_s = 0.1\n"  # lists are told without waiting for servers


def starting(file, *, start_s=60):
    """A server that is not ready before `file` exists."""
    script = f"{json.dumps(sys.executable)} -I -m upstreams.demo"
    return (
        f"{SLOW}[upstreams.slow]\ncommand = 'sh'\n"
        f"args = ['-c', {json.dumps(f'while [ ! -e {file} ]; do sleep 0.1; done; exec {script}')}]\n"
        f"timeouts = {{ start = {start_s} }}\n"
    )


@pytest.mark.in_turn(2)
@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (["call", "slow__add", "a=2", "b=40"], "2 + 40 = 42"),
        (["call", "slow", "add", "a=2", "b=40"], "2 + 40 = 42"),
        (["call", "slow__add", "--json", "-"], "1 + 2 = 3"),
        (["read", "demo://greeting/Ada"], "Hello, Ada"),
        (["prompt", "slow__explain", "topic=trees"], "trees"),
    ],
)
def test_a_server_that_is_starting_is_waited_for(tmp_path, words, answer):
    ready = tmp_path / "ready"
    with running_hub(tmp_path, starting(ready)) as hub:
        argv = [HUBD, *words]
        with subprocess.Popen(argv, env=hub.env, stdin=-1, stdout=-1, stderr=-1, text=True) as command:
            command.stdin.write('{"a": 1, "b": 2}')
            command.stdin.close()
            assert command.stderr.readline() == "slow is connecting ...\n"
            ready.touch()
            assert command.wait(30) == 0, command.stderr.read()
            assert answer in command.stdout.read()


def test_a_server_that_stays_starting_is_said_after_its_time(tmp_path):
    with running_hub(tmp_path, starting(tmp_path / "never", start_s=2)) as hub:
        _, err = said(hub, "call", "slow__echo", code=1)
    assert re.match(r"hubd: slow__echo cannot be called: slow is (re)?connecting", err.splitlines()[-1])


def test_arguments_may_be_nested_and_come_from_files(hub, tmp_path):
    (tmp_path / "text").write_text("from a file\n")
    file = f"text=@{tmp_path}/text"
    words = ["call", "asking__echo", "a.b=1", "list[]=x", "list[]=2", file, "who=@alice", "in=@-"]
    out, _ = said(hub, *words, stdin="from a pipe")
    assert json.loads(out)["arguments"] == {
        "a": {"b": 1},
        "list": ["x", 2],
        "text": "from a file\n",
        "who": "@alice",
        "in": "from a pipe",
    }


@pytest.mark.parametrize(("word", "why"), [("a=@/nowhere", "No such file"), ("a=@/", "directory"), ("x", "KEY=VALUE")])
def test_arguments_that_cannot_be_read_are_refused(hub, word, why):
    assert why in said(hub, "call", "asking__echo", word, code=2)[1]


def test_a_file_that_is_no_text_is_refused(hub, tmp_path):
    (tmp_path / "image").write_bytes(b"\x89PNG\xff")
    assert "not UTF-8" in said(hub, "call", "asking__echo", f"a=@{tmp_path}/image", code=2)[1]


# --- progress, logs and questions -------------------------------------------------------------------------------------


def test_logs_and_progress_go_to_standard_error(hub):
    out, err = said(hub, "call", "asking__noisy")
    assert json.loads(out)["name"] == "noisy"
    assert err == "warning asking/me: careful \\x1b[31m\n"
    out, err = said(hub, "call", "asking__noisy", "--raw")
    assert json.loads(out)["content"]
    assert not err


def test_progress_is_a_line_that_changes_on_a_terminal(hub):
    with Terminal([HUBD, "call", "demo__countdown", "from=2", "pause_s=0.05"], hub.env, columns=60) as terminal:
        terminal.wait_for("1 of 2")
        terminal.wait_for("2 of 2")
        code, output = terminal.end()
    assert code == 0
    assert widest(output) <= 60
    assert "Counted down" in shown(output)


def test_a_form_is_filled_in_at_the_terminal(hub):
    with Terminal([HUBD, "call", "asking__form"], hub.env) as terminal:
        at = terminal.wait_for("Which table")
        at = terminal.wait_for("Seats", at)
        terminal.type("none\n")
        at = terminal.wait_for("expected a whole number", at)
        terminal.type("0\n")
        at = terminal.wait_for("expected at least 1", at)
        terminal.type("4\n")
        at = terminal.wait_for("2 garden", at)
        terminal.type("2\n")
        at = terminal.wait_for("Anything else", at)
        terminal.type("\n")
        at = terminal.wait_for("smoking", at)
        terminal.type("\n")
        at = terminal.wait_for("ecline", at)
        terminal.type("a\n")
        code, output = terminal.end()
    assert code == 0
    content = {"size": 4, "where": "garden", "smoking": False}
    assert json.loads(shown(output).splitlines()[-1]) == {"action": "accept", "content": content}


@pytest.mark.parametrize(("keys", "action"), [("d\n", "decline"), ("c\n", "cancel"), ("\x04", "cancel")])
def test_a_page_is_shown_and_may_be_declined(hub, keys, action):
    with Terminal([HUBD, "call", "asking__page"], hub.env) as terminal:
        at = terminal.wait_for(r"https://example\.com/in\?x=1")
        terminal.wait_for("ecline", at)
        terminal.type(keys)
        code, output = terminal.end()
    assert code == 0
    assert json.loads(shown(output).splitlines()[-1]) == {"action": action}


def test_nobody_is_asked_where_nobody_sits(hub):
    out, _ = said(hub, "call", "asking__form")
    assert "elicitation" in json.loads(out)["message"]


def test_sampling_is_refused(hub):
    with Terminal([HUBD, "call", "asking__sample"], hub.env) as terminal:
        _, output = terminal.end()
    assert "sampling" in json.loads(shown(output).splitlines()[-1])["message"]


def test_pages_that_have_to_be_opened_first_are_shown(hub):
    _, err = said(hub, "call", "asking__sign-in", code=1)
    assert "https://example.com/in?x=1" in err
    assert "call it again" in err


def test_an_interrupted_call_is_cancelled(hub):
    with Terminal([HUBD, "call", "asking__hang"], hub.env) as terminal:
        with subprocess.Popen([HUBD, "logs", "asking", "-f"], env=hub.env, stdout=subprocess.PIPE) as logs:
            assert any(b"hanging" in line for line in logs.stdout)
            logs.terminate()
        terminal.type("\x03")
        assert terminal.end()[0] == 130
    assert "asking" in said(hub, "status")[0]


# --- resources, prompts, completion -----------------------------------------------------------------------------------


def test_resources_of_one_server_are_listed(tmp_path):
    with running_hub(tmp_path, PATIENT + DEMO.replace(".demo]", ".greeter]") + upstream("demo", {})) as hub:
        found = json.loads(said(hub, "resources", "greeter", "--json")[0])
        assert [each["uriTemplate"] for each in found["resourceTemplates"]] == ["demo://greeting/{name}"]
        assert "demo://welcome" in [each["uri"] for each in found["resources"]]
        nothing = said(hub, "resources", "nowhere")[1]
        assert "no server nowhere has resources, and none has nowhere in its URI" in nothing


def test_resources_are_listed_and_read(hub):
    out, _ = said(hub, "resources", "demo://")
    assert "demo://welcome" in out
    assert "demo://greeting/{name}" in out
    found = json.loads(said(hub, "resources", "welcome", "--json")[0])
    assert [each["uri"] for each in found["resources"]] == ["demo://welcome"]
    assert said(hub, "read", "demo://greeting/Ada")[0].startswith("Hello, Ada")
    content = json.loads(said(hub, "read", "demo://welcome", "--json")[0])["contents"][0]
    assert content["text"] == said(hub, "read", "demo://welcome")[0]
    assert "no such resource" in said(hub, "read", "demo://nothing", code=1)[1]


def test_prompts_are_listed_and_filled_in(hub):
    assert "demo__explain topic=" in said(hub, "prompts", "demo")[0]
    out, _ = said(hub, "prompt", "demo__explain", "topic=trees")
    assert out.startswith("[user]\n")
    assert "trees" in out
    assert json.loads(said(hub, "prompt", "demo__explain", "topic=x", "--json")[0])["messages"]
    assert 'did you mean "demo__explain"?' in said(hub, "prompt", "demo__explian", code=1)[1]


def test_arguments_are_completed(hub):
    assert said(hub, "complete", "demo__explain", "topic=re")[0] == "resources\n"
    assert said(hub, "complete", "demo://greeting/{name}", "name=Al")[0] == "Alan\n"
    found = json.loads(said(hub, "complete", "demo__explain", "topic=re", "--json")[0])
    assert found["completion"]["values"] == ["resources"]
    assert "KEY=BEGINNING" in said(hub, "complete", "demo__explain", code=2)[1]


# --- the hub ----------------------------------------------------------------------------------------------------------


def test_the_hub_is_started_if_none_runs(tmp_path):
    env = own_directories(tmp_path)
    configuration = tmp_path / "xdg_config_home/hubd"
    configuration.mkdir(parents=True)
    (configuration / "hubd.toml").write_text(f'listen = "127.0.0.1:0"\n{PATIENT}{DEMO}')
    try:
        done = run_hubd(["call", "demo__add", "a=2", "b=40"], env)
        assert (done.stdout, done.stderr) == ("2 + 40 = 42\n", "hubd: note: the hub was started\n")
        done = run_hubd(["tools", "demo"], env)
        assert "demo__add" in done.stdout
        assert not done.stderr
    finally:
        run_hubd(["stop"], env, check=True)


def test_a_hub_that_goes_away_is_said(tmp_path):
    with running_hub(tmp_path, ASKING) as hub:
        argv = [HUBD, "call", "asking__hang"]
        with (
            subprocess.Popen(argv, env=hub.env, stderr=subprocess.PIPE, text=True) as call,
            subprocess.Popen([HUBD, "logs", "asking", "-f"], env=hub.env, stdout=subprocess.PIPE) as logs,
        ):
            assert any(b"hanging" in line for line in logs.stdout)
            os.kill(hub.process.pid, signal.SIGKILL)
            assert call.wait(30) == 69
            assert "outcome is unknown" in call.stderr.read()
