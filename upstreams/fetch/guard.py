"""The guard: which URLs are asked, and at which addresses. Pure.

A name is judged by the addresses that it has, never by how it is written; behind a proxy, which looks names up itself,
the text is all there is to judge by.

The table of addresses is our own, because `ipaddress.is_global` says yes to NAT64 and 6to4 forms of loopback, to
multicast and to ranges that were assigned later. Sources: the special-purpose registries of IANA (RFC 6890 and its
updates).
"""

import re
from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final
from urllib.parse import SplitResult, quote, urlsplit

from msgspec import Struct

from upstreams.fetch.terms_and_answers import Allowed, FetchFailed

Address = IPv4Address | IPv6Address


class Standing(Enum):
    """Who may be asked at an address."""

    PUBLIC = "public"
    PRIVATE = "private"
    """Only if the operator wrote the host: this machine, its networks, and ranges that stand for nobody."""
    NEVER = "never"
    """Link-local addresses (metadata services of clouds are among them) and groups."""


def _networks(*texts: str) -> tuple[IPv4Network | IPv6Network, ...]:
    return tuple(map(ip_network, texts))


_NEVER: Final = _networks("169.254.0.0/16", "224.0.0.0/4", "255.255.255.255/32", "fe80::/10", "ff00::/8")
_PRIVATE: Final = (
    *_networks("0.0.0.0/8", "127.0.0.0/8"),  # this network; 0.0.0.0 is this machine
    *_networks("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16"),
    *_networks("100.64.0.0/10"),  # shared by carriers
    *_networks("168.63.129.16/32"),  # Azure's own services for a virtual machine, though the range is public
    *_networks("192.0.0.0/24", "2001::/23"),  # protocol assignments: Teredo, benchmarking, ORCHID
    *_networks("192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24", "2001:db8::/32", "3fff::/20"),  # documentation
    *_networks("192.31.196.0/24", "192.175.48.0/24", "2620:4f:8000::/48", "192.52.193.0/24"),  # AS112, AMT
    *_networks("192.88.99.0/24", "198.18.0.0/15", "240.0.0.0/4"),  # relays of 6to4, benchmarking, reserved
    *_networks("64:ff9b:1::/48"),  # NAT64 of a local network (RFC 8215)
)
_UNICAST_6: Final = IPv6Network("2000::/3")
"""All that is assigned to anybody; besides this only the translated forms below are used."""
_NAT64: Final = IPv6Network("64:ff9b::/96")
_MAPPED: Final = IPv6Network("::ffff:0:0/96")
_TRANSLATED: Final = IPv6Network("::ffff:0:0:0/96")
_COMPATIBLE: Final = IPv6Network("::/96")
_LOOPBACK_4: Final = IPv4Network("127.0.0.0/8")
_THIS_4: Final = IPv4Network("0.0.0.0/8")
_LOW_32: Final = (1 << 32) - 1
_ISATAP: Final = (0x0000_5EFE, 0x0200_5EFE)
_NUMBER: Final = re.compile(r"0[xX][0-9a-fA-F]{0,16}|[0-9]{1,16}")


def standing(address: Address) -> Standing:
    """Who may be asked at `address`; of several embedded ones the worst counts."""
    if any(address in network for network in _NEVER):
        return Standing.NEVER
    is_private = any(address in network for network in _PRIVATE)
    if isinstance(address, IPv4Address):
        return Standing.PRIVATE if is_private else Standing.PUBLIC
    inner = {standing(each) for each in inner_addresses(address)}
    if Standing.NEVER in inner:
        return Standing.NEVER
    is_known = address in _UNICAST_6 or address in _NAT64 or address in _MAPPED
    return Standing.PRIVATE if Standing.PRIVATE in inner or is_private or not is_known else Standing.PUBLIC


