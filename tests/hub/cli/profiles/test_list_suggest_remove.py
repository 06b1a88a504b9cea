"""`hubd profiles`, `hubd profile suggest` and `hubd tools --profile`, with a hub that runs."""

import json
import tomllib
from pathlib import Path

import msgspec
import pytest

from config.hosts.records_by_file import FORMAT
from config.hosts.servers_hosts_had import Had
from tests.support.attached import DEMO, INITIALIZE, Host, hubd, upstream
from tests.support.everything import draw
from tests.support.processes import HUBD
from tests.support.stdio_host import StdioHost
from tests.support.terminal import Terminal, widest

pytestmark = pytest.mark.covers("EP-10")

BIG = [f"tool_{number}" for number in range(130)]
SERVERS = "\n".join(
    [
        "# mine\nstartup_grace_s = 60",
        upstream("big", {"tools": BIG}),
        upstream("files", {"tools": ["read", "write", "move"]}),
        upstream("mail", {"tools": ["send", "fetch"]}),
    ]
)


@pytest.fixture
def hub(hub):
    """The hub, without a record of what hosts had before."""
    record_of(hub).unlink(missing_ok=True)
    return hub


def told(hub, *words, code=0):
    again = hub._replace(env={**hub.env, "VISUAL": "true"})
    done = hubd(again, *in_its_file(hub, words))
    assert done.returncode == code, done
    assert "Traceback" not in done.stderr
    return json.loads(done.stdout) if "--json" in words else done.stdout + done.stderr


def in_its_file(hub, words):
    """The words of a command, which reads the configuration of this hub if it reads any."""
    reads = words[0] in ("tools", "profiles") or words[:2] in (
        ("profile", "suggest"),
        ("profile", "remove"),
        ("profile", "entry"),
    )
    return [*words, "--config", hub.config] if reads else words


def profiles(hub):
    return tomllib.loads(hub.config.read_text()).get("profiles", {})


def had(hub, host, **tools):
    record = {"format": FORMAT, "files": {"/somewhere": [msgspec.to_builtins(Had(host, tools))]}}
    record_of(hub).write_text(json.dumps(record))


def record_of(hub):
    return Path(hub.env["XDG_STATE_HOME"], "hubd", "had_before.json")


class Windsurf(Host):
    """An attached host of this label, after its handshake."""

    def __init__(self, hub, label="windsurf"):
        super().__init__(hub, host=label)
        self.ask(0, "initialize", INITIALIZE)
        assert self.receive()["id"] == 0
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def names(self):
        self.ask(1, "tools/list", {})
        while (message := self.receive()).get("id") != 1:
            pass
        return [tool["name"] for tool in message["result"]["tools"]]

    def heard(self):
        return self.receive()["method"]


def test_a_host_beyond_its_limit_gets_to_a_small_set_by_what_is_printed(hub):
    whole = f'{SERVERS}\n[profiles.default]\nsearch = "off"\n'
    default = {"default": {"search": "off"}}
    hub.config.write_text(whole)
    told(hub, "reload")
    with Windsurf(hub) as host:
        assert len(host.names()) == 135
        assert "windsurf is shown 135 tools and takes 100: run `hubd profile suggest windsurf`" in told(hub, "status")
        assert "takes 100 tools: hubd profile suggest windsurf" in told(hub, "tools", "--cost")
        suggested = told(hub, "profile", "suggest", "windsurf")
        assert "hubd profile suggest windsurf --write" in suggested
        assert profiles(hub) == default
        written = told(hub, "profile", "suggest", "windsurf", "--write")
        assert "all servers, the smallest first" in written
        assert "windsurf: 5 tools" in written
        assert profiles(hub) == default | {"windsurf": {"hosts": ["windsurf"], "servers": ["files", "mail"]}}
        assert hub.config.read_text().startswith(whole)
        assert host.heard() == "notifications/tools/list_changed"
        assert host.names() == ["files__read", "files__write", "files__move", "mail__send", "mail__fetch"]
        assert "windsurf is shown" not in told(hub, "status")
        (row,) = [each for each in told(hub, "tools", "--cost", "--json")["hosts"] if each["label"] == "windsurf"]
        assert (row["profile"], row["tools"], row["tool_limit"]) == ("windsurf", 5, 100)
        assert "so already" in told(hub, "profile", "suggest", "windsurf", "--write")


