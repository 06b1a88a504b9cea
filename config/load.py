"""A configuration file becomes a `HubConfig`, or one `ConfigError` that says where it is wrong and what to write.

A file passes through four steps: text (`source`), upstream tables by name (here for TOML, `mcpservers` for JSON),
values with variables expanded and converted, and a check of what types cannot say (`check`). Each upstream is converted
apart, since msgspec does not name the key of a mapping in its errors. Problems carry keys; the line is looked up last.
"""

import logging
import os
import re
import tomllib
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final, Literal, TypeVar, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Struct

from config import mcpservers
from config.check import check_hub, check_names, check_upstream
from config.paths import config_file
from config.schema import ConfigError, HubConfig, Remark, Restart, Secret, Timeouts, UpstreamConfig, dotted
from config.source import Keys, Problem, line_of_json, line_of_toml, read
from config.variables import Unresolved, Variables

log = logging.getLogger("hubd.config")

EXPANDED: Final = ("command", "args", "env", "cwd", "url", "headers")
"""The settings in which variables are replaced."""
INSTEAD: Final = {
    **dict.fromkeys(
        ("mcpServers", "mcp_servers", "mcpservers", "servers", "context_servers", "server", "mcp"), "upstreams"
    ),
    **dict.fromkeys(("cmd", "program", "executable"), "command"),
    **dict.fromkeys(("environment", "envs", "environ"), "env"),
    **dict.fromkeys(("serverUrl", "httpUrl", "uri", "endpoint"), "url"),
    **dict.fromkeys(("http_headers", "httpHeaders"), "headers"),
    **dict.fromkeys(("workdir", "directory"), "cwd"),
    **dict.fromkeys(("enabled", "disable"), "disabled"),
    **dict.fromkeys(("timeout", "timeout_s", "startup_timeout_sec", "tool_timeout_sec"), "timeouts"),
    **dict.fromkeys(("host", "port", "address", "bind"), "listen"),
    "type": "transport",
    "authentication": "auth",
}
"""What other programs call our settings."""

T = TypeVar("T", bound=Struct)


def find_config(named: Path | None) -> Path | None:
    """The file to load: the one that was named, else the user's own if there is one.

    A dangling link counts as a file: `load` will say that it cannot be read.
    """
    if named is not None:
        return named
    path = config_file()
    return path if os.path.lexists(path) else None


def load(path: Path | None, environ: Mapping[str, str]) -> HubConfig:
    """Read and check `path`: TOML, or any host's JSON when it ends in .json or .jsonc. None: a hub with no upstreams.

    Raises:
        ConfigError: with file, line or key, and what to write instead.
    """
    if path is None:
        return HubConfig()
    path = Path(os.path.abspath(path.expanduser()))
    text = read(path)
    is_json = path.suffix in (".json", ".jsonc")
    try:
        tables, settings = (mcpservers.parse(text), {}) if is_json else _parse_toml(text)
        config, warnings = _assemble(tables, settings, Variables(_environ(environ, is_json), path.parent))
    except Problem as problem:
        line = problem.line or (line_of_json if is_json else line_of_toml)(text, problem.keys)
        raise ConfigError.of([Remark(path, line, problem.keys, str(problem))]) from None
    for warning in warnings:
        log.warning("%s: %s", path, warning)
    if not config.upstreams:
        log.warning("%s: names no upstreams; add [upstreams.NAME] with `command` or `url`", path)
    return config


def _environ(environ: Mapping[str, str], is_json: bool) -> Mapping[str, str]:
    """With the variables that hosts provide beside the environment."""
    return {"userHome": os.path.expanduser("~"), **environ} if is_json else environ


def _parse_toml(text: str) -> tuple[list[mcpservers.Table], dict[str, Any]]:
    try:
        settings = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        at = re.search(r"\(at line (\d+), column (\d+)\)", str(error))
        reason = re.sub(r"\s*\(at .*\)$", "", str(error))
        line = int(at[1]) if at else text.count("\n") + 1
        raise Problem((), f"is not TOML at {f'column {at[2]}' if at else 'its end'}: {reason}", line=line) from None
    tables = settings.pop("upstreams", {})
    if not isinstance(tables, dict):
        raise Problem(("upstreams",), "expected tables: write [upstreams.NAME]")
    found = []
    for name, values in tables.items():
        if not isinstance(values, dict):
            raise Problem(("upstreams", name), "a server needs a name of its own: write [upstreams.NAME] above this")
        found.append(mcpservers.Table(name, ("upstreams", name), values))
    return found, settings


# --- values -----------------------------------------------------------------------------------------------------------


def _assemble(
    tables: list[mcpservers.Table], settings: dict[str, Any], variables: Variables
) -> tuple[HubConfig, list[str]]:
    """The whole configuration, checked, and what to warn about."""
    config = _convert(settings, HubConfig, ())
    check_hub(config)
    upstreams: dict[str, UpstreamConfig] = {}
    for table in tables:
        upstreams[table.name] = _upstream(table, variables)
    warnings = [warning for table in tables for warning in table.warnings]
    for table in tables:
        check_upstream(table.keys, upstreams[table.name])
    named = [(table.name, table.keys, upstreams[table.name]) for table in tables]
    warnings += [f"{dotted(keys)}: {text}" for keys, text in check_names(named)]
    return msgspec.structs.replace(config, upstreams=upstreams), warnings


