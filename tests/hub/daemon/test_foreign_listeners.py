"""Another user of the machine at the hub's address: hosts show their token there, so it must be worth nothing."""

import os
import socket

import pytest
import trio

import hub.daemon.bind_http
from config.hub_paths import token_path
from config.remembered_facts import Memory
from config.setting_declarations import Secret
from config.settings import DEFAULT_LISTEN, HubConfig
from hub.app import Hub
from hub.daemon.bind_http import Bound, CannotListen, bind, listen_tcp
from hub.daemon.http_listener import HttpListener
from hub.downstream.access.token_files import read_or_make_token
from hub.downstream.http.durable_sessions import DurableSessions
from hub.link.sealing import Sealer, Signer
from hub.linux.socket_tables import is_held_by_another_user
from tests.support.http_client import Client

ANOTHER = os.geteuid() + 1
PING = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'
pytestmark = pytest.mark.covers("SEC-02")


@pytest.fixture(autouse=True)
def own_directories(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))


@pytest.fixture
def taken():
    """A port of 127.0.0.1 that a socket of this process listens at."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


@pytest.fixture
def held_by_another(monkeypatch):
    """Sockets of this process belong to another user, as far as the hub knows."""
    monkeypatch.setattr(
        hub.daemon.bind_http, "is_held_by_another_user", lambda port: is_held_by_another_user(port, uid=ANOTHER)
    )


def test_whose_socket_it_is(taken):
    assert not is_held_by_another_user(taken)
    assert is_held_by_another_user(taken, uid=ANOTHER)


@pytest.mark.skipif(not socket.has_ipv6, reason="there is no IPv6")
def test_a_socket_of_the_other_family():
    with socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True) as listener:
        assert not is_held_by_another_user(listener.getsockname()[1])


def test_a_holder_that_nobody_can_name_counts_as_another(taken, tmp_path):
    assert is_held_by_another_user(taken, tables=(tmp_path / "none",))
    bound = socket.socket()
    bound.bind(("127.0.0.1", 0))
    with bound:
        assert is_held_by_another_user(bound.getsockname()[1]), "it listens nowhere yet"


def test_the_token_is_replaced_when_another_user_is_at_the_usual_address(monkeypatch, taken, held_by_another):
    monkeypatch.setattr(hub.daemon.bind_http, "DEFAULT_LISTEN", f"127.0.0.1:{taken}")
    before = read_or_make_token(token_path())
    bound = bind(HubConfig(listen=f"127.0.0.1:{taken}"), Memory(None))
    with bound.tcp:
        assert bound.squatted
        assert bound.tcp.getsockname()[1] != taken
    assert read_or_make_token(token_path()) != before


def test_the_token_stays_when_it_is_a_hub_of_ours(monkeypatch, taken):
    monkeypatch.setattr(hub.daemon.bind_http, "DEFAULT_LISTEN", f"127.0.0.1:{taken}")
    before = read_or_make_token(token_path())
    bound = bind(HubConfig(listen=f"127.0.0.1:{taken}"), Memory(None))
    with bound.tcp:
        assert not bound.squatted
    assert read_or_make_token(token_path()) == before


def test_the_token_is_replaced_when_the_hub_cannot_start_for_it(taken, held_by_another):
    before = read_or_make_token(token_path())
    with pytest.raises(CannotListen):
        bind(HubConfig(listen=f"127.0.0.1:{taken}"), Memory(None))
    assert read_or_make_token(token_path()) != before


def test_a_configured_token_is_the_users_to_replace(taken, held_by_another, caplog):
    with pytest.raises(CannotListen):
        bind(HubConfig(listen=f"127.0.0.1:{taken}", token=Secret("0123456789abcdef")), Memory(None))
    assert "replace `token` in the configuration" in caplog.text
    assert not token_path().exists()


async def status_of(listener, token):
    client = Client(await trio.open_tcp_stream(*listener.address))
    host = f"localhost:{listener.address[1]}"
    lines = ["POST /mcp HTTP/1.1", f"Host: {host}", f"Authorization: Bearer {token}", "Content-Type: application/json"]
    answer = await client.ask("\r\n".join([*lines, f"Content-Length: {len(PING)}", "", ""]).encode() + PING)
    await client.stream.aclose()
    return answer.status


async def test_nobody_is_let_in_until_the_hub_has_an_address_of_its_own(nursery):
    config = HubConfig(listen=DEFAULT_LISTEN)
    hub = Hub(config, Memory(None), Sealer(b"k" * 32))
    durable = DurableSessions(Signer(b"k" * 32), Memory(None), lambda: 1e9)
    listener = HttpListener(hub, Bound(listen_tcp("127.0.0.1:0"), squatted=True), durable)
    await nursery.start(listener.run)
    token = read_or_make_token(token_path())
    assert await status_of(listener, token) == 401
    same = HubConfig(listen=DEFAULT_LISTEN, allowed_hosts=("hub.example.com",))
    await listener.apply(same, listener.prepare(same))
    assert await status_of(listener, token) == 401, "another setting changes nothing about the address"
    moved = HubConfig(listen="127.0.0.1:0")
    await listener.apply(moved, listener.prepare(moved))
    assert await status_of(listener, token) != 401
    assert not listener.squatted
