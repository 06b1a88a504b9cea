"""The usual address is taken: the hub takes another port, and keeps it."""

import socket
from types import SimpleNamespace

import pytest
import trio

import hub.daemon.bind_http
from config.hub_paths import state_path, token_path
from config.remembered_facts import Memory
from config.settings import HubConfig
from hub.app import Hub
from hub.daemon.assemble_sign_ins import SignInParts
from hub.daemon.bind_http import Bound, CannotListen, bind, is_met_at, listen_tcp
from hub.daemon.http_listener import HttpListener
from hub.downstream.access.token_files import read_or_make_token
from hub.downstream.http.durable_sessions import DurableSessions
from hub.link.sealing import Sealer, Signer
from tests.support.http_client import Client
from tests.support.processes import free_port


class Usual:
    """A usual address of these tests, and hubs that start there one after the other."""

    def __init__(self):
        self.port = free_port()
        self.address = f"127.0.0.1:{self.port}"

    def taken(self):
        return listen_tcp(self.address)

    def ports(self, listen=None):
        """The ports of a hub that starts now, and ends."""
        bound = bind(HubConfig(listen=listen or self.address), Memory(state_path()))
        found = [each.getsockname()[1] for each in (bound.tcp, bound.also) if each is not None]
        for each in (bound.tcp, bound.also):
            if each is not None:
                each.close()
        return found


@pytest.fixture
def usual(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    usual = Usual()
    monkeypatch.setattr(hub.daemon.bind_http, "DEFAULT_LISTEN", usual.address)
    return usual


def test_the_port_that_was_taken_instead_is_kept_beside_the_usual_one(usual, caplog):
    assert usual.ports() == [usual.port]
    with usual.taken():
        [other] = usual.ports()
        assert other != usual.port
        assert f"Taking port {other}, now and at later starts" in caplog.text
        assert usual.ports() == [other]
    assert usual.ports() == [usual.port, other], "hosts may have either URL"
    with usual.taken():
        assert usual.ports() == [other]
    assert usual.ports(listen="127.0.0.1:0")[1:] == [], "another setting has nothing to do with it"


def test_a_kept_port_that_is_taken_is_given_up_only_if_it_must_be(usual, monkeypatch, caplog):
    with usual.taken():
        [other] = usual.ports()
    before = read_or_make_token(token_path())
    with listen_tcp(f"127.0.0.1:{other}"):
        assert usual.ports() == [usual.port]
        assert "hosts that have the URL of that port do not reach the hub" in caplog.text
        assert read_or_make_token(token_path()) == before, "it is a program of this user"
        monkeypatch.setattr(hub.daemon.bind_http, "is_held_by_another_user", lambda port: port == other)
        assert usual.ports() == [usual.port]
        assert read_or_make_token(token_path()) != before
    assert usual.ports() == [usual.port, other]
    with usual.taken(), listen_tcp(f"127.0.0.1:{other}"):
        [third] = usual.ports()
    assert third not in (usual.port, other)
    assert usual.ports() == [usual.port, third]


@pytest.mark.parametrize("value", ["8766", 80, 65536, -1, None, True, 8766.0, [], 10**30])
def test_what_is_no_port_is_not_kept(usual, value):
    memory = Memory(state_path())
    memory.put(hub.daemon.bind_http.SECTION, usual.address, value)
    memory.save()
    assert usual.ports() == [usual.port]


def test_an_address_that_somebody_chose_is_not_replaced():
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(CannotListen):
        bind(HubConfig(listen=f"127.0.0.1:{taken.getsockname()[1]}"), Memory(None))


async def test_hosts_are_served_at_both(nursery, usual):
    config = HubConfig(listen=usual.address)
    also = listen_tcp("127.0.0.1:0")
    durable = DurableSessions(Signer(b"k" * 32), Memory(None), lambda: 1e9)
    listener = HttpListener(Hub(config, Memory(None), Sealer(b"k" * 32)), Bound(usual.taken(), also), durable)
    await nursery.start(listener.run)
    assert (listener.displaced, listener.status().also) == (None, f"http://127.0.0.1:{also.getsockname()[1]}/mcp")
    for port in (usual.port, also.getsockname()[1]):
        client = Client(await trio.open_tcp_stream("127.0.0.1", port))
        lines = ["GET /livez HTTP/1.1", f"Host: localhost:{port}", "", ""]
        assert (await client.ask("\r\n".join(lines).encode())).status == 200
        await client.stream.aclose()
    nursery.cancel_scope.cancel()


def test_a_listener_is_met_where_it_listens():
    assert is_met_at(("127.0.0.1", 8443), "127.0.0.1", 8443)
    assert not is_met_at(("127.0.0.1", 8443), "127.0.0.2", 8443)


def parts(host: str, opened: tuple[tuple[str, int], ...] = ()) -> SignInParts:
    found = SignInParts.__new__(SignInParts)
    found._listener = SimpleNamespace(address=(host, 8443))
    listeners = SimpleNamespace(is_open=lambda address, port: (address, port) in opened)
    found.__dict__["sign_ins"] = SimpleNamespace(addresses=SimpleNamespace(listeners=listeners))
    return found


@pytest.mark.parametrize(
    ("host", "address", "port", "own"),
    [
        ("127.0.0.1", "127.0.0.1", 8443, True),
        ("127.0.0.1", "127.0.0.1", 8444, False),
        ("127.0.0.1", "127.0.0.2", 8443, False),
        ("127.0.0.1", "203.0.113.7", 8443, False),
        ("127.0.0.1", "0.0.0.0", 8443, True),
        ("0.0.0.0", "127.0.0.1", 8443, True),
        ("0.0.0.0", "127.0.0.9", 8443, True),
        ("0.0.0.0", "203.0.113.7", 8443, False),
        ("0.0.0.0", "::1", 8443, False),
        ("::", "127.0.0.1", 8443, True),
        ("::", "203.0.113.7", 8443, False),
        ("::", "127.0.0.1", 8444, False),
    ],
)
def test_what_is_the_hub_itself(host, address, port, own):
    assert parts(host)._is_own(address, port) is own


def test_listeners_for_browsers_are_the_hub_too():
    found = parts("127.0.0.1", (("127.0.0.1", 4000),))
    assert found._is_own("127.0.0.1", 4000)
    assert not found._is_own("127.0.0.2", 4000)
