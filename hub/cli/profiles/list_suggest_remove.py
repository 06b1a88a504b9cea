"""`hubd profiles`: what each profile shows. `hubd profile suggest HOST`: a profile for a host, to paste or to write.
`hubd profile remove NAME`. (`hubd profile entry` is in `entry_command`.) The tables of profiles, the same for programs,
and comments of a suggestion are pure."""

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from textwrap import wrap
from typing import Any, Final, NoReturn

from config.atomic_writes import lock_edits
from config.editing.draft_across_files import Draft
from config.editing.text import toml
from config.hosts.known_hosts import all_hosts, hosts_that_list_once
from config.hub_paths import state_dir
from config.profile_settings import DEFAULT_PROFILE, Profile
from hub.catalog.visible_names import join_some
from hub.cli.configuration.save_draft import refuse_unusable, reload_hub, save, show
from hub.cli.context import Context, Output, UsageError, nearest
from hub.cli.parser import Parser, add, add_config, on_main_file
from hub.cli.profiles.entry_command import MEMBERS as ENTRY_MEMBERS
from hub.cli.profiles.entry_command import print_entry
from hub.cli.profiles.list_for_editor import extent
from hub.cli.profiles.profile_evidence import gather_evidence, had_before
from hub.cli.profiles.suggest_profile import Limits, suggest
from hub.cli.profiles.tool_globs import choice_of
from hub.cli.profiles.who_is_shown_profile import HostWays, say_arrivals, ways_in
from hub.cli.profiles.write_profile import leave_unchanged, may_change, new_settings, status_now, write
from hub.cli.render.blocks import Block, Cell, Table, paint
from hub.cli.render.costs import host_name
from hub.cli.render.words import about
from hub.control.answers import Status, ToolUse, tokens_together

MEMBERS: Final = """\
  profile, hosts   its name, and the labels of its hosts
  servers, tools   its settings; no `servers`: all of them
  shown, tokens    the tools that it shows, and about how many tokens they take
  why              what these tools are
  did              "written", "unchanged" or "suggested"
  files, hub       as of `hubd add`"""
_REMOVED: Final = """\
  profile, hosts      its name, and the labels of its hosts
  did                 "removed\"
  dry_run, files, hub as of `hubd add`"""
_LISTED: Final = """\
  profiles   of each: name, hosts (labels), attached (hosts that are shown it), tools, tokens,
             search (the setting), warnings
  others     what hosts without a profile are shown: tools, tokens
  searching  the attached hosts in search mode: host, label, profile, tools, tokens"""


def add_commands(commands: Any) -> None:
    """`profiles`, and `profile` with its commands `suggest`, `remove` and `ls`."""
    listed = add(commands, "profiles", _profiles, json=_LISTED)
    profile = add(commands, "profile", lambda *given: _usage(profile))
    actions = profile.add_subparsers(metavar="COMMAND", parser_class=Parser, prog="hubd profile")
    text = "suggest what a host might need: what it called, or the servers it had"
    suggest = add(actions, "suggest", on_main_file(_suggest), text, json=MEMBERS)
    suggest.add_value("host", "HOST", "its label, as `hubd status` shows it and `hubd install` gives it")
    suggest.add_flag("--write", "write it into hubd.toml")
    suggest.add_flag("--yes", "do not ask whether to change a profile that is there")
    text = "remove a profile; its hosts are shown what hosts without one are shown"
    removed = add(actions, "remove", on_main_file(_remove), text, json=_REMOVED, aliases=("rm",))
    text = "print the entry with which a host gives a profile to one of its subagents"
    entry = add(actions, "entry", print_entry, text, json=ENTRY_MEMBERS)
    also = add(actions, "ls", _profiles, "what each profile shows, as `hubd profiles`", json=_LISTED, aliases=("list",))
    entry.add_value("name", "NAME", "the profile, as `hubd profiles` shows it")
    entry.add_value("host", "HOST", "claude-code, codex or copilot")
    removed.add_value("name", "NAME", "its name, as `hubd profiles` shows it")
    removed.add_flag("--dry-run", "show what would be changed, and change nothing")
    for each in (listed, also, suggest, removed, entry):
        add_config(each)


def _usage(parser: Parser) -> NoReturn:
    text = "say what to do: hubd profile suggest HOST, hubd profile entry NAME HOST, or hubd profile remove NAME"
    text += "; `hubd profiles` lists them"
    raise UsageError(text, parser.format_usage())


def _profiles(options: Context, output: Output) -> None:
    evidence = gather_evidence(options)
    output.set(**profiles_json(evidence.status, evidence.profiles))
    output.show(*profiles(evidence.status, evidence.profiles))
    for warning in evidence.warnings:
        output.warn(warning)


