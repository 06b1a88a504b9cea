"""Merging: the catalogue of a view is made of the upstreams' snapshots or, for a profile, of the catalogue that it
chooses from; and of what is still right of the last one.

Entries come in the order of the configuration, then in the upstream's own, so the same entries make the same lists
whoever connected first. `merge_in_steps` is for many of them. Pure, but for what the claims learn.
"""

from collections.abc import Collection, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec import structs

from config.profile_settings import Profile
from hub.catalog.catalog import Catalog, Making, NameTable
from hub.catalog.endpoint_views import EVERYTHING, View
from hub.catalog.profiles.profile_entries import ChosenEntries, ProfileRules, choose_part, rename_parts
from hub.catalog.profiles.unmatched_names import KnownTools, doubts_of_profile, doubts_of_upstream
from hub.catalog.time_slices import Steps, finish
from hub.catalog.upstream_entries import UpstreamEntries
from hub.catalog.uri_claims import UriClaims
from hub.catalog.visible_names import Rules, UpstreamRule, name_id
from hub.link.sealing import Sealer, load_keys
from hub.wire.mcp import Kind
from hub.wire.upstream_snapshot import ListEntry, Snapshot

if TYPE_CHECKING:
    from hub.catalog.pipelines.pipeline_tools import HiddenPipeline, ShownPipeline


def merge_in_steps(
    snapshots: Iterable[Snapshot],
    rules: Rules,
    claims: UriClaims,
    *,
    sealer: Sealer | None = None,
    view: View = EVERYTHING,
    settling: bool = False,
    provisional: bool = False,
    varies: bool = False,
    heard: Collection[str] = (),
    previous: Catalog | None = None,
) -> Steps[Catalog]:
    """The catalogue of `snapshots`; those of upstreams without a rule are left out.

    `claims` learns the configuration and every listed URI. `provisional` keeps listed URIs from being claimed: for
    catalogues made before all upstreams had their chance, so that claims go by configuration order and not by arrival.
    `settling` says that upstreams are still to come; `heard` are those whose tools are known, so that settings which
    name others can be doubted; `previous` saves work. Without a `sealer`, cursors end with this catalogue. Pauses while
    it reads an upstream, and yields the number of entries that it has looked at.
    """
    claims.configure(
        [rule.name for rule in rules.upstreams],
        aliases={alias: rule.name for rule in rules.upstreams for alias in rule.aliases},
        bare=next((rule.name for rule in rules.upstreams if rule.prefix == ""), None),
    )
    by_name = {snapshot.upstream: snapshot for snapshot in snapshots}
    present = [(_reserve(rule, rules), by_name[rule.name]) for rule in rules.upstreams if rule.name in by_name]
    for rule, snapshot in present:
        claims.locate(rule.name, local=snapshot.local)
    listing = claims.copy() if provisional else claims
    known = {} if previous is None else {part.name: part for part in previous.parts}
    merged: list[UpstreamEntries] = []
    for rule, snapshot in present:
        part = known.get(rule.name)
        if part is None or not part.still_right(snapshot, rule, rules.budget, listing):
            part = yield from UpstreamEntries(snapshot, rule, rules.budget, listing).read()
        if part.doubts is None and part.name in heard:
            part.doubts = yield from doubts_of_upstream(part)
        merged.append(part)
    names = NameTable(merged)
    pipelines, hidden = _lay_out_pipelines(rules, merged, names, heard)
    doubts = {part.name: part.doubts or () for part in merged if part.name in heard}
    warnings = [text for part in merged for text in (*part.warnings, *doubts.get(part.name, ()))]
    return Catalog(
        merged,
        names,
        Making(rules, claims, sealer or Sealer(load_keys(None)), settling, heard),
        view=view,
        varies=varies,
        warnings=[*warnings, *names.warnings, *(() if provisional else _warn_of(pipelines, hidden))],
        pipelines=pipelines,
        hidden_pipelines=hidden,
        optional=_optional(None, [part for part, _ in present]),
    )


def _optional(profile: Profile | None, rules: Iterable[UpstreamRule]) -> Iterable[ListEntry]:
    """The optional tools of a view that shows upstreams with these rules."""
    cuts = any(rule.cuts_results for rule in rules)
    if not cuts and (profile is None or not (profile.resource_tools or profile.large_results_bytes)):
        return ()
    from hub.catalog.result_and_resource_tools import optional_tools  # not above: few hubs have one

    return optional_tools(profile, cuts=cuts)


def _reserve(rule: UpstreamRule, rules: Rules) -> UpstreamRule:
    """A rule that leaves names that begin as those of other upstreams to these."""
    if rule.prefix != "":
        return rule
    others = [each for each in (*rules.upstreams, *rules.left_out) if each.prefix != ""]
    sids = {name_id(name, rules.budget) for each in others for name in (each.prefix or each.name, *each.aliases)}
    return structs.replace(rule, taken=tuple(sorted(f"{sid}__" for sid in sids)))


def _lay_out_pipelines(
    rules: Rules, parts: Sequence[UpstreamEntries], names: NameTable, heard: Collection[str]
) -> "tuple[Sequence[ShownPipeline], Sequence[HiddenPipeline]]":
    """The pipelines that a view shows, and the others."""
    if not rules.pipelines:
        return (), ()
    from hub.catalog.pipelines.pipeline_tools import lay_out  # not above: few hubs have one
    from hub.catalog.pipelines.tools_of_steps import ToolsOfSteps

    return lay_out(rules, ToolsOfSteps(rules, parts, partial(names.route, Kind.TOOL), heard))


def _warn_of(shown: "Sequence[ShownPipeline]", hidden: "Sequence[HiddenPipeline]") -> Iterable[str]:
    if not (shown or hidden):
        return ()
    from hub.catalog.pipelines.pipeline_tools import warn_of

    return warn_of(shown, hidden)


def merge(snapshots: Iterable[Snapshot], rules: Rules, claims: UriClaims, **options: Any) -> Catalog:
    """`merge_in_steps` without a pause."""
    return finish(merge_in_steps(snapshots, rules, claims, **options))


def choose(base: Catalog, view: View, rules: ProfileRules, previous: Catalog | None) -> Steps[Catalog]:
    """The catalogue of `view`, whose profile chooses from `base`; `previous` saves work. Pauses between tools, and
    yields the number of those it has looked at. Its warnings are about the profile; those of `base` are not
    repeated."""
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
        doubts = yield from doubts_of_profile(rules, renamed, tools, {budget, making.rules.budget})
    names = NameTable(renamed, chosen_from=base.names)
    warnings += [*doubts.sentences, *(warning for part in renamed for warning in part.warnings)]
    warnings += [f"profile {rules.name}: {warning}" for warning in names.warnings]
    most, count = rules.profile.max_tools, sum(len(names.entries_of(Kind.TOOL, part, ui=False)) for part in renamed)
    if most is not None and count > most:
        warnings.append(f"profile {rules.name}: shows {count} tools, and its max_tools is {most}; nothing is cut")
    return Catalog(
        renamed,
        names,
        structs.replace(making, rules=structs.replace(making.rules, budget=budget)),
        view=view,
        varies=True,
        profile=rules.profile,
        doubts=doubts,
        warnings=warnings,
        pipelines=[each for each in base.pipelines.values() if rules.shows_pipeline(each.name)],
        hidden_pipelines=[each for each in base.hidden_pipelines.values() if rules.shows_pipeline(each.name)],
        optional=_optional(rules.profile, [part.rule for part in renamed]),
    )
