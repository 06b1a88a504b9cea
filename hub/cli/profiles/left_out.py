"""Profiles that leave a new server out: what `hubd add` says of them."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from config.errors import ConfigError
from config.name_globs import may_choose
from config.tables.profiles import Profile
from hub.cli.subcommand import Desk

MAX_SAID: Final = 8
"""Profiles that are named; of further ones only their number."""
SEPARATOR: Final = "__"


def say_left_out(options: Desk, name: str, values: Mapping[str, Any]) -> None:
    """Note which profiles do not show the new server `name`, and what to change. `values`: its settings."""

    try:
        profiles = options.loaded.config.profiles
    except ConfigError:  # which was said when it was changed
        return
    prefix = values.get("prefix", name)
    by_remedy: dict[str, list[str]] = {}
    for profile, remedy in profiles_without(profiles, name, prefix if isinstance(prefix, str) else name):
        by_remedy.setdefault(remedy, []).append(profile)
    for remedy, found in by_remedy.items():
        noun, whose = ("profile", "its") if len(found) == 1 else ("profiles", "their")
        told = ", ".join(found[:MAX_SAID]) + (f" and {len(found) - MAX_SAID} more" if len(found) > MAX_SAID else "")
        options.output.note(
            f"hosts of the {noun} {told} are not shown {name}: add {remedy.format(whose=whose)}, or choose with `hubd "
            f"tools --pick {found[0]}`"
        )


def profiles_without(profiles: Mapping[str, Profile], name: str, prefix: str) -> Iterator[tuple[str, str]]:
    """The profiles that cannot show a tool of the server `name`, each with what to add to `{whose}` settings. Pure.

    `prefix`: what the visible names of its tools begin with; "": nothing, so that nobody knows them yet.
    """
    for each, profile in profiles.items():
        wanted = []
        if profile.servers and name not in profile.servers:
            wanted.append(f'"{name}" to {{whose}} `servers`')
        if prefix and not may_choose(profile.tools, f"{prefix}{SEPARATOR}"):
            wanted.append(f'"{prefix}{SEPARATOR}*" to {{whose}} `tools`')
        if wanted:
            yield each, " and ".join(wanted)
