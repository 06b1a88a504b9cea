"""Servers that views show: those of the user and of projects, how they are named, and who has claimed which URI.

What they list at a moment is merged into a catalogue of everything and one of each project.
"""

from collections.abc import Callable, Collection, Generator, Mapping, Sequence

import trio
from msgspec import structs

from hub.catalog.catalog import Catalog
from hub.catalog.merging import merge, merge_in_steps
from hub.catalog.naming_rules import Rules, UpstreamRule
from hub.catalog.sign_in_tool import SignInTool
from hub.catalog.uri_claims import UriClaims
from hub.catalog.view import EVERYTHING, View
from hub.link.sealing import Sealer
from hub.routing.view_catalogs import ViewCatalogs
from upstreams.upstream import ManagedUpstream


class ShownProject:
    """The servers of a project."""

    def __init__(self, rules: Sequence[UpstreamRule], hides: Collection[str]) -> None:
        self.rules = tuple(rules)
        self.hides = hides
        """Servers of the user that its hosts do not see, by name."""
        self.claims = UriClaims()
        self.reported = trio.Event()
        """Set once its servers have said what they offer, or took too long; until then its URIs are not claimed."""

    def replace(self, rules: Sequence[UpstreamRule], hides: Collection[str]) -> None:
        """Have other servers from now on."""
        self.rules, self.hides = tuple(rules), hides

    def rules_in(self, common: Rules) -> Rules:
        """The rules of its view: the user's servers, but for those it hides, then its own."""
        stay = [rule for rule in common.upstreams if rule.name not in self.hides]
        return structs.replace(common, upstreams=(*stay, *self.rules))


class ShownServers:
    """The servers of the user, and of projects by their views. What differs is shown from the next merge on."""

    def __init__(
        self,
        upstreams: Mapping[str, ManagedUpstream],
        rules: Rules,
        claims: UriClaims,
        sealer: Sealer,
        save_soon: Callable[[], None],
    ) -> None:
        """`save_soon` is called when `claims` differ from what was saved."""
        self.upstreams = upstreams
        self.rules = rules
        """The naming rules of the user's servers."""
        self.claims = claims
        """Claims of the common view, for the caller to keep on disk."""
        self.projects: dict[View, ShownProject] = {}
        self._sealer = sealer
        self._save_soon = save_soon
        self._claims_count = False
        """True if listed URIs are claimed for good, in configuration order."""
        self._shows_sign_ins = False

    @property
    def settling(self) -> bool:
        """True if some have not said yet what they offer."""
        return any(upstream.settling for upstream in self.upstreams.values())

    def name_by(self, rules: Rules) -> None:
        """Name the user's servers by other rules."""
        self.rules = rules

    def show_project(self, view: View, rules: Sequence[UpstreamRule], hides: Collection[str]) -> None:
        """Show these servers of a project, and none of the user's that it hides."""
        if view in self.projects:
            self.projects[view].replace(rules, hides)
        else:
            self.projects[view] = ShownProject(rules, hides)

    def project_reported(self, view: View) -> None:
        """The servers of a project have said what they offer, or took too long."""
        self.projects[view].reported.set()

    def drop_project(self, view: View) -> None:
        """Show a project no more."""
        self.projects.pop(view).reported.set()

    def show_sign_ins(self) -> None:
        """Show a tool for signing in where that has to be done before anything is known."""
        self._shows_sign_ins = True

    def claim_for_good(self) -> None:
        """Claim URIs for good."""
        self._claims_count = True

    def merge_nothing(self) -> Catalog:
        """The catalogue of everything before anybody has said what it offers."""
        return merge((), self.rules, self.claims, sealer=self._sealer)

    def merge_in_steps(self, old: ViewCatalogs, *, varies: bool) -> Generator[int, None, dict[View, Catalog]]:
        """The catalogue of everything and those of projects; `varies`: hosts are shown other things besides. Yields the
        number of entries that it has looked at."""
        snapshots = [upstream.snapshot for upstream in self.upstreams.values()]
        projects, heard = list(self.projects.items()), self._heard()
        common = yield from merge_in_steps(
            snapshots,
            self._now(self.rules),
            self.claims,
            sealer=self._sealer,
            settling=self.settling,
            provisional=not self._claims_count,
            varies=varies or bool(projects),
            heard=heard,
            previous=old.everything,
        )
        if self.claims.changed:
            self._save_soon()
        catalogs = {EVERYTHING: common}
        for view, project in projects:
            is_settling = not project.reported.is_set()
            catalogs[view] = yield from merge_in_steps(
                snapshots,
                self._now(project.rules_in(self.rules)),
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
