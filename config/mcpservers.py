"""Any host's JSON file of MCP servers, as upstream tables with our own setting names.

Hosts agree on the idea and on little else: they differ in the root key, the spelling of `type`, whether `command` is a
list, `env` or `environment`, `url`, `serverUrl` or `httpUrl`. All of it is read here; comments and trailing commas
(JSONC) too. What a host keeps beside that (`alwaysAllow`, `trust`, ...) is its own business and is passed over.
"""

import json
import re
from difflib import get_close_matches
from typing import Any, Final

from msgspec import Struct

from config.names import derive_ids
from config.schema import UpstreamConfig
from config.source import Keys, Problem

ROOTS: Final = ("mcpServers", "servers", "context_servers", "mcp_servers", "mcp", "extensions")
SPELLINGS: Final = {
    "command": ("command", "cmd"),
    "env": ("env", "environment", "envs"),
    "url": ("url", "serverUrl", "httpUrl", "uri"),
    "headers": ("headers", "http_headers", "httpHeaders"),
    "args": ("args",),
    "cwd": ("cwd",),
}
"""Our settings and what hosts call them."""
TRANSPORTS: Final = {
    **dict.fromkeys(("stdio", "local", "command"), "stdio"),
    **dict.fromkeys(("http", "streamablehttp"), "http"),
    **dict.fromkeys(("remote", "auto", "url"), "auto"),
    "sse": "sse",
}
"""Spellings of `type`, without case, dashes and underscores."""
OWN: Final = frozenset(UpstreamConfig.__struct_fields__) - SPELLINGS.keys() - {"transport", "disabled"}
"""Settings that only hubd has, usable in a JSON file as well: all but those that hosts have a word of their own for."""
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|//[^\n]*|/\*.*?\*/', re.S)
_TRAILING = re.compile(r'"(?:[^"\\]|\\.)*"|,(?=\s*[}\]])', re.S)


class Table(Struct, frozen=True):
    """One upstream as the file has it: its id, the keys that lead to it, and its settings by our names."""

    name: str
    keys: Keys
    values: dict[str, Any]
    warnings: tuple[str, ...] = ()


def parse(text: str) -> list[Table]:
    """The servers of a host's file, in its order. Entries that start hubd itself are left out.

    Raises:
        Problem: it is not JSON, or holds no servers in any known form.
    """
    root, entries = _entries(_decode(text))
    kept = {name: entry for name, entry in entries.items() if not _is_ourselves(entry)}
    ids = derive_ids(kept)
    tables = []
    for name, entry in kept.items():
        keys = (*root, name)
        if not isinstance(entry, dict):
            raise Problem(keys, "expected an object with `command` or `url`")
        warnings = [] if ids[name] == name else [f'"{name}" is called "{ids[name]}" here, a name that all hosts accept']
        tables.append(Table(ids[name], keys, _normalised(entry, keys, warnings), tuple(warnings)))
    return tables


def _decode(text: str) -> Any:
    """JSON with comments and trailing commas; blanked, so that lines and columns stay."""
    plain = _TOKEN.sub(lambda match: match[0] if match[0][0] == '"' else re.sub(r"[^\n]", " ", match[0]), text)
    plain = _TRAILING.sub(lambda match: match[0] if match[0][0] == '"' else " ", plain)
    try:
        return json.loads(plain)
    except json.JSONDecodeError as error:
        raise Problem((), f"is not JSON at column {error.colno}: {error.msg}", line=error.lineno) from None
    except RecursionError:
        raise Problem((), "is not JSON anyone wrote: it is nested too deeply") from None


def _entries(document: Any) -> tuple[Keys, dict[str, Any]]:
    """The mapping of server names to entries, and the keys that lead to it."""
    if isinstance(document, dict):
        for key in ROOTS:
            found = document.get(key)
            if not isinstance(found, dict):
                continue
            if key == "mcp" and isinstance(found.get("servers"), dict):  # VS Code's settings.json
                return (key, "servers"), found["servers"]
            return (key,), found
        if document and all(_looks_like_entry(value) for value in document.values()):
            return (), document
    raise Problem((), 'holds no servers: expected {"mcpServers": {"NAME": {"command": ...}}}')


