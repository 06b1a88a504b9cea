"""The table of control methods, what implements it, and the members that programs read from `--json`."""

import typing

import msgspec
import pytest

from cache.statistics import CacheStatistics
from hub.control.answers import Logs, ReplicaStatus, Status
from hub.control.methods import ENDLESS, METHODS, read
from hub.daemon.api import DaemonApi
from hub.daemon.dashboard.lazy_dashboard import Dashboard
from hub.daemon.decision_requests import DecisionRequests
from hub.daemon.live.calls_and_overview import LiveRequests
from hub.daemon.metrics.page import MetricsPage
from hub.daemon.sign_in_requests import SignInRequests

SENT_AS_THEY_CAME = {"tools": list[msgspec.Raw]}
"""JSON of servers, which the hub does not read."""


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
def test_the_api_has_every_method_as_the_table_says(method):
    apis = DaemonApi, SignInRequests, DecisionRequests, LiveRequests, MetricsPage, Dashboard
    (function,) = (getattr(api, method.name) for api in apis if hasattr(api, method.name))
    returned = typing.get_type_hints(function)["return"]
    if method.name in ENDLESS:
        assert typing.get_args(returned) == (method.result, None)
    elif returned is not type(None):
        assert returned == SENT_AS_THEY_CAME.get(method.name, method.result)


MEMBERS = {
    "status": "version uptime_s settled upstreams hosts projects cache buffer warnings idle_rules listen config root"
    " loop faults replica instructions_tokens profiles pipelines all_tools all_tokens audit calls requests",
    "audit": "records head lost problem required removed short log",
    "upstreams": "since_s last_error last_error_ago_s last_exit restarts next_attempt_s ends_lately crash_loop name"
    " label state installing installing_s queued era"
    " version transport pid counts failures health silent_s in_flight degraded sessions mode unattributed"
    " beyond_budget withheld_roots sandbox settling parked stale_config tokens largest connected_ago_s account"
    " serves limits pins unchecked changed slow failing",
    "sandbox": "preset why blamed path wants",
    "pins": "name pinning state approved approved_at changes hidden left_out flags problem item",
    "changes": "item change held words hints parameters only_form",
    "words": "where old new",
    "policy": "ruled rows notes failures",
    "rows": "kind name server effect by_arguments rule",
    "explain_policy": "row rules facts",
    "row": "kind name server effect by_arguments rule",
    "requests": "id host name server rule principal arguments age_s left_s waiting decision",
    "approval_show": "id text arguments offers",
    "approval_give": "id host name lasts waiting",
    "approval_deny": "id host name lasts waiting",
    "limits": "running waiting",
    "account": "state issuer expires_s renewable note command",
    "last_exit": "how code signal ago_s said",
    "hosts": "host label principal transport version endpoint attached_s idle_s in_flight asked listening tools tokens"
    " profile search",
    "largest": "name tokens",
    "projects": "root endpoint hosts",
    "buffer": "used limit highest refused evicted",
    "listen": "url socket wanted also squatted",
    "config": "files watched loaded_at problem problems pending warnings",
    "loop": "blocked longest_s",
    "replica": "name run url registered peers looking",
    "peers": "name run url",
    "cache": "enabled entries bytes max_entries max_bytes counts evicted invalidations oldest_s newest_s flights"
    " upstreams store",
    "store": "state since_s reason dropped altered late bypasses hubs",
    "reload": "changed summary added removed upstreams settings pending problem warnings restart",
    "environment": "variables withheld",
    "variables": "name value source file line",
    "withheld": "name reason",
    "records": "at kind text pid name level ref about",
    "sign_in": "unusual wants_token issuer scope server_url url authorization_url code port expires_s outcome",
    "outcome": "upstream principal state text issuer scope until renewable",
    "sign_in_finish": "upstream principal state text issuer scope until renewable",
    "sign_in_trials": "trials",
    "trials": "upstream problem is_passing wants_token",
    "sign_in_status": "accounts",
    "sign_out": "accounts",
    "attached": "host label principal transport version endpoint attached_s idle_s in_flight asked listening tools"
    " tokens profile search calls cost",
    "watch": "version principal at uptime_s settled url totals seconds limits servers hosts running warnings"
    " loop_longest_s projects inbox questions reload costs",
    "costs": "host server calls tokens cost",
    "totals": "calls failed lately rate failed_ratio p50_s p95_s p99_s busy cost tools tokens",
    "seconds": "end calls failed",
    "servers": "calls failed lately rate failed_ratio p50_s p95_s p99_s busy cost name label state word why health"
    " tools tokens slow waiting last_error since_s era version transport mode pid changed spark",
    "last_error": "error_type name ref ago_s",
    "running": "ref host upstream name method for_s",
    "ticket": "url page expires_s session_s printed is_blind",
    "tool_use": "tools since today days",
    "profiles": "name hosts tools tokens search warnings",
    "pipelines": "name steps problem doubts",
    "steps": "id tool server",
    "tools": "name server tool tokens bytes calls last",
}
"""In the order in which they are printed. Programs read them: a name is not changed."""


