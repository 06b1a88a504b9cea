"""The proxy that a request goes through, by the environment: `HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY`, `NO_PROXY`.
Pure.

As curl and others read them, in either case (the lower one first), empty as if unset. Loopback never goes through one.
"""

import base64
from collections.abc import Mapping
from ipaddress import IPv4Address, IPv6Address, ip_network
from typing import Final
from urllib.parse import unquote_to_bytes, urlsplit

from msgspec import Struct

from upstreams.fetch.guard import is_this_machine, literal

MAX_VARIABLE: Final = 64 << 10
_PORTS: Final = {"http": 80, "https": 443}


class ProxyUnusable(ValueError):
    """A variable does not name a proxy that can be used; the text names the variable, not its value."""


class Proxy(Struct, frozen=True, repr_omit_defaults=True):
    """One HTTP proxy."""

    secure: bool
    """TLS is spoken with the proxy itself."""
    host: str
    port: int
    authorization: bytes = b""
    """The value of `Proxy-Authorization`; empty: the proxy asks for none."""

    def __repr__(self) -> str:
        return f"Proxy({self.authority})"

    @property
    def authority(self) -> str:
        """Host and port, as people write them: all that is told of a proxy."""
        return authority(self.host, self.port)


def authority(host: str, port: int) -> str:
    """`host` and `port` as the target of CONNECT has them."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def proxy_for(environ: Mapping[str, str], secure: bool, host: str, port: int) -> Proxy | None:
    """The proxy for https (`secure`) or http requests to `host` (no brackets); None: they go straight there. Raises
    ProxyUnusable: the variable that counts holds no URL of an HTTP proxy."""
    host = host.lower().removesuffix(".")
    if is_this_machine(host):
        return None
    for name in ("https_proxy" if secure else "http_proxy", "all_proxy"):
        for variable in (name, name.upper()):
            if value := environ.get(variable, "").strip():
                direct = environ.get("no_proxy", "") or environ.get("NO_PROXY", "")
                return None if is_direct(direct, host, port) else parse_proxy(value, variable)
    return None


def is_direct(no_proxy: str, host: str, port: int) -> bool:
    """True if `no_proxy` (the value of the variable) exempts `host` at `port`.

    Entries are separated by commas or spaces: `*`, a name (with all below it, a leading dot or `*.` means the same), an
    address, a network in CIDR form, each but the last with a `:port` if it is meant for that port alone.
    """
    address = literal(host)
    for entry in no_proxy[:MAX_VARIABLE].lower().replace(",", " ").split():
        if entry == "*":
            return True
        if "/" in entry:
            if address is not None and _in_network(entry, address):
                return True
            continue
        name, wanted = _entry(entry)
        if wanted not in ("", str(port)) or not name:
            continue
        if address is not None:
            if literal(name) == address:
                return True
        elif host == name or host.endswith("." + name):
            return True
    return False


def _entry(entry: str) -> tuple[str, str]:
    """An entry as its name or address, and its port ("" if it has none)."""
    if entry.startswith("["):
        name, _, rest = entry[1:].partition("]")
        return name, rest.removeprefix(":")
    if entry.count(":") > 1:
        return entry, ""
    name, _, port = entry.partition(":")
    return name.removeprefix("*").lstrip(".").removesuffix("."), port


def _in_network(entry: str, address: IPv4Address | IPv6Address) -> bool:
    try:
        return address in ip_network(entry, strict=False)
    except ValueError:
        return False


def parse_proxy(value: str, variable: str) -> Proxy:
    """The proxy that a variable names: a URL, or host and port alone. Raises ProxyUnusable: it is neither, or not one
    for HTTP."""
    value = value if "://" in value else f"http://{value}"
    if (scheme := value.partition("://")[0].lower()) not in _PORTS:
        text = f"{variable} names a proxy of another kind than http:// or https://, which are those that hubd can use"
        raise ProxyUnusable(text)
    try:
        parts = urlsplit(value)
        host, port = (parts.hostname or "").removesuffix("."), parts.port
        if not host.isascii():
            host = host.encode("idna").decode("ascii")
        if not host or any(letter.isspace() or not letter.isprintable() for letter in host):
            raise ValueError
        known = b":".join(unquote_to_bytes(each) for each in (parts.username or "", parts.password or ""))
    except ValueError:
        raise ProxyUnusable(f"{variable} is not the URL of a proxy, such as http://proxy.example:3128") from None
    authorization = b"Basic " + base64.b64encode(known) if parts.username is not None else b""
    return Proxy(scheme == "https", host, port or _PORTS[scheme], authorization)
