"""Servers of every host become upstreams: what they mean here, which are the same, and what becomes of secrets."""

import json
import tomllib
from pathlib import Path

import pytest

from config.editing.imported_file import blocks_of, compose_file, marks_of_removal, without
from config.editing.text.change import EditRefused
from config.hosts.host_servers import identities, survey
from config.hosts.hub_entries import KEY, Records, stdio_entry
from config.hosts.import_plan import Import, block, identities_in
from config.hosts.known_hosts import Machine, Place, all_hosts, every_user_file, project_files
from config.hosts.removal_choice import drop_changed, plan_host_removals
from config.hosts.servers_hosts_had import HadBefore
from config.hosts.servers_in_hub import names_by_identity as known_servers
from config.hosts.unwrap_proxies import package_of, unwrap
from config.loading.assemble import load_all
from config.loading.variables import Variables
from config.name_globs import ALL
from config.setting_declarations import Secret
from config.settings import HubConfig, UpstreamConfig
from tests.support import host_homes
from tests.support.host_homes import HOMES


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path, {"HOME": str(tmp_path), "LEVEL": "3"})


def surveyed(machine, id, text=None, project=None):
    """Servers and what is none, of one host."""
    if text is not None:
        host_homes.write(machine.home, id)[id].write_text(text)
    host = all_hosts()[id]
    places = project_files(host, project, machine) if project else every_user_file(host, machine)
    found = [survey(place, place.path.read_bytes().decode(), machine.environ, machine.home) for place in places]
    return [one for servers, _ in found for one in servers], [one for _, skipped in found for one in skipped]


def taken(servers, secrets="keep", known=None, names=()):
    result = Import(known or {}, names, secrets)
    for server in servers:
        result.add(server)
    return result


def written(result):
    """The upstreams in the file that an import would write."""
    return tomllib.loads(compose_file("T", "t", [block(name, server) for name, server in result.taken])).get(
        "upstreams", {}
    )


def test_a_huge_entry_keeps_no_other_from_being_taken(machine):
    entries = {
        "n" * 2_000_000: {"command": "x"},
        "big": {"command": "x", "args": ["y" * 70_000]},
        "ok": {"command": "x"},
    }
    servers, skipped = surveyed(machine, "cursor", json.dumps({"mcpServers": entries}))
    assert [server.name for server in servers] == ["ok"]
    assert [(each.key, each.why) for each in skipped] == [
        ("n" * 80, "it is larger than 64 KB"),
        ("big", "it is larger than 64 KB"),
    ]


@pytest.mark.parametrize("id", HOMES)
def test_from_every_host(id, machine):
    host_homes.write(machine.home, id)
    servers, _ = surveyed(machine, id)
    assert tuple(server.name for server in servers) == HOMES[id].servers
    text = compose_file("T", id, [block(server.name, server) for server in servers])
    path = machine.home / f"{id}.toml"
    if servers:
        config = load_all(path, {**machine.environ}, texts={path: text}).config
        assert set(config.upstreams) == set(HOMES[id].servers)


FIGMA = "https://f.example/mcp"
ENTRIES = {
    "codex": '[mcp_servers.figma]\nurl = "URL"\nenabled_tools = ["a", "b"]\ndisabled_tools = ["b"]\n',
    "gemini": '{"mcpServers": {"figma": {"httpUrl": "URL", "includeTools": ["a", "c(x)"], "trust": true}}}',
    "gemini excluding": '{"mcpServers": {"figma": {"httpUrl": "URL", "excludeTools": ["c"]}}}',
    "kiro": '{"mcpServers": {"figma": {"url": "URL", "disabledTools": ["a", "z"]}}}',
    "windsurf": '{"mcpServers": {"figma": {"serverUrl": "URL", "disabledTools": ["z"]}}}',
    "copilot": '{"mcpServers": {"figma": {"type": "http", "url": "URL", "tools": ["c"]}}}',
    "copilot without": '{"mcpServers": {"figma": {"type": "http", "url": "URL", "tools": ["*"]}}}',
    "goose": "extensions:\n  figma: {type: streamable_http, uri: 'URL', available_tools: [c]}\n",
    "goose without": "extensions:\n  figma: {type: streamable_http, uri: 'URL', available_tools: []}\n",
    "cursor": '{"mcpServers": {"figma": {"url": "URL"}}}',
}


