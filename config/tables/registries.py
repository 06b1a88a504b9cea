"""The settings of registries, where `hubd search` and `hubd add NAME` look servers up. Declared as in `settings`.

They are for the command line alone: no hub asks a registry, so references in them are looked up when one is asked.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Final
from urllib.parse import urlsplit

from msgspec import Struct

from config.setting import Secret, Setting

OFFICIAL: Final = "official"
OFFICIAL_URL: Final = "https://registry.modelcontextprotocol.io"
MAX_REGISTRIES: Final = 16
NAME: Final = re.compile(r"[a-z][a-z0-9-]{0,31}")
LOOPBACK: Final = ("127.0.0.1", "localhost", "::1")


class RegistryConfig(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One registry of servers that answers as that of modelcontextprotocol.io does (`/v0.1/servers`)."""

    url: Annotated[str, Setting(reload="live", mask="url", pattern=r"https?://", instead_of=("baseUrl", "address"))] = (
        ""
    )
    """Its address, without `/v0.1`: https, or http on this machine. May hold `${VAR}`."""
    headers: Annotated[dict[str, Secret], Setting(reload="live", instead_of=("http_headers", "httpHeaders"))] = {}
    """Sent with each request; `${secret:NAME}` and the other references are looked up when it is asked."""


def in_order(registries: Mapping[str, RegistryConfig]) -> dict[str, RegistryConfig]:
    """The registries in the order in which they are asked: as configured, then the official one, unless it is among
    them."""
    known = dict(registries)
    official = known.get(OFFICIAL)
    if official is None or not official.url:
        known[OFFICIAL] = RegistryConfig(url=OFFICIAL_URL, headers={} if official is None else official.headers)
    return known


def flaws_of(registries: Mapping[str, RegistryConfig]) -> Iterator[tuple[tuple[str, ...], str]]:
    """The flaws of registries: the keys below `registries`, and the text."""
    if len(registries) > MAX_REGISTRIES:
        yield (), f"holds more than {MAX_REGISTRIES} registries"
    for name, registry in registries.items():
        if not NAME.fullmatch(name):
            yield (name,), "cannot name a registry: use lower-case letters, digits and dashes, at most 32"
        if not registry.url and name != OFFICIAL:
            yield (name,), f'needs `url`, the address of the registry, such as url = "{OFFICIAL_URL}"'
        elif registry.url and "${" not in registry.url and (flaw := flaw_of_url(registry.url)):
            yield (name, "url"), flaw


def flaw_of_url(url: str) -> str:
    """The reason why nothing can be asked at `url`; "": it can."""
    expected = f"expected an address such as {OFFICIAL_URL}, without user name, query or spaces"
    if not url.isascii() or re.search(r"[\x00-\x20\x7f\\?#]", url):
        return expected
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        return expected
    if parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc:
        return expected
    if parts.scheme == "http" and parts.hostname not in LOOPBACK:
        return "must be https: anybody on the way could change which program is run (http only on this machine)"
    return ""
