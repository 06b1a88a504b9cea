"""Audiences: callers whom no rule tells apart, each under a name that is the same in each run of the hub. Pure."""

from hashlib import sha256
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from config.policy.selectors import GROUP, HOST, PRINCIPAL, PROFILE, SCOPE, CallerTerm
from config.profile_settings import DEFAULT_PROFILE
from hub.link.bounded_dict import BoundedDict
from hub.link.call_interface import Identity, Rights

if TYPE_CHECKING:  # not loaded without a rule
    from hub.rules.policy.rule_book import RuleBook

MAX_REMEMBERED: Final = 4096
"""Callers whose audience is remembered."""


class Audience(Struct, frozen=True):
    """Callers whom no rule tells apart."""

    holding: frozenset[CallerTerm]
    """The facts that hold of them."""
    issuer: str
    """The issuer of their tokens, if it could give them more scopes; "": nobody could."""
    mask: int
    more_scopes: int
    """The allows that would count with more scopes, too."""


class Audiences:
    """The audiences that the rules of now and of before have."""

    def __init__(self) -> None:
        self._now: dict[str, Audience] = {}
        self._former: dict[str, Audience] = {}
        """Those of the rules before these, by what is known of them: views of requests that came before."""
        self._known: BoundedDict[tuple[Identity, Rights, str], str] = BoundedDict(MAX_REMEMBERED)

    def adjust(self, before: "RuleBook | None", book: "RuleBook | None") -> None:
        """Go by these rules, in place of those of before."""
        known = self._now.items()
        found = {} if book is None else {name: _audience(book, each.holding, each.issuer) for name, each in known}
        if book is None or before is None or (book.terms, book.step_up) != (before.terms, before.step_up):
            self._now, self._former = {}, found
            self._known.clear()
        else:
            self._now = found

    def __contains__(self, name: object) -> bool:
        """True if the rules of now have it."""
        return name in self._now

    def find(self, name: str) -> Audience | None:
        """The audience of this name, of the rules of now or of before."""
        return self._now.get(name) or self._former.get(name)

    def name_of(self, book: "RuleBook", identity: Identity, rights: Rights, profile: str) -> str:
        """The name of the audience of a caller who is shown a profile."""
        key = identity, rights, profile
        if (known := self._known.get(key)) is not None:
            return known
        holding = frozenset(term for term in book.terms if holds(term, identity, rights, profile or DEFAULT_PROFILE))
        issuer = rights.issuer if book.step_up else ""
        facts = [issuer, *(f"{'+' if term in holding else '-'}{term}" for term in sorted(book.terms))]
        name = sha256(repr(facts).encode()).hexdigest()[:12]
        if name not in self._now:
            self._now[name] = _audience(book, holding, issuer)
        self._known.put(key, name)
        return name


def _audience(book: "RuleBook", holding: frozenset[CallerTerm], issuer: str) -> Audience:
    return Audience(holding, issuer, book.by(holding.__contains__), book.by_more_scopes(holding.__contains__, issuer))


def holds(term: CallerTerm, identity: Identity, rights: Rights, profile: str) -> bool:
    """True if a fact holds of a caller."""
    plain = {HOST: identity.host, PRINCIPAL: identity.principal, PROFILE: profile}
    if term.kind in plain:
        return plain[term.kind] == term.name
    issuer, mark, name = term.name.partition("/")
    names = [term.name, name] if mark and issuer == rights.issuer else [term.name]
    if term.kind == GROUP:
        return any(each in rights.groups for each in names)
    assert term.kind == SCOPE, "there are no others"
    return any(each == scope or each.startswith(f"{scope}:") for each in names for scope in rights.scopes)
