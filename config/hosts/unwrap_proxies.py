"""Unwrap proxies, programs that only pass on what a remote server says: the server itself can be had, by its URL. Pure.

Hosts that take no URLs start `npx mcp-remote URL` and its like, one process of Node for each server and host. Such a
command is taken apart only if every word of it is understood.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

RUNNERS: Final = {
    "npx": ((), ("-y", "--yes", "-q", "--quiet", "--prefer-online", "--prefer-offline")),
    "bunx": ((), ("-y", "--bun")),
    "pnpm": (("dlx",), ()),
    "yarn": (("dlx",), ("-q",)),
    "bun": (("x",), ("-y", "--bun")),
    "npm": (("exec",), ("-y", "--yes", "--")),
    "pnpx": ((), ()),
}
"""Package runners: the words that follow them, and the options that change nothing."""
_SHELLS: Final = (("cmd", "/c"), ("cmd.exe", "/c"))
_HEADER = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+):\s*(.*)", re.S)
_REFERENCE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_SWITCHES: Final = frozenset({"--allow-http", "--debug", "--silent", "--enable-proxy"})
_CLIENT: Final = frozenset({"--static-oauth-client-info", "--static-oauth-client-metadata"})
_VALUED: Final = frozenset({"--header", "--transport", "--host", "--auth-timeout", "--resource"}) | _CLIENT
"""Options of mcp-remote that the hub does without or has something for."""
_KNOWN: Final = _SWITCHES | _VALUED - _CLIENT
_TRANSPORTS: Final = {"sse-only": "sse", "http-only": "http", "http-first": "auto", "sse-first": "auto"}


def unwrap(values: Mapping[str, Any]) -> dict[str, Any] | None:
    """The settings of an upstream that starts such a program, as those of the server behind it; None: it is none."""
    packaged = _package(values)
    if packaged is None or (found := _PACKAGES[packaged[0]](packaged[1])) is None:
        return None
    env = values.get("env") or {}
    if "headers" in found:  # the program puts variables of its environment into them
        found["headers"] = {
            name: _REFERENCE.sub(lambda match: str(env.get(match[1], match[0])), value)
            for name, value in found["headers"].items()
        }
    kept = {name: value for name, value in values.items() if name not in ("command", "args", "env", "cwd")}
    return {**kept, **found}


def what_keeps_it(values: Mapping[str, Any]) -> str:
    """The option for which mcp-remote stays in between, since the hub has nothing like it; "": there is none, or the
    program is another one."""
    name, words = _package(values) or ("", [])
    if name != "mcp-remote" or unwrap(values) is not None:
        return ""
    return next((word.partition("=")[0] for word in words if word.startswith("--") and word not in _KNOWN), "")


def words_of(values: Mapping[str, Any]) -> list[str]:
    """The command and its arguments; []: they are no texts, or there is no command."""
    words = [values.get("command"), *(values.get("args") or ())]
    return [str(word) for word in words] if all(isinstance(word, str) for word in words) else []


def package_of(words: Sequence[str]) -> tuple[str, list[str]] | None:
    """The package that a runner is told to run, with its version, and the arguments for it; None: it is no runner."""
    words = list(words)
    if tuple(words[:2]) in _SHELLS:
        words = words[2:]
    if not words:
        return None
    runner, rest = words[0].replace("\\", "/").rpartition("/")[2].removesuffix(".cmd"), words[1:]
    if runner not in RUNNERS:
        return None
    must, may = RUNNERS[runner]
    if tuple(rest[: len(must)]) != must:
        return None
    rest = rest[len(must) :]
    while rest and rest[0] in may:
        rest = rest[1:]
    if not rest or rest[0].startswith("-"):
        return None
    return rest[0], rest[1:]


def bare(package: str) -> str:
    """A package's name without its version."""
    at = package.rfind("@")
    return package[:at] if at > 0 else package


