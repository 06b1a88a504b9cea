"""Each form of entry that the schema's own examples have, and the settings that come of it."""

import json
from pathlib import Path

import jsonschema_rs
import pytest
from msgspec.structs import replace

from config.registry.entry_of_answers import missing, words_without_answers
from config.registry.server_json import LATEST, RegistrySource, id_of, is_older, source_of, split
from config.registry.ways_to_run import kinds_of, ways_of
from tests.support.registry_entries import EXAMPLES, example, made, way_of
from tests.support.registry_server import registry_server

DIGEST = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
GOLDEN = [
    (
        "npm",
        0,
        {"BRAVE_API_KEY": "${secret:BRAVE}"},
        {
            "command": "npx",
            "args": ["-y", "@example/server-brave-search@1.0.2"],
            "env": {"BRAVE_API_KEY": "${secret:BRAVE}"},
        },
    ),
    ("monorepo", 0, {}, {"command": "npx", "args": ["-y", "@example/everything@0.6.2"]}),
    (
        "filesystem",
        0,
        {"target_dir": ["~/notes", "/srv"]},
        {
            "command": "npx",
            "args": ["-y", "@example/server-filesystem@1.0.2", "/home/me/notes", "/srv"],
            "env": {"LOG_LEVEL": "info"},
        },
    ),
    (
        "filesystem",
        1,
        {"source_path": ["~/a", "/b"], "target_path": ["/project/a", "/project/b"], "LOG_LEVEL": "debug"},
        {
            "command": "docker",
            "args": [
                *("run", "--rm", "-i", "--init"),
                *("--mount", "type=bind,src=/home/me/a,dst=/project/a"),
                *("--mount", "type=bind,src=/b,dst=/project/b"),
                *("-e", "LOG_LEVEL", "docker.io/example/filesystem:1.0.2", "/project"),
            ],
            "env": {"LOG_LEVEL": "debug"},
        },
    ),
    ("remote", 0, {}, {"url": "https://mcp-fs.example.com/http"}),
    (
        "pypi",
        0,
        {"WEATHER_API_KEY": "k"},
        {
            "command": "uvx",
            "args": ["weather-mcp-server@0.5.0"],
            "env": {"WEATHER_API_KEY": "k", "WEATHER_UNITS": "celsius"},
        },
    ),
    ("hybrid", 0, {}, {"command": "npx", "args": ["-y", "@example/hybrid-mcp-server@1.5.0", "--mode=local"]}),
    (
        "hybrid",
        1,
        {"X-API-Key": "${secret:KEY}", "X-Region": "eu-west-1"},
        {"url": "https://mcp.example.com/http", "headers": {"X-API-Key": "${secret:KEY}", "X-Region": "eu-west-1"}},
    ),
    ("hybrid", 2, {}, {"url": "https://mcp.example.com/sse", "transport": "sse"}),
    ("inside_a_cli", 0, {}, {"command": "npx", "args": ["-y", "examplecli@1.1298.0", "mcp", "-t", "stdio"]}),
    (
        "tenant",
        0,
        {"tenant_id": "acme", "token": "${secret:T}"},
        {"url": "https://acme.api.example.com/mcp", "headers": {"Authorization": "Bearer ${secret:T}"}},
    ),
    ("base_url", 0, {"baseUrl": "https://mcp.acme.example"}, {"url": "https://mcp.acme.example/mcp"}),
    (
        "digest",
        0,
        {"token": "${secret:T}"},
        {
            "command": "podman",
            "args": ["run", "--rm", "-i", "--init", "-e", "TOKEN", f"ghcr.io/example/pinned:2.1.0@{DIGEST}"],
            "env": {"TOKEN": "${secret:T}"},
        },
    ),
]


@pytest.mark.covers("ER-3")
@pytest.mark.parametrize(("name", "at", "said", "settings"), GOLDEN)
def test_each_example_makes_its_entry(name, at, said, settings):
    assert made(example(name), said, at) == settings


NOT_RUN = [
    ("nuget", 0, "`dnx Example.SampleMcpServer@0.4.0-beta`"),
    ("database", 0, "it asks the container for --network host; add it by hand if you trust it"),
]


@pytest.mark.parametrize(("name", "at", "why"), NOT_RUN)
def test_what_is_not_run_says_why(name, at, why):
    assert why in ways_of(example(name))[at].why


@pytest.mark.covers("EB-3")
def test_a_bundle_is_known_by_its_hash():
    server = example("bundle")
    [way] = ways_of(server)
    assert (way.kind, way.why) == ("mcpb", "")
    assert way.address.endswith("/text-editor.mcpb")
    for change in ({"file_sha256": ""}, {"file_sha256": "fe33"}, {"identifier": "text-editor.mcpb"}):
        [way] = ways_of(replace(server, packages=(replace(server.packages[0], **change),)))
        assert way.why


def test_every_example_is_in_one_of_these_tables():
    assert {name for name, *_ in (*GOLDEN, *NOT_RUN)} | {"by_hand", "bundle"} == set(EXAMPLES)
    assert ways_of(example("by_hand")) == []