def test_a_host_that_searches_is_not_warned_of_and_is_said_to_search(hub):
    with Windsurf(hub) as host:
        assert set(host.names()) == {"hub__find_tools", "hub__call_tool"}
        assert "windsurf is shown" not in told(hub, "status")
        (line,) = [each for each in told(hub, "tools", "--cost").splitlines() if "(windsurf)" in each]
        assert line.endswith("search mode")
        said = told(hub, "tools", "--profile", "windsurf", code=1)
        assert "windsurf has no profile of its own, so it finds by searching (search mode) all there is" in said
        said = told(hub, "profiles")
        assert "with instructions, except\nsearch mode: " in said


def test_servers_that_a_host_did_not_have_are_said_to_be_added(hub):
    gone = '[upstreams.{}]\ncommand = "corp"\ndisabled = true\n'
    hub.config.write_text(f"{SERVERS}\n{gone.format('corp')}{gone.format('own')}")
    told(hub, "reload")
    had(hub, "windsurf", files=["*"], own=["*"])
    printed = hubd(hub, *in_its_file(hub, ("profile", "suggest", "windsurf"))).stdout
    assert tomllib.loads(printed)["profiles"]["windsurf"]["servers"] == ["files", "corp", "own"]
    assert "\n# added, since they have no tools now: corp\n" in printed


def test_what_is_printed_can_be_pasted(hub):
    had(hub, "windsurf", files=["read"], mail=["*"], big=["tool_1", "tool_2"])
    printed = hubd(hub, *in_its_file(hub, ("profile", "suggest", "windsurf"))).stdout
    assert "# for windsurf: the servers that it had before hubd; it takes" not in printed
    assert "the servers that it had before hubd; windsurf takes 100 tools" in printed
    assert tomllib.loads(printed)["profiles"]["windsurf"] == {
        "hosts": ["windsurf"],
        "tools": ["big__tool_1", "big__tool_2", "files__read", "mail__*"],
    }
    hub.config.write_text(f"{SERVERS}\n{printed}")
    told(hub, "reload")
    assert len(told(hub, "tools", "--profile", "windsurf", "--json")) == 5


def test_for_programs(hub):
    found = told(hub, "profile", "suggest", "windsurf", "--json")
    assert {name: found[name] for name in ("profile", "hosts", "servers", "shown", "did")} == {
        "profile": "windsurf",
        "hosts": ["windsurf"],
        "servers": ["files", "mail"],
        "shown": 5,
        "did": "suggested",
    }
    written = told(hub, "profile", "suggest", "windsurf", "--write", "--json")
    assert (written["did"], written["hub"], len(written["files"])) == ("written", "running", 1)
    (row,) = told(hub, "profiles", "--json")["profiles"]
    assert {name: row[name] for name in ("name", "hosts", "attached", "tools", "search")} == {
        "name": "windsurf",
        "hosts": ["windsurf"],
        "attached": 0,
        "tools": 5,
        "search": "auto",
    }
    assert row["warnings"] == []
    assert told(hub, "profile", "suggest", "windsurf", "--write", "--json")["did"] == "unchanged"


def test_what_was_called_is_suggested_once_there_are_calls_enough(hub):
    with Windsurf(hub, "codex") as host:
        for number in range(20):
            tool = "mail__send" if number % 2 else "files__read"
            host.ask(number, "tools/call", {"name": tool, "arguments": {}})
            assert "result" in host.receive()
    found = told(hub, "profile", "suggest", "codex", "--json")
    assert found["tools"] == ["files__read", "mail__send"]
    assert "what it called in the last 30 days" in found["why"]


def test_without_profiles_the_next_command_is_named(hub):
    assert told(hub, "profiles", "--json")["profiles"] == []
    said = told(hub, "profiles")
    assert "hosts are shown all there is, 135 tools" in said
    assert "hubd profile suggest HOST" in said
    assert "search mode" not in said
    with Windsurf(hub) as host:
        assert len(host.names()) == 2
        assert "search mode: test (windsurf) is shown 2 tools, " in told(hub, "profiles")
        (found,) = told(hub, "profiles", "--json")["searching"]
        assert (found["label"], found["profile"], found["tools"]) == ("windsurf", None, 2)


