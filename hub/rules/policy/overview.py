"""An overview of the rules for people: what they say of everything there is, and why of one thing. Pure."""

from collections import Counter
from collections.abc import Iterator, Set
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import Final

from msgspec import Raw, structs

from config.policy.selectors import PROMPT, RESOURCE, TOOL
from config.server_names import RESERVED
from hub.catalog.catalog import Catalog
from hub.catalog.endpoint_views import View
from hub.catalog.pipelines.pipeline_tools import AnyPipeline
from hub.catalog.pipelines.tools_of_steps import name_step
from hub.catalog.tool_annotations import hints_for
from hub.catalog.upstream_entries import Route, UpstreamEntries, VisibleEntry
from hub.control.answers import PolicyExplanation, PolicyReport, PolicyRow
from hub.link.call_interface import Identity
from hub.rules.policy.conditional_rules import CannotJudge
from hub.rules.policy.judge import Judge, Judgement
from hub.rules.policy.rule_book import PolicyRule, RuleBook
from hub.rules.policy.rule_tables import WORDS
from hub.rules.policy.verdict import Effect, Verdict
from hub.wire.mcp import Kind

MAX_NOTES: Final = 20
HELD_BACK: Final = "held back"


def report(judge: Judge, catalog: Catalog, view: View, identity: Identity) -> PolicyReport:
    """The report of what the rules say of all entries of `catalog` for a caller to whom `view` is shown."""
    if (book := judge.book) is None:
        return PolicyReport()
    rows, unbelieved = [], Counter[tuple[str, str]]()
    audience = judge.audience_of(view, identity)
    for part, kind, entry in _entries(catalog):
        judged = judge.judge_thing(audience, part.name, kind, entry.original)
        row = _row(judge, book, part, kind, entry, judged)
        rows.append(row)
        if _is_by_marks(book, judged) and not part.rule.trusted and not hints_for(entry.original, part.rule.hints):
            unbelieved[part.name, row.effect] += 1
    rows += [_row_of_pipeline(judge, book, audience, each) for each in _pipelines(catalog)]
    notes = [
        f"{server} is not trusted, so {count} of its tools: {effect}; set trusted = true, or hints"
        for (server, effect), count in unbelieved.items()
    ]
    idle = _idle(judge, book, catalog)
    notes += map(_say_idle, idle[:MAX_NOTES])
    if len(idle) > MAX_NOTES:
        notes.append(f"{len(idle) - MAX_NOTES} more selectors mean nothing that there is now")
    if judge.failures:
        calls = f"{judge.failures} calls were denied since a condition could not be judged"
        notes.append(f"{calls}, the last by {judge.last_failure}")
    return PolicyReport(ruled=True, rows=tuple(rows), notes=tuple(notes), failures=judge.failures)


def find_misspelt(judge: Judge, catalog: Catalog, servers: Set[str]) -> Iterator[str]:
    """Sentences about rules that deny or ask by the name of a tool which there is not. `servers`: the beginnings of
    names that there could be; where none is there now, its server lists nothing, and its tools are not missed."""
    tools = {part.name: part.askable(Kind.TOOL) for part in catalog.parts}
    exposed = {each.visible for its in tools.values() for each in its} | {each.name for each in _pipelines(catalog)}
    there = {name.partition("__")[0] for name in exposed}
    for rule in () if judge.book is None else _idle(judge, judge.book, catalog):
        name = next((word for word in rule.selector.text.split() if word[0] not in "!@*?" and ":" not in word), "")
        if rule.effect is Effect.ALLOW or rule.selector.kind != TOOL or not name or len(rule.selector.about) != 1:
            continue
        known = {each.original for each in tools.get(rule.upstream, ())} if rule.upstream else exposed
        server, mark, rest = name.partition("__")
        if known and (rule.upstream or server not in servers - there):
            if "*" in rest or "?" in rest:
                known = {f"{each}{mark}{rest}" for each in there}
            ending = f"*__{name}"
            near = get_close_matches(name, known, 1, 0.8) or [ending for each in known if fnmatchcase(each, ending)]
            yield _say_idle(rule) + (f'; did you mean "{near[0]}"?' if near else "")


