"""The journal of systemd gets a datagram for each record, and nobody waits for it."""

import json
import logging
import os
import shutil
import socket
import struct
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from hub.daemon.logs.journald import JournaldHandler
from tests.support.attached import INITIALIZE, upstream
from tests.support.processes import HUBD, own_directories

JOURNALD = next(
    (path for path in ("/usr/lib/systemd/systemd-journald", "/lib/systemd/systemd-journald") if Path(path).exists()),
    None,
)

IN_A_JOURNAL = """
import os, socket, subprocess, sys, time
journald = subprocess.Popen([sys.argv[1]], stderr=subprocess.DEVNULL)
def connected(kind, name):
    end = socket.socket(socket.AF_UNIX, kind)
    while True:
        try:
            end.connect("/run/systemd/journal/" + name)
            return end
        except OSError:
            time.sleep(0.01)
stream = connected(socket.SOCK_STREAM, "stdout")
stream.sendall(b"hubd-test\\n\\n6\\n0\\n0\\n0\\n0\\n")
found = os.fstat(stream.fileno())
os.environ["JOURNAL_STREAM"] = f"{found.st_dev}:{found.st_ino}"
hub = subprocess.run(sys.argv[2:], stderr=stream, stdin=0, stdout=1)
subprocess.run(["journalctl", "--flush"], capture_output=True)
journald.terminate()
journald.wait()
subprocess.run(["journalctl", "-o", "json", "--no-pager", "SYSLOG_IDENTIFIER=hubd"], stdout=2)
"""
"""Runs a command whose standard error is a journal of its own, and writes that as JSON to standard error."""


@pytest.fixture
def handler(journal, tmp_path):
    with closing(JournaldHandler(lambda text: text.replace("hunter2", "***"), str(tmp_path / "journal"))) as made:
        yield made


@pytest.fixture
def journal(tmp_path):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as end:
        end.bind(str(tmp_path / "journal"))
        yield end


def fields_of(data):
    """The fields of a datagram in the journal's native form."""
    found = {}
    while data:
        line, _, data = data.partition(b"\n")
        name, equals, value = line.partition(b"=")
        if not equals:
            (size,) = struct.unpack("<Q", data[:8])
            value, data = data[8 : 8 + size], data[9 + size :]
        found[name.decode()] = value.decode()
    return found


def record(text, **more):
    return logging.makeLogRecord({"msg": text, "name": "hubd.call", "levelno": logging.WARNING, **more})


@pytest.mark.covers("OL-3")
def test_a_record_has_its_fields(journal, handler):
    handler.handle(record("it is hunter2", upstream="github", ref="c7f3a9b2", host="cursor"))
    assert fields_of(journal.recv(10_000)) == {
        "MESSAGE": "it is ***",
        "PRIORITY": "4",
        "SYSLOG_IDENTIFIER": "hubd",
        "HUBD_LOGGER": "hubd.call",
        "HUBD_UPSTREAM": "github",
        "HUBD_REF": "c7f3a9b2",
        "HUBD_HOST": "cursor",
    }
    try:
        raise ValueError("no\nUSER=root")
    except ValueError:
        handler.handle(record("it failed", exc_info=sys.exc_info(), levelno=logging.DEBUG))
    found = fields_of(journal.recv(10_000))
    assert (found["PRIORITY"], found["MESSAGE"].partition("\n")[0]) == ("7", "it failed")
    assert found["MESSAGE"].endswith("ValueError: no\nUSER=root")
    assert "USER" not in found


@pytest.mark.covers("OL-3", "F-D-16")
def test_a_full_journal_loses_records_and_says_how_many(journal, handler):
    while not handler.dropped:
        handler.handle(record("much"))
    handler.handle(record("more"))
    assert handler.dropped == 2
    journal.recv(10_000)
    journal.recv(10_000)
    handler.handle(record("again"))
    assert handler.dropped == 0
    journal.setblocking(False)
    texts = []
    try:
        while True:
            texts.append(fields_of(journal.recv(10_000))["MESSAGE"])
    except BlockingIOError:
        assert texts[-2:] == ["2 log records dropped: the journal did not take them", "again"]


@pytest.mark.covers("OL-3")
def test_a_journal_that_comes_again_is_written_to(journal, handler, tmp_path):
    journal.close()
    handler.handle(record("nobody"))
    assert handler.dropped == 1
    (tmp_path / "journal").unlink()
    handler.handle(record("nobody"))
    assert handler.dropped == 2
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as end:
        end.bind(str(tmp_path / "journal"))
        handler.handle(record("somebody"))
        assert [fields_of(end.recv(10_000))["MESSAGE"] for _ in range(2)][1] == "somebody"


@pytest.mark.covers("OL-3")
def test_a_text_too_long_for_a_datagram_is_cut(journal, handler):
    try:
        raise ValueError("x" * 1_000_000)
    except ValueError:
        handler.handle(record("it failed", exc_info=sys.exc_info()))
    assert fields_of(journal.recv(1 << 20))["MESSAGE"].startswith("it failed\n")
    assert handler.dropped == 0


@pytest.mark.covers("OL-3")
@pytest.mark.skipif(
    os.geteuid() != 0 or JOURNALD is None or not shutil.which("journalctl"), reason="needs root and systemd's journald"
)
def test_the_journal_finds_a_call_by_server_and_ref(tmp_path):
    config = tmp_path / "hubd.toml"
    config.write_text(upstream("github", {"on": {"tools/call:die": [["exit", 3]]}}))
    env = own_directories(tmp_path)
    call = {"name": "github__die", "arguments": {}}
    messages = [
        {"id": 0, "method": "initialize", "params": INITIALIZE},
        {"id": 1, "method": "tools/call", "params": call},
    ]
    lines = "".join(json.dumps({"jsonrpc": "2.0", **message}) + "\n" for message in messages)
    inside = 'mount --make-rprivate / && mount -t tmpfs none /run && mkdir -p /run/systemd /run/log && exec "$@"'
    serve = [HUBD, "serve", "--stdio", "--config", config]
    argv = ["unshare", "--mount", "sh", "-c", inside, "sh", sys.executable, "-c", IN_A_JOURNAL, JOURNALD, *serve]
    done = subprocess.run(argv, input=lines, capture_output=True, text=True, env=env, timeout=120, check=False)
    answers = {answer["id"]: answer for answer in map(json.loads, done.stdout.splitlines()) if "id" in answer}
    ref = answers[1]["result"]["_meta"]["dev.hubd/failure"]["ref"]
    records = [json.loads(line) for line in done.stderr.splitlines()]
    (found,) = [each for each in records if each.get("HUBD_REF") == ref]
    assert (found["HUBD_UPSTREAM"], found["PRIORITY"], found["_TRANSPORT"]) == ("github", "4", "journal")
    assert "github__die upstream_lost" in found["MESSAGE"]