def python_tool(words: Sequence[str]) -> list[str] | None:
    """The arguments of `uvx`, `uv tool run` or `pipx run`; None: it is another program."""
    program = program_of(words[0])
    for runner, must in (("uvx", []), ("uv", ["tool", "run"]), ("pipx", ["run"])):
        if program == runner and list(words[1 : len(must) + 1]) == must:
            return list(words[len(must) + 1 :])
    return None


def program_of(command: str) -> str:
    """The name of a program, without its place."""
    return command.replace("\\", "/").rpartition("/")[2].removesuffix(".exe")


def _package(values: Mapping[str, Any]) -> tuple[str, list[str]] | None:
    words = words_of(values)
    if not words:
        return None
    package, rest = package_of(words) or (words[0].rpartition("/")[2], words[1:])
    return (bare(package), rest) if bare(package) in _PACKAGES else None


def _mcp_remote(words: list[str]) -> dict[str, Any] | None:
    """`mcp-remote URL [PORT] [--header NAME:VALUE] [--transport KIND] ...`"""
    url, port, headers, given = "", "", {}, dict[str, str]()
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if word in _SWITCHES:
            continue
        if word in _VALUED:
            if not rest:
                return None
            value = rest.pop(0)
            if word != "--header":
                given[word] = value
            elif (match := _HEADER.fullmatch(value)) is None:
                return None
            else:
                headers[match[1]] = match[2]
        elif not url and word.startswith(("https://", "http://")):
            url = word
        elif url and word.isdigit():
            port = word
        else:
            return None
    transport, oauth = _TRANSPORTS.get(given.get("--transport", "http-first")), _sign_in(given, port)
    if transport is None or oauth is None:
        return None
    found = _server(url, headers, transport)
    return {**found, "oauth": oauth} if found is not None and oauth else found


def _sign_in(given: Mapping[str, str], port: str) -> dict[str, Any] | None:
    """The way in which it signs in, as settings of the hub; None: the hub has nothing like it."""
    found: dict[str, Any] = {}
    if "--static-oauth-client-info" in given:
        client = _members(given["--static-oauth-client-info"], "client_id")
        if client is None or not port:  # a secret needs its issuer, and a registration its redirect URI
            return None
        found |= {**client, "redirect_uri": f"http://{given.get('--host', 'localhost')}:{port}/oauth/callback"}
    if "--static-oauth-client-metadata" in given:
        metadata = _members(given["--static-oauth-client-metadata"], "scope")
        if metadata is None:
            return None
        found["scopes"] = metadata["scope"].split()
    if "--resource" in given:
        found["resource"] = given["--resource"]
    return found


def _members(text: str, only: str) -> dict[str, str] | None:
    """The object in `text` if it has this one member and that is a text; None: it is anything else."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) and [*value] == [only] and isinstance(value[only], str) else None


def _supergateway(words: list[str]) -> dict[str, Any] | None:
    """`supergateway --sse URL` or `--streamableHttp URL`, which are turned into stdio."""
    url, headers, transport = "", {}, "auto"
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if not rest:
            return None
        value = rest.pop(0)
        if word in ("--sse", "--streamableHttp") and not url:
            url, transport = value, "sse" if word == "--sse" else "http"
        elif word == "--header" and (match := _HEADER.fullmatch(value)):
            headers[match[1]] = match[2]
        elif word == "--oauth2Bearer":
            headers["Authorization"] = f"Bearer {value}"
        elif word != "--logLevel" and (word, value) != ("--outputTransport", "stdio"):
            return None
    return _server(url, headers, transport)


def _server(url: str, headers: dict[str, str], transport: str) -> dict[str, Any] | None:
    found = {"url": url, "headers": headers, "transport": "" if transport == "auto" else transport}
    return {setting: value for setting, value in found.items() if value} if url else None


_PACKAGES: Final = {"mcp-remote": _mcp_remote, "supergateway": _supergateway}
