"""Cached copies of resources, in the form that a host sees.

A hit is answered from a form that was made before for such a host: its revision, the spelling it asked with, its
catalogue. Only the time for which the copy is good is put in anew. Permission is not checked here: the caller has
resolved the URI in the host's own view.
"""

from weakref import ref

import trio
from msgspec import Raw, Struct

from cache.cache_entry import HARMLESS, scope, ttl_ms
from cache.memory import CachedEntry
from cache.resource_cache import ResourceCache
from hub.catalog.catalog import Catalog
from hub.catalog.rewrite_embedded_uris import localise
from hub.link.call_interface import Caller
from hub.wire.jsonrpc import Request, Result, encode, peek_object
from hub.wire.mcp import HOP_KEYS, RESOURCES_READ, Era, era_of
from hub.wire.results_for_hosts import UnknownResultType, result_for_host
from hub.wire.total_item_limit import TooManyItems
from upstreams.upstream import ManagedUpstream

_IGNORED_META_KEYS = HARMLESS | HOP_KEYS


class _Form(Struct, frozen=True):
    """A result as some hosts see it."""

    catalog: ref[Catalog]
    text: Raw
    """For modern hosts, all that follows the members that say how long it is good."""


def find_cached(
    reads: ResourceCache,
    upstream: ManagedUpstream,
    original: str,
    asked: str,
    caller: Caller,
    catalog: Catalog,
    *,
    is_private: bool = False,
) -> Result | None:
    """The cached copy of the resource `original`, which `caller` wrote as `asked`; None: there is none. `is_private`:
    others may not read it."""
    hit = reads.peek(upstream, original, caller)
    if hit is None:
        return None
    key = caller.version, catalog.view, asked
    form = hit.forms.get(key)
    if not isinstance(form, _Form) or form.catalog() is not catalog:
        form = _make(reads, hit, key, caller.version, upstream.name, asked, catalog)
        if form is None:
            return None
    if caller.era is Era.LEGACY:
        return Result(form.text)
    entry = hit.entry
    its_scope = b"private" if is_private else scope(entry).encode()
    head = b'{"ttlMs":%d,"cacheScope":"%b",' % (ttl_ms(entry, trio.current_time()), its_scope)
    return Result(Raw(b"".join((head, form.text))))


def _make(
    reads: ResourceCache, hit: CachedEntry, key: object, version: str, upstream: str, asked: str, catalog: Catalog
) -> _Form | None:
    entry = hit.entry
    try:
        value = result_for_host(
            RESOURCES_READ, entry.value, upstream=upstream, upstream_version=entry.version, host_version=version
        )
        if era_of(version) is Era.MODERN:
            members = peek_object(value)
            del members["ttlMs"], members["cacheScope"]
            text = Raw(bytes(localise(Raw(encode(members)), catalog.emitter(upstream, asked)))[1:])
        else:
            text = localise(value, catalog.emitter(upstream, asked))
    except (UnknownResultType, TooManyItems):
        return None
    form = _Form(ref(catalog), text)
    if key in hit.forms:
        reads.drop_forms(hit)
    reads.keep_form(hit, key, form, 0 if text is entry.value else memoryview(text).nbytes)
    return form


def is_plain(request: Request) -> bool:
    """True if the result of a read depends on nothing but the URI."""
    params = request.params
    if len(params) == 1:
        return "uri" in params
    if params.keys() != {"uri", "_meta"}:
        return False
    return peek_object(params["_meta"]).keys() <= _IGNORED_META_KEYS
