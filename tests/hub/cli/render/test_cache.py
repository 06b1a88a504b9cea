"""What `hubd cache` shows, and `hubd status` of the cache and of other hubs, to the letter."""

import pytest

from hub.cli.render import cache as terminal
from hub.cli.render import status as status_screen
from hub.cli.render.words import size
from hub.control.methods import CACHE, STATUS, read
from tests.support.terminal import drawn


def status(answer):
    return drawn(*status_screen.status(read(STATUS, answer))).removesuffix("\n")


def cache(answer):
    return drawn(*terminal.cache(read(CACHE, answer))).removesuffix("\n")


def brief(answer):
    return terminal.brief(read(CACHE, answer))


def counts(**others):
    return {"hits": 0, "misses": 0, "found": 0, "coalesced": 0, "stale": 0, "stored": 0, "refused": 0} | others


def facts(**others):
    nothing = {"enabled": True, "entries": 0, "bytes": 0, "max_entries": 10_000, "max_bytes": 64 << 20, "evicted": 0}
    more = {"invalidations": {}, "oldest_s": None, "newest_s": None, "flights": 0, "upstreams": [], "store": None}
    return nothing | more | {"counts": counts()} | others


FULL = facts(
    entries=120,
    bytes=3_565_158,
    counts=counts(hits=1000, misses=100, found=40, coalesced=50, stale=3, stored=110, refused=2),
    evicted=5,
    invalidations={"updated": 12, "lists changed": 3, "cleared": 0},
    oldest_s=18_000.0,
    newest_s=3.2,
    flights=2,
    upstreams=[
        {
            "name": "files",
            "entries": 119,
            "bytes": 3_564_346,
            "counts": counts(hits=1000, misses=99, found=40, coalesced=50, stale=3, stored=109, refused=2),
        },
        {"name": "odd\x1b", "entries": 1, "bytes": 812, "counts": counts(misses=1, stored=1)},
    ],
    store={"state": "connected", "since_s": 7300.0, "reason": "", "dropped": 0, "altered": 0, "hubs": 2},
)


@pytest.mark.covers("SEC-54")
def test_the_whole():
    assert cache(FULL).splitlines() == [
        "120 resources of at most 10000, 3.4 MiB of 64 MiB; the oldest was read 5 h ago, the newest 3 s ago",
        "1150 reads: 87 % hits, 60 fetched, 40 found in the store, 50 shared a fetch in flight; 2 running now",
        "3 answered with a stale copy, 2 too large to keep, 5 evicted to make room",
        "",
        "SERVER   RESOURCES  SIZE     READS  HITS  MISSES  FROM STORE  JOINED  STALE  KEPT  TOO LARGE",
        "files          119  3.4 MiB   1149  1000      99          40      50      3   109          2",
        r"odd\x1b          1  812 B        1     0       1           0       0      0     1          0",
        "",
        "DROPPED BECAUSE  RESOURCES",
        "updated                 12",
        "lists changed            3",
        "",
        "store: connected for 2 h, 2 hubs use it",
    ]


def test_without_a_store():
    none = {"counts": FULL["counts"] | {"found": 0}, "store": None}
    lines = cache(FULL | none).splitlines()
    assert lines[1] == "1150 reads: 87 % hits, 100 fetched, 50 shared a fetch in flight; 2 running now"
    assert lines[4] == "SERVER   RESOURCES  SIZE     READS  HITS  MISSES  JOINED  STALE  KEPT  TOO LARGE"


def test_nothing_yet():
    assert cache(facts()) == "0 resources of at most 10000, 0 B of 64 MiB\nnothing was read yet"
    assert cache(facts(flights=1)).endswith("nothing was read yet; 1 running now")
    off = "the cache is off; `enabled = true` below [cache] in hubd.toml turns it on"
    assert cache(facts(enabled=False)) == off


