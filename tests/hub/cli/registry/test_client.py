"""What a registry may answer, and what is said when it does not."""

import json

import pytest
import trio

from config.registry.server_json import RegistryPage
from hub.cli.registry.client import MAX_BODY_BYTES, MAX_PAGES, Client, Registry, RegistryFailed
from tests.support.http_peer import HttpPeer, http_peer
from tests.support.registry_entries import EXAMPLES
from tests.support.registry_server import Answer, RegistryServer, registry_server
from upstreams.fetch.fetcher import Fetcher

NAME = "io.github.example/filesystem"
LATEST = "/v0.1/servers/io.github.example%2Ffilesystem/versions/latest"


@pytest.fixture
def recorded():
    with registry_server() as found:
        found.add(EXAMPLES["filesystem"])
        yield found


def client_of(recorded: RegistryServer, **more):
    return Client(Fetcher({}, max_body_bytes=MAX_BODY_BYTES, **more)), Registry("acme", recorded.url, {"X-Key": "k"})


async def test_a_server_by_its_name(recorded):
    client, registry = client_of(recorded)
    found = await client.version(registry, NAME, "latest")
    assert found is not None
    assert (found.server.version, found.published, found.status) == ("1.0.2", "2026-03-02", "active")
    assert await client.version(registry, NAME, "9.9.9") is None
    assert await client.version(registry, "io.github.example/other", "latest") is None
    assert {headers["x-key"] for headers in recorded.headers} == {"k"}


@pytest.mark.covers("ER-7")
async def test_pages_have_an_end(recorded):
    recorded.page = 1
    for number in range(MAX_PAGES + 2):
        recorded.add({"name": f"a/files{number}", "version": "1.0.0", "description": ""})
    client, registry = client_of(recorded)
    found = await client.search(registry, "files")
    assert (len(found.servers), bool(found.next_cursor)) == (MAX_PAGES, True)
    assert len(recorded.asked) == MAX_PAGES
    recorded.page = 3
    found = await client.search(registry, "files")
    assert (len(found.servers), bool(found.next_cursor)) == (MAX_PAGES + 3, False)


async def test_a_cursor_that_does_not_move_is_the_end(recorded):
    page = {"servers": [{"server": {}}], "metadata": {"nextCursor": "x"}}
    recorded.faults["/v0.1/servers"] = Answer(body=json.dumps(page).encode())
    client, registry = client_of(recorded)
    assert await client.search(registry, "files") == RegistryPage((), 2, "")
    assert len(recorded.asked) == 2


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (Answer(429, headers={"Retry-After": "30"}), "asked too often (status 429); try again in 30 s"),
        (Answer(429, headers={"Retry-After": "\x07soon"}), "asked too often (status 429); try again later"),
        (Answer(401), "it refuses access (status 401); say who you are with `headers` of the registry"),
        (Answer(403), "it refuses access (status 403)"),
        (Answer(500), "it answers with status 500"),
        (Answer(204, b""), "it answers with status 204"),
        (Answer(200, b"<html>"), "its answer is no JSON object"),
        (Answer(200, b"[]"), "its answer is no JSON object"),
        (Answer(200, b'{"a":1,"a":2}'), "its answer is no JSON object"),
        (Answer(200, b"[" * 100_000), "its answer is no JSON object"),
        (Answer(200, b" " * (MAX_BODY_BYTES + 1)), "sends more than an answer may have"),
        (Answer(302, headers={"Location": "https://evil.example/"}), "it sends on to another host"),
        (Answer(302, headers={"Location": "//evil.example/"}), "it sends on to another host"),
        (Answer(302, headers={"Location": "http://127.0.0.1:1/"}), "it sends on to another host"),
        (Answer(302, headers={"Location": "http://[x/"}), "it sends on to something that is no address"),
        (Answer(302), "it sends on again and again"),
        (Answer(302, headers={"Location": LATEST}), "it sends on again and again"),
    ],
)
@pytest.mark.covers("ER-7")
async def test_what_is_said_when_it_does_not_answer(recorded, answer, said):
    recorded.faults[LATEST] = answer
    client, registry = client_of(recorded)
    with pytest.raises(RegistryFailed) as raised:
        await client.version(registry, NAME, "latest")
    assert said in str(raised.value)
    assert str(raised.value).startswith("cannot reach registry acme: ")
    assert raised.value.advice == "; `hubd add NAME -- COMMAND` works without it"


async def test_it_may_send_on_to_another_place_of_its_own(recorded):
    recorded.faults[LATEST] = Answer(308, headers={"Location": LATEST.replace("latest", "1.0.2")})
    client, registry = client_of(recorded)
    found = await client.version(registry, NAME, "latest")
    assert found is not None


