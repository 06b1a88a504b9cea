"""Grants: a yes for longer ends with any change, and outlives a hub only as it was written."""

import errno
import json
import sys

import pytest
import trio
from msgspec import structs

from hub.link.call_interface import Identity
from hub.rules.approvals.approvals import ApprovalMayReturn, Approvals
from hub.rules.approvals.grants import DAY_S, HOUR_S, RETRY_S, Grants, rule_of
from tests.hub.rules.approvals.test_requests import wish


class Clock:
    now = 1_000_000.0

    def __call__(self):
        return self.now


CHANGES = {
    "principal": lambda it: structs.replace(it, subject=structs.replace(it.subject, principal="bob")),
    "host": lambda it: structs.replace(it, subject=structs.replace(it.subject, host="codex")),
    "upstream": lambda it: structs.replace(it, subject=structs.replace(it.subject, upstream="x")),
    "kind": lambda it: structs.replace(it, subject=structs.replace(it.subject, kind="prompts")),
    "original": lambda it: structs.replace(it, subject=structs.replace(it.subject, original="y")),
    "definition": lambda it: structs.replace(it, subject=structs.replace(it.subject, definition="d2")),
    "runs": lambda it: structs.replace(it, runs="other"),
    "rule": lambda it: structs.replace(it, says=("other",)),
    "more rules": lambda it: structs.replace(it, says=("rule", "other")),
}


@pytest.mark.covers("POL-28")
@pytest.mark.parametrize("changed", CHANGES)
@pytest.mark.parametrize("lasting", ["session", "always"])
def test_any_change_ends_a_grant(changed, lasting):
    grants, one = Grants(None, Clock()), structs.replace(wish(), says=("rule",))
    grants.give_always("A234", one, 90) if lasting == "always" else grants.give_session("A234", one)
    assert grants.covers(one)
    assert grants.covers(structs.replace(one, digest="other arguments"))
    other = CHANGES[changed](one)
    if changed not in ("principal", "host"):
        other = structs.replace(other, caller=one.caller)
    assert not grants.covers(other)
    assert grants.covers(one) is (changed in ("principal", "host", "upstream", "kind", "original"))


@pytest.mark.covers("POL-28")
def test_a_rule_that_moves_is_the_same():
    assert rule_of("hubd.toml:12 mode careful") == rule_of("my file.toml:9 mode careful") == "mode careful"
    assert rule_of("default") == "default"
    grants, one = Grants(None, Clock()), structs.replace(wish(), rule="hubd.toml:12 ask[0]", says=("rule", "other"))
    grants.give_always("A234", one, 90)
    assert grants.covers(structs.replace(one, says=("rule",))), "fewer rules ask"
    assert grants.covers(structs.replace(one, rule="hubd.toml:99 ask[1]"))


@pytest.mark.covers("POL-28")
def test_what_is_not_listed_for_a_moment_keeps_its_grant():
    grants, one = Grants(None, Clock()), wish()
    grants.give_always("A234", one, 90)
    assert not grants.covers(structs.replace(one, subject=structs.replace(one.subject, definition="")))
    assert grants.covers(one)


@pytest.mark.covers("POL-28")
def test_grants_end_in_time():
    clock = Clock()
    grants, one = Grants(None, clock), wish()
    grants.give_always("A234", one, 90)
    clock.now += 90 * DAY_S - 1
    assert grants.covers(one)
    clock.now += 2
    assert list(grants) == []
    assert not grants.covers(one)
    hour = structs.replace(one, caller=structs.replace(one.caller, lasting=False))
    grants.give_session("B234", hour)
    assert grants.covers(hour)
    clock.now += HOUR_S + 1
    assert not grants.covers(hour)


@pytest.mark.covers("POL-28")
def test_a_conversation_ends_with_its_grants():
    grants, one, other = Grants(None, Clock()), wish(), wish()
    grants.give_session("A234", one)
    grants.give_session("B234", other)
    grants.conversation_over(one.caller.tenant)
    assert not grants.covers(one)
    assert grants.covers(other)
    assert one.caller.identity == Identity("local", "cursor")


@pytest.mark.covers("POL-28")
async def test_a_file_that_was_cut_grants_nothing(tmp_path):
    path = tmp_path / "grants.json"
    grants, one = Grants(path, Clock()), wish()
    grants.give_always("A234", one, 90)
    await grants.save()
    assert path.stat().st_mode & 0o777 == 0o600
    assert Grants(path, Clock()).covers(one)
    whole = path.read_bytes()
    for at in range(0, len(whole) - 1, 7):
        path.write_bytes(whole[:at])
        found = Grants(path, Clock())
        assert not found.covers(one)
        assert found.problem
        found.give_always("B234", one, 90)
        await found.save()
        assert path.read_bytes() == whole[:at]  # left alone
    path.write_bytes(whole)
    path.chmod(0o644)
    assert not Grants(path, Clock()).covers(one)
    path.chmod(0o600)
    path.write_bytes(json.dumps({**json.loads(whole), "format": 9}).encode())
    assert not Grants(path, Clock()).covers(one)


