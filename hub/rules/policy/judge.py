"""Verdicts: what the rules say about one thing for one caller, looked up in tables; and the judge that keeps these.

    rules of the configuration        `RuleBook`: a bit for each rule
    entries of the catalogue          `RuleTable`: the bits of the rules that are about each, made with the catalogue
    facts about the caller            an audience: callers whom no rule tells apart; it is part of their view

What is in no table, such as a resource that no list names, is judged when it is asked for.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from itertools import chain
from typing import TYPE_CHECKING, Final, NamedTuple

from msgspec import Raw, Struct, structs

from config.policy.cel_conditions import ConditionFailed
from config.policy.selectors import (
    GROUP,
    HOST,
    MARKS,
    PRINCIPAL,
    PROFILE,
    PROMPT,
    RESOURCE,
    SCOPE,
    TOOL,
    CallerTerm,
    Thing,
)
from config.profile_settings import DEFAULT_PROFILE
from config.server_names import RESERVED, server_of
from hub.catalog.catalog import Catalog
from hub.catalog.endpoint_views import View, home_of
from hub.catalog.sign_in_tool import SIGN_IN, SignInTool
from hub.catalog.time_slices import STEP, Steps
from hub.catalog.tool_annotations import WORST, join_marks
from hub.catalog.upstream_entries import Route, UpstreamEntries, VisibleEntry
from hub.link.bounded_dict import BoundedDict
from hub.link.call_interface import NO_RIGHTS, Caller, Identity, Rights, Tenant
from hub.rules.policy.arguments_for_conditions import (
    ArgumentTypes,
    decode_arguments,
    encode_arguments,
    refuse_other_types,
    types_of,
)
from hub.rules.policy.verdict import UNRULED, Effect, Verdict
from hub.wire.mcp import Kind

if TYPE_CHECKING:  # neither is loaded without a rule
    from hub.rules.policy.lethal_trifecta import ThreeLegs
    from hub.rules.policy.rule_book import RuleBook

if TYPE_CHECKING:
    from hub.bridge.tasks.polled_tasks import Viewer
    from hub.calls.chain import Intent, Target

WORDS: Final = {Kind.TOOL: TOOL, Kind.PROMPT: PROMPT, Kind.RESOURCE: RESOURCE, Kind.TEMPLATE: RESOURCE}
"""The kinds of selectors that are about entries of each list."""
MAX_REMEMBERED: Final = 4096
"""Callers whose audience is remembered."""
MAX_JUDGED: Final = 50_000
"""Verdicts that are remembered."""
TWO_SPELLINGS: Final = Verdict(Effect.DENY, "a URI that rules cannot compare")
LEGS: Final = "trifecta"
"""The rule of a verdict about the third leg."""
_SIGN_IN_MARKS: Final = frozenset({"read-only"})
Masks = tuple[int, ...]
"""The rules that are about a thing; of a URI those about each of its forms; none: it has no form."""


class CannotJudge(Exception):
    """A condition of `rule` cannot be judged. The text, a clause, holds no arguments."""

    def __init__(self, rule: str, text: str) -> None:
        super().__init__(text)
        self.rule = rule


class Judgement(NamedTuple):
    """The verdict about a thing for an audience, as far as it is known without arguments."""

    verdict: Verdict
    """Of one that conditions may still allow, their best."""
    mask: int
    """The rules that count, conditions or not."""
    is_open: bool
    """Arguments may change it."""
    scopes: tuple[str, ...] = ()
    """Scopes with which it would not be denied, for callers who may ask for more."""

    @property
    def is_hidden(self) -> bool:
        """True if it does not exist for them."""
        return self.verdict.effect is Effect.DENY and not self.scopes


class Audience(Struct, frozen=True):
    """Callers whom no rule tells apart."""

    holding: frozenset[CallerTerm]
    """The facts that hold of them."""
    issuer: str
    """The issuer of their tokens, if it could give them more scopes; "": nobody could."""
    mask: int
    more_scopes: int
    """The allows that would count with more scopes, too."""


class RuleTable(Struct):
    """The rules that are about the entries of some catalogues. Made in steps; then it never changes."""

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


Note = Callable[..., None]
"""Writes something into the audit log: its kind, and members about it. Never blocks or raises."""


def note_nothing(kind: str, /, **members: object) -> None:
    """The audit log of a hub that has none."""


class Judge:
    """The judge of one hub. It outlives changes of the configuration. `clock`: the time in seconds; `note`: where
    refusals are noted."""

    def __init__(self, clock: Callable[[], float] = lambda: 0.0, note: Note = note_nothing) -> None:
        self._clock = clock
        self.note = note
        self.legs: ThreeLegs | None = None
        """The calls of conversations; None: no rule goes by them."""
        self.tells_readers_apart = False
        """Others may be denied what one may read."""
        self._legs_before: ThreeLegs | None = None
        """The same of before such a rule was switched off."""
        self.book: RuleBook | None = None
        """None: there are no rules, and nothing is looked up."""
        self._table = self._prepared = RuleTable(None)
        self._audiences: dict[str, Audience] = {}
        self._former: dict[str, Audience] = {}
        """Those of the rules before these, by what is known of them: views of requests that came before."""
        self._known: BoundedDict[tuple[Identity, Rights, str], str] = BoundedDict(MAX_REMEMBERED)
        self._judged: BoundedDict[tuple[str, str, Kind, str], Judgement] = BoundedDict(MAX_JUDGED)
        self._last: tuple[Raw | None, Judgement | None, Identity | None, Verdict] = None, None, None, UNRULED
        """The arguments that were judged last, what was known of their tool, and for whom: several stages ask of one
        call in turn. A `Judgement` is made anew whenever rules or lists have changed."""
        """By audience, server, list and own name."""
        self._facts: BoundedDict[tuple[str, str], tuple[dict[str, object], ArgumentTypes]] = BoundedDict(MAX_REMEMBERED)
        """Of each tool what conditions know without its arguments, and the types of these."""
        """By server and its own name of a tool, what conditions know of that."""
        self.failures = 0
        """Calls that were denied because a condition could not be judged."""
        self.last_failure = ""
        """The rule of the last of them, and the reason."""

    def adjust(self, book: "RuleBook | None") -> None:
        """Judge by these rules from now on."""
        before = self.book
        if book == self.book:
            return
        if book == self._prepared.book:
            book = self._prepared.book
        self.book = book
        self.tells_readers_apart = book is not None and book.tells_readers_apart
        self._judged.clear()
        if book is None or book.trifecta is None:
            self.legs, self._legs_before = None, self.legs or self._legs_before
        elif self.legs is None:
            from hub.rules.policy.lethal_trifecta import ThreeLegs  # not above: few hubs go by that

            self.legs = self._legs_before or ThreeLegs(self._clock)
        known = self._audiences.items()
        found = {} if book is None else {name: _audience(book, each.holding, each.issuer) for name, each in known}
        if book is None or before is None or (book.terms, book.step_up) != (before.terms, before.step_up):
            self._audiences, self._former = {}, found
            self._known.clear()
        else:
            self._audiences = found

    # --- tables -------------------------------------------------------------------------------------------------------

    def prepare(self, book: "RuleBook | None", catalogs: Collection[Catalog]) -> Steps[None]:
        """Find what these rules are about, which are about to be applied."""
        self._prepared = yield from self.compile(book, catalogs)

    def compile(self, book: "RuleBook | None", catalogs: Collection[Catalog]) -> Steps[RuleTable]:
        """The table of all entries of these catalogues, of a server's the first; what is still right is taken over."""
        table = RuleTable(book, {}, {}, {})
        if book is None:
            return table
        for part in chain.from_iterable(catalog.parts for catalog in catalogs):
            if part.name in table.parts:
                continue
            table.parts[part.name] = part
            right = (each for each in (self._table, self._prepared) if each.book is book)
            if (known := next((each for each in right if each.parts.get(part.name) is part), None)) is not None:
                table.masks[part.name] = known.masks[part.name]
            else:
                table.masks[part.name] = yield from _masks_of(part, book)
        for pipeline in chain.from_iterable(catalog.pipelines.values() for catalog in catalogs):
            if (name := pipeline.name) not in table.pipelines:
                steps = (table.find(route.upstream, Kind.TOOL, route.original) for route in pipeline.routes)
                marks = [WORST if part is None or its is None else _marks_of(part, its) for part, its in steps]
                table.pipelines[name] = join_marks(marks)
                mask = _about_pipeline(book, name, table.pipelines[name])
                table.masks.setdefault(RESERVED, {})[Kind.TOOL, name] = (mask,)
                yield len(marks)
        return table

    def use(self, table: RuleTable) -> None:
        """Look verdicts up in `table` from now on."""
        self._table, self._prepared = table, RuleTable(None)
        self._judged.clear()
        self._facts.clear()

    def masks_of(self, upstream: str, kind: Kind, original: str) -> Masks:
        """The rules that are about a thing, be it listed or not."""
        table, book = self._table, self.book
        assert book is not None, "there is something to judge"
        if table.book is book and (found := table.masks.get(upstream, {}).get((kind, original))) is not None:
            return found
        return _masks(book, upstream, kind, original, *table.find(upstream, kind, original))

    # --- callers ------------------------------------------------------------------------------------------------------

    def view_for(self, view: View, identity: Identity, rights: Rights = NO_RIGHTS) -> View:
        """The part of `view` that a caller is shown."""
        audience = "" if self.book is None else self.audience_of(view, identity, rights)
        return view if view.audience == audience else structs.replace(view, audience=audience)

    def audience_of(self, view: View, identity: Identity, rights: Rights = NO_RIGHTS) -> str:
        """The name of the audience that a caller belongs to where `view` is shown; the same in each run of the hub."""
        book = self.book
        assert book is not None, "only rules tell callers apart"
        key = identity, rights, view.profile
        if (known := self._known.get(key)) is not None:
            return known
        profile = view.profile or DEFAULT_PROFILE
        holding = frozenset(term for term in book.terms if holds(term, identity, rights, profile))
        issuer = rights.issuer if book.step_up else ""
        facts = [issuer, *(f"{'+' if term in holding else '-'}{term}" for term in sorted(book.terms))]
        name = sha256(repr(facts).encode()).hexdigest()[:12]
        if name not in self._audiences:
            self._audiences[name] = _audience(book, holding, issuer)
        self._known.put(key, name)
        return name

    def is_current(self, audience: str) -> bool:
        """True if these rules have this audience."""
        return audience in self._audiences

    def knows(self, audience: str) -> bool:
        """True if these rules have this audience, or those before them had."""
        return audience in self._audiences or audience in self._former

    # --- verdicts -----------------------------------------------------------------------------------------------------

    def judge(self, caller: Caller, view: View, target: "Target") -> Verdict:
        """The verdict about `target` for a caller to whom `view` is shown: a look-up, without the arguments."""
        if self.book is None:
            return UNRULED
        return self._with_legs(self.look_up(caller, view, target).verdict, conversation_of(caller, view), target)

    def look_up(self, caller: Caller, view: View, target: "Target") -> Judgement:
        """The judgement of `target` without its arguments, but for what the conversation has done before."""
        return self.look_up_route(caller, view, target.route, target.kind or Kind.RESOURCE)

    def look_up_route(self, caller: Caller, view: View, route: Route, kind: Kind) -> Judgement:
        """The same of what a route leads to."""
        known = self._judged.get((view.audience, route.upstream, kind, route.original))
        if known is not None:
            return known
        audience = view.audience
        if audience not in self._audiences:  # other rules have come since it was shown
            audience = self.audience_of(view, caller.identity, caller.rights)
        return self.judge_thing(audience, route.upstream, kind, route.original)

    def judge_thing(self, audience: str, upstream: str, kind: Kind, original: str) -> Judgement:
        """The same of a thing by its own name or URI, for an audience that is known."""
        key = audience, upstream, kind, original
        if (known := self._judged.get(key)) is None:
            is_current = audience in self._audiences
            its = self._audiences[audience] if is_current else self._former[audience]
            known = self._decide(self.masks_of(upstream, kind, original), its)
            if is_current:
                self._judged.put(key, known)
        return known

    def may_use(self, view: View, upstream: str, tool: str) -> bool:
        """True if the audience of `view` is not denied a tool, by its server's own name of it."""
        if self.book is None:
            return True
        is_known = self.knows(view.audience)
        return is_known and not self.judge_thing(view.audience, upstream, Kind.TOOL, tool).is_hidden

    def _decide(self, masks: Masks, audience: Audience) -> Judgement:
        book = self.book
        assert book is not None, "there is something to judge"
        if not masks:
            return Judgement(TWO_SPELLINGS, 0, is_open=False)
        first, *others = (self._decide_one(book, mask, audience) for mask in masks)
        said = first.verdict.effect, first.mask & book.conditional
        if any((other.verdict.effect, other.mask & book.conditional) != said for other in others):
            return Judgement(TWO_SPELLINGS, 0, is_open=False)
        return first

    def _decide_one(self, book: "RuleBook", about: int, audience: Audience) -> Judgement:
        mask = about & audience.mask
        certain = mask & ~book.conditional
        verdict = book.decide(certain)
        if certain & book.of[Effect.DENY]:
            return Judgement(verdict, certain, is_open=False)
        is_open = certain != mask
        if verdict.effect is not Effect.DENY:
            return Judgement(verdict, mask, is_open=is_open)
        if opening := mask & book.conditional & ~book.of[Effect.DENY]:  # of a thing that may be allowed, lists tell
            return Judgement(book.decide(opening), mask, is_open=True)
        more = about & audience.more_scopes & book.of[Effect.ALLOW]
        return Judgement(verdict, mask, is_open=False, scopes=book.scopes(more) if more else ())

    def settle_arguments(self, viewer: "Viewer", route: Route, params: dict[str, Raw]) -> None:
        """Write the arguments of a call anew that conditions will judge, so that every reader understands them in one
        way. What cannot be written is denied when it is judged."""
        known = self.look_up_route(viewer.caller, viewer.view, route, Kind.TOOL)
        if known.is_open and "arguments" in params:
            with suppress(ValueError, RecursionError):
                params["arguments"] = encode_arguments(decode_arguments(params["arguments"]))

    def may_ask(self, upstream: str) -> bool:
        """True if a rule may ask about anything of the server that runs as `upstream`."""
        return self.book is not None and self.book.may_ask(server_of(upstream))

    def judge_arguments(self, intent: "Intent") -> Verdict:
        """The verdict about an intent, with conditions on its arguments. Raises nothing: an error is a deny."""
        if self.book is None:
            return UNRULED
        caller, target = intent.host.caller, intent.target
        known = self.look_up(caller, intent.host.view, target)
        verdict = known.verdict
        if known.is_open:
            arguments = intent.operation.params.get("arguments")
            last = self._last
            try:
                if last[0] is not arguments or last[1] is not known or last[2] != caller.identity:
                    verdict = self.judge_open(known, target.route, caller.identity, arguments)
                    last = self._last = arguments, known, caller.identity, verdict
                verdict = last[3]
            except CannotJudge as error:
                self.failures += 1
                self.last_failure = f"{error.rule}: {error}"
                text = "its arguments cannot be judged by the rules of this hub"
                verdict = Verdict(Effect.DENY, error.rule, text, why=str(error))
        return self._with_legs(verdict, conversation_of(caller, intent.host.view), target)

    def note_denial(self, intent: "Intent", verdict: Verdict) -> None:
        """Write down that rules deny an intent."""
        self.note("refuse", **intent.facts(), rule=verdict.rule, **({"why": verdict.why} if verdict.why else {}))

    def judge_open(self, known: Judgement, route: Route, identity: Identity, arguments: Raw | None) -> Verdict:
        """The verdict about a call whose arguments count. Raises CannotJudge: there is none, which is a deny."""
        book, rule = self.book, "arguments"
        assert book is not None, "there is something to judge"
        mask = known.mask & ~book.conditional
        try:
            facts = self._facts_of(route, identity, arguments)
            for bit, its in book.conditions(known.mask):
                rule = its.place
                if its.condition is not None and its.condition.holds(facts):
                    mask |= bit
        except (ConditionFailed, ValueError, RecursionError) as error:
            raise CannotJudge(rule, str(error)) from None
        return book.decide(mask)

    def _facts_of(self, route: Route, identity: Identity, arguments: Raw | None) -> Mapping[str, object]:
        """The variables of conditions. Raises ValueError: the arguments are none that can be judged."""
        key = route.upstream, route.original
        if (known := self._facts.get(key)) is None:
            part, entry = self._table.find(route.upstream, Kind.TOOL, route.original)
            marks = self.marks_of(route)
            facts = {
                "tool": part.contested.get(entry.original, entry.visible) if part and entry else route.original,
                "upstream": home_of(route.upstream)[0],
                "original": route.original,
                "hints": {mark: mark in marks for mark in MARKS},
                "trusted": part is not None and part.rule.trusted,
            }
            known = facts, types_of(entry.fields.get("inputSchema")) if entry else {}
            self._facts.put(key, known)
        its = decode_arguments(arguments)
        refuse_other_types(its, known[1])
        return {**known[0], "args": its, "host": identity.host, "principal": identity.principal}

    def marks_of(self, route: Route) -> frozenset[str]:
        """The marks of a tool that are believed."""
        if route.upstream == RESERVED:
            return self._table.pipelines.get(route.original, WORST)
        part, entry = self._table.find(route.upstream, Kind.TOOL, route.original)
        return WORST if part is None or entry is None else _marks_of(part, entry)

    def _with_legs(self, verdict: Verdict, tenant: Tenant, target: "Target") -> Verdict:
        effect = None if self.book is None else self.book.trifecta
        if effect is None or self.legs is None or verdict.effect is Effect.DENY:
            return verdict
        tool = target.route.original if target.kind is Kind.TOOL else ""
        if not self.legs.closes(tenant, target.upstream.config, tool):
            return verdict
        reason = "this conversation has read private data and untrusted text"
        return Verdict(effect, LEGS, reason, (*verdict.says, LEGS))


