"""Log records leave in one piece or not at all, and never hold the hub up."""

import json
import logging
import os
import subprocess
import sys

import pytest
import trio

from hub.daemon.logs.forms import LINE_BYTES
from hub.daemon.logs.handlers import OwnLog

FLOOD = """
import logging
from hub.daemon.logs.setup import HubLog
HubLog(lambda: 0.0).install()
for number in range(20000):
    logging.getLogger("hubd.flood").info("line %d of a flood that nobody reads", number)
print("done", flush=True)
"""
CLOSED = """
import logging, os
from hub.daemon.logs.setup import HubLog
HubLog(lambda: 0.0).install()
os.close(2)
logging.getLogger("hubd").warning("nobody hears this")
print("done", flush=True)
"""

LARGE = """
import logging, os
from hub.daemon.logs.setup import HubLog; from hub.shim import start_daemon
start_daemon.LOG_BYTES = 20000
HubLog(lambda: 0.0).install()
for number in range(1000):
    logging.getLogger("hubd.large").info("line %d", number)
print("done", flush=True)
"""
LARGE_BYTES = 20000


@pytest.mark.covers("F-D-16")
def test_a_full_stderr_pipe_never_blocks():
    reader, writer = os.pipe()
    with subprocess.Popen([sys.executable, "-c", FLOOD], stdout=subprocess.PIPE, stderr=writer) as process:
        out, _ = process.communicate(timeout=100)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        lines = pipe.read().splitlines()
    assert out == b"done\n"
    assert 0 < len(lines) < 20000
    assert all(json.loads(line)["logger"] == "hubd.flood" for line in lines)


@pytest.mark.covers("F-D-16", "I-6")
def test_a_closed_stderr_is_no_reason_to_stop():
    done = subprocess.run([sys.executable, "-c", CLOSED], capture_output=True, timeout=100, check=True)
    assert done.stdout == b"done\n"


def write_much(log, state):
    with log.open("ab") as stream:
        done = subprocess.run(
            [sys.executable, "-c", LARGE],
            env=os.environ | {"XDG_STATE_HOME": str(state.parent)},
            stdout=subprocess.PIPE,
            stderr=stream,
            timeout=100,
            check=True,
        )
    assert done.stdout == b"done\n", "that is no log"


def numbers(file):
    return [int(json.loads(line)["message"].split()[1]) for line in file.read_text().splitlines()]


@pytest.fixture
def state(tmp_path):
    directory = tmp_path / "hubd"
    directory.mkdir(mode=0o700)
    return directory


@pytest.mark.covers("F-P-23", "F-D-04")
def test_a_log_that_grows_is_put_aside_while_the_hub_runs(state):
    log, aside = state / "hubd.log", state / "hubd.log.1"
    write_much(log, state)
    assert {each.name for each in state.iterdir()} == {"hubd.log", "hubd.log.1"}
    assert 0 < log.stat().st_size <= LARGE_BYTES + LINE_BYTES
    assert LARGE_BYTES < aside.stat().st_size <= LARGE_BYTES + LINE_BYTES
    kept = numbers(aside) + numbers(log)
    assert kept == list(range(kept[0], 1000)), "the last ones, and none between them is lost"


@pytest.mark.covers("F-D-06")
def test_a_log_that_cannot_be_put_aside_goes_on(state):
    log = state / "hubd.log"
    (state / "hubd.log.1").mkdir()
    write_much(log, state)
    assert numbers(log) == list(range(1000))


def test_a_log_file_of_somebody_else_is_left_alone(state, tmp_path):
    log = tmp_path / "mine.log"
    write_much(log, state)
    assert numbers(log) == list(range(1000))
    assert list(state.iterdir()) == []


# --- for `hubd logs` --------------------------------------------------------------------------------------------------


async def test_the_hubs_own_log_is_kept_and_followed_from_any_thread():
    kept = OwnLog(lambda: 5.0)
    before = logging.makeLogRecord(
        {"msg": "before the \x1b[31mloop", "levelno": logging.WARNING, "levelname": "WARNING"}
    )
    kept.handle(before)
    kept.running_in(trio.lowlevel.current_trio_token())
    with kept.journal.follow() as follower:
        try:
            raise ValueError("no")
        except ValueError:
            failed = logging.makeLogRecord({"msg": "it failed", "levelname": "ERROR", "exc_info": sys.exc_info()})
        await trio.to_thread.run_sync(kept.handle, failed)
        heard, _ = await follower.next()
        kept.handle(logging.makeLogRecord({"msg": "a: x", "name": "upstreams.transports.stdio.stderr"}))
        kept.handle(logging.makeLogRecord({"msg": "here", "levelname": "INFO"}))
        assert [record.text for record in (await follower.next())[0]] == ["here"]
    assert (heard[0].text, heard[-1].text) == ("it failed", "ValueError: no")
    first = kept.journal.tail(100)[0]
    assert (first.name, first.kind, first.text) == ("hub", "warning", r"before the \x1b[31mloop")
