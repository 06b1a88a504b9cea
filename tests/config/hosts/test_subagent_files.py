"""Files of subagents: what the host reads in them is the entry of the hub, for one profile."""

import tomllib

import pytest
import yaml

from config.hosts.hub_entries import starts_connect, stdio_entry
from config.hosts.known_hosts import all_hosts
from config.hosts.subagent_files import subagent_file

ABLE = [host for host in all_hosts().values() if host.subagent is not None]
HOME = {"XDG_STATE_HOME": '/s t/\u00e9"x'}


def entry_of(host):
    return stdio_entry(host, "/opt/my hub/hubd", HOME, profile="research")


@pytest.mark.parametrize("host", ABLE, ids=lambda host: host.id)
def test_the_file_holds_the_entry_for_the_profile(host):
    text, entry = subagent_file(host, "research", entry_of(host)), entry_of(host)
    if host.subagent.is_toml:
        found = tomllib.loads(text)
        name, server = next(iter(found["mcp_servers"].items()))
        assert name == "hub", "in the place of the host's own"
        assert found["developer_instructions"]
    else:
        _, head, body = text.split("---\n")
        found = yaml.safe_load(head)
        assert "tools" not in found, "not every version of every host understands globs there"
        servers = found[host.subagent.servers]
        (server,) = servers if host.subagent.listed else [servers]
        ((name, server),) = server.items()
        assert name == "hub-research"
        assert body.strip()
    assert found["name"] == "research"
    assert found["description"]
    assert server == entry
    assert starts_connect(server)
    assert server["args"] == ["connect", "--profile", "research", "--host", host.id]


def test_these_hosts_have_subagents_with_servers_of_their_own():
    assert [host.id for host in ABLE] == ["claude-code", "copilot", "codex"]