def of(machine, *entries):
    """The one server in these entries."""
    return [surveyed(machine, each.split()[0], ENTRIES[each].replace("URL", FIGMA))[0][0] for each in entries]


@pytest.mark.covers("FH-13")
@pytest.mark.parametrize(
    ("entry", "tools"),
    [
        ("codex", ["a", "b", "!b"]),
        ("gemini", ["a", "c"]),
        ("gemini excluding", ["!c"]),
        ("kiro", ["!a", "!z"]),
        ("windsurf", ["!z"]),
        ("copilot", ["c"]),
        ("copilot without", None),
        ("goose", ["c"]),
        ("goose without", None),
        ("cursor", None),
    ],
)
def test_a_host_s_choice_of_tools_is_kept(machine, entry, tools):
    result = taken(of(machine, entry))
    assert written(result)["figma"].get("tools") == tools
    ((_, server),) = result.taken
    assert [note for note in server.notes if "is kept" in note] == list(server.notes)
    assert bool(server.notes) == (tools is not None)


DROPPED = "offered in full, as in Cursor; the choice of tools in {} is dropped"


@pytest.mark.covers("FH-13")
@pytest.mark.parametrize(
    ("entries", "tools", "remark"),
    [
        (("codex", "copilot"), ["a", "b", "c", "!b"], "its tools are those of Codex and Copilot CLI together"),
        (("kiro", "windsurf"), ["!z"], "its tools are those of Kiro and Windsurf together"),
        (("windsurf", "kiro"), ["!z"], "its tools are those of Windsurf and Kiro together"),
        (("kiro", "gemini"), ["!z"], "its tools are those of Kiro and Gemini CLI together"),
        (("codex", "cursor"), None, DROPPED.format("Codex")),
        (("cursor", "codex"), None, DROPPED.format("Codex")),
        (("codex", "copilot", "cursor"), None, DROPPED.format("Codex and Copilot CLI")),
        (("codex", "cursor", "copilot"), None, DROPPED.format("Codex and Copilot CLI")),
        (("cursor", "copilot without"), None, ""),
    ],
)
def test_one_server_of_several_hosts_gets_the_tools_of_all(machine, entries, tools, remark):
    result = taken(of(machine, *entries))
    assert written(result)["figma"].get("tools") == tools
    ((name, server),) = result.taken
    assert {result.about_tools(name, each) for each in (server, *(each for _, each in result.known))} == {remark}
    assert [note for note in server.notes if "tools" in note] == [remark] * bool(remark), "one note, of how it is now"


def test_tools_that_hubd_has_left_out_before_are_said(machine):
    (server,) = of(machine, "cursor")
    result = Import({server.identity: "figma"}, ["figma"], "keep", offered={"figma": ("a",)})
    result.add(server)
    assert result.taken == []
    assert '[upstreams.figma] with tools = ["*"] into hubd.toml' in result.about_tools("figma", server)
    assert result.offers_fewer_tools("figma", server)
    left = plan_host_removals(
        result, HubConfig(), machine, Records(machine.home / "r"), served={"figma": ""}, without_hub=True
    )
    assert [each.why for each in left.stays] == [result.about_tools("figma", server)], "it stays with its host"
    forced = plan_host_removals(
        result, HubConfig(), machine, Records(machine.home / "r"), served={}, forced=["figma"], without_hub=True
    )
    assert forced.stays == []
    (server,) = of(machine, "copilot")
    result = Import({server.identity: "figma"}, ["figma"], "keep", offered={"figma": ALL})
    result.add(server)
    assert result.about_tools("figma", server) == "hubd offers more tools of it than Copilot CLI did"
    assert not result.offers_fewer_tools("figma", server)


