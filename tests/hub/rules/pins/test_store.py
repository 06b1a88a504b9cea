"""The files of pins: what they hold, what becomes of damage, and files of a team."""

import json
import os

import msgspec
import pytest
from msgspec import Raw

from config.remembered_facts import Memory
from config.settings import UpstreamConfig
from hub.rules.fingerprints import INSTRUCTIONS, fingerprint
from hub.rules.pins.store import ELSEWHERE, PinFolder
from hub.rules.pins.team_pins import TeamPins, encode_team_pins, read_team_pins
from tests.support.tables import each_row

pytestmark = pytest.mark.covers("PIN-02")
CONFIG = UpstreamConfig(command="git-server", args=("--stdio",))


def definition(text):
    return {"name": Raw(b'"merge"'), "description": Raw(json.dumps(text).encode())}


def approved(text):
    return {"tools/merge": definition(text), INSTRUCTIONS: "Use me."}


def hash_of_merge(text):
    return fingerprint("tools/merge", definition(text)).hash


@pytest.fixture
def folder(tmp_path):
    tmp_path.chmod(0o700)
    return PinFolder(tmp_path / "pins", Memory(None))


@pytest.fixture
def path(tmp_path):
    return tmp_path / "pins" / "git.json"


def save(folder, record):
    assert folder.write_all({"git": folder.encode(record)}) == {}


def kept(folder, text="Merge."):
    record = folder.open("git", CONFIG).record
    record.accept(approved(text), 1.0)
    record.seen = ["tools"]
    save(folder, record)
    return record


def test_a_record_comes_back_as_it_was(folder, path):
    record = kept(folder)
    assert path.stat().st_mode & 0o777 == 0o600
    found = folder.open("git", CONFIG)
    assert (found.problem, found.was_other) == ("", False)
    assert msgspec.json.encode(found.record) == msgspec.json.encode(record)
    assert found.record.approves("tools/merge", hash_of_merge("Merge."))


def test_a_file_cut_at_any_byte_approves_nothing(folder, path):
    kept(folder)
    data = path.read_bytes()
    for end in range(len(data)):
        path.write_bytes(data[:end])
        found = folder.open("git", CONFIG)
        assert found.problem, end
        assert not found.record.approvals


@each_row("change", ["command", "args", "url"])
def test_it_is_bound_to_what_runs(folder, change):
    kept(folder)
    other = {
        "command": UpstreamConfig(command="other", args=("--stdio",)),
        "args": UpstreamConfig(command="git-server"),
        "url": UpstreamConfig(url="https://example.com/mcp"),
    }[change]
    found = folder.open("git", other)
    assert (found.problem, found.was_other, found.record.approvals) == ("", True, [])


@each_row("settings", [{"prefix": "g"}, {"env": {}}, {"pinning": "freeze"}, {"start": "lazy"}])
def test_how_it_is_set_up_does_not_count(folder, settings):
    kept(folder)
    found = folder.open("git", msgspec.structs.replace(CONFIG, **settings))
    assert len(found.record.approvals) == 1


def test_a_file_that_was_there_and_is_gone_is_missed(folder, path):
    kept(folder)
    path.unlink()
    assert "was there and is gone" in folder.open("git", CONFIG).problem
    assert folder.open("git", UpstreamConfig(command="other")).problem == "", "another command was never pinned"
    assert folder.open("other", CONFIG).problem == ""


def test_a_link_and_a_foreign_name_are_refused(folder, path, tmp_path):
    kept(folder)
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    assert "it is a link" in folder.open("git", CONFIG).problem
    path.unlink()
    os.rename(tmp_path / "elsewhere", path.with_name("mail.json"))
    assert "for another server" in folder.open("mail", CONFIG).problem