def conversation_of(caller: Caller, view: View) -> Tenant:
    """The conversation whose calls are remembered. A host that has an entry for each server has as many of them, so
    those at endpoints of one server are one for all of its program."""
    return Tenant(caller.identity) if view.server else caller.tenant


def _audience(book: "RuleBook", holding: frozenset[CallerTerm], issuer: str) -> Audience:
    holds = holding.__contains__
    return Audience(holding, issuer, book.by(holds), book.by_more_scopes(holds, issuer))


def holds(term: CallerTerm, identity: Identity, rights: Rights, profile: str) -> bool:
    """True if a fact holds of a caller."""
    if term.kind == HOST:
        return identity.host == term.name
    if term.kind == PRINCIPAL:
        return identity.principal == term.name
    if term.kind == PROFILE:
        return profile == term.name
    issuer, mark, name = term.name.partition("/")
    names = [term.name, name] if mark and issuer == rights.issuer else [term.name]
    if term.kind == GROUP:
        return any(each in rights.groups for each in names)
    assert term.kind == SCOPE, "there are no others"
    return any(each == scope or each.startswith(f"{scope}:") for each in names for scope in rights.scopes)


def _masks_of(part: UpstreamEntries, book: "RuleBook") -> Steps[dict[tuple[Kind, str], Masks]]:
    """The rules that are about each entry of a server."""
    found: dict[tuple[Kind, str], Masks] = {}
    for kind in Kind:
        entries = part.askable(kind)
        for at in range(0, len(entries), STEP):
            some = entries[at : at + STEP]
            if kind in (Kind.RESOURCE, Kind.TEMPLATE):
                masks = [_masks(book, part.name, kind, each.original, part, each) for each in some]
            else:
                masks = [(mask,) for mask in _about_all(book, kind, some, part)]
            found.update(((kind, each.original), its) for each, its in zip(some, masks, strict=True))
            yield len(some)
    return found


