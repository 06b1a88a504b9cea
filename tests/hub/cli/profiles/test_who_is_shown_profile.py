"""How hosts come to be shown a profile: what is said of each way in."""

from pathlib import Path

import pytest

from config.security_settings import AccessToken
from hub.cli.profiles.who_is_shown_profile import MAX_SAID, HostWays, WrittenEntry, arrivals, entry_of
from hub.control.answers import HostRow, Status

pytestmark = pytest.mark.covers("EP-10")

FILE = Path("/home/me/hosts.json")


def host(label="", profile=None, name="x", endpoint="/mcp"):
    return HostRow(host=name, label=label, profile=profile, endpoint=endpoint)


def said(label, *hosts, entries=(), tokens=(), changed=True):
    ways = HostWays({label: tuple(entries)}, tuple(tokens))
    return arrivals("mine", [label], Status(hosts=hosts), ways, changed=changed)


def test_a_host_that_is_shown_it_needs_nothing():
    assert said("windsurf", host("windsurf", "mine")) == []
    assert said("windsurf", host("windsurf", "mine"), entries=[WrittenEntry(FILE, "windsurf", "other")]) == []


def test_a_host_that_never_asks_again_is_restarted_after_a_change():
    assert said("codex", host("codex", "mine")) == ["restart Codex: it asks for its tools only when it starts"]
    assert said("codex", host("codex", "mine"), changed=False) == []
    status = Status(hosts=(host("codex", "default"), host("codex", "default"), host("cursor", "default")))
    (found,) = arrivals("default", [], status, HostWays())
    assert found.startswith("restart Codex")


@pytest.mark.parametrize(
    ("row", "text"),
    [
        (host("windsurf", "other", endpoint="/mcp/~other"), "Windsurf is shown the profile other all the same"),
        (host("windsurf", endpoint="/mcp/files"), "Windsurf has opened /mcp/files, one server alone"),
        (host("", name="Windsurf"), "Windsurf is attached and has no label, so it is not shown mine"),
        (host("laptop", name="Windsurf"), "Windsurf is attached and has the label laptop, so it is not shown mine"),
    ],
)
def test_an_attached_host_that_is_shown_something_else(row, text):
    (found,) = said("windsurf", row)
    assert found.startswith(text)


def test_a_host_in_a_project_is_shown_it_too():
    assert said("windsurf", host("windsurf", "mine", endpoint="/mcp/@shop-1f3a5c07~mine")) == []


@pytest.mark.parametrize(
    ("entry", "text"),
    [
        (
            WrittenEntry(FILE, "windsurf"),
            "Windsurf is not attached now; it will be shown the profile mine when it starts",
        ),
        (
            WrittenEntry(FILE, profile="mine"),
            "Windsurf is not attached now; it will be shown the profile mine when it starts",
        ),
        (
            WrittenEntry(FILE, profile="mine", opens_url=True),
            "Windsurf is not attached now; it will be shown the profile mine when it starts",
        ),
        (WrittenEntry(FILE, "windsurf", "other"), "names that by `--profile other`"),
        (WrittenEntry(FILE, profile="other", opens_url=True), "names that by its URL, /mcp/~other"),
        (WrittenEntry(FILE, "windsurf", server="files"), "is for one server, and no profile chooses from that"),
        (WrittenEntry(FILE, opens_url=True), "end it with /mcp/~mine, or run `hubd install windsurf`"),
        (WrittenEntry(FILE, "other"), "has the label other: `hubd install windsurf`"),
        (WrittenEntry(FILE), "has no label: `hubd install windsurf`"),
    ],
)
def test_a_host_that_is_away_by_its_entry(entry, text):
    (found,) = said("windsurf", entries=[entry])
    assert text in found


def test_a_host_without_the_hub_and_one_that_nobody_knows():
    assert "Windsurf does not have the hub yet" in said("windsurf")[0]
    assert "`hubd connect --host agent`" in said("agent")[0]


def test_tokens_come_before_labels():
    (found,) = said("agent", tokens=[AccessToken(name="laptop", host="agent", profile="other")])
    assert "the token laptop opens the profile other and nothing else" in found
    (found,) = said("agent", tokens=[AccessToken(name="laptop", host="agent")])
    assert "with its token laptop it will be shown the profile mine when it comes" in found


def test_a_profile_without_labels():
    (found,) = arrivals("mine", [], Status(hosts=(host("cursor"), host("hubd"))), HostWays())
    assert "no host is shown it yet: list labels of hosts, such as cursor as `hosts`" in found
    (found,) = arrivals("mine", [], Status(hosts=(host("cursor", "mine"),)), HostWays())
    assert "it is shown to the attached host whose entry or token names it" in found
    assert arrivals("default", [], Status(), HostWays()) == []


def test_of_many_hosts_some_are_told():
    found = arrivals("mine", [f"h{number}" for number in range(900)], Status(), HostWays())
    assert len(found) == MAX_SAID + 1
    assert found[-1].startswith("and 894 more hosts")


@pytest.mark.parametrize(
    ("entry", "read"),
    [
        ({"command": "/x/hubd", "args": ["connect", "--host", "a"]}, WrittenEntry(FILE, "a")),
        ({"command": "hubd", "args": ["connect", "--host=a", "--profile=p"]}, WrittenEntry(FILE, "a", "p")),
        ({"command": ["hubd", "connect", "--upstream", "s", "--host"]}, WrittenEntry(FILE, server="s")),
        ({"url": "http://127.0.0.1:8765/mcp"}, WrittenEntry(FILE, opens_url=True)),
        ({"url": "http://[x/mcp/~p"}, WrittenEntry(FILE, opens_url=True)),
        ({"url": "http://127.0.0.1:8765/mcp/~p"}, WrittenEntry(FILE, profile="p", opens_url=True)),
        ({"serverUrl": "http://127.0.0.1:8765/mcp/files?x=1"}, WrittenEntry(FILE, server="files", opens_url=True)),
    ],
)
def test_entries_are_read(entry, read):
    assert entry_of(FILE, entry) == read
