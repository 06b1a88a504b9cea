"""The live catalogue: what each view shows now, made anew when an upstream changes.

    EVERYTHING     the servers of the user
    project view   the same, but for those that the project hides, and the servers of the project
    server view    one of all these; made when a host first asks for it
    profile view   a profile's choice of all servers of the user; on top of a project made when a host first asks for it

Claims and naming rules of all views are kept here. Projects add and remove their views by call. A rebuild swaps all
catalogues at once, so no request sees half of a change, and returns the lists that differ; `hub.routing.list_updates`
passes that on to hosts. A flood of changes costs one rebuild, and the last one is never lost: the flag is cleared
before the snapshots are read. Catalogues of many tools are made in slices, between which other tasks run.
"""

import logging
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from typing import Final

import trio
from msgspec import Struct, structs

from config.profile_settings import Profile
from hub.catalog.catalog import Catalog
from hub.catalog.choosing import choose
from hub.catalog.entries import UpstreamEntries
from hub.catalog.merging import merge, merge_in_steps
from hub.catalog.naming_rules import Rules, UpstreamRule
from hub.catalog.profile_choice import find_profile
from hub.catalog.profile_rules import ProfileRules
from hub.catalog.sign_in_tool import SignInTool
from hub.catalog.steps import finish, next_of
from hub.catalog.token_cost import TokenCost
from hub.catalog.uri_claims import UriClaims
from hub.catalog.view import EVERYTHING, View, home_of, profile_view, server_view
from hub.link.flag_and_bell import Bell
from hub.link.sealing import Sealer
from hub.wire.mcp import Kind
from upstreams.upstream import Upstream

log = logging.getLogger("hubd.notify")

SLICE: Final = 100
"""Entries after which other tasks have their turn."""
CATALOG: Final = 10
"""Entries that are as much work to look at as an empty catalogue is to make."""
_NO_CATALOG: Final = "cannot make a catalogue of what the upstreams list; the one before stays"


class ListChange(Struct, frozen=True):
    """Lists of a view that differ from what its hosts may have seen."""

    view: View
    kinds: set[Kind]


class _ShownProject:
    """The servers of a project."""

    def __init__(self, rules: Sequence[UpstreamRule], hides: Collection[str]) -> None:
        self.rules = tuple(rules)
        self.hides = hides
        """Servers of the user that its hosts do not see, by name."""
        self.claims = UriClaims()
        self.reported = trio.Event()
        """Set once its servers have said what they offer, or took too long; until then its URIs are not claimed."""

    def __repr__(self) -> str:
        return f"<Project of {len(self.rules)} servers>"

    def replace(self, rules: Sequence[UpstreamRule], hides: Collection[str]) -> None:
        """Have other servers from now on."""
        self.rules, self.hides = tuple(rules), hides

    def rules_in(self, common: Rules) -> Rules:
        """The rules of its view: the user's servers, but for those it hides, then its own."""
        stay = [rule for rule in common.upstreams if rule.name not in self.hides]
        return structs.replace(common, upstreams=(*stay, *self.rules))