@pytest.mark.parametrize(
    ("store", "expected"),
    [
        (
            {"state": "away", "since_s": 200.0, "reason": "Connection refused\x1b"},
            [
                r"THE SHARED STORE IS AWAY for 3 min: Connection refused\x1b",
                "  the hub works without it, and retries by itself",
                "  check that it runs, and [cache] in hubd.toml; `hubd doctor` tries it now",
            ],
        ),
        (
            {
                "state": "slow",
                "since_s": 4.0,
                "reason": "5 answers in a row took longer than 50 ms",
                "late": 6,
                "bypasses": 2,
                "dropped": 1,
            },
            [
                "THE SHARED STORE IS SLOW for 4 s: 5 answers in a row took longer than 50 ms",
                "  the hub skips it for some seconds at a time; see what else that server is busy with",
                "  6 answers came too late, and the store was skipped 2 times",
                "  1 result could not be stored",
            ],
        ),
        (
            {"state": "full", "since_s": 9.0, "reason": "OOM command not allowed", "dropped": 1},
            [
                "THE SHARED STORE IS FULL for 9 s: OOM command not allowed",
                "  its values are still read, but nothing new is stored; the hub retries by itself",
                "  give it more memory, or set `maxmemory-policy allkeys-lru`; keep nothing else in it",
                "  1 result could not be stored",
            ],
        ),
        (
            {"state": "read-only", "since_s": 9.0, "reason": "MISCONF it cannot save"},
            [
                "THE SHARED STORE IS READ-ONLY for 9 s: MISCONF it cannot save",
                "  nothing new is stored; see the log of that server (hubs do not need its persistence)",
            ],
        ),
        (
            {"state": "connected", "since_s": 1.0, "dropped": 7, "altered": 2, "hubs": 1},
            [
                "store: connected for 1 s, 1 hub uses it",
                "  7 results could not be stored",
                "  2 values there were not sealed with this hub's key: does another program write there?",
            ],
        ),
    ],
)
def test_the_store(store, expected):
    assert cache(facts(store=store)).splitlines()[3:] == expected


# --- in `hubd status` -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (FULL, "120 resources, 3.4 MiB, 87 % hits"),
        (facts(), "empty"),
        (facts(counts=counts(misses=2)), "empty, 0 % hits"),
        (facts(enabled=False), "off"),
        (facts(entries=1, bytes=5), "1 resource, 5 B"),
        (
            facts(store={"state": "away", "since_s": 9.0, "reason": "it refuses the password"}),
            "empty; THE SHARED STORE IS AWAY for 9 s: it refuses the password (see `hubd cache`)",
        ),
    ],
)
def test_in_brief(data, expected):
    assert brief(data) == expected
    lines = status({"cache": data}).splitlines()
    assert lines[-2:] == ["", f"cache: {expected}"]


@pytest.mark.parametrize(
    ("replica", "expected"),
    [
        (
            {"name": "hub1", "run": "a1", "url": "http://10.0.0.5:8765", "registered": True, "peers": []},
            "hub1 at http://10.0.0.5:8765; no other hub found",
        ),
        (
            {"name": "hub1", "url": "http://h:1", "registered": True, "peers": [], "looking": True},
            "hub1 at http://h:1; looking for other hubs",
        ),
        (
            {"name": "hub1", "url": "http://h:1", "peers": [{"name": "hub3"}, {"name": "", "run": "c4"}]},
            "hub1 at http://h:1; with c4, hub3",
        ),
        (
            {"name": "hub1", "url": "http://h:1", "peers": [{"name": "hub1"}, {"name": "hub2"}]},
            "hub1 at http://h:1; with hub1, hub2; TWO HUBS HAVE THIS NAME (see `hubd doctor`)",
        ),
        ({"name": "", "run": "a1", "url": "", "peers": []}, "a1, which others cannot reach; no other hub found"),
        (
            {"name": "hub1", "url": "http://h:1", "registered": False, "peers": [{"name": "hub2"}]},
            "hub1 at http://h:1; OTHER HUBS CANNOT FIND IT NOW: the store is away",
        ),
    ],
)
def test_other_hubs(replica, expected):
    assert status({"replica": replica}).splitlines()[-2:] == ["", f"replica: {expected}"]
    assert status({"replica": replica, "cache": facts()}).splitlines()[-3:-1] == ["", "cache: empty"]


def test_a_hub_that_cannot_be_registered():
    replica = {"name": "hub1", "url": "http://h:1", "registered": False}
    line = status({"replica": replica, "cache": facts(store={"state": "full"})}).splitlines()[-1]
    assert line == "replica: hub1 at http://h:1; OTHER HUBS CANNOT FIND IT NOW: the store is full"


def test_a_status_without_either_says_nothing_of_them():
    assert "cache" not in status({})
    assert "replica" not in status({"replica": None})


@pytest.mark.parametrize(
    ("count", "expected"),
    [
        (0, "0 B"), (812, "812 B"), (1023, "1023 B"), (1024, "1 KiB"), (1536, "1.5 KiB"), (10 << 10, "10 KiB"),
        (1023 << 10, "1023 KiB"), ((1 << 20) - 1, "1 MiB"), (64 << 20, "64 MiB"), (5 << 30, "5 GiB"),
        (5 << 40, "5120 GiB"),
    ],
)  # fmt: skip
def test_sizes(count, expected):
    assert size(count) == expected
