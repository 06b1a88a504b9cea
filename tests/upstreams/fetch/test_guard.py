"""The guard: which URLs are asked, and at which addresses."""

from ipaddress import IPv4Address, IPv6Address, ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.tables import each_row
from upstreams.fetch.guard import (
    MAX_ADDRESSES,
    FetchTarget,
    Standing,
    inner_addresses,
    is_loopback,
    is_numeric,
    judge_addresses,
    judge_behind_proxy,
    judge_url,
    literal,
    standing,
)
from upstreams.fetch.terms_and_answers import Allowed, FetchFailed

NOBODY = Allowed()
LOCAL = Allowed(private_hosts=frozenset({"127.0.0.1"}), loopback_http=True)
SECRET = "s3cret"


@pytest.mark.parametrize(
    ("url", "target"),
    [
        ("https://as.example", FetchTarget(True, "as.example", 443, "/")),
        ("https://AS.Example:443/a/b?c=d&e", FetchTarget(True, "as.example", 443, "/a/b?c=d&e")),
        ("https://as.example:8443/?", FetchTarget(True, "as.example", 8443, "/?")),
        ("https://[2606:4700::1]/x", FetchTarget(True, "2606:4700::1", 443, "/x")),
        ("https://as.example/%7Ea/ü", FetchTarget(True, "as.example", 443, "/%7Ea/%C3%BC")),
        ("https://bücher.example/", FetchTarget(True, "xn--bcher-kva.example", 443, "/")),
        ("HTTPS://as.example/a@b", FetchTarget(True, "as.example", 443, "/a@b")),
    ],
)
def test_urls(url: str, target: FetchTarget) -> None:
    assert judge_url(url, NOBODY) == target


@pytest.mark.covers("SEC-44", "SEC-45")
@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("http://as.example/s3cret", "not https"),
        ("http://127.0.0.1/", "not https"),
        ("ftp://as.example/s3cret", "not an https"),
        ("file:///etc/passwd", "not an https"),
        ("//as.example/s3cret", "not an https"),
        ("s3cret", "not an https"),
        ("", "not an https"),
        ("https://", "not an https"),
        ("https:///s3cret", "not an https"),
        ("https://as.example:0/", "not an https"),
        ("https://as.example:99999/", "not a URL"),
        ("https://as.example:s3cret/", "not a URL"),
        ("https://[::1/s3cret", "not a URL"),
        ("https://[fe80::1%25eth0]/", "not an https"),
        ("https://as.example%2f.evil/", "not an https"),
        ("https://a_b..example/", "not an https"),
        ("https://.example/", "not an https"),
        (f"https://{'a' * 64}.example/", "not an https"),
        (f"https://{'a.' * 150}example/", "not an https"),
        ("https://user:s3cret@as.example/", "user name"),
        ("https://@as.example/", "user name"),
        ("https://as.example/#s3cret", "fragment"),
        ("https://as.example/#", "fragment"),
        ("https://as.example\\@evil/s3cret", "backslashes"),
        ("https://as.example/ s3cret", "spaces"),
        ("https://as.example/\r\ns3cret", "cannot be printed"),
        ("https://as.exam\tple/s3cret", "cannot be printed"),
        ("https://as.example/\x00", "cannot be printed"),
        ("https://as.example/\u202e", "cannot be printed"),
        ("https://as.example/\ud800", "cannot be printed"),
        ("https://as.example/" + SECRET * 2000, "8192 bytes"),
    ],
)
def test_urls_that_are_not_asked(url: str, says: str) -> None:
    with pytest.raises(FetchFailed, match=says) as caught:
        judge_url(url, NOBODY)
    assert caught.value.refused
    assert not caught.value.sent
    assert SECRET not in caught.value.text


def judged(host: str, *addresses: str, allowed: Allowed = NOBODY, secure: bool = True) -> list[str]:
    target = FetchTarget(secure, host, 443, "/")
    return list(
        judge_addresses(target, allowed, addresses, lambda address, port: (address, port) == ("127.0.0.9", 443))
    )


