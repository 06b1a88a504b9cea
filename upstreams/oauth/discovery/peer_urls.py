"""Addresses: URLs of peers that may be asked or opened, their parts, and the places where metadata belong. Pure.

Identifiers (`resource`, `issuer`) are compared and sent as the texts that they are. Their parts are only looked at.
"""

import re
from typing import Final

from msgspec import Struct

from hub.wire.questions.page_urls import is_allowed

_URL: Final = re.compile(
    r"(?P<scheme>https?)://(?P<host>\[[0-9a-f:.]++\]|[^:/?#@\[\]]++)(?::(?P<port>[0-9]{1,5}))?"
    r"(?P<path>/[^?#]*+)?(?:\?(?P<query>[^#]*+))?(?P<fragment>#.*+)?",
    re.IGNORECASE | re.DOTALL,
)
_PORTS: Final = {"http": 80, "https": 443}
_DOTS: Final = re.compile(r"(?:\.|%2e){1,2}", re.IGNORECASE)
MAX_SHOWN_CHARS: Final = 200
RESOURCE: Final = "/.well-known/oauth-protected-resource"
SERVER: Final = "/.well-known/oauth-authorization-server"
OPENID: Final = "/.well-known/openid-configuration"


class Address(Struct, frozen=True):
    """The parts of an http or https URL."""

    scheme: str
    """In lower case."""
    host: str
    """In lower case; an IPv6 address in brackets."""
    port: int
    path: str
    """As it is written, "" or with a slash in front."""
    query: str
    has_fragment: bool

    @property
    def origin(self) -> str:
        """Scheme and host in lower case, and the port if it is not the scheme's own."""
        return f"{self.scheme}://{self.host}" + ("" if self.port == _PORTS[self.scheme] else f":{self.port}")


def address_of(url: str) -> Address | None:
    """The parts of `url`; None: it is no http or https URL with a host."""
    if (found := _URL.fullmatch(url)) is None or not 0 < int(found["port"] or 1) <= 65_535:
        return None
    scheme, host = found["scheme"].lower(), found["host"].lower()
    port, path, query = int(found["port"] or _PORTS[scheme]), found["path"] or "", found["query"] or ""
    return Address(scheme, host, port, path, query, has_fragment=found["fragment"] is not None)


def sound_address(url: object, *, loopback_http: bool) -> Address | None:
    """The parts of a URL that a peer names, if it may be asked at all; None: it may not.

    It is https, or http to this machine where that is allowed; short, of visible characters that no reader takes for
    something else, with a host that is written out and without user or fragment.
    """
    if not isinstance(url, str) or not is_allowed(url):
        return None
    address = address_of(url)
    if address is None or address.has_fragment or (address.scheme == "http" and not loopback_http):
        return None
    return address


def is_on_this_machine(url: str) -> bool:
    """True if the host of `url` is a loopback address or `localhost`."""
    return (address := address_of(url)) is not None and is_allowed(f"http://{address.host}/")


def show_url(url: str) -> str:
    """A sound URL for a person, cut to what fits into a sentence."""
    return url if len(url) <= MAX_SHOWN_CHARS else url[:MAX_SHOWN_CHARS] + "..."


# --- places -----------------------------------------------------------------------------------------------------------


def resource_places(url: Address) -> tuple[str, ...]:
    """The places where the metadata of the protected resource `url` belong, in order (RFC 9728 3.1): by its path, by
    its host."""
    root = url.origin + RESOURCE
    return (root,) if url.path in ("", "/") else (root + url.path, root)


def server_places(issuer: Address) -> tuple[str, ...]:
    """The places where the metadata of an authorization server belong, in order (RFC 8414 3, OpenID Connect Discovery
    4)."""
    origin, path = issuer.origin, issuer.path.removesuffix("/")
    if not path:
        return origin + SERVER, origin + OPENID
    return origin + SERVER + path, origin + OPENID + path, origin + path + OPENID


def is_same_resource(one: Address, other: Address) -> bool:
    """True if two identifiers are one: the same URL, but for the case of scheme and host, a default port, and one
    slash at the end."""
    paths = {one.path, other.path}
    same_path = one.path == other.path or paths == {min(paths, key=len), min(paths, key=len) + "/"}
    return one.origin == other.origin and one.query == other.query and same_path


def is_parent(parent: Address, child: Address) -> bool:
    """True if `parent` stands for `child`, too: the same host, and the first segments of its path."""
    above = parent.path.removesuffix("/")
    if parent.origin != child.origin or parent.query or _climbs(parent.path) or _climbs(child.path):
        return False
    return child.path == above or child.path.startswith(above + "/")


def is_place_of(place: str, resource: Address) -> bool:
    """True if the metadata of `resource` belong at `place`."""
    if (address := address_of(place)) is None or address.query or address.has_fragment:
        return False
    due = RESOURCE + resource.path
    return address.origin == resource.origin and address.path.removesuffix("/") == due.removesuffix("/")


def _climbs(path: str) -> bool:
    """True if a segment of `path` means another one for some readers."""
    return any(_DOTS.fullmatch(segment) for segment in path.split("/"))
