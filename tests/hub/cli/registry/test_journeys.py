"""`hubd search`, `add`, `outdated`, `update` and `remove` against recorded registries, in a home of their own."""

import json
import os
import pty
import re
import socket
import threading
import tomllib
from pathlib import Path

import pytest

from tests.config.registry.test_hostile import HOSTILE, npm, remote
from tests.hub.cli.configuration.test_make_change import Home
from tests.support.processes import HUBD
from tests.support.registry_entries import EXAMPLES
from tests.support.registry_server import Answer, registry_server
from tests.support.terminal import Terminal

FILES = "io.github.example/filesystem"


def secrets_of(home):
    path = Path(home.env["XDG_STATE_HOME"], "hubd", "secrets.json")
    return path.read_text() if path.exists() else ""


def at_terminal(home, *arguments, answers=()):
    """What a command says at a terminal where somebody types these answers, one for each question; the exit code."""
    pid, terminal = pty.fork()
    if not pid:
        os.execve(HUBD, [str(HUBD), *arguments], home.env | {"COLUMNS": "200", "NO_COLOR": "1"})
    said, seen = b"", 0
    waiting = [(question.encode(), answer) for question, answer in answers]
    while True:
        try:
            read = os.read(terminal, 4096)
        except OSError:
            break
        if not read:
            break
        said += read
        while waiting and waiting[0][0] in said[seen:]:
            question, answer = waiting.pop(0)
            seen = said.index(question, seen) + len(question)
            os.write(terminal, f"{answer}\n".encode())
    os.close(terminal)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    assert not waiting, (waiting, said.decode())
    return said.decode().replace("\r\n", "\n"), code


# --- search -----------------------------------------------------------------------------------------------------------


def test_a_silent_registry_is_said_to_be_waited_for(home):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        home.write(f'[registries.official]\nurl = "http://127.0.0.1:{port}/"\n')
        with Terminal([HUBD, "search", "files"], home.env) as terminal:
            terminal.wait_for(r"asking registry official \.\.\. \d s")
            terminal.type("\x03")
            code, out = terminal.end()
    assert (code, "Traceback" in out) == (130, False), out


def test_search_shows_names_and_what_they_run_as(home):
    said = home.run("search", "FILESYSTEM")
    assert re.search(r"^NAME +VERSION +RUNS AS +DESCRIPTION$", said, re.M)
    assert re.search(r"^io\.github\.example/filesystem +1\.0\.2 +npm, oci +Filesystem operations$", said, re.M)
    assert '1 server for "filesystem" (registries look at names). `hubd add NAME` adds one.' in said


def test_search_for_programs(home, recorded):
    recorded.add(
        {"name": "a/old-weather", "version": "1", "description": "x\x1b[2J"}, status="deprecated", statusMessage="use 2"
    )
    told = json.loads(home.run("search", "weather", "--json"))
    assert [(each["name"], each["status"], each["message"]) for each in told["servers"]] == [
        ("io.github.example/weather-mcp", "active", None),
        ("a/old-weather", "deprecated", "use 2"),
    ]
    assert told["more"] is False
    said = home.run("search", "weather")
    assert "deprecated: use 2" in said
    assert "\x1b" not in said


def test_search_finds_nothing_and_more_than_it_shows(home, recorded):
    assert 'nothing is called "zzz"' in home.run("search", "zzz")
    recorded.page = 1
    for number in range(5):
        recorded.add({"name": f"a/many{number}", "version": "1", "description": ""})
    assert "there are more, so add a word" in home.run("search", "many")
    assert "say what to look for" in home.run("search", " ", code=2)
    recorded.add({"name": "a/broken", "version": "^1", "description": ""})
    assert "1 of what registry official answered cannot be read, and is not shown" in home.run("search", "broken")


def test_search_in_several_registries_and_one_that_is_gone(home, recorded):
    with home.file.open("a") as file:
        file.write('[registries.acme]\nurl = "http://127.0.0.1:1"\n')
    said = home.run("search", "filesystem")
    assert "hubd: warning: cannot reach registry acme: http://127.0.0.1:1 cannot be reached" in said
    assert re.search(r"^io\.github\.example/filesystem +1\.0\.2 +npm, oci +official +Filesystem", said, re.M)
    assert "cannot reach registry acme" in home.run("search", "x", "--registry", "acme", code=69)
    assert 'there is no registry "b"; there are: official, acme' in home.run("search", "x", "--registry", "b", code=2)


