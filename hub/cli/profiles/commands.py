"""`hubd profiles`: what each profile shows. `hubd profile suggest HOST`: a profile for a host, to paste or to write.
`hubd profile remove NAME`."""

from collections.abc import Sequence
from os import EX_OK
from textwrap import wrap
from typing import Any, Final

from config.editing.text import toml
from hub.cli.configuration.main_file import on_main_file
from hub.cli.profiles.choice import choice_of
from hub.cli.profiles.evidence import gather_evidence, had_before
from hub.cli.profiles.removing import remove
from hub.cli.profiles.screens import comments, profiles, profiles_json
from hub.cli.profiles.suggestion import suggest
from hub.cli.profiles.writing import may_change, new_settings, say_arrivals, write
from hub.cli.subcommand import Desk, Output, Parser, UsageError, add, add_config
from hub.control.answers import tokens_together

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


def _remove(options: Desk) -> int:
    return remove(options)


def _profiles(options: Desk) -> int:
    evidence = gather_evidence(options)
    output = options.output
    output.set(**profiles_json(evidence.status, evidence.profiles))
    output.show(*profiles(evidence.status, evidence.profiles))
    for warning in evidence.warnings:
        output.warn(warning)
    return EX_OK


def _suggest(options: Desk) -> int:
    output = options.output
    evidence, host = gather_evidence(options), options.host
    evidence.refuse_unknown(host)
    tools = evidence.uses.tools
    if not tools:
        output.set(did="unchanged")
        output.say("no server has any tools; `hubd status` shows how they are")
        return EX_OK
    limits = evidence.limits(host)
    suggestion = suggest(host, evidence.uses, had_before(host), limits)
    taken = [each for each in tools if each.name in set(suggestion.names)]
    name = evidence.profile_of(host)
    kept = evidence.servers_still_starting(name)
    choice = choice_of(suggestion.names, tools, evidence.without_tools(name), kept)
    before = evidence.profiles.get(name)
    hosts = list(dict.fromkeys([*(() if before is None else before.hosts), host]))
    output.set(
        profile=name,
        hosts=hosts,
        **choice.settings(),
        shown=len(taken),
        tokens=tokens_together(taken),
        why=suggestion.why,
    )
    if before is not None and (others := [each for each in before.hosts if each != host]):
        output.warn(f"the profile {name} is that of {', '.join(others)}, too")
    if len(taken) == len(tools) and before is None:
        output.set(did="unchanged")
        nothing = "was written" if options.write else "is suggested"
        output.say(f"nothing has to be left out for {host}, so nothing {nothing}: {suggestion.why}, {len(tools)} tools")
        output.note(f"to choose yourself: hubd tools --pick {name}")
        return EX_OK
    said = comments(host, suggestion.why, taken, tools, limits)
    if kept:
        said.append(f"not connected now, and shown with all their tools once they are: {', '.join(kept)}")
    if not options.write:
        return _print(output, name, {"hosts": hosts, **choice.settings()}, said, host)
    output.show(*said)
    settings = new_settings(evidence, name, [host], choice)
    if not settings:
        output.set(did="unchanged")
        output.say(f"the profile {name} says so already; nothing was changed")
        say_arrivals(options, name, [host], evidence.status, changed=False)
        return EX_OK
    if before is not None and not may_change(options, name, before, settings):
        output.set(did="unchanged")
        output.say("nothing was changed")
        return EX_OK
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