async def test_what_cannot_be_saved_is_said(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("")
    grants = Grants(tmp_path / "grants.json", Clock())
    grants._path = blocked / "grants.json"
    grants.give_always("A234", wish(), 90)
    await grants.save()
    assert "not saved" in grants.problem
    grants._path = tmp_path / "grants.json"
    await grants.save()
    assert grants.problem == ""
    grants.revoke("A234")
    await grants.save()
    assert Grants(tmp_path / "grants.json", Clock()).covers(wish()) is False


@pytest.mark.covers("POL-28")
async def test_hubs_that_share_a_file_neither_lose_nor_bring_back_approvals(tmp_path):
    path = tmp_path / "grants.json"
    one, two = await two_grants(path), Grants(path, Clock())
    one.revoke("A234")
    await one.save()
    two.give_always("C234", other("third"), 90)
    await two.save()
    assert [id for id, *_ in Grants(path, Clock())] == [id for id, *_ in one] == ["B234", "C234"]
    assert not two.covers(wish())
    assert one.covers(other("third"))
    one.revoke("C234")
    one.save_now()
    assert not two.covers(other("third")), "though it has written nothing since"
    two.give_always("D234", other("fourth"), 90)
    assert two.revoke("D234")
    path.write_text("damaged")
    assert two.covers(other())
    await two.save()
    assert [id for id, *_ in Grants(path, Clock())] == ["B234"]


# --- a full disk ------------------------------------------------------------------------------------------------------


def other(original="other"):
    one = wish()
    return structs.replace(one, subject=structs.replace(one.subject, original=original))


@pytest.fixture
def fill(monkeypatch):
    """Fills the disk, or makes room; "locked": nothing can be removed either."""

    def fill(state):
        def full(descriptor, data=b""):
            raise OSError(errno.EDQUOT, "Disk quota exceeded")

        def locked(path):
            raise OSError(errno.EROFS, "Read-only file system")

        monkeypatch.undo()
        if state:
            monkeypatch.setattr("config.atomic_writes.os.replace", lambda *_, **__: full(0))
        if state == "locked":
            monkeypatch.setattr("hub.rules.approvals.grants.remove_private", locked)

    return fill


async def two_grants(path):
    grants = Grants(path, Clock())
    grants.give_always("A234", wish(), 90)
    grants.give_always("B234", other(), 90)
    await grants.save()
    return grants


@pytest.mark.covers("POL-28", "F-D-05")
async def test_what_was_taken_back_on_a_full_disk_stays_so(tmp_path, fill):
    path = tmp_path / "grants.json"
    grants = await two_grants(path)
    fill("full")
    assert len(await Approvals(lambda: None, grants, lambda *_, **__: None).revoke("A234")) == 1
    assert "Disk quota exceeded; all of them end with the hub" in grants.problem
    assert not list(Grants(path, Clock())), "a hub that is killed now"
    assert grants.covers(other())
    fill("")
    grants.save_now()
    assert (grants.problem, [id for id, *_ in Grants(path, Clock())]) == ("", ["B234"])


@pytest.mark.covers("POL-28", "F-D-05")
async def test_a_change_that_ends_a_grant_on_a_full_disk_ends_it(tmp_path, fill):
    path = tmp_path / "grants.json"
    grants = await two_grants(path)
    fill("full")
    assert not grants.covers(structs.replace(wish(), runs="another program"))
    await grants.save()
    assert not Grants(path, Clock()).covers(wish())


@pytest.mark.covers("POL-28", "F-D-05")
async def test_a_yes_that_cannot_be_saved_leaves_the_others(tmp_path, fill):
    path = tmp_path / "grants.json"
    grants = await two_grants(path)
    fill("full")
    grants.give_always("C234", other("third"), 90)
    await grants.save()
    assert "not saved" in grants.problem
    assert [id for id, *_ in Grants(path, Clock())] == ["A234", "B234"]


@pytest.mark.covers("POL-28", "F-D-06")
async def test_whoever_takes_back_is_told_if_it_comes_back(tmp_path, fill, autojump_clock, nursery):
    path = tmp_path / "grants.json"
    grants = await two_grants(path)
    nursery.start_soon(grants.run)
    fill("locked")
    approvals = Approvals(lambda: None, grants, lambda *_, **__: None)
    for _ in range(2):
        with pytest.raises(ApprovalMayReturn, match=r"Taken back until the hub ends: .* count again"):
            await approvals.revoke(all=True)
    assert not grants.covers(wish())
    fill("")
    await trio.sleep(RETRY_S + 1)
    assert (grants.problem, grants.may_return) == ("", False)
    assert not list(Grants(path, Clock()))
    assert await approvals.revoke(all=True) == []


LIMITED = """
import resource, signal, sys, trio
from pathlib import Path
from hub.rules.approvals.grants import Grants
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (16, 16))
grants = Grants(Path(sys.argv[1]), lambda: 1_000_000.0)
assert grants.revoke("A234")
trio.run(grants.save)
assert "File too large" in grants.problem, grants.problem
"""


@pytest.mark.covers("POL-28", "F-D-05")
async def test_what_was_taken_back_stays_so_when_the_kernel_ends_the_write(tmp_path):
    path = tmp_path / "grants.json"
    await two_grants(path)
    await trio.run_process([sys.executable, "-c", LIMITED, path], check=True)
    assert not Grants(path, Clock()).covers(wish())
    assert list(tmp_path.iterdir()) == []