def test_what_no_registry_answers_is_said_once(home):
    home.write('[registries.official]\nurl = "http://127.0.0.1:1"\n[registries.acme]\nurl = "http://127.0.0.1:2"\n')
    said = home.run("search", "x", code=69)
    lines = said.splitlines()
    assert len(lines) == 1, said
    assert lines[0].startswith("hubd: cannot reach registry official: http://127.0.0.1:1 cannot be reached")
    assert "; cannot reach registry acme: http://127.0.0.1:2 cannot be reached" in lines[0]
    home.write('[registries.official]\nurl = "http://127.0.0.1:1"\n[registries.acme]\nurl = "http://127.0.0.1:1"\n')
    said = home.run("search", "x", code=69)
    assert said.startswith("hubd: cannot reach registries official and acme: http://127.0.0.1:1 cannot be reached")
    assert said.count("cannot be reached") == 1
    assert "warnings" not in home.run("search", "x", "--json", code=69)


# --- add --------------------------------------------------------------------------------------------------------------


def test_add_writes_the_exact_version_and_where_it_came_from(home):
    said = home.run("add", "io.example/everything", "--yes")
    assert "io.example/everything 0.6.2, published 2026-03-02, in registry official\n" in said
    assert "  runs        npx -y @example/everything@0.6.2\n" in said
    assert "This program gets your rights.\n" in said
    assert home.upstreams() == {
        "everything": {
            "command": "npx",
            "args": ["-y", "@example/everything@0.6.2"],
            "source": "official:io.example/everything@0.6.2",
        }
    }
    assert "it is there already" not in said
    again = home.run("add", "io.example/everything", "--yes", code=1)
    assert 'is there already, as "everything" (0.6.2): `hubd update everything`' in again
    home.run("add", "io.example/everything", "--yes", "--as", "second", "--disabled")
    assert home.upstreams()["second"]["disabled"] is True


@pytest.mark.covers("ER-1")
def test_add_a_version_with_inputs_and_settings_of_ones_own(home, recorded):
    newer = {**EXAMPLES["filesystem"], "version": "2.0.0"}
    recorded.add(newer)
    home.run(
        *(
            "add",
            f"{FILES}@1.0.2",
            "--package",
            "npm",
            "--input",
            "target_dir=/a",
            "--input",
            "target_dir=~/b",
            "--yes",
        ),
        *("--env", "MORE=1", "--set", "timeouts.call=600", "--as", "mine"),
    )
    found = home.upstreams()["mine"]
    assert found["args"] == ["-y", "@example/server-filesystem@1.0.2", "/a", f"{home.env['HOME']}/b"]
    assert found["env"] == {"LOG_LEVEL": "info", "MORE": "1"}
    assert found["timeouts"] == {"call": 600}
    assert found["source"] == f"official:{FILES}@1.0.2"


@pytest.mark.covers("ER-2")
def test_without_a_terminal_all_that_is_needed_has_to_be_said(home):
    before = home.file.read_text()
    said = home.run("add", FILES, "--yes", code=2)
    assert "can be run in several ways; pass --package npm or --package oci" in said
    said = home.run("add", FILES, "--package", "oci", "--yes", code=2)
    assert "these have to be said: source_path (Source path on host); pass --input KEY=VALUE for each" in said
    said = home.run("add", "io.example/brave-search", "--yes", code=2)
    assert "BRAVE_API_KEY (Brave Search API Key)" in said
    said = home.run("add", "io.example/everything", code=2)
    assert "there is nobody to ask: pass --yes, or --dry-run" in said
    assert home.file.read_text() == before


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("io.example/everything", "--input", "x=1"), '--input: it has no "x"; it asks for nothing'),
        (("io.example/brave-search", "--input", "BRAVE_KEY=1"), 'did you mean "BRAVE_API_KEY"?'),
        (("io.example/brave-search", "--input", "x"), "--input takes KEY=VALUE"),
        (
            ("io.github.example/weather-mcp", "--input", "WEATHER_UNITS=a", "--input", "WEATHER_UNITS=b"),
            "has a value already",
        ),
        (
            ("io.example.anonymous/hybrid-mcp", "--package", "npm", "--input", "mode=x"),
            "it has to be one of local, cached, proxy",
        ),
        (("io.example/everything@^1",), '"^1" stands for several versions'),
        (("a/b/c",), '"a/b/c" is no name in a registry'),
        (("io.example/everything", "--registry", "nowhere"), 'there is no registry "nowhere"; there are: official'),
        (("io.example/everything", "--", "sh"), "is a name in a registry, which says itself what runs"),
        (("x", "--as", "y", "--", "sh"), "--as is for a bundle, or a server of a registry"),
        (("x", "--input", "y=1", "--", "sh"), "--input is for a bundle, or a server of a registry"),
        (("https://x.example/x.mcpb",), "a bundle is not taken from an address"),
        (("x.mcpb", "--", "sh"), "is a bundle, which says itself what runs"),
    ],
)
def test_wrong_usage_says_why(home, arguments, said):
    assert said in home.run("add", *arguments, *(() if "--" in arguments else ("--yes",)), code=2)
    assert not home.upstreams()


