"""The guard: which URLs are asked, and at which addresses."""

import pytest

from upstreams.fetch.guard import MAX_ADDRESSES, FetchTarget, judge_addresses, judge_behind_proxy, judge_url
from upstreams.fetch.model import Allowed, FetchFailed

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