def _about_all(book: "RuleBook", kind: Kind, entries: Sequence[VisibleEntry], part: UpstreamEntries) -> list[int]:
    """The rules that are about tools or prompts of a server."""
    exposed = [_thing(kind, each, part) for each in entries]
    own = [structs.replace(thing, name=each.original) for thing, each in zip(exposed, entries, strict=True)]
    masks = book.about_all(exposed, own, part.name)
    if kind is not Kind.TOOL or not part.contested:
        return masks
    wanted = [
        structs.replace(thing, name=part.contested.get(its.name, thing.name))
        for thing, its in zip(exposed, own, strict=True)
    ]
    return list(map(book.join, masks, book.about_all(wanted, own, part.name)))


def _thing(kind: Kind, entry: VisibleEntry, part: UpstreamEntries) -> Thing:
    marks = _marks_of(part, entry) if kind is Kind.TOOL else frozenset[str]()
    return Thing(WORDS[kind], entry.visible, home_of(part.name)[0], marks)


def _masks(
    book: "RuleBook", running: str, kind: Kind, original: str, part: UpstreamEntries | None, entry: VisibleEntry | None
) -> Masks:
    """The rules that are about one thing, listed or not."""
    upstream, _ = home_of(running)
    if upstream == RESERVED:  # a pipeline that is shown to nobody now
        return (_about_pipeline(book, original, WORST),)
    if kind in (Kind.RESOURCE, Kind.TEMPLATE):
        if not book.judges_resources:
            return (0,)
        from hub.rules.policy.uri_forms import forms_of  # not above: only rules need it

        is_start = kind is Kind.TEMPLATE
        forms = forms_of(original.partition("{")[0] if is_start else original, is_start=is_start)
        return tuple(book.about(Thing(RESOURCE, form, upstream), form, running) for form in forms)
    if entry is not None and part is not None:
        return tuple(_about_all(book, kind, [entry], part))
    names = {f"{upstream}__{original}"} if part is None or kind is not Kind.TOOL else part.names_of(original)
    thing = Thing(WORDS[kind], min(names), upstream, WORST if kind is Kind.TOOL else frozenset())
    return (book.about(thing, original, running),)


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
