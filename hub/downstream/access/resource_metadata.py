"""Metadata of this hub as a protected resource (RFC 9728): a function of the path alone, so that they tell nobody which
servers there are. Pure.

URLs come from the configuration, never from `Host`. The hub is no authorization server, and has no metadata of one.
"""

import re
from collections.abc import Sequence, Set
from typing import Final
from urllib.parse import urlsplit

import msgspec

from hub.net.http_request import EarlyReply, HttpRequest

WELL_KNOWN: Final = "/.well-known/oauth-protected-resource"
MCP_PATH: Final = "/mcp"
_BELOW: Final = re.compile(r"/mcp(/[@~]?[A-Za-z0-9][A-Za-z0-9._-]{0,63})?")
HEADERS: Final = (("Cache-Control", "max-age=300"), ("Access-Control-Allow-Origin", "*"))


class ResourceMetadata:
    """The documents of one hub. `resource` is its URL, which ends with `/mcp`."""

    def __init__(self, resource: str, issuers: Sequence[str], scopes: Sequence[str]) -> None:
        self.resource = resource
        self._issuers = tuple(issuers)
        self._scopes = tuple(scope for scope in scopes if scope != "offline_access")
        parts = urlsplit(resource)
        self._root = f"{parts.scheme}://{parts.netloc}{WELL_KNOWN}"

    def resource_at(self, path: str) -> str:
        """The resource that a path is, which tokens for it name as their audience."""
        return self.resource + self._below(path)

    def url_for(self, path: str) -> str:
        """The place of the metadata of a path."""
        return f"{self._root}{MCP_PATH}{self._below(path)}"

    def is_opened_by(self, audiences: Set[str], path: str, more: Sequence[str] = ()) -> bool:
        """True if a token for these audiences opens a path: one for the hub opens all, one for a server that alone.
        `more`: audiences that mean the hub, too."""
        if self.resource in audiences or not audiences.isdisjoint(more):
            return True
        return path.startswith(f"{MCP_PATH}/") and self.resource_at(path) in audiences

    def _below(self, path: str) -> str:
        return "" if (found := _BELOW.fullmatch(path)) is None else found[1] or ""

    def reply(self, request: HttpRequest) -> EarlyReply | None:
        """The document that a request asks for; None: it asks for none."""
        if request.method not in ("GET", "HEAD") or not request.path.startswith(WELL_KNOWN):
            return None
        path = request.path[len(WELL_KNOWN) :] or MCP_PATH
        if not _BELOW.fullmatch(path):
            return None
        request.reply_with(())  # anybody may read it, whatever the page is from
        document: dict[str, object] = {
            "resource": self.resource_at(path),
            "authorization_servers": self._issuers,
            "bearer_methods_supported": ["header"],
            "resource_name": "hubd",
        }
        if self._scopes:
            document["scopes_supported"] = self._scopes
        return EarlyReply(200, msgspec.json.encode(document), HEADERS)
