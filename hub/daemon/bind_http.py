"""Bind the address of the HTTP listener: the configured one, or another, kept from then on, if that is taken and nobody
chose it.

The other port is kept: hosts that have its URL find the hub there at every later start, too, beside the usual address
once that is free again. Another user who holds an address that hosts know may have seen their token: it is replaced.

From the address follows where a listener of the hub is met: nothing is fetched from there.
"""

import logging
import os
import socket
from typing import Final, NamedTuple

from config.hub_paths import metrics_token_path, token_path
from config.loading.parse_addresses import split_listen
from config.remembered_facts import Memory
from config.settings import DEFAULT_LISTEN, HubConfig
from hub.downstream.access.token_files import replace_token
from hub.linux.socket_tables import is_held_by_another_user

log = logging.getLogger("hubd")

BACKLOG: Final = 4096
"""Or the system's limit: a crowd that connects at once must not be turned away unseen."""
SECTION: Final = "kept_port"
"""The section of the memory that has the other port, by the address that was taken."""
NEAR: Final = 32
"""Ports above the usual one that are tried before any other: the kernel gives those to nobody else."""


class CannotListen(Exception):
    """The configured address cannot be bound. The text says which and why."""


class Bound(NamedTuple):
    """The sockets of the HTTP listener."""

    tcp: socket.socket
    also: socket.socket | None = None
    """The kept port, while the hub has the usual address, too."""
    squatted: bool = False
    """Another user of this machine holds the usual address."""
    is_given: bool = False
    """The service manager has handed over the socket, and so says where it is."""


def bind(config: HubConfig, memory: Memory) -> Bound:
    """Listen at `config.listen`; if that is the usual address, also, or if it is taken only, at the port that was kept.

    Where another user holds an address that hosts know, the token is replaced, since they may have shown it there.
    Raises CannotListen: the address cannot be bound."""
    is_usual = config.listen == DEFAULT_LISTEN
    kept = _bind_earlier_port(config, memory) if is_usual else None
    try:
        return Bound(listen_tcp(config.listen), also=kept)
    except CannotListen as error:
        squatted = _distrust_if_squatted(config, config.listen)
        if not is_usual:
            raise
        if kept is None:
            kept = _another(config.listen)
            memory.put(SECTION, config.listen, kept.getsockname()[1])
            memory.save()
        port = kept.getsockname()[1]
        log.warning("%s. Taking port %d, now and at later starts; name one with `listen` in hubd.toml", error, port)
        return Bound(kept, squatted=squatted)


def _bind_earlier_port(config: HubConfig, memory: Memory) -> socket.socket | None:
    """A listener at the port that was taken in an earlier run; None: there was none, or it is taken now."""
    port = memory.get(SECTION, config.listen)
    if not isinstance(port, int) or not 1024 <= port < 65536:
        return None
    address = _beside(config.listen, port)
    try:
        return listen_tcp(address)
    except CannotListen as error:
        log.warning("%s: hosts that have the URL of that port do not reach the hub", error)
        _distrust_if_squatted(config, address)
        return None


def _another(taken: str) -> socket.socket:
    """A listener at a free port, near the one that is taken if possible. CannotListen: there is none."""
    first = split_listen(taken)[1] + 1
    for port in range(first, min(first + NEAR, 65536)):
        try:
            return listen_tcp(_beside(taken, port))
        except CannotListen:
            continue
    return listen_tcp(_beside(taken, 0))


def spell(host: str, port: int) -> str:
    """An address as URLs and settings have it."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _beside(address: str, port: int) -> str:
    return f"{address.rpartition(':')[0]}:{port}"


def _distrust_if_squatted(config: HubConfig, address: str) -> bool:
    """True if hosts that reach the hub by this address would show their token to another user; it is replaced then."""
    if config.auth == "none" or not is_held_by_another_user(split_listen(address)[1]):
        return False
    text = f"another user of this machine may hold {address}, where hosts show the hub's token"
    if config.token is not None:
        log.error("%s; replace `token` in the configuration, and in hosts, once that has ended", text)
        return True
    try:
        replace_token(token_path())
        replace_token(metrics_token_path())
    except OSError as error:
        log.error("%s, and it cannot be replaced (%s): delete %s", text, error.strerror, token_path())
    else:
        log.warning("%s: it was replaced. Once that has ended, run `hubd install` for hosts that have the URL", text)
    return True


def listen_tcp(address: str) -> socket.socket:
    """A listener at `address`. Raises: CannotListen, if the address cannot be bound."""
    host, port = split_listen(address)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(BACKLOG)
        listener.setblocking(False)
    except OSError as error:
        listener.close()
        text = "stop what uses it, or choose another with --listen HOST:PORT (port 0: any free one)"
        raise CannotListen(f"cannot listen on {address}: {os.strerror(error.errno or 0)}; {text}") from None
    return listener


ANYWHERE: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}


def is_met_at(listener: tuple[str, int], address: str, port: int) -> bool:
    """True if whoever connects to `address` and `port` meets the listener: another program may have the port at another
    address."""
    host, own_port = listener
    address = ANYWHERE.get(address, address)
    if port != own_port:
        return False
    if host != "::" and (host != "0.0.0.0" or ":" in address):
        return address == host
    try:  # if this machine has that address, a listener at all of them is met there
        with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.bind((address, 0))
    except OSError:
        return False
    return True
