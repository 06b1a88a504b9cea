"""Visible names: what hosts call the tools and prompts of many upstreams behind one endpoint. Pure.

`visible_name` is a function of (kind, server id, name, budget) alone, so adding a tool never renames another. The way
back is the catalogue's table, never parsing.

The configuration may give other names and descriptions to the tools of one upstream. A new name stands in place of the
own one, behind the prefix of the upstream. Where another tool has it, be it one that comes later, that tool keeps it:
the rename counts for nothing, until the name is free again.
"""

import re
from collections import deque
from collections.abc import Mapping, Sequence
from hashlib import sha256
from itertools import starmap
from typing import Final, Literal

from msgspec import Struct

from config.name_globs import ALL
from config.profile_settings import Pipeline, Profile
from config.server_names import MAX_ID, SERVER_ID
from config.settings import HubConfig, UpstreamConfig
from hub.catalog.endpoint_views import home_of
from hub.catalog.sign_in_tool import SignInTool
from hub.wire.mcp import Kind

NameKind = Literal["tool", "prompt"]

BUDGET: Final = 50
"""Characters of a visible name, unless the configuration says otherwise."""
ROOM: Final = 18
"""Characters that a server id leaves of the budget: for `__`, seven of a name, and `_` with its hash."""

_HASHED = re.compile(r"_[0-9a-f]{8}$")
_UNCLEAN = re.compile(r"[^A-Za-z0-9_-]")
_NAME_ID = re.compile(rf"[A-Za-z][A-Za-z0-9_-]{{0,{MAX_ID - 1}}}")


def visible_name(kind: NameKind, sid: str, raw: str, budget: int = BUDGET, *, digits: int = 8) -> str:
    """The name that hosts use for `raw` of server `sid`: `<sid>__<raw>`, or `<sid>__<stem>_<hash>` if that will not do.

    At most `budget` characters, for budgets that leave room for id and hash. `digits` 16 is for two changed names of
    one server that meet in 8.
    """
    clean = _UNCLEAN.sub("_", raw)
    plain = f"{sid}__{clean}"
    if raw and clean == raw and len(plain) <= budget and not _HASHED.search(raw):
        return plain
    seed = b"\0".join((b"hub-name/1", kind.encode(), sid.encode(), raw.encode()))
    digits = max(8, min(digits, budget - len(sid) - 4))
    room = max(0, budget - len(sid) - 3 - digits)
    stem = clean[:room].rstrip("_-") or "x"
    return f"{sid}__{stem}_{sha256(seed).hexdigest()[:digits]}"


def server_id(name: str) -> str:
    """`name` itself if it may stand in a URI scheme, else an id made of it: lower case, dashes, four digits of hash."""
    if len(name) <= MAX_ID and SERVER_ID.fullmatch(name):
        return name
    words = re.sub(r"[^a-z0-9]+", "-", name.lower())[:11].strip("-")
    stem = words if words[:1].isalpha() else f"s{words}"
    return f"{stem}-{sha256(name.encode()).hexdigest()[:4]}"


def name_id(name: str, budget: int = BUDGET) -> str:
    """The server id in visible names: `name` itself if hosts accept it there, else `server_id(name)`. One that leaves
    too little of the budget is cut, and ends with eight digits of a hash of the whole."""
    id = name if _NAME_ID.fullmatch(name) else server_id(name)
    if len(id) <= budget - ROOM:
        return id
    digest = sha256(b"hub-id/1\0" + id.encode()).hexdigest()[:8]
    return f"{id[: budget - ROOM - 9].rstrip('-')}-{digest}"


def join_some(texts: Sequence[str], most: int, count: int | None = None) -> str:
    """The first few of `texts`, and how many more of all `count` there are."""
    more = (len(texts) if count is None else count) - most
    return ", ".join(texts[:most]) + (f" and {more} more" if more > 0 else "")


def quote_some(names: Sequence[str]) -> str:
    """The first few of `names`, which an upstream chose, fit for a log."""
    return join_some([repr(name[:60]) for name in names[:3]], 3, len(names))


MAX_TOLD: Final = 8
"""Renames that cannot be, of which sentences tell."""
MAX_QUOTED: Final = 60
"""Characters of a name in these."""