def test_what_each_host_had_is_remembered(machine):
    path = machine.home / "had_before.json"
    codex, cursor = of(machine, "codex", "cursor")
    result = taken([codex, cursor])
    HadBefore(path).add(result.had)
    HadBefore(path).add([("other", cursor)])
    assert {each.host: each.tools for had in HadBefore(path).all().values() for each in had} == {
        "codex": {"figma": ("a", "b", "!b")},
        "cursor": {"figma": ("*",), "other": ("*",)},
    }


def test_what_entries_mean_here(machine):
    host_homes.write(machine.home)
    everything = [server for id in HOMES for server in surveyed(machine, id)[0]]
    found = written(taken(everything))
    assert found["linear"]["url"] == "https://mcp.linear.app/mcp"
    assert found["everything"]["command"] == "npx"
    assert found["everything"]["args"] == ["-y", "@modelcontextprotocol/server-everything"]
    assert found["everything"]["env"] == {"LEVEL": "${env:LEVEL}"}
    assert found["sqlite"]["args"][-1] == "/home/me/$${notes}.db"
    assert found["context7"]["env"] == {"CONTEXT7_API_KEY": "${CONTEXT7_API_KEY:-}"}
    assert found["stripe"]["headers"] == {"Authorization": "Bearer ${STRIPE_KEY}"}
    assert found["stripe"]["disabled"] is True
    assert found["old"] == {
        "url": "https://old.example/sse",
        "transport": "sse",
        "timeouts": {"call": 60},
        "disabled": True,
    }
    assert found["figma"] == {"url": "http://127.0.0.1:3845/mcp"}
    assert found["figma-codex"]["url"] == "https://mcp.figma.com/mcp"
    assert found["postgres"]["cwd"] == "~"


def test_what_is_no_server_says_why(machine):
    host_homes.write(machine.home)
    assert [(one.key, one.why) for one in surveyed(machine, "goose")[1]] == [("developer", "it is a part of Goose")]
    assert [one.key for one in surveyed(machine, "zed")[1]] == ["mcp-server-context7"]
    entries = {"a": {"comand": "x"}, "b": 1, "c": {"command": "x", "type": "pigeon"}, "d": {"command": "y"}}
    servers, skipped = surveyed(machine, "cursor", json.dumps({"mcpServers": entries}))
    assert [server.key for server in servers] == ["d"]
    assert [one.key for one in skipped] == ["a", "b", "c"]
    assert all(one.why for one in skipped)


def test_the_hub_itself_is_no_server(machine):
    entry = stdio_entry(all_hosts()["opencode"], "/opt/bin/hubd")
    others = {"serving": {"type": "local", "command": ["hubd", "serve"]}}
    servers, skipped = surveyed(machine, "opencode", json.dumps({"mcp": {KEY: entry, **others}}))
    assert (servers, skipped) == ([], [])


def test_of_one_project(machine):
    shop = machine.home / "shop"
    (shop / ".vscode").mkdir(parents=True)
    (shop / ".vscode" / "mcp.json").write_text(
        '{"servers": {"lint": {"command": "./lint", "args": ["${workspaceFolder}/src"]}}}'
    )
    (server,) = surveyed(machine, "vscode", project=shop)[0]
    assert server.values["args"] == [f"{shop}/src"]
    assert server.values["cwd"] == str(shop)
    host_homes.write(machine.home, "claude-code")
    text = (machine.home / ".claude.json").read_text().replace("/home/me/shop", str(shop))
    (machine.home / ".claude.json").write_text(text)
    assert [server.name for server in surveyed(machine, "claude-code", project=shop)[0]] == ["shop-db"]