def test_every_command_shows_the_same_cost(hub):
    table = '[profiles.mine]\nhosts = ["cline"]\nservers = ["files"]\n[profiles.finds]\nsearch = "on"\n'
    hub.config.write_text(f"{SERVERS}\n{table}")
    told(hub, "reload")

    def costs(found):
        return found["tools"], found["tokens"]

    with Windsurf(hub, "cline"), Windsurf(hub, "claude-code"), Host(hub, host="x", profile="finds") as searching:
        searching.ask(0, "initialize", INITIALIZE)
        assert searching.receive()["id"] == 0
        status, listed = told(hub, "profiles", "--json"), told(hub, "tools", "--cost", "--json")
        shown = {each["label"]: costs(each) for each in listed["hosts"]}
        assert shown == {
            each["label"]: costs(each) for each in json.loads(hubd(hub, "status", "--json").stdout)["hosts"]
        }
    rows = {each["name"]: costs(each) for each in status["profiles"]}
    assert shown == {"cline": rows["mine"], "x": rows["finds"], "claude-code": costs(status["others"])}
    assert costs(listed["together"]) == costs(status["others"])
    assert costs(told(hub, "tools", "--profile", "mine", "--cost", "--json")["together"]) == rows["mine"]
    assert rows["finds"][0] == 2
    (big,) = [each for each in listed["servers"] if each["name"] == "big"]
    assert (big["unused"], big["unused_tokens"]) == (big["tools"], big["tokens"])
    said = told(hub, "tools", "--profile", "finds", "--cost")
    assert "hosts of the profile finds are shown 2 tools, " in said


def test_a_label_stands_for_its_profile_and_one_without_says_what_it_is_shown(hub):
    hub.config.write_text(
        f'{SERVERS}\n[profiles.mine]\nhosts = ["cline"]\nservers = ["files"]\n[profiles.no]\ntools = []\n'
    )
    told(hub, "reload")
    assert len(told(hub, "tools", "--profile", "cline", "--json")) == 3
    assert "cline is a label of the profile mine" in told(hub, "tools", "--profile", "cline")
    said = told(hub, "tools", "--profile", "windsurf", code=1)
    assert "windsurf has no profile of its own, so it is shown all there is: `hubd tools`" in said
    assert "`hubd tools --pick windsurf` makes one" in said
    assert 'did you mean "mine"?' in told(hub, "tools", "--profile", "mne", code=1)
    for more in ((), ("--cost",)):
        said = told(hub, "tools", "--profile", "no", *more)
        assert "the profile no shows no tools" in said
        assert "`hubd tools --pick no`" in said
    said = told(hub, "tools", "mail", "--profile", "mine", code=1)
    assert "the profile mine leaves them out, `hubd tools mail` shows them" in said


def test_a_call_as_a_host_of_a_profile(hub):
    more = '[profiles.mine.rename]\nfiles__read = "look"\n'
    hub.config.write_text(f'{SERVERS}\n[profiles.mine]\nhosts = ["cline"]\nservers = ["files"]\n{more}')
    told(hub, "reload")
    assert hubd(hub, "call", "look").returncode == 1
    called = hubd(hub, "call", "--profile", "mine", "look", "text=a")
    assert called.returncode == 0
    assert json.loads(called.stdout)["name"] == "read"
    hidden = hubd(hub, "call", "mail__send", "--profile", "mine")
    assert hidden.returncode == 1
    assert "the profile mine leaves it out" in hidden.stderr
    with Host(hub, profile="mine") as host:
        host.ask(0, "initialize", INITIALIZE)
        host.receive()
        host.ask(1, "tools/call", {"name": "mail__send", "arguments": {}})
        heard = host.receive()["error"]
    raw = hubd(hub, "call", "mail__send", "--profile", "mine", "--raw")
    assert json.loads(raw.stdout)["error"] == heard
    with Terminal([HUBD, "call", "mail__send", "--profile", "mine"], hub.env, columns=60) as terminal:
        code, out = terminal.end()
    assert (code, widest(out) <= 60, "\\x1b" in out) == (1, True, False)
    unknown = hubd(hub, "call", "--profile", "mine", "nothing")
    assert "leaves it out" not in unknown.stderr
    assert "There is no profile 'nope'" in hubd(hub, "call", "--profile", "nope", "look").stderr


