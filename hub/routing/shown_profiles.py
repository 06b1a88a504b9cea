"""Profiles that views are chosen by: the rules of each, and catalogues that were made before a profile is applied."""

from collections.abc import Generator, Mapping

from config.profile_settings import Profile
from hub.catalog.catalog import Catalog
from hub.catalog.profiles.choice import choose
from hub.catalog.profiles.rules import ProfileRules
from hub.catalog.view import View, profile_view


class ShownProfiles:
    """The rules of all profiles, by name."""

    def __init__(self, profiles: Mapping[str, Profile]) -> None:
        self.rules = _read(profiles, {})
        self._prepared: dict[View, tuple[ProfileRules, Catalog]] = {}
        """Catalogues of profiles that are about to be applied."""

    def __repr__(self) -> str:
        return f"<ShownProfiles {', '.join(self.rules)}>"

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
