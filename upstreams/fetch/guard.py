"""The guard: which URLs are asked, and at which addresses. Pure.

A name is judged by the addresses that it has, never by how it is written; behind a proxy, which looks names up itself,
the text is all there is to judge by.
"""

import re
from collections.abc import Callable, Sequence
from ipaddress import ip_address
from typing import Final
from urllib.parse import quote, urlsplit

from msgspec import Struct

from upstreams.fetch.addresses import Address, Standing, is_loopback, is_numeric, literal, standing
from upstreams.fetch.model import Allowed, FetchFailed
from upstreams.fetch.proxies import is_this_machine

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
    path: str
    """Path and query, as they go into the request line."""

    @property
    def origin(self) -> str:
        """Scheme, host and port: all that is told of a URL."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        default = self.port == (443 if self.secure else 80)
        return f"{'https' if self.secure else 'http'}://{host}" + ("" if default else f":{self.port}")


def judge_url(url: str, allowed: Allowed) -> FetchTarget:
    """Take `url` apart, if it is one that may be asked.

    Raises:
        FetchFailed: it is not; the text does not repeat more than scheme, host and port.
    """
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
    if parts.scheme not in ("https", "http") or not _is_host(host) or port == 0:
        raise _refusal("Something that is not an https:// URL is not asked")
    secure = parts.scheme == "https"
    if "@" in parts.netloc:
        raise _refusal(f"A URL of {host} with a user name in it is not asked")
    if "#" in url:
        raise _refusal(f"A URL of {host} with a fragment (#) is not asked")
    path = quote(parts.path or "/", safe="/%:@!$&'()*+,;=~-._")
    query = "?" + quote(parts.query, safe="/?%:@!$&'()*+,;=~-._[]") if "?" in url else ""
    target = FetchTarget(secure, host, port or (443 if secure else 80), path + query)
    if not secure and not (allowed.loopback_http and is_this_machine(host)):
        raise _refusal(f"{target.origin} is not asked: it is not https://, and the server that needs it is elsewhere")
    return target


def judge_addresses(
    target: FetchTarget, allowed: Allowed, addresses: Sequence[str], is_own_listener: IsOwnListener
) -> Sequence[str]:
    """The addresses, each of which may be connected to: all that `target` has.

    Raises:
        FetchFailed: one of them is not to be asked, or it has none.
    """
    if not addresses or len(addresses) > MAX_ADDRESSES:
        raise FetchFailed(f"{target.origin} cannot be reached: its host name has no address that can be used")
    checked = []
    for text in addresses:
        try:
            address = ip_address(text.partition("%")[0])
        except ValueError:
            raise _refusal(
                f"{target.origin} is not asked: its host name leads to something that is no address"
            ) from None
        _judge_address(target, allowed, address)
        if is_own_listener(str(address), target.port):
            raise _refusal(f"{target.origin} is not asked: it is this hub itself")
        checked.append(str(address))
    return checked


def judge_behind_proxy(target: FetchTarget, allowed: Allowed) -> None:
    """Judge a target whose address only the proxy will know: by its name, or as the address that it is.

    Raises:
        FetchFailed: it is not to be asked.
    """
    address = literal(target.host)
    if address is not None:
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
    found = standing(address)
    if found is Standing.NEVER:
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


def _is_host(host: str) -> bool:
    if ":" in host:
        return "%" not in host and literal(host) is not None
    return len(host) <= 254 and _HOST.fullmatch(host) is not None
