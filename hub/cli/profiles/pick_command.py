"""`hubd tools --pick NAME`: what a profile shows, chosen at a terminal, or in an editor on one line a tool."""

import os
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from typing import Final

from config.hub_paths import config_file
from config.loading.checks.profiles import OWN_LABEL, PROFILE_NAME, PROFILE_NAME_RULE
from config.name_globs import ALL
from config.profile_settings import DEFAULT_PROFILE
from hub.cli.configuration.edit_command import copy_to_edit, edit_again, edit_text, editor_command
from hub.cli.context import CommandFailed, Context, Output, UsageError, agreed, ask_hub
from hub.cli.profiles.list_for_editor import LINE_CHARS, ListToPick, Picked, describe, state_of
from hub.cli.profiles.pick_on_terminal import Chooser, Row, choose
from hub.cli.profiles.profile_evidence import Evidence, gather_evidence, had_before
from hub.cli.profiles.suggest_profile import suggest
from hub.cli.profiles.tool_globs import Choice, can_be_named, choice_of, tools_of_choice
from hub.cli.profiles.write_profile import leave_unchanged, new_settings, write
from hub.cli.render.words import about
from hub.control.answers import tokens_together
from hub.control.methods import TOOLS

BY_HAND: Final = "or write the profile by hand: `hubd profile suggest HOST` prints one to begin with"
LIKE: Final = 0.8
"""Similarity above which a new name is taken for a misspelt one."""


def pick(options: Context, output: Output) -> None:
    """Have the user choose, and write what was chosen."""
    at_terminal = not options.edit and _has_arrows(output)
    editor = [] if at_terminal else editor_command(output, BY_HAND)
    evidence = gather_evidence(options)
    tools = evidence.uses.tools
    if not tools:
        raise CommandFailed("no server has any tools; `hubd status` shows how they are")
    meant = _profile(evidence, options.pick, output)
    if meant is None:
        return leave_unchanged(output)
    name, hosts = meant
    away = evidence.away(name)
    shown = {each.word for each in away if each.is_shown}
    listed = ListToPick(name, hosts, tools, away, set() if options.empty else _before(evidence, name, hosts) | shown)
    if not at_terminal:
        return _in_editor(options, evidence, listed, editor)
    found = _with_arrows(listed, output)
    if found is None:
        return leave_unchanged(output)
    _write(options, evidence, listed, found)


def _texts() -> dict[str, str]:
    """The descriptions of tools."""
    texts = [(each.get("name"), each.get("description") or each.get("title") or "") for each in ask_hub(TOOLS)]
    return {str(name): str(text) for name, text in texts}


def _has_arrows(output: Output) -> bool:
    """True if somebody can choose with arrows here, and has not named an editor."""
    named = os.environ.get("VISUAL", "").strip() or os.environ.get("EDITOR", "").strip()
    return not named and output.is_attended() and output.progress.live


def _with_arrows(listed: ListToPick, output: Output) -> Picked | None:
    """Have the user choose at the terminal; None: everything is to be as it is."""
    texts = _texts()
    rows = [
        Row(each.name, about(each.tokens), describe(texts.get(each.name, ""), LINE_CHARS))
        for each in listed.tools
        if can_be_named(each.name)
    ]
    rows += [Row(each.word, "", f"all tools, once it has some: {state_of(each)}") for each in listed.away]
    chooser = Chooser(rows, listed.chosen)
    if not choose(chooser, lambda: listed.heading(chooser.chosen), output.progress):
        return None
    return listed.read("\n".join(each.name for each in rows if each.name in chooser.chosen))


def _in_editor(options: Context, evidence: Evidence, listed: ListToPick, editor: list[str]) -> None:
    """Have the user choose in an editor, and write what was chosen."""
    output = options.output
    text = listed.text(_texts())
    main = options.config or config_file()
    with copy_to_edit(text, f"{listed.name}.tools", "pick", output) as copy:
        while (found := listed.read(saved := edit_text(editor, copy, main, output))).mistakes:
            for mistake in found.mistakes:
                print(f"hubd: {mistake}", file=sys.stderr)
            kept = f"{main} was left as it is; your list is in {copy}"
            if not edit_again(output, kept):
                raise CommandFailed(kept)
        if saved == text:
            leave_unchanged(output, "the list was closed as it was, so nothing was changed")
        elif not found.names and not found.away and not found.all_left_out:
            why = "the list has no line of a tool any more, as if it was given up, so nothing was changed"
            leave_unchanged(output, f"{why}; to leave all tools out, put `#` before each")
        else:
            _write(options, evidence, listed, found)


