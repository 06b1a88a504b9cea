"""Translation of any host's file of MCP servers to upstream tables with our setting names.

Hosts differ in the root key, the spelling of `type`, whether `command` is a list, `env` or `environment`, `url`,
`serverUrl` or `httpUrl`, seconds or milliseconds. All of it is read here. What a host keeps beside that (`alwaysAllow`,
`trust`, ...) is passed over; its choice of tools is kept (`translate_host_entry`).

Variables become ours: `{env:VAR}` of OpenCode, `${{ secrets.VAR }}` of Continue and `$VAR` of Gemini CLI mean `${VAR}`.
"""

from collections.abc import Iterator, Sized
from pathlib import Path
from typing import Any, Final

from msgspec import structs

from config.diagnostics import Findings, Keys, Problem
from config.loading.document import JSON_SUFFIXES, YAML_SUFFIXES
from config.loading.text_limits import MAX_SERVERS
from config.loading.translate_host_entry import SPELLINGS, HostEntry
from config.loading.translate_host_entry import FieldTable as FieldTable
from config.server_names import FORMER_MAX_ID, derive_ids, is_reserved

SUFFIXES: Final = (*JSON_SUFFIXES, *YAML_SUFFIXES)
ROOTS: Final = ("mcpServers", "servers", "context_servers", "mcp_servers", "mcp", "extensions")
NOT_SERVERS: Final = frozenset(("builtin", "platform", "frontend", "inline_python"))
"""Types of Goose's extensions that are parts of Goose."""
_GEMINI: Final = ("httpUrl", "trust", "includeTools", "excludeTools")


def is_dialect(tree: dict[str, Any], ours: frozenset[str]) -> bool:
    """True if a TOML document is a host's: it has a host's root key, and no setting of ours."""
    return any(isinstance(tree.get(root), dict) for root in ("mcp_servers", "mcpServers")) and not ours & tree.keys()


def command_of(entry: Any) -> list[str]:
    """The program and the arguments that an entry starts; empty if it starts none."""
    if not isinstance(entry, dict):
        return []
    command: Any = entry.get("command") or entry.get("cmd")
    rest: Any = entry.get("args")
    if isinstance(command, dict):  # older Zed
        command, rest = command.get("path"), command.get("args")
    words = [*(command if isinstance(command, list) else [command]), *(rest if isinstance(rest, list) else [])]
    return [str(word) for word in words] if words and words[0] else []


def hubd_command(entry: Any) -> str:
    """The command of hubd that an entry starts, such as `connect`; "" if it starts another program."""
    words = command_of(entry)
    return words[1] if len(words) > 1 and words[0].rpartition("/")[2] == "hubd" else ""


def is_hub(entry: Any) -> bool:
    """True if an entry starts the hub itself, which would be its own upstream."""
    return hubd_command(entry) in ("connect", "serve")


def servers(tree: Any, findings: Findings) -> list[FieldTable]:
    """The servers of a host's file, in its order. Entries that start hubd itself are left out.
    Raises: Problem, if it holds no servers in any known form. What is wrong with single entries is among the
    findings."""
    root, entries = _entries(tree)
    host = _host(findings.path, root, entries)
    refuse_crowd(entries, root)
    kept = {name: entry for name, entry in entries.items() if not _is_passed_over(entry)}
    ids, former = derive_ids(kept), derive_ids(kept, FORMER_MAX_ID)
    tables = []
    for name, (at, entry) in kept.items():
        keys = (*root, at)
        with findings.collect():
            if not isinstance(entry, dict):
                raise Problem(keys, "expected an object with `command` or `url`")
            if ids[name] != name:
                findings.warn(keys, f'"{name}" is called "{ids[name]}" here, a name that all hosts accept')
            table = HostEntry(entry, keys, host, findings).table(ids[name])
            changed = former[name] != ids[name] and not is_reserved(name)
            tables.append(structs.replace(table, former=former[name]) if changed else table)
    return tables


def refuse_crowd(entries: Sized, root: Keys) -> None:
    """Raise Problem, if these are more servers than a hub can run."""
    if len(entries) > MAX_SERVERS:
        text = f"names {len(entries)} servers, and one file may name {MAX_SERVERS}; split it, or is it the right file?"
        raise Problem(root, text)


def _entries(tree: Any) -> tuple[Keys, dict[str, tuple[str, Any]]]:
    """The keys that lead to the servers; by name, the key of each there, and the entry."""
    if isinstance(tree, dict):
        for key in ROOTS:
            found = tree.get(key)
            if isinstance(found, list) and key == "mcpServers":  # Continue
                return (key,), dict(_entries_by_name(found, key))
            if not isinstance(found, dict):
                continue
            if key == "mcp" and isinstance(found.get("servers"), dict):  # VS Code's settings.json
                return (key, "servers"), _by_key(found["servers"])
            return (key,), _by_key(found)
        if tree and all(map(_looks_like_entry, tree.values())):
            return (), _by_key(tree)
    raise Problem((), 'holds no servers: expected {"mcpServers": {"NAME": {"command": ...}}}')


def _by_key(entries: dict[str, Any]) -> dict[str, tuple[str, Any]]:
    return {name: (name, entry) for name, entry in entries.items()}


def _entries_by_name(entries: list[Any], root: str) -> Iterator[tuple[str, tuple[str, Any]]]:
    seen = set()
    for at, entry in enumerate(entries):
        name = entry.get("name") if isinstance(entry, dict) else None
        if not isinstance(name, str):
            raise Problem((root, str(at)), "expected a server with a `name`")
        if name in seen:
            raise Problem((root, str(at), "name"), f'"{name}" is the name of another server of this list')
        seen.add(name)
        yield name, (str(at), entry)


def _looks_like_entry(value: Any) -> bool:
    return isinstance(value, dict) and any(key in value for key in (*SPELLINGS["command"], *SPELLINGS["url"]))


def _is_passed_over(found: tuple[str, Any]) -> bool:
    """True if it is no server to reach: a part of the host itself, or the hub, which would be its own upstream."""
    entry = found[1]
    if not isinstance(entry, dict):
        return False
    is_part = entry.get("type") in NOT_SERVERS or (entry.get("source") == "extension" and not _looks_like_entry(entry))
    return is_part or is_hub(entry)


def _host(path: Path, root: Keys, entries: dict[str, tuple[str, Any]]) -> str:
    """The host of a file, as far as that changes its meaning; "" if it cannot be told."""
    by_root = {"mcp": "opencode", "extensions": "goose", "mcp_servers": "codex"}
    if len(root) == 1 and root[0] in by_root:
        return by_root[root[0]]
    place = f"{path.parent.name}/{path.stem}".lower()
    for host in ("gemini", "cline", "roo"):
        if host in place:
            return host
    is_gemini = any(isinstance(entry, dict) and any(key in entry for key in _GEMINI) for _, entry in entries.values())
    return "gemini" if is_gemini else ""