def test_what_an_editor_asks_for_cannot_be_had(machine):
    (server,) = surveyed(machine, "vscode", '{"servers": {"a": {"command": "x", "env": {"K": "${input:key}"}}}}')[0]
    assert "hubd cannot ask" in server.off
    assert written(taken([server]))["a"]["disabled"] is True


def test_a_file_of_variables(machine):
    (machine.home / "vars").write_text("A=1\nTOKEN=abcdef123456\n")
    entry = {"command": "x", "envFile": f"{machine.home}/vars", "env": {"B": "2"}}
    text = json.dumps({"mcpServers": {"a": entry}})
    (server,) = surveyed(machine, "cursor", text)[0]
    assert server.values["env"] == {"A": "1", "TOKEN": "abcdef123456", "B": "2"}
    (server,) = surveyed(machine, "cursor", text.replace("vars", "none"))[0]
    assert "cannot read" in server.off


# --- which are the same -----------------------------------------------------------------------------------------------

NOTHING = Variables({}, Path("/"))
SAME = '{"mcpServers": {"gh": {"command": "npx", "args": ["-y", "github"], "env": {"T": "%s"}}}}'


def test_one_server_of_two_hosts_is_taken_once(machine):
    one = surveyed(machine, "cursor", SAME % "a")[0]
    other = surveyed(machine, "kiro", SAME % "a")[0]
    remote = surveyed(
        machine, "junie", '{"mcpServers": {"r": {"command": "npx", "args": ["mcp-remote", "https://x/mcp"]}}}'
    )[0]
    by_url = surveyed(machine, "warp", '{"mcpServers": {"r2": {"url": "https://x/mcp/"}}}')[0]
    result = taken([*one, *other, *remote, *by_url])
    assert [name for name, _ in result.taken] == ["gh", "r"]
    assert [(name, server.key) for name, server in result.known] == [("gh", "gh"), ("r", "r2")]


@pytest.mark.parametrize(
    ("setting", "one", "other"),
    [
        ("env", {"DATABASE_URL": "postgres://prod"}, {"DATABASE_URL": "postgres://dev"}),
        ("env", {"DATABASE_URL": "${PROD}"}, {"DATABASE_URL": "${DEV}"}),
        ("headers", {"Authorization": "Bearer aaaa1111"}, {"Authorization": "Bearer bbbb2222"}),
        ("headers", {"Authorization": "Bearer aaaa1111"}, {}),
    ],
)
def test_other_values_are_another_server(machine, setting, one, other):
    base = {"command": "npx", "args": ["-y", "pg"]} if setting == "env" else {"url": "https://x/mcp"}

    def found(host, **entries):
        entries = {name: {**base, setting: values} for name, values in entries.items()}
        return surveyed(machine, host, json.dumps({"mcpServers": entries}))[0]

    servers = found("cursor", prod=one, dev=other)
    result = taken([*servers, *found("kiro", prod=other, dev=one)])
    assert [name for name, _ in result.taken] == ["prod", "dev"]
    assert [(name, server.key) for name, server in result.known] == [("dev", "prod"), ("prod", "dev")]
    result = taken(servers[1:], known={servers[0].identity: "prod"}, names=["dev"])
    assert [name for name, _ in result.taken] == ["dev-cursor"]


def test_what_was_changed_since_it_was_imported_is_another_server(machine):
    directory = machine.home / "imported"
    directory.mkdir()
    servers = surveyed(machine, "cursor", SAME % "a")[0]
    (directory / "cursor.toml").write_text(block("gh", servers[0]))

    def names(value):
        upstream = UpstreamConfig(command="npx", args=("-y", "github"), env={"T": Secret(value)})
        ours = known_servers(HubConfig(upstreams={"gh": upstream}), directory, {})
        return [name for name, _ in taken(servers, known=ours, names=["gh"]).taken]

    assert names("a") == []
    assert names("b") == ["gh-cursor"]


