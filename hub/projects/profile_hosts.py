"""Hosts and their profiles: what other profiles mean for those that are attached.

Hosts stay attached. Each is shown what its profile says now, or another profile that is its own now; those whose lists
differ are told, and no others (the hosts of a profile that stays theirs by `ListUpdates`, as of any change).
"""

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager

import trio

from config.tables.profiles import Profile
from hub.catalog.catalog import Catalog
from hub.catalog.profiles.choice import ProfileChoice
from hub.catalog.search.modes import SearchModes
from hub.catalog.view import View, profile_view
from hub.control.answers import ProfileRow
from hub.downstream.host import Host
from hub.downstream.hosts import Hosts
from hub.routing.listeners import ListenStream
from hub.routing.live_catalog import LiveCatalog
from hub.routing.subscriptions import Subscriptions
from hub.wire.mcp import Kind

NO_LABEL = ""
"""Of a host for which nothing but its profile decides."""


class ProfileHosts:
    """The attached hosts by profile."""

    def __init__(
        self,
        profiles: Mapping[str, Profile],
        live: LiveCatalog,
        hosts: Hosts,
        subscriptions: Subscriptions,
        modes: SearchModes,
    ) -> None:
        self._live = live
        self._hosts = hosts
        self._subscriptions = subscriptions
        self._modes = modes
        modes.configure(_settings(profiles))
        hosts.choose_by(ProfileChoice(profiles, modes))

    def __repr__(self) -> str:
        return f"<ProfileHosts by {self._hosts.profiles!r}>"

    @contextmanager
    def moving(self, profiles: Mapping[str, Profile]) -> Iterator[None]:
        """Around a change of the configuration without a checkpoint: show hosts what `profiles` give them then."""
        before = self._hosts.profiles
        if before.profiles == profiles:
            yield
            return
        shown, streams = self._views_now()
        yield
        self._modes.configure(_settings(profiles))
        changed = {name for name in {*before.profiles, *profiles} if before.profiles.get(name) != profiles.get(name)}
        self._show(ProfileChoice(profiles, self._modes), shown, streams, changed)

    def show_modes(self) -> None:
        """Show attached hosts what they are given by the search modes that are decided now."""
        self._show(ProfileChoice(self._hosts.profiles.profiles, self._modes), *self._views_now(), set())

    def _views_now(self) -> tuple[dict[Host, Catalog], dict[ListenStream, Catalog]]:
        """The views that hosts, and streams without a host, are shown at this moment."""
        shown = {host: self._live.of(host.view) for host in self._hosts}
        return shown, {stream: self._live.of(stream.view) for stream in self._subscriptions.stateless}

    def _show(
        self,
        after: ProfileChoice,
        shown: Mapping[Host, Catalog],
        streams: Mapping[ListenStream, Catalog],
        changed: Collection[str],
    ) -> None:
        self._hosts.choose_by(after)
        for host, catalog in shown.items():
            view = host.view_at(host.view.base)
            if view != host.view:
                self._move(host, view, catalog)
            elif view.profile in changed:
                self._subscriptions.shown(host.tenant, view, set())
        for stream, catalog in streams.items():
            identity = stream.host.identity
            view = after.choose(stream.view.base, identity.host, identity.profile or stream.exchange.named)
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


def _settings(profiles: Mapping[str, Profile]) -> dict[str, str]:
    """The settings of search mode of profiles, by name."""
    return {name: profile.search for name, profile in profiles.items()}
