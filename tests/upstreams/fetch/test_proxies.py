"""Proxies by the environment."""

import pytest

from upstreams.fetch.proxies import Proxy, ProxyUnusable, is_direct, parse_proxy, proxy_for


def port_of(environ: dict[str, str], secure: bool = True, host: str = "far.example", port: int = 443) -> int | None:
    proxy = proxy_for(environ, secure, host, port)
    return None if proxy is None else proxy.port


@pytest.mark.parametrize(
    ("environ", "https", "http"),
    [
        ({}, None, None),
        ({"HTTPS_PROXY": "http://p:1"}, 1, None),
        ({"HTTP_PROXY": "http://p:2"}, None, 2),
        ({"ALL_PROXY": "http://p:3"}, 3, 3),
        ({"https_proxy": "http://p:1", "HTTPS_PROXY": "http://p:9", "all_proxy": "http://p:3"}, 1, 3),
        ({"https_proxy": "", "HTTPS_PROXY": "p:9"}, 9, None),
        ({"https_proxy": "  "}, None, None),
        ({"HTTPS_PROXY": "http://p:1", "NO_PROXY": "far.example"}, None, None),
        ({"HTTPS_PROXY": "http://p:1", "NO_PROXY": "far.example", "no_proxy": "other"}, 1, None),
        ({"HTTPS_PROXY": "nonsense://", "NO_PROXY": "*"}, None, None),
    ],
)
def test_variables(environ: dict[str, str], https: int | None, http: int | None) -> None:
    assert port_of(environ) == https
    assert port_of(environ, False, port=80) == http


@pytest.mark.parametrize(
    "host",
    ["localhost", "LOCALHOST", "localhost.", "a.localhost", "127.0.0.1", "127.1", "2130706433", "0x7f.1", "::1", "::"],
)
def test_loopback_never_goes_through_a_proxy(host: str) -> None:
    assert port_of({"ALL_PROXY": "http://p:1"}, host=host) is None


@pytest.mark.parametrize(
    ("no_proxy", "direct"),
    [
        ("*", True),
        ("far.example", True),
        ("FAR.example", True),
        (".far.example", True),
        ("*.far.example", True),
        ("example", True),
        (".example", True),
        ("example.", True),
        ("r.example", False),
        ("a.far.example", False),
        ("other, far.example", True),
        ("other far.example", True),
        ("far.example:443", True),
        ("far.example:8443", False),
        ("", False),
        (",, ,", False),
        (".", False),
        (":443", False),
        ("10.0.0.0/8", False),
        ("0.0.0.0/0", False),
    ],
)
def test_names_that_go_straight(no_proxy: str, direct: bool) -> None:
    assert is_direct(no_proxy, "far.example", 443) is direct


@pytest.mark.parametrize(
    ("no_proxy", "host", "direct"),
    [
        ("10.0.0.1", "10.0.0.1", True),
        ("10.0.0.1:443", "10.0.0.1", True),
        ("10.0.0.1:80", "10.0.0.1", False),
        ("10.0.0.0/8", "10.1.2.3", True),
        ("10.0.0.1/8", "10.1.2.3", True),
        ("10.0.0.0/8", "11.1.2.3", False),
        ("10.0.0.0/99", "10.1.2.3", False),
        ("fd00::/8", "fd00::1", True),
        ("fd00::/8", "10.0.0.1", False),
        ("fd00::1", "fd00:0::1", True),
        ("[fd00::1]", "fd00::1", True),
        ("[fd00::1]:443", "fd00::1", True),
        ("[fd00::1]:80", "fd00::1", False),
        ("0.1", "10.0.0.1", False),
    ],
)
def test_addresses_that_go_straight(no_proxy: str, host: str, direct: bool) -> None:
    assert is_direct(no_proxy, host, 443) is direct


@pytest.mark.parametrize(
    ("value", "proxy"),
    [
        ("http://proxy.example:3128", Proxy(False, "proxy.example", 3128)),
        ("http://proxy.example:3128/", Proxy(False, "proxy.example", 3128)),
        ("proxy.example:3128", Proxy(False, "proxy.example", 3128)),
        ("http://proxy.example", Proxy(False, "proxy.example", 80)),
        ("https://proxy.example", Proxy(True, "proxy.example", 443)),
        ("HTTP://Proxy.example:1", Proxy(False, "proxy.example", 1)),
        ("http://[fd00::1]:3128", Proxy(False, "fd00::1", 3128)),
        ("http://u:p%40ss@proxy.example:1", Proxy(False, "proxy.example", 1, b"Basic dTpwQHNz")),
        ("http://u@proxy.example:1", Proxy(False, "proxy.example", 1, b"Basic dTo=")),
        ("u:p@proxy.example:1", Proxy(False, "proxy.example", 1, b"Basic dTpw")),
    ],
)
def test_proxies(value: str, proxy: Proxy) -> None:
    assert parse_proxy(value, "HTTPS_PROXY") == proxy


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("socks5://u:secret@p:1", "another kind"),
        ("socks5h://u:secret@p:1", "another kind"),
        ("http://", "not the URL"),
        ("http://u:secret@:1", "not the URL"),
        ("http://u:secret@p:x", "not the URL"),
        ("http://u:secret@p:99999", "not the URL"),
        ("http://[u:secret", "not the URL"),
        ("http://u:secret@p q", "not the URL"),
    ],
)
def test_what_is_no_proxy(value: str, says: str) -> None:
    with pytest.raises(ProxyUnusable, match=f"HTTPS_PROXY .*{says}") as caught:
        proxy_for({"HTTPS_PROXY": value}, True, "far.example", 443)
    assert "secret" not in str(caught.value)


def test_a_proxy_does_not_show_its_password() -> None:
    assert (
        repr(parse_proxy("http://user:secret@p:1", "X"))
        == str(parse_proxy("http://user:secret@p:1", "X"))
        == "Proxy(p:1)"
    )
    assert parse_proxy("http://[::2]:1", "X").authority == "[::2]:1"