@pytest.mark.covers("ER-5")
def test_a_secret_is_kept_apart(home):
    said = home.run("add", "io.example/brave-search", "--yes", "--input", "BRAVE_API_KEY=s3cret-value")
    assert home.upstreams()["brave-search"]["env"] == {"BRAVE_API_KEY": "${secret:BRAVE_SEARCH_BRAVE_API_KEY}"}
    assert "s3cret-value" in secrets_of(home)
    assert "s3cret-value" not in said + home.file.read_text()
    assert "kept in a file only you can read" in said


def test_a_secret_with_a_dollar_is_kept_apart_as_well(home):
    home.run("add", "io.example/brave-search", "--yes", "--input", "BRAVE_API_KEY=p${x}w")
    assert home.upstreams()["brave-search"]["env"] == {"BRAVE_API_KEY": "${secret:BRAVE_SEARCH_BRAVE_API_KEY}"}
    assert "p${x}w" in secrets_of(home)


def test_a_reference_is_an_answer(home):
    home.run("add", "io.example/brave-search", "--yes", "--input", "BRAVE_API_KEY=${secret:MINE}")
    assert home.upstreams()["brave-search"]["env"] == {"BRAVE_API_KEY": "${secret:MINE}"}
    assert not secrets_of(home)


def test_a_trial_changes_nothing(home):
    before = home.file.read_text()
    said = home.run("add", "io.example/brave-search", "--dry-run", "--input", "BRAVE_API_KEY=s3cret-value")
    assert "+[upstreams.brave-search]" in said
    assert home.file.read_text() == before
    assert not secrets_of(home)


def test_programs_are_told_what_was_added(home):
    told = json.loads(home.run("add", "io.example/everything", "--yes", "--json"))
    assert (told["name"], told["did"], told["source"]) == (
        "everything",
        "added",
        "official:io.example/everything@0.6.2",
    )
    said = home.run("add", FILES, "--json", "--yes", code=2)
    assert json.loads(said.partition("\nhubd: ")[0])["error"]["code"] == 2


@pytest.mark.covers("ER-8")
def test_what_was_deleted_is_refused_and_what_is_deprecated_said(home, recorded):
    recorded.add({**EXAMPLES["monorepo"], "version": "0.7.0"}, status="deleted", statusMessage="malware")
    said = home.run("add", "io.example/everything@0.7.0", "--yes", code=1)
    assert "was taken out of registry official: it is deleted: malware" in said
    recorded.add({**EXAMPLES["monorepo"], "version": "0.8.0"}, status="deprecated", statusMessage="use \x1b[1mother")
    said = home.run("add", "io.example/everything", "--yes")
    assert r"warning: io.example/everything: it is deprecated: use \x1b[1mother" in said
    told = json.loads(home.run("add", "io.example/everything", "--yes", "--as", "b", "--json").partition("\nhubd: ")[0])
    assert "deprecated" in told["warnings"][0]


