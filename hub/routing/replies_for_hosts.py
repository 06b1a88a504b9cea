"""Replies of upstreams as hosts see them.

Host and upstream use different names and URIs, and perhaps different revisions. On the way there they are exchanged
where an intent is made (`hub.routing.make_intents`), and here on the way back, once, for the revision of the host.
"""

import logging

from hub.bridge.tasks.polled_tasks import Viewer
from hub.calls.chain import Intent, next_ref
from hub.catalog.rewrite_embedded_uris import localise
from hub.link.call_interface import Interim
from hub.link.hub_errors import HubError, UpstreamProtocolError, failure_from
from hub.link.log_context import spell_ref
from hub.routing import own_tools
from hub.routing.live_catalog import LiveCatalog
from hub.wire.errors_for_hosts import failure_for_host
from hub.wire.jsonrpc import Failure, Reply, Request, Result, peek_object, raw
from hub.wire.mcp import COMPLETE, INTERNAL_ERROR, INVALID_PARAMS, METHOD_NOT_FOUND, RESOURCES_READ, TOOLS_CALL, Era
from hub.wire.modern_metadata import read_number
from hub.wire.results_for_hosts import UnknownResultType, make_plain_modern, make_private, result_for_host
from hub.wire.total_item_limit import TooManyItems, data_of

log = logging.getLogger("hubd.host")
NO_COMPLETION = Result(raw({"completion": {"values": [], "total": 0, "hasMore": False}}))


class HostReplies:
    """Writes replies for hosts, in the names of what they are shown by `live`."""

    def __init__(self, live: LiveCatalog) -> None:
        self._live = live

    def of_intent(self, intent: Intent, reply: Reply) -> Reply:
        """The reply of the upstream to `intent`, for its host: the way back of each chain."""
        target, host = intent.target, intent.host
        upstream, method = target.upstream, intent.request.method
        if isinstance(reply, Result) and reply.is_plain and method == TOOLS_CALL and not intent.meta_call:
            if host.caller.era is Era.LEGACY:
                return reply
            if (plain := make_plain_modern(reply.value, upstream.name)) is not None:
                return Result(plain, is_plain=True, says_error=reply.says_error)
        if isinstance(reply, Failure):
            if method == COMPLETE and _knows_no_completion(reply):
                reply = NO_COMPLETION
            elif target.kind is not None and method != COMPLETE and reply.code in (INVALID_PARAMS, METHOD_NOT_FOUND):
                text = reply.message.lower()
                if "unknown" in text or "not found" in text:  # it has listed that, so its list must be out of date
                    upstream.mark_stale((target.kind,))
        asked = target.exposed if method == RESOURCES_READ else None
        found = self.of_upstream(reply, method, upstream.name, upstream.snapshot.version, host, asked, intent)
        if asked is not None and self._live.judge.tells_readers_apart:
            found = make_private(found)
        return found if not intent.meta_call else self._of_meta_call(intent, found)

    def _of_meta_call(self, intent: Intent, reply: Reply) -> Reply:
        name = intent.meta_call
        found = own_tools.explain(reply, name, intent.target.route, self._live.of(intent.host.view))
        return own_tools.mark(self.of_hub(found, intent.host) if found is not reply else reply, name)

    def of_hub(self, reply: Reply, viewer: Viewer, method: str = TOOLS_CALL) -> Reply:
        """A reply of the hub's own, as the host of `viewer` may see it."""
        return self.of_upstream(reply, method, "", "", viewer)

    def of_upstream(
        self,
        reply: Reply,
        method: str,
        upstream: str,
        version: str,
        viewer: Viewer,
        asked: str | None = None,
        intent: Intent | None = None,
    ) -> Reply:
        """`reply` as the host of `viewer` may see it: in its revision, with the names and URIs of its view.

        `upstream`, "" for the hub's own replies, speaks the revision `version`; `asked` is the URI as the host writes
        it; `intent` is what it answers, if that is one.
        """
        host = viewer.caller.version
        if isinstance(reply, Interim):
            return reply
        if isinstance(reply, Failure):
            return failure_for_host(
                reply,
                method,
                upstream=upstream,
                upstream_version=version,
                host_version=host,
                uri=asked,
                host_capabilities=viewer.caller.capabilities,
            )
        try:
            value = result_for_host(method, reply.value, upstream=upstream, upstream_version=version, host_version=host)
            if upstream:
                value = localise(value, self._live.of(viewer.view).emitter(upstream, asked))
        except (UnknownResultType, TooManyItems) as error:
            ref = "" if intent is None else spell_ref(intent.ref)
            return self.of_error(UpstreamProtocolError(str(error), upstream=upstream), method, viewer, ref)
        return Result(value, says_error=reply.says_error)

    def of_refusal(self, error: HubError, intent: Intent) -> Reply:
        """The answer to an intent that a stage refuses by `error`."""
        reply = self.of_error(error, intent.request.method, intent.host, spell_ref(intent.ref))
        return own_tools.mark(reply, intent.meta_call) if intent.meta_call else reply

    def of_error(self, error: HubError, method: str, viewer: Viewer, ref: str = "") -> Reply:
        """The answer to a request that failed by `error`; `ref` as in `failure_from`."""
        return self.of_hub(failure_from(error, method, ref), viewer, method)


def _knows_no_completion(failure: Failure) -> bool:
    """True if an upstream refuses a completion since it has none."""
    if failure.code not in (METHOD_NOT_FOUND, INTERNAL_ERROR):
        return False
    original = peek_object(data_of(failure).get("upstream")).get("code")  # where the hub gives another code
    return METHOD_NOT_FOUND in (failure.code, read_number(original))


def report_bug(request: Request, error: Exception, ref: str = "") -> Failure:
    """The answer to a request at which the hub's own code failed: its `ref`, or another number, under which the log
    has the rest."""
    ref = ref or spell_ref(next_ref())
    log.error("cannot answer %s (ref %s)", request.method, ref, exc_info=error, extra={"ref": ref})
    data = raw({"ref": ref, "executed": "unknown", "retryable": False})
    return Failure(INTERNAL_ERROR, f"The hub failed to answer this request; its log says why at {ref}", data)