def explain(
    judge: Judge, catalog: Catalog, view: View, identity: Identity, name: str, arguments: Raw | None
) -> PolicyExplanation | None:
    """Why a thing is allowed, asked about or denied; None: no server has a tool or prompt of that name. `name`: that of
    a tool, `prompt:NAME`, or a URI."""
    if (pipeline := catalog.pipelines.get(name) or catalog.hidden_pipelines.get(name)) is not None:
        return _explain_pipeline(judge, view, identity, pipeline)
    found = next(((part, kind, entry) for part, kind, entry in _entries(catalog) if name == _name(kind, entry)), None)
    if found is None and (way := _find_route(catalog, name)) is not None:
        kind, route = way
        parts = (part for part in catalog.parts if part.name == route.upstream)
        found = next(((part, kind, VisibleEntry(name, route.original, {})) for part in parts), None)
    if found is None:
        return None
    part, kind, entry = found
    if (book := judge.book) is None:
        row = PolicyRow(kind=WORDS[kind], name=name, server=part.name, effect=Effect.ALLOW.value, rule="default")
        return PolicyExplanation(row=_hold_back(row, part, kind, entry), facts=("there are no rules",))
    audience = judge.audience_of(view, identity)
    judged = judge.judge_thing(audience, part.name, kind, entry.original)
    row = _row(judge, book, part, kind, entry, judged)
    if judged.is_open and arguments is not None and row.effect != HELD_BACK:
        try:
            verdict = judge.conditions.judge(book, judged.mask, Route(part.name, entry.original), identity, arguments)
        except CannotJudge as error:
            verdict = Verdict(Effect.DENY, error.rule, f"its condition cannot be judged: {error}")
        row = structs.replace(row, effect=verdict.effect.value, rule=verdict.words, by_arguments="")
    rules = tuple(_sentence(rule) for effect in reversed(Effect) for rule in book.rules_in(judged.mask, effect))
    facts = (_words_on_marks(judge, part, entry),) if kind is Kind.TOOL else ()
    return PolicyExplanation(row=row, rules=rules, facts=facts)


def _pipelines(catalog: Catalog) -> Iterator[AnyPipeline]:
    yield from catalog.pipelines.values()
    yield from catalog.hidden_pipelines.values()


def _row_of_pipeline(judge: Judge, book: RuleBook, audience: str, pipeline: AnyPipeline) -> PolicyRow:
    """A pipeline has the strictest verdict of the whole and its steps."""
    judged, *steps = judge.judge_pipeline(audience, pipeline)
    where = ""
    for at, its in enumerate(steps):
        if _strictness(its) > _strictness(judged):
            judged, where = its, f"{name_step(pipeline.pipeline, at)}: "
    rule = f"{where}{judged.verdict.words}"
    row = PolicyRow(kind=TOOL, name=pipeline.name, server=RESERVED, effect=judged.verdict.effect.value, rule=rule)
    return structs.replace(row, by_arguments=_by_arguments(book, judged))


def _strictness(judged: Judgement) -> int:
    return [*Effect].index(judged.verdict.effect)


def _explain_pipeline(judge: Judge, view: View, identity: Identity, pipeline: AnyPipeline) -> PolicyExplanation:
    """Why a pipeline is allowed, asked about or denied: by rules about the whole, and by those about each step."""
    if (book := judge.book) is None:
        row = PolicyRow(kind=TOOL, name=pipeline.name, server=RESERVED, effect=Effect.ALLOW.value, rule="default")
        return PolicyExplanation(row=row, facts=("there are no rules",))
    audience = judge.audience_of(view, identity)
    whole, *steps = judge.judge_pipeline(audience, pipeline)
    told = [f"the whole: {whole.verdict.effect.value}  {whole.verdict.words}"]
    for at, judged in enumerate(steps):
        told.append(f"{name_step(pipeline.pipeline, at)}: {judged.verdict.effect.value}  {judged.verdict.words}")
    facts = ("rules judge the pipeline as a whole, and each of its steps", *told)
    rules = tuple(_sentence(rule) for effect in reversed(Effect) for rule in book.rules_in(whole.mask, effect))
    return PolicyExplanation(row=_row_of_pipeline(judge, book, audience, pipeline), rules=rules, facts=facts)


