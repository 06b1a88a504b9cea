"""Translation of one server in a host's file to an upstream table with our setting names; see `translate_host_file`."""

import json
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Final, TypeGuard

from msgspec import Struct, structs

from config.diagnostics import Findings, Keys, Problem
from config.name_globs import problem_of
from config.secret_references import map_leaves
from config.server_names import fold
from config.setting_declarations import declarations
from config.settings import UpstreamConfig

SPELLINGS: Final = {
    "command": ("command", "cmd"),
    "args": ("args",),
    "env": ("env", "environment", "envs"),
    "cwd": ("cwd", "working_directory", "workingDirectory"),
    "url": ("url", "serverUrl", "httpUrl", "uri"),
    "headers": ("headers", "http_headers", "httpHeaders"),
}
"""The settings that hosts have, too, with their names for them."""
TRANSPORTS: Final = {
    **dict.fromkeys(("stdio", "local", "command"), "stdio"),
    **dict.fromkeys(("http", "streamablehttp"), "http"),
    **dict.fromkeys(("remote", "auto", "url"), "auto"),
    **dict.fromkeys(("ws", "websocket"), "ws"),
    "sse": "sse",
}
"""Spellings of `type`, without case, dashes and underscores."""
HOSTS_OWN: Final = frozenset((
    *("alwaysAllow", "autoApprove", "auth", "bundled", "config", "connectionTimeout", "default_tools_approval_mode"),
    *("description", "dev", "display_name", "enabled", "envFile", "env_file", "env_keys", "env_vars", "faviconUrl"),
    *("bearer_token_env_var", "env_http_headers", "gallery", "icon", "id", "metadata", "name", "oauth", "required"),
    *("requestOptions", "sandbox", "sandboxEnabled", "scopes", "settings", "source", "start_on_launch", "trust"),
    *("startup_timeout_ms", "startup_timeout_sec", "timeout", "tool_timeout_sec", "transport", "transportType"),
    *("type", "version", "watchPaths"),
))  # fmt: skip
"""Known keys of hosts that are no mistakes in writing."""
MILLISECONDS: Final = frozenset(("gemini", "opencode"))
SECONDS: Final = frozenset(("goose", "cline", "roo"))
"""Hosts by the unit of their `timeout`, where it is known."""
OUR_SETTINGS: Final = frozenset((
    *("prefix", "aliases", "era", "locality", "apps", "session_mode", "across_principals", "client_features", "roots"),
    *("tasks", "start", "idle_stop_s", "ping_s", "restart", "replace", "timeouts", "tool_timeouts", "cache"),
))  # fmt: skip
"""Settings of ours that count in a host's file. The list is closed: a host may mean something else by the name of a new
setting (many write `auth` or `sandbox`), and its file must not change its meaning with a version of hubd."""
NAMING: Final = ("enabled_tools", "enabledTools", "includeTools", "available_tools", "tools")
"""Keys by which hosts choose tools of a server: Codex, many (Windsurf, Kiro, Cline), Gemini CLI, Goose, Copilot CLI."""
TAKING_AWAY: Final = ("disabled_tools", "disabledTools", "excludeTools")
FILTERS: Final = frozenset((*NAMING, *TAKING_AWAY))
_EMPTY_IS_ALL: Final = ("available_tools", "tools")


def names_said(files: Iterable[Iterable["FieldTable"]]) -> Counter[str]:
    """The number of tables in all files that have or say each name, without case and kinds of dashes: as their own, as
    prefix or as alias."""
    found: Counter[str] = Counter()
    for table in (each for tables in files for each in tables):
        aliases = table.values.get("aliases")
        names = [table.name, table.values.get("prefix"), *(aliases if isinstance(aliases, list) else ())]
        found.update({fold(name) for name in names if isinstance(name, str)})
    return found


class FieldTable(Struct, frozen=True):
    """One upstream in a file: its id, the keys that lead to it, and its settings by our names."""

    name: str
    keys: Keys
    values: dict[str, Any]
    spelled: dict[str, str] = {}
    """The file's name for a setting, where it is not ours."""
    env_file: str | None = None
    """A file of variables for the program."""
    env_vars: tuple[str, ...] = ()
    """Variables of the hub's own environment that the program is given, if they are set."""
    former: str = ""
    """The id that earlier versions made of the host's name; "": the same."""

    def settle(self, said: Mapping[str, int], below: Collection[str] = ()) -> "FieldTable":
        """The table with its former id as an alias, given how many tables of all files say each name, and the names of
        upstreams of the layers below. If others mean it by its former id, or another by the new one, it keeps the
        former."""
        if not self.former:
            return self
        former, now = fold(self.former), fold(self.name)
        aliases = self.values.get("aliases", [])
        if now != former and (said.get(former) or said.get(now, 0) > 1 or former in map(fold, below)):
            return structs.replace(self, name=self.former, former="")
        if not isinstance(aliases, list):
            return self
        return structs.replace(self, values={**self.values, "aliases": [*aliases, self.former]}, former="")

    def __repr__(self) -> str:  # the values may be secrets
        return f"<Table {self.name}: {', '.join(self.values)}>"

    def place(self, path: Keys) -> Keys:
        """The keys of one of our settings as the file has them."""
        return (*self.keys, self.spelled.get(path[0], path[0]), *path[1:]) if path else self.keys


