"""Tools that the steps of pipelines call, as far as the lists of servers tell: which are there, why another is not, and
what a step gives its tool that it has no argument for. Pure.

Names and schemas are a stranger's: few of them are looked at and told.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from difflib import get_close_matches
from itertools import islice
from typing import Final

from msgspec import Raw, Struct

from config.profile_settings import Pipeline, PipelineStep
from hub.catalog.search.index import near_names
from hub.catalog.upstream_entries import Route, UpstreamEntries, VisibleEntry
from hub.catalog.visible_names import Rules, UpstreamRule, name_id
from hub.wire.jsonrpc import peek_array, peek_object, peek_str, raw
from hub.wire.mcp import Kind

MAX_COMPARED: Final = 300
"""Names that one is compared with."""
MAX_QUOTED: Final = 60
"""Characters of each that is told."""
_OPEN: Final = frozenset({"$ref", "$dynamicRef", "allOf", "anyOf", "oneOf", "if", "patternProperties", "propertyNames"})
"""Keywords of a schema that allow arguments which it does not name."""
_FALSE: Final = raw(False)


class StepTool(Struct, frozen=True):
    """The tool of a step."""

    entry: VisibleEntry
    route: Route


class StepFlaw(Struct, frozen=True):
    """The reason why a step cannot be carried out, or a doubt about it."""

    step: str
    """As `name_step` has it."""
    text: str
    """A clause."""
    near: tuple[str, ...] = ()
    """The names that are probably meant."""
    is_of_nobody: bool = False
    """No server can have such a tool."""

    def tell(self, near: Iterable[str] | None = None) -> str:
        """The flaw in one clause; `near`: those of the names that may be told."""
        names = list(self.near if near is None else near)
        return f"{self.step}: {self.text}" + (f"; did you mean {' or '.join(names)}?" if names else "")


def name_step(pipeline: Pipeline, at: int) -> str:
    """A step as people and models are told of it."""
    steps = pipeline.steps
    return f"step {at + 1} of {len(steps)} ({steps[at].id}: {steps[at].tool})"


class ToolsOfSteps:
    """The tools that steps may call. `route` leads from a visible name to its owner; `heard`: servers whose tools are
    known."""

    def __init__(
        self,
        rules: Rules,
        parts: Sequence[UpstreamEntries],
        route: Callable[[str], Route | None],
        heard: Collection[str],
    ) -> None:
        self._parts = {part.name: part for part in parts}
        self._route = route
        self._heard = heard
        self._held = {each.visible for part in parts for each in part.held.get(Kind.TOOL, ())}
        self._left_out = {rule.name for rule in rules.left_out}
        self._owners: dict[str, str] = {}
        """By the beginning of the names of its tools, each server."""
        self._bare = ""
        for rule in (*rules.upstreams, *rules.left_out):
            if rule.prefix == "":
                self._bare = rule.name
            else:
                self._owners |= dict.fromkeys(_beginnings(rule, rules.budget), rule.name)

    def find(self, visible: str) -> StepTool | None:
        """The tool of this visible name; None: it is not there, or is held back."""
        route = None if visible in self._held else self._route(visible)
        part = None if route is None or route.signs_in else self._parts.get(route.upstream)
        entry = None if part is None or route is None else part.find(Kind.TOOL, route.original)
        return None if entry is None or route is None else StepTool(entry, route)

    def way_to(self, tool: str) -> Route:
        """The way to a tool that is not there, as rules would judge it."""
        id, mark, rest = tool.partition("__")
        if mark and (id in self._owners or not self._bare):
            return Route(self._owners.get(id, id), rest)
        return Route(self._bare, tool)

    def explain_missing(self, pipeline: Pipeline, at: int) -> StepFlaw:
        """The reason why the tool of a step is not there."""
        tool, step = pipeline.steps[at].tool, name_step(pipeline, at)
        id, mark, rest = tool.partition("__")
        owner = self._owners.get(id, self._bare) if mark else self._bare
        if not owner:
            near = get_close_matches(id, list(self._owners), 1) if mark else []
            text = f"no server is called {id}" if mark else "tools are called SERVER__TOOL"
            return StepFlaw(step, text, tuple(f"{each}__{rest}" for each in near), is_of_nobody=True)
        if owner in self._left_out or owner not in self._heard:
            why = "is not started" if owner in self._left_out else "has not said what tools it has"
            return StepFlaw(step, f"its server {owner} {why}, as `hubd status` tells")
        if tool in self._held:
            return StepFlaw(step, f"its tool is held back until the user approves it; see hubd pins {owner}")
        shown = self._parts[owner].shown[Kind.TOOL] if owner in self._parts else ()
        start = f"{id}__" if owner != self._bare else ""
        by_rest = {each.visible.removeprefix(start): each.visible for each in islice(shown, MAX_COMPARED)}
        near = near_names(tool.removeprefix(start), by_rest)
        return StepFlaw(step, f"there is no tool {tool}", tuple(by_rest[each][:MAX_QUOTED] for each in near))


def _beginnings(rule: UpstreamRule, budget: int) -> Iterator[str]:
    yield rule.sid(budget)
    yield from (name_id(alias, budget) for alias in rule.aliases)


def find_misfits(pipeline: Pipeline, at: int, schema: Raw | None) -> Iterator[StepFlaw]:
    """Doubts about the arguments of a step, by the input schema of its tool: one that it does not have, or that it
    requires and is not given."""
    members, step = peek_object(schema), pipeline.steps[at]
    is_open = members.get("additionalProperties", _FALSE) != _FALSE or not _OPEN.isdisjoint(members)
    if "properties" not in members or is_open:
        return
    known, told = peek_object(members["properties"]), name_step(pipeline, at)
    for name in step.args:
        if name not in known:
            near = get_close_matches(name, list(islice(known, MAX_COMPARED)), 1)
            quoted = tuple(_quote(each) for each in near)
            yield StepFlaw(told, f"its tool has no argument {_quote(name)}", quoted)
    yield from (
        StepFlaw(told, f"its tool requires the argument {_quote(name)}, which it is not given")
        for name in _find_required(step, members.get("required"))
    )


def _find_required(step: PipelineStep, required: Raw | None) -> Iterator[str]:
    names = filter(None, map(peek_str, islice(peek_array(required), MAX_COMPARED)))
    return (name for name in names if name not in step.args)


def _quote(name: str) -> str:
    return repr(name[:MAX_QUOTED])