def rename(
    names: Sequence[str], originals: Sequence[str], wanted: Mapping[str, str], budget: int
) -> tuple[list[str], list[str]]:
    """The visible names of tools, some of them renamed, and sentences about renames that cannot be.

    `names` are those that they have by themselves, of the tools that their upstream calls `originals`; `wanted`: the
    visible name of each own name that is to have another one.
    """
    here = dict(zip(originals, names, strict=True))
    active = {own: new for own, new in wanted.items() if own in here and len(new) <= budget}
    refused = [
        f"{own[:MAX_QUOTED]!r} keeps its name, since {new[:MAX_QUOTED]!r} is longer than {budget} characters "
        "(name_budget)"
        for own, new in wanted.items()
        if own in here and len(new) > budget
    ]
    by_new = {new: own for own, new in active.items()}
    kept = {name for own, name in here.items() if own not in active}
    failing = deque(own for own, new in active.items() if new in kept)
    while failing:
        own = failing.popleft()
        if (new := active.pop(own, None)) is None:
            continue
        refused.append(f"{own[:MAX_QUOTED]!r} keeps its name, since another tool is called {new!r}")
        if (other := by_new.get(here[own])) is not None:  # it was to have the name that this one keeps
            failing.append(other)
    more = [f"{len(refused) - MAX_TOLD} more tools keep their names"] if len(refused) > MAX_TOLD else []
    return [active.get(own, name) for own, name in here.items()], refused[:MAX_TOLD] + more


class UpstreamRule(Struct, frozen=True):
    """Naming rule of one upstream, from the configuration."""

    name: str
    prefix: str | None = None
    """The server id in visible names. None: `name`; "": names and URIs appear as they are."""
    aliases: tuple[str, ...] = ()
    """Former names, by which hosts may still ask."""
    apps: bool = False
    """True if its user interfaces are shown on the common endpoint."""
    tools: tuple[str, ...] = ALL
    """Globs over its own names of tools; others do not exist for hosts."""
    rename: tuple[tuple[str, str], ...] = ()
    """Own names of tools, and those that hosts see in their place behind the prefix."""
    describe: tuple[tuple[str, str], ...] = ()
    """Own names of tools, and their descriptions in place of the upstream's."""
    trusted: bool = False
    """Its tools are believed when they say that they only read."""
    hints: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """What the user says of its tools, by globs over its own names of them (`hub.catalog.tool_annotations`)."""
    held: frozenset[tuple[Kind | None, str]] = frozenset()
    """What is not listed, by its own names, though it keeps its visible ones: calls of it are refused."""
    accounts: tuple[str, ...] = ()
    """Several accounts there, by the names that people gave them."""
    account: str = ""
    """The one of these that serves, whatever hosts say; "": hosts choose."""
    account_by: str = "the configuration"
    """Who has chosen it."""
    cuts_results: bool = False
    """Results of its tools may be cut, so that these promise no structured ones."""
    sign_in: SignInTool = SignInTool.NONE
    """The tool that has a person sign in there."""
    taken: tuple[str, ...] = ()
    """Of one with bare names, how the names of others begin: rules take what is called so for theirs."""

    def sid(self, budget: int) -> str:
        """The server id in visible names of so many characters."""
        return name_id(self.prefix or self.name, budget)


class Rules(Struct, frozen=True):
    """Naming rules of a configuration, upstreams in its order."""

    upstreams: tuple[UpstreamRule, ...]
    left_out: tuple[UpstreamRule, ...] = ()
    """Rules of upstreams that cannot be started yet, since a reference of theirs leads nowhere."""
    budget: int = 50
    """Characters of a visible name."""
    page_size: int = 0
    """Entries per page of a list; 0: all in one page."""
    profiles: Mapping[str, Profile] = {}
    """The part of all servers that some hosts are shown, by the name of the profile."""
    pipelines: Mapping[str, Pipeline] = {}
    """Tools of the hub's own that call others, by name."""
    pipeline_s: float = 0.0
    """Time for all steps of a pipeline together."""


def rule_of(name: str, config: UpstreamConfig) -> UpstreamRule:
    """The naming rule of a server that runs as `name`, be it of a project or of the user."""
    prefix = home_of(name)[0] if config.prefix is None else config.prefix
    return UpstreamRule(
        name=name,
        prefix=prefix,
        aliases=config.aliases,
        apps=config.apps,
        tools=config.tools,
        trusted=config.trusted,
        cuts_results=config.large_results_bytes > 0,
        rename=tuple(config.rename.items()),
        describe=tuple(config.describe.items()),
        hints=tuple((glob, tuple(words)) for glob, words in config.hints.items()),
        accounts=tuple(config.accounts),
        account=config.account if config.account in config.accounts else "",
    )


def rules_of(config: HubConfig, left_out: Mapping[str, UpstreamConfig] = {}) -> Rules:
    """The naming rules of a configuration, servers in its order; disabled ones too, to keep their URIs."""
    return Rules(
        upstreams=tuple(starmap(rule_of, config.upstreams.items())),
        left_out=tuple(starmap(rule_of, left_out.items())),
        budget=config.name_budget,
        page_size=config.page_size,
        profiles=config.profiles,
        pipelines=config.pipelines,
        pipeline_s=config.defaults.timeouts.call_total,
    )
