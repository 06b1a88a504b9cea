"""Catalogues by view, as they are at one moment: those that were merged or chosen, and what is made of them on demand.

The view of a single server shows a part of another one, and search mode another face of one. Pure.

Views are chosen by profiles: the rules of each are here, and catalogues from before a profile is applied.
"""

from collections.abc import Generator, Iterable, Iterator, Mapping
from typing import Final

from msgspec import Struct, structs

from config.tables.profiles import Profile
from hub.catalog.catalog import Catalog
from hub.catalog.entries import UpstreamEntries
from hub.catalog.profiles.choice import choose
from hub.catalog.profiles.rules import ProfileRules
from hub.catalog.view import EVERYTHING, View, profile_view, server_view
from hub.wire.mcp import Kind

CATALOG: Final = 10
"""Entries that are as much work to look at as an empty catalogue is to make."""


class ListChange(Struct, frozen=True):
    """Lists of a view that differ from what its hosts may have seen."""

    view: View
    kinds: set[Kind]


class ViewCatalogs:
    """The catalogue of each view; there is always one of everything."""

    def __init__(self, merged: Mapping[View, Catalog]) -> None:
        self._catalogs = dict(merged)

    def __contains__(self, view: View) -> bool:
        return view in self._catalogs

    def __iter__(self) -> Iterator[View]:
        return iter(list(self._catalogs))

    @property
    def everything(self) -> Catalog:
        """The catalogue of all servers of the user."""
        return self._catalogs[EVERYTHING]

    @property
    def chosen(self) -> list[View]:
        """The views of profiles that were made, search mode aside."""
        return [view for view in self._catalogs if view.profile and not view.search]

    @property
    def warnings(self) -> set[str]:
        """All sentences for the operator."""
        return {warning for catalog in self._catalogs.values() for warning in catalog.warnings}

    def get(self, view: View) -> Catalog | None:
        """The catalogue of `view`, if it was made."""
        return self._catalogs.get(view)

    def of(self, view: View) -> Catalog:
        """The catalogue of `view`; one that is a part of others, or another face of one, is made and kept."""
        found = self._catalogs.get(view)
        if found is None and view.search:
            whole = self.of(structs.replace(view, search=False))
            found = self._catalogs[view] = whole.in_search_mode(view, whole.always)
        elif found is None:
            found = self._catalogs[view] = self.everything.of_server(view, self._part(view.server))
        return found

    def choose(self, view: View, rules: ProfileRules, previous: Catalog | None) -> Generator[int, None, None]:
        """Make the view of a profile, in steps, on top of what it chooses from; `previous` saves work."""
        self._catalogs[view] = yield from choose(self._catalogs[view.base], view, rules, previous)

    def make_alone(self, server: str) -> Generator[int, None, None]:
        """Make the view of a single server, in steps, unless it is there."""
        if server_view(server) in self._catalogs:
            return
        if (part := self._part(server)) is not None:
            yield from part.scoping()
        self.of(server_view(server))
        yield CATALOG

    def changes_since(self, before: "ViewCatalogs", views: Iterable[View]) -> Iterator[ListChange]:
        """The lists of `views` that differ from those of `before`."""
        for view in views:
            old, new = before.of(view), self.of(view)
            if kinds := {kind for kind in Kind if new.differs(old, kind)}:
                yield ListChange(view, kinds)

    def _part(self, server: str) -> UpstreamEntries | None:
        """The entries of a server, in the first catalogue that has it."""
        known = (part for catalog in self._catalogs.values() for part in catalog.parts)
        return next((part for part in known if part.name == server), None)


class ShownProfiles:
    """The rules of all profiles, by name."""

    def __init__(self, profiles: Mapping[str, Profile]) -> None:
        self.rules = _read(profiles, {})
        self._prepared: dict[View, tuple[ProfileRules, Catalog]] = {}
        """Catalogues of profiles that are about to be applied."""

    def of(self, view: View) -> ProfileRules | None:
        """The rules of the profile that chooses what `view` shows; None: none does."""
        return self.rules.get(view.profile)

    def apply(self, profiles: Mapping[str, Profile]) -> None:
        """Choose by these from now on."""
        prepared = {view.profile: rules for view, (rules, _) in self._prepared.items()}
        self.rules = _read(profiles, {**self.rules, **prepared})

    def prepare(self, profiles: Mapping[str, Profile], everything: Catalog) -> Generator[int, None, None]:
        """Choose what these show, in steps, as far as they differ."""
        self._prepared = {}
        for name, rules in _read(profiles, self.rules).items():
            if rules is not self.rules.get(name):
                view = profile_view(name)
                catalog = yield from choose(everything, view, rules, None)
                self._prepared[view] = rules, catalog

    def find(self, view: View) -> Catalog | None:
        """The catalogue of `view` that was made before; None: there is none."""
        found = self._prepared.get(view)
        return None if found is None else found[1]

    def forget_prepared(self) -> None:
        """Drop what was made before: the catalogues have it now."""
        self._prepared = {}


def _read(profiles: Mapping[str, Profile], known: Mapping[str, ProfileRules]) -> dict[str, ProfileRules]:
    """The rules of all profiles; of those that say the same as before, the `known` ones."""
    return {
        name: known[name] if name in known and known[name].profile == profile else ProfileRules(name, profile)
        for name, profile in profiles.items()
    }