def test_a_profile_of_several_hosts_is_changed_with_a_warning_and_keeps_the_rest(hub):
    table = (
        '[profiles.work] # both\nhosts = ["windsurf", "cline"]\ninstructions = "Ask."   # always\ntools = ["big__*"]\n'
    )
    hub.config.write_text(f"{SERVERS}\n{table}")
    told(hub, "reload")
    said = told(hub, "profile", "suggest", "cline", "--write", "--yes")
    assert "the profile work is that of windsurf, too" in said
    assert profiles(hub)["work"] == {
        "hosts": ["windsurf", "cline"],
        "instructions": "Ask.",
        "servers": ["files", "mail"],
        "tools": ["*"],
    }
    text = hub.config.read_text()
    assert text.startswith(SERVERS)
    assert "[profiles.work] # both\n" in text
    assert 'instructions = "Ask."   # always\n' in text


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("profile", "suggest", "windsruf"), 2, 'there is no host windsruf; did you mean "windsurf"?'),
        (("profile", "suggest"), 2, "the following arguments are required: HOST"),
        (("profile",), 2, "hubd profile suggest HOST"),
        (("profile", "suggest", "default"), 2, "`hubd tools --pick default` chooses for these"),
        (("profile", "suggest", "hubd"), 2, "the label of the hub's own commands"),
        (("tools", "--pick", "hubd"), 2, "the label of the hub's own commands"),
        (("profile", "sugest", "x"), 2, 'did you mean "suggest"?'),
        (("tools", "--profile", "nope"), 1, "There is no profile 'nope' in this hub; there are: "),
        (("tools", "--profile", "default", "--unused"), 2, "leave --profile out"),
        (("tools", "--pick", "a", "--cost"), 2, "not allowed with argument"),
        (("tools", "--pick", "a", "files"), 2, "--pick stands alone"),
    ],
)
def test_what_makes_no_sense(hub, words, code, said):
    assert said in told(hub, *words, code=code)
    assert profiles(hub) == {}


def test_a_profile_that_is_there_is_not_replaced_unasked(hub):
    whole = f'{SERVERS}\n[profiles.mine]\nhosts = ["windsurf"]\ntools = ["big__tool_1"]\n'
    hub.config.write_text(whole)
    told(hub, "reload")
    said = told(hub, "profile", "suggest", "windsurf", "--write", code=2)
    assert '- tools = ["big__tool_1"]' in said
    assert '+ servers = ["files", "mail"]' in said
    assert "add --yes" in said
    assert hub.config.read_text() == whole
    told(hub, "profile", "suggest", "windsurf", "--write", "--json", code=2)
    assert hub.config.read_text() == whole
    command = [HUBD, *in_its_file(hub, ("profile", "suggest", "windsurf", "--write"))]
    for answer, changed in (("n", False), ("y", True)):
        with Terminal(command, hub.env) as terminal:
            terminal.see(r"Change the profile mine\?")
            terminal.type(f"{answer}\r")
            assert terminal.end()[0] == 0
        assert (hub.config.read_text() != whole) is changed
    assert profiles(hub)["mine"]["servers"] == ["files", "mail"]


def test_a_host_that_takes_all_keeps_all(hub):
    said = told(hub, "profile", "suggest", "claude-code", "--write")
    assert "nothing has to be left out for claude-code" in said
    assert "hubd tools --pick claude-code" in said
    assert profiles(hub) == {}


def test_a_host_that_is_not_attached_is_told_how_it_gets_there(hub):
    said = told(hub, "profile", "suggest", "windsurf", "--write")
    assert "Windsurf does not have the hub yet, and is shown windsurf once it has: `hubd install windsurf`" in said
    entry = Path(hub.env["HOME"], ".codeium", "windsurf", "mcp_config.json")
    entry.parent.mkdir(parents=True)
    try:
        start = {"command": str(HUBD), "args": ["connect", "--host", "windsurf"]}
        entry.write_text(json.dumps({"mcpServers": {"hub": start}}))
        said = told(hub, "profile", "suggest", "windsurf", "--write")
        assert "so already" in said
        assert "Windsurf is not attached now; it will be shown the profile windsurf when it starts" in said
        with Windsurf(hub):
            assert "note" not in told(hub, "profile", "suggest", "windsurf", "--write")
    finally:
        entry.unlink()


