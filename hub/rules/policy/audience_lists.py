"""Lists of an audience: the catalogue of a view as callers are shown it whom no rule tells apart. Pure.

What is denied is not there, so it is answered as an unknown name by whatever looks it up, and takes as long. What a
person is asked about says so. Conditions on arguments hide nothing but what is denied anyway.
"""

from functools import partial
from typing import TYPE_CHECKING

from msgspec import structs

from hub.catalog.catalog import Catalog
from hub.catalog.endpoint_views import View
from hub.catalog.upstream_entries import Route, VisibleEntry
from hub.rules.policy.judge import Judge
from hub.rules.policy.verdict import Effect
from hub.wire.mcp import Kind

if TYPE_CHECKING:  # few hubs have one
    from hub.catalog.pipelines.pipeline_tools import AnyPipeline


def permit(judge: Judge, catalog: Catalog, view: View) -> Catalog:
    """The part of `catalog` that the audience of `view` is shown; nothing, if rules do not know that audience."""
    if judge.book is None:  # it is of a request that came when there were rules
        return catalog.select(view, lambda upstream, kind, entry: entry, lambda route: True, lambda pipeline: False)
    if judge.audiences.find(view.audience) is None:
        return catalog.select(view, lambda upstream, kind, entry: None, lambda route: False, lambda pipeline: None)
    about = judge, view.audience
    return catalog.select(view, partial(_choose, *about), partial(_permits, *about), partial(_asks_about, *about))


def _choose(judge: Judge, audience: str, upstream: str, kind: Kind, entry: VisibleEntry) -> VisibleEntry | None:
    judged = judge.judge_thing(audience, upstream, kind, entry.original)
    if judged.is_hidden:
        return None
    asks = judged.verdict.effect is Effect.ASK and not judged.is_open
    return structs.replace(entry, asks=True) if asks else entry


def _asks_about(judge: Judge, audience: str, pipeline: "AnyPipeline") -> bool | None:
    """A pipeline is denied if any of its steps is, since it could never be carried out."""
    found = judge.judge_pipeline(audience, pipeline)
    if any(judged.is_hidden for judged in found):
        return None
    return any(judged.verdict.effect is Effect.ASK and not judged.is_open for judged in found)


def _permits(judge: Judge, audience: str, route: Route) -> bool:
    if judge.book is None or judge.audiences.find(audience) is None:
        return judge.book is None  # other rules have come, and other catalogues are about to
    return not judge.judge_thing(audience, route.upstream, Kind.RESOURCE, route.original).is_hidden
