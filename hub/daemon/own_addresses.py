"""The addresses at which a listener of the hub is met: nothing is fetched from there."""

import socket
from typing import Final

ANYWHERE: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}


def is_met_at(listener: tuple[str, int], address: str, port: int) -> bool:
    """True if whoever connects to `address` and `port` meets the listener: another program may have the port at another
    address."""
    host, own_port = listener
    address = ANYWHERE.get(address, address)
    if port != own_port:
        return False
    if host == "::" or (host == "0.0.0.0" and ":" not in address):
        return _is_of_this_machine(address)
    return address == host


def _is_of_this_machine(address: str) -> bool:
    """True if this machine has that address, so that a listener at all of them is met there."""
    try:
        with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.bind((address, 0))
    except OSError:
        return False
    return True
