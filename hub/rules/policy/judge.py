"""The judge: what the rules say about one thing for one caller, looked up in tables.

rules of the configuration        `RuleBook`: a bit for each rule
entries of the catalogue          `RuleTable`: the bits of the rules that are about each
facts about the caller            `Audience`: callers whom no rule tells apart; its name is part of their view
arguments of the call             `ConditionalRules`, where a rule that counts has a condition
"""

from collections.abc import Callable, Collection
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple

from msgspec import Raw, structs

from config.server_names import RESERVED, server_of
from hub.catalog.catalog import Catalog
from hub.catalog.endpoint_views import View
from hub.catalog.time_slices import Steps
from hub.catalog.upstream_entries import Route
from hub.link.bounded_dict import BoundedDict
from hub.link.call_interface import NO_RIGHTS, Caller, Identity, Rights, Tenant
from hub.rules.policy.arguments_for_conditions import decode_arguments, encode_arguments
from hub.rules.policy.audiences import Audience, Audiences
from hub.rules.policy.conditional_rules import CannotJudge, ConditionalRules
from hub.rules.policy.rule_tables import Masks, RuleTable, compile_table
from hub.rules.policy.verdict import UNRULED, Effect, Verdict
from hub.wire.mcp import Kind

if TYPE_CHECKING:
    from hub.bridge.tasks.polled_tasks import Viewer
    from hub.calls.chain import Intent, Target

if TYPE_CHECKING:  # not loaded without rules, or pipelines
    from hub.catalog.pipelines.pipeline_tools import AnyPipeline
    from hub.rules.policy.lethal_trifecta import ThreeLegs
    from hub.rules.policy.rule_book import RuleBook

MAX_JUDGED: Final = 50_000
"""Verdicts that are remembered."""
TWO_SPELLINGS: Final = Verdict(Effect.DENY, "a URI that rules cannot compare")
LEGS: Final = "trifecta"
"""The rule of a verdict about the third leg."""


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
        self._all_legs: ThreeLegs | None = None
        """The same, also while no rule goes by them."""
        self.tells_readers_apart = False
        """Others may be denied what one may read."""
        self.book: RuleBook | None = None
        """None: there are no rules, and nothing is looked up."""
        self.audiences = Audiences()
        self._judged: BoundedDict[tuple[str, str, Kind, str], Judgement] = BoundedDict(MAX_JUDGED)
        """By audience, server, list and own name."""
        self.use(RuleTable(None))
        self._last: tuple[Raw | None, Judgement | None, object, Verdict] = None, None, None, UNRULED
        """The arguments that were judged last, what was known of their tool, for whom, and the account that serves:
        several stages ask of one call in turn. A `Judgement` is made anew whenever rules or lists have changed."""
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
        self.legs = None
        if book is not None and book.trifecta is not None:
            from hub.rules.policy.lethal_trifecta import ThreeLegs  # not above: few hubs go by that

            self.legs = self._all_legs = self._all_legs or ThreeLegs(self._clock)
        self.audiences.adjust(before, book)

    # --- tables -------------------------------------------------------------------------------------------------------

    def prepare(self, book: "RuleBook | None", catalogs: Collection[Catalog]) -> Steps[None]:
        """Find what these rules are about, which are about to be applied."""
        self._prepared = yield from self.compile(book, catalogs)

    def compile(self, book: "RuleBook | None", catalogs: Collection[Catalog]) -> Steps[RuleTable]:
        """The table of all entries of these catalogues; what is still right is taken over."""
        return compile_table(book, catalogs, (self.table, self._prepared))

    def use(self, table: RuleTable) -> None:
        """Look verdicts up in `table` from now on."""
        self.table, self._prepared, self.conditions = table, RuleTable(None), ConditionalRules(table)
        self._judged.clear()

    @property
    def _ruled(self) -> "RuleBook":
        """The rules, where there is something to judge."""
        assert self.book is not None
        return self.book

    # --- callers ------------------------------------------------------------------------------------------------------

    def view_for(self, view: View, identity: Identity, rights: Rights = NO_RIGHTS) -> View:
        """The part of `view` that a caller is shown."""
        audience = "" if self.book is None else self.audience_of(view, identity, rights)
        return view if view.audience == audience else structs.replace(view, audience=audience)

    def audience_of(self, view: View, identity: Identity, rights: Rights = NO_RIGHTS) -> str:
        """The name of the audience that a caller belongs to where `view` is shown."""
        return self.audiences.name_of(self._ruled, identity, rights, view.profile)

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
        if audience not in self.audiences:  # other rules have come since it was shown
            audience = self.audience_of(view, caller.identity, caller.rights)
        return self.judge_thing(audience, route.upstream, kind, route.original)

    def judge_thing(self, audience: str, upstream: str, kind: Kind, original: str) -> Judgement:
        """The same of a thing by its own name or URI, for an audience that is known."""
        key = audience, upstream, kind, original
        if (known := self._judged.get(key)) is None:
            its = self.audiences.find(audience)
            assert its is not None, "it is known"
            known = self._decide(self.table.masks_of(self._ruled, upstream, kind, original), its)
            if audience in self.audiences:
                self._judged.put(key, known)
        return known

    def judge_pipeline(self, audience: str, pipeline: "AnyPipeline") -> list[Judgement]:
        """The judgement of a pipeline as a whole, then that of each of its steps."""
        routes = Route(RESERVED, pipeline.name), *pipeline.routes
        return [self.judge_thing(audience, route.upstream, Kind.TOOL, route.original) for route in routes]

    def may_use(self, view: View, upstream: str, tool: str) -> bool:
        """True if the audience of `view` is not denied a tool, by its server's own name of it."""
        if self.book is None:
            return True
        is_known = self.audiences.find(view.audience) is not None
        return is_known and not self.judge_thing(view.audience, upstream, Kind.TOOL, tool).is_hidden

    def _decide(self, masks: Masks, audience: Audience) -> Judgement:
        if not masks:
            return Judgement(TWO_SPELLINGS, 0, is_open=False)
        book = self._ruled
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
            arguments, who = intent.operation.params.get("arguments"), (caller.identity, target.upstream.config.account)
            last = self._last
            try:
                if last[0] is not arguments or last[1] is not known or last[2] != who:
                    verdict = self.conditions.judge(self._ruled, known.mask, target.route, who[0], arguments, who[1])
                    last = self._last = arguments, known, who, verdict
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
