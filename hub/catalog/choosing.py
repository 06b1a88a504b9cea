"""Choosing: what a profile makes of the catalogue of everybody, or of a project. Pure."""

from collections.abc import Generator, Iterator, Sequence

from msgspec import structs

from hub.catalog.catalog import Catalog
from hub.catalog.chosen_entries import ChosenEntries, choose_part, rename_parts
from hub.catalog.name_table import NameTable
from hub.catalog.profile_rules import ProfileRules
from hub.catalog.unmatched import KnownTools, doubts_of_profile
from hub.catalog.view import EVERYTHING, View
from hub.wire.mcp import Kind


def choose(base: Catalog, view: View, rules: ProfileRules, previous: Catalog | None) -> Generator[int, None, Catalog]:
    """The catalogue of `view`, whose profile chooses from `base`; `previous` saves work. Pauses between tools, and
    yields the number of those it has looked at.

    Its warnings are about the profile; those of `base` are not repeated.
    """
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
        doubts = yield from doubts_of_profile(rules, renamed, tools, {budget, making.rules.budget}, doubts)
    names = NameTable(renamed, chosen_from=base.names)
    warnings += [*doubts.sentences, *(warning for part in renamed for warning in part.warnings)]
    warnings += [f"profile {rules.name}: {warning}" for warning in names.warnings]
    return Catalog(
        renamed,
        names,
        structs.replace(making, rules=structs.replace(making.rules, budget=budget)),
        view=view,
        varies=True,
        profile=rules.profile,
        doubts=doubts,
        warnings=[*warnings, *_too_many(renamed, names, rules)],
    )


def _too_many(parts: Sequence[ChosenEntries], names: NameTable, rules: ProfileRules) -> Iterator[str]:
    most = rules.profile.max_tools
    count = sum(len(names.entries_of(Kind.TOOL, part, ui=False)) for part in parts)
    if most is not None and count > most:
        yield f"profile {rules.name}: shows {count} tools, and its max_tools is {most}; nothing is cut"