@pytest.mark.covers("ER-7")
def test_a_name_in_two_registries_is_asked_about(home, recorded):
    with registry_server() as other:
        other.add({**EXAMPLES["monorepo"], "version": "6.6.6"})
        with home.file.open("a") as file:
            file.write(f'[registries.acme]\nurl = "{other.url}"\nheaders = {{ X-Key = "${{KEY:-none}}" }}\n')
        said = home.run("add", "io.example/everything", "--yes", code=2)
        assert "is in several registries; pass --registry official or --registry acme" in said
        assert not home.upstreams()
        home.run("add", "io.example/everything", "--yes", "--registry", "acme", KEY="k")
        assert home.upstreams()["everything"]["source"] == "acme:io.example/everything@6.6.6"
        assert [headers["x-key"] for headers in other.headers] == ["none", "k"]
    said = home.run("add", "io.example/brave-search", "--yes", code=69)
    assert "cannot reach registry acme" in said


@pytest.mark.covers("ER-8")
def test_offline(home):
    home.write('[registries.official]\nurl = "http://127.0.0.1:1"\n')
    said = home.run("add", "io.example/everything", "--yes", code=69)
    assert "hubd: cannot reach registry official: http://127.0.0.1:1 cannot be reached" in said
    assert "; `hubd add NAME -- COMMAND` works without it" in said
    with home.file.open("a") as file:
        file.write('[upstreams.e]\ncommand = "npx"\nsource = "official:io.example/everything@0.6.2"\n')
    for command in (["outdated"], ["update", "e"]):
        said = home.run(*command, code=69)
        assert "cannot reach registry official: http://127.0.0.1:1 cannot be reached" in said
        assert "hubd add" not in said


def test_a_header_whose_secret_is_missing(home, recorded):
    home.write(f'[registries.official]\nurl = "{recorded.url}"\nheaders = {{ A = "${{secret:NONE}}" }}\n')
    said = home.run("search", "x", code=78)
    assert "registries.official.headers.A: " in said
    assert "hubd secret set NONE" in said


def test_an_address_where_there_is_no_registry(home, recorded):
    home.run("add", FILES, "--yes", "--disabled", "--package", "npm", "--input", "target_dir=/tmp")
    wrong = home.file.read_text().replace(recorded.url, f"{recorded.url}/wrong")
    assert wrong != home.file.read_text()
    home.file.write_text(wrong)
    for command in (["search", "files"], ["outdated"], ["add", "io.x/y", "--yes"]):
        said = home.run(*command, code=69)
        assert "is [registries.official] url right?" in said.replace("\n", " ")


def test_a_path_that_only_the_publisher_has_is_warned_of(home, tmp_path):
    said = home.run("add", FILES, "--package", "npm", "--yes", "--disabled")
    assert "warning: target_dir: /Users/username/Desktop is what the publisher offers, and nothing is there" in said
    assert "--input target_dir=PATH names something of yours" in said
    said = home.run("add", FILES, "--package", "npm", "--yes", "--as", "b", "--disabled", "--input", "target_dir=/a")
    assert "the publisher offers" not in said


def test_nothing_is_found(home):
    said = home.run("add", "io.example/nothing", "--yes", code=1)
    assert "no registry has io.example/nothing; `hubd search nothing` looks for names like it" in said
    said = home.run("add", "io.example.anonymous/embedded-mcp", "--yes", code=1)
    assert "names neither a package nor an address: see https://example.com/embedded-mcp-guide" in said
    said = home.run("add", "io.example/everything", "--yes", "--package", "pypi", code=1)
    assert "has no such way to run; it has: npm" in said


@pytest.mark.parametrize("number", range(0, len(HOSTILE), 12))
def test_hostile_entries_write_nothing(home, recorded, number):
    """Of each kind of refusal one as a whole command; all are judged in the table itself."""
    entry, why = HOSTILE[number]
    before = home.file.read_text()
    recorded.add(entry)
    said = home.run("add", "io.x/y", "--yes", code=1)
    assert "io.x/y 1.0.0 cannot be added: " in said
    assert why.split(";")[0] in said.replace("\n", " ")
    assert home.file.read_text() == before


@pytest.mark.parametrize("url", ["https://[x/mcp", "https://a]b/", "https://exa\u2100mple.com/mcp"])
def test_an_address_that_is_none(home, recorded, url):
    recorded.add(remote(url=url))
    assert "its address is no URL" in home.run("add", "io.x/y", "--yes", code=1)
    assert not home.upstreams()


@pytest.mark.parametrize("url", ["http://x.example/mcp", "https://169.254.169.254/latest", "https://10.0.0.1/mcp"])
def test_an_address_that_nobody_should_be_sent_to(home, recorded, url):
    recorded.add(remote(url=url))
    said = home.run("add", "io.x/y", "--yes", code=1)
    assert "the address that registry official has of it is not taken" in said
    assert "`hubd add NAME URL` adds it by hand" in said.replace("\n ", "")
    assert not home.upstreams()


