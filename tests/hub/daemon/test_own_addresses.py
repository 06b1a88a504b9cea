"""Addresses at which the hub itself listens: nothing is fetched from there, and everything beside them is others'."""

from types import SimpleNamespace

import pytest

from hub.daemon.own_addresses import is_met_at
from hub.daemon.sign_in_parts import SignInParts


def test_a_listener_is_met_where_it_listens():
    assert is_met_at(("127.0.0.1", 8443), "127.0.0.1", 8443)
    assert not is_met_at(("127.0.0.1", 8443), "127.0.0.2", 8443)


def parts(host: str, opened: tuple[tuple[str, int], ...] = ()) -> SignInParts:
    found = SignInParts.__new__(SignInParts)
    found._listener = SimpleNamespace(address=(host, 8443))
    found.__dict__["sign_ins"] = SimpleNamespace(
        addresses=SimpleNamespace(is_open=lambda address, port: (address, port) in opened)
    )
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