class LiveCatalog:
    """The catalogues of all views. `settled` is set once every upstream has reported, or start-up took too long: until
    then lists, but for those of one server that has reported, and calls of unknown names wait for it.
    """

    def __init__(
        self,
        upstreams: Mapping[str, Upstream],
        rules: Rules,
        claims: UriClaims,
        sealer: Sealer,
        save_soon: Callable[[], None],
    ) -> None:
        """`save_soon` is called when `claims` differ from what was saved."""
        self.upstreams = upstreams
        self.claims = claims
        """Claims of the common view, for the caller to keep on disk."""
        self.settled = trio.Event()
        self._shows_sign_ins = False
        self._varies = False
        self.rebuilds = 0
        self._rules = rules
        self._profile_rules = _read_profiles(rules.profiles, {})
        self._sealer = sealer
        self._save_soon = save_soon
        self._claims_count = False
        """True if listed URIs are claimed for good, in configuration order."""
        self._projects: dict[View, _ShownProject] = {}
        self._catalogs = {EVERYTHING: merge((), rules, claims, sealer=sealer)}
        self._changed: set[str] = set()
        self._prepared: dict[View, tuple[ProfileRules, Catalog]] = {}
        """Catalogues of profiles that are about to be applied."""
        self._taken: set[str] = set()
        """Changed upstreams that a rebuild has begun to look at."""
        self._dirty = trio.Event()
        self._rebuilt = Bell()
        self._reported: set[str] = set()
        """Upstreams that had listed what they offer, or had failed, when the catalogues were made."""
        self._shown_early: set[View] = set()
        """Views of one server that hosts were shown before all upstreams had reported."""

    def __repr__(self) -> str:
        return f"<LiveCatalog {self.everything!r}, {len(self._projects)} projects>"

    # --- what is shown ------------------------------------------------------------------------------------------------

    @property
    def everything(self) -> Catalog:
        """The catalogue of all servers of the user."""
        return self._catalogs[EVERYTHING]

    @property
    def warnings(self) -> list[str]:
        """Sentences for the operator, of all views that hosts may be shown."""
        shown = (self.of(view) for view in (EVERYTHING, *self._projects, *self.profile_views))
        return list(dict.fromkeys(warning for catalog in shown for warning in catalog.warnings))

    @property
    def project_views(self) -> tuple[View, ...]:
        """Views of the projects that hosts are shown."""
        return tuple(self._projects)

    @property
    def profile_views(self) -> tuple[View, ...]:
        """Views of the configured profiles, in their order."""
        return tuple(map(profile_view, self._rules.profiles))

    def of(self, view: View) -> Catalog:
        """The catalogue of `view`; an empty one, if what it shows is not here."""
        catalog = self._catalogs.get(view)
        return self._make(view) if catalog is None else catalog

    def _make(self, view: View) -> Catalog:
        """Make a catalogue of those that are there, and keep it."""
        rules, base = self._profile_rules.get(view.profile), self._catalogs.get(view.base)
        whole = structs.replace(view, search=False)
        if rules is not None and base is not None and whole not in self._catalogs:
            self._catalogs[whole] = finish(choose(base, whole, rules, None))
        return _of(self._catalogs, view)

    def profile_of(self, view: View) -> Profile | None:
        """The profile that chooses what `view` shows; None: none does."""
        return self._rules.profiles.get(view.profile)

    def shows(self, view: View, upstream: str) -> bool:
        """True if the profile of `view` does not leave the upstream out."""
        rules = self._profile_rules.get(view.profile)
        return not view.profile if rules is None else rules.shows_server(upstream)

    def shows_tool(self, view: View, upstream: str, tool: str) -> bool:
        """True if the profile of `view` leaves out neither the upstream nor what that calls `tool`, listed or not."""
        if not view.profile or not self.shows(view, upstream):
            return not view.profile
        parts = self.of(structs.replace(view, search=False)).parts
        return any(part.shows_tool(tool) for part in parts if part.name == upstream)

    def find_view(self, name: str) -> View | None:
        """The view of the endpoint /mcp/<name>; None: there is none."""
        if name in self.upstreams:
            return server_view(name)
        if (view := find_profile(name, self._rules.profiles)) is not None:
            return view
        return next((view for view in self._projects if view.name == name and view in self._catalogs), None)

    def cost_of(self, upstream: str) -> TokenCost | None:
        """The cost of an upstream's tools for the model of a host that sees it; None: its lists are in no view yet."""
        _, home = home_of(upstream)
        return self.of(home).costs().get(upstream)

    async def wait(self, view: View) -> None:
        """Wait until the lists of `view` can be shown."""
        while view.server and not self.settled.is_set() and view.server not in self._reported:
            await self._rebuilt.wait()  # a view of one server waits for no other
        if view.server and not self.settled.is_set():
            self._shown_early.add(view)
            return
        await self.settled.wait()
        if (project := self._projects.get(view.base)) is not None:
            await project.reported.wait()

    async def wait_complete(self) -> None:
        """Wait until all upstreams have said what they offer, or could not."""
        await self.settled.wait()
        while self._dirty.is_set() or any(upstream.settling for upstream in self.upstreams.values()):
            await self._rebuilt.wait()

    @property
    def complete(self) -> bool:
        """True if `wait_complete` would not wait."""
        return self.settled.is_set() and not any(upstream.settling for upstream in self.upstreams.values())

    # --- views of projects --------------------------------------------------------------------------------------------

    def show_project(self, view: View, rules: Sequence[UpstreamRule], hides: Collection[str]) -> None:
        """Show these servers of a project from the next rebuild on, and none of the user's that it hides."""
        if view in self._projects:
            self._projects[view].replace(rules, hides)
        else:
            self._projects[view] = _ShownProject(rules, hides)

    def project_reported(self, view: View) -> None:
        """The servers of a project have said what they offer, or took too long."""
        self._projects[view].reported.set()

    def drop_project(self, view: View) -> None:
        """Show a project no more from the next rebuild on."""
        self._projects.pop(view).reported.set()

    # --- changes ------------------------------------------------------------------------------------------------------

    @property
    def rules(self) -> Rules:
        """The naming rules of the user's servers."""
        return self._rules

    def apply(self, rules: Rules) -> None:
        """Name servers by other rules from the next rebuild on, and choose by other profiles from now on."""
        self._rules = rules
        known = {**self._profile_rules, **{view.profile: made for view, (made, _) in self._prepared.items()}}
        self._profile_rules = _read_profiles(rules.profiles, known)

    async def prepare(self, profiles: Mapping[str, Profile]) -> None:
        """Choose what other profiles show, in slices, so that nobody waits for that when they are applied.

        Cancellation: it is done then.
        """
        self._prepared = {}
        for name, rules in _read_profiles(profiles, self._profile_rules).items():
            if rules is not self._profile_rules.get(name):
                view, looked_at = profile_view(name), 0
                steps = choose(self.everything, view, rules, None)
                while isinstance(step := next_of(steps), int):
                    looked_at += step
                    if looked_at >= SLICE:
                        looked_at = 0
                        await trio.lowlevel.checkpoint()
                self._prepared[view] = rules, step

    def changed(self, upstream: str) -> None:
        """Note that an upstream's lists differ from what was last seen. Never blocks."""
        self._changed.add(upstream)
        self._dirty.set()

    @property
    def dirty(self) -> bool:
        """True if there are changes that the catalogues do not have yet."""
        return self._dirty.is_set()

    async def wait_dirty(self) -> None:
        """Wait until there are."""
        await self._dirty.wait()

    def show_sign_ins(self) -> None:
        """From the next rebuild on, show a tool for signing in where that has to be done before anything is known."""
        self._shows_sign_ins = True

    def vary(self, *, on: bool) -> None:
        """Say from the next rebuild on that hosts are shown different things, or no longer."""
        if on != self._varies:
            self._varies = on
            self._dirty.set()

    def claim_for_good(self) -> None:
        """Claim URIs for good from the next rebuild on."""
        self._claims_count = True

    def settle(self) -> None:
        """Show all lists from now on."""
        self.settled.set()
        self._rebuilt.ring()

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
            self._rebuilt.ring()  # also where it failed: whoever waits looks again

    async def rebuild_in_slices(self) -> list[ListChange]:
        """`rebuild`, with a checkpoint whenever `SLICE` entries were looked at. The catalogues are swapped at once. A
        `rebuild` meanwhile takes its place.

        Cancellation: the changes are still to be made.
        """
        steps, before, looked_at = self._rebuild(), self.rebuilds, 0
        try:
            while True:
                looked_at += next(steps)
                if looked_at >= SLICE:
                    looked_at = 0
                    await trio.lowlevel.checkpoint()
                    if self.rebuilds != before:
                        return []
        except StopIteration as end:
            changes: list[ListChange] = end.value
            return changes
        except trio.Cancelled:
            self._dirty.set()
            raise
        except Exception:
            log.exception(_NO_CATALOG)
            return []
        finally:
            steps.close()
            self._rebuilt.ring()

    def _rebuild(self) -> Generator[int, None, list[ListChange]]:
        """The steps of a rebuild. Until the last one nothing differs for anybody."""
        if self._dirty.is_set():  # else a task is waiting for it
            self._dirty = trio.Event()
        self._taken |= self._changed
        self._changed = set()
        old = self._catalogs
        new = yield from self._build(old)
        yield from self._make_alone(old, new)
        self._complete(new, old)
        changes = list(self._differences(old, new))
        self._catalogs, self._taken, self._prepared = new, set(), {}
        self.rebuilds += 1
        self._log_warnings(old, new)
        self._reported = {name for name, upstream in self.upstreams.items() if upstream.has_reported}
        return changes

    def _log_warnings(self, old: Mapping[View, Catalog], new: Mapping[View, Catalog]) -> None:
        known = {warning for catalog in old.values() for warning in catalog.warnings}
        for view in (EVERYTHING, *self.profile_views):
            for warning in new[view].warnings if view in new else ():
                if warning not in known:
                    known.add(warning)
                    log.warning("%s", warning)

    def _differences(self, old: dict[View, Catalog], new: dict[View, Catalog]) -> Iterator[ListChange]:
        servers = map(server_view, self._seen_alone())
        if not self.settled.is_set():  # no host has been shown another list yet
            yield from _changes(old, new, servers)
            return
        others = [view for view in new if view in old and view != EVERYTHING and not view.server]
        yield from _changes(old, new, (EVERYTHING, *servers, *others))

    def _seen_alone(self) -> set[str]:
        """Changed upstreams that hosts may have seen at an endpoint of their own."""
        if self.settled.is_set():
            return self._taken
        return self._taken & {view.server for view in self._shown_early}

    def _make_alone(self, *all_catalogs: dict[View, Catalog]) -> Generator[int, None, None]:
        """Make the catalogues of changed upstreams at endpoints of their own, so that only comparing them is left."""
        for name in list(self._seen_alone()):
            for catalogs in all_catalogs:
                if (part := _part_in(catalogs, name)) is not None:
                    yield from part.scoping()
                _of(catalogs, server_view(name))
                yield CATALOG

    def _build(self, old: Mapping[View, Catalog]) -> Generator[int, None, dict[View, Catalog]]:
        snapshots = [upstream.snapshot for upstream in self.upstreams.values()]
        projects, profiles, heard = list(self._projects.items()), dict(self._profile_rules), self._heard()
        common = yield from merge_in_steps(
            snapshots,
            self._now(self._rules),
            self.claims,
            sealer=self._sealer,
            settling=any(upstream.settling for upstream in self.upstreams.values()),
            provisional=not self._claims_count,
            varies=bool(projects) or bool(profiles) or self._varies,
            heard=heard,
            previous=old[EVERYTHING],
        )
        if self.claims.changed:
            self._save_soon()
        catalogs = {EVERYTHING: common}
        for view, project in projects:
            is_settling = not project.reported.is_set()
            catalogs[view] = yield from merge_in_steps(
                snapshots,
                self._now(project.rules_in(self._rules)),
                project.claims,
                sealer=self._sealer,
                view=view,
                settling=is_settling,
                provisional=is_settling,
                varies=True,
                heard=heard,
                previous=old.get(view),
            )
        for view in (*map(profile_view, profiles), *_of_profiles(old)):
            if view not in catalogs and view.profile in profiles and view.base in catalogs:
                rules = profiles[view.profile]
                prepared = self._prepared.get(view)
                known = old.get(view) if prepared is None else prepared[1]
                catalogs[view] = yield from choose(catalogs[view.base], view, rules, known)
                yield SLICE
        return catalogs

    def _complete(self, new: dict[View, Catalog], old: Mapping[View, Catalog]) -> None:
        """Make what hosts were shown for the first time meanwhile, and other faces of what there is."""
        for view in _of_profiles(old):
            if view not in new and view.profile in self._profile_rules and view.base in new:
                new[view] = finish(choose(new[view.base], view, self._profile_rules[view.profile], old[view]))
        for view in [view for view in old if view.search]:
            if structs.replace(view, search=False) in new:
                _made_of(new, view)

    def _heard(self) -> frozenset[str]:
        """The upstreams whose tools are known, once all have had their chance to say so."""
        upstreams = self.upstreams.items() if self._claims_count else ()
        return frozenset(name for name, upstream in upstreams if upstream.knows_tools)

    def _now(self, rules: Rules) -> Rules:
        """`rules`, and which upstreams show a tool for signing in at this moment."""
        if not self._shows_sign_ins:
            return rules
        return structs.replace(rules, upstreams=tuple(map(self._rule_now, rules.upstreams)))

    def _rule_now(self, rule: UpstreamRule) -> UpstreamRule:
        upstream = self.upstreams.get(rule.name)
        if upstream is None or not upstream.wanted_sign_in:
            return rule
        return structs.replace(rule, sign_in=SignInTool.LISTED if upstream.wants_sign_in else SignInTool.FORMER)


