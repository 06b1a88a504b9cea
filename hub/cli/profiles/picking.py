"""`hubd tools --pick NAME`: what a profile shows, chosen in an editor on one line a tool."""

import argparse
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from os import EX_OK
from pathlib import Path
from typing import Final

from config.profile_settings import DEFAULT_PROFILE
from hub.cli.editor import edit_again, edited_text, editor_command
from hub.cli.profiles.choice import can_be_named, choice_of, shown_by
from hub.cli.profiles.evidence import Evidence, choice_in, gathered, had_before
from hub.cli.profiles.pick_list import Picked, pick_list, picked
from hub.cli.profiles.suggestion import suggested
from hub.cli.profiles.writing import new_settings, write
from hub.cli.subcommand import EX_FAILED, Output, UsageError, agreed
from hub.control.tool_use import tokens_together

LIKE: Final = 0.8
"""Similarity above which a new name is taken for a misspelt one."""


def pick(options: argparse.Namespace) -> int:
    """Have the user choose, and write what was chosen; the exit code."""
    import shutil
    import tempfile

    from config.errors import EditError
    from config.hub_paths import config_file

    output: Output = options.output
    editor = editor_command(
        output, "or write the profile by hand: `hubd profile suggest HOST` prints one to begin with"
    )
    evidence = gathered(options)
    tools = evidence.uses.tools
    if not tools:
        return output.fail(EX_FAILED, "no server has any tools; `hubd status` shows how they are")
    meant = _profile(evidence, options.pick, output)
    if meant is None:
        return _unchanged(output, "nothing was changed")
    name, hosts = meant
    text = pick_list(name, hosts, tools, _before(evidence, name, hosts))
    folder = Path(tempfile.mkdtemp(prefix="hubd-pick-"))
    copy = folder / f"{name}.tools"
    copy.write_text(text, encoding="utf-8")
    main = options.config or config_file()
    try:
        saved = edited_text(editor, copy, main, output)
        while (found := picked(saved, tools)).mistakes:
            for mistake in found.mistakes:
                print(f"hubd: {mistake}", file=sys.stderr)
            if not edit_again(output):
                return output.fail(EX_FAILED, f"{main} was left as it is; your list is in {copy}")
            saved = edited_text(editor, copy, main, output)
        code = _taken(options, evidence, name, hosts, found if saved != text else None)
    except EditError as error:
        if copy.exists() and copy.read_text(encoding="utf-8", errors="replace") != text:
            return output.fail(EX_FAILED, f"{error}. Your list is in {copy}")
        shutil.rmtree(folder)
        return output.fail(EX_FAILED, str(error))
    if code == EX_OK:
        shutil.rmtree(folder)
    else:
        print(f"hubd: your list is in {copy}", file=sys.stderr)
    return code


def _taken(
    options: argparse.Namespace, evidence: Evidence, name: str, hosts: Sequence[str], found: Picked | None
) -> int:
    """Write what was chosen, or say why nothing is written. `found` None: the list was closed as it was."""
    output: Output = options.output
    output.set(profile=name, hosts=list(hosts))
    if found is None:
        return _unchanged(output, "the list was closed as it was, so nothing was changed")
    if not found.names and not found.left_out:
        text = "the list has no line of a tool any more, as if it was given up, so nothing was changed"
        return _unchanged(output, f"{text}; to leave all tools out, put `#` before each")
    tools = evidence.uses.tools
    before = evidence.profiles.get(name)
    shown = [] if before is None else shown_by(choice_in(before), tools)
    if before is not None and set(found.names) == {each.name for each in shown if can_be_named(each.name)}:
        return _unchanged(output, f"the profile {name} shows these tools already; nothing was changed")
    choice = choice_of(set(found.names), tools, evidence.without_tools(name), evidence.kept(name))
    settings = new_settings(evidence, name, hosts, choice)
    if not settings:
        text = f"all tools were chosen, which is what hosts without a profile are shown: no profile {name} was written"
        return _unchanged(output, text)
    if not found.names and output.is_attended():
        question = f"No tool is left: hosts of {name} would be shown none. Write that?"
        if not agreed(question, default=False):
            return _unchanged(output, "nothing was changed")
    taken = [each for each in tools if each.name in set(found.names)]
    output.set(**choice.settings(), shown=len(taken), tokens=tokens_together(taken))
    return write(options, name, settings, hosts)


def _unchanged(output: Output, why: str) -> int:
    output.set(did="unchanged")
    output.say(why)
    return EX_OK


def _profile(evidence: Evidence, name: str, output: Output) -> tuple[str, Sequence[str]] | None:
    """The profile that is meant by its name or by the label of a host, and the labels of its hosts. None: the name was
    misspelt, somebody says.

    Raises:
        UsageError: a profile cannot have this name, or it is probably a misspelt one.
    """
    from config.loading.check_profiles import OWN_LABEL, PROFILE_NAME, PROFILE_NAME_RULE

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
    is_like = bool(near) and near[0] != name and not name.startswith(near[0])
    return None if is_like and not _is_new(name, near[0], output) else (name, ())


def _is_new(name: str, near: str, output: Output) -> bool:
    """Ask whether a name that is like another one is meant.

    Raises:
        UsageError: there is nobody to ask.
    """
    text = f'there is neither a profile nor a host {name}; did you mean "{near}"?'
    if output.is_attended():
        return agreed(f"{text} Make a new profile {name}?", default=False)
    raise UsageError(f"{text} Nothing was changed; for a new profile take a name that is less like it")


def _before(evidence: Evidence, name: str, hosts: Sequence[str]) -> set[str]:
    """The tools that the profile shows now; of a new one those that are suggested for its host, else all."""
    tools = evidence.uses.tools
    if (profile := evidence.profiles.get(name)) is not None:
        return {each.name for each in shown_by(choice_in(profile), tools)}
    if not hosts:
        return {each.name for each in tools}
    return set(suggested(hosts[0], evidence.uses, had_before(hosts[0]), evidence.limits(hosts[0])).names)
