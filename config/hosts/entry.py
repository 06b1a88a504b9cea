"""Our entry in the file of a host: making it, and recognizing it. Pure.

A host that the desktop started knows nothing of what a shell has set. So whatever leads this shell's hub elsewhere than
to the usual directories has to stand in the entry (`carried`):

- `HUBD_RUNTIME_DIR`, where the sockets are, also in place of an `XDG_RUNTIME_DIR` that is not the usual one: that means
  more to more programs, and the login sets it for hosts and shells alike;
- `XDG_CONFIG_HOME` and `XDG_STATE_HOME`, since the first host starts the hub, which is to be the same one that this
  shell would start.

These are names of directories. No other variable is carried, whatever the configuration refers to: secrets belong in
`hubd.env`.
"""

import os
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from config import directories
from config.hosts.facts import KnownHost
from config.loading.host_files import command_of, hubd_command

KEY: Final = "hub"
"""The name of our entry in every host."""


def stdio_entry(
    host: KnownHost, hubd: str, variables: Mapping[str, str] = {}, *, upstream: str = "", key: str = KEY
) -> dict[str, Any]:
    """The entry that starts `hubd connect` for `host`, with these variables set for it. `upstream`: for that server
    alone, under its own tool names; `key` is the name of the entry."""
    chosen = ["--upstream", upstream] if upstream else []
    values = {"command": hubd, "args": ["connect", *chosen, "--host", host.id], "name": key}
    entry: dict[str, Any] = _fill(host.stdio, values)
    return entry | {host.environment: dict(variables)} if variables else entry


def http_entry(
    host: KnownHost, url: str, token: str | None, *, upstream: str = "", key: str = KEY
) -> dict[str, Any] | None:
    """The entry that reaches the hub at `url`; None: the host takes no URLs. Without a token there is no header.
    `upstream`, `key`: as for `stdio_entry`."""
    if host.http is None:
        return None
    url = f"{url}/{upstream}" if upstream else url
    values = {"url": url, "authorization": None if token is None else f"Bearer {token}", "name": key}
    entry: dict[str, Any] = _fill(host.http, values)
    return entry


def variables_of(host: KnownHost, entry: Any) -> dict[str, str]:
    """The variables that an entry sets for what it starts."""
    found = entry.get(host.environment) if isinstance(entry, dict) else None
    if isinstance(entry, dict) and isinstance(entry.get("command"), dict):  # older Zed
        found = entry["command"].get("env")
    return {str(name): str(value) for name, value in found.items()} if isinstance(found, dict) else {}


def url_of(entry: Any) -> str | None:
    """The URL that an entry reaches."""
    found = [entry.get(key) for key in ("url", "serverUrl", "httpUrl", "uri")] if isinstance(entry, dict) else []
    return next((url for url in found if isinstance(url, str)), None)


def starts_connect(entry: Any) -> bool:
    """True if an entry is one of ours: it starts `hubd connect`."""
    return hubd_command(entry) == "connect"


def upstream_of(entry: Any) -> str:
    """The server that one of our entries is for; "": all, or it is none of ours."""
    words = command_of(entry) if starts_connect(entry) else []
    return next((after for word, after in pairwise(words) if word == "--upstream"), "")


def _fill(template: Any, values: Mapping[str, Any]) -> Any:
    if isinstance(template, dict):
        filled = {key: _fill(each, values) for key, each in template.items()}
        return {key: each for key, each in filled.items() if each not in (None, {}) or template[key] == {}}
    if isinstance(template, list):
        parts = [_fill(each, values) for each in template]
        return [word for part in parts for word in (part if isinstance(part, list) else [part])]
    if isinstance(template, str) and template.startswith("{"):
        return values[template[1:-1]]
    return template


def variables_to_carry(environ: Mapping[str, str], home: Path) -> dict[str, str]:
    """The variables that lead a program which has no others to the same hub as `environ` does."""
    found = {}
    known = dict(environ)
    runtime = directories.runtime_dir(known)
    if runtime not in (directories.runtime_dir({}), f"/run/user/{os.getuid()}/hubd"):
        found["HUBD_RUNTIME_DIR"] = runtime
    for variable, usual in (("XDG_CONFIG_HOME", ".config"), ("XDG_STATE_HOME", ".local/state")):
        value = directories.absolute(variable, known)
        if value not in (None, f"{home}/{usual}"):
            found[variable] = str(value)
    return found
