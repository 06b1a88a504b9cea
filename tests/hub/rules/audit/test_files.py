"""The files of an audit log: whole after crashes, full disks, rotation, and with several hubs."""

import errno
import json
import os
import resource
import subprocess
import sys
from datetime import UTC, datetime

import pytest

from config.settings import AuditConfig
from hub.rules.audit import files as files_module
from hub.rules.audit.files import DAY_S, AuditFiles, Head, logs_in, read_heads
from hub.rules.audit.lines import draft
from hub.rules.audit.reading import verify
from tests.support.audit_log import all_lines, read_files
from tests.support.wall_clock import Clock

T = "2026-11-22T09:17:00.123Z"
NOW = datetime(2026, 11, 22, 9, 17, tzinfo=UTC).timestamp()


def note(kind="config", **members):
    return draft(T, {"k": kind, **members})


def begin(ref):
    return draft(T, {"k": "begin", "ref": ref})


def end(ref):
    return draft(T, {"k": "end", "ref": ref, "out": "ok"})


@pytest.fixture
def clock():
    return Clock(NOW)


@pytest.fixture
def log(tmp_path, clock):
    """Opens logs of the same directory, and closes them at the end."""
    opened = []

    def open_log(config=None, **more):
        found = AuditFiles(tmp_path / "audit", clock, **more)
        found.adjust(config or AuditConfig())
        opened.append(found)
        return found

    yield open_log
    for each in opened:
        each.close()


def written(tmp_path, name="audit.jsonl"):
    paths = logs_in(tmp_path / "audit").get(name, [])
    return [json.loads(line) for line in all_lines(paths)]


def kinds(tmp_path, name="audit.jsonl"):
    return [record["k"] for record in written(tmp_path, name)]


def is_whole(tmp_path, name="audit.jsonl"):
    found = verify(read_files(logs_in(tmp_path / "audit")[name]))
    return found.flaw is None and found


@pytest.mark.covers("AUD-03", "AUD-07")
def test_a_file_that_is_removed_as_soon_as_it_is_there_costs_its_records_and_no_fault(tmp_path, clock):
    path = tmp_path / "audit" / "audit.jsonl"

    def remove():
        path.unlink(missing_ok=True)
        return clock()

    files = AuditFiles(tmp_path / "audit", remove)
    files.append([begin("1")])
    assert not path.exists()
    files.close()
    left = AuditFiles(tmp_path / "audit", clock)
    left.append([begin("2")])
    assert left.has_losses
    assert "2" in [record.get("ref") for record in written(tmp_path)]
    left.close()


@pytest.mark.covers("AUD-02")
def test_a_chain_goes_on_from_run_to_run(log, tmp_path):
    first = log()
    first.append([begin("1"), end("1"), note("close")])
    first.close()
    second = log()
    second.append([note()])
    assert kinds(tmp_path) == ["open", "begin", "end", "close", "open", "config"]
    assert [record["n"] for record in written(tmp_path)] == [1, 2, 3, 4, 5, 6]
    assert is_whole(tmp_path).head == second.head


@pytest.mark.covers("AUD-04")
def test_files_are_private(log, tmp_path):
    log().append([note()])
    directory = tmp_path / "audit"
    assert directory.stat().st_mode & 0o777 == 0o700
    assert {path.name: path.stat().st_mode & 0o777 for path in directory.iterdir()} == {
        "audit.jsonl": 0o600,
        "audit.lock": 0o600,
    }


@pytest.mark.covers("AUD-04")
def test_a_large_file_is_put_aside_and_the_chain_goes_on(log, tmp_path, monkeypatch):
    monkeypatch.setattr(files_module, "MAX_BYTES", 2_000)
    one = log(AuditConfig(keep=3))
    for number in range(80):
        one.append([note(number=number)])
    names = [path.name for path in logs_in(tmp_path / "audit")["audit.jsonl"]]
    assert names == ["audit.jsonl.3", "audit.jsonl.2", "audit.jsonl.1", "audit.jsonl"]
    assert all(path.stat().st_size <= 2_000 for path in logs_in(tmp_path / "audit")["audit.jsonl"])
    firsts = [json.loads(path.read_text().split("\n")[0]) for path in logs_in(tmp_path / "audit")["audit.jsonl"]]
    assert [record["k"] for record in firsts] == ["open"] * 4
    assert all(record["prev"] for record in firsts)
    assert is_whole(tmp_path).head == one.head
    assert written(tmp_path)[-1]["number"] == 79


