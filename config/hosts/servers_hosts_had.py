"""The servers that each host had itself when they were imported: an import that takes them out of the host does not
lose what it had.
"""

from collections.abc import Iterable
from pathlib import Path

from msgspec import Struct

from config.hosts.host_servers import Server
from config.hosts.records_by_file import RecordsByFile


class Had(Struct, frozen=True):
    """The servers of one host in one of its files."""

    host: str
    tools: dict[str, tuple[str, ...]]
    """By name in the hub, the choice of tools as the setting `tools` says it; `("*",)`: all."""


class HadBefore(RecordsByFile[list[Had]]):
    """The servers that every host had, by its file. Damaged records are forgotten: they only help to suggest."""

    kind = list[Had]

    def add(self, servers: Iterable[tuple[str, Server]]) -> None:
        """Keep these servers, by their names in the hub; what a file had earlier stays.
        Raises: EditError, if the record cannot be written."""
        found: dict[Path, dict[str, dict[str, tuple[str, ...]]]] = {}
        for name, server in servers:
            path, host = server.place.path, server.place.host.id
            if path not in found:
                found[path] = {each.host: dict(each.tools) for each in self.get(path) or ()}
            found[path].setdefault(host, {})[name] = server.tools
        for path, hosts in found.items():
            had = [Had(host, tools) for host, tools in hosts.items()]
            if had != self.get(path):
                self.put(path, had)