def test_names_of_headers_are_alike_in_any_case(machine):
    entries = {each: {"url": "https://x/mcp", "headers": {each: "1"}} for each in ("X-Key", "x-key")}
    result = taken(surveyed(machine, "cursor", json.dumps({"mcpServers": entries}))[0])
    assert [len(result.taken), len(result.known)] == [1, 1]


@pytest.mark.parametrize("value", ["${secret:T}", "${cmd:op read t}", "Bearer ${MISSING}"])
def test_what_the_hub_cannot_read_now_is_neither_taken_twice_nor_taken_out(machine, value):
    known = identities_in(f'[upstreams.gh]\ncommand = "npx"\nargs = ["-y", "github"]\nenv.T = "{value}"\n', NOTHING)
    result = taken(surveyed(machine, "cursor", SAME % "Bearer abc")[0], known=known, names=["gh"])
    assert result.taken == []
    assert result.doubt(*result.known[0])
    found = plan_host_removals(
        result, HubConfig(), machine, Records(machine.home / "none"), served={"gh": ""}, without_hub=True
    )
    why = "the hub has it as gh, but cannot read the values of its variables now, so they may differ"
    assert (found.writes, found.sentences) == ([], [f'Cursor: "gh" left enabled: {why}'])
    other = (SAME % "Bearer abc").replace("github", "gitlab")
    assert [name for name, _ in taken(surveyed(machine, "cursor", other)[0], known=known).taken] == ["gh"]


def test_different_servers_of_one_name_get_different_names(machine):
    one = surveyed(machine, "cursor", '{"mcpServers": {"db": {"command": "a"}}}')[0]
    two = surveyed(machine, "kiro", '{"mcpServers": {"db": {"command": "b"}, "D_B": {"command": "c"}}}')[0]
    names = [name for name, _ in taken([*one, *two], names=["other"]).taken]
    assert names[:2] == ["db", "db-kiro"]
    assert len({name.lower().replace("-", "_") for name in names}) == 3
    assert [name for name, _ in taken(one, names=["DB"]).taken] == ["db-cursor"]


def test_what_hubd_has_is_known(machine, tmp_path):
    path = tmp_path / "hubd.toml"
    path.write_text(
        '[upstreams.mine]\ncommand = "npx"\nargs = ["-y", "github"]\nenv = { T = "a" }\n[upstreams.far]\nurl = "https://x/mcp"\n'
    )
    known = identities(load_all(path, {}).config)
    result = taken(surveyed(machine, "cursor", SAME % "a")[0], known=known)
    assert result.taken == []
    assert [name for name, _ in result.known] == ["mine"]


@pytest.mark.parametrize("id", [id for id in HOMES if HOMES[id].servers])
def test_importing_again_finds_everything_known(id, machine):
    host_homes.write(machine.home, id)
    servers, _ = surveyed(machine, id)
    result = taken(servers)
    text = compose_file("T", id, [block(name, server) for name, server in result.taken])
    known = identities_in(text, Variables(machine.environ, machine.home))
    assert taken(servers, known=known).taken == []


def test_the_file_says_whether_it_was_edited(machine):
    host_homes.write(machine.home, "continue")
    blocks = [block(server.name, server) for server in surveyed(machine, "continue")[0]]
    text = compose_file("Continue", "continue", blocks)
    assert blocks_of(text) == blocks
    head, first = text.split("# Checksum", 1)
    assert 'cwd = "~"' in first
    assert '# cwd = "~" is where hosts start their servers' in head, "what every block has is explained once"
    for edited in (text.replace("0.1.3", "0.1.4"), text + "# more\n", "[upstreams.a]\ncommand = 'x'\n", ""):
        with pytest.raises(EditRefused, match="edited since"):
            blocks_of(edited)