def test_a_host_whose_entry_names_another_profile_keeps_that(hub):
    hub.config.write_text(f'{SERVERS}\n[profiles.mine]\nservers = ["mail"]\n')
    told(hub, "reload")
    with Host(hub, host="windsurf", profile="mine") as host:
        host.ask(0, "initialize", INITIALIZE)
        assert host.receive()["id"] == 0
        said = told(hub, "profile", "suggest", "windsurf", "--write")
    assert "Windsurf is shown the profile mine all the same" in said


def test_a_host_that_asks_once_has_to_be_restarted(hub):
    hub.config.write_text(f'{SERVERS}\n[profiles.mine]\nhosts = ["codex"]\nservers = ["mail"]\n')
    told(hub, "reload")
    with Windsurf(hub, "codex") as host:
        assert len(host.names()) == 2
        said = told(hub, "profile", "suggest", "codex", "--write", "--yes")
        assert "restart Codex: it asks for its tools only when it starts" in said
        assert "restart codex: it asks for its tools only when it starts" in told(hub, "profile", "remove", "mine")


def test_a_profile_is_removed_and_its_hosts_see_the_rest(hub):
    table = '\n# of mine\n[profiles.mine]\nhosts = ["windsurf"]\nservers = ["mail"]\n'
    more = '[profiles.mine.rename]\nmail__send = "post"\n# end\n'
    hub.config.write_text(f"{SERVERS}{table}{more}")
    told(hub, "reload")
    with Windsurf(hub) as host:
        assert len(host.names()) == 2
        tried = told(hub, "profile", "remove", "mine", "--dry-run")
        assert "-[profiles.mine]" in tried
        assert "mine" in profiles(hub)
        said = told(hub, "profile", "remove", "mine")
        assert "removed the profile mine: " in said
        assert "(before: " in said
        assert "windsurf: shown all there is now" in said
        assert host.heard() == "notifications/tools/list_changed"
    assert profiles(hub) == {}
    assert hub.config.read_text().startswith(SERVERS)
    assert hub.config.read_text().endswith("# end\n")
    assert "there is no profile mine; hubd.toml has none" in told(hub, "profile", "remove", "mine", code=2)
    assert "shows all there is already" in told(hub, "profile", "remove", "default", code=2)


def test_what_still_names_a_removed_profile_is_told(hub):
    hub.config.write_text(f'{SERVERS}\n[profiles.mine]\nservers = ["mail"]\n[profiles.other]\n')
    told(hub, "reload")
    assert 'did you mean "other"?' in told(hub, "profile", "remove", "othr", code=2)
    made = hubd(hub, "token", "new", "laptop", "--profile", "mine", "--config", hub.config)
    assert made.returncode == 0, made
    try:
        found = told(hub, "profile", "remove", "mine", "--json")
        assert (found["did"], found["profile"], found["hub"]) == ("removed", "mine", "running")
        (warning,) = found["warnings"]
        assert "the token laptop opens mine and nothing else" in warning
    finally:
        hubd(hub, "token", "revoke", "laptop", "--config", hub.config)


def test_a_call_has_the_fixed_arguments_of_its_profile(hub):
    rules = '[profiles.p.rename]\ndemo__add = "plus"\n[profiles.p.override.demo__add]\nfix = { a = 40 }\n'
    hub.config.write_text(f"{SERVERS}\n{DEMO}[profiles.p]\n{rules}")
    told(hub, "reload")
    assert hubd(hub, "restart", "demo").returncode == 0  # it waits until the server is connected
    assert hubd(hub, "call", "--profile", "p", "plus", "b=2").stdout == "40 + 2 = 42\n"
    refused = hubd(hub, "call", "--profile", "p", "plus", "a=1", "b=2")
    assert (refused.returncode, refused.stderr) == (1, '"a" is fixed by profile p; leave it out\n')
    assert hubd(hub, "call", "demo__add", "a=1", "b=2").stdout == "1 + 2 = 3\n"
    assert "hubd call --profile p plus b=1" in told(hub, "tools", "plus", "--profile", "p")


