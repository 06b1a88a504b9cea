"""URI templates: which URIs may come of one, and of the many of an upstream, found at a bounded cost. Pure."""

import re
from bisect import bisect_left
from typing import Final

from hub.catalog.uri_tags import scheme_of

MAX_ALIKE: Final = 100
"""Templates of one group that begin alike, or differ in where their first expression is."""
MAX_TRIED: Final = 200
"""Expressions that looking a URI up may try in all: 40 us."""
MAX_MATCHED_CHARS: Final = 64 << 10
"""A longer URI is of no template."""

_EXPRESSION = re.compile(r"\{([^{}]*)\}")


class Template:
    """A URI template, for telling which URIs may come of it. `prefix` is its text before the first expression, `weight`
    how many of these there are, at least 1: what it costs to match.
    """

    __slots__ = ("_gaps", "prefix", "scheme", "weight")

    def __init__(self, text: str) -> None:
        parts = _EXPRESSION.split(text)
        self.prefix = parts[0]
        self.scheme = scheme_of(parts[0])
        # An expression with an operator may expand to nothing: its variables are optional (RFC 6570, 3.2).
        self._gaps = [(int(parts[i][:1] not in tuple("?&#;/.")), parts[i + 1]) for i in range(1, len(parts), 2)]
        self.weight = max(1, len(self._gaps))

    def matches(self, uri: str) -> bool:
        """True if `uri` may be an expansion. Linear in its length: each literal is sought from the left, once."""
        if not uri.startswith(self.prefix):
            return False
        if not self._gaps:
            return len(uri) == len(self.prefix)
        at = len(self.prefix)
        for least, literal in self._gaps[:-1]:
            found = uri.find(literal, at + least)
            if found < 0:
                return False
            at = found + len(literal)
        least, literal = self._gaps[-1]
        return uri.endswith(literal) and len(uri) - len(literal) >= at + least


class TemplateGroup:
    """The templates of one upstream and one scheme, by their literal prefix."""

    __slots__ = ("_lengths", "_ordered", "_weights", "prefixes")

    def __init__(self) -> None:
        self.prefixes: dict[str, list[Template]] = {}
        self._weights: dict[str, int] = {}
        """Of each prefix, the expressions behind it."""
        self._lengths: dict[int, int] = {}
        """Of prefixes, and the most expressions behind one of that length: a URI has one prefix of each at most."""
        self._ordered: list[str] | None = None
        """All prefixes in order, made when needed."""

    def has_room(self, template: Template) -> bool:
        """True if looking a URI up stays cheap with this one more."""
        prefix = template.prefix
        if len(self.prefixes.get(prefix, ())) >= MAX_ALIKE:
            return False
        if len(self._lengths) >= MAX_ALIKE and len(prefix) not in self._lengths:
            return False
        heaviest = self._lengths.get(len(prefix), 0)
        weight = self._weights.get(prefix, 0) + template.weight
        return sum(self._lengths.values()) - heaviest + max(heaviest, weight) <= MAX_TRIED

    def add(self, template: Template) -> None:
        """Add a template for which the group `has_room`."""
        prefix = template.prefix
        if prefix not in self.prefixes:
            self._ordered = None
        self.prefixes.setdefault(prefix, []).append(template)
        weight = self._weights[prefix] = self._weights.get(prefix, 0) + template.weight
        self._lengths[len(prefix)] = max(self._lengths.get(len(prefix), 0), weight)

    def matches(self, uri: str) -> bool:
        """True if `uri` may be an expansion of one of them."""
        if len(uri) > MAX_MATCHED_CHARS:
            return False
        found = (self.prefixes.get(uri[:length], ()) for length in self._lengths)
        return any(template.matches(uri) for templates in found for template in templates)

    def overlaps(self, prefix: str) -> bool:
        """True if one of the prefixes begins with `prefix`, or `prefix` with one of them."""
        if any(prefix[:length] in self.prefixes for length in self._lengths):
            return True
        if self._ordered is None:
            self._ordered = sorted(self.prefixes)
        at = bisect_left(self._ordered, prefix)
        return at < len(self._ordered) and self._ordered[at].startswith(prefix)
