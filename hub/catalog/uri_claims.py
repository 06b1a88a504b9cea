"""URIs of many upstreams behind one endpoint. The invariant: the form that hosts see of *x* of upstream *A* resolves to
exactly *(A, x)* later, across restarts and whatever order upstreams connect in.

The first upstream to show a URI keeps it unchanged, and `UriClaims` remembers whose it is; only a contested URI is
tagged, as `hub.<server>+<original>`. Text, structured results and arguments mention URIs where no rewriting reaches
them, hence identity wherever possible. What decides is the scheme:

    ui                            always `ui://<server>~<rest>`: a wrong template would be a security problem
    http, https                   never changed: a host may fetch them itself
    file of a local upstream      never changed: all local servers mean the same files
    file of a remote upstream     always tagged: a host must not open it here
    others                        claimed, or tagged when another upstream's claim stands in the way

An original that looks like a tag is always tagged again, so no emitted URI can be read in two ways.
"""

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import Struct, field

from hub.catalog.uri_tags import looks_tagged, looks_ui_tagged, scheme_of, tag, untag
from hub.catalog.uri_templates import Template, TemplateGroup
from hub.catalog.visible_names import server_id

MAX_CLAIMS: Final = 10_000
"""Exact URIs remembered per upstream beside those it lists now; also the most templates."""
MAX_CLAIMED_CHARS: Final = 2048
"""A longer URI is tagged instead of remembered."""
MAX_SCHEMES: Final = 256
MAX_EXPRESSIONS: Final = 32
"""In one template; one with more is tagged instead of remembered, as is a long one."""


class _SavedClaims(Struct):
    """Claims of one upstream, as they are saved."""

    exact: list[str] = []
    templates: list[str] = []
    schemes: list[str] = []


class _UpstreamClaims(Struct):
    """Claims of one upstream: the URIs it has shown so far, as needed to find the way back."""

    sid: str = ""
    local: bool = False
    bare: bool = False
    listed: dict[str, None] = field(default_factory=dict)
    recent: dict[str, None] = field(default_factory=dict)
    """Exact URIs not listed now, the least recently shown first."""
    templates: dict[str, str] = field(default_factory=dict)
    """Each template that is emitted under its own text (or `ui`), and its scheme."""
    groups: dict[str, TemplateGroup] = field(default_factory=dict)
    schemes: set[str] = field(default_factory=set)
    ordered: list[str] | None = None
    """All exact URIs in order, made when needed."""

    def has_template_of(self, uri: str, scheme: str) -> bool:
        group = self.groups.get(scheme)
        return group is not None and group.matches(uri)

    def any_under(self, prefix: str) -> bool:
        """True if an exact URI begins with `prefix`."""
        if self.ordered is None:
            self.ordered = sorted((*self.listed, *self.recent))
        at = bisect_left(self.ordered, prefix)
        return at < len(self.ordered) and self.ordered[at].startswith(prefix)

    def has_room(self, template: Template) -> bool:
        group = self.groups.get(template.scheme)
        return len(self.templates) < MAX_CLAIMS and (group is None or group.has_room(template))

    def keep_template(self, text: str, template: Template) -> None:
        self.templates[text] = template.scheme
        self.groups.setdefault(template.scheme, TemplateGroup()).add(template)

    @property
    def shares_files(self) -> bool:
        """True if its `file` URIs are emitted as they are."""
        return self.local or self.bare