class HostEntry:
    """Turns one entry into a table."""

    def __init__(self, entry: dict[str, Any], keys: Keys, host: str, findings: Findings) -> None:
        self._entry = entry
        self._keys = keys
        self._host = host
        self._findings = findings
        self._values: dict[str, Any] = {}
        self._spelled: dict[str, str] = {}

    def table(self, name: str) -> FieldTable:
        """The entry by our names. Raises: Problem, if something in it makes no sense."""
        entry, values = self._entry, self._values
        self._rename()
        if "command" not in values and "url" not in values:
            self._refuse_bare()
        self._split_command()
        self._add_headers()
        self._choose_transport()
        self._choose_timeouts()
        for setting in ("env", "headers"):
            if isinstance(values.get(setting), dict):
                values[setting] = {name: _text(value) for name, value in values[setting].items()}
        if entry.get("disabled") is True or entry.get("enabled") is False:
            self._set("disabled", True, "disabled" if entry.get("disabled") is True else "enabled")
        self._choose_tools()
        values.update((key, value) for key, value in entry.items() if key in OUR_SETTINGS)
        values.update((key, _with_our_variables(values[key], self._host)) for key in SPELLINGS if key in values)
        self._mention_what_is_lost()
        files = (entry[key] for key in ("envFile", "env_file") if isinstance(entry.get(key), str))
        env_file = _with_our_variables(next(files, None), self._host)
        env_vars = tuple(self._env_vars())
        if env_file or env_vars:
            self._spelled.setdefault("env", "envFile" if "envFile" in entry else "env_vars")
        assert values.keys() <= declarations(UpstreamConfig).keys()
        return FieldTable(name, self._keys, values, self._spelled, env_file or None, env_vars)

    def _set(self, setting: str, value: Any, spelling: str) -> None:
        self._values[setting] = value
        if spelling != setting:
            self._spelled[setting] = spelling

    def _rename(self) -> None:
        for ours, spellings in SPELLINGS.items():
            given = [spelling for spelling in spellings if self._entry.get(spelling) is not None]
            if len(given) > 1:
                raise Problem((*self._keys, given[1]), f"says the same as `{given[0]}`; keep one of them")
            if given:
                self._set(ours, self._entry[given[0]], given[0])

    def _refuse_bare(self) -> None:
        from difflib import get_close_matches  # not above: it is large, and most hubs never need it

        words = ("command", "url", "serverUrl", "httpUrl")
        names = (key for key in self._entry if isinstance(key, str) and key not in HOSTS_OWN)
        near = next((name for name in names if get_close_matches(name, words)), None)
        hint = "" if near is None else f'; is "{near}" meant to be one of them?'
        raise Problem((*self._keys, near) if near else self._keys, f"a server has `command` or `url`{hint}")

    def _split_command(self) -> None:
        """Some hosts write command and arguments as one list (OpenCode), or all three in one object (older Zed)."""
        values, command = self._values, self._values.get("command")
        if isinstance(command, dict):
            values["command"] = command.get("path")
            values["args"] = command.get("args", [])
            values.setdefault("env", command.get("env") or {})
        elif isinstance(command, list):
            if not command:
                raise Problem((*self._keys, "command"), "is empty; name the program to start")
            rest = values.get("args", [])
            values["command"] = command[0]
            values["args"] = command[1:] + (rest if isinstance(rest, list) else [rest])

    def _add_headers(self) -> None:
        """Headers that hosts write elsewhere: Continue below `requestOptions`, Codex by the names of variables."""
        entry = self._entry
        added: dict[str, Any] = {}
        match entry.get("requestOptions"):
            case {"headers": dict(headers)}:
                added |= headers
        if isinstance(named := entry.get("env_http_headers"), dict):
            added |= {name: f"${{{variable}}}" for name, variable in named.items()}
        if isinstance(variable := entry.get("bearer_token_env_var"), str):
            added["Authorization"] = f"Bearer ${{{variable}}}"
        if added and "url" in self._values:
            given = self._values.get("headers", {})
            self._values["headers"] = {**given, **added} if isinstance(given, dict) else given

    def _env_vars(self) -> Iterator[str]:
        """Variables of the environment that a program may have: names (Codex, Goose), or objects with one."""
        for key in ("env_vars", "env_keys"):
            names = self._entry.get(key)
            for item in names if isinstance(names, list) else ():
                name = item.get("name") if isinstance(item, dict) else item
                if not isinstance(name, str) or not name:
                    raise Problem((*self._keys, key), "expected names of variables")
                yield name

    def _choose_transport(self) -> None:
        """From the entry's type. When a command and a URL are both there, the type decides."""
        entry, values = self._entry, self._values
        spelled = next((key for key in ("type", "transport", "transportType") if isinstance(entry.get(key), str)), None)
        if spelled is None:
            return
        transport = TRANSPORTS.get(re.sub(r"[-_ ]", "", entry[spelled].lower()))
        if transport is None:
            text = f'"{entry[spelled]}" is not supported; write "stdio", "http", "sse" or "ws"'
            raise Problem((*self._keys, spelled), text)
        if "command" in values and "url" in values:
            for setting in ("url", "headers") if transport == "stdio" else ("command", "args", "env", "cwd"):
                values.pop(setting, None)
        if "url" in values and transport != "stdio":
            self._set("transport", transport, spelled)

    def _choose_timeouts(self) -> None:
        found: dict[str, float] = {}
        for key, ours, unit in (
            ("startup_timeout_sec", "start", 1.0),
            ("startup_timeout_ms", "start", 0.001),
            ("tool_timeout_sec", "call", 1.0),
            ("connectionTimeout", "start", 0.001),
        ):
            if _is_duration(value := self._entry.get(key)):
                found[ours] = value * unit
                self._spelled["timeouts"] = key
        if _is_duration(value := self._entry.get("timeout")):
            if (scale := self._scale(value)) is None:
                text = f"ignored: {value:g} may be seconds or milliseconds;"
                self._findings.warn((*self._keys, "timeout"), f'{text} write "timeouts": {{"call": SECONDS}}')
            else:
                found["list" if self._host == "opencode" else "call"] = value * scale
                self._spelled["timeouts"] = "timeout"
        if found and "timeouts" not in self._entry:
            self._values["timeouts"] = found

    def _choose_tools(self) -> None:
        """From the host's choice. Where it both names tools and takes some away, what is taken away is gone."""
        named: list[str] | None = None
        taken_away: list[str] = []
        keys: list[str] = []
        for key in (*NAMING, *TAKING_AWAY):
            value = ["*"] if self._entry.get(key) == "*" else self._entry.get(key)
            if value is None:
                continue
            if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
                self._findings.warn((*self._keys, key), "ignored: expected names of tools")
                continue
            names = list(_names(value, key))
            if key in TAKING_AWAY:
                taken_away += names
            elif names or key not in _EMPTY_IS_ALL:
                named = [*(named or ()), *names]
            if names != ["*"] and (names or (named is not None and key in NAMING)):
                keys.append(key)
        tools = list(dict.fromkeys([*(named or ()), *(f"!{name}" for name in taken_away)]))
        if keys and (why := problem_of(tools)):
            self._findings.warn((*self._keys, keys[0]), f"ignored: {why}")
        elif keys:
            self._set("tools", tools, keys[0])

    def _scale(self, value: float) -> float | None:
        """Seconds per unit: the host's, else what the figure can only mean."""
        if self._host in MILLISECONDS:
            return 0.001
        if self._host in SECONDS or value < 1000:
            return 1.0
        return 0.001 if value >= 10_000 else None

    def _mention_what_is_lost(self) -> None:
        known = [*(word for spellings in SPELLINGS.values() for word in spellings), *OUR_SETTINGS]
        meant = {*known, *HOSTS_OWN, *FILTERS, "disabled"}
        for key in [each for each in self._entry if each not in meant]:
            from difflib import get_close_matches  # not above: it is large, and most hubs never need it

            if near := get_close_matches(key, known, 1, 0.75):
                self._findings.warn((*self._keys, key), f'ignored; did you mean "{near[0]}"?')


