"""Choice of the view that a host is shown by its profile. Pure.

The profile is chosen by, the first that is there: the host's token, what the user wrote into its entry (`hubd connect
--profile`, or the URL), its label, the profile `default`. Never by what a host says of itself, or by what it did
before: what it is shown follows from what its user wrote.
"""

from collections.abc import Collection, Mapping

from config.loading.checks.profiles import OWN_LABEL
from config.profile_settings import DEFAULT_PROFILE, Profile
from hub.catalog.endpoint_views import PROFILE_MARK, View, profile_view
from hub.catalog.profiles.search_modes import SearchModes


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
    profile = name.removeprefix(PROFILE_MARK)
    is_known = profile in profiles or profile == DEFAULT_PROFILE
    return profile_view(profile) if is_known and profile != name else None