def _find_route(catalog: Catalog, name: str) -> tuple[Kind, Route] | None:
    """The way to what is asked for by another name, or is not listed."""
    if (route := catalog.route(Kind.TOOL, name)) is not None:
        return Kind.TOOL, route
    if name.startswith("prompt:"):
        route = catalog.route(Kind.PROMPT, name.removeprefix("prompt:"))
        return None if route is None else (Kind.PROMPT, route)
    if ":" not in name:
        return None
    routes = catalog.resolve_uri(name.removeprefix("resource:"))
    return (Kind.RESOURCE, routes[0]) if routes else None


def _entries(catalog: Catalog) -> Iterator[tuple[UpstreamEntries, Kind, VisibleEntry]]:
    for part in catalog.parts:
        for kind in Kind:
            for entry in part.askable(kind):
                yield part, kind, entry


def _name(kind: Kind, entry: VisibleEntry) -> str:
    return f"prompt:{entry.visible}" if WORDS[kind] == PROMPT else entry.visible


def _row(
    judge: Judge, book: RuleBook, part: UpstreamEntries, kind: Kind, entry: VisibleEntry, judged: Judgement
) -> PolicyRow:
    rule = judged.verdict.rule
    if _is_by_marks(book, judged):
        rule = f"{rule} ({_words_on_marks(judge, part, entry)})"
    about = {"kind": WORDS[kind], "name": _name(kind, entry), "server": part.name, "rule": rule}
    row = PolicyRow(**about, effect=judged.verdict.effect.value, by_arguments=_by_arguments(book, judged))
    return _hold_back(row, part, kind, entry)


def _hold_back(row: PolicyRow, part: UpstreamEntries, kind: Kind, entry: VisibleEntry) -> PolicyRow:
    """The row of what no rule denies, or of what is held back all the same."""
    if row.effect == Effect.DENY.value or (kind, entry.original) not in part.rule.held:
        return row
    why = f"its definition changed, or is new (hubd pins {part.name})"
    return structs.replace(row, effect=HELD_BACK, rule=why, by_arguments="")


def _by_arguments(book: RuleBook, judged: Judgement) -> str:
    """The strictest effect that arguments give in place of another; "": they do not."""
    masks = (judged.mask, judged.mask & ~book.conditional) if judged.is_open else ()
    found = {book.decide(mask).effect for mask in masks} - {judged.verdict.effect}
    return next((effect.value for effect in reversed(Effect) if effect in found), "")


def _is_by_marks(book: RuleBook, judged: Judgement) -> bool:
    """True if the rule that decides goes by what is believed of a tool."""
    rules = book.rules_in(judged.mask, judged.verdict.effect)
    deciding = next((rule for rule in rules if rule.place == judged.verdict.rule), None)
    return deciding is not None and "@" in deciding.selector.text


def _words_on_marks(judge: Judge, part: UpstreamEntries, entry: VisibleEntry) -> str:
    marks = [f"@{mark}" for mark in sorted(judge.table.marks_of(part.name, entry.original))]
    if hints_for(entry.original, part.rule.hints):
        who = "as hints say"
    else:
        who = f"says {part.name}, trusted" if part.rule.trusted else f"as {part.name} is not trusted"
    return f"{' '.join(marks) or 'no mark'}, {who}"


def _sentence(rule: PolicyRule) -> str:
    condition = "" if rule.condition is None else f" when {rule.condition.text}"
    return f"{rule.effect.value}  {rule.place}  {rule.selector.text}{condition}"


def _idle(judge: Judge, book: RuleBook, catalog: Catalog) -> list[PolicyRule]:
    """The rules that mean nothing that there is now."""
    met = 0
    for part, kind, entry in _entries(catalog):
        for mask in judge.table.masks_of(book, part.name, kind, entry.original):
            met |= mask
    for pipeline in _pipelines(catalog):
        met |= judge.table.masks_of(book, RESERVED, Kind.TOOL, pipeline.name)[0]
    return [
        rule for at, rule in enumerate(book.rules) if not met >> at & 1 and not rule.place.endswith("mode read-only")
    ]


def _say_idle(rule: PolicyRule) -> str:
    what = {TOOL: "tool", PROMPT: "prompt", RESOURCE: "listed resource"}[rule.selector.kind]
    return f'{rule.place}: "{rule.selector.text}" means no {what} that there is now'
