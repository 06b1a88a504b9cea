"""`hubd profile remove NAME`: a profile taken out of hubd.toml, and what its hosts are shown then."""

import os
from collections.abc import Iterator, Sequence
from os import EX_CONFIG, EX_OK

from config.editing.draft import Draft
from config.files import lock_edits
from config.hosts.facts import hosts_that_list_once
from config.hub_paths import state_dir
from config.tables.profiles import DEFAULT_PROFILE
from hub.cli.configuration.saving import reload_hub, save, say_problems, show
from hub.cli.profiles.ways_in import HostWays, ways_in
from hub.cli.profiles.writing import status_now
from hub.cli.render.words import about
from hub.cli.subcommand import Desk, UsageError, nearest
from hub.control.answers import HostRow, Status


def remove(options: Desk) -> int:
    """Remove it, and say what its hosts are shown; the exit code.

    Raises:
        UsageError: there is no such profile.
        EditError: it cannot be edited for certain.
    """

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
            text = "that would be no configuration a hub can use; nothing was changed"
            return output.fail(EX_CONFIG, text)
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
        whose = f"{', '.join(labels[:10])}{f' and {len(labels) - 10} more' if len(labels) > 10 else ''}"
        what = "the profile default" if has_default else "all there is"
        yield f"{whose}: shown {what} now{_extent(labels, after)}"
    else:
        yield "it listed no label of a host"
    once = hosts_that_list_once()
    for label in dict.fromkeys(each.label for each in before.hosts if each.profile == name and each.label in once):
        yield f"restart {label}: it asks for its tools only when it starts"


def _extent(labels: Sequence[str], after: Status) -> str:
    """The extent of the view of the attached ones, where it is the same for all."""
    found = {_show(each) for each in after.hosts if each.label in labels and each.tools is not None}
    return f" ({found.pop()})" if len(found) == 1 else ""


def _show(host: HostRow) -> str:
    how = "in search mode: " if host.search else ""
    return f"{how}{host.tools} tools, {about(host.tokens or 0)} tokens"


def names_left(name: str, before: Status, ways: HostWays) -> Iterator[str]:
    """The things that still name a profile that is gone. Pure."""
    for entry in dict.fromkeys(entry for found in ways.entries.values() for entry in found if entry.profile == name):
        yield f"the entry of a host in {entry.path} names {name} and is refused now: `hubd install` writes it anew"
    for token in dict.fromkeys(each.name for each in ways.tokens if each.profile == name):
        remedy = f"`hubd token revoke {token}`, or have a profile {name} again"
        yield f"the token {token} opens {name} and nothing else, so its host is shown nothing now: {remedy}"
