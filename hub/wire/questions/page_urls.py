"""URLs that an upstream asks a person to open: which ones the hub passes on to a host, and which host they lead to.

A person trusts the host that shows a URL, and the host shows what the hub passes on. So a URL is passed only if every
reader understands the same by it: `https`, or `http` to this machine; a host that is written out, without a user before
it; visible characters only. The hub itself opens no page.
"""

import ipaddress
import re
from typing import Final

MAX_URL_CHARS: Final = 2048
MAX_OPENED_CHARS: Final = 8192
_SEEN: Final = re.compile(r"[!#$%&'()*+,\-./0-9:;=?@A-Z\[\]_a-z~]*")
"""The characters of a URI (RFC 3986): no space, no quotes, no backslash, no brackets except those of IPv6."""
_PARTS: Final = re.compile(r"(?i:(https?)://)([^/?#]*)")
_AUTHORITY: Final = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^:\[\]]+)(?::([0-9]{1,5}))?")
_LABEL: Final = re.compile(r"(?!-)[A-Za-z0-9_-]{1,63}(?<!-)")
_NUMERIC: Final = re.compile(r"[0-9]+|0[xX][0-9A-Fa-f]*")
MAX_NAME_CHARS: Final = 253


class ForbiddenUrl(ValueError):
    """A URL that no person is sent to. The text says why, as a clause after the word URL."""


def is_openable(url: str) -> bool:
    """True if a browser may be sent to `url`: as `host_of`, but for its length, and without a fragment."""
    return is_allowed(url, MAX_OPENED_CHARS) and "#" not in url


def is_allowed(url: str, max_chars: int = MAX_URL_CHARS) -> bool:
    """True if a person may be sent to `url`, of which `host_of` says the host."""
    try:
        host_of(url, max_chars)
    except ForbiddenUrl:
        return False
    return True


def host_of(url: str, max_chars: int = MAX_URL_CHARS) -> str:
    """The host of `url`, with its port if given, to be shown to the person who is asked to open it. Raises
    ForbiddenUrl: no person is sent to this URL."""
    if len(url) > max_chars:
        raise ForbiddenUrl(f"is longer than {max_chars} characters")
    if not _SEEN.fullmatch(url):
        text = "holds characters that no URL may hold; write them as %XX, and a name of other letters as xn--"
        raise ForbiddenUrl(text)
    if (found := _PARTS.match(url)) is None:
        raise ForbiddenUrl("does not begin with https://")
    scheme, authority = found[1].lower(), found[2]
    if "@" in authority:
        raise ForbiddenUrl("has a user before its host, which people take for the host")
    if (parts := _AUTHORITY.fullmatch(authority)) is None or int(parts[2] or 0) > 65_535:
        raise ForbiddenUrl("has no valid host")
    here = _is_here(parts[1])
    if scheme == "http" and not here:
        raise ForbiddenUrl("begins with http://, which is for this machine only; use https://")
    return authority.lower()


def _is_here(host: str) -> bool:
    """True if `host` is this machine. Raises ForbiddenUrl: `host` is no host, or is written in an unusual way."""
    try:
        if host.startswith("["):
            return ipaddress.IPv6Address(host[1:-1]).is_loopback
        labels = host.removesuffix(".").split(".")
        if _NUMERIC.fullmatch(labels[-1]):  # browsers read this as an address, however it is written
            return ipaddress.IPv4Address(host).is_loopback
    except ValueError:
        raise ForbiddenUrl("has no valid host") from None
    if len(host) > MAX_NAME_CHARS or not all(map(_LABEL.fullmatch, labels)):
        raise ForbiddenUrl("has no valid host")
    return host.lower() == "localhost"