@pytest.mark.covers("AUD-04")
def test_old_files_go(log, tmp_path, clock):
    one = log(AuditConfig(keep=8, keep_days=8))
    for day in range(30):
        clock.now = NOW + day * DAY_S
        one.append([note(day=day)])
        for path in logs_in(tmp_path / "audit")["audit.jsonl"]:
            if path.stat().st_mtime > clock.now or path.name == "audit.jsonl":
                os.utime(path, (clock.now, clock.now))
    days = [record["day"] for record in written(tmp_path) if "day" in record]
    assert days == list(range(days[0], 30))
    assert 8 <= len(days) <= 11
    assert is_whole(tmp_path)


@pytest.mark.covers("AUD-04")
@pytest.mark.parametrize(
    ("age_days", "keep", "keep_days", "is_told"),
    [(0, 3, 90, True), (0, 3, 0, True), (8, 3, 90, False), (2, 3, 1, False), (0, 0, 90, False)],
)
def test_records_that_are_made_to_push_out_others_are_told_of(
    log, tmp_path, clock, monkeypatch, caplog, age_days, keep, keep_days, is_told
):
    monkeypatch.setattr(files_module, "MAX_BYTES", 500)
    one = log(AuditConfig(keep=keep, keep_days=keep_days))
    for number in range(20):
        one.append([note(number=number)])
        for path in logs_in(tmp_path / "audit")["audit.jsonl"]:
            os.utime(path, (NOW - age_days * DAY_S,) * 2)
    assert one.is_short == is_told
    assert caplog.text.count("of the last days are removed") == is_told


def test_a_clock_that_is_far_ahead_removes_nothing(log, tmp_path, clock, monkeypatch):
    monkeypatch.setattr(files_module, "MAX_BYTES", 500)
    one = log()
    for _ in range(4):
        one.append([note()])
    for path in (tmp_path / "audit").glob("audit.jsonl*"):
        os.utime(path, (NOW, NOW))
    one.close()
    before = {path.name for path in (tmp_path / "audit").iterdir()}
    clock.now = NOW + 3650 * DAY_S
    log().append([note()])
    assert before <= {path.name for path in (tmp_path / "audit").iterdir()}


@pytest.mark.covers("AUD-02", "F-D-03")
@pytest.mark.parametrize("cut", range(1, 60))
def test_a_line_that_was_not_finished_is_cut_off(log, tmp_path, cut):
    first = log()
    first.append([begin("1"), end("1"), begin("2"), note("config", text="x" * 60)])
    first.close()
    path = tmp_path / "audit" / "audit.jsonl"
    whole = path.read_bytes()
    path.write_bytes(whole[:-cut])
    (tmp_path / "audit.head").unlink()  # it says nothing of what may not be on disk
    second = log()
    second.append([note()])
    assert kinds(tmp_path) == ["open", "begin", "end", "begin", "open", "end", "config"]
    opened, closed = written(tmp_path)[4:6]
    assert opened["torn"] == len(whole.split(b"\n")[-2]) + 1 - cut
    assert (closed["ref"], closed["out"]) == ("2", "interrupted")
    assert is_whole(tmp_path)


@pytest.mark.parametrize("size", [0, 1, 40])
def test_a_first_line_that_was_not_finished_is_cut_off(log, tmp_path, size):
    (tmp_path / "audit").mkdir(mode=0o700)
    (tmp_path / "audit" / "audit.jsonl").write_bytes(b'{"t":"2026-11-22T09:17:00.123Z","n":1,"k":"open"'[:size])
    log().append([note()])
    assert kinds(tmp_path)[-1] == "config"
    assert is_whole(tmp_path)