def inner_addresses(address: IPv6Address) -> Iterator[IPv4Address]:
    """The IPv4 addresses that `address` may lead to: mapped, compatible, translated, NAT64, 6to4, Teredo, ISATAP."""
    number = int(address)
    low = IPv4Address(number & _LOW_32)
    if any(address in network for network in (_MAPPED, _TRANSLATED, _COMPATIBLE, _NAT64)):
        yield low
    if number >> 80 == 0x0064_FF9B_0001:  # RFC 6052 with a prefix of 48, or any longer one
        yield low
        yield IPv4Address((number >> 64 & 0xFFFF) << 16 | (number >> 40 & 0xFFFF))
    if address.sixtofour is not None:
        yield address.sixtofour
    if address.teredo is not None:
        yield from address.teredo
    if number >> 32 & 0xFFFF_FFFF in _ISATAP:
        yield low


def is_loopback(address: Address) -> bool:
    """True if `address` is this machine itself, in whatever form."""
    if isinstance(address, IPv4Address):
        return address in _LOOPBACK_4 or address in _THIS_4
    if address in _MAPPED or address in _TRANSLATED:
        return is_loopback(IPv4Address(int(address) & _LOW_32))
    return int(address) in (0, 1)  # :: and ::1


def literal(host: str) -> Address | None:
    """The address that `host` is, None for a name. Forms that only resolvers accept count: 127.1, 0x7f.1, 0177.0.0.1.

    A zone (`fe80::1%eth0`) belongs to the address, without counting.
    """
    host = host.removesuffix(".")
    if ":" in host:
        try:
            return IPv6Address(host.partition("%")[0])
        except ValueError:
            return None
    parts = host.split(".")
    if len(parts) > 4 or not all(_NUMBER.fullmatch(part) for part in parts):
        return None
    try:
        *front, last = [_number(part) for part in parts]
    except ValueError:
        return None
    if any(each > 255 for each in front) or last >= 1 << 8 * (4 - len(front)):
        return None
    return IPv4Address(sum(each << 8 * (3 - at) for at, each in enumerate(front)) + last)


def _number(text: str) -> int:
    if text[:2] in ("0x", "0X"):
        return int(text[2:] or "0", 16)
    return int(text, 8 if len(text) > 1 and text[0] == "0" else 10)


def is_numeric(host: str) -> bool:
    """True if the last label of `host` is a number: then it is an address or nothing, never a name (WHATWG URL)."""
    return _NUMBER.fullmatch(host.removesuffix(".").rpartition(".")[2]) is not None


def is_this_machine(host: str) -> bool:
    """True if `host` is loopback by its name or as an address."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    address = literal(host)
    return address is not None and is_loopback(address)


MAX_URL_BYTES: Final = 8 << 10
MAX_ADDRESSES: Final = 64
"""Addresses of one name. More are no name of a server, and all have to be checked."""
_HOST: Final = re.compile(r"[a-z0-9_-]{1,63}(\.[a-z0-9_-]{1,63})*\.?")
_PRIVATE_SUFFIXES: Final = (".local", ".internal", ".localhost", ".home.arpa")
IsOwnListener = Callable[[str, int], bool]


class FetchTarget(Struct, frozen=True):
    """A URL that may be asked, taken apart."""

    secure: bool
    host: str
    """In lower case and ASCII, no brackets."""
    port: int
    target: str
    """Path and query, as they go into the request line."""

    @property
    def authority(self) -> str:
        """The value of `Host`: without the port, if it is the usual one."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == (443 if self.secure else 80) else f"{host}:{self.port}"

    @property
    def origin(self) -> str:
        """Scheme, host and port: all that is told of a URL (no path, no query)."""
        return f"{'https' if self.secure else 'http'}://{self.authority}"


def target_of(parts: SplitResult, *, has_query: bool) -> str:
    """Path and query of a URL, as they go into the request line."""
    path = quote(parts.path or "/", safe="/%:@!$&'()*+,;=~-._")
    return path + ("?" + quote(parts.query, safe="/?%:@!$&'()*+,;=~-._[]") if has_query else "")


