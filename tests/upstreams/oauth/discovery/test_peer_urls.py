"""Addresses: which URLs of peers may be asked, which places belong to an identifier, and which identifiers are one."""

import pytest

from upstreams.oauth.discovery.peer_urls import (
    address_of,
    is_on_this_machine,
    is_parent,
    is_place_of,
    is_same_resource,
    resource_places,
    server_places,
    show_url,
    sound_address,
)

WELL = "/.well-known/"


@pytest.mark.parametrize(
    "url", ["https://h.example", "https://h.example:8443/a/b?c=d", "https://127.0.0.1/x", "https://[2001:db8::1]/"]
)
def test_https_may_be_asked(url):
    assert sound_address(url, loopback_http=False)


@pytest.mark.parametrize("url", ["http://127.0.0.1:9405/mcp", "http://localhost/", "http://[::1]:1/"])
def test_http_only_on_this_machine_and_if_the_upstream_is_here(url):
    assert sound_address(url, loopback_http=True)
    assert not sound_address(url, loopback_http=False)


@pytest.mark.parametrize(
    "url",
    [
        *("javascript:alert(1)", "file:///etc/passwd", "--flag=$(id)", "", "https://", "https:///x", "https:h.example"),
        *("http://h.example", "http://169.254.169.254", "http://10.0.0.1/", "ftp://h.example", "//h.example/x"),
        *("https://u@h.example", "https://u:p@h.example/", "https://h.example/#f", "https://h.example#"),
        *("https://h.example:0/", "https://h.example:65536/", "https://h.example:x/", "https://h.example:/"),
        *(
            "https://h.example/ x",
            "https://h.example\\@evil.example",
            "https://h.example/\n",
            "https://h\u0435.example",
        ),
        *("https://0x7f.1/", "https://h.example/" + "a" * 2048, "https://%68.example", " https://h.example"),
        *(None, 1, ["https://h.example"], {"a": 1}),
    ],
)
def test_what_is_never_asked(url):
    assert sound_address(url, loopback_http=True) is None


def test_the_parts_of_an_address():
    address = address_of("HTTPS://H.Example:443/A/b?c=D")
    assert (address.origin, address.host, address.path, address.query) == (
        "https://h.example",
        "h.example",
        "/A/b",
        "c=D",
    )
    assert address_of("https://[2001:DB8::1]:8443").origin == "https://[2001:db8::1]:8443"
    assert address_of("http://h.example:443").origin == "http://h.example:443"


def test_this_machine():
    assert all(
        map(is_on_this_machine, ["http://127.0.0.1:1", "https://localhost/x", "http://[::1]/", "http://127.9.9.9"])
    )
    others = ["https://h.example", "http://10.0.0.1", "http://localhost.example", "http://127.1", "stdio", ""]
    assert not any(map(is_on_this_machine, others))


@pytest.mark.parametrize(
    ("url", "paths"),
    [
        ("https://h.example", [""]),
        ("https://h.example/", [""]),
        ("https://H.example:443/mcp", ["/mcp", ""]),
        ("https://h.example/a/b/?c=d", ["/a/b/", ""]),
    ],
)
def test_places_of_a_resource(url, paths):
    assert resource_places(address_of(url)) == tuple(
        f"https://h.example{WELL}oauth-protected-resource{path}" for path in paths
    )


@pytest.mark.parametrize(
    ("issuer", "places"),
    [
        ("https://h.example", ["{}oauth-authorization-server", "{}openid-configuration"]),
        ("https://h.example/", ["{}oauth-authorization-server", "{}openid-configuration"]),
        (
            "https://h.example/realms/x",
            [
                "{}oauth-authorization-server/realms/x",
                "{}openid-configuration/realms/x",
                "/realms/x{}openid-configuration",
            ],
        ),
        (
            "https://h.example/o/",
            ["{}oauth-authorization-server/o", "{}openid-configuration/o", "/o{}openid-configuration"],
        ),
    ],
)
@pytest.mark.covers("A-13")
def test_places_of_an_authorization_server(issuer, places):
    assert server_places(address_of(issuer)) == tuple("https://h.example" + place.format(WELL) for place in places)


@pytest.mark.parametrize(
    ("named", "same"),
    [
        ("https://h.example/mcp", True),
        ("HTTPS://H.EXAMPLE:443/mcp", True),
        ("https://h.example/mcp/", True),
        ("https://h.example/mcp//", False),
        ("https://h.example/MCP", False),
        ("https://h.example/mcp?a", False),
        ("https://h.example/mcp/x", False),
        ("https://h.example", False),
        ("https://h.example:8443/mcp", False),
        ("http://h.example/mcp", False),
        ("https://g.example/mcp", False),
    ],
)
def test_identifiers_that_are_one(named, same):
    assert is_same_resource(address_of(named), address_of("https://h.example/mcp")) is same


@pytest.mark.parametrize(
    ("parent", "child", "due"),
    [
        ("https://h.example", "https://h.example/a/b", True),
        ("https://h.example/", "https://h.example/a/b", True),
        ("https://h.example/a", "https://h.example/a/b", True),
        ("https://h.example/a/", "https://h.example/a/b", True),
        ("https://h.example/a", "https://h.example/ab", False),
        ("https://h.example/a/b/c", "https://h.example/a/b", False),
        ("https://h.example/a?x", "https://h.example/a/b", False),
        ("https://g.example", "https://h.example/a", False),
        ("https://h.example:8443", "https://h.example/a", False),
        ("https://h.example/a", "https://h.example/a/../b", False),
        ("https://h.example/a", "https://h.example/a/%2E%2e/b", False),
        ("https://h.example/./", "https://h.example/./a", False),
    ],
)
def test_parents(parent, child, due):
    assert is_parent(address_of(parent), address_of(child)) is due


@pytest.mark.parametrize(
    ("place", "resource", "due"),
    [
        ("https://h.example/.well-known/oauth-protected-resource", "https://h.example", True),
        ("https://h.example/.well-known/oauth-protected-resource", "https://H.example:443/", True),
        ("https://h.example/.well-known/oauth-protected-resource/a", "https://h.example/a/", True),
        ("https://h.example/.well-known/oauth-protected-resource/a", "https://h.example", False),
        ("https://h.example/.well-known/oauth-protected-resource?a", "https://h.example", False),
        ("https://h.example/x/.well-known/oauth-protected-resource", "https://h.example/x", False),
        ("https://g.example/.well-known/oauth-protected-resource", "https://h.example", False),
    ],
)
def test_the_place_made_from_an_identifier(place, resource, due):
    assert is_place_of(place, address_of(resource)) is due


def test_a_long_url_is_cut_for_people():
    assert show_url("https://h.example/") == "https://h.example/"
    assert len(show_url("https://h.example/" + "a" * 1000)) < 220