def _is_duration(value: Any) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and value > 0


def _text(value: Any) -> Any:
    """Hosts take numbers and booleans in an environment; as text, like JSON writes them."""
    return json.dumps(value) if isinstance(value, bool | int | float) else value


_SECRETS = re.compile(r"\$\{\{\s*secrets\.([A-Za-z_][A-Za-z0-9_]*)\s*\}\}")
_BRACES = re.compile(r"(?<!\$)\{(env|file):([^{}]*)\}")
_DOLLAR = re.compile(r"\$([A-Z_][A-Z0-9_]*)")


def _with_our_variables(value: Any, host: str) -> Any:
    """`value` with a host's way of naming variables replaced by ours, in all its strings."""

    def change(leaf: Any) -> Any:
        if not isinstance(leaf, str):
            return leaf
        leaf = _SECRETS.sub(r"${\1}", leaf)
        if host == "opencode":
            return _BRACES.sub(r"${\1:\2}", leaf)
        return _DOLLAR.sub(r"${\1}", leaf) if host == "gemini" else leaf

    return map_leaves(value, change)


def _names(value: list[str], key: str) -> Iterator[str]:
    """The names in a list. None begins with `!`, which would turn its meaning around."""
    for name in value:
        plain = name.partition("(")[0] if key in ("includeTools", "excludeTools") else name
        if plain and not plain.startswith("!"):
            yield plain
