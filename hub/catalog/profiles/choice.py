"""Profiles: which one a host is shown, and the rules of one, read once for all names that they are asked about. Pure.

Chosen by, the first that is there: the host's token, what the user wrote into its entry (`hubd connect --profile`, or
the URL), its label, the profile `default`. Never by what a host says of itself, or by what it did before: what it is
shown follows from what its user wrote.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Final

from config.loading.check_profiles import OWN_LABEL
from config.name_globs import EachGlob, NameChoice, may_choose
from config.tables.profiles import DEFAULT_PROFILE, Profile, ResolvedOverride, ToolOverride
from hub.catalog.search.modes import SearchModes
from hub.catalog.view import PROFILE_MARK, View, home_of, profile_view


class ProfileChoice:
    """The profiles of one configuration, and their hosts. Never changes."""

    def __init__(self, profiles: Mapping[str, Profile], modes: SearchModes | None = None) -> None:
        self.profiles = dict(profiles)
        self._modes = modes or SearchModes()
        self.in_use = bool(self.profiles) or self._modes.in_use
        """True if any profile is configured, or a host is in search mode; else all hosts see all."""
        self._by_label = {label: name for name, profile in self.profiles.items() for label in profile.hosts}

    def choose(self, place: View, label: str, named: str = "") -> View:
        """The view of a host with this label at `place`; `named`: the profile that its token or its user names.

        A profile that was named and is no more shows nothing.
        """
        return self._modes.view_for(self.choose_whole(place, label, named), label)

    def choose_whole(self, place: View, label: str, named: str = "") -> View:
        """The same view with all its tools, whether the host is in search mode or not."""
        if place.server or (label == OWN_LABEL and not named):
            return place
        name = named or self._by_label.get(label, DEFAULT_PROFILE)
        if name == DEFAULT_PROFILE and name not in self.profiles:
            return place.base
        return profile_view(name, place.base)


def find_profile(name: str, profiles: Collection[str]) -> View | None:
    """The view of the endpoint /mcp/<name>, of one of these profiles; None: it is no profile's."""
    if not name.startswith(PROFILE_MARK):
        return None
    profile = name.removeprefix(PROFILE_MARK)
    return profile_view(profile) if profile in profiles or profile == DEFAULT_PROFILE else None


UNCHANGED: Final = ToolOverride()


class ProfileRules:
    """The choice that a profile makes of servers and of visible names, as they are before renaming. Never changes."""

    def __init__(self, name: str, profile: Profile) -> None:
        self.name = name
        self.profile = profile
        self._servers = frozenset(profile.servers)
        self._tools = NameChoice(profile.tools)
        self._always = NameChoice(profile.always)
        self._has_always = bool(profile.always)
        self.entries = EachGlob((*profile.tools, *profile.always), (*profile.rename, *profile.override))
        """Everything by which it means tools."""

    def shows_server(self, running: str) -> bool:
        """True if the server that runs as `running` is shown; of a project's server its own name counts."""
        return not self._servers or home_of(running)[0] in self._servers

    def shows_tool(self, names: Collection[str]) -> bool:
        """True if a tool is shown that is known by `names`: what any of them is taken away by holds for the tool."""
        return self._tools.chooses(names)

    def may_show_tools_of(self, starts: Iterable[str]) -> bool:
        """True if a tool may be shown whose name begins with one of `starts`, as far as globs can say."""
        return any(may_choose(self.profile.tools, start) for start in starts)

    def is_always(self, names: Collection[str]) -> bool:
        """True if that tool is shown in search mode, too."""
        return self._has_always and self._always.chooses(names)

    def override(self, names: Collection[str]) -> ToolOverride:
        """The other texts and the fixed arguments of that tool: of all its names, the first counts for more."""
        known = self.profile.override
        found = [known[name] for name in names if name in known] if known else []
        if len(found) < 2:
            return found[0] if found else UNCHANGED
        fixed = {argument: value for each in reversed(found) for argument, value in each.fix.items()}
        description = next((each.description for each in found if each.description), "")
        unread = {
            name: why for each in found if isinstance(each, ResolvedOverride) for name, why in each.unread.items()
        }
        return ResolvedOverride(description=description, fix=fixed, unread=unread)

    def new_name(self, names: Collection[str]) -> str | None:
        """The name that it is given; None: it keeps its own."""
        renamed = self.profile.rename
        return next((renamed[name] for name in names if name in renamed), None) if renamed else None


MAX_REASON: Final = 300
"""Characters of the reason why an argument has no value."""


def unread_of(override: ToolOverride) -> list[str]:
    """Clauses about the fixed arguments of a tool that have no value now."""
    if not isinstance(override, ResolvedOverride):
        return []
    return [f'"{argument[:60]}": {why[:MAX_REASON]}' for argument, why in override.unread.items()]