@pytest.mark.parametrize(
    ("url", "typed"),
    [
        ("{base}://169.254.169.254/x", "https"),
        ("{base}.0.0.1/x", "https://10"),
        ("{base}@10.0.0.1/x", "https://x.example"),
    ],
)
def test_an_answer_that_is_not_the_whole_host_does_not_make_it_ones_own(home, recorded, url, typed):
    recorded.add(remote(url=url, variables={"base": {"isRequired": True}}))
    said = home.run("add", "io.x/y", "--yes", "--input", f"base={typed}", code=1)
    assert "is not taken" in said or "its address is no URL" in said
    assert not home.upstreams()


@pytest.mark.parametrize("inputs", [[], ["--input", "base=https://169.254.169.254"]])
def test_an_address_that_the_publisher_proposed_is_not_ones_own(home, recorded, inputs):
    base = {"isRequired": True, "default": "https://169.254.169.254"}
    recorded.add(remote(url="{base}/mcp", variables={"base": base}))
    assert "is not taken" in home.run("add", "io.x/y", "--yes", *inputs, code=1)
    assert not home.upstreams()


def test_an_address_beside_the_registry_is_taken(home, recorded):
    recorded.add(remote(url="http://127.0.0.1:9/mcp", type="sse"))
    home.run("add", "io.x/y", "--yes", "--disabled")
    assert home.upstreams()["y"] | {"source": ""} == {
        "url": "http://127.0.0.1:9/mcp",
        "transport": "sse",
        "source": "",
        "disabled": True,
    }


def test_an_address_of_ones_own_is_taken(home):
    home.run("add", "com.example/self-hosted", "--yes", "--disabled", "--input", "baseUrl=http://127.0.0.1:9")
    assert home.upstreams()["self-hosted"]["url"] == "http://127.0.0.1:9/mcp"


# --- at a terminal ----------------------------------------------------------------------------------------------------


@pytest.mark.covers("ER-2", "ER-5")
def test_at_a_terminal_it_asks_shows_the_whole_command_and_asks_again(home):
    said, code = at_terminal(
        *(home, "add", FILES),
        answers=[
            ("Which one? [1-2]", "3"),
            ("Which one? [1-2]", "2"),
            ("source_path (Source path on host):", "/a,b"),
            ("source_path (Source path on host):", "~/notes"),
            ("source_path (another one) [Enter: none]:", ""),
            ("target_path (Path to mount in the container, below /project) [/project]:", ""),
            ('Add it as "filesystem"? [Y/n]', "y"),
        ],
    )
    assert code == 0, said
    path = f"{home.env['HOME']}/notes"
    assert f"docker run --rm -i --init --mount type=bind,src={path},dst=/project -e LOG_LEVEL" in said
    assert "commas" in said
    assert home.upstreams()["filesystem"]["args"][5] == f"type=bind,src={path},dst=/project"


def test_what_a_publisher_proposes_stays_the_publishers_text(home, recorded):
    """Enter takes a default, and no reference in it counts; nor in what is chosen among the publisher's words."""
    told = "${cmd:touch /tmp/never}"
    variables = [
        {"name": "REGION", "isRequired": True, "default": told},
        {"name": "ZONE", "isRequired": True, "choices": ["a", told]},
    ]
    recorded.add(npm(environmentVariables=variables))
    answers = [("REGION", ""), ("ZONE", told), ('Add it as "y"? [Y/n]', "y")]
    said, code = at_terminal(home, "add", "io.x/y", "--disabled", answers=answers)
    assert code == 0, said
    assert home.upstreams()["y"]["env"] == dict.fromkeys(("REGION", "ZONE"), f"${told}")


def test_a_secret_is_typed_without_showing_it(home):
    answers = [("BRAVE_API_KEY (Brave Search API Key):", "s3cret-value"), ("[Y/n]", "")]
    said, code = at_terminal(home, "add", "io.example/brave-search", answers=answers)
    assert code == 0
    assert "s3cret-value" not in said
    assert "s3cret-value" in secrets_of(home)


