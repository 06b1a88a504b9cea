"""The catalogues of views at one moment, and what they are made of: servers of the user and of projects as views show
them (how they are named, and who has claimed which URI), and the rules of profiles that choose among them.

What servers list is merged into a catalogue of everything and one of each project. The view of a single server shows a
part of another one, and search mode another face of one: these are made on demand.
"""

from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from typing import Final

import trio
from msgspec import Struct, field, structs

from config.profile_settings import Profile
from hub.catalog.catalog import Catalog
from hub.catalog.endpoint_views import EVERYTHING, View, profile_view, server_view
from hub.catalog.merge_catalog import choose, merge, merge_in_steps
from hub.catalog.profiles.profile_entries import ProfileRules
from hub.catalog.sign_in_tool import SignInTool
from hub.catalog.time_slices import Steps, finish
from hub.catalog.uri_claims import UriClaims
from hub.catalog.visible_names import Rules, UpstreamRule
from hub.link.sealing import Sealer
from hub.rules.pins.reviews import Review, show_all
from hub.wire.mcp import Kind
from upstreams.upstream import ManagedUpstream

CATALOG: Final = 10
"""Entries that are as much work to look at as an empty catalogue is to make."""


class ListChange(Struct, frozen=True):
    """Lists of a view that differ from what its hosts may have seen."""

    view: View
    kinds: set[Kind]


class ViewCatalogs(dict[View, Catalog]):
    """The catalogue of each view that was made; there is always one of everything. `permit` makes what the audience of
    a view is shown of a catalogue; `audiences` are those that rules have now, by name."""

    def __init__(
        self, catalogs: Mapping[View, Catalog], permit: Callable[[Catalog, View], Catalog], audiences: Container[str]
    ) -> None:
        super().__init__(catalogs)
        self._permit = permit
        self._audiences = audiences

    @property
    def chosen(self) -> list[View]:
        """The views of profiles that were made, search mode and rules aside."""
        return [view for view in self if view.profile and not (view.search or view.audience)]

    def of(self, view: View) -> Catalog:
        """The catalogue of `view`; one that is a part of others, or another face of one, is made and kept. It is not
        kept for an audience of other rules, whose requests are at their end: it may be one of these rules tomorrow."""
        if (found := self.get(view)) is not None:
            return found
        if view.search:
            whole = self.of(structs.replace(view, search=False))
            found = whole.in_search_mode(view, whole.always)
        elif view.audience:
            found = self._permit(self.of(structs.replace(view, audience="")), view)
        else:
            return finish(self._alone(view))
        if not view.audience or view.audience in self._audiences:
            self[view] = found
        return found

    def _alone(self, view: View) -> Steps[Catalog]:
        parts = (part for catalog in self.values() for part in catalog.parts)
        part = next((part for part in parts if part.name == view.server), None)  # in the first catalogue that has it
        own = None if part is None else (yield from part.in_own_scope())
        made = self[view] = self[EVERYTHING].of_server(view, own)
        return made

    def choose(self, view: View, rules: ProfileRules, previous: Catalog | None) -> Steps[None]:
        """Make the view of a profile, in steps, on top of what it chooses from; `previous` saves work."""
        self[view] = yield from choose(self[view.base], view, rules, previous)

    def make_alone(self, server: str) -> Steps[None]:
        """Make the view of a single server, in steps, unless it is there."""
        if (view := server_view(server)) not in self:
            yield from self._alone(view)
            yield CATALOG

    def changes_since(self, before: "ViewCatalogs", views: Iterable[View]) -> Iterator[ListChange]:
        """The lists of `views` that differ from those of `before`."""
        for view in views:
            old, new = before.of(view), self.of(view)
            if kinds := {kind for kind in Kind if new.differs(old, kind)}:
                yield ListChange(view, kinds)


class ShownProfiles:
    """The rules of all profiles, by name."""

    def __init__(self, profiles: Mapping[str, Profile]) -> None:
        self.rules = _read(profiles, {})
        self.prepared: dict[View, tuple[ProfileRules, Catalog]] = {}
        """Catalogues of profiles that are about to be applied, for the next rebuild."""

    def of(self, view: View) -> ProfileRules | None:
        """The rules of the profile that chooses what `view` shows; None: none does."""
        return self.rules.get(view.profile)

    def apply(self, profiles: Mapping[str, Profile]) -> None:
        """Choose by these from now on."""
        prepared = {view.profile: rules for view, (rules, _) in self.prepared.items()}
        self.rules = _read(profiles, {**self.rules, **prepared})

    def prepare(self, profiles: Mapping[str, Profile], everything: Catalog) -> Steps[None]:
        """Choose what these show, in steps, as far as they differ."""
        self.prepared = {}
        for name, rules in _read(profiles, self.rules).items():
            if rules is not self.rules.get(name):
                view = profile_view(name)
                catalog = yield from choose(everything, view, rules, None)
                self.prepared[view] = rules, catalog


