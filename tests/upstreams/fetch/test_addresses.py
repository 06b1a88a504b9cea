"""The table of addresses: every range, every way to put an IPv4 address into an IPv6 one, every way to write one."""

from ipaddress import IPv4Address, IPv6Address, ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.tables import each_row
from upstreams.fetch.addresses import Standing, inner_addresses, is_loopback, is_numeric, literal, standing

PUBLIC = """
    1.1.1.1 8.8.8.8 9.255.255.255 11.0.0.0 100.63.255.255 100.128.0.0 126.255.255.255 128.0.0.0 169.253.255.255
    172.15.255.255 172.32.0.0 192.0.1.0 192.0.3.0 192.167.255.255 192.169.0.0 198.17.255.255 198.20.0.0
    223.255.255.255 2606:4700:4700::1111 2001:4860:4860::8888 ::ffff:1.1.1.1 64:ff9b::1.1.1.1 2002:0101:0101::1
    2400::1
"""
PRIVATE = """
    0.0.0.0 0.1.2.3 10.0.0.1 10.255.255.255 100.64.0.1 100.100.100.200 100.127.255.255 127.0.0.1 127.255.255.255
    168.63.129.16 172.16.0.1 172.31.255.255 192.0.0.8 192.0.0.192 192.0.2.1 192.31.196.1 192.52.193.1 192.88.99.1
    192.168.0.1 192.175.48.1 198.18.0.1 198.19.255.255 198.51.100.1 203.0.113.1 240.0.0.1 255.255.255.254 :: ::1
    ::2 ::127.0.0.1 ::1.1.1.1 ::ffff:127.0.0.1 ::ffff:10.0.0.1 ::ffff:0:1.1.1.1 ::ffff:0:127.0.0.1
    64:ff9b::127.0.0.1 64:ff9b::10.0.0.1 64:ff9b:1::1 64:ff9b:1::1.1.1.1 64:ff9b:2::1 100::1 2001::1 2001:2::1
    2001:3::1 2001:4:112::1 2001:10::1 2001:20::1 2001:30::1 2001:db8::1 2002:7f00:1:: 2002:a00:1::1
    2002:c0a8:1::1 2620:4f:8000::1 3fff::1 4000::1 5f00::1 fc00::1 fd00:ec2::254 fec0::1 fe00::1
    2001:0:101:101:0:0:80ff:fffe 2400::5efe:10.0.0.1 2400::200:5efe:127.0.0.1
"""
NEVER = """
    169.254.0.1 169.254.169.254 224.0.0.1 239.255.255.255 255.255.255.255 fe80::1 febf::1 ff02::1 ff0e::1
    ::ffff:169.254.169.254 ::169.254.169.254 ::ffff:0:169.254.169.254 64:ff9b::169.254.169.254 64:ff9b::a9fe:a9fe
    64:ff9b:1::169.254.169.254 64:ff9b:1:a9fe:a9:fe00:: 2002:a9fe:a9fe:: 2400::5efe:169.254.169.254
    2001:0:101:101:0:0:5601:5601 2001:0:a9fe:a9fe:: ::ffff:224.0.0.1
"""


@pytest.mark.covers("SEC-44")
@each_row(
    "text, expected",
    [
        *((text, Standing.PUBLIC) for text in PUBLIC.split()),
        *((text, Standing.PRIVATE) for text in PRIVATE.split()),
        *((text, Standing.NEVER) for text in NEVER.split()),
    ],
)
def test_what_an_address_is_for(text: str, expected: Standing) -> None:
    assert standing(ip_address(text)) is expected


@given(st.ip_addresses(v=4))
def test_forms_of_an_address_are_never_better_than_itself(inner: IPv4Address) -> None:
    number, worst = int(inner), standing(inner)
    forms = [
        0xFFFF << 32 | number,
        number,
        0xFFFF << 48 | number,
        0x0064_FF9B << 96 | number,
        0x0064_FF9B_0001 << 80 | number,
        0x0064_FF9B_0001 << 80 | (number >> 16) << 64 | (number & 0xFFFF) << 40,
        0x2002 << 112 | number << 80,
        0x2001_0000 << 96 | number << 64,
        0x2001_0000 << 96 | 0x0101_0101 << 64 | (number ^ 0xFFFF_FFFF),
        0x2400 << 112 | 0x5EFE << 32 | number,
    ]
    order = list(Standing)
    for form in forms:
        address = IPv6Address(form)
        assert inner in set(inner_addresses(address))
        assert order.index(standing(address)) >= order.index(worst), address


@given(st.ip_addresses())
def test_what_the_standard_library_calls_private_is_not_public(address: IPv4Address | IPv6Address) -> None:
    if not address.is_global or address.is_multicast or address.is_link_local:
        mapped = isinstance(address, IPv6Address) and address.ipv4_mapped is not None  # looked into by us alone
        assert standing(address) is not Standing.PUBLIC or mapped


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("127.0.0.1.", "127.0.0.1"),
        ("0177.0.0.1", "127.0.0.1"),
        ("2130706433", "127.0.0.1"),
        ("127.1", "127.0.0.1"),
        ("127.0.1", "127.0.0.1"),
        ("0x7f.1", "127.0.0.1"),
        ("0X7F000001", "127.0.0.1"),
        ("0x7f.0x.0.01", "127.0.0.1"),
        ("0", "0.0.0.0"),
        ("0xa9fea9fe", "169.254.169.254"),
        ("169.254.43518", "169.254.169.254"),
        ("::1", "::1"),
        ("fe80::1%eth0", "fe80::1"),
        ("::ffff:127.0.0.1", "::ffff:127.0.0.1"),
        ("example.com", None),
        ("1.2.3.4.5", None),
        ("256.1.1.1", None),
        ("1.2.65536", None),
        ("4294967296", None),
        ("08.1.1.1", None),
        ("1..1", None),
        ("", None),
        ("a:b", None),
        ("1.2.3.example", None),
    ],
)
@pytest.mark.covers("SEC-44")
def test_ways_to_write_an_address(text: str, address: str | None) -> None:
    assert literal(text) == (None if address is None else ip_address(address))


def test_hosts_that_are_numbers() -> None:
    assert all(is_numeric(host) for host in ("1.2.3.4.5", "256.1.1.1", "example.0x1", "09", "a.1."))
    assert not any(is_numeric(host) for host in ("example.com", "1.2.3.a", "0xg", ""))


def test_loopback() -> None:
    yes = ("127.0.0.1", "127.9.9.9", "0.0.0.0", "::1", "::", "::ffff:127.0.0.1", "::ffff:0:127.0.0.1")
    no = ("128.0.0.1", "10.0.0.1", "::2", "fe80::1", "::ffff:10.0.0.1")
    assert all(is_loopback(ip_address(text)) for text in yes)
    assert not any(is_loopback(ip_address(text)) for text in no)
