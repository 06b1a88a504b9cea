"""`hubd tools --cost`, and the warning about hosts that are shown more than they take."""

import pytest
from msgspec import structs, to_builtins

from config.hosts.known_hosts import all_hosts
from hub.cli.render import status as terminal
from hub.cli.render.costs import costs, costs_json, costs_of, over_limit, remedy_of, tool_costs, warning_of
from hub.control.answers import HostRow, LargestTool, Status, ToolUse, ToolUses, UpstreamRow
from tests.support.terminal import drawn, widest
from upstreams.status_facts import Counts


def server(name, tools, tokens, largest=""):
    found = LargestTool(f"{name}__{largest}", tokens // 4) if largest else None
    return UpstreamRow(name=name, state="connected", counts=Counts(tools), tokens=tokens, largest=found)


def host(label, tools, tokens, name="x"):
    return HostRow(host=name, label=label, endpoint="/mcp", tools=tools, tokens=tokens)


DATA = Status(
    upstreams=(server("files", 14, 1139, "search_files"), server("github", 101, 24_100, "create"), server("off", 0, 0)),
    hosts=(host("cursor", 115, 25_900), host("windsurf", 115, 25_900), host("windsurf", 115, 25_900)),
    instructions_tokens=500,
    all_tools=115,
    all_tokens=25_739,
)

USES = ToolUses(
    tools=(
        ToolUse(name="files__search_files", server="files", tokens=284, calls={"cursor": 4}),
        ToolUse(name="files__move", server="files", tokens=90),
        ToolUse(name="github__create", server="github", tokens=6025, last="2026-09-30"),
        ToolUse(name="github__delete", server="github", tokens=900),
    ),
    since="2026-08-01",
    today="2026-11-23",
)
NOT_KEPT = ToolUses(tools=USES.tools, today="2026-11-23")


@pytest.mark.covers("ET-2")
def test_servers_hosts_and_what_helps():
    assert drawn(*costs(DATA, USES), width=80) == (
        "SERVER        TOOLS   TOKENS  UNUSED 30 DAYS  LARGEST\n"
        "github          101  ~24 000  2 (~6 900)      create ~6 000\n"
        "files            14   ~1 100  1 (~90)         search_files ~280\n"
        "instructions      -     ~500  -               -\n"
        "together        115  ~26 000  -               -\n"
        "\n"
        "HOST          PROFILE  TOOLS   TOKENS  LIMIT\n"
        "x (cursor)    default    115  ~26 000  -\n"
        "x (windsurf)  default    115  ~26 000  takes 100 tools: hubd profile suggest wi…\n"
        "\n"
        "warning: windsurf is shown 115 tools and takes 100: run `hubd profile suggest\n"
        "  windsurf`\n"
    )


@pytest.mark.parametrize("width", [20, 60, 80, 120, 200])
def test_it_fits(width):
    assert widest(drawn(*costs(DATA, USES), width=width)) <= width


def test_a_young_record_says_so_and_without_one_nothing_is_called_unused():
    young = drawn(*costs(DATA, structs.replace(USES, since="2026-11-20")))
    assert "unused: not called since 2026-11-20, when the counting began (3 days ago)" in young
    assert "unused:" not in drawn(*costs(DATA, USES))
    assert "UNUSED" not in drawn(*costs(DATA, NOT_KEPT))
    assert costs_json(DATA, NOT_KEPT)["servers"][0]["unused"] is None


def test_nothing_is_said_of_the_use_of_a_project_s_servers():
    data = structs.replace(DATA, upstreams=(server("db@shop-1f3a5c07", 3, 300, "query"), *DATA.upstreams), hosts=())
    assert drawn(*costs(data, USES), width=80).splitlines()[-1].startswith("outside of projects    115")
    assert drawn(*costs(data, USES), width=80).splitlines()[3].split() == [
        "db@shop-1f3a5c07",
        "3",
        "~300",
        "-",
        "query",
        "~75",
    ]
    assert costs_json(data, USES)["servers"][2]["unused"] is None


def test_nothing_to_show():
    assert "no server has any tools" in drawn(*costs(Status(), ToolUses()))
    assert tool_costs(costs_of([])) == []


def test_for_programs():
    found = costs_json(DATA, USES)
    assert [(each["unused"], each["unused_tokens"]) for each in found["servers"]] == [(2, 6925), (1, 90)]
    assert found["since"] == "2026-08-01"
    assert [each["name"] for each in found["servers"]] == ["github", "files"]
    assert found["servers"][1]["largest"] == {"name": "files__search_files", "tokens": 284}
    assert found["instructions_tokens"] == 500
    assert found["together"] == {"tools": 115, "tokens": 25_739}
    assert [(each["label"], each["tool_limit"], each["spare_tokens"]) for each in found["hosts"]] == [
        ("cursor", None, None),
        ("windsurf", 100, 20_000),
    ]


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (host("windsurf", 100, 900), ""),
        (host("windsurf", 101, 900), "windsurf is shown 101 tools and takes 100"),
        (host("gemini", 128, 20_001), "gemini is shown ~20 000 tokens of tools and has ~20 000 to spare"),
        (host("lm-studio", 10, 4_500), "lm-studio is shown ~4 500 tokens of tools and has ~4 000 to spare"),
        (host("", 129, 900, "opencode"), "opencode is shown 129 tools and takes 128"),
        (host("claude-code", 999, 200_000), ""),
        (host("unheard-of", 999, 200_000), ""),
        (HostRow(label="windsurf"), ""),
    ],
)
def test_only_known_limits_are_told(row, said):
    assert over_limit(row) == said
    assert warning_of([row, row]).partition(": ")[0] == said
    assert (said in drawn(*terminal.status(Status(hosts=(row,))))) or not said