def test_ctrl_c_changes_nothing(home):
    before = home.file.read_text()
    _, code = at_terminal(home, "add", "io.example/everything", answers=[("[Y/n]", "\x03")])
    assert code == 130
    assert home.file.read_text() == before


def test_a_no_changes_nothing(home, recorded):
    said, code = at_terminal(home, "add", "io.example/everything", answers=[("[Y/n]", "n")])
    assert code == 1
    assert "nothing was changed" in said
    recorded.add({**EXAMPLES["monorepo"], "version": "0.8.0"}, status="deprecated")
    said, code = at_terminal(home, "add", "io.example/everything", answers=[("[y/N]", "")])
    assert code == 1
    assert not home.upstreams()


# --- outdated, update, remove -----------------------------------------------------------------------------------------


def newer(name, version, change):
    """An example in a newer version, changed as text."""
    old = EXAMPLES[name]
    text = json.dumps({**old, "version": version}).replace(f'"version": "{old["version"]}"', f'"version": "{version}"')
    return json.loads(change(text))


@pytest.mark.covers("ER-6")
def test_outdated_says_what_is_newer_deprecated_gone(home, recorded):
    assert "no server came from a registry" in home.run("outdated")
    for name in ("io.example/everything", "io.github.example/pinned"):
        home.run("add", name, "--yes", "--disabled", *(("--input", "token=x") if "pinned" in name else ()))
    assert "there is nothing newer of any of 2 servers that came from a registry" in home.run("outdated")
    recorded.add(newer("monorepo", "0.7.0", lambda text: text))
    recorded.entries = [each for each in recorded.entries if each["server"]["name"] != "io.github.example/pinned"]
    said = home.run("outdated")
    assert re.search(r"^everything +0\.6\.2 +0\.7\.0 +-$", said, re.M)
    assert re.search(r"^pinned +2\.1\.0 +- +its version is not in the registry any more$", said, re.M)
    told = json.loads(home.run("outdated", "--json"))
    assert [(each["name"], each["newest"], each["status"]) for each in told["servers"]] == [
        ("everything", "0.7.0", "active"),
        ("pinned", None, "gone"),
    ]
    next(each for each in recorded.entries if each["server"]["version"] == "0.6.2")["_meta"][
        "io.modelcontextprotocol.registry/official"
    ] |= {"status": "deprecated", "statusMessage": "a hole"}
    assert "deprecated: a hole" in home.run("outdated")
    meta = next(each for each in recorded.entries if each["server"]["version"] == "0.6.2")["_meta"]
    meta["io.modelcontextprotocol.registry/official"]["status"] = "deleted"
    assert re.search(r"^everything +0\.6\.2 +0\.7\.0 +deleted: a hole$", home.run("outdated"), re.M)


def test_registries_and_servers_are_asked_at_the_same_time(home, recorded):
    for name in ("io.example/everything", "io.github.example/pinned"):
        home.run("add", name, "--yes", "--disabled", *(("--input", "token=x") if "pinned" in name else ()))
    together = threading.Barrier(2, timeout=30)
    wait_for_each_other(recorded, together)
    assert "there is nothing newer of any of 2 servers" in home.run("outdated")
    with registry_server() as other:
        other.add(EXAMPLES["monorepo"])
        wait_for_each_other(other, together)
        with home.file.open("a") as file:
            file.write(f'[registries.acme]\nurl = "{other.url}"\n')
        assert "is in several registries" in home.run("add", "io.example/everything", "--yes", code=2)


def wait_for_each_other(registry, together):
    """Requests are answered once another one is there as well."""
    answer = registry.answer

    def wait(target, headers):
        together.wait()
        return answer(target, headers)

    registry.answer = wait


def test_a_version_ahead_of_the_newest_stays(home, recorded):
    recorded.add(newer("monorepo", "0.7.0-beta.1", lambda text: text))
    home.run("add", "io.example/everything@0.7.0-beta.1", "--yes", "--disabled")
    recorded.add(newer("monorepo", "0.6.3", lambda text: text))
    assert "there is nothing newer of the server that came from a registry" in home.run("outdated")
    said = home.run("update", "everything", "--yes")
    assert "has 0.7.0-beta.1, which is ahead of the newest that is named, 0.6.3" in said
    assert home.upstreams()["everything"]["source"].endswith("@0.7.0-beta.1")


