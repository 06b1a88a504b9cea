"""`hubd tools --pick NAME`: what a profile shows, chosen in an editor on one line a tool."""

import argparse
import sys
from collections.abc import Sequence
from os import EX_OK
from pathlib import Path

from hub.cli.editor import edit_again, edited_text, editor_command
from hub.cli.profiles.choice import choice_of, shown_by
from hub.cli.profiles.evidence import Evidence, choice_in, gathered, had_before
from hub.cli.profiles.pick_list import pick_list, picked
from hub.cli.profiles.suggestion import suggested
from hub.cli.profiles.writing import new_settings, write
from hub.cli.subcommand import EX_FAILED, Output, UsageError


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
    name, hosts = _profile(evidence, options.pick)
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
        code = _written(options, evidence, name, hosts, found.names if saved != text else ())
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


def _written(
    options: argparse.Namespace, evidence: Evidence, name: str, hosts: Sequence[str], names: Sequence[str]
) -> int:
    """Write what was chosen. Nothing chosen, or nothing changed, changes nothing."""
    output: Output = options.output
    tools = evidence.uses.tools
    choice = choice_of(set(names), tools, evidence.without_tools)
    before = evidence.profiles.get(name)
    if before is not None and set(names) == {each.name for each in shown_by(choice_in(before), tools)}:
        names = ()
    settings = new_settings(evidence, name, hosts, choice) if names else {}
    output.set(profile=name, hosts=list(hosts))
    if not settings:
        output.set(did="unchanged")
        output.say("nothing was changed")
        return EX_OK
    taken = [each for each in tools if each.name in set(names)]
    output.set(**choice.settings(), shown=len(taken), tokens=sum(each.tokens for each in taken))
    return write(options, name, settings)


def _profile(evidence: Evidence, name: str) -> tuple[str, Sequence[str]]:
    """The profile that is meant by its name or by the label of a host, and the labels of its hosts.

    Raises:
        UsageError: a profile cannot have this name.
    """
    from config.loading.check_profiles import PROFILE_NAME, PROFILE_NAME_RULE

    if (found := evidence.profiles.get(name)) is not None:
        return name, found.hosts
    if name in evidence.labels():
        name, label = evidence.profile_of(name), name
        found = evidence.profiles.get(name)
        return name, (label,) if found is None else found.hosts
    if not PROFILE_NAME.fullmatch(name):
        raise UsageError(f"{name!r} cannot be the name of a profile: {PROFILE_NAME_RULE}")
    return name, ()


def _before(evidence: Evidence, name: str, hosts: Sequence[str]) -> set[str]:
    """The tools that the profile shows now; of a new one those that are suggested for its host, else all."""
    tools = evidence.uses.tools
    if (profile := evidence.profiles.get(name)) is not None:
        return {each.name for each in shown_by(choice_in(profile), tools)}
    if not hosts:
        return {each.name for each in tools}
    return set(suggested(hosts[0], evidence.uses, had_before(hosts[0]), evidence.limits(hosts[0])).names)