def _suggest(options: Context, output: Output) -> None:
    evidence, host = gather_evidence(options), options.host
    evidence.refuse_unknown(host)
    tools = evidence.uses.tools
    if not tools:
        return leave_unchanged(output, "no server has any tools; `hubd status` shows how they are")
    limits = evidence.limits(host)
    had = had_before(host)
    suggestion = suggest(host, evidence.uses, had, limits)
    taken = [each for each in tools if each.name in set(suggestion.names)]
    name = evidence.profile_of(host)
    kept = evidence.servers_still_starting(name)
    others = evidence.without_tools(name)
    choice = choice_of(suggestion.names, tools, others, kept)
    before = evidence.profiles.get(name)
    hosts = list(dict.fromkeys([*(() if before is None else before.hosts), host]))
    output.set(profile=name, hosts=hosts, **choice.settings())
    output.set(shown=len(taken), tokens=tokens_together(taken), why=suggestion.why)
    if before is not None and (others := [each for each in before.hosts if each != host]):
        output.warn(f"the profile {name} is that of {', '.join(others)}, too")
    if len(taken) == len(tools) and before is None:
        nothing = "was written" if options.write else "is suggested"
        why = f"nothing has to be left out for {host}, so nothing {nothing}: {suggestion.why}, {len(tools)} tools"
        leave_unchanged(output, why)
        return output.note(f"to choose yourself: hubd tools --pick {name}")
    said = comments(host, suggestion.why, taken, tools, limits)
    if added := [each for each in choice.servers if each in others and each not in had]:
        said.append(f"added, since they have no tools now: {', '.join(added)}")
    if kept:
        said.append(f"not connected now, and shown with all their tools once they are: {', '.join(kept)}")
    if not options.write:
        return _print(output, name, {"hosts": hosts, **choice.settings()}, said, host)
    output.show(*said)
    if not (settings := new_settings(evidence, name, [host], choice)):
        leave_unchanged(output, f"the profile {name} says so already; nothing was changed")
        return say_arrivals(options, name, [host], evidence.status, changed=False)
    if before is not None and not may_change(options, name, before, settings):
        return leave_unchanged(output)
    write(options, name, settings, [host])


def _print(output: Output, name: str, settings: dict[str, Any], said: Sequence[str], host: str) -> None:
    """Print a suggestion to paste into hubd.toml."""
    output.set(did="suggested")
    width = min(output.screen.width, toml.LINE_CHARS) - len("# ")
    for line in (line for text in said for line in wrap(text, width, break_on_hyphens=False)):
        output.say(toml.comment_of(line))
    output.say(toml.render(("profiles",), name, settings))
    output.note(f"to write it into hubd.toml: hubd profile suggest {host} --write")
    output.note(f"to choose yourself: hubd tools --pick {name}")


def _remove(options: Context, output: Output) -> None:
    """Remove it, and say what its hosts are shown. Raises: UsageError, EditError."""
    name = options.name
    profiles = options.loaded.config.profiles
    if name not in profiles:
        raise UsageError(_unknown(name, sorted(profiles)))
    labels = profiles[name].hosts
    before = status_now()
    output.set(profile=name, hosts=list(labels))
    with lock_edits(state_dir()):
        draft = Draft(options.config, os.environ)
        draft.remove_profile(name)
        refuse_unusable(draft, output)
        if options.dry_run:
            return show(draft, "removed", output)
        saved = save(draft, "removed", f"removed the profile {name}", output)
    reload_hub(saved, output)
    if not output.code and output.member("hub") != "elsewhere":
        for text in views_without(name, labels, before, status_now(), DEFAULT_PROFILE in profiles):
            output.say(text)
        for text in names_left(name, before, ways_in(options, [*labels])):
            output.warn(text)


def _unknown(name: str, known: Sequence[str]) -> str:
    if name == DEFAULT_PROFILE:
        return "the profile default is not configured, so it shows all there is already; there is nothing to remove"
    there = f"there are: {', '.join(known)}" if known else "hubd.toml has none"
    return f"there is no profile {name}; {nearest(name, known) or there}"


def views_without(name: str, labels: Sequence[str], before: Status, after: Status, has_default: bool) -> Iterator[str]:
    """The view of the hosts of a profile that is gone. Pure."""
    if name == DEFAULT_PROFILE:
        yield "hosts without a profile of their own are shown all there is"
    elif labels:
        whose = join_some(labels, 10)
        what = "the profile default" if has_default else "all there is"
        yield f"{whose}: shown {what} now{_extent(labels, after)}"
    else:
        yield "it listed no label of a host"
    once = hosts_that_list_once()
    for label in dict.fromkeys(each.label for each in before.hosts if each.profile == name and each.label in once):
        yield f"restart {label}: it asks for its tools only when it starts"


def _extent(labels: Sequence[str], after: Status) -> str:
    """The extent of the view of the attached ones, where it is the same for all."""
    found = {
        f" ({'in search mode: ' if each.search else ''}{each.tools} tools, {about(each.tokens or 0)} tokens)"
        for each in after.hosts
        if each.label in labels and each.tools is not None
    }
    return found.pop() if len(found) == 1 else ""


def names_left(name: str, before: Status, ways: HostWays) -> Iterator[str]:
    """The things that still name a profile that is gone. Pure."""
    for entry in dict.fromkeys(entry for found in ways.entries.values() for entry in found if entry.profile == name):
        yield f"the entry of a host in {entry.path} names {name} and is refused now: `hubd install` writes it anew"
    for token in dict.fromkeys(each.name for each in ways.tokens if each.profile == name):
        remedy = f"`hubd token revoke {token}`, or have a profile {name} again"
        yield f"the token {token} opens {name} and nothing else, so its host is shown nothing now: {remedy}"


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
                **{name: getattr(each, name) for name in ("tools", "tokens", "search", "warnings")},
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
