"""A profile put into hubd.toml, and what became of it."""

import os
from collections.abc import Collection, Mapping, Sequence
from os import EX_CONFIG
from typing import Any

from config.editing.draft_across_files import Draft
from config.editing.text import toml
from config.profile_settings import Profile
from hub.cli.configuration.save_draft import reload_hub, save, say_problems
from hub.cli.context import Context, Output, UsageError, agreed, ask_hub
from hub.cli.profiles.profile_evidence import Evidence
from hub.cli.profiles.tool_globs import Choice, with_unknown
from hub.cli.profiles.who_is_shown_profile import say_arrivals
from hub.cli.render.words import about
from hub.control.answers import Status
from hub.control.client_errors import HubNotRunning
from hub.control.methods import STATUS


def new_settings(
    evidence: Evidence, name: str, hosts: Sequence[str], choice: Choice, dropped: Collection[str] = ()
) -> dict[str, Any]:
    """The settings to write for the profile `name`: what says something, and what differs from what it says now.
    `dropped`: globs that it is to say no more."""
    before = evidence.profiles.get(name)
    if before is None:
        return {**({"hosts": list(hosts)} if hosts else {}), **choice.settings()}
    here = {each.name for each in evidence.status.upstreams}
    said = Choice(before.servers, tuple(glob for glob in before.tools if glob not in dropped))
    choice = with_unknown(choice, said, here, evidence.uses.tools)
    wanted = {"hosts": dict.fromkeys([*before.hosts, *hosts]), "servers": choice.servers, "tools": choice.tools}
    return {key: list(value) for key, value in wanted.items() if set(value) != set(getattr(before, key))}


def leave_unchanged(output: Output, why: str = "nothing was changed") -> None:
    """Say that nothing is written."""
    output.set(did="unchanged")
    output.say(why)


def may_change(options: Context, name: str, before: Profile, settings: Mapping[str, Any]) -> bool:
    """Show what becomes of a profile that is there, and ask whether it may without `--yes`. Raises: UsageError."""
    output = options.output
    output.show(f"the profile {name} is there already, and changes so:", *changes(name, before, settings))
    if options.yes:
        return True
    if not output.is_attended():
        text = f"the profile {name} is there already, and nobody can be asked here whether to change it: nothing was"
        raise UsageError(f"{text} changed; add --yes to change it, or leave --write out to see what is suggested")
    return agreed(f"Change the profile {name}?", default=False)


def changes(name: str, before: "Profile", settings: Mapping[str, Any]) -> list[str]:
    """The lines of a profile that go (`-`) and that come (`+`). Pure."""
    was = {key: list(getattr(before, key)) for key in settings}
    lines = [toml.render(("profiles",), name, each).splitlines()[1:] for each in (was, dict(settings))]
    return [f"{sign} {line}" for sign, found in zip("-+", lines, strict=True) for line in found]


def write(options: Context, name: str, settings: Mapping[str, Any], of: Sequence[str]) -> None:
    """Write settings of a profile, have the running hub take it up, and tell who is shown it. `of`: the labels of its
    hosts of which something is told. Raises EditError: hubd.toml cannot be edited for certain."""
    output = options.output
    draft = Draft(options.config, os.environ)
    draft.put_profile(name, settings)
    if problems := draft.problems():
        say_problems(problems, output)
        return output.fail("nothing was changed", EX_CONFIG)
    for warning in draft.warnings_of_main():
        if name in warning.keys:
            output.warn(str(warning))
    saved = save(draft, "written", f"profile {name}", output)
    reload_hub(saved, output)
    if not output.code and output.member("hub") != "elsewhere":
        status = status_now()
        _say_shown(name, status, output)
        say_arrivals(options, name, of, status)


def status_now() -> Status:
    """The status of the running hub; of none, one without hosts."""
    try:
        return ask_hub(STATUS)
    except HubNotRunning:
        return Status()


def _say_shown(name: str, status: Status, output: Output) -> None:
    """Report what the hosts of a profile are shown now."""
    row = next((each for each in status.profiles if each.name == name), None)
    if row is not None:
        hosts = f", shown to {row.hosts} attached {'host' if row.hosts == 1 else 'hosts'}" if row.hosts else ""
        tokens = f", {about(row.tokens)} tokens with instructions" if row.tokens else ""
        tools = f"{row.tools} {'tool' if row.tools == 1 else 'tools'}" if row.tools else "no tools"
        output.say(f"{name}: {tools}{tokens}{hosts}")