def test_what_was_removed_leaves_a_mark(machine):
    host_homes.write(machine.home, "continue")
    servers = surveyed(machine, "continue")[0]
    text = compose_file("Continue", "continue", [block(server.name, server) for server in servers])
    assert marks_of_removal(text) == set()
    gone = without(text, "browser").apply(text)
    assert len(blocks_of(gone)) == 2
    assert "DEBUG" not in gone
    assert list(tomllib.loads(gone)["upstreams"]) == ["remote"]
    result = Import({}, [], "keep", marks_of_removal(gone))
    for server in servers:
        result.add(server)
    assert [name for name, _ in result.taken] == ["remote"]
    for text, name in ((gone, "browser"), (gone + "\n# mine\n", "remote")):
        with pytest.raises(EditRefused):
            without(text, name)


# --- secrets ----------------------------------------------------------------------------------------------------------

HELD = """{"mcpServers": {
  "env": {"command": "x", "env": {"API_KEY": "abc123", "LEVEL": "debug"}},
  "header": {"url": "https://x/a", "headers": {"Authorization": "Bearer abc123", "X-Team": "blue"}},
  "argument": {"command": "x", "args": ["--api-key", "abc123", "--token=def456", "--port", "80"]},
  "query": {"url": "https://x/mcp?api_key=abc123"},
  "none": {"command": "x", "env": {"KEY": "${KEY:-}"}, "args": ["--key-file", "/etc/key"]}
}}"""


def test_secrets_are_found(machine):
    spots = {server.key: server.spots() for server in surveyed(machine, "cursor", HELD)[0]}
    assert spots == {
        "env": [("env", "API_KEY")],
        "header": [("headers", "Authorization")],
        "argument": [("args", "1"), ("args", "2")],
        "query": [("url", "")],
        "none": [],
    }


def test_secrets_become_references(machine):
    servers = surveyed(machine, "cursor", HELD)[0]
    found = written(taken(servers, "reference"))
    assert "abc123" not in str(found)
    assert "def456" not in str(found)
    assert found["env"]["env"] == {"API_KEY": "${API_KEY}", "LEVEL": "debug"}
    assert found["header"]["headers"] == {"Authorization": "Bearer ${HEADER_TOKEN}", "X-Team": "blue"}
    assert found["argument"]["args"][1:3] == ["${ARGUMENT_ARG_1}", "--token=${ARGUMENT_TOKEN}"]
    assert found["query"]["url"] == "${QUERY_URL}"
    assert found["env"]["disabled"] is True
    assert "disabled" not in found["none"]
    assert servers[0].values["env"]["API_KEY"] == "abc123"


def test_servers_with_secrets_are_left_out(machine):
    result = taken(surveyed(machine, "cursor", HELD)[0], "skip")
    assert [name for name, _ in result.taken] == ["none"]
    assert [one.why for one in result.skipped][:1] == ["it holds secrets: env.API_KEY"]