def test_zeros_that_a_power_failure_has_left_are_cut_off(log, tmp_path):
    first = log()
    first.append([begin("1"), end("1")])
    first.close()
    path = tmp_path / "audit" / "audit.jsonl"
    path.write_bytes(path.read_bytes() + bytes(4096))
    log().append([note()])
    assert written(tmp_path)[3]["torn"] == 4096
    assert is_whole(tmp_path)


def test_a_crash_between_two_files_keeps_the_chain(log, tmp_path):
    first = log()
    first.append([begin("1"), end("1"), begin("2")])
    first.close()
    directory = tmp_path / "audit"
    os.replace(directory / "audit.jsonl", directory / "audit.jsonl.1")
    log().append([note()])
    assert kinds(tmp_path) == ["open", "begin", "end", "begin", "open", "end", "config"]
    assert written(tmp_path)[5]["ref"] == "2"
    assert is_whole(tmp_path)


@pytest.mark.covers("AUD-07")
@pytest.mark.parametrize("foreign", [b"hello\n", b'{"n":"x"}\n', b"{}\n", b"x" * 300_000], ids=range(4))
def test_what_somebody_else_has_written_is_put_aside_and_found(log, tmp_path, foreign):
    first = log()
    first.append([begin("1"), end("1")])
    first.close()
    path = tmp_path / "audit" / "audit.jsonl"
    path.write_bytes((b"" if len(foreign) > 100 else path.read_bytes()) + foreign)
    second = log()
    second.append([note()])
    found = verify(read_files(logs_in(tmp_path / "audit")["audit.jsonl"]))
    assert found.flaw is not None
    assert path.with_name("audit.jsonl.1").read_bytes().endswith(foreign)
    last = [json.loads(line) for line in path.read_bytes().splitlines()]
    assert [record["k"] for record in last] == ["open", "open", "config"]
    assert last[1]["damaged"] is True


def test_a_log_that_was_closed_has_no_calls_that_were_cut_off(log, tmp_path):
    first = log()
    first.append([begin("1"), note("close")])
    first.close()
    log().append([note()])
    assert kinds(tmp_path) == ["open", "begin", "close", "open", "config"]


# --- writes that fail -------------------------------------------------------------------------------------------------