@pytest.mark.parametrize("columns", draw(1, [60, 80, 120]))
def test_what_is_drawn_fits(hub, columns):
    told(hub, "profile", "suggest", "windsurf", "--write")
    with Windsurf(hub, "cline"):
        for words in (("profiles",), ("tools", "--cost"), ("tools", "--profile", "windsurf"), ("tools", "--unused")):
            with Terminal([HUBD, *in_its_file(hub, words)], hub.env, columns=columns) as terminal:
                code, out = terminal.end()
            assert code == 0
            assert widest(out) <= columns, words


def test_what_the_configuration_says_of_profiles_is_doubted_by_profiles_and_validate_alike(hub):
    text = """
[profiles.small]
hosts = ["curser"]
servers = ["fils", "files"]
[profiles.codex]
tools = ["files__raed"]
"""
    hub.config.write_text(SERVERS + text)
    told(hub, "reload")
    label = 'hosts: no host that hubd knows has the label "curser"; did you mean "cursor"?'
    server = 'there is no server "fils" here, unless a project has one of that name; did you mean "files"?'
    whole = " ".join(told(hub, "profiles").split())
    for each in (label, server, "'files__raed' (did you mean 'files__read'?)"):
        assert each in whole
    assert "codex is the name of a profile and of a host" in whole
    assert label in " ".join(told(hub, "status").split())
    assert label in " ".join(told(hub, "doctor", code=1).split())
    checked = " ".join(told(hub, "validate", str(hub.config)).split())
    assert label in checked
    assert server in checked
    told(hub, "token", "new", "work", "--host", "curser", "--config", hub.config)
    try:
        for words in (("status",), ("validate", str(hub.config))):
            assert label not in " ".join(told(hub, *words).split()), "a token has this label"
    finally:
        told(hub, "token", "revoke", "work", "--config", hub.config)


def test_a_name_that_only_a_profile_gives_is_said_to_be_its(hub):
    hub.config.write_text(f'{SERVERS}\n[profiles.p.rename]\nmail__send = "post"\n')
    told(hub, "reload")
    done = hubd(hub, "call", "post")
    assert done.returncode == 1
    assert "only the profile p has a tool post: `hubd call --profile p post`" in done.stderr


def test_commands_that_show_tools_note_that_the_configuration_was_refused(hub):
    note = "the previous one is in use: `hubd validate` says more"
    assert note not in told(hub, "tools")
    hub.config.write_text(f"{SERVERS}\n[profiles.p]\nhosts = 3\n")
    told(hub, "reload", code=78)
    assert note in told(hub, "tools")
    assert note in told(hub, "tools", "--profile", "p", code=1)
    assert note in hubd(hub, "call", "nothing").stderr
    assert "configuration" not in hubd(hub, "tools", "--json", "--config", hub.config).stderr


def test_a_tool_that_a_profile_renames_or_leaves_out_is_said_to_be_so(hub):
    rules = '[profiles.p]\nservers = ["mail"]\n[profiles.p.rename]\nmail__send = "post"\n'
    hub.config.write_text(f"{SERVERS}\n{rules}")
    told(hub, "reload")
    renamed = told(hub, "tools", "mail__send", "--profile", "p", code=1)
    assert "the profile p calls mail__send post: `hubd tools --profile p post`" in renamed
    assert "the profile p leaves files__read out" in told(hub, "tools", "files__read", "--profile", "p", code=1)


def test_the_entry_of_a_subagent_is_printed_and_starts_a_session_of_the_profile(hub, tmp_path):
    hub.config.write_text(f'{hub.config.read_text()}\n[profiles.few]\nservers = ["mail"]\n')
    told(hub, "reload")
    shown = told(hub, "profile", "entry", "few", "codex", "--json")
    assert shown["file"].endswith(".codex/agents/few.toml")
    entry = tomllib.loads(shown["text"])["mcp_servers"]["hub"]
    with StdioHost(entry, hub.env) as host:
        assert sorted(host.tools()) == ["mail__fetch", "mail__send"]
    assert "there is no profile 'nobody'" in told(hub, "profile", "entry", "nobody", "codex", code=2)
    assert "no host 'nobody' is known" in told(hub, "profile", "entry", "few", "nobody", code=2)
    assert "these have: claude-code, copilot, codex" in told(hub, "profile", "entry", "few", "cursor", code=1)
