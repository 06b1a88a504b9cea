"""Near duplicates: servers that are probably one and the same, though hosts start or reach them in different ways; only
the user can settle that. Pure.

Entries that are equal in all that counts are one server anyway (`host_servers.identity`). Near ones differ: in options
of one package, in its version, in the path of one site, in being reached by URL here and by a program there.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlsplit

from msgspec import Struct

from config.hosts.host_servers import Server
from config.hosts.unwrap_proxies import bare, package_of, program_of, python_tool, unwrap, words_of
from config.loading.parse_addresses import is_loopback
from config.settings import UpstreamConfig

_PYPI_VALUES = frozenset(("--with", "--python", "-p", "--index", "--index-url", "-i", "--directory", "--pip-args"))
_IMAGE_VALUES: Final = frozenset(
    (
        *("-e", "--env", "--env-file", "-v", "--volume", "--mount", "--name", "--network", "--net", "-p", "--publish"),
        *("-w", "--workdir", "-u", "--user", "--entrypoint", "--platform", "-l", "--label", "--add-host", "--pull"),
        *("-m", "--memory", "--cpus", "--gpus", "-h", "--hostname"),
    )
)
_PYPI_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_RUNS_IMAGES: Final = ("docker", "podman", "nerdctl")


class NearDuplicates(Struct, frozen=True):
    """Servers of which one is perhaps enough."""

    servers: tuple[tuple[str, Server], ...]
    """Servers of hosts with the hub's names, as they were found; several of one name are one server."""
    names: tuple[str, ...]
    """All names in the hub, each once: first those that it has already."""
    why: str
    """The thing that they have in common, such as `the package @playwright/mcp`."""


class _Entry(Struct, frozen=True):
    """A server of a host, or of the hub."""

    name: str
    title: str
    """Its name there."""
    host: str
    values: Mapping[str, Any]


def near_duplicates(
    servers: Iterable[tuple[str, Server]], present: Mapping[str, UpstreamConfig] = {}
) -> list[NearDuplicates]:
    """Groups of servers that run the same package, are reached at the same host, or have the same name in several
    hosts. `servers` have the names that the hub has, or would have, for them; `present` are those that it has."""
    servers = list(servers)
    entries = [_Entry(name, name, "hubd", start_of(upstream)) for name, upstream in present.items()]
    entries += [_Entry(name, server.name, server.place.host.id, server.values) for name, server in servers]
    order = list(dict.fromkeys(entry.name for entry in entries))
    groups: list[tuple[set[str], str]] = []
    for why, names in _alike(entries):
        if len(names) < 2:
            continue
        joined = [group for group in groups if group[0] & names]
        groups = [group for group in groups if group not in joined]
        groups.append((names.union(*(group[0] for group in joined)), joined[0][1] if joined else why))
    found = []
    for names, why in sorted(groups, key=lambda group: min(map(order.index, group[0]))):
        of_hosts = tuple(each for each in servers if each[0] in names)
        if not {name for name, _ in of_hosts} <= present.keys():  # else it was decided earlier
            found.append(NearDuplicates(of_hosts, tuple(sorted(names, key=order.index)), why))
    return found


def start_of(upstream: UpstreamConfig) -> dict[str, Any]:
    """The settings by which a server of the hub is started or reached."""
    return {"command": upstream.command, "args": list(upstream.args), "url": upstream.url}


def _alike(entries: Sequence[_Entry]) -> list[tuple[str, set[str]]]:
    """The things that servers have in common, and the names of those that have it; the surest first."""
    found: dict[tuple[str, frozenset[str]], set[str]] = {}
    things = [(why, _operands(each.values), each.name) for each in entries for why in _packages(each.values)]
    things += [(why, frozenset(), each.name) for each in entries for why in _sites(each.values)]
    for why, operands, name in things:
        found.setdefault((why, operands), set()).add(name)
    for title in dict.fromkeys(entry.title for entry in entries):
        namesakes = [entry for entry in entries if entry.title == title]
        if len({entry.host for entry in namesakes}) > 1:
            found.setdefault((f"the name {title}", frozenset()), set()).update(entry.name for entry in namesakes)
    return [(why, names) for (why, _), names in found.items()]


def _operands(values: Mapping[str, Any]) -> frozenset[str]:
    """The folders and addresses among the arguments: one package serves each of them as a server of its own."""
    words = [word for word in values.get("args") or () if isinstance(word, str)]
    return frozenset(word for word in words if word.startswith(("/", "~", "./", "../", "$")) or "://" in word)


def _sites(values: Mapping[str, Any]) -> Iterator[str]:
    """The host of the URL of a server, also behind a program that only passes it on; on this machine with its port."""
    url = (unwrap(values) or values).get("url")
    try:
        parts = urlsplit(url if isinstance(url, str) else "")
        host, port = parts.hostname or "", parts.port
    except ValueError:
        return
    if host and "$" not in host:
        yield f"the address {host}:{port}" if is_loopback(host) and port else f"the address {host}"


def _packages(values: Mapping[str, Any]) -> Iterator[str]:
    """The package or image that a server runs, without its version."""
    words = words_of(values)
    if words and unwrap(values) is None and (found := _package(words)) is not None:
        yield f"the {found[0]} {found[1]}"


def _package(words: list[str]) -> tuple[str, str] | None:
    npm = package_of(words)
    if npm is not None:
        return ("package", bare(npm[0])) if not npm[0].startswith((".", "/", "~", "git", "http", "file:")) else None
    if (tool := python_tool(words)) is not None:
        return _pypi(_first(tool, _PYPI_VALUES, ("--from", "--spec")))
    program, rest = program_of(words[0]), words[1:]
    if re.fullmatch(r"python[0-9.]*", program) and "-m" in rest[:-1]:
        return _pypi(rest[rest.index("-m") + 1])
    if program in _RUNS_IMAGES and rest[:1] == ["run"]:
        image = _first(rest[1:], _IMAGE_VALUES)
        name, _, tag = image.partition("@")[0].rpartition(":")
        return ("image", name if name and "/" not in tag else image.partition("@")[0]) if image else None
    return None


def _first(words: Sequence[str], values: frozenset[str], named: Sequence[str] = ()) -> str:
    """The first argument behind the options, or the value of an option in `named`; `values` have one, too."""
    rest = list(words)
    while rest and rest[0].startswith("-"):
        option, equals, value = rest.pop(0).partition("=")
        if option in named:
            return value if equals else rest[0] if rest else ""
        if option in values and not equals and rest:
            rest.pop(0)
    return rest[0] if rest else ""


def _pypi(word: str) -> tuple[str, str] | None:
    found = _PYPI_NAME.match(word)
    if found is None or word.startswith(("git+", "http", "file:")) or "/" in word:
        return None
    return "package", re.sub(r"[-_.]+", "-", found[0]).lower().rstrip("-")
