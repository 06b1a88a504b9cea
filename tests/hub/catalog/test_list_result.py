"""Results of list requests, apart from what is in them."""

import json

import pytest
from msgspec import Raw, structs

from hub.catalog.list_result import MAX_TTL_MS, SETTLING_TTL_MS, SIGN_IN_TTL_MS, Cursors, freshness_of, list_result
from hub.catalog.sign_in_tool import SignInTool
from hub.catalog.time_slices import finish
from hub.catalog.upstream_entries import UpstreamEntries
from hub.catalog.uri_claims import UriClaims
from hub.catalog.visible_names import UpstreamRule
from hub.link.sealing import Sealer
from hub.wire.jsonrpc import RemoteProtocolError
from hub.wire.mcp import L4, MODERN, Kind
from hub.wire.upstream_snapshot import Freshness, Snapshot

FRESH = Freshness(5, public=True)


def part(name="a", version=MODERN, *, public=True, rule=None):
    lists, fresh = dict.fromkeys(Kind, ()), dict.fromkeys(Kind, Freshness(public=public))
    claims = UriClaims()
    claims.configure([name], aliases={}, bare=None)
    snapshot = Snapshot(name, version, {"tools": Raw(b"{}")}, {}, "", lists, fresh, True)
    return finish(UpstreamEntries(snapshot, rule or UpstreamRule(name), 50, claims).read())


@pytest.mark.parametrize("items", [[], [b""], [b'{"a":1}'], [b"", b"1,2", b"", b"3"]])
@pytest.mark.parametrize("version", [L4, MODERN])
def test_entries_become_one_list_whatever_chunks_they_come_in(items, version):
    found = json.loads(bytes(list_result(Kind.TOOL, version, items, FRESH, behind={}).value))
    assert found["tools"] == json.loads(b"[%b]" % b",".join(filter(None, items)))
    assert "nextCursor" not in found
    assert ("ttlMs" in found) is (version == MODERN)


def test_only_modern_hosts_are_told_how_long_a_list_is_good():
    found = json.loads(bytes(list_result(Kind.PROMPT, MODERN, [], FRESH, behind={}, cursor='c"').value))
    assert (found["ttlMs"], found["cacheScope"], found["nextCursor"]) == (5, "public", 'c"')
    private = json.loads(
        bytes(list_result(Kind.PROMPT, MODERN, [], structs.replace(FRESH, public=False), behind={}).value)
    )
    assert private["cacheScope"] == "private"


def test_a_list_is_good_for_as_long_as_its_least_lasting_part():
    def ttl(*parts, settling=False, of=lambda snapshot, kind: 10**9):
        return freshness_of(parts, Kind.TOOL, of, settling=settling, varies=False).ttl_ms

    assert ttl() == ttl(part()) == MAX_TTL_MS
    assert ttl(part(), settling=True) == SETTLING_TTL_MS
    assert ttl(part(), part("b", rule=UpstreamRule("b", sign_in=SignInTool.LISTED))) == SIGN_IN_TTL_MS
    assert ttl(part(), part("b"), of=lambda snapshot, kind: 7 if snapshot.upstream == "b" else 9) == 7


def test_a_list_is_public_if_all_say_so_and_the_hub_shows_all_the_same():
    def public(*parts, varies=False):
        return freshness_of(parts, Kind.TOOL, lambda snapshot, kind: 1, settling=False, varies=varies).public

    assert public(part(), part("b"))
    assert not public()
    assert not public(part(), part("b"), varies=True)
    assert not public(part(), part("b", public=False))
    assert not public(part(), part("b", version=L4))


def test_a_cursor_is_of_one_list_and_one_principal():
    sealer = Sealer(b"k" * 32)
    mine = Cursors(sealer, Kind.TOOL, "alice", ["a", "b", "c"])
    cursor = mine.cursor(2)
    assert mine.offset(cursor) == 2
    for other in (
        Cursors(sealer, Kind.TOOL, "bob", ["a", "b", "c"]),
        Cursors(sealer, Kind.PROMPT, "alice", ["a", "b", "c"]),
        Cursors(sealer, Kind.TOOL, "alice", ["a", "b"]),
        Cursors(Sealer(b"o" * 32), Kind.TOOL, "alice", ["a", "b", "c"]),
    ):
        with pytest.raises(RemoteProtocolError, match="cursor expired, list again"):
            other.offset(cursor)
