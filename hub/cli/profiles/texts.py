"""The texts that commands show about profiles: tables, the same for programs, and comments of a suggestion. Pure."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from config.hosts.facts import all_hosts
from config.tables import Profile
from hub.cli.profiles.evidence import Limits
from hub.cli.profiles.pick_in_editor import extent
from hub.cli.render.blocks import Block, Cell, Table, paint
from hub.cli.render.costs import host_name
from hub.cli.render.words import about
from hub.control.answers import Status, ToolUse


def profiles(status: Status, configured: Mapping[str, Profile]) -> list[Block]:
    """`hubd profiles`: what the hosts of each are shown, and those that are shown something else."""
    whole = f"{status.all_tools} tools, {about(status.all_tokens)} tokens"
    searching = _searching(status)
    if not status.profiles:
        return [
            f"no profiles: hosts are shown all there is, {whole} with instructions{', except' if searching else ''}",
            *searching,
            "`hubd profile suggest HOST` makes one for a host; with `hubd tools --pick NAME` you choose yourself",
        ]
    rows: list[tuple[Cell, ...]] = []
    for each in status.profiles:
        name, labels = paint(each.name, "name"), _labels(configured, each.name)
        rows.append((name, labels, each.hosts, each.tools, about(each.tokens), each.search))
    heads = ("PROFILE", "FOR", "ATTACHED", "TOOLS", "TOKENS", "SEARCH")
    table = Table(heads, rows, shorten=("FOR", "PROFILE"), drop=("SEARCH", "ATTACHED"))
    others: list[Block] = []
    if all(each.name != "default" for each in status.profiles):
        others = ["", paint(f"all other hosts: {whole}", "dim")]
    warnings = [paint("warning: ", "warning") + text for each in status.profiles for text in each.warnings]
    return [table, *others, *(["", *searching] if searching else []), *warnings, *_hints_at_names(configured)]


def _hints_at_names(configured: Mapping[str, Profile]) -> list[Block]:
    """Hints at profiles that are named like a known host, and list it as little as any other does."""
    labels = {label for profile in configured.values() for label in profile.hosts}
    found = [name for name in configured if name in all_hosts() and name not in labels]
    return [
        paint(f'{name} is the name of a profile and of a host: only `hosts = ["{name}"]` gives it to that host', "dim")
        for name in found
    ]


def _searching(status: Status) -> list[Block]:
    """The attached hosts that are shown less than their profile has, since they find tools by searching."""
    forced = {each.name for each in status.profiles if each.search == "on"}
    found = {
        f"search mode: {host_name(each)} is shown {each.tools or 0} tools, {about(each.tokens or 0)} tokens, and finds "
        "the others by searching": None
        for each in sorted(status.hosts, key=host_name)
        if each.search and each.profile not in forced
    }
    return [paint(text, "dim") for text in found]


def profiles_json(status: Status, configured: Mapping[str, Profile]) -> dict[str, Any]:
    """The same for programs."""
    return {
        "profiles": [
            {
                "name": each.name,
                "hosts": [] if (profile := configured.get(each.name)) is None else list(profile.hosts),
                "attached": each.hosts,
                "tools": each.tools,
                "tokens": each.tokens,
                "search": each.search,
                "warnings": list(each.warnings),
            }
            for each in status.profiles
        ],
        "others": {"tools": status.all_tools, "tokens": status.all_tokens},
        "searching": [
            {name: getattr(each, name) for name in ("host", "label", "profile", "tools", "tokens")}
            for each in status.hosts
            if each.search
        ],
    }


def _labels(configured: Mapping[str, Profile], name: str) -> str | None:
    if name == "default":
        return "all other hosts"
    profile = configured.get(name)
    return None if profile is None else ", ".join(profile.hosts) or None


def comments(host: str, why: str, taken: Sequence[ToolUse], tools: Sequence[ToolUse], limits: Limits) -> list[str]:
    """The comments of a suggestion on itself, in lines above it."""
    takes = f"; {host} takes {limits}" if str(limits) else ""
    found = [f"for {host}: {why}{takes}", extent(taken, tools)]
    if left_out := _servers_left_out(taken, tools):
        found.append(f"left out: {left_out}")
    return found


def _servers_left_out(taken: Sequence[ToolUse], tools: Sequence[ToolUse]) -> str:
    """The servers of which tools are left out."""
    names = {each.name for each in taken}
    whole = Counter(each.server for each in tools)
    out = Counter(each.server for each in tools if each.name not in names)
    return ", ".join(
        f"{server} (all {count})" if out[server] == count else f"{server} ({out[server]} of {count})"
        for server, count in whole.items()
        if out[server]
    )
