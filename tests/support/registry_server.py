"""A registry on loopback that answers from recorded entries, in the form of the API of 2025-12-01.

    with registry_server() as registry:
        registry.add(EXAMPLES["npm"], published="2026-03-02T10:00:00Z")
        registry.url

`faults` answers a path in another way: a status, bytes, or a whole `Answer`.
"""

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit

OFFICIAL = "io.modelcontextprotocol.registry/official"


class Answer(NamedTuple):
    """An answer in place of the proper one."""

    status: int = 200
    body: bytes = b"{}"
    headers: Mapping[str, str] = {}


class RegistryServer:
    """The entries, and what was asked."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.entries: list[dict[str, Any]] = []
        self.faults: dict[str, Answer] = {}
        """By the path without its query."""
        self.page = 100
        self.asked: list[str] = []
        self.headers: list[dict[str, str]] = []

    def add(self, server: Mapping[str, Any], *, status: str = "active", **official: Any) -> None:
        """Publish one version, which is the newest then unless it was deleted."""
        for each in self.entries:
            if each["server"]["name"] == server["name"] and status != "deleted":
                each["_meta"][OFFICIAL]["isLatest"] = False
        meta = {"status": status, "isLatest": status != "deleted", "publishedAt": "2026-03-02T10:00:00Z", **official}
        self.entries.append({"server": dict(server), "_meta": {OFFICIAL: meta}})

    def answer(self, target: str, headers: dict[str, str]) -> Answer:
        """The answer to one GET."""
        self.asked.append(target)
        self.headers.append(headers)
        parts = urlsplit(target)
        if parts.path in self.faults:
            return self.faults[parts.path]
        found = self._found(parts.path, {key: values[0] for key, values in parse_qs(parts.query).items()})
        if found is None:
            return Answer(404, json.dumps({"error": "Server not found"}).encode())
        return Answer(200, json.dumps(found).encode())

    def _found(self, path: str, query: dict[str, str]) -> Any:
        words = [unquote(word) for word in path.strip("/").split("/")]
        if words[:2] != ["v0.1", "servers"]:
            return None
        deleted = query.get("include_deleted") == "true"
        entries = [each for each in self.entries if deleted or each["_meta"][OFFICIAL]["status"] != "deleted"]
        if len(words) == 2:
            return self._page(entries, query)
        named = [each for each in reversed(entries) if each["server"]["name"] == words[2]]
        if words[3:] == ["versions"]:
            return {"servers": named, "metadata": {"count": len(named)}} if named else None
        [_, version] = words[3:]
        wanted = [
            each
            for each in named
            if each["server"]["version"] == version or (version == "latest" and each["_meta"][OFFICIAL]["isLatest"])
        ]
        return wanted[0] if wanted else None

    def _page(self, entries: list[dict[str, Any]], query: dict[str, str]) -> Any:
        found = [
            each
            for each in entries
            if query.get("search", "") in each["server"]["name"] and each["_meta"][OFFICIAL]["isLatest"]
        ]
        at = int(query.get("cursor", "0"))
        page = found[at : at + self.page]
        more = {"nextCursor": str(at + self.page)} if len(found) > at + self.page else {}
        return {"servers": page, "metadata": {"count": len(page), **more}}


@contextmanager
def registry_server() -> Iterator[RegistryServer]:
    """A registry that answers until the block ends."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = registry.answer(self.path, {key.lower(): value for key, value in self.headers.items()})
            self.send_response(found.status)
            for name, value in {"Content-Type": "application/json", **found.headers}.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(found.body)))
            self.end_headers()
            with suppress(ConnectionError):  # a client that has read enough
                self.wfile.write(found.body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    registry = RegistryServer(f"http://127.0.0.1:{server.server_address[1]}")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield registry
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
