"""Tables: which rules are about each entry of the catalogues, whoever asks. Made with the catalogues, in steps. Pure.

A rule is a bit (`RuleBook`). What is in no table, such as a resource that no list names, is looked at when it is asked
for, by the names that it could have.
"""

from collections.abc import Collection, Iterable, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Final

from msgspec import Struct, structs

from config.policy.selectors import PROMPT, RESOURCE, TOOL, Thing
from config.server_names import RESERVED
from hub.catalog.catalog import Catalog
from hub.catalog.endpoint_views import home_of
from hub.catalog.sign_in_tool import SIGN_IN, SignInTool
from hub.catalog.time_slices import STEP, Steps
from hub.catalog.tool_annotations import WORST, join_marks
from hub.catalog.upstream_entries import UpstreamEntries, VisibleEntry
from hub.rules.policy.verdict import Effect
from hub.wire.mcp import Kind

if TYPE_CHECKING:  # not loaded without a rule
    from hub.rules.policy.rule_book import RuleBook

WORDS: Final = {Kind.TOOL: TOOL, Kind.PROMPT: PROMPT, Kind.RESOURCE: RESOURCE, Kind.TEMPLATE: RESOURCE}
"""The kinds of selectors that are about entries of each list."""
_SIGN_IN_MARKS: Final = frozenset({"read-only"})
Masks = tuple[int, ...]
"""The rules that are about a thing; of a URI those about each of its forms; none: it has no form."""


class RuleTable(Struct):
    """The rules that are about the entries of some catalogues."""

    book: "RuleBook | None"
    parts: dict[str, UpstreamEntries] = {}
    """By the name that a server runs under, the entries under the names that rules go by."""
    masks: dict[str, dict[tuple[Kind, str], Masks]] = {}
    """By server, and by list and own name or URI."""
    pipelines: dict[str, frozenset[str]] = {}
    """By visible name, the marks of pipelines."""

    def find(self, upstream: str, kind: Kind, original: str) -> tuple[UpstreamEntries | None, VisibleEntry | None]:
        """The entries of a server, and that of this own name or URI; None: it is not listed."""
        part = self.parts.get(upstream)
        return part, None if part is None else part.find(kind, original)

    def masks_of(self, book: "RuleBook", upstream: str, kind: Kind, original: str) -> Masks:
        """The rules of `book` that are about a thing, be it listed or not."""
        if self.book is book and (found := self.masks.get(upstream, {}).get((kind, original))) is not None:
            return found
        part, entry = self.find(upstream, kind, original)
        if kind in (Kind.RESOURCE, Kind.TEMPLATE):
            return _about_uri(book, upstream, kind, original)
        if part is not None and entry is not None:
            return (_about_all(book, kind, [entry], part)[0],)
        server, _ = home_of(upstream)
        if server == RESERVED:  # a pipeline that is shown to nobody now
            return (_about_pipeline(book, original, WORST),)
        names = {f"{server}__{original}"} if part is None or kind is not Kind.TOOL else part.names_of(original)
        thing = Thing(WORDS[kind], min(names), server, WORST if kind is Kind.TOOL else frozenset())
        return (book.about(thing, original, upstream),)

    def marks_of(self, upstream: str, tool: str) -> frozenset[str]:
        """The marks of a tool that are believed, by its server's own name of it."""
        if upstream == RESERVED:
            return self.pipelines.get(tool, WORST)
        part, entry = self.find(upstream, Kind.TOOL, tool)
        return WORST if part is None or entry is None else _marks_of(part, entry)


def compile_table(
    book: "RuleBook | None", catalogs: Collection[Catalog], known: Iterable[RuleTable]
) -> Steps[RuleTable]:
    """The table of all entries of these catalogues, of a server's the first; what is still right of those that are
    `known` is taken over."""
    table, right = RuleTable(book, {}, {}, {}), [each for each in known if each.book is book]
    if book is None:
        return table
    for part in chain.from_iterable(catalog.parts for catalog in catalogs):
        if part.name in table.parts:
            continue
        table.parts[part.name] = part
        same = next((each for each in right if each.parts.get(part.name) is part), None)
        table.masks[part.name] = (yield from _masks_of(part, book)) if same is None else same.masks[part.name]
    for pipeline in chain.from_iterable(catalog.pipelines.values() for catalog in catalogs):
        if (name := pipeline.name) not in table.pipelines:
            marks = join_marks([table.marks_of(route.upstream, route.original) for route in pipeline.routes])
            table.pipelines[name] = marks
            table.masks.setdefault(RESERVED, {})[Kind.TOOL, name] = (_about_pipeline(book, name, marks),)
            yield len(pipeline.routes)
    return table


def _masks_of(part: UpstreamEntries, book: "RuleBook") -> Steps[dict[tuple[Kind, str], Masks]]:
    """The rules that are about each entry of a server."""
    found: dict[tuple[Kind, str], Masks] = {}
    for kind in Kind:
        entries = part.askable(kind)
        for at in range(0, len(entries), STEP):
            some = entries[at : at + STEP]
            if kind in (Kind.RESOURCE, Kind.TEMPLATE):
                masks = [_about_uri(book, part.name, kind, each.original) for each in some]
            else:
                masks = [(mask,) for mask in _about_all(book, kind, some, part)]
            found.update(((kind, each.original), its) for each, its in zip(some, masks, strict=True))
            yield len(some)
    return found


def _about_uri(book: "RuleBook", running: str, kind: Kind, uri: str) -> Masks:
    """The rules that are about a resource or a template."""
    if not book.judges_resources:
        return (0,)
    from hub.rules.policy.uri_forms import forms_of  # not above: only rules need it

    server, is_start = home_of(running)[0], kind is Kind.TEMPLATE
    forms = forms_of(uri.partition("{")[0] if is_start else uri, is_start=is_start)
    return tuple(book.about(Thing(RESOURCE, form, server), form, running) for form in forms)


def _about_all(book: "RuleBook", kind: Kind, entries: Sequence[VisibleEntry], part: UpstreamEntries) -> list[int]:
    """The rules that are about tools or prompts of a server."""
    server, is_tool = home_of(part.name)[0], kind is Kind.TOOL
    exposed = [
        Thing(WORDS[kind], each.visible, server, _marks_of(part, each) if is_tool else frozenset()) for each in entries
    ]
    own = [structs.replace(thing, name=each.original) for thing, each in zip(exposed, entries, strict=True)]
    masks = book.about_all(exposed, own, part.name)
    if not is_tool or not part.contested:
        return masks
    wanted = [
        structs.replace(thing, name=part.contested.get(its.name, thing.name))
        for thing, its in zip(exposed, own, strict=True)
    ]
    return list(map(book.join, masks, book.about_all(wanted, own, part.name)))


def _about_pipeline(book: "RuleBook", name: str, marks: frozenset[str]) -> int:
    """The rules that are about a pipeline as a whole: denies and asks that go by its name or by `upstream:hub`, since
    others are about what its steps call; and allows, whatever they go by."""
    named = book.about(Thing(TOOL, name, RESERVED, marks), name, RESERVED)
    anyhow = book.about(Thing(TOOL, "", "", marks), "", RESERVED)
    return named & ~(anyhow & ~book.of[Effect.ALLOW])


def _marks_of(part: UpstreamEntries, entry: VisibleEntry) -> frozenset[str]:
    if part.rule.sign_in is SignInTool.LISTED and entry.original == SIGN_IN:  # the hub's own
        return _SIGN_IN_MARKS
    return part.marks_of(entry)
