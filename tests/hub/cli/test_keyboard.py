"""Waiting for keys, and for a Ctrl-C that does not interrupt the wait."""

import io
import os
import signal
import socket
import threading
from pathlib import Path

import pytest

from hub.cli.client.connection import HubSession
from hub.cli.client.person_at_terminal import Terminal
from hub.cli.keyboard import keys, read_line
from hub.control.client import ControlClient
from hub.control.interruptible_wait import readable
from hub.daemon.bind_unix import bind_unix

TICK = threading.Event()


def signal_that_interrupts_nothing(waiting: int) -> None:
    """Send this process SIGINT once thread `waiting` waits, and let another thread take it: as one that comes just
    before a wait, it is noted, and the wait goes on."""
    for _ in range(3000):
        if "select" in (wchan := Path(f"/proc/self/task/{waiting}/wchan").read_text()) or "poll" in wchan:
            break
        TICK.wait(0.01)
    signal.pthread_kill(threading.get_ident(), signal.SIGINT)


@pytest.fixture
def ctrl_c():
    """Ctrl-C is pressed once this thread waits."""
    thread = threading.Thread(target=signal_that_interrupts_nothing, args=[threading.get_native_id()])
    thread.start()
    yield
    thread.join()


def test_ctrl_c_ends_a_wait_that_it_does_not_interrupt(ctrl_c):
    reading, writing = os.pipe()
    with open(reading), open(writing, "w"), pytest.raises(KeyboardInterrupt):
        readable([reading])


def test_ctrl_c_ends_a_question_that_it_does_not_interrupt(ctrl_c):
    main, child = os.openpty()
    with open(main), open(child) as stream, pytest.raises(KeyboardInterrupt):
        read_line(stream)


def test_ctrl_c_ends_following_of_logs(ctrl_c, tmp_path):
    path = tmp_path / "socket"
    with bind_unix(path) as listener, ControlClient(path) as client, listener.accept()[0] as hub:
        hub.sendall(b'{"id":1,"result":{"records":[]}}\n')
        with pytest.raises(KeyboardInterrupt):
            list(client.follow(None, 0))


def test_ctrl_c_ends_a_wait_for_the_answer_of_a_server(ctrl_c):
    hub, ours = socket.socketpair()
    person = Terminal(attended=False, show=print, live=print)
    with hub, ours, pytest.raises(KeyboardInterrupt), HubSession(ours, person):
        pass


def test_lines_are_read_one_by_one():
    main, child = os.openpty()
    with open(main, "wb", buffering=0) as keys, open(child) as stream:
        keys.write(b"yes\nno\n")
        assert [read_line(stream), read_line(stream)] == ["yes\n", "no\n"]
    assert read_line(io.StringIO("piped")) == "piped"


def test_what_can_be_read_ends_the_wait_or_the_limit_does():
    reading, writing = os.pipe()
    with open(reading), open(writing, "w") as pipe:
        assert readable([reading], 0.0) == []
        assert readable([reading], -1.0) == []
        pipe.write("x")
        pipe.flush()
        assert readable([reading]) == [reading]


def test_keys_have_names_however_the_terminal_sends_them():
    main, child = os.openpty()
    with open(main, "wb", buffering=0) as hands, open(child) as stream, keys(stream.fileno()) as pressed:
        hands.write("\x1b[A\x1bOBq \x1b[6~é\x1b[1;5C\x1b[99~\n\x1b".encode())
        assert pressed() == ["up", "down", "q", " ", "page down", "é", "", "", "\n", "\x1b"]
        hands.write("é".encode()[:1])
        assert len(pressed()) == 1