def _upstream(table: mcpservers.Table, variables: Variables) -> UpstreamConfig:
    values = dict(table.values)
    for setting in EXPANDED if values.get("disabled") is not True else ():
        if setting in values:
            values[setting] = _expanded(values[setting], (*table.keys, setting), variables)
    upstream = _convert(values, UpstreamConfig, table.keys)
    return _with_absolute_paths(upstream, variables.directory)


def _expanded(value: Any, keys: Keys, variables: Variables) -> Any:
    """`value` with variables replaced in its strings; anything else is left for the conversion to refuse."""
    if isinstance(value, dict):
        return {name: _expanded(item, (*keys, name), variables) for name, item in value.items()}
    if isinstance(value, list):
        return [_expanded(item, keys, variables) for item in value]
    if not isinstance(value, str):
        return value
    try:
        return variables.expand(value)
    except Unresolved as error:
        raise Problem(keys, str(error)) from None


def _with_absolute_paths(upstream: UpstreamConfig, directory: Path) -> UpstreamConfig:
    """Paths mean the same wherever the daemon was started: relative ones are relative to the file.

    So does a child's own idea of where it is: without `cwd` it runs in the directory of the file.
    """
    command, cwd = upstream.command, upstream.cwd
    if cwd is not None or command is not None:
        cwd = str(directory / os.path.expanduser(cwd or ""))
    if command is not None and "/" in command:
        command = str(Path(cwd or directory) / os.path.expanduser(command))
    return msgspec.structs.replace(upstream, command=command, cwd=cwd)


# --- conversion -------------------------------------------------------------------------------------------------------

_EXPECTED = re.compile(r"Expected `(?P<wanted>[^`]+)`(?: \| null)?, got `(?P<got>[^`]+)`")
_PATH = re.compile(r" - at `\$(?P<path>[^`]*)`$")
_WORDS: Final = {
    "str": "text in quotes",
    "str | null": "text in quotes",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "array": "a list",
    "object": "a table",
    "null": "nothing",
}


def _convert(values: dict[str, Any], type: type[T], keys: Keys) -> T:
    """`values` as `type`; a problem names the key.

    Raises:
        Problem: an unknown key, or a value of another type.
    """
    _refuse_unknown(values, type, keys)
    if isinstance(values.get("timeouts"), dict):
        _refuse_unknown(values["timeouts"], Timeouts, (*keys, "timeouts"))
    if isinstance(values.get("restart"), dict):
        _refuse_unknown(values["restart"], Restart, (*keys, "restart"))
    for setting in ("env", "headers"):
        if isinstance(values.get(setting), dict):
            _refuse_other_than_text(values[setting], (*keys, setting))
    try:
        return msgspec.convert(values, type, dec_hook=_secret)
    except msgspec.ValidationError as error:
        raise _explained(str(error), type, keys) from None


def _secret(type: type, value: Any) -> Any:
    if type is Secret and isinstance(value, str):
        return Secret(value)
    raise NotImplementedError(f"no conversion to {type.__name__}")


def _refuse_unknown(values: dict[str, Any], type: type[Struct], keys: Keys) -> None:
    known = type.__struct_fields__
    for key in values:
        if key in known:
            continue
        instead = INSTEAD.get(key)
        near = [instead] if instead in known else get_close_matches(key, known, 1)
        if type is UpstreamConfig and key in HubConfig.__struct_fields__:
            raise Problem((*keys, key), "is a setting of the whole hub: in hubd.toml it stands above the first [table]")
        if type is HubConfig and key in UpstreamConfig.__struct_fields__:
            raise Problem((*keys, key), "is a setting of one upstream: write it below [upstreams.NAME]")
        hint = f'did you mean "{near[0]}"?' if near else f"known are: {', '.join(sorted(known))}"
        raise Problem((*keys, key), f"there is no such setting; {hint}")


def _refuse_other_than_text(values: dict[str, Any], keys: Keys) -> None:
    for name, value in values.items():
        if not isinstance(value, str):
            raise Problem((*keys, name), "expected text in quotes")


def _explained(message: str, type: type[Struct], keys: Keys) -> Problem:
    """msgspec's message in the words of the file."""
    found = _PATH.search(message)
    path = re.findall(r"[A-Za-z_]\w*", found["path"]) if found else []
    message = _PATH.sub("", message)
    if expected := _EXPECTED.match(message):
        wanted, got = (_WORDS.get(word, word) for word in (expected["wanted"], expected["got"]))
        message = f"expected {wanted}, not {got}"
        if expected["wanted"] == "str | array":
            message = f"must be {_choices(get_type_hints(type)[path[0]])}"
    elif message.startswith("Invalid enum value"):
        message = f"must be {_choices(get_type_hints(type)[path[0]])}"
    return Problem((*keys, *path), message)


def _choices(hint: Any) -> str:
    """What a setting of some words may be, or a list in their place."""
    if get_origin(hint) is Literal:
        return "one of " + ", ".join(f'"{choice}"' for choice in get_args(hint))
    return ", or ".join("a list" if get_origin(each) is tuple else _choices(each) for each in get_args(hint))