def structs_in(kind):
    """The structs that a type is made of."""
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        yield kind
    for part in typing.get_args(kind):
        yield from structs_in(part)


def members(kind, name, found):
    found.setdefault(name, set()).add(" ".join(kind.__struct_fields__))
    for member, hint in typing.get_type_hints(kind).items():
        for part in structs_in(hint):
            members(part, member, found)
    return found


def test_members_of_json_keep_their_names():
    found = {}
    for method in METHODS.values():
        for kind in structs_in(method.result):
            members(kind, method.name, found)
    assert found.pop("counts") == {
        "tools prompts resources templates",
        "hits misses found coalesced stale stored refused",
    }
    assert found.pop("upstreams") == {MEMBERS["upstreams"], "name entries bytes counts"}
    assert found.pop("accounts") == {
        "upstream principal account state issuer expires_s renewable scope note key_source",
        "upstream principal was_signed_in revoked why_not forgot_client",
    }
    assert found.pop("approvals") == {"requests approvals", "id host name server rule principal lasts left_s"}
    assert found.pop("logs") == {"records lost"}
    assert found.pop("hosts") == {MEMBERS["hosts"], MEMBERS["attached"]}
    assert found.pop("calls") == {
        "calls running lost kept records",
        "ref at took_s waited_s first_answer_s method upstream name own host principal outcome failed executed sent"
        " size tokens cached"
        " transport cost arguments result",
        "calls failed lately rate failed_ratio p50_s p95_s p99_s busy cost",
    }
    assert found.pop("cache_clear") == {"cleared"}
    assert {found.pop(name) == {""} for name in ("restart", "stop", "read_tokens", "demand_person", "end_pages")} == {
        True
    }
    assert found.pop("limits") == {
        "running waiting",
        "failed_ratio start_failed_ratio session_s p95_remote_s p95_local_s",
    }
    assert found.pop("reload") == {MEMBERS["reload"], "loaded_at problem"}
    apart = {"upstreams", "hosts", "attached", "limits", "reload"}
    assert found == {name: {text} for name, text in MEMBERS.items() if name not in apart}


def test_parts_that_a_hub_does_not_have_are_not_printed():
    bare = msgspec.to_builtins(Status())
    assert {"cache", "buffer", "listen", "loop", "replica"} & bare.keys() == set()
    whole = msgspec.to_builtins(Status(cache=CacheStatistics(), replica=ReplicaStatus()))
    assert (whole["cache"]["store"], whole["replica"]["peers"]) == (None, ())


def test_null_is_as_missing_and_what_is_new_passes():
    assert read(METHODS["logs"], {"records": [{"at": None, "new": 1}], "lost": None}).records[0].at == 0
    assert read(METHODS["tools"], [{"title": None}]) == [{"title": None}], "what servers say stays as it is"
    with pytest.raises(msgspec.ValidationError):
        read(METHODS["logs"], {})
    assert isinstance(read(METHODS["logs"], {"records": []}), Logs)