@pytest.mark.parametrize(
    ("more", "remedy"),
    [
        ({}, "run `hubd profile suggest windsurf`"),
        ({"profile": "default", "endpoint": "/mcp/~default"}, "run `hubd profile suggest windsurf`"),
        ({"endpoint": ""}, "run `hubd profile suggest windsurf`"),
        ({"endpoint": "/mcp/@shop-1f3a5c07"}, "run `hubd profile suggest windsurf`"),
        ({"endpoint": "/mcp/~work", "profile": "work"}, "run `hubd tools --pick work`"),
        ({"endpoint": "/mcp/files"}, "leave tools of it out with its setting `tools` in hubd.toml"),
    ],
)
def test_the_remedy_is_a_command_where_there_is_one(more, remedy):
    row = structs.replace(host("windsurf", 101, 900), **more)
    assert remedy_of(row) == remedy
    assert warning_of([row]) == f"windsurf is shown 101 tools and takes 100: {remedy}"
    unlabelled = host("", 129, 900, "opencode")
    assert remedy_of(unlabelled) == "run `hubd profile suggest opencode`"


def test_the_limits_of_hosts_are_data():
    limits = {id: (host.tool_limit, host.spare_tokens) for id, host in all_hosts().items() if host.tool_limit}
    assert limits.pop("windsurf") == (100, 20_000)
    assert limits.pop("lm-studio") == (128, 4_000)
    assert set(limits) == {"gemini", "cline", "roo", "continue", "goose", "zed", "opencode"}
    assert set(limits.values()) == {(128, 20_000)}


def test_the_tools_of_one_server_the_most_expensive_first():
    small = {"name": "a__small", "inputSchema": {}}
    large = {"name": "a__large", "description": "x" * 400, "inputSchema": {}, "_meta": {"dev.hubd/server": "a" * 999}}
    found = costs_of([small, large])
    assert [each.name for each in found.tools] == ["a__large", "a__small"]
    largest, smallest = (each.tokens for each in found.tools)
    assert 100 < largest < 120
    assert found.together.tokens in (largest + smallest, largest + smallest - 1)
    assert drawn(*tool_costs(found)) == (
        "TOOL               TOKENS\na__large             ~110\na__small               ~9\ntogether, 2 tools    ~120\n"
    )


def test_the_instructions_that_come_with_tools_count():
    tool = {"name": "a__small", "inputSchema": {}}
    found = costs_of([tool], "x" * 400)
    assert drawn(*tool_costs(found)).splitlines()[1:] == [
        "a__small              ~9",
        "instructions        ~100",
        "together, 1 tool    ~110",
    ]
    assert to_builtins(found) == {
        "tools": ({"name": "a__small", "tokens": 9},),
        "instructions_tokens": 100,
        "together": {"tools": 1, "tokens": 109},
    }
