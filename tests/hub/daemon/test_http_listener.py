"""What hubs behind one balancer have in common by configuration: a token, a key, and what they call each other."""

import pytest
import trio

from config.diagnostics import ConfigError
from config.remembered_facts import Memory
from config.setting_declarations import Secret
from config.settings import CacheConfig, HubConfig, ReplicaConfig
from hub.app import Hub
from hub.daemon.bind_http import Bound, listen_tcp
from hub.daemon.http_listener import HttpListener, token_of
from hub.downstream.http.durable_sessions import DurableSessions
from hub.fleet.membership import Membership, Registration
from hub.fleet.route_to_owner import Fleet
from hub.fleet.session_ownership import PublishedFacts
from hub.link.sealing import Keys, Sealer, Signer, keys_from_setting
from tests.support.fleet_house import Facts
from tests.support.http_client import Client
from tests.support.processes import free_port

TOKEN = "0123456789abcdef"
KEY, OLD = "ab" * 32, "CD" * 32
PING = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'


@pytest.fixture(autouse=True)
def own_directories(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))


def test_the_key_of_the_configuration():
    assert keys_from_setting(Secret(KEY)) == Keys(bytes.fromhex(KEY))
    assert keys_from_setting(Secret(f" {KEY}  {OLD}\n")) == Keys(bytes.fromhex(KEY), bytes.fromhex(OLD))


@pytest.mark.parametrize("text", ["", "secret", KEY[:-2], KEY + "00", f"{KEY} {OLD} {KEY}", "x" * 64, "é" * 64])
def test_what_is_no_key_is_refused_without_showing_it(text):
    with pytest.raises(ConfigError, match="sealing_key") as error:
        keys_from_setting(Secret(text))
    assert not text or text not in str(error.value)


def test_the_token_of_the_configuration(tmp_path):
    assert token_of(HubConfig(token=Secret(TOKEN))) == TOKEN
    assert not list(tmp_path.rglob("token")), "none is made when one is given"
    assert token_of(HubConfig(token=Secret(TOKEN), auth="none")) is None
    assert token_of(HubConfig()) not in (None, TOKEN)
    with pytest.raises(ConfigError, match="token") as error:
        token_of(HubConfig(token=Secret("too short")))
    assert "too short" not in str(error.value)


def a_listener(config, directory=None, tcp=None):
    hub = Hub(config, Memory(None), Sealer(b"k" * 32))
    durable = DurableSessions(Signer(b"k" * 32), Memory(None), lambda: 1e9, config.replica.name)
    fleet = None
    if directory is not None:
        me = Registration(durable.run_id, config.replica.name or durable.run_id, "")
        fleet = Fleet(Membership(me, directory, durable.was_mine), PublishedFacts(directory))
    return HttpListener(hub, Bound(tcp or listen_tcp("127.0.0.1:0")), durable, fleet=fleet)


async def status_of(listener, host, token=TOKEN):
    client = Client(await trio.open_tcp_stream(*listener.address))
    lines = ["POST /mcp HTTP/1.1", f"Host: {host}", f"Authorization: Bearer {token}", "Content-Type: application/json"]
    answer = await client.ask("\r\n".join([*lines, f"Content-Length: {len(PING)}", "", ""]).encode() + PING)
    await client.stream.aclose()
    return answer.status


REACHED = 400
"""The answer to a request that is neither era's: it has been let in."""


@pytest.mark.parametrize(
    ("url", "names"),
    [
        ("http://10.0.0.5:8765", {"10.0.0.5:8765"}),
        ("http://hub-a.internal", {"hub-a.internal", "hub-a.internal:80"}),
        ("https://hub-a.internal", {"hub-a.internal", "hub-a.internal:443"}),
        ("http://[fd00::5]:8765", {"[fd00::5]:8765"}),
    ],
)
async def test_a_hub_answers_to_what_others_call_it(nursery, url, names):
    config = HubConfig(token=Secret(TOKEN), replica=ReplicaConfig(name="a", url=url))
    listener = a_listener(config, Facts())
    await nursery.start(listener.run)
    assert listener.membership.status().url == url
    for name in names:
        assert await status_of(listener, name) == REACHED
    assert await status_of(listener, "elsewhere:8765") == 403
    nursery.cancel_scope.cancel()


async def test_a_hub_alone_answers_to_no_such_name(nursery):
    config = HubConfig(token=Secret(TOKEN), replica=ReplicaConfig(name="a", url="http://10.0.0.5:8765"))
    listener = a_listener(config)
    await nursery.start(listener.run)
    assert listener.membership is None
    assert await status_of(listener, "10.0.0.5:8765") == 403
    nursery.cancel_scope.cancel()


async def test_where_others_reach_it_unless_it_is_said(nursery, caplog):
    with listen_tcp("127.0.0.1:0") as tcp:
        listener = a_listener(HubConfig(token=Secret(TOKEN)), Facts(), tcp)
    assert listener.membership.me.url == f"http://127.0.0.1:{listener.address[1]}"
    assert listener.membership.me.name == listener.membership.me.run
    assert "[replica] url" not in caplog.text
    with listen_tcp("0.0.0.0:0") as tcp:
        everywhere = a_listener(HubConfig(token=Secret(TOKEN)), Facts(), tcp)
    assert everywhere.membership.me.url == ""
    assert "[replica] url" in caplog.text


async def test_another_token_acts_at_once_and_another_name_at_the_next_start(nursery):
    config = HubConfig(token=Secret(TOKEN), sealing_key=Secret(KEY), replica=ReplicaConfig(name="a"))
    listener = a_listener(config, Facts())
    await nursery.start(listener.run)
    host = f"localhost:{listener.address[1]}"
    assert await status_of(listener, host) == REACHED
    other = HubConfig(token=Secret(TOKEN[::-1]), sealing_key=Secret(OLD), replica=ReplicaConfig(name="b"))
    await listener.apply(other, listener.prepare(other))
    assert [await status_of(listener, host), await status_of(listener, host, TOKEN[::-1])] == [401, REACHED]
    assert listener.membership.me.name == "a"
    nursery.cancel_scope.cancel()


async def test_a_hub_that_moves_is_found_where_it_went(nursery):
    port = free_port()
    config = HubConfig(token=Secret(TOKEN), listen="127.0.0.1:0", cache=CacheConfig())
    facts = Facts()
    listener = a_listener(config, facts)
    await nursery.start(listener.run)
    moved = HubConfig(token=Secret(TOKEN), listen=f"127.0.0.1:{port}")
    await listener.apply(moved, listener.prepare(moved))
    await listener.membership.renew()
    assert str(port).encode() in facts.values[f"replica/{listener.membership.me.run}"][0]
    with trio.move_on_after(5):
        await listener.drain()
    assert f"replica/{listener.membership.me.run}" not in facts.values
    nursery.cancel_scope.cancel()