@pytest.mark.covers("SEC-44")
@pytest.mark.parametrize(
    ("host", "addresses", "allowed"),
    [
        ("as.example", ["1.1.1.1", "2606:4700::1"], NOBODY),
        ("as.corp", ["10.0.0.1", "1.1.1.1", "fd00::1"], Allowed(frozenset({"as.corp"}))),
        ("10.0.0.1", ["10.0.0.1"], Allowed(frozenset({"10.0.0.1"}))),
        ("localhost", ["::1", "127.0.0.1"], LOCAL),
        ("127.0.0.1", ["127.0.0.1"], LOCAL),
    ],
)
def test_addresses_that_are_asked(host: str, addresses: list[str], allowed: Allowed) -> None:
    assert judged(host, *addresses, allowed=allowed) == addresses


@pytest.mark.covers("SEC-44")
@pytest.mark.parametrize(
    ("host", "addresses", "allowed", "says"),
    [
        ("as.example", ["127.0.0.1"], NOBODY, "private"),
        ("as.example", ["1.1.1.1", "10.0.0.1"], NOBODY, "private"),
        ("as.example", ["::ffff:10.0.0.1"], NOBODY, "private"),
        ("as.example", ["64:ff9b::a00:1"], NOBODY, "private"),
        ("as.example", ["169.254.169.254"], NOBODY, "link-local"),
        ("as.corp", ["10.0.0.1", "169.254.169.254"], Allowed(frozenset({"as.corp"})), "link-local"),
        ("as.corp", ["fe80::1%eth0"], Allowed(frozenset({"as.corp"})), "link-local"),
        ("as.corp", ["64:ff9b::a9fe:a9fe"], Allowed(frozenset({"as.corp"})), "link-local"),
        ("evil.as.corp", ["10.0.0.1"], Allowed(frozenset({"as.corp"})), "private"),
        ("as.example", ["127.0.0.1"], LOCAL, "private"),
        ("localhost", ["10.0.0.1"], LOCAL, "private"),
        ("127.0.0.9", ["127.0.0.9"], LOCAL, "this hub itself"),
        ("as.corp", ["127.0.0.9"], Allowed(frozenset({"as.corp"})), "this hub itself"),
        ("as.example", ["as.example"], NOBODY, "no address"),
        ("as.example", [], NOBODY, "no address"),
        ("as.example", ["1.1.1.1"] * (MAX_ADDRESSES + 1), NOBODY, "no address"),
    ],
)
def test_addresses_that_are_not_asked(host: str, addresses: list[str], allowed: Allowed, says: str) -> None:
    with pytest.raises(FetchFailed, match=says):
        judged(host, *addresses, allowed=allowed)


@pytest.mark.covers("SEC-45")
def test_without_tls_only_this_machine_is_asked() -> None:
    assert judge_url("http://localhost:9/x", LOCAL) == FetchTarget(False, "localhost", 9, "/x")
    assert judged("localhost", "127.0.0.1", allowed=LOCAL, secure=False)
    for url in ("http://as.example/", "http://10.0.0.1/", "http://1.1.1.1/"):
        with pytest.raises(FetchFailed, match="not https"):
            judge_url(url, LOCAL)
    for address in ("10.0.0.1", "1.1.1.1"):
        with pytest.raises(FetchFailed, match="without TLS"):
            judged("localhost", address, allowed=Allowed(frozenset({"localhost"}), True), secure=False)


def behind(host: str, allowed: Allowed = NOBODY) -> None:
    judge_behind_proxy(FetchTarget(True, host, 443, "/"), allowed)


@pytest.mark.covers("SEC-44")
def test_names_that_only_a_proxy_resolves() -> None:
    for host in ("as.example", "1.1.1.1", "2606:4700::1", "as.example."):
        behind(host)
    for host in ("as", "as.local", "metadata.google.internal", "as.internal.", "x.home.arpa", "10.0.0.1", "fd00::1"):
        with pytest.raises(FetchFailed, match="private"):
            behind(host)
        if not host.endswith("."):
            behind(host, Allowed(frozenset({host})))
    for host in ("169.254.169.254", "0xa9fea9fe", "fe80::1"):
        with pytest.raises(FetchFailed, match="link-local"):
            behind(host, Allowed(frozenset({host})))
    for host in ("1.2.3.4.5", "256.1.1.1", "example.08"):
        with pytest.raises(FetchFailed, match="neither a name nor an address"):
            behind(host)


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
