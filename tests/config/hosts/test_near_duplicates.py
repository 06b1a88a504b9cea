"""Servers that are probably one and the same are found, whatever hosts call them and however they start them."""

from pathlib import Path

import pytest

from config.editing.text import jsonc
from config.hosts.host_servers import survey
from config.hosts.import_plan import Import
from config.hosts.known_hosts import Place, all_hosts
from config.hosts.near_duplicates import near_duplicates
from config.settings import UpstreamConfig
from tests.config.hosts.test_import_plan import taken


def servers(host, **entries):
    place = Place(all_hosts()[host], Path(f"/home/{host}.json"), host)
    text = jsonc.render({place.host.root[0]: entries}, "  ")
    found, skipped = survey(place, text, {}, Path("/home"))
    assert not skipped
    return found


def groups(*found):
    result = taken([server for each in found for server in each])
    return [(list(each.names), each.why) for each in near_duplicates(result.all)]


def npx(*args):
    return {"command": "npx", "args": ["-y", *args]}


@pytest.mark.parametrize(
    ("one", "other", "why"),
    [
        (npx("@playwright/mcp@0.0.41"), npx("@playwright/mcp@latest", "--headless"), "the package @playwright/mcp"),
        (npx("mcp-time@1"), {"command": "bunx", "args": ["mcp-time"]}, "the package mcp-time"),
        (
            {"command": "uvx", "args": ["mcp-server-time==2025.7.1"]},
            {"command": "/usr/bin/python3", "args": ["-I", "-m", "mcp_server_time", "--local-timezone", "UTC"]},
            "the package mcp-server-time",
        ),
        (
            {"command": "uv", "args": ["tool", "run", "--from", "mcp_server_time", "time"]},
            {"command": "pipx", "args": ["run", "--spec", "mcp-server-time[x]>=1", "mcp-server-time"]},
            "the package mcp-server-time",
        ),
        (
            {"command": "docker", "args": ["run", "-i", "--rm", "-e", "A", "ghcr.io/github/github-mcp-server:v1"]},
            {"command": "podman", "args": ["run", "--env=B=c", "ghcr.io/github/github-mcp-server@sha256:0"]},
            "the image ghcr.io/github/github-mcp-server",
        ),
        (
            {"url": "https://mcp.linear.app/sse"},
            npx("mcp-remote@latest", "https://mcp.linear.app/mcp"),
            "the address mcp.linear.app",
        ),
        ({"url": "http://localhost:3000/mcp"}, {"url": "http://localhost:3000/sse"}, "the address localhost:3000"),
    ],
)
def test_what_runs_or_reaches_the_same(one, other, why):
    assert groups(servers("cursor", a=one), servers("kiro", b=other)) == [(["a", "b"], why)]


def test_one_name_in_several_hosts():
    here, there = (
        servers("cursor", context7=npx("@upstash/context7-mcp")),
        servers("opencode", context7={"type": "remote", "url": "https://mcp.context7.com/mcp"}),
    )
    ((names, why),) = groups(here, there)
    assert (len(names), names[0], why) == (2, "context7", "the name context7")


def test_what_the_hub_has_already_counts_too():
    present = {"web": UpstreamConfig(command="npx", args=("@playwright/mcp",)), "else": UpstreamConfig(command="x")}
    result = taken(servers("cursor", pw=npx("@playwright/mcp", "--headless"), old=npx("x")))
    (group,) = near_duplicates(result.taken, present)
    assert (group.names, [name for name, _ in group.servers]) == (("web", "pw"), ["pw"])
    assert near_duplicates((), present | {"web-2": present["web"]}) == [], "nothing new is to be decided"


def test_groups_that_overlap_are_one():
    found = groups(
        servers("cursor", linear={"url": "https://mcp.linear.app/sse"}, other={"url": "https://mcp.linear.app/mcp"}),
        servers("kiro", linear=npx("linear-mcp"), mine=npx("linear-mcp", "--mine"), apart=npx("else")),
    )
    assert found == [(["linear", "other", "linear-kiro", "mine"], "the package linear-mcp")]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (npx("a"), npx("b")),
        ({"command": "npx", "args": ["--weird", "x"]}, {"command": "npx", "args": ["--weird", "y"]}),
        ({"url": "http://localhost:3000/mcp"}, {"url": "http://localhost:4000/mcp"}),
        ({"url": "http://[::x/mcp"}, {"url": "http://[::y/mcp"}),
        ({"command": "node", "args": ["a.js"]}, {"command": "node", "args": ["b.js"]}),
        (npx("./here"), npx("./here", "x")),
        (npx("mcp-files", "/home/u/notes"), npx("mcp-files", "/home/u/work")),
        (npx("mcp-sql", "postgres://prod/x"), npx("mcp-sql", "postgres://dev/x")),
        ({"command": "uvx", "args": ["git+https://x/y"]}, {"command": "uvx", "args": ["git+https://x/z"]}),
        (npx("mcp-remote", "https://a.example/mcp"), npx("mcp-remote", "https://b.example/mcp")),
        ({"command": "docker", "args": ["run"]}, {"command": "docker", "args": ["run", "-i"]}),
        ({"command": "uvx", "args": []}, {"command": "uvx", "args": ["--from"]}),
    ],
)
def test_what_has_nothing_in_common(one, other):
    assert groups(servers("cursor", a=one), servers("kiro", b=other)) == []


def test_two_of_one_host_that_only_share_a_name_are_two():
    assert groups(servers("cursor", a=npx("x")), servers("cursor", A=npx("y"))) == []


def test_one_stands_for_the_others():
    result: Import = taken(
        [
            *servers("cursor", web=npx("@playwright/mcp")),
            *servers("kiro", pw=npx("@playwright/mcp", "--headless")),
            *servers("warp", again=npx("@playwright/mcp", "--headless")),
        ]
    )
    result.merge("pw", "web")
    assert [name for name, _ in result.taken] == ["web"]
    assert [(name, server.key) for name, server in result.known] == [("web", "pw"), ("web", "again")]
    assert {name for name, _ in result.had} == {"web"}
    (more,) = servers("cline", more=npx("@playwright/mcp", "--headless"))
    result.add(more)
    assert result.known[-1] == ("web", more)
