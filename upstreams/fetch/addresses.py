"""The purposes of IP addresses: public, private, or never to be asked, with the IPv4 addresses inside IPv6 ones. Pure.

The table is our own, because `ipaddress.is_global` says yes to NAT64 and 6to4 forms of loopback, to multicast and to
ranges that were assigned later. Sources: the special-purpose registries of IANA (RFC 6890 and its updates).
"""

import re
from collections.abc import Iterator
from enum import Enum
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import Final

Address = IPv4Address | IPv6Address


class Standing(Enum):
    """Who may be asked at an address."""

    PUBLIC = "public"
    PRIVATE = "private"
    """Only if the operator wrote the host: this machine, its networks, and ranges that stand for nobody."""
    NEVER = "never"
    """Link-local addresses (metadata services of clouds are among them) and groups."""


_PRIVATE_4: Final = tuple(
    IPv4Network(text)
    for text in (
        "0.0.0.0/8",  # this network; 0.0.0.0 is this machine
        "10.0.0.0/8",
        "100.64.0.0/10",  # shared by carriers
        "127.0.0.0/8",
        "168.63.129.16/32",  # Azure's own services for a virtual machine, though the range is public
        "172.16.0.0/12",
        "192.0.0.0/24",  # protocol assignments
        "192.0.2.0/24",  # documentation
        "192.31.196.0/24",  # AS112
        "192.52.193.0/24",  # AMT
        "192.88.99.0/24",  # relays of 6to4, which ended
        "192.168.0.0/16",
        "192.175.48.0/24",  # AS112
        "198.18.0.0/15",  # benchmarking
        "198.51.100.0/24",  # documentation
        "203.0.113.0/24",  # documentation
        "240.0.0.0/4",  # reserved
    )
)
_NEVER_4: Final = (IPv4Network("169.254.0.0/16"), IPv4Network("224.0.0.0/4"), IPv4Network("255.255.255.255/32"))
_NEVER_6: Final = (IPv6Network("fe80::/10"), IPv6Network("ff00::/8"))
_PRIVATE_6: Final = tuple(
    IPv6Network(text)
    for text in (
        "64:ff9b:1::/48",  # NAT64 of a local network (RFC 8215)
        "2001::/23",  # protocol assignments: Teredo, benchmarking, ORCHID
        "2001:db8::/32",  # documentation
        "2620:4f:8000::/48",  # AS112
        "3fff::/20",  # documentation
    )
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
    if isinstance(address, IPv4Address):
        if any(address in network for network in _NEVER_4):
            return Standing.NEVER
        return Standing.PRIVATE if any(address in network for network in _PRIVATE_4) else Standing.PUBLIC
    if any(address in network for network in _NEVER_6):
        return Standing.NEVER
    inner = {standing(each) for each in inner_addresses(address)}
    if Standing.NEVER in inner:
        return Standing.NEVER
    known = address in _UNICAST_6 or address in _NAT64 or address in _MAPPED
    if Standing.PRIVATE in inner or not known or any(address in network for network in _PRIVATE_6):
        return Standing.PRIVATE
    return Standing.PUBLIC


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