def judge_url(url: str, allowed: Allowed) -> FetchTarget:
    """Take `url` apart, if it is one that may be asked. Raises FetchFailed: it is not; the text does not repeat more
    than scheme, host and port."""
    if len(url.encode(errors="replace")) > MAX_URL_BYTES:
        raise _refusal(f"A URL of more than {MAX_URL_BYTES} bytes is not asked")
    if any(not letter.isprintable() or letter.isspace() for letter in url) or "\\" in url:
        raise _refusal("A URL with spaces, backslashes or characters that cannot be printed is not asked")
    try:
        parts = urlsplit(url)
        host, port = (parts.hostname or "").lower(), parts.port
        host = host if host.isascii() else host.encode("idna").decode("ascii").lower()
    except ValueError:  # brackets, a port that is no number, a name that cannot be
        raise _refusal("Something that is not a URL is not asked") from None
    is_host = len(host) <= 254 and _HOST.fullmatch(host) is not None
    if ":" in host:
        is_host = "%" not in host and literal(host) is not None
    if parts.scheme not in ("https", "http") or not is_host or port == 0:
        raise _refusal("Something that is not an https:// URL is not asked")
    secure = parts.scheme == "https"
    if "@" in parts.netloc:
        raise _refusal(f"A URL of {host} with a user name in it is not asked")
    if "#" in url:
        raise _refusal(f"A URL of {host} with a fragment (#) is not asked")
    target = FetchTarget(secure, host, port or (443 if secure else 80), target_of(parts, has_query="?" in url))
    if not secure and not (allowed.loopback_http and is_this_machine(host)):
        raise _refusal(f"{target.origin} is not asked: it is not https://, and the server that needs it is elsewhere")
    return target


def judge_addresses(
    target: FetchTarget, allowed: Allowed, addresses: Sequence[str], is_own_listener: IsOwnListener
) -> Sequence[str]:
    """The addresses, each of which may be connected to: all that `target` has. Raises FetchFailed: one of them is not
    to be asked, or it has none."""
    if not addresses or len(addresses) > MAX_ADDRESSES:
        raise FetchFailed(f"{target.origin} cannot be reached: its host name has no address that can be used")
    checked = []
    for each in addresses:
        try:
            address = ip_address(each.partition("%")[0])
        except ValueError:
            text = f"{target.origin} is not asked: its host name leads to something that is no address"
            raise _refusal(text) from None
        _judge_address(target, allowed, address)
        if is_own_listener(str(address), target.port):
            raise _refusal(f"{target.origin} is not asked: it is this hub itself")
        checked.append(str(address))
    return checked


def judge_behind_proxy(target: FetchTarget, allowed: Allowed) -> None:
    """Judge a target whose address only the proxy will know: by its name, or as the address that it is. Raises
    FetchFailed: it is not to be asked."""
    if (address := literal(target.host)) is not None:
        _judge_address(target, allowed, address)
        return
    name = target.host.removesuffix(".")
    if is_numeric(name):
        raise _refusal(f"{target.origin} is not asked: its host is neither a name nor an address")
    if name not in allowed.private_hosts and ("." not in name or name.endswith(_PRIVATE_SUFFIXES)):
        raise _private(target)


def _judge_address(target: FetchTarget, allowed: Allowed, address: Address) -> None:
    is_this = is_loopback(address)
    if not target.secure and not is_this:
        raise _refusal(f"{target.origin} is not asked: without TLS only this machine itself may be")
    if (found := standing(address)) is Standing.NEVER:
        raise _refusal(f"{target.origin} is not asked: its address is link-local or a group, which nobody may be")
    if found is Standing.PUBLIC or target.host in allowed.private_hosts:
        return
    if allowed.loopback_http and is_this and is_this_machine(target.host):
        return
    raise _private(target)


def _private(target: FetchTarget) -> FetchFailed:
    return _refusal(
        f"{target.origin} is not asked: its address is private, and no configuration names this host. "
        "If you trust it, write it into the settings of the server"
    )


def _refusal(text: str) -> FetchFailed:
    return FetchFailed(text, refused=True)
