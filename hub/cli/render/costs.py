"""`hubd tools --cost` and `--unused` as blocks of a screen, and a warning about hosts that are shown more than they
take."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import date
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import Raw, Struct

from config.loading.checks.profiles import OWN_LABEL
from config.server_names import ACCOUNT_MARK
from hub.catalog.token_cost import ShownCost, cost_of_view, text_bytes, tokens_of, tool_bytes
from hub.cli.render.blocks import Block, Cell, Table, paint
from hub.cli.render.words import about
from hub.control.answers import HostRow, LargestTool, Status, ToolUse, ToolUses, UpstreamRow, tokens_together

if TYPE_CHECKING:
    from config.hosts.known_hosts import KnownHost

NOT_KEPT: Final = "calls are not counted (`[usage] keep = false` in hubd.toml), so nobody knows what is unused"


def find_unused(uses: ToolUses, name: str | None = None) -> list[ToolUse]:
    """The tools, of all servers or of one, that no host called in the last days; by server, the most expensive first.
    []: too, if calls are not counted."""
    order = list(dict.fromkeys(each.server for each in uses.tools))
    found = [each for each in uses.tools if not each.calls and name in (None, each.server) and uses.since is not None]
    return sorted(found, key=lambda each: (order.index(each.server), -each.tokens))


def by_server(uses: ToolUses) -> dict[str, tuple[int, int]]:
    """Of each server whose tools are told, the number of those that nobody called, and their tokens."""
    found = {server: find_unused(uses, server) for server in dict.fromkeys(each.server for each in uses.tools)}
    return {server: (len(tools), tokens_together(tools)) for server, tools in found.items()}


def blocks_of_unused(uses: ToolUses, name: str | None = None) -> list[Block]:
    """The screen; `name`: of this server only."""
    if uses.since is None:
        return [NOT_KEPT]
    among = [each for each in uses.tools if name in (None, each.server)]
    shown = find_unused(uses, name)
    if not shown:
        return [f"every one of {len(among)} tools was called in the last {uses.days} days" if among else "no tools"]
    rows = [(paint(each.name, "name"), about(each.tokens), each.last) for each in shown]
    whole = f"{len(shown)} of {len(among)} tools, {about(tokens_together(shown))} tokens: not called "
    table = Table(("TOOL", "TOKENS", "LAST CALL"), rows, shorten=("TOOL",), drop=("LAST CALL",))
    return [table, "", f"{whole}{span(uses)}"]


def json_of_unused(uses: ToolUses, name: str | None = None) -> dict[str, Any]:
    """The same for programs."""
    members = ("name", "server", "tokens", "last")
    tools = [{member: getattr(each, member) for member in members} for each in find_unused(uses, name)]
    return {"since": uses.since, "days": uses.days, "tools": tools}


def span(uses: ToolUses) -> str:
    """The time that the record speaks of, to end a sentence."""
    days = days_of_counting(uses)
    if days >= uses.days:
        return f"for {uses.days} days"
    ago = {0: "today", 1: "yesterday"}.get(days, f"{days} days ago")
    return f"since {uses.since}, when the counting began ({ago})"


def days_of_counting(uses: ToolUses) -> int:
    """Days for which calls have been counted."""
    try:
        return (date.fromisoformat(uses.today) - date.fromisoformat(uses.since or "")).days
    except ValueError:
        return 0


_OF_HOST: Final = ("host", "label", "endpoint", "profile", "search", "tools", "tokens")
OF_ONE: Final = "leave tools of it out with its setting `tools` in hubd.toml"
"""The remedy where a host is shown one server, which no profile chooses from."""


def costs(data: Status, uses: ToolUses) -> list[Block]:
    """`hubd tools --cost`: servers, the most expensive first, and below them hosts."""
    unused = None if uses.since is None else by_server(uses)
    servers: list[tuple[Cell, ...]] = [
        (paint(each.name, "name"), _tools(each), _about(each.tokens), *_cells_of_unused(each, unused), _largest(each))
        for each in _servers(data)
    ]
    nothing = () if unused is None else (None,)
    if data.instructions_tokens:
        servers.append((paint("instructions", "dim"), None, about(data.instructions_tokens), *nothing, None))
    if servers and data.all_tools:  # servers of projects are not in it
        together = "together" if all("@" not in each.name for each in _servers(data)) else "outside of projects"
        servers.append((paint(together, "bold"), data.all_tools, about(data.all_tokens), *nothing, None))
    blocks: list[Block] = []
    if servers:
        heads = ("SERVER", "TOOLS", "TOKENS", *(() if unused is None else (f"UNUSED {uses.days} DAYS",)), "LARGEST")
        blocks.append(Table(heads, servers, shorten=("LARGEST", "SERVER"), drop=("LARGEST",)))
        if unused and days_of_counting(uses) < uses.days:
            blocks += ["", paint(f"unused: not called {span(uses)}", "dim")]
    hosts = [(*_host(each), paint(_limit(each), "warning" if over_limit(each) else "dim")) for each in _hosts(data)]
    if hosts:
        heads = ("HOST", "PROFILE", "TOOLS", "TOKENS", "LIMIT")
        blocks += ["", Table(heads, hosts, shorten=("LIMIT", "HOST", "PROFILE"))]
    if warning := warning_of(data.hosts):
        blocks += ["", paint("warning: ", "warning") + warning]
    return blocks or ["no server has any tools; `hubd status` shows how they are"]


def _cells_of_unused(upstream: UpstreamRow, unused: Mapping[str, tuple[int, int]] | None) -> tuple[Cell, ...]:
    if unused is None:
        return ()
    if (found := unused.get(upstream.name)) is None:  # a server of a project, whose use is not told
        return (None,)
    tools, tokens = found
    return (f"{tools} ({about(tokens)})" if tools else "0",)


def costs_json(data: Status, uses: ToolUses) -> dict[str, Any]:
    """The same for programs."""
    unused = {} if uses.since is None else by_server(uses)
    servers = [
        {
            "name": each.name,
            "tools": _tools(each),
            "tokens": each.tokens,
            "largest": None if each.largest is None else msgspec.to_builtins(each.largest),
            "unused": unused.get(each.name, (None, None))[0],
            "unused_tokens": unused.get(each.name, (None, None))[1],
        }
        for each in _servers(data)
    ]
    hosts = [
        {name: getattr(each, name) for name in _OF_HOST}
        | {name: getattr(find_known(each), name, None) for name in ("tool_limit", "spare_tokens")}
        for each in _hosts(data)
    ]
    return {
        "servers": servers,
        "instructions_tokens": data.instructions_tokens,
        "together": {"tools": data.all_tools, "tokens": data.all_tokens},
        "hosts": hosts,
        "since": uses.since,
    }


class ListedCosts(Struct, frozen=True):
    """The cost of tools as the hub lists them, the most expensive first; of the instructions, 0: there are none."""

    tools: tuple[LargestTool, ...]
    instructions_tokens: int
    together: ShownCost


def costs_of(tools: Iterable[Mapping[str, Any]], instructions: str = "") -> ListedCosts:
    """The cost of these tools, and of the instructions that come with them."""
    raw = {str(tool.get("name")): {key: Raw(msgspec.json.encode(each)) for key, each in tool.items()} for tool in tools}
    sizes = {name: tool_bytes(name, members) for name, members in raw.items()}
    found = tuple(LargestTool(name, tokens_of(sizes[name])) for name in sorted(sizes, key=lambda name: -sizes[name]))
    return ListedCosts(found, tokens_of(text_bytes(instructions)), cost_of_view(sizes.values(), instructions))


def tool_costs(found: ListedCosts) -> list[Block]:
    """`hubd tools NAME --cost`, and of a profile."""
    rows: list[tuple[Cell, ...]] = [(paint(each.name, "name"), about(each.tokens)) for each in found.tools]
    if not rows:
        return []
    if found.instructions_tokens:
        rows.append((paint("instructions", "dim"), about(found.instructions_tokens)))
    if len(rows) > 1:
        tools = f"together, {found.together.tools} {'tool' if found.together.tools == 1 else 'tools'}"
        rows.append((paint(tools, "bold"), about(found.together.tokens)))
    return [Table(("TOOL", "TOKENS"), rows, shorten=("TOOL",))]


def warning_of(hosts: Iterable[HostRow]) -> str:
    """The hosts that are shown more than they take, and what helps; "": there are none."""
    texts = dict.fromkeys(f"{text}: {remedy_of(host)}" for host in hosts if (text := over_limit(host)))
    return "; ".join(texts)


def remedy_of(host: HostRow) -> str:
    """The remedy for a host that is shown more than it takes."""
    return f"run `{command}`" if (command := _command_of(host)) else OF_ONE


def _command_of(host: HostRow) -> str:
    """The command that makes a smaller choice for a host; "": it is shown one server, which no profile chooses from."""
    if host.profile and host.profile != "default":
        return f"hubd tools --pick {host.profile}"
    if host.endpoint.startswith("/mcp/") and not host.endpoint.startswith(("/mcp/@", "/mcp/~")):
        return ""
    known = find_known(host)
    return f"hubd profile suggest {host.label if known is None else known.id}"


def over_limit(host: HostRow) -> str:
    """The limit that a host is beyond, as a clause; "" if none is known."""
    known = find_known(host)
    if known is None:
        return ""
    tools, tokens = host.tools or 0, host.tokens or 0
    if known.tool_limit is not None and tools > known.tool_limit:
        return f"{known.id} is shown {tools} tools and takes {known.tool_limit}"
    if known.spare_tokens is not None and tokens > known.spare_tokens:
        return f"{known.id} is shown {about(tokens)} tokens of tools and has {about(known.spare_tokens)} to spare"
    return ""


def find_known(host: HostRow) -> "KnownHost | None":
    """The host as `hosts.toml` knows it: by the label that `hubd install` gave it, else by the name it gives itself."""
    from config.hosts.known_hosts import all_hosts

    hosts = all_hosts()
    named = (each for each in hosts.values() if host.host in (each.title, *each.clients))
    return hosts.get(host.label) or next(named, None)


def _servers(data: Status) -> list[UpstreamRow]:
    found = [each for each in data.upstreams if _tools(each) and ACCOUNT_MARK not in each.name]  # listed once
    return sorted(found, key=lambda each: (-(each.tokens or 0), each.name))


def _hosts(data: Status) -> Iterator[HostRow]:
    """Hosts, one of those that are alike; commands of ours have no model that pays."""
    seen = set()
    for each in sorted(data.hosts, key=lambda each: (each.label or each.host, each.endpoint)):
        if each.label != OWN_LABEL and (key := (*_host(each), each.host)) not in seen:
            seen.add(key)
            yield each


def host_name(host: HostRow) -> str:
    """The host as it calls itself, and its label if that is another."""
    return host.host if host.label in ("", host.host) else f"{host.host} ({host.label})"


def _host(host: HostRow) -> tuple[Cell, ...]:
    chosen = host.profile or (host.endpoint if host.endpoint != "/mcp" else "default")
    return host_name(host), chosen, host.tools, _about(host.tokens)


def _limit(host: HostRow) -> str:
    known = find_known(host)
    if host.search:
        return "search mode"
    if known is None:
        return "-"
    then = f": {command}" if (command := _command_of(host)) else ""
    if known.tool_limit is not None and (host.tools or 0) > known.tool_limit:
        return f"takes {known.tool_limit} tools{then}"
    if over_limit(host):
        return f"has {about(known.spare_tokens or 0)} tokens{then}"
    return "-" if known.tool_limit is None else f"{known.tool_limit} tools"


def _tools(upstream: UpstreamRow) -> int:
    return 0 if upstream.counts is None else upstream.counts.tools


def _about(tokens: int | None) -> str | None:
    return None if tokens is None else about(tokens)


def _largest(upstream: UpstreamRow) -> str | None:
    if upstream.largest is None:
        return None
    name = upstream.largest.name
    return f"{name.partition('__')[2] or name} {about(upstream.largest.tokens)}"
