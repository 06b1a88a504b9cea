"""Profiles: which one a host is shown. Pure.

Chosen by, the first that is there: the host's token, what the user wrote into its entry (`hubd connect --profile`, or
the URL), its label, the profile `default`. Never by what a host says of itself, or by what it did before: what it is
shown follows from what its user wrote.
"""

from collections.abc import Collection, Generator, Iterator, Mapping, Sequence

from msgspec import structs

from config.loading.check_profiles import OWN_LABEL
from config.tables.profiles import DEFAULT_PROFILE, Profile
from hub.catalog.catalog import Catalog
from hub.catalog.name_table import NameTable
from hub.catalog.profiles.chosen_entries import ChosenEntries, choose_part, rename_parts
from hub.catalog.profiles.rules import ProfileRules
from hub.catalog.profiles.unmatched import KnownTools, doubts_of_profile
from hub.catalog.search.modes import SearchModes
from hub.catalog.view import EVERYTHING, PROFILE_MARK, View, profile_view
from hub.wire.mcp import Kind


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


"""Characters of the reason why an argument has no value."""


def choose(base: Catalog, view: View, rules: ProfileRules, previous: Catalog | None) -> Generator[int, None, Catalog]:
    """The catalogue of `view`, whose profile chooses from `base`; `previous` saves work. Pauses between tools, and
    yields the number of those it has looked at.

    Its warnings are about the profile; those of `base` are not repeated.
    """
    making = base.making
    known = {} if previous is None else {part.name: part for part in previous.parts}
    budget = rules.profile.name_budget or making.rules.budget
    parts: list[ChosenEntries] = []
    for common in base.parts:
        part = yield from choose_part(common, budget, rules, known.get(common.name))
        parts += [] if part is None else [part]
    renamed, warnings = yield from rename_parts(parts, rules)
    heard = making.heard if base.view == EVERYTHING else ()  # nobody reads doubts about what a project adds
    tools = KnownTools(base.parts, (*making.rules.upstreams, *making.rules.left_out), heard)
    doubts = None if previous is None else previous.doubts
    if doubts is None or not doubts.still_right(rules, tools):
        doubts = yield from doubts_of_profile(rules, renamed, tools, {budget, making.rules.budget}, doubts)
    names = NameTable(renamed, chosen_from=base.names)
    warnings += [*doubts.sentences, *(warning for part in renamed for warning in part.warnings)]
    warnings += [f"profile {rules.name}: {warning}" for warning in names.warnings]
    return Catalog(
        renamed,
        names,
        structs.replace(making, rules=structs.replace(making.rules, budget=budget)),
        view=view,
        varies=True,
        profile=rules.profile,
        doubts=doubts,
        warnings=[*warnings, *_too_many(renamed, names, rules)],
    )


def _too_many(parts: Sequence[ChosenEntries], names: NameTable, rules: ProfileRules) -> Iterator[str]:
    most = rules.profile.max_tools
    count = sum(len(names.entries_of(Kind.TOOL, part, ui=False)) for part in parts)
    if most is not None and count > most:
        yield f"profile {rules.name}: shows {count} tools, and its max_tools is {most}; nothing is cut"