def test_outdated_without_a_registry(home, recorded):
    home.run("add", "io.example/everything", "--yes")
    recorded.faults["/v0.1/servers/io.example%2Feverything/versions"] = Answer(500)
    said = home.run("outdated", code=69)
    assert "cannot reach registry official: it answers with status 500" in said
    assert "nothing newer" not in said


@pytest.mark.covers("ER-6")
def test_update_shows_what_changes_and_keeps_what_was_said(home, recorded):
    home.run("add", FILES, "--package", "npm", "--yes", "--input", "target_dir=/a", "--env", "MORE=1", "--disabled")
    assert "filesystem has the newest version, 1.0.2" in home.run("update", "filesystem", "--yes")

    def change(text):
        arguments = '"packageArguments": [{"type": "named", "name": "--read-only", "value": ""}, '
        text = text.replace('"packageArguments": [', arguments, 1)
        more = '"environmentVariables": [{"name": "COLOUR", "value": "no"}, '
        return text.replace('"environmentVariables": [', more, 1)

    recorded.add(newer("filesystem", "2.0.0", change))
    before = home.file.read_text()
    said = home.run("update", "filesystem", code=2)
    assert "there is nobody to ask" in said
    said = home.run("update", "filesystem", "--dry-run")
    assert "argument: @example/server-filesystem@1.0.2 becomes @example/server-filesystem@2.0.0 --read-only" in said
    assert "variable COLOUR: new" in said
    assert f'+source = "official:{FILES}@2.0.0"' in said
    assert home.file.read_text() == before
    said = home.run("update", "filesystem", "--yes")
    assert f"updated filesystem: {home.file}" in said
    found = home.upstreams()["filesystem"]
    assert found["args"] == ["-y", "@example/server-filesystem@2.0.0", "--read-only", "/a"]
    assert list(found["env"].items()) == [("LOG_LEVEL", "info"), ("MORE", "1"), ("COLOUR", "no")]
    assert found["source"] == f"official:{FILES}@2.0.0"
    assert found["disabled"] is True


def test_an_update_keeps_comments_and_all_that_is_not_its_own(home, recorded):
    home.run("add", FILES, "--package", "npm", "--yes", "--input", "target_dir=/a", "--disabled")
    text = home.file.read_text().replace('env = { LOG_LEVEL = "info" }\n', "# why it is here\n")
    home.write(f'{text}[upstreams.filesystem.env]\n# not too much\nLOG_LEVEL = "debug"  # really\nMORE = "1"\n')
    more = '"environmentVariables": [{"name": "COLOUR", "value": "no"}, '
    recorded.add(newer("filesystem", "2.0.0", lambda text: text.replace('"environmentVariables": [', more, 1)))
    home.run("update", "filesystem", "--yes")
    after = home.file.read_text()
    for line in ("# why it is here", "# not too much", 'LOG_LEVEL = "debug"  # really', 'MORE = "1"', 'COLOUR = "no"'):
        assert f"{line}\n" in after
    assert home.upstreams()["filesystem"]["env"] == {"LOG_LEVEL": "debug", "MORE": "1", "COLOUR": "no"}


def test_an_update_that_needs_more_asks_for_it(home, recorded):
    home.run("add", "io.example/brave-search", "--yes", "--input", "BRAVE_API_KEY=s3cret", "--disabled")

    def change(text):
        more = '"environmentVariables": [{"name": "REGION", "isRequired": true}, '
        return text.replace('"environmentVariables": [', more, 1)

    recorded.add(newer("npm", "2.0.0", change))
    assert "these have to be said: REGION" in home.run("update", "brave-search", "--yes", code=2)
    home.run("update", "brave-search", "--yes", "--input", "REGION=eu")
    assert home.upstreams()["brave-search"]["env"] == {
        "REGION": "eu",
        "BRAVE_API_KEY": "${secret:BRAVE_SEARCH_BRAVE_API_KEY}",
    }


def test_an_update_to_something_hostile_is_refused(home, recorded):
    home.run("add", "io.example/everything", "--yes")
    before = home.file.read_text()
    entry = npm(environmentVariables=[{"name": "NODE_OPTIONS", "value": "--require /x"}])
    recorded.add({**entry, "name": "io.example/everything", "version": "9.0.0"})
    assert "cannot be taken: it sets NODE_OPTIONS" in home.run("update", "everything", "--yes", code=1)
    assert home.file.read_text() == before