def _read_profiles(profiles: Mapping[str, Profile], known: Mapping[str, ProfileRules]) -> dict[str, ProfileRules]:
    """The rules of all profiles; of those that say the same as before, the `known` ones."""
    return {
        name: known[name] if name in known and known[name].profile == profile else ProfileRules(name, profile)
        for name, profile in profiles.items()
    }


def _of_profiles(catalogs: Iterable[View]) -> list[View]:
    return [view for view in catalogs if view.profile and not view.search]


def _changes(old: dict[View, Catalog], new: dict[View, Catalog], views: Iterable[View]) -> Iterator[ListChange]:
    for view in views:
        before, after = _of(old, view), _of(new, view)
        if kinds := {kind for kind in Kind if after.differs(before, kind)}:
            yield ListChange(view, kinds)


def _of(catalogs: dict[View, Catalog], view: View) -> Catalog:
    return catalogs.get(view) or _made_of(catalogs, view)


def _made_of(catalogs: dict[View, Catalog], view: View) -> Catalog:
    """Make the catalogue of a view that is a part of others, or another face of one, and keep it among them."""
    if not view.search:
        return _server_in(catalogs, view)
    whole = _of(catalogs, structs.replace(view, search=False))
    catalog = catalogs[view] = whole.searched(view, whole.always)
    return catalog


def _server_in(catalogs: dict[View, Catalog], view: View) -> Catalog:
    """Make the catalogue of a single server from those that have it, and keep it among them."""
    catalog = catalogs[view] = catalogs[EVERYTHING].of_server(view, _part_in(catalogs, view.server))
    return catalog


def _part_in(catalogs: Mapping[View, Catalog], server: str) -> UpstreamEntries | None:
    """The entries of a server, in the first catalogue that has it."""
    known = (part for catalog in catalogs.values() for part in catalog.parts)
    return next((part for part in known if part.name == server), None)
