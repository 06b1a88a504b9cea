"""The rules of one configuration, in one order, and what follows from those that are about a thing and a caller. Pure.

A rule is a bit. The rules that are about a thing, whoever asks, are a mask, and so are those that are about a caller,
whatever is asked for: what counts is in both. A deny wins over an ask, and that over an allow; of one effect the first
rule is named. Where none counts, the default does.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from msgspec import Struct

from config.diagnostics import Keys
from config.loading.checks.rules import default_of
from config.loading.precedence import Origin
from config.policy.cel_conditions import Condition, compile_condition
from config.policy.selectors import (
    PROMPT,
    RESOURCE,
    SCOPE,
    TOOL,
    CallerTerm,
    Selector,
    Thing,
    callers_in,
    read_selector,
)
from config.settings import HubConfig, UpstreamConfig
from hub.catalog.endpoint_views import home_of
from hub.rules.policy.verdict import Effect, Verdict

MODES: Final[Mapping[str, Mapping[Effect, tuple[str, ...]]]] = {
    "open": {},
    "careful": {Effect.ASK: ("@destructive",)},
    "read-only": {Effect.ALLOW: ("@read-only", "prompt:*", "resource:*")},
}
"""The selectors that a mode stands for."""


class PolicyRule(Struct, frozen=True):
    """One rule."""

    effect: Effect
    selector: Selector
    place: str
    """As in `Verdict.rule`."""
    upstream: str = ""
    """The server whose own names it goes by, as it runs; "": it goes by exposed names of all."""
    condition: Condition | None = None
    """The condition on the arguments; None: it always counts."""
    reason: str = ""

    @property
    def digest(self) -> str:
        """The digest of what it says, wherever it stands."""
        condition = "" if self.condition is None else self.condition.text
        said = self.effect.value, self.selector.text, self.upstream, condition, self.reason
        return sha256(repr(said).encode()).hexdigest()[:32]

    def opens_by_scope(self, holds: Callable[[CallerTerm], bool], others: frozenset[str]) -> bool:
        """True if it would be about a caller who had more scopes of an issuer that is none of `others`."""
        for term, negated in self.selector.by:
            is_given = term.kind == SCOPE and not negated and term.name.partition("/")[0] not in others
            if not is_given and holds(term) is negated:
                return False
        return True


@dataclass
class RuleBook:
    """All rules of a configuration. Never changes. Two are equal if they say the same, in the same places."""

    rules: tuple[PolicyRule, ...]
    default: Verdict
    """The verdict where none counts."""
    trifecta: Effect | None
    """The effect on calls that close the third leg; None: none."""
    step_up: bool
    """Whoever lacks scopes is told which, and not that there is no such thing."""
    issuers: frozenset[str]
    """The names of those who give scopes."""

    def __post_init__(self) -> None:
        rules = self.rules
        self.terms = frozenset(callers_in(rule.selector for rule in rules))
        """The facts about callers that any rule goes by."""
        self._by_kind = {
            kind: [(1 << at, rule) for at, rule in enumerate(rules) if rule.selector.kind == kind]
            for kind in (TOOL, PROMPT, RESOURCE)
        }
        self.judges_resources = self.default.effect is not Effect.ALLOW or bool(self._by_kind[RESOURCE])
        self.tells_readers_apart = any(rule.selector.by for _, rule in self._by_kind[RESOURCE])
        """Others may be denied what one may read, so nobody may keep it for them."""
        self.of = {effect: _mask_of(rule.effect is effect for rule in rules) for effect in Effect}
        self.conditional = _mask_of(rule.condition is not None for rule in rules)

    def may_ask(self, running: str) -> bool:
        """True if a rule may ask about anything of the server that runs as `running`."""
        asks = (rule for rule in self.rules if rule.effect is Effect.ASK)
        return self.trifecta is Effect.ASK or any(rule.upstream in ("", running) for rule in asks)

    def about(self, exposed: Thing, own_name: str, running: str) -> int:
        """The rules that are about a thing, whoever asks. `own_name`: its name at its server, which runs as
        `running`."""
        own = Thing(exposed.kind, own_name, exposed.upstream, exposed.marks)
        return self.about_all([exposed], [own], running)[0]

    def about_all(self, exposed: Sequence[Thing], own: Sequence[Thing], running: str) -> list[int]:
        """The same of things of one kind and server, by their exposed and by their own names: rule by rule, which takes
        a fraction of the time."""
        masks = [0] * len(exposed)
        for bit, rule in self._by_kind[exposed[0].kind] if exposed else ():
            if rule.upstream in ("", running):
                for at in rule.selector.choose(own if rule.upstream else exposed):
                    masks[at] |= bit
        return masks

    def join(self, one: int, other: int) -> int:
        """The rules that are about a thing of two names: denies and asks of either, allows of both."""
        return (one | other) & ~self.of[Effect.ALLOW] | (one & other)

    def by(self, holds: Callable[[CallerTerm], bool]) -> int:
        """The rules that are about a caller, of whom those facts hold."""
        return _mask_of(rule.selector.admits(holds) for rule in self.rules)

    def by_more_scopes(self, holds: Callable[[CallerTerm], bool], issuer: str) -> int:
        """The allows that would be about that caller with more scopes of `issuer`; "": nobody gives it any."""
        if not (self.step_up and issuer):
            return 0
        others = self.issuers - {issuer}
        return _mask_of(rule.effect is Effect.ALLOW and rule.opens_by_scope(holds, others) for rule in self.rules)

    def decide(self, mask: int) -> Verdict:
        """The verdict where these rules count, conditions or not."""
        for effect in (Effect.DENY, Effect.ASK, Effect.ALLOW):
            if found := mask & self.of[effect]:
                rule = self.rules[(found & -found).bit_length() - 1]
                asks = self.rules_in(found, effect) if effect is Effect.ASK else ()
                return Verdict(effect, rule.place, rule.reason, tuple(each.digest for each in asks))
        return self.default

    def rules_in(self, mask: int, effect: Effect) -> Iterator[PolicyRule]:
        """The rules of one effect among these."""
        mask &= self.of[effect]
        return (rule for at, rule in enumerate(self.rules) if mask >> at & 1)

    def conditions(self, mask: int) -> Iterator[tuple[int, PolicyRule]]:
        """The rules among these that have conditions, each with its bit."""
        mask &= self.conditional
        while mask:
            bit = mask & -mask
            yield bit, self.rules[bit.bit_length() - 1]
            mask ^= bit

    def scopes(self, mask: int) -> tuple[str, ...]:
        """The scopes that the first of these rules wants."""
        rule = self.rules[(mask & -mask).bit_length() - 1]
        return tuple(term.name for term, negated in rule.selector.by if term.kind == SCOPE and not negated)


def _mask_of(counts: Iterable[bool]) -> int:
    """The bits of the rules that count."""
    return sum(1 << at for at, each in enumerate(counts) if each)


def read_rules(
    config: HubConfig, running: Mapping[str, UpstreamConfig], origins: Mapping[Keys, Origin] = {}
) -> RuleBook:
    """The rules of a configuration that was checked. `running`: the servers of the user and of projects, by the names
    they run under; `origins`: where settings stand."""
    policy = config.policy
    rules = [*_rules_of(config, origins)]
    for name, upstream in running.items():
        own, _ = home_of(name)
        keys = ("upstreams", own)
        for effect in Effect:
            rules += _list(getattr(upstream, effect.value), effect, (*keys, effect.value), origins, upstream=name)
    where = ("policy", "default") if policy.default is not None else ("policy", "mode")
    is_said = policy.default is not None or policy.mode == "read-only"
    default = Verdict(Effect(default_of(config)), f"{_place(origins, where)}default" if is_said else "default")
    trifecta = None if policy.trifecta == "off" else Effect(policy.trifecta)
    issuers = frozenset(each.name for each in config.access.issuers)
    return RuleBook(tuple(rules), default, trifecta, config.access.step_up, issuers)


def _rules_of(config: HubConfig, origins: Mapping[Keys, Origin]) -> Iterator[PolicyRule]:
    policy = config.policy
    for effect, texts in MODES[policy.mode].items():
        for text in texts:
            where = f"{_place(origins, ('policy', 'mode'))}mode {policy.mode}"
            yield PolicyRule(effect, read_selector(text), where)
    for effect in Effect:
        yield from _list(getattr(policy, effect.value), effect, ("policy", effect.value), origins)
    for number, row in enumerate(policy.rules):
        assert row.effect is not None, "it was checked"
        keys = ("policy", "rules", str(number))
        where = f"{_place(origins, (*keys, 'effect'))}rules[{number}]"
        condition = compile_condition(row.when) if row.when else None
        for text in row.match:
            its = Effect(row.effect), read_selector(text), where
            yield PolicyRule(*its, condition=condition, reason=row.reason)


def _list(
    texts: tuple[str, ...], effect: Effect, keys: Keys, origins: Mapping[Keys, Origin], upstream: str = ""
) -> Iterator[PolicyRule]:
    above = f"{upstream} " if upstream else ""
    for number, text in enumerate(texts):
        yield PolicyRule(
            effect, read_selector(text), f"{_place(origins, keys)}{above}{effect.value}[{number}]", upstream
        )


def _place(origins: Mapping[Keys, Origin], keys: Keys) -> str:
    """File and line of a setting, and a space; "": nobody knows."""
    origin = origins.get(keys)
    if origin is None:
        return ""
    return f"{origin.file.name}:{origin.line} " if origin.line else f"{origin.file.name} "