def _write(options: Context, evidence: Evidence, listed: ListToPick, found: Picked) -> None:
    """Write what was chosen, or say why nothing is written. Raises: EditError."""
    output = options.output
    name, hosts, tools = listed.name, listed.hosts, listed.tools
    output.set(profile=name, hosts=list(hosts))
    before = evidence.profiles.get(name)
    if before is not None:
        was = {each.name for each in tools_of_choice(before, tools) if can_be_named(each.name)}
        if was | {each.word for each in listed.away if each.is_shown} == {*found.names, *found.away}:
            return leave_unchanged(output, f"the profile {name} shows these tools already; nothing was changed")
    choice, away = _choice(evidence, listed, found)
    settings = new_settings(evidence, name, hosts, choice, {each.word for each in listed.away} - set(found.away))
    if not settings:
        text = f"all tools were chosen, which is what hosts without a profile are shown: no profile {name} was written"
        return leave_unchanged(output, text)
    if not found.names and not found.away and output.is_attended():
        question = f"No tool is left: hosts of {name} would be shown none. Write that?"
        if not agreed(question, default=False):
            return leave_unchanged(output)
    taken = [each for each in tools if each.name in set(found.names)]
    output.set(**choice.settings(), shown=len(taken), tokens=tokens_together(taken), away=away)
    write(options, name, settings, hosts)
    if away:
        output.note(f"not connected now, and shown with all their tools once they are: {', '.join(away)}")


def _choice(evidence: Evidence, listed: ListToPick, found: Picked) -> tuple[Choice, list[str]]:
    """The choice, and the servers in it that are not connected."""
    kept = {each.server: each.start for each in listed.away if each.server and each.word in found.away}
    left = {each.server for each in listed.away if each.server and each.server not in kept}
    others = [each for each in dict.fromkeys([*evidence.without_tools(listed.name), *kept]) if each not in left]
    if evidence.is_open(listed.name):
        return choice_of(set(found.names), listed.tools, others, kept, closed=bool(left)), [*kept]
    choice = choice_of(set(found.names), listed.tools, others, closed=bool(left))
    starts = () if choice.tools == ALL else tuple(f"{start}*" for start in kept.values())
    return Choice(choice.servers, (*choice.tools, *starts)), [*kept]


def _profile(evidence: Evidence, name: str, output: Output) -> tuple[str, Sequence[str]] | None:
    """The profile that is meant by its name or by the label of a host, and the labels of its hosts. None: the name was
    misspelt, somebody says. Raises UsageError: a profile cannot have this name, or it is probably a misspelt one."""
    if (found := evidence.profiles.get(name)) is not None:
        return name, found.hosts
    labels = evidence.labels()
    if name in labels:
        name, label = evidence.profile_of(name), name
        found = evidence.profiles.get(name)
        return name, (label,) if found is None else found.hosts
    if name == OWN_LABEL:
        raise UsageError(f"{name} is the label of the hub's own commands, which are shown everything")
    if not PROFILE_NAME.fullmatch(name):
        raise UsageError(f"{name!r} cannot be the name of a profile: {PROFILE_NAME_RULE}")
    near = get_close_matches(name, [*evidence.profiles, *labels, DEFAULT_PROFILE], 1, LIKE)
    if near and near[0] != name and not name.startswith(near[0]):
        text = f'there is neither a profile nor a host {name}; did you mean "{near[0]}"?'
        if not output.is_attended():
            raise UsageError(f"{text} Nothing was changed; for a new profile take a name that is less like it")
        if not agreed(f"{text} Make a new profile {name}?", default=False):
            return None
    return name, ()


def _before(evidence: Evidence, name: str, hosts: Sequence[str]) -> set[str]:
    """The tools that the profile shows now; of a new one those that are suggested for its host, else all."""
    tools = evidence.uses.tools
    if (profile := evidence.profiles.get(name)) is not None:
        return {each.name for each in tools_of_choice(profile, tools)}
    if not hosts:
        return {each.name for each in tools}
    return set(suggest(hosts[0], evidence.uses, had_before(hosts[0]), evidence.limits(hosts[0])).names)
