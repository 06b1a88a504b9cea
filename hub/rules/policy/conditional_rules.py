"""Rules with conditions on the arguments of a call: what conditions know, and the verdict by them. Pure."""

from typing import TYPE_CHECKING, Final

from msgspec import Raw

from config.policy.cel_conditions import ConditionFailed
from config.policy.selectors import MARKS
from hub.catalog.endpoint_views import home_of
from hub.catalog.upstream_entries import Route
from hub.link.bounded_dict import BoundedDict
from hub.link.call_interface import Identity
from hub.rules.policy.arguments_for_conditions import ArgumentTypes, decode_arguments, refuse_other_types, types_of
from hub.rules.policy.rule_tables import RuleTable
from hub.rules.policy.verdict import Verdict
from hub.wire.mcp import Kind

if TYPE_CHECKING:  # not loaded without a rule
    from hub.rules.policy.rule_book import RuleBook

MAX_TOOLS: Final = 4096
"""Tools of which is remembered what conditions know of them."""


class CannotJudge(Exception):
    """A condition of `rule` cannot be judged. The text, a clause, holds no arguments."""

    def __init__(self, rule: str, text: str) -> None:
        super().__init__(text)
        self.rule = rule


class ConditionalRules:
    """The rules with conditions, for the tools of one table."""

    def __init__(self, table: RuleTable) -> None:
        self._table = table
        self._facts: BoundedDict[tuple[str, str], tuple[dict[str, object], ArgumentTypes]] = BoundedDict(MAX_TOOLS)
        """By server and its own name of a tool, what conditions know without arguments, and the types of these."""

    def judge(
        self, book: "RuleBook", mask: int, route: Route, identity: Identity, arguments: Raw | None, account: str = ""
    ) -> Verdict:
        """The verdict about a call where the rules of `mask` count, if their conditions hold. `account`: that which
        serves it, of several at its server. Raises CannotJudge: there is none, which is a deny."""
        rule, certain = "arguments", mask & ~book.conditional
        try:
            its = decode_arguments(arguments)
            facts, types = self._facts_of(route)
            refuse_other_types(its, types)
            if account and route.account is not None and isinstance(its, dict):  # whoever has chosen it
                its = {**its, route.account.name: account}
            facts = {**facts, "args": its, "host": identity.host, "principal": identity.principal}
            for bit, each in book.conditions(mask):
                rule = each.place
                if each.condition is not None and each.condition.holds(facts):
                    certain |= bit
        except (ConditionFailed, ValueError, RecursionError) as error:
            raise CannotJudge(rule, str(error)) from None
        return book.decide(certain)

    def _facts_of(self, route: Route) -> tuple[dict[str, object], ArgumentTypes]:
        key = route.upstream, route.original
        if (known := self._facts.get(key)) is None:
            part, entry = self._table.find(route.upstream, Kind.TOOL, route.original)
            marks = self._table.marks_of(*key)
            facts: dict[str, object] = {
                "tool": part.contested.get(entry.original, entry.visible) if part and entry else route.original,
                "upstream": home_of(route.upstream)[0],
                "original": route.original,
                "hints": {mark: mark in marks for mark in MARKS},
                "trusted": part is not None and part.rule.trusted,
            }
            known = facts, types_of(entry.fields.get("inputSchema")) if entry else {}
            self._facts.put(key, known)
        return known