async def test_an_answer_of_several_megabytes_is_read(recorded):
    recorded.add({**EXAMPLES["filesystem"], "version": "2.0.0", "_meta": {"x": "y" * 4_000_000}})
    client, registry = client_of(recorded)
    found = await client.version(registry, NAME, "latest")
    assert found is not None
    assert found.server.version == "2.0.0"


@pytest.mark.parametrize(
    "server",
    [{**EXAMPLES["filesystem"], "name": "io.github.example/other"}, {**EXAMPLES["filesystem"], "version": "9.0.0"}],
)
async def test_the_answer_is_of_the_server_that_was_asked_for(recorded, server):
    path = LATEST.replace("latest", "1.0.2")
    recorded.faults[path] = Answer(body=json.dumps({"server": server}).encode())
    client, registry = client_of(recorded)
    with pytest.raises(RegistryFailed, match="answers with another server"):
        await client.version(registry, NAME, "1.0.2")


async def test_what_cannot_be_read_is_not_used(recorded):
    recorded.faults[LATEST] = Answer(body=json.dumps({"server": {"name": NAME, "version": "^1"}}).encode())
    client, registry = client_of(recorded)
    with pytest.raises(RegistryFailed, match="cannot be used: it names no single version"):
        await client.version(registry, NAME, "latest")


async def test_nothing_there(recorded):
    client, registry = client_of(recorded)
    gone = Registry("acme", "http://127.0.0.1:1")
    with pytest.raises(RegistryFailed, match=r"cannot reach registry acme: http://127.0.0.1:1 cannot be reached"):
        await client.version(gone, NAME, "latest")
    assert registry.allowed.loopback_http


async def test_one_that_is_slow():
    async def hang(request, talk) -> None:
        await trio.sleep_forever()

    async with http_peer(hang) as peer:
        assert isinstance(peer, HttpPeer)
        client = Client(Fetcher({}, timeout_s=0.2))
        for _ in range(2):
            with pytest.raises(RegistryFailed, match="does not answer within"):
                await client.version(Registry("acme", peer.url.removesuffix("/mcp")), NAME, "latest")
        assert (len(peer.requests), client.asked) == (1, [])


@pytest.mark.parametrize(
    ("url", "addresses", "said"),
    [
        ("https://x.example/", ["10.0.0.1"], "its address is private"),
        ("https://x.example/", ["93.184.216.34", "169.254.169.254"], "link-local"),
        ("https://x.example/", ["::ffff:127.0.0.1"], "its address is private"),
        ("http://x.example/", ["93.184.216.34"], "it is not https://"),
        ("https://x.example/", OSError("no"), "cannot be reached"),
        ("https://u:p@x.example/", [], "user name"),
    ],
)
@pytest.mark.covers("ER-7")
async def test_an_address_of_an_answer_is_judged(url, addresses, said):
    async def resolve(host, port):
        await trio.lowlevel.checkpoint()
        if isinstance(addresses, OSError):
            raise addresses
        return addresses

    client = Client(Fetcher({}, resolve=resolve))
    with pytest.raises(RegistryFailed, match=said):
        await client.judge(Registry("acme", "https://acme.example"), url)


async def test_an_address_of_everybody_is_taken_and_that_of_the_registry_itself():
    async def resolve(host, port):
        await trio.lowlevel.checkpoint()
        return ["10.0.0.1" if host == "acme.example" else "93.184.216.34"]

    client = Client(Fetcher({}, resolve=resolve))
    registry = Registry("acme", "https://acme.example")
    await client.judge(registry, "https://x.example/")
    await client.judge(registry, "https://acme.example/")
    behind = Client(Fetcher({"HTTPS_PROXY": "http://proxy.example:3128"}, resolve=resolve))
    await behind.judge(registry, "https://x.example/")
    with pytest.raises(RegistryFailed, match="private"):
        await behind.judge(registry, "https://x.internal/")


async def test_versions_of_a_server(recorded):
    recorded.add({**EXAMPLES["filesystem"], "version": "2.0.0"}, status="deleted", statusMessage="broken")
    client, registry = client_of(recorded)
    found = await client.versions(registry, NAME)
    assert [(each.server.version, each.status, each.is_latest) for each in found] == [
        ("2.0.0", "deleted", False),
        ("1.0.2", "active", True),
    ]
    assert await client.versions(registry, "a/b") == []


def test_headers_are_no_part_of_a_repr():
    assert repr(Registry("acme", "https://x.example", {"Authorization": "secret"})) == "<Registry acme>"