def test_what_another_hub_has_written_is_left(folder, path, tmp_path):
    kept(folder)
    other = PinFolder(tmp_path / "pins", Memory(None))
    theirs = other.open("git", CONFIG).record
    theirs.approve(approved("Theirs."), 2.0)
    assert other.write_all({"git": other.encode(theirs)}) == {}
    mine = path.read_bytes()
    assert folder.write_all({"git": b"{}"}) == {"git": ELSEWHERE}
    assert path.read_bytes() == mine
    again = folder.open("git", CONFIG).record
    assert again.newest == theirs.newest
    assert folder.write_all({"git": folder.encode(again)}) == {}
    path.unlink()
    assert folder.write_all({"git": folder.encode(again)}) == {"git": ELSEWHERE}


def test_three_approvals_are_kept_and_their_definitions(folder):
    record = kept(folder, "Zero.")
    for at, text in enumerate(("One.", "Two.", "Three."), 2):
        record.approve(approved(text), float(at))
    assert [each.at for each in record.approvals] == [2.0, 3.0, 4.0]
    hashes = {text: hash_of_merge(text) for text in ("Zero.", "One.", "Two.", "Three.")}
    assert [record.approves("tools/merge", hash) for hash in hashes.values()] == [False, True, True, True]
    assert hashes["Zero."] not in record.definitions
    assert len(record.definitions) == 4
    record.approve(approved("Four."), 5.0)
    assert hashes["One."] not in record.definitions


def test_one_definition_is_approved_beside_the_others(folder):
    record = kept(folder)
    new = definition("New.")
    record.approve({"tools/new": new}, 2.0)
    assert record.newest.keys() == {"tools/merge", "tools/new", INSTRUCTIONS}


def test_what_is_gone_is_forgotten_after_thirty_days(folder):
    record = kept(folder)
    there = {INSTRUCTIONS: "x"}
    assert record.note_gone(["tools/merge"], there, 100.0)
    assert not record.note_gone(["tools/merge"], there, 100.0 + 29 * 86_400)
    assert "tools/merge" in record.newest
    assert record.note_gone(["tools/merge"], there, 101.0 + 30 * 86_400)
    assert record.newest.keys() == {INSTRUCTIONS}
    again = kept(folder)
    assert again.note_gone(["tools/merge"], there, 1.0)
    assert again.note_gone([], {"tools/merge": "x"}, 2.0)
    assert again.gone == {}


def test_hashes_are_made_anew_without_other_members(folder):
    record = kept(folder)
    record.ignore(("description",))
    assert record.approves("tools/merge", fingerprint("tools/merge", definition("Else."), ["description"]).hash)
    record.ignore(())
    assert not record.approves("tools/merge", fingerprint("tools/merge", definition("Else.")).hash)
    assert record.approves("tools/merge", hash_of_merge("Merge."))


def test_a_disk_that_takes_nothing_raises(folder, path, monkeypatch):
    record = kept(folder)
    path.parent.chmod(0o500)
    if os.geteuid() != 0:
        assert "cannot save the pins of git" in folder.write_all({"git": folder.encode(record)})["git"]
    path.parent.chmod(0o700)
    assert PinFolder(None, Memory(None)).open("git", CONFIG).problem == ""


@pytest.mark.covers("PIN-07")
def test_a_file_of_a_team_is_read_as_it_was_written(tmp_path):
    prints = {key: fingerprint(key, each) for key, each in approved("Merge.").items()}
    path = tmp_path / "team.json"
    path.write_bytes(encode_team_pins({"git": prints, "a": {}}))
    assert read_team_pins(path).servers == {"a": {}, "git": prints}
    lines = path.read_text().splitlines()
    assert any("tools/merge" in line for line in lines)
    assert len(lines) > 8


@pytest.mark.covers("PIN-07")
@each_row(
    "text",
    ["", "[]", "{}", '{"hubd_pins":9}', '{"hubd_pins":1,"servers":[]}', '{"hubd_pins":1,"servers":{"a":{"b":1}}}'],
)
def test_anything_else_is_no_such_file(tmp_path, text):
    (tmp_path / "team.json").write_text(text)
    assert str(read_team_pins(tmp_path / "team.json")).startswith(str(tmp_path / "team.json"))


@pytest.mark.covers("PIN-07")
def test_a_file_that_is_not_there(tmp_path):
    assert "cannot be read: No such file" in read_team_pins(tmp_path / "team.json")
    assert TeamPins().servers == {}
