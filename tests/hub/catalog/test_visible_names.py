"""Visible names of tools and prompts, and the ids of servers in them."""

from hashlib import sha256

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hub.catalog.visible_names import name_id, server_id, visible_name

VECTORS = [
    ("tool", "github", "create_issue", "github__create_issue", 20),
    ("tool", "github", "create-issue", "github__create-issue", 20),
    ("tool", "fs", "read.file", "fs__read_file_355f98b3", 22),
    ("tool", "fs", "read_file", "fs__read_file", 13),
    ("tool", "notes", "メモ検索", "notes__x_bdfbbfc4", 17),
    ("tool", "notes", "", "notes__x_df8c48e0", 17),
    (
        "tool",
        "github",
        "add_pull_request_review_comment_to_pending_review",
        "github__add_pull_request_review_comment_t_1b85cdbd",
        50,
    ),
    (
        "tool",
        "github",
        "add_pull_request_review_comment_to_pending_reviews",
        "github__add_pull_request_review_comment_t_dc37c8be",
        50,
    ),
    ("tool", "db", "admin/tools:list", "db__admin_tools_list_9deb6fba", 29),
    ("tool", "db", "dump_deadbeef", "db__dump_deadbeef_3b551f44", 26),
    ("tool", "db", "__private", "db____private", 13),
    ("prompt", "github", "create_issue", "github__create_issue", 20),
    (
        "tool",
        "my-long-server-1",
        "synchronise_all_customer_records_now",
        "my-long-server-1__synchronise_all_custome_4121c9c5",
        50,
    ),
]
NAMES = st.text() | st.text("ab_.", max_size=4) | st.from_regex(r"[a-z_.]{0,60}(_[0-9a-f]{8})?", fullmatch=True)
IDS = st.from_regex(r"[a-z][a-z0-9]{0,7}(-[a-z0-9]{1,7})?", fullmatch=True)


@pytest.mark.covers("S-14", "S-15", "SEC-70")
@pytest.mark.parametrize(("kind", "sid", "raw", "expected", "length"), VECTORS)
def test_vectors(kind, sid, raw, expected, length):
    assert visible_name(kind, sid, raw) == expected
    assert len(expected) == length


@pytest.mark.covers("SEC-70", "F-P-18")
@given(st.sampled_from(["tool", "prompt"]), IDS, st.sets(NAMES, min_size=2, max_size=8))
@example("tool", "fs", {"read.file", "read_file", "read_file_355f98b3", ""})
def test_different_names_of_one_server_stay_different_and_acceptable(kind, sid, names):
    for digits in (8, 16):
        seen = {visible_name(kind, sid, name, digits=digits) for name in names}
        assert len(seen) == len(names)
        for name in seen:
            assert len(name) <= 50
            assert name.isascii()
            assert name[0].islower()
            assert name.replace("-", "").replace("_", "").isalnum()


@given(NAMES, st.integers(0, 80))
def test_a_budget_too_small_for_id_and_hash_never_costs_the_hash(name, budget):
    shown = visible_name("tool", "server", name, budget)
    assert len(shown) <= max(budget, len("server__x_00000000"))
    assert shown.startswith("server__")


@pytest.mark.covers("S-15")
def test_server_ids():
    assert server_id("my-server") == "my-server"
    assert name_id("my_Server") == "my_Server"
    assert server_id("my_server") != server_id("my-server") != server_id("My-Server")
    assert server_id("my_server").startswith("my-server-")
    assert name_id("my server") == server_id("my server")
    assert server_id("数") == "s-" + server_id("数")[2:]


BUDGET_VECTORS = [
    ("sequential-thinking", 50, "sequential-thinking"),
    ("a" * 32, 50, "a" * 32),
    ("sequential-thinking", 37, "sequential-thinking"),
    ("sequential-thinking", 36, ""),
    ("my-long-server-1", 32, ""),
]


@pytest.mark.parametrize(("name", "budget", "id"), BUDGET_VECTORS)
def test_an_id_that_leaves_too_little_of_the_budget_is_cut(name, budget, id):
    found = name_id(name, budget)
    assert (found == name) == bool(id)
    if id:
        return
    stem = name[: budget - 27].rstrip("-")
    assert found == f"{stem}-{sha256(b'hub-id/1' + bytes(1) + name.encode()).hexdigest()[:8]}"
    assert len(found) <= budget - 18
    shown = visible_name("tool", found, "a-tools-name-too-long", budget)
    assert shown.startswith(f"{found}__a-tools_")
    assert len(shown) == budget


@given(st.text(min_size=1), st.integers(32, 64), st.sampled_from([8, 16]))
def test_names_are_within_every_budget(name, budget, digits):
    assert len(visible_name("tool", name_id(name, budget), "x.y" * 30, budget, digits=digits)) <= budget


@given(st.text(min_size=1))
def test_any_name_makes_a_server_id(name):
    id = server_id(name)
    assert server_id(id) == id
    assert visible_name("tool", name_id(name), "x" * 60, digits=16)[0].isalpha()
    assert len(visible_name("tool", name_id(name), "x.y", digits=16)) <= 50