# --- programs in between ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("npx mcp-remote https://x/mcp", {"url": "https://x/mcp"}),
        ("npx -y mcp-remote@latest https://x/sse --transport sse-only", {"url": "https://x/sse", "transport": "sse"}),
        ("/usr/bin/npx --yes mcp-remote@0.1.29 http://h:1/mcp 3334 --allow-http", {"url": "http://h:1/mcp"}),
        ("bunx mcp-remote https://x/mcp --header A:${T}", {"url": "https://x/mcp", "headers": {"A": "secret"}}),
        ("pnpm dlx mcp-remote https://x/mcp --header A:b", {"url": "https://x/mcp", "headers": {"A": "b"}}),
        ("cmd /c npx mcp-remote https://x/mcp", {"url": "https://x/mcp"}),
        ("mcp-remote https://x/mcp --debug", {"url": "https://x/mcp"}),
        ("npx -y supergateway --sse https://x/sse", {"url": "https://x/sse", "transport": "sse"}),
        (
            "npx -y supergateway --streamableHttp https://x/mcp --oauth2Bearer b",
            {"url": "https://x/mcp", "transport": "http", "headers": {"Authorization": "Bearer b"}},
        ),
        ("npx -y supergateway --stdio server --port 8000", None),
        ("npx mcp-remote https://x/mcp --static-oauth-client-info {}", None),
        ('npx mcp-remote https://x/mcp --static-oauth-client-info {"client_id":"a"}', None),
        ('npx mcp-remote https://x/mcp 3334 --static-oauth-client-info {"client_id":"a","client_secret":"b"}', None),
        ("npx mcp-remote https://x/mcp --static-oauth-client-metadata @file", None),
        ("npx mcp-remote https://x/mcp --ignore-tool delete*", None),
        (
            'npx mcp-remote https://x/mcp 3334 --static-oauth-client-info {"client_id":"a"} --resource https://x/'
            ' --static-oauth-client-metadata {"scope":"read"}',
            {
                "url": "https://x/mcp",
                "oauth": {
                    "client_id": "a",
                    "redirect_uri": "http://localhost:3334/oauth/callback",
                    "scopes": ["read"],
                    "resource": "https://x/",
                },
            },
        ),
        ("npx mcp-remote", None),
        ("npx mcp-remote https://x/mcp --header", None),
        ("npx mcp-remote https://x/mcp --transport pigeon", None),
        ("npx other https://x/mcp", None),
        ("pnpm run mcp-remote https://x/mcp", None),
        ("npx --package foo mcp-remote https://x/mcp", None),
    ],
)
def test_programs_in_between(words, expected):
    command, *args = words.split()
    found = unwrap({"command": command, "args": args, "env": {"T": "secret"}})
    assert found == expected


@pytest.mark.parametrize(
    ("words", "url", "note"),
    [
        ("mcp-remote https://x/mcp", "https://x/mcp", "is reached at its URL, without mcp-remote"),
        ("mcp-remote https://x/mcp --header Authorization:${T}", "https://x/mcp", "is reached at its URL"),
        ("supergateway --sse https://x/sse", "https://x/sse", "is reached at its URL, without supergateway"),
        ("mcp-remote https://x/mcp --ignore-tool d*", None, "since the hub has nothing like --ignore-tool"),
        ("mcp-remote https://x/mcp --static-oauth-client-info @f", None, "nothing like --static-oauth-client-info"),
    ],
)
def test_what_mcp_remote_does_the_hub_does_unless_an_option_has_no_counterpart(machine, words, url, note):
    entry = {"command": "npx", "args": ["-y", *words.split()], "env": {"T": "secret"}}
    (server,) = surveyed(machine, "cursor", json.dumps({"mcpServers": {"a": entry}}))[0]
    assert server.values.get("url") == url
    assert note in server.notes[0]
    if "Authorization" in words:
        assert server.values["headers"] == {"Authorization": "secret"}
    if url is None:
        assert server.values["command"] == "npx"
    assert taken([server], known={server.original: "mine"}).taken == []


def test_what_the_hub_has_by_url_is_what_a_host_has_behind_mcp_remote(machine):
    entry = '{"mcpServers": {"a": {"command": "npx", "args": ["mcp-remote", "https://x/mcp"]}}}'
    result = taken(surveyed(machine, "cursor", entry)[0], known={("url", "https://x/mcp", ()): "mine"})
    assert [name for name, _ in result.known] == ["mine"]

    def left(why):
        config = load_all(
            machine.home / "hubd.toml",
            {},
            texts={machine.home / "hubd.toml": '[upstreams.mine]\nurl = "https://x/mcp"\n'},
        ).config
        found = plan_host_removals(
            result, config, machine, Records(machine.home / "none"), served={"mine": why}, without_hub=True
        )
        return len(found.writes), found.sentences

    assert left("") == (1, [])
    assert left("sign-in needed") == (
        0,
        ['Cursor: "a" left enabled: sign-in needed (`hubd auth mine`), then it can leave Cursor'],
    )


