"""What reaches an upstream has an intent: who may use the doors of upstreams, of their sessions and of the cache.

Receivers are told apart by how they are written: every use of a name that a door has is in a table here, be it a call
or a reference that is called elsewhere. Whatever is new in the first table goes round the stages of operations.
"""

import ast
from collections.abc import Iterator

import pytest

from tests.guard.test_ownership import MODULES, ROOT, parse

DOORS = {"call", "begin", "call_over", "begin_over", "subscribe", "adopt", "peek"}
"""Methods of upstreams, of their sessions and calls, of subscriptions, and of the cache."""
FUNCTIONS = {"call_upstream", "find_cached", "go_through"}
"""What leads to a door without a stage before it."""
WITH_INTENT = {
    "hub/routing/run_chain.py": {"intent.target.upstream.begin", "intent.target.upstream.call"},
    "hub/routing/make_intents.py": {"intent.target.upstream.subscribe", "call_upstream", "go_through"},
    "hub/routing/pipelines/judge_whole.py": {"go_through"},
    "hub/routing/compose_chains.py": {"self._reads.call", "find_cached"},
    "hub/routing/cached_copies_for_hosts.py": {"reads.peek"},
}
"""Uses of doors that have an intent at hand."""
ON_THE_WAY = {
    "hub/calls/chain.py": {"self._steps[self._at].stage.call", "go_through"},
    "hub/routing/run_chain.py": {"chain.eras.call", "go_through", "call_upstream"},
    "hub/routing/router.py": {"passage.begin", "self._subscriptions.subscribe"},
    "hub/routing/change_listeners.py": {"self._doors.subscribe"},
    "hub/bridge/era_bridge.py": {"crossing.call", "self.parking.begin"},
    "hub/bridge/questions_in_results.py": {"crossing.call", "self.call"},
    "hub/bridge/tasks/client.py": {"self.call"},
    "hub/bridge/tasks/task_bridge.py": {"crossing.call"},
    "cache/fetch.py": {"flight.call"},
    "hub/downstream/request_pipeline.py": {"router.begin", "host.begin"},
    "hub/downstream/taskless_request.py": {"self.call"},
}
"""Parts of the way of an intent, which are handed the next one (`Next`, `Call`), and its beginning."""
OTHERS = {
    "cache/redis/coherence_link.py": {"connection.subscribe"},
    "hub/cli/service.py": {"systemd_units.call"},
    "hub/cli/setup/start_hub.py": {"systemd_units.call"},
    "hub/daemon/sign_in_requests.py": {"self._parts.sign_ins.begin"},
    "hub/routing/compose_chains.py": {"self._usage.begin"},
}
"""Methods of such a name that are no doors."""
ABOVE = [path for path in MODULES if path.relative_to(ROOT).parts[0] != "upstreams"]
"""All modules but those behind the seam."""


def uses(tree: ast.Module) -> Iterator[str]:
    """Uses of names of doors, as they are written."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
            if node.attr in DOORS or (node.attr == "request" and _is_session(node.value)):
                yield ast.unparse(node)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in FUNCTIONS:
            yield node.id
        elif isinstance(node, ast.Constant) and node.value in FUNCTIONS:
            yield str(node.value)


def _is_session(node: ast.expr) -> bool:
    """True if a session is written so: that of `ManagedUpstream.session_for`, for one."""
    return isinstance(node, ast.Attribute) and node.attr == "session"


def test_nothing_reaches_an_upstream_without_an_intent() -> None:
    found = {str(path.relative_to(ROOT)): set(uses(parse(path))) for path in ABOVE}
    known = {
        name: WITH_INTENT.get(name, set()) | ON_THE_WAY.get(name, set()) | OTHERS.get(name, set()) for name in found
    }
    strangers = {name: new for name, each in found.items() if (new := each - known[name])}
    assert strangers == {}, "these go round the stages: make an intent (hub.routing.make_intents)"
    gone = {name: old for name, each in known.items() if (old := each - found[name])}
    assert gone == {}, "the tables of this test name what is not there any more"


@pytest.mark.parametrize(
    "line",
    [
        "await self._live.upstreams[name].call(operation, exchange)",
        "work = partial(upstream.begin, operation, exchange, done)",
        "await upstream.session_for(caller).session.request(method, params)",
        "hit = self._cache.peek(upstream, uri, caller)",
        "await call_upstream(intent)",
        "refusal = await upstream.subscribe(uri, subscriber)",
    ],
)
def test_a_new_way_round_is_found(line: str) -> None:
    assert list(uses(ast.parse(f"async def new(self):\n    {line}\n")))


def test_upstreams_pass_on_to_themselves_only() -> None:
    """Behind the seam an upstream asks its own sessions, its calls, and its successor."""
    found = {
        f"{path.relative_to(ROOT)}: {use}"
        for path in MODULES
        if path not in ABOVE and path.parts[len(ROOT.parts) + 1] not in ("transports", "oauth", "demo")
        for use in uses(parse(path))
    }
    assert found == {
        "upstreams/subscriptions_across_sessions.py: pooled.subscriptions.adopt",
        "upstreams/subscriptions_across_sessions.py: pooled.subscriptions.subscribe",
        "upstreams/inventory/refresh.py: state.begin",
        "upstreams/sessions/calls.py: config.timeouts.call",
        "upstreams/sessions/calls.py: pooled.session.begin",
        "upstreams/sessions/calls.py: pooled.session.call",
        "upstreams/sessions/calls.py: self.begin_over",
        "upstreams/sessions/pooled_session.py: start.begin",
        "upstreams/upstream.py: self.calls.begin_over",
        "upstreams/upstream.py: self.calls.call_over",
        "upstreams/upstream.py: self.host_subscriptions.subscribe",
        "upstreams/upstream.py: self.selector.peek",
        "upstreams/upstream.py: self.successor.call",
        "upstreams/upstream.py: self.successor.subscribe",
        "upstreams/upstream.py: subscriber.calls.call_over",
    }
