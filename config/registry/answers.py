"""The answers of a registry's API, version 2025-12-01: servers with what the registry says of them, and pages. Pure.

/v0.1/servers?search=&version=latest&limit=&cursor=     a page
/v0.1/servers/NAME/versions                             a page, newest first
/v0.1/servers/NAME/versions/VERSION                     one server; "latest" is a version, too
"""

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote, urlencode

from msgspec import Struct

from config.registry.server_json import Server, Unreadable, read_server

OFFICIAL_META: Final = "io.modelcontextprotocol.registry/official"
MAX_CURSOR: Final = 2048
MAX_ON_PAGE: Final = 1000
PAGE: Final = 100


class Listed(Struct, frozen=True, kw_only=True):
    """A version of a server, and what its registry says of it."""

    server: Server
    status: str = "active"
    """Or "deprecated", "deleted"."""
    message: str = ""
    """The reason why it has that status."""
    published: str = ""
    """The day, as 2026-03-02; "": it is not said."""
    is_latest: bool = False


class Page(Struct, frozen=True):
    """One page of servers."""

    servers: tuple[Listed, ...]
    unreadable: int
    """Entries that could not be read."""
    next_cursor: str
    """"": it is the last page."""


def list_path(search: str, cursor: str = "") -> str:
    """The path that lists servers by a part of their names."""
    fields = {"search": search, "version": "latest", "limit": str(PAGE)} | ({"cursor": cursor} if cursor else {})
    return f"/v0.1/servers?{urlencode(fields)}"


def version_path(name: str, version: str) -> str:
    """The path of one version; deleted ones are found as well, so that it can be said."""
    return f"/v0.1/servers/{quote(name, safe='')}/versions/{quote(version, safe='')}?include_deleted=true"


def versions_path(name: str) -> str:
    """The path of all versions of a server."""
    return f"/v0.1/servers/{quote(name, safe='')}/versions?include_deleted=true"


def read_listed(value: Any) -> Listed:
    """One server of an answer.

    Raises:
        Unreadable: it is none.
    """
    if not isinstance(value, dict):
        raise Unreadable("it is no entry of a registry")
    said = _official(value.get("_meta"))
    return Listed(
        server=read_server(value.get("server")),
        status=_text(said.get("status")) or "active",
        message=_text(said.get("statusMessage"))[:500],
        published=_text(said.get("publishedAt"))[:10],
        is_latest=said.get("isLatest") is True,
    )


def read_page(value: Mapping[str, Any]) -> Page:
    """A page of servers, without those that cannot be read.

    Raises:
        Unreadable: it is none.
    """
    if "servers" not in value:
        raise Unreadable("it has no servers")
    entries = value["servers"]
    if entries is None:  # an empty list, as some write it
        entries = []
    if not isinstance(entries, list) or len(entries) > MAX_ON_PAGE:
        raise Unreadable("it is no list of servers")
    servers = []
    for entry in entries:
        try:
            servers.append(read_listed(entry))
        except Unreadable:
            continue
    metadata = value.get("metadata")
    cursor = _text(metadata.get("nextCursor")) if isinstance(metadata, dict) else ""
    return Page(tuple(servers), len(entries) - len(servers), cursor if len(cursor) <= MAX_CURSOR else "")


def _official(meta: Any) -> Mapping[str, Any]:
    said = meta.get(OFFICIAL_META) if isinstance(meta, dict) else None
    return said if isinstance(said, dict) else {}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