class UriClaims:
    """Owners of URIs. Made by `load`, told the configuration by `configure`, written down by `dump`.

    `changed` is set by every change that `dump` would show, and cleared by `dump`. `releases` counts claims given up,
    after which a URI tagged before may be emitted plain.
    """

    def __init__(self) -> None:
        self._holdings: dict[str, _UpstreamClaims] = {}
        """In configuration order."""
        self._owners: dict[str, str] = {}
        """Each exact URI that only one upstream may emit as it is."""
        self._known: dict[str, str] = {}
        """Server ids that may stand in a tag, former ones included."""
        self.changed = False
        self.releases = 0

    # --- written down and read back ---

    @classmethod
    def load(cls, data: object) -> "UriClaims":
        """The claims in `data`, as `dump` made it; none, when it is anything else, since work goes on without."""
        claims = cls()
        try:
            kept = msgspec.convert(data, dict[str, _SavedClaims])
        except msgspec.ValidationError:
            return claims
        for upstream, its in kept.items():
            holding = claims._holdings[upstream] = _UpstreamClaims(schemes=set(its.schemes))
            for uri in its.exact:
                if not _exclusive(scheme_of(uri)) or claims._owners.setdefault(uri, upstream) == upstream:
                    holding.recent[uri] = None
            for text in its.templates:
                if _is_short(text) and holding.has_room(template := Template(text)):
                    holding.keep_template(text, template)
        return claims

    def dump(self) -> dict[str, Any]:
        """Everything as plain JSON values."""
        self.changed = False
        return self._plain()

    def _plain(self) -> dict[str, Any]:
        return {
            upstream: {
                "exact": [*holding.recent, *holding.listed],
                "templates": list(holding.templates),
                "schemes": sorted(holding.schemes),
            }
            for upstream, holding in self._holdings.items()
        }

    def copy(self) -> "UriClaims":
        """An independent copy, for a catalogue that nobody is shown yet."""
        twin = UriClaims.load(self._plain())
        for upstream, its in self._holdings.items():
            holding = twin._holdings[upstream]
            holding.sid, holding.local, holding.bare = its.sid, its.local, its.bare
        twin._known = self._known
        return twin

    # --- configuration ---

    def configure(self, names: Sequence[str], *, aliases: Mapping[str, str], bare: str | None) -> None:
        """Take the upstreams in configuration order. Claims of others are released, or move with a rename. `aliases`
        maps former names to present ones. `bare` is the upstream with prefix "", whose URIs are its own."""
        for old in [name for name in self._holdings if name not in names]:
            new = aliases.get(old)
            self._move(old, new if new in names and new not in self._holdings else None)
        self._holdings = {name: self._holdings.get(name) or _UpstreamClaims() for name in names}
        for name, holding in self._holdings.items():
            holding.sid, holding.bare = server_id(name), name == bare
        self._known = {server_id(old): new for old, new in aliases.items() if new in self._holdings}
        self._known.update((holding.sid, name) for name, holding in self._holdings.items())

    def locate(self, upstream: str, *, local: bool) -> None:
        """Say whether the `file` URIs of an upstream mean files of this machine."""
        self._holdings[upstream].local = local

    def _move(self, old: str, new: str | None) -> None:
        """Hand the claims of `old` to `new`, or release them."""
        holding = self._holdings.pop(old)
        self.changed = True
        if new is None:
            self.releases += 1
            self._owners = {uri: owner for uri, owner in self._owners.items() if owner != old}
        else:
            self._holdings[new] = holding
            self._owners.update((uri, new) for uri, owner in self._owners.items() if owner == old)

    # --- emitting ---

    def emit(self, upstream: str, uri: str) -> str:
        """`uri` of `upstream` as hosts may see it. A free URI is claimed on the way."""
        holding = self._holdings.get(upstream)
        if holding is None:  # removed from the configuration while its answer was under way
            return tag(server_id(upstream), uri)
        return self._emit(upstream, holding, uri, holding.recent)

    def relist(self, upstream: str, uris: Sequence[str], templates: Iterable[str]) -> tuple[list[str], list[str]]:
        """All resources and templates that `upstream` lists now, as hosts may see them. Listed claims never expire."""
        holding = self._holdings[upstream]
        shown = [self._emit(upstream, holding, uri, holding.listed) for uri in uris]
        gone = holding.listed.keys() - set(uris)
        for uri in [uri for uri in holding.listed if uri in gone]:
            del holding.listed[uri]
            self._keep(upstream, holding, uri, holding.recent)
        return shown, [self._emit_template(upstream, holding, text) for text in templates]

    def _emit(self, upstream: str, holding: _UpstreamClaims, uri: str, kept: dict[str, None]) -> str:
        scheme = scheme_of(uri)
        self._note_scheme(holding, scheme)
        if looks_tagged(uri):
            return tag(holding.sid, uri)
        if _exclusive(scheme):
            owner = self.owner(uri)
            if owner is None and len(uri) <= MAX_CLAIMED_CHARS:
                owner = self._owners[uri] = upstream
            if owner != upstream:
                return tag(holding.sid, uri)
            if uri in self._owners:
                self._keep(upstream, holding, uri, kept)
            return uri
        if scheme == "file" and not holding.shares_files:
            return tag(holding.sid, uri)
        if len(uri) <= MAX_CLAIMED_CHARS:
            self._keep(upstream, holding, uri, kept)
        return tag(holding.sid, uri) if _hides_ui(holding, scheme, uri) else uri

    def _emit_template(self, upstream: str, holding: _UpstreamClaims, text: str) -> str:
        scheme = holding.templates.get(text)
        if scheme is None:
            template = Template(text if _is_short(text) else text.partition("{")[0])
            scheme = template.scheme
            self._note_scheme(holding, scheme)
            if looks_tagged(text) or self._contested(upstream, holding, template):
                return tag(holding.sid, text)
            if _is_short(text) and holding.has_room(template):
                holding.keep_template(text, template)
                self.changed = True
            elif _exclusive(scheme):
                return tag(holding.sid, text)
        if scheme == "file" and not holding.shares_files:
            return tag(holding.sid, text)
        return tag(holding.sid, text) if _hides_ui(holding, scheme, text) else text

    def _contested(self, upstream: str, holding: _UpstreamClaims, template: Template) -> bool:
        """True if `template` may expand to a URI of another upstream."""
        if not template.scheme:  # it could expand to anything
            return True
        if not _exclusive(template.scheme):
            return False
        others = [other for other in self._holdings.values() if other is not holding]
        return any(
            (template.scheme in other.groups and other.groups[template.scheme].overlaps(template.prefix))
            or (template.scheme in other.schemes and other.any_under(template.prefix))
            for other in others
        )

    def _keep(self, upstream: str, holding: _UpstreamClaims, uri: str, kept: dict[str, None]) -> None:
        """Remember an exact URI in `kept`, forgetting the one shown longest ago if there are too many."""
        if uri in holding.listed:
            return
        if uri in holding.recent:
            del holding.recent[uri]  # to come last again
        else:
            self.changed, holding.ordered = True, None
        kept[uri] = None
        while len(holding.recent) > MAX_CLAIMS:
            oldest = next(iter(holding.recent))
            del holding.recent[oldest]
            self._owners.pop(oldest, None)
            self.releases += 1

    def _note_scheme(self, holding: _UpstreamClaims, scheme: str) -> None:
        if scheme not in holding.schemes and len(holding.schemes) < MAX_SCHEMES:
            holding.schemes.add(scheme)
            self.changed = True

    # --- resolving ---

    def owner(self, uri: str) -> str | None:
        """The upstream that owns `uri`: by exact claim, else by a claimed template that may expand to it. No two
        upstreams hold templates whose literal prefixes overlap, so the first that matches is the only one."""
        owner = self._owners.get(uri)
        scheme = scheme_of(uri)
        if owner is None and _exclusive(scheme):
            for upstream, holding in self._holdings.items():
                if holding.groups and holding.has_template_of(uri, scheme):
                    return upstream
        return owner

    def untag(self, upstream: str, text: str) -> str:
        """`text` without the tag of `upstream`; `text` itself if it has none or another's."""
        match = untag(text, self._known)
        return match[1] if match is not None and match[0] == upstream else text

    def resolve(self, uri: str) -> list[tuple[str, str]]:
        """The upstreams that answer for `uri`, with their own form of it, best first. Several only where several share
        it (`file`, `http`): the next is asked when one does not have it."""
        if (match := untag(uri, self._known)) is not None:
            return [match]
        if (owner := self.owner(uri)) is not None:
            return [(owner, uri)]
        scheme = scheme_of(uri)
        emitters = [(name, its) for name, its in self._holdings.items() if scheme in its.schemes]
        if scheme == "file":
            emitters = [(name, its) for name, its in emitters if its.shares_files]
        exact = [name for name, its in emitters if uri in its.listed or uri in its.recent]
        offering = [name for name, its in emitters if name not in exact and its.has_template_of(uri, scheme)]
        names = [*exact, *offering]
        if scheme == "ui":
            # Only a bare upstream's are ever emitted so; for all others this helps views that know no tags.
            bare = [name for name, its in emitters if its.bare]
            names = [name for name in names if name in bare] or names or bare
            return [(names[0], uri)] if len(names) == 1 else []
        if not names and (scheme == "file" or len(emitters) == 1):
            names = [name for name, _ in emitters[:1]]
        return [(name, uri) for name in names]


def _is_short(template: str) -> bool:
    """True if a template costs so little to match that it may be remembered."""
    return len(template) <= MAX_CLAIMED_CHARS and template.count("{") <= MAX_EXPRESSIONS


def _exclusive(scheme: str) -> bool:
    """True if a URI of this scheme belongs to one upstream only."""
    return scheme not in ("ui", "http", "https", "file")


def _hides_ui(holding: _UpstreamClaims, scheme: str, uri: str) -> bool:
    return scheme == "ui" and (not holding.bare or looks_ui_tagged(uri))
