"""Programs that only pass on what a remote server says: the server itself can be had, by its URL. Pure.

Hosts that take no URLs start `npx mcp-remote URL` and its like, one process of Node for each server and host. Such a
command is taken apart only if every word of it is understood.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlsplit

from config.loading.check import is_loopback

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
_TRANSPORTS: Final = {"sse-only": "sse", "http-only": "http", "http-first": "auto", "sse-first": "auto"}


def unwrapped(values: dict[str, Any]) -> dict[str, Any] | None:
    """The settings of an upstream that starts such a program, as those of the server behind it; None: it is none."""
    words = [values.get("command"), *(values.get("args") or ())]
    if not all(isinstance(word, str) for word in words):
        return None
    packaged = _package([str(word) for word in words])
    if packaged is None:
        return None
    package, rest = packaged
    found = _PACKAGES[package](rest)
    if found is None:
        return None
    env = values.get("env") or {}
    if "headers" in found:  # the program puts variables of its environment into them
        found["headers"] = {name: _filled(value, env) for name, value in found["headers"].items()}
    kept = {name: value for name, value in values.items() if name not in ("command", "args", "env", "cwd")}
    return {**kept, **found}


def is_as_good(values: Mapping[str, Any]) -> bool:
    """True if the hub can use, at its URL, the server that `unwrapped` found behind mcp-remote.

    mcp-remote signs in to servers that ask for OAuth, and the hub cannot: it would be refused where mcp-remote is not.
    So only what needs no signing in is taken out of it: what has headers of its own, and what listens on this machine.
    This rule goes when the hub has OAuth.
    """
    if values.get("headers"):
        return True
    try:
        return is_loopback(urlsplit(str(values.get("url"))).hostname or "")
    except ValueError:  # it is no URL, which is said elsewhere
        return False


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


def _package(words: list[str]) -> tuple[str, list[str]] | None:
    found = package_of(words)
    if found is None:
        found = words[0].rpartition("/")[2], words[1:]
    name = bare(found[0])
    return (name, found[1]) if name in _PACKAGES else None


def _mcp_remote(words: list[str]) -> dict[str, Any] | None:
    """`mcp-remote URL [PORT] [--header NAME:VALUE] [--transport KIND] ...`"""
    url, headers, transport = "", {}, "auto"
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if word in ("--allow-http", "--debug", "--silent", "--enable-proxy"):
            continue
        if word in ("--header", "--transport", "--host", "--auth-timeout", "--ignore-tool"):
            if not rest or word == "--ignore-tool":
                return None
            value = rest.pop(0)
            if word == "--header":
                if (match := _HEADER.fullmatch(value)) is None:
                    return None
                headers[match[1]] = match[2]
            elif word == "--transport":
                if value not in _TRANSPORTS:
                    return None
                transport = _TRANSPORTS[value]
        elif not url and word.startswith(("https://", "http://")):
            url = word
        elif not (url and word.isdigit()):
            return None
    return _server(url, headers, transport)


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
    if not url:
        return None
    found: dict[str, Any] = {"url": url}
    if headers:
        found["headers"] = headers
    if transport != "auto":
        found["transport"] = transport
    return found


def _filled(value: str, env: dict[str, Any]) -> str:
    return _REFERENCE.sub(lambda match: str(env.get(match[1], match[0])), value)


_PACKAGES: Final = {"mcp-remote": _mcp_remote, "supergateway": _supergateway}