@pytest.mark.parametrize(
    ("add", "change", "why"),
    [
        (
            (FILES, "--package", "npm", "--input", "target_dir=/a"),
            ("@example/server-", "@other/server-"),
            "run @other/",
        ),
        ((FILES, "--package", "npm", "--input", "target_dir=/a"), ('"npm"', '"pypi"'), f"then `hubd add {FILES}`"),
    ],
)
def test_another_package_is_never_run_unasked(home, recorded, add, change, why):
    home.run("add", *add, "--yes", "--disabled")
    recorded.add(newer("filesystem", "2.0.0", lambda text: text.replace(*change)))
    before = home.file.read_text()
    said = " ".join(home.run("update", "filesystem", "--yes", code=1).split())
    assert why in said
    assert home.file.read_text() == before
    if "other" in why:
        assert "without --yes" in said
        said, code = at_terminal(home, "update", "filesystem", answers=[("Update filesystem?", "y")])
        assert (code, "@other/server-filesystem@2.0.0" in said) == (0, True)
        assert home.upstreams()["filesystem"]["args"][1] == "@other/server-filesystem@2.0.0"


def test_what_was_changed_by_hand_is_made_anew_and_that_is_said(home, recorded):
    home.run("add", "io.example/everything", "--yes", "--disabled")
    home.write(home.file.read_text().replace('"@example/everything@0.6.2"', '"@example/everything@0.6.2", "--mine"'))
    recorded.add(newer("monorepo", "0.7.0", lambda text: text))
    said = home.run("update", "everything", "--yes")
    assert "everything was changed by hand, or its old version is gone: what runs is made anew" in said
    assert "@example/everything@0.6.2 --mine becomes @example/everything@0.7.0" in said
    assert home.upstreams()["everything"]["args"] == ["-y", "@example/everything@0.7.0"]


def test_a_remote_is_updated(home, recorded):
    said = ("--input", "baseUrl=http://127.0.0.1:9", "--disabled", "--yes")
    home.run("add", "com.example/self-hosted", *said)
    recorded.add(newer("base_url", "2.0.0", lambda text: text.replace("{baseUrl}/mcp", "{baseUrl}/v2/mcp")))
    assert "url: http://127.0.0.1:9/mcp becomes http://127.0.0.1:9/v2/mcp" in home.run("update", "self-hosted", "--yes")
    assert home.upstreams()["self-hosted"]["url"] == "http://127.0.0.1:9/v2/mcp"


def test_secrets_that_another_host_would_get_are_named(home, recorded):
    headers = [{"name": "X-Key", "isRequired": True, "isSecret": True}]
    recorded.add(remote(url="http://127.0.0.1:9/mcp", headers=headers))
    home.run("add", "io.x/y", "--yes", "--disabled", "--input", "X-Key=s3cret")
    recorded.add({**remote(url="http://127.0.0.1:10/mcp", headers=headers), "version": "2.0.0"})
    said = home.run("update", "y", "--yes")
    assert "warning: 127.0.0.1:10 would get what 127.0.0.1:9 gets now: X-Key" in said


def test_what_cannot_be_updated_says_why(home, recorded):
    home.run("add", "x", "--", "sh")
    assert "did not come from a registry" in home.run("update", "x", "--yes", code=1)
    assert 'there is no server "y"' in home.run("update", "y", "--yes", code=1)
    home.run("add", "io.example/everything", "--yes")
    recorded.entries.clear()
    assert "does not have io.example/everything any more" in home.run("update", "everything", "--yes", code=1)
    home.run("remove", "everything")
    assert "everything" not in home.upstreams()


def test_where_nothing_is_configured_nothing_came_from_a_registry(tmp_path):
    assert "no server came from a registry" in Home(tmp_path).run("outdated")


def test_registries_stand_in_the_main_file_only(home):
    folder = home.file.parent / "upstreams.d"
    folder.mkdir(mode=0o700)
    (folder / "x.toml").write_text('[registries.acme]\nurl = "https://x.example"\n[upstreams.x]\ncommand = "true"\n')
    assert "is a setting of the whole hub, and this file may only name upstreams" in home.run("search", "x", code=78)


def test_the_configuration_stays_sound(home):
    home.run("add", "io.example/everything", "--yes")
    assert tomllib.loads(home.file.read_text())["registries"]
    home.run("validate")
