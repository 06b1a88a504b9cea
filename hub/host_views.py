"""Views of attached hosts: what each is shown once profiles are others.

Hosts stay attached. Each is shown what its profile says now, or another profile that is its own now; those whose lists
differ are told, and no others (the hosts of a profile that stays theirs by `ListUpdates`, as of any change).
"""

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import InitVar, dataclass

import trio

from config.profile_settings import Profile
from hub.catalog.catalog import Catalog
from hub.catalog.endpoint_views import View, profile_view
from hub.catalog.profiles.profile_choice import ProfileChoice
from hub.catalog.profiles.search_modes import SearchModes
from hub.control.answers import ProfileRow
from hub.downstream.host_conversations import Host, Hosts
from hub.routing.change_listeners import ListenStream
from hub.routing.live_catalog import LiveCatalog
from hub.routing.subscription_requests import Subscriptions
from hub.wire.mcp import Kind

NO_LABEL = ""
"""Of a host for which nothing but its profile decides."""


Shown = tuple[Mapping[Host, Catalog], Mapping[ListenStream, Catalog]]


@dataclass(eq=False, repr=False)
class HostViews:
    """The views of all attached hosts, by their profiles."""

    profiles: InitVar[Mapping[str, Profile]]
    _live: LiveCatalog
    _hosts: Hosts
    _subscriptions: Subscriptions
    _modes: SearchModes

    def __post_init__(self, profiles: Mapping[str, Profile]) -> None:
        self._choose_by(profiles)

    def _choose_by(self, profiles: Mapping[str, Profile]) -> None:
        self._modes.configure({name: profile.search for name, profile in profiles.items()})
        self._hosts.choose_by(ProfileChoice(profiles, self._modes))

    @contextmanager
    def moving(self, profiles: Mapping[str, Profile] | None = None) -> Iterator[None]:
        """Around a change of the configuration without a checkpoint: show hosts what `profiles`, or those that there
        are, and rules give them then."""
        before, book = self._hosts.profiles.profiles, self._hosts.judge.book
        profiles = before if profiles is None else profiles
        shown = self._views_now()
        yield
        if before == profiles and self._hosts.judge.book is book:
            return
        self._choose_by(profiles)
        changed = {name for name in {*before, *profiles} if before.get(name) != profiles.get(name)}
        if self._hosts.judge.book is not book:  # of each view something may be denied now
            changed |= {"", *profiles}
        self._show(shown, changed)

    def show_modes(self) -> None:
        """Show attached hosts what they are given by the search modes that are decided now."""
        shown = self._views_now()
        self._hosts.choose_by(ProfileChoice(self._hosts.profiles.profiles, self._modes))
        self._show(shown, set())

    def _views_now(self) -> Shown:
        hosts = {host: self._live.of(host.view) for host in self._hosts if self._live.has(host.view)}
        return hosts, {stream: self._live.of(stream.view) for stream in self._subscriptions.stateless}

    def _show(self, shown: Shown, changed: Collection[str]) -> None:
        """Show hosts and streams what they are given now. `shown`: what they were shown; `changed`: other profiles."""
        hosts, streams = shown
        for host, catalog in hosts.items():
            view = host.view_at(host.view.base)
            if view != host.view:
                self._move(host, view, catalog)
            elif view.profile in changed:
                self._subscriptions.shown(host.tenant, view, set())
        for stream, catalog in streams.items():
            identity = stream.host.identity
            named, rights = identity.profile or stream.exchange.named, stream.exchange.caller.rights
            view = self._hosts.view_of(stream.view.base, identity, named, rights)
            if view != stream.view or view.profile in changed:
                kinds = self._differing(catalog, view) if view != stream.view else set()
                stream.moved(view)
                stream.list_changed(kinds)

    async def status(self) -> list[ProfileRow]:
        """For `hubd status`; the tools of each profile are counted apart."""
        rows = []
        for name, profile in self._hosts.profiles.profiles.items():
            rows.append(self._row(name, profile))
            await trio.lowlevel.checkpoint()
        return rows

    def _row(self, name: str, profile: Profile) -> ProfileRow:
        catalog = self._live.of(self._modes.view_for(profile_view(name), NO_LABEL))
        cost = catalog.shown_cost
        return ProfileRow(
            name=name,
            hosts=sum(host.view.profile == name for host in self._hosts),
            tools=cost.tools,
            tokens=cost.tokens,
            search=profile.search,
            warnings=catalog.warnings,
        )

    def _move(self, host: Host, view: View, before: Catalog) -> None:
        kinds = self._differing(before, view)
        self._subscriptions.shown(host.tenant, view, kinds)
        self._hosts.move(host, view, kinds)

    def _differing(self, before: Catalog, view: View) -> set[Kind]:
        after = self._live.of(view)
        return {kind for kind in Kind if after.differs(before, kind)}
