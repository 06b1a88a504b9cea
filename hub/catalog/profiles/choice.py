"""Profiles: which one a host is shown, whether with tools to find and call the others in place of all (search mode),
and the rules of one, read once for all names that they are asked about. Pure.

Chosen by, the first that is there: the host's token, what the user wrote into its entry (`hubd connect --profile`, or
the URL), its label, the profile `default`. Never by what a host says of itself, or by what it did before: what it is
shown follows from what its user wrote.

Of search mode a profile says `on` or `off`, or else `auto`: on for hosts that are known to show their models all tools,
where a view has more than such a host takes. Once on, it goes off only when the view is at or below 80 % of both
limits (`OFF_AT`). What was decided stays until it is decided again, so that servers which come and go change nothing,
and is forgotten by the hub only with its memory.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final

from msgspec import Struct, structs

from config.loading.check_profiles import OWN_LABEL
from config.name_globs import EachGlob, NameChoice, may_choose
from config.tables.profiles import DEFAULT_PROFILE, Profile, ResolvedOverride, ToolOverride
from hub.catalog.view import PROFILE_MARK, View, home_of, profile_view

ON, OFF, AUTO = "on", "off", "auto"
"""The values that a profile may say."""
OFF_AT: Final = 0.8
"""Share of both limits at or below which it goes off."""


class HostLimits(Struct, frozen=True):
    """The most that a host takes which shows its model all tools."""

    tools: int | None = None
    """The most tools; None: any number."""
    tokens: int | None = None
    """About how many tokens of tools; None: any number."""


class SearchModes:
    """The search mode of each host, by its label and what it would be shown.

    `limits_of`: the limits of the host with that label, or None if it is not known to show its model all tools; such a
    host is in search mode only if its profile says `on`. `settings`: what profiles say, by name. `kept`: what
    `remembered` returned in the last run.
    """

    def __init__(
        self,
        limits_of: Callable[[str], HostLimits | None] = lambda label: None,
        settings: Mapping[str, str] | None = None,
        kept: Iterable[str] = (),
    ) -> None:
        self._limits_of = limits_of
        self._settings = settings or {}
        self._on = set(kept)

    @property
    def in_use(self) -> bool:
        """True if some host may be shown search mode."""
        return bool(self._on) or ON in self._settings.values()

    @property
    def remembered(self) -> list[str]:
        """The decisions, for `kept` of the next run."""
        return sorted(self._on)

    def configure(self, settings: Mapping[str, str]) -> None:
        """Go by what profiles say now."""
        self._settings = settings

    def view_for(self, view: View, label: str) -> View:
        """The view of a host with this label, which its profile shows `view`."""
        if view.server or not self.is_on(view, label):
            return view
        return structs.replace(view, search=True)

    def is_on(self, view: View, label: str) -> bool:
        """True if a host with this label, which its profile shows `view`, is in search mode."""
        if label == OWN_LABEL:
            return False
        setting = self._setting(view)
        return setting == ON or (setting == AUTO and _key(view, label) in self._on)

    def is_open(self, view: View, label: str) -> bool:
        """True if it is to be decided, by `decide`."""
        return self._setting(view) == AUTO and not view.server and self._limits_of(label) is not None

    def decide(self, view: View, label: str, tools: int, tokens: int) -> str | None:
        """Decide anew, given what such a host would be shown; a sentence for the operator, if something changes."""
        limits, key = self._limits_of(label), _key(view, label)
        if limits is None or not self.is_open(view, label):
            return None
        was_on = key in self._on
        share = OFF_AT if was_on else 1.0
        sizes = ((tools, limits.tools), (tokens, limits.tokens))
        if any(most is not None and size > share * most for size, most in sizes) == was_on:
            return None
        if was_on:
            self._on.discard(key)
            return f"search mode is off for {label}: it is shown all {tools} tools again"
        self._on.add(key)
        most = [f"{limits.tools} tools"] if limits.tools is not None else []
        most += [f"~{limits.tokens} tokens of them"] if limits.tokens is not None else []
        return (
            f"search mode is on for {label}: it finds tools by searching, since there are {tools} (~{tokens} tokens)"
            f' and it takes {" or ".join(most)}; search = "off" in its profile shows it all'
        )

    def _setting(self, view: View) -> str:
        return self._settings.get(view.profile, AUTO)


def _key(view: View, label: str) -> str:
    return f"{label} {view.path}"


class ProfileChoice:
    """The profiles of one configuration, and their hosts. Never changes."""

    def __init__(self, profiles: Mapping[str, Profile], modes: SearchModes | None = None) -> None:
        self.profiles = dict(profiles)
        self._modes = modes or SearchModes()
        self.in_use = bool(self.profiles) or self._modes.in_use
        """True if any profile is configured, or a host is in search mode; else all hosts see all."""
        self._by_label = {label: name for name, profile in self.profiles.items() for label in profile.hosts}

    def choose(self, place: View, label: str, named: str = "") -> View:
        """The view of a host with this label at `place`; `named`: the profile that its token or its user names. A
        profile that was named and is no more shows nothing."""
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
        return next((new for name in names if (new := self.profile.rename.get(name)) is not None), None)


MAX_REASON: Final = 300
"""Characters of the reason why an argument has no value."""


def unread_of(override: ToolOverride) -> list[str]:
    """Clauses about the fixed arguments of a tool that have no value now."""
    if not isinstance(override, ResolvedOverride):
        return []
    return [f'"{argument[:60]}": {why[:MAX_REASON]}' for argument, why in override.unread.items()]