class Failing:
    """Writes, but for the n-th time; then half of it, and an error."""

    def __init__(self, fails):
        self.fails = fails
        self.times = 0

    def __call__(self, file, data):
        self.times += 1
        if self.times == self.fails:
            os.write(file, bytes(data)[: len(data) // 2])
            raise OSError(errno.ENOSPC, "No space left on device")
        return os.write(file, data)


@pytest.mark.covers("AUD-03")
@pytest.mark.parametrize("fails", range(1, 8))
def test_a_write_that_fails_leaves_nothing(log, tmp_path, fails):
    one = log(write=Failing(fails))
    for number in range(7):
        try:
            one.append([note(number=number)])
        except OSError:
            assert number == fails - 1
            head = one.head
            one.append([note(number=number)])
            assert one.head != head
    assert [record["number"] for record in written(tmp_path) if "number" in record] == list(range(7))
    assert is_whole(tmp_path).head == one.head


@pytest.mark.covers("AUD-03")
def test_pieces_are_written_to_the_end(log, tmp_path):
    log(write=lambda file, data: os.write(file, bytes(data)[:7])).append([note(text="x" * 100), note()])
    assert kinds(tmp_path) == ["open", "config", "config"]
    assert is_whole(tmp_path)


@pytest.mark.covers("AUD-03", "F-D-05")
def test_a_full_disk(log, tmp_path):
    full = os.open("/dev/full", os.O_WRONLY)
    one = log(write=lambda file, data: os.write(full, data))
    with pytest.raises(OSError, match="No space left"):
        one.append([note()])
    os.close(full)
    assert (tmp_path / "audit" / "audit.jsonl").read_bytes() == b""


@pytest.mark.covers("AUD-03", "F-D-05")
def test_a_real_write_that_ends_in_the_middle(tmp_path):
    """A limit of the system ends it, after a part is written."""
    program = f"""
import resource, sys
sys.path.insert(0, {os.getcwd()!r})
from pathlib import Path
from hub.rules.audit.files import AuditFiles
from hub.rules.audit.lines import draft
files = AuditFiles(Path({str(tmp_path)!r}, "audit"), lambda: {NOW})
resource.setrlimit(resource.RLIMIT_FSIZE, (1500, resource.RLIM_INFINITY))
failed = 0
for number in range(20):
    try:
        files.append([draft({T!r}, {{"k": "config", "number": number}})])
    except OSError:
        failed += 1
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
files.append([draft({T!r}, {{"k": "config", "number": 20}})])
print(failed)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    failed = int(done.stdout)
    numbers = [record["number"] for record in written(tmp_path) if "number" in record]
    assert 0 < failed < 20
    assert numbers == [*range(20 - failed), 20]
    assert is_whole(tmp_path)
    assert resource.getrlimit(resource.RLIMIT_FSIZE)


@pytest.mark.covers("AUD-07")
@pytest.mark.parametrize("how", ["removed", "moved", "replaced", "emptied", "cut"])
def test_a_file_that_is_taken_away_is_made_anew_and_missed(log, tmp_path, how, caplog):
    one = log()
    one.append([note(number=1)])
    path, head = tmp_path / "audit" / "audit.jsonl", one.head
    assert not one.has_losses
    if how == "removed":
        path.unlink()
    elif how in ("moved", "replaced"):
        path.rename(tmp_path / "elsewhere")
    else:
        os.truncate(path, 0 if how == "emptied" else path.read_bytes().index(b"\n") + 1)
    if how == "replaced":
        path.touch(0o600)
    one.append([note(number=2)])
    one.append([note(number=3)])
    first, *more = map(json.loads, path.read_text().splitlines())
    if how != "cut":
        assert (first["k"], first["prev"], first["n"]) == ("open", head, 3)
    assert [(each["k"], each.get("lost")) for each in more] == [("open", True), ("config", None), ("config", None)]
    assert one.has_losses
    assert caplog.text.count("up to number 2 are missing") == 1
    flaw = verify(read_files([path])).flaw
    assert flaw is not None
    assert flaw.line == 2


@pytest.mark.parametrize("how", ["put aside", "copied"])
def test_a_file_that_somebody_else_has_put_aside_or_copied_is_not_missed(log, tmp_path, how):
    one = log()
    one.append([note(number=1)])
    path = tmp_path / "audit" / "audit.jsonl"
    if how == "put aside":
        path.rename(path.with_name("audit.jsonl.1"))
    else:
        path.with_name("copy").write_bytes(path.read_bytes())
        path.with_name("copy").rename(path)
    one.append([note(number=2)])
    assert not one.has_losses
    assert is_whole(tmp_path)


def remove_all(paths):
    for path in paths:
        path.unlink()


def cut(paths):
    lines = paths[-1].read_bytes().splitlines(keepends=True)
    paths[-1].write_bytes(b"".join(lines[:-1]))


@pytest.mark.covers("AUD-07")
@pytest.mark.parametrize("is_killed", [False, True])
@pytest.mark.parametrize("remove", [remove_all, cut, lambda paths: paths[-1].unlink()], ids=["all", "tail", "last"])
def test_what_is_removed_between_two_runs_is_missed(log, tmp_path, monkeypatch, remove, is_killed):
    monkeypatch.setattr(files_module, "MAX_BYTES", 1_000)
    monkeypatch.setattr(files_module, "HEAD_EVERY", 1)
    first = log()
    for number in range(8):
        first.append([note(number=number)])
    head = tmp_path / "audit.head"
    kept = head.read_bytes()
    assert head.stat().st_mode & 0o777 == 0o600
    first.close()
    if is_killed:
        head.write_bytes(kept)
    assert is_whole(tmp_path)
    remove(logs_in(tmp_path / "audit")["audit.jsonl"])
    second = log()
    second.append([note()])
    assert second.has_losses
    assert [record["lost"] for record in written(tmp_path) if "lost" in record] == [True]
    assert not is_whole(tmp_path)
    second.close()
    third = log()
    third.append([note()])
    assert not third.has_losses, "it was said"
    assert not is_whole(tmp_path)


@pytest.mark.covers("AUD-07", "AUD-04")
def test_an_older_file_is_missed_unless_the_hub_has_removed_it(log, tmp_path, monkeypatch):
    monkeypatch.setattr(files_module, "MAX_BYTES", 1_000)
    one = log(AuditConfig(keep=3))
    for number in range(80):
        one.append([note(number=number)])
    assert is_whole(tmp_path)
    one.close()
    two = log(AuditConfig(keep=2))
    two.append([note()])
    assert [path.name for path in logs_in(tmp_path / "audit")["audit.jsonl"]] == [
        *("audit.jsonl.2", "audit.jsonl.1", "audit.jsonl")
    ]
    assert is_whole(tmp_path)
    (tmp_path / "audit" / "audit.jsonl.2").unlink()
    flaw = verify(read_files(logs_in(tmp_path / "audit")["audit.jsonl"])).flaw
    assert flaw is not None
    assert "no other one says that the hub removed those before it" in flaw.why


def test_a_log_of_a_hub_that_kept_no_head_is_whole(log, tmp_path, monkeypatch):
    monkeypatch.setattr(files_module, "MAX_BYTES", 1_000)
    one = log(AuditConfig(keep=0))
    for number in range(20):
        one.append([note(number=number)])
    one.close()
    path = tmp_path / "audit" / "audit.jsonl"
    assert [each.name for each in path.parent.glob("*.jsonl*")] == ["audit.jsonl"]
    (tmp_path / "audit.head").unlink()
    lines = path.read_bytes().splitlines(keepends=True)
    assert json.loads(lines[0])["pruned"] == json.loads(lines[0])["n"]
    two = log()
    two.append([note()])
    assert written(tmp_path)[-2]["pruned"] == json.loads(lines[0])["n"]
    assert is_whole(tmp_path)


def test_a_chain_goes_on_though_its_file_could_not_be_made_anew(log, tmp_path):
    one = log()
    one.append([note(number=1)])
    path, head = tmp_path / "audit" / "audit.jsonl", one.head
    path.unlink()
    path.mkdir()
    for _ in range(2):
        with pytest.raises(OSError, match="directory"):
            one.append([note(number=2)])
    path.rmdir()
    one.append([note(number=3)])
    first, lost, second = written(tmp_path)
    assert (first["prev"], first["n"], lost["lost"], second["number"], second["n"]) == (head, 3, True, 3, 5)


def test_no_link_is_followed(log, tmp_path):
    directory = tmp_path / "audit"
    directory.mkdir(mode=0o700)
    (directory / "audit.jsonl").symlink_to(tmp_path / "victim")
    with pytest.raises(OSError, match="symbolic links"):
        log().append([note()])
    assert not (tmp_path / "victim").exists()


# --- several hubs -----------------------------------------------------------------------------------------------------


@pytest.mark.covers("AUD-02")
def test_two_hubs_of_one_directory_have_a_log_each(log, tmp_path):
    one, two = log(), log()
    one.append([begin("1")])
    two.append([begin("2")])
    one.append([end("1")])
    two.append([end("2")])
    assert kinds(tmp_path) == kinds(tmp_path, "audit-2.jsonl") == ["open", "begin", "end"]
    assert is_whole(tmp_path)
    assert is_whole(tmp_path, "audit-2.jsonl").head == two.head
    one.close()
    three = log()
    three.append([note()])
    assert kinds(tmp_path) == ["open", "begin", "end", "open", "config"]
    assert list(logs_in(tmp_path / "audit")) == ["audit.jsonl", "audit-2.jsonl"]


@pytest.mark.covers("AUD-07")
def test_heads_are_there_when_their_logs_are_gone(log, tmp_path):
    one, two = log(), log()
    for each in (one, two):
        each.append([note()])
        each.append([note()])
        assert each.is_ahead
        each.save_head()
        assert not each.is_ahead
    (tmp_path / "audit" / "audit-2.jsonl").unlink()
    (tmp_path / "audit-3.head").write_text("damaged")
    (tmp_path / "other.head").write_text('{"n":1,"h":"0"}')
    assert read_heads(tmp_path / "audit") == {
        "audit.jsonl": Head(one.number, one.head),
        "audit-2.jsonl": Head(two.number, two.head),
    }
    assert read_heads(tmp_path / "nowhere" / "audit") == {}
