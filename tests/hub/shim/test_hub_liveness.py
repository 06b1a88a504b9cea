"""When a silent hub is asked whether it lives, and what is said of it. The clock is scripted."""

import socket

import pytest

from hub.daemon.bind_unix import bind_unix
from hub.shim import hub_liveness
from hub.shim.hub_liveness import AGAIN_S, ANSWER_S, MAX_SAID, NEVER, QUIET_S, HangWatch


class Watched:
    """A watch, the clock that it reads, and the hub's control socket."""

    def __init__(self, directory, listener):
        self.now = 100.0
        self.listener = listener
        self.watch = HangWatch(str(directory))
        (directory / "hubd.lock").write_text("4711\n")

    def after(self, pause_s, *, waits=True):
        self.now += pause_s
        return self.watch.step(waits=waits)

    def answer(self):
        """The hub answers what it is asked."""
        asked, _ = self.listener.accept()
        with asked:
            assert asked.recv(1000).endswith(b"\n")
            asked.sendall(b"{}\n")

    def hang(self):
        """It does not; the sentence on that."""
        assert self.after(0) == ""
        assert self.after(QUIET_S) == ""
        assert self.watch.probe is not None
        return self.after(ANSWER_S)


@pytest.fixture
def watched(tmp_path, monkeypatch):
    with bind_unix(tmp_path / "control.sock") as listener:
        listener.setblocking(True)
        watched = Watched(tmp_path, listener)
        monkeypatch.setattr(hub_liveness, "monotonic", lambda: watched.now)
        yield watched
        watched.watch.step(waits=False)


def test_a_hub_that_answers_is_not_asked_again_for_a_while(watched):
    assert watched.after(0) == ""
    assert watched.after(QUIET_S / 2) == ""
    assert watched.watch.probe is None
    watched.after(QUIET_S / 2)
    watched.answer()
    assert watched.after(ANSWER_S) == ""
    assert (watched.watch.probe, watched.watch.due) == (None, watched.now + AGAIN_S)
    watched.after(AGAIN_S)
    assert watched.watch.probe is not None


def test_a_hub_that_hangs_is_named_once_and_so_is_that_it_goes_on(watched):
    said = watched.hang()
    assert said.startswith("the hub (process 4711) hangs: ")
    assert "`hubd stop --force`" in said
    assert (watched.after(1000), watched.watch.due) == ("", NEVER), "nothing more is asked meanwhile"
    watched.answer()
    assert watched.after(0) == "the hub goes on"
    assert watched.after(AGAIN_S) == ""


def test_a_line_of_the_hub_is_an_answer_as_well(watched):
    assert watched.hang()
    watched.watch.heard()
    assert watched.after(1) == "the hub goes on"
    assert watched.watch.probe is None
    watched.watch.heard()
    assert watched.after(1) == ""


def test_nobody_is_asked_while_the_host_waits_for_nothing(watched):
    assert [watched.after(100, waits=False) for _ in range(3)] == [""] * 3
    assert (watched.watch.probe, watched.watch.due) == (None, NEVER)
    watched.after(0)
    watched.after(QUIET_S)
    assert watched.after(ANSWER_S, waits=False) == ""
    assert watched.watch.probe is None


def test_without_a_control_socket_nothing_is_known(watched):
    watched.listener.close()
    assert watched.after(0) == watched.after(QUIET_S) == ""
    assert (watched.watch.probe, watched.watch.due) == (None, watched.now + AGAIN_S)


def test_a_host_that_reads_nothing_does_not_stop_the_shim(watched):
    said = []
    for _ in range(MAX_SAID + 2):
        said.append(watched.hang())
        watched.watch.heard()
        said.append(watched.after(0, waits=False))
    assert sum(map(bool, said)) == 2 * MAX_SAID


def test_a_hub_whose_control_socket_is_full_is_left_alone(tmp_path, monkeypatch):
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "control.sock"))
        listener.listen(0)
        full = []
        for _ in range(2):
            full.append(socket.socket(socket.AF_UNIX))
            full[-1].setblocking(False)
            try:
                full[-1].connect(str(tmp_path / "control.sock"))
            except BlockingIOError:
                break
        watch = HangWatch(str(tmp_path))
        monkeypatch.setattr(hub_liveness, "monotonic", lambda: 100.0)
        assert watch.step(waits=True) == ""
        monkeypatch.setattr(hub_liveness, "monotonic", lambda: 200.0)
        assert watch.step(waits=True) == ""
        assert watch.due == 200.0 + AGAIN_S
        for each in full:
            each.close()
