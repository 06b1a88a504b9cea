"""`hubd profiles`: what each profile shows. `hubd profile suggest HOST`: a profile for a host, to paste or to write.
`hubd profile remove NAME`."""

import os
from collections.abc import Iterator, Sequence
from os import EX_CONFIG, EX_OK
from textwrap import wrap
from typing import Any, Final

from config.editing.draft import Draft
from config.editing.text import toml
from config.files import lock_edits
from config.hosts.facts import hosts_that_list_once
from config.hub_paths import state_dir
from config.tables import DEFAULT_PROFILE
from hub.catalog.names import join_some
from hub.cli.configuration.main_file_of_hub import on_main_file
from hub.cli.configuration.saving import reload_hub, save, say_problems, show
from hub.cli.context import Context, Output, UsageError, nearest
from hub.cli.parser import Parser, add, add_config
from hub.cli.profiles.evidence import gather_evidence, had_before, suggest
from hub.cli.profiles.texts import comments, profiles, profiles_json
from hub.cli.profiles.tool_globs import choice_of
from hub.cli.profiles.ways_in import HostWays, ways_in
from hub.cli.profiles.writing import leave_unchanged, may_change, new_settings, say_arrivals, status_now, write
from hub.cli.render.words import about
from hub.control.answers import Status, tokens_together

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
    profile = add(commands, "profile", lambda options: _usage(profile))
    actions = profile.add_subparsers(metavar="COMMAND", parser_class=Parser, prog="hubd profile")
    text = "suggest what a host might need: what it called, or the servers it had"
    suggest = add(actions, "suggest", on_main_file(_suggest), text, json=MEMBERS)
    suggest.add_argument(
        "host", metavar="HOST", help="its label, as `hubd status` shows it and `hubd install` gives it"
    )
    suggest.add_argument("--write", action="store_true", help="write it into hubd.toml")
    suggest.add_argument("--yes", action="store_true", help="do not ask whether to change a profile that is there")
    text = "remove a profile; its hosts are shown what hosts without one are shown"
    removed = add(actions, "remove", on_main_file(_remove), text, json=_REMOVED, aliases=("rm",))
    also = add(actions, "ls", _profiles, "what each profile shows, as `hubd profiles`", json=_LISTED, aliases=("list",))
    removed.add_argument("name", metavar="NAME", help="its name, as `hubd profiles` shows it")
    removed.add_argument("--dry-run", action="store_true", help="show what would be changed, and change nothing")
    for each in (listed, also, suggest, removed):
        add_config(each)


def _usage(parser: Parser) -> int:
    text = "say what to do: hubd profile suggest HOST, or hubd profile remove NAME; `hubd profiles` lists them"
    raise UsageError(text, parser.format_usage())


def _profiles(options: Context) -> int:
    evidence = gather_evidence(options)
    output = options.output
    output.set(**profiles_json(evidence.status, evidence.profiles))
    output.show(*profiles(evidence.status, evidence.profiles))
    for warning in evidence.warnings:
        output.warn(warning)
    return EX_OK


def _suggest(options: Context) -> int:
    output = options.output
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
        output.note(f"to choose yourself: hubd tools --pick {name}")
        return EX_OK
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
        say_arrivals(options, name, [host], evidence.status, changed=False)
        return EX_OK
    if before is not None and not may_change(options, name, before, settings):
        return leave_unchanged(output)
    return write(options, name, settings, [host])


def _print(output: Output, name: str, settings: dict[str, Any], said: Sequence[str], host: str) -> int:
    """Print a suggestion to paste into hubd.toml."""
    output.set(did="suggested")
    width = min(output.screen.width, toml.LINE_CHARS) - len("# ")
    for line in (line for text in said for line in wrap(text, width, break_on_hyphens=False)):
        output.say(toml.comment_of(line))
    output.say(toml.render(("profiles",), name, settings))
    output.note(f"to write it into hubd.toml: hubd profile suggest {host} --write")
    output.note(f"to choose yourself: hubd tools --pick {name}")
    return EX_OK


def _remove(options: Context) -> int:
    """Remove it, and say what its hosts are shown; the exit code. Raises: UsageError, EditError."""
    output = options.output
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
        if problems := draft.problems():
            say_problems(problems, output)
            return output.fail(EX_CONFIG, "that would be no configuration a hub can use; nothing was changed")
        if options.dry_run:
            show(draft, "removed", output)
            return EX_OK
        saved = save(draft, "removed", f"removed the profile {name}", output)
    code = reload_hub(saved, output)
    if code == EX_OK and output.member("hub") != "elsewhere":
        for text in views_without(name, labels, before, status_now(), DEFAULT_PROFILE in profiles):
            output.say(text)
        for text in names_left(name, before, ways_in(options, [*labels])):
            output.warn(text)
    return code


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