def _looks_like_entry(value: Any) -> bool:
    return isinstance(value, dict) and any(key in value for key in (*SPELLINGS["command"], *SPELLINGS["url"]))


def _is_ourselves(entry: Any) -> bool:
    """Whether a host's entry starts the hub: it would become its own upstream."""
    if not isinstance(entry, dict):
        return False
    command, args = entry.get("command"), entry.get("args")
    argv = command if isinstance(command, list) else [command, *(args if isinstance(args, list) else [])]
    return len(argv) > 1 and str(argv[0]).rpartition("/")[2] == "hubd" and argv[1] in ("connect", "serve")


def _normalised(entry: dict[str, Any], keys: Keys, warnings: list[str]) -> dict[str, Any]:
    """The entry by our names; `warnings` gets what is lost."""
    values: dict[str, Any] = {}
    for ours, spellings in SPELLINGS.items():
        given = [spelling for spelling in spellings if entry.get(spelling) is not None]
        if len(given) > 1:
            raise Problem((*keys, given[1]), f"says the same as `{given[0]}`; keep one of them")
        if given:
            values[ours] = entry[given[0]]
    if "command" not in values and "url" not in values:
        _refuse_bare(entry, keys)
    _split_command(values, keys)
    for setting in ("env", "headers"):
        if isinstance(values.get(setting), dict):
            values[setting] = {name: _text(value) for name, value in values[setting].items()}
    _choose_transport(entry, values, keys)
    if entry.get("disabled") is True or entry.get("enabled") is False:
        values["disabled"] = True
    if entry.get("envFile"):
        warnings.append(f'"{keys[-1]}": envFile is not read; write its variables under env')
    values.update((key, value) for key, value in entry.items() if key in OWN)
    assert values.keys() <= set(UpstreamConfig.__struct_fields__)
    return values


def _refuse_bare(entry: dict[str, Any], keys: Keys) -> None:
    near = next((key for key in entry if get_close_matches(key, ("command", "url", "serverUrl", "httpUrl"))), None)
    hint = "" if near is None else f'; is "{near}" meant to be one of them?'
    raise Problem(keys if near is None else (*keys, near), f"a server has `command` or `url`{hint}")


def _split_command(values: dict[str, Any], keys: Keys) -> None:
    """Some hosts write command and arguments as one list (OpenCode), or all three in one object (older Zed)."""
    command = values.get("command")
    if isinstance(command, dict):
        values["command"] = command.get("path")
        values["args"] = command.get("args", [])
        values.setdefault("env", command.get("env") or {})
    elif isinstance(command, list):
        if not command:
            raise Problem((*keys, "command"), "is empty; name the program to start")
        rest = values.get("args", [])
        values["command"] = command[0]
        values["args"] = command[1:] + (rest if isinstance(rest, list) else [rest])


def _text(value: Any) -> Any:
    """Hosts take numbers and booleans in an environment; as text, like JSON writes them."""
    return json.dumps(value) if isinstance(value, bool | int | float) else value


def _choose_transport(entry: dict[str, Any], values: dict[str, Any], keys: Keys) -> None:
    """Set `transport` from the entry's type. When a command and a URL are both there, the type decides."""
    spelled = next((key for key in ("type", "transport", "transportType") if isinstance(entry.get(key), str)), None)
    if spelled is None:
        return
    transport = TRANSPORTS.get(re.sub(r"[-_ ]", "", entry[spelled].lower()))
    if transport is None:
        raise Problem((*keys, spelled), f'"{entry[spelled]}" is not supported; write "stdio", "http" or "sse"')
    if "command" in values and "url" in values:
        for setting in ("url", "headers") if transport == "stdio" else ("command", "args", "env", "cwd"):
            values.pop(setting, None)
    if "url" in values and transport != "stdio":
        values["transport"] = transport
