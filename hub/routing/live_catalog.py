"""The live catalogue: what each view shows now, made anew when an upstream changes.

    EVERYTHING     the servers of the user
    project view   the same, but for those that the project hides, and the servers of the project
    server view    one of all these; made when a host first asks for it
    profile view   a profile's choice of all servers of the user; on top of a project made when a host first asks for it

A rebuild swaps all catalogues at once, so no request sees half of a change, and returns the lists that differ;
`hub.routing.list_updates` passes that on to hosts. A flood of changes costs one rebuild, and the last one is never
lost: the flag is cleared before the snapshots are read. Large catalogues are made in slices, between other tasks.
"""

import logging
from collections.abc import Mapping
from itertools import chain
from typing import TYPE_CHECKING, Final

import trio
from msgspec import structs

from config.profile_settings import Profile
from config.server_names import server_of
from hub.catalog.catalog import Catalog
from hub.catalog.endpoint_views import EVERYTHING, View, home_of, profile_view, server_view
from hub.catalog.profiles.profile_choice import find_profile
from hub.catalog.time_slices import STEP, Steps, finish
from hub.catalog.token_cost import TokenCost
from hub.catalog.visible_names import Rules
from hub.link.sync_primitives import Bell
from hub.routing.view_catalogs import ListChange, ShownProfiles, ShownServers, ViewCatalogs
from hub.rules.policy.judge import Judge
from upstreams.upstream import ManagedUpstream

if TYPE_CHECKING:
    from hub.rules.policy.rule_book import RuleBook

log = logging.getLogger("hubd.notify")

_NO_CATALOG: Final = "cannot make a catalogue of what the upstreams list; the one before stays"