def _read(profiles: Mapping[str, Profile], known: Mapping[str, ProfileRules]) -> dict[str, ProfileRules]:
    """The rules of all profiles; of those that say the same as before, the `known` ones."""
    return {
        name: known[name] if name in known and known[name].profile == profile else ProfileRules(name, profile)
        for name, profile in profiles.items()
    }


class ShownProject(Struct):
    """The servers of a project."""

    rules: Sequence[UpstreamRule]
    hides: Collection[str]
    """Servers of the user that its hosts do not see, by name."""
    accounts: Mapping[str, str] = {}
    """The accounts that serve at others of the user's servers."""
    claims: UriClaims = field(default_factory=UriClaims)
    reported: trio.Event = field(default_factory=trio.Event)
    """Set once its servers have said what they offer, or took too long; until then its URIs are not claimed."""

    def choose_account(self, rule: UpstreamRule) -> UpstreamRule:
        """The rule of one of the user's servers with the account that serves this project."""
        account = self.accounts.get(rule.name, "")
        return structs.replace(rule, account=account, account_by="the project") if account in rule.accounts else rule


class ShownServers(Struct, eq=False):
    """The servers of the user, and of projects by their views. What differs is shown from the next merge on."""

    upstreams: Mapping[str, ManagedUpstream]
    rules: Rules
    """The naming rules of the user's servers."""
    claims: UriClaims
    """Claims of the common view, for the caller to keep on disk."""
    _sealer: Sealer
    _save_soon: Callable[[], None]
    """Called when `claims` differ from what was saved."""
    projects: dict[View, ShownProject] = field(default_factory=dict)
    review: Callable[[ManagedUpstream], Steps[Review]] = show_all
    """Says what of a server is shown."""
    claims_for_good: bool = False
    """True if listed URIs are claimed for good, in configuration order."""
    _shows_sign_ins: bool = False

    def empty(self) -> Catalog:
        """The catalogue as long as nothing is known of what servers list."""
        return merge((), self.rules, self.claims, sealer=self._sealer)

    def show_project(
        self, view: View, rules: Sequence[UpstreamRule], hides: Collection[str], accounts: Mapping[str, str]
    ) -> None:
        """Show these servers of a project, and none of the user's that it hides; at others these accounts serve."""
        project = self.projects.setdefault(view, ShownProject(rules, hides))
        project.rules, project.hides, project.accounts = rules, hides, accounts

    def drop_project(self, view: View) -> None:
        """Show a project no more."""
        self.projects.pop(view).reported.set()

    def show_sign_ins(self) -> None:
        """Show a tool for signing in where that has to be done before anything is known."""
        self._shows_sign_ins = True

    def merge_in_steps(self, old: ViewCatalogs, *, varies: bool) -> Steps[dict[View, Catalog]]:
        """The catalogue of everything and those of projects; `varies`: hosts are shown other things besides. Yields the
        number of entries that it has looked at."""
        reviews: dict[str, Review] = {}
        for name, upstream in [*self.upstreams.items()]:
            reviews[name] = yield from self.review(upstream)
        snapshots = [review.snapshot for review in reviews.values()]
        projects, upstreams = list(self.projects.items()), self.upstreams.items() if self.claims_for_good else ()
        heard = frozenset(name for name, upstream in upstreams if upstream.knows_tools)  # all have had their chance
        common = yield from merge_in_steps(
            snapshots,
            self._now(self.rules, reviews),
            self.claims,
            sealer=self._sealer,
            settling=any(upstream.settling for upstream in self.upstreams.values()),
            provisional=not self.claims_for_good,
            varies=varies or bool(projects),
            heard=heard,
            previous=old[EVERYTHING],
        )
        if self.claims.changed:
            self._save_soon()
        catalogs = {EVERYTHING: common}
        for view, project in projects:
            is_settling = not project.reported.is_set()
            stay = [project.choose_account(rule) for rule in self.rules.upstreams if rule.name not in project.hides]
            catalogs[view] = yield from merge_in_steps(
                snapshots,
                self._now(structs.replace(self.rules, upstreams=(*stay, *project.rules)), reviews),
                project.claims,
                sealer=self._sealer,
                view=view,
                settling=is_settling,
                provisional=is_settling,
                varies=True,
                heard=heard,
                previous=old.get(view),
            )
        return catalogs

    def _now(self, rules: Rules, reviews: Mapping[str, Review]) -> Rules:
        """`rules`, with what is held back of each upstream, and which show a tool for signing in at this moment."""
        if not self._shows_sign_ins and not any(review.held for review in reviews.values()):
            return rules
        return structs.replace(rules, upstreams=tuple(self._rule_now(rule, reviews) for rule in rules.upstreams))

    def _rule_now(self, rule: UpstreamRule, reviews: Mapping[str, Review]) -> UpstreamRule:
        review, upstream = reviews.get(rule.name), self.upstreams.get(rule.name)
        if review is not None and review.held:
            rule = structs.replace(rule, held=review.held)
        if upstream is None or not self._shows_sign_ins or not upstream.wanted_sign_in:
            return rule
        return structs.replace(rule, sign_in=SignInTool.LISTED if upstream.wants_sign_in else SignInTool.FORMER)