def test_runners_are_told_from_other_programs():
    assert package_of(["uvx", "a"]) is None
    assert package_of([]) is None


@pytest.mark.covers("I-3")
@pytest.mark.parametrize(
    "entry",
    [
        {"command": "x", "env": "TOKEN"},
        {"command": "x", "env": ["TOKEN"], "headers": 7},
        {"command": "npx", "args": ["mcp-remote", "https://h/\ud83dsse"]},
        {"command": "x", "args": 5},
    ],
)
def test_an_entry_that_is_wrong_stops_no_survey(machine, tmp_path, entry):
    place = Place(all_hosts()["cursor"], tmp_path / "mcp.json", "Cursor")
    text = json.dumps({"mcpServers": {"wrong": entry, "right": {"command": "y"}}})
    found, _ = survey(place, text, machine.environ, machine.home)
    assert "right" in {server.key for server in found}
    result = Import({}, (), "keep")
    for server in found:
        result.add(server)


ENTRY = {"command": "a", "args": ["n=a"], "env": {"API_KEY": "k"}}
CHANGED = {
    "the command": ENTRY | {"command": "b"},
    "an argument": ENTRY | {"args": ["n=NEW"]},
    "a secret": ENTRY | {"env": {"API_KEY": "rotated"}},
    "off": ENTRY | {"disabled": True},
    "a tool less": ENTRY | {"disabledTools": ["echo"]},
    "a setting that nobody reads": ENTRY | {"note": "x"},
    "gone": None,
}


@pytest.fixture(params=CHANGED)
def meanwhile(request, machine):
    """An import of two servers, one of which changes behind its back; the path of the host's file."""
    servers, _ = surveyed(machine, "kiro", json.dumps({"mcpServers": {"a": ENTRY, "b": ENTRY | {"args": []}}}))
    more, _ = surveyed(machine, "windsurf", json.dumps({"mcpServers": {"same": ENTRY}}))
    path, changed = servers[0].place.path, CHANGED[request.param]
    entries = {} if changed is None else {"a": changed}
    path.write_text(json.dumps({"mcpServers": entries | {"b": ENTRY | {"args": []}}}))
    return taken([*servers, *more]), path


def test_what_changed_since_it_was_read_does_not_leave_its_host(meanwhile, machine):
    result, path = meanwhile
    hosts = {"machine": machine, "records": Records(machine.home / "none"), "without_hub": True}
    found = plan_host_removals(result, HubConfig(), served={"a": "", "b": ""}, **hosts)
    assert {original.key for write in found.writes for original in write.originals} == {"b", "same"}
    (sentence,) = found.sentences
    assert sentence.startswith(
        f'Kiro: "a" in {path} was changed meanwhile, and left as it is. The hub has it as it was'
    )
    assert "`hubd remove a` takes that out, then `hubd import kiro --again` takes it over" in sentence
    known = plan_host_removals(
        result, HubConfig(upstreams={"a": UpstreamConfig(command="a")}), served={"a": "", "b": ""}, **hosts
    )
    assert known.sentences[0].endswith("was changed meanwhile, and left as it is; run this again")


def test_what_changed_since_it_was_read_is_not_imported(meanwhile):
    result, path = meanwhile
    stays = drop_changed(result)
    assert [name for name, _ in result.all] == ["b"]
    assert [each.sentence for each in stays] == [
        f'Kiro: "a" in {path} was changed meanwhile, so it was left as it is; run this again',
        f'Windsurf: "same" in {stays[1].place.path} is a of Kiro, which was changed, so it was left as it is; '
        "run this again",
    ]
    assert drop_changed(result) == []


def test_what_the_hub_has_already_leaves_the_other_hosts_though_one_has_changed_it(meanwhile):
    result, _ = meanwhile
    again = taken([server for _, server in result.all], known={result.taken[0][1].identity: "a"})
    drop_changed(again)
    assert [(name, server.key) for name, server in again.all] == [("b", "b"), ("a", "same")]