class LiveCatalog:
    """The catalogues of all views. `settled` is set once every upstream has reported, or start-up took too long: until
    then lists, but for those of one server that has reported, and calls of unknown names wait for it.
    """

    def __init__(
        self, servers: ShownServers, judge: Judge | None = None, running: Mapping[str, ManagedUpstream] | None = None
    ) -> None:
        """`running`: all upstreams of the servers, further accounts at them too."""
        self.servers = servers
        """What is shown; changes of it count from the next rebuild on."""
        self.judge = judge or Judge()
        """Its tables are made with the catalogues, and swapped with them."""
        self.upstreams = servers.upstreams
        self.running = self.upstreams if running is None else running
        self.settled = trio.Event()
        self._varies = False
        self.rebuilds = 0
        self._profiles = ShownProfiles(servers.rules.profiles)
        self._catalogs = ViewCatalogs({EVERYTHING: servers.empty()}, self._permit, self.judge.audiences)
        self._changed: set[str] = set()
        self._taken: set[str] = set()
        """Changed upstreams that a rebuild has begun to look at."""
        self.news = trio.Event()
        """Set while there are changes that the catalogues do not have yet."""
        self.rebuilt = Bell()
        """Rung when the catalogues were made anew, or could not be."""
        self._reported: set[str] = set()
        """Upstreams that had listed what they offer, or had failed, when the catalogues were made."""
        self._shown_early: set[View] = set()
        """Views of one server that hosts were shown before all upstreams had reported."""

    def _permit(self, catalog: Catalog, view: View) -> Catalog:
        """What the audience of `view` is shown of a catalogue."""
        from hub.rules.policy.audience_lists import permit  # not above: only rules need it

        return permit(self.judge, catalog, view)

    @property
    def everything(self) -> Catalog:
        """The catalogue of all servers of the user."""
        return self._catalogs[EVERYTHING]

    @property
    def warnings(self) -> list[str]:
        """Sentences for the operator, of all views that hosts may be shown."""
        shown = (self.of(view) for view in (EVERYTHING, *self.servers.projects, *self.profile_views))
        return list(dict.fromkeys(warning for catalog in shown for warning in catalog.warnings))

    @property
    def profile_views(self) -> tuple[View, ...]:
        """Views of the configured profiles, in their order."""
        return tuple(map(profile_view, self.servers.rules.profiles))

    def of(self, view: View) -> Catalog:
        """The catalogue of `view`; an empty one, if what it shows is not here."""
        catalog = self._catalogs.get(view)
        return self._make(view) if catalog is None else catalog

    def has(self, view: View) -> bool:
        """True if what `view` is a part or a face of is here, even if nobody has asked for it yet."""
        return bool(view.server) or view.base in self._catalogs

    def _make(self, view: View) -> Catalog:
        rules, whole = self._profiles.of(view), structs.replace(view, search=False, audience="")
        if rules is not None and view.base in self._catalogs and whole not in self._catalogs:
            finish(self._catalogs.choose(whole, rules, None))
        return self._catalogs.of(view)

    def profile_of(self, view: View) -> Profile | None:
        """The profile that chooses what `view` shows; None: none does."""
        return self.servers.rules.profiles.get(view.profile)

    def shows(self, view: View, upstream: str) -> bool:
        """True if the profile of `view` does not leave the upstream out."""
        rules = self._profiles.of(view)
        return not view.profile if rules is None else rules.shows_server(upstream)

    def shows_tool(self, view: View, upstream: str, tool: str) -> bool:
        """True if the profile of `view` leaves out neither the upstream nor what that calls `tool`, listed or not."""
        running, upstream = upstream, server_of(upstream)
        if self.of(view).accounts.get(upstream, running) != running and self.of(view).decides_account(upstream):
            return False
        if not (view.profile or view.audience) or not self.shows(view, upstream):
            return not view.profile
        if view.audience and not self.judge.may_use(view, upstream, tool):
            return False
        parts = self.of(structs.replace(view, search=False)).parts
        return any(part.shows_tool(tool) for part in parts if part.name == upstream)

    def find_view(self, name: str) -> View | None:
        """The view of the endpoint /mcp/<name>; None: there is none."""
        if name in self.upstreams:
            return server_view(name)
        if (view := find_profile(name, self.servers.rules.profiles)) is not None:
            return view
        return next((view for view in self.servers.projects if view.name == name and view in self._catalogs), None)

    def cost_of(self, upstream: str) -> TokenCost | None:
        """The cost of an upstream's tools for the model of a host that sees it; None: its lists are in no view yet."""
        _, home = home_of(upstream)
        return self.of(home).costs.get(upstream)

    def is_shown(self, view: View) -> bool:
        """True if `wait` would not have to wait."""
        project = self.servers.projects.get(view.base)
        return self.settled.is_set() and (project is None or project.reported.is_set())

    async def wait(self, view: View) -> None:
        """Wait until the lists of `view` can be shown."""
        while view.server and not self.settled.is_set() and view.server not in self._reported:
            await self.rebuilt.wait()  # a view of one server waits for no other
        if view.server and not self.settled.is_set():
            self._shown_early.add(view)
            return
        await self.settled.wait()
        if (project := self.servers.projects.get(view.base)) is not None:
            await project.reported.wait()

    async def wait_complete(self) -> None:
        """Wait until all upstreams have said what they offer, or could not, and the catalogues have it all. One that
        is away was heard before."""
        while self.news.is_set() or not self.complete:
            await self.rebuilt.wait()

    @property
    def complete(self) -> bool:
        """True if the catalogues have what all upstreams offer, but for changes of these moments."""
        upstreams = self.upstreams.items()
        return self.settled.is_set() and all(each.has_reported and name in self._reported for name, each in upstreams)

    def apply(self, rules: Rules) -> None:
        """Name servers by other rules from the next rebuild on, and choose by other profiles from now on."""
        self.servers.rules = rules
        self._profiles.apply(rules.profiles)

    async def prepare(self, profiles: Mapping[str, Profile], book: "RuleBook | None" = None) -> None:
        """Choose what other profiles show, and find what other rules are about, in slices, so that nobody waits for
        that when they are applied.

        Cancellation: it is done then.
        """
        looked_at = 0
        steps = self._profiles.prepare(profiles, self.everything), self.judge.prepare(book, [*self._catalogs.values()])
        for step in chain.from_iterable(steps):
            looked_at += step
            if looked_at >= STEP:
                looked_at = 0
                await trio.lowlevel.checkpoint()

    def changed(self, upstream: str) -> None:
        """Note that an upstream's lists differ from what was last seen. Never blocks."""
        self._changed.add(upstream)
        self.news.set()

    @property
    def dirty(self) -> bool:
        """True if there are changes that the catalogues do not have yet."""
        return self.news.is_set()

    def vary(self, *, on: bool) -> None:
        """Say from the next rebuild on that hosts are shown different things, or no longer."""
        if on != self._varies:
            self._varies = on
            self.news.set()

    def settle(self) -> None:
        """Show all lists from now on."""
        self.settled.set()
        self.rebuilt.ring()

    def rebuild(self) -> list[ListChange]:
        """Make all catalogues anew and swap them, without a checkpoint; the lists that hosts see differently.

        Lists that cannot be merged leave the catalogues as they were, until something changes again.
        """
        try:
            return finish(self._rebuild())
        except Exception:
            log.exception(_NO_CATALOG)
            return []
        finally:
            self.rebuilt.ring()  # also where it failed: whoever waits looks again

    async def rebuild_in_slices(self) -> list[ListChange]:
        """`rebuild`, with a checkpoint whenever `STEP` entries were looked at. The catalogues are swapped at once. A
        `rebuild` meanwhile takes its place.

        Cancellation: the changes are still to be made.
        """
        steps, before, looked_at = self._rebuild(), self.rebuilds, 0
        try:
            while True:
                looked_at += next(steps)
                if looked_at >= STEP:
                    looked_at = 0
                    await trio.lowlevel.checkpoint()
                    if self.rebuilds != before:
                        return []
        except StopIteration as end:
            changes: list[ListChange] = end.value
            return changes
        except trio.Cancelled:
            self.news.set()
            raise
        except Exception:
            log.exception(_NO_CATALOG)
            return []
        finally:
            steps.close()
            self.rebuilt.ring()

    def _rebuild(self) -> Steps[list[ListChange]]:
        """The steps of a rebuild. Until the last one nothing differs for anybody."""
        if self.news.is_set():  # else a task is waiting for it
            self.news = trio.Event()
        self._taken |= self._changed
        self._changed = set()
        old = self._catalogs
        reported = {name for name, upstream in self.upstreams.items() if upstream.has_reported}
        new = yield from self._build(old)
        table = yield from self.judge.compile(self.judge.book, new.values())
        for server in list(self._views_alone_before()):  # so that comparing them is all that is left
            yield from old.make_alone(server)
            yield from new.make_alone(server)
        self.judge.use(table)
        self._complete(new, old)
        changes = list(new.changes_since(old, self._views_before(old, new)))
        self._catalogs, self._taken = new, set()
        self._profiles.prepared = {}
        self.rebuilds += 1
        self._reported = reported
        known = {warning for catalog in old.values() for warning in catalog.warnings}
        for view in (EVERYTHING, *self.profile_views):
            for warning in new.of(view).warnings if view in new else ():
                if warning not in known:
                    known.add(warning)
                    log.warning("%s", warning)
        return changes

    def _views_before(self, old: ViewCatalogs, new: ViewCatalogs) -> list[View]:
        """The views that hosts may have seen before, of single servers only the changed ones."""
        servers = list(map(server_view, self._views_alone_before()))
        if not self.settled.is_set():  # no host has been shown another list yet
            return servers
        others = (each for each in new if each in old and each != EVERYTHING and (each.audience or not each.server))
        return [EVERYTHING, *servers, *others]

    def _views_alone_before(self) -> set[str]:
        """Changed upstreams that hosts may have seen at an endpoint of their own."""
        if self.settled.is_set():
            return self._taken
        return self._taken & {view.server for view in self._shown_early}

    def _build(self, old: ViewCatalogs) -> Steps[ViewCatalogs]:
        profiles = self._profiles.rules
        merged = yield from self.servers.merge_in_steps(old, varies=bool(profiles) or self._varies)
        new = ViewCatalogs(merged, self._permit, self.judge.audiences)
        for view in (*map(profile_view, profiles), *old.chosen):
            if view not in new and view.profile in profiles and view.base in new:
                _, prepared = self._profiles.prepared.get(view, (None, None))
                yield from new.choose(view, profiles[view.profile], prepared or old.get(view))
                yield STEP
        return new

    def _complete(self, new: ViewCatalogs, old: ViewCatalogs) -> None:
        """Make what hosts were shown for the first time meanwhile, and other faces of what there is."""
        for view in old.chosen:
            rules = self._profiles.of(view)
            if rules is not None and view not in new and view.base in new:
                finish(new.choose(view, rules, old.get(view)))
        for view in list(old):
            if view.audience and view.audience not in self.judge.audiences:
                continue  # rules have other audiences now
            base = structs.replace(view, search=False, audience="")
            if base != view and (base in new or view.server):
                new.of(view)