def test_a_container_runs_with_what_is_there_unless_the_publisher_says():
    assert way_of(example("filesystem"), 1, engine="podman").command[0] == "podman"
    assert way_of(example("digest"), engine="docker").command[0] == "podman"


def test_what_has_to_be_said_is_known_before():
    way = way_of(example("filesystem"), 1)
    assert [asked.key for asked in missing(way.slots, {})] == ["source_path", "target_path"]
    assert [asked.key for asked in missing(way.slots, {"target_path": 1})] == ["source_path"]


def test_the_command_can_be_shown_before_anything_is_said():
    assert words_without_answers(way_of(example("filesystem"))) == [
        *("npx", "-y", "@example/server-filesystem@1.0.2", "TARGET_DIR")
    ]
    assert words_without_answers(way_of(example("filesystem"), 1))[5:] == [
        *("--mount", "type=bind,src=SOURCE_PATH,dst=TARGET_PATH", "-e", "LOG_LEVEL"),
        *("docker.io/example/filesystem:1.0.2", "/project"),
    ]
    assert words_without_answers(way_of(example("inside_a_cli")))[3:] == ["mcp", "-t", "T"]


def test_what_it_runs_as_in_few_words():
    assert kinds_of(example("hybrid")) == ["npm", "remote"]
    assert kinds_of(example("by_hand")) == []


# --- names ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("io.github.x/y", ("io.github.x/y", LATEST)),
        ("io.github.x/y@latest", ("io.github.x/y", LATEST)),
        ("io.github.x/y@1.2.0", ("io.github.x/y", "1.2.0")),
        ("io.github.x/y@1.2.0-beta.1+b", ("io.github.x/y", "1.2.0-beta.1+b")),
    ],
)
def test_a_name_may_have_a_version(text, found):
    assert split(text) == found


@pytest.mark.covers("ER-1")
@pytest.mark.parametrize("version", ["^1.2.3", "~1.2", ">=1", "1.x", "1.*", "1.0 2.0", "1||2", "", "-1", "ü"])
def test_a_range_is_no_version(version):
    with pytest.raises(ValueError, match="version"):
        split(f"io.github.x/y@{version}")


@pytest.mark.parametrize(
    "name", ["a", "a/b/c", "/b", "a/", "a b/c", "../..", "a/..", "./x", "a/b?c", "ü/x", "a" * 200 + "/b"]
)
def test_what_is_no_name(name):
    with pytest.raises(ValueError, match="is no name in a registry"):
        split(name)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("1.2.3", "1.2.4"),
        ("1.9.9", "1.10.0"),
        ("1.2.3-beta.2", "1.2.3"),
        ("1.2.3-beta.2", "1.2.3-beta.11"),
        ("1.2.3-1", "1.2.3-alpha"),
        ("1.2.3-beta", "1.2.3-beta.1"),
    ],
)
def test_versions_are_compared_where_that_is_certain(one, other):
    assert is_older(one, other)
    assert not is_older(other, one)
    assert not is_older(one, one)


def test_other_versions_are_not_compared():
    assert not is_older("2024-01-01", "1.0.0")
    assert not is_older("1.0.0", "2.0")
    assert not is_older("1.0.0", "1.0.0+b")


def test_where_an_upstream_comes_from():
    source = RegistrySource("official", "io.github.x/y", "1.2.0")
    assert str(source) == "official:io.github.x/y@1.2.0"
    assert source_of(str(source)) == source
    for text in ("", "official", "official:x@1", "official:a/b", "official:a/b@", "official:a/b@1.x", "O:a/b@1"):
        assert source_of(text) is None


@pytest.mark.parametrize(
    ("name", "taken", "id"),
    [
        ("io.github.example/filesystem", (), "filesystem"),
        ("io.github.example/filesystem", ("filesystem",), "filesystem-2"),
        ("com.stripe/mcp", (), "stripe"),
        ("io.github.x/weather-mcp-server", (), "weather"),
        ("io.github.x/hub", (), "hub-2"),
        ("io.github.x/3d_Printer", (), "s3d-printer"),
    ],
)
def test_a_server_is_called_after_its_name(name, taken, id):
    assert id_of(name, taken) == id


# --- the recorded entries ---------------------------------------------------------------------------------------------


def test_the_recorded_entries_are_what_registries_send():
    schema = json.loads((Path(__file__).parents[2] / "data" / "registry" / "api.schema.json").read_text())
    validator = jsonschema_rs.validator_for(schema)
    with registry_server() as registry:
        for each in EXAMPLES.values():
            registry.add(each, statusMessage="x")
        page = json.loads(registry.answer("/v0.1/servers?version=latest", {}).body)
    assert len(page["servers"]) == len(EXAMPLES)
    for entry in page["servers"]:
        assert not [str(error) for error in validator.iter_errors(entry)], entry["server"]["name"]
    assert not validator.is_valid({"server": {"name": "x", "description": "", "version": "1"}})
