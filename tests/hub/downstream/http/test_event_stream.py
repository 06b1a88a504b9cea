"""Streams that outlive their connections, and the archive that forgets them; `Answered` plays the connections."""

import pytest

from hub.downstream.http.event_stream import (
    CONGESTED_STREAM_BYTES,
    KEEP_S,
    RING_BYTES,
    RING_EVENTS,
    VITAL_BYTES,
    EventStream,
    StreamArchive,
)
from tests.support.http_fakes import Answered


def ids(answered: Answered) -> list[str | None]:
    return [id for id, _ in answered.events]


@pytest.fixture
def stream():
    return EventStream("a1", primed=False)


@pytest.mark.covers("T-29", "I-5")
def test_the_newest_events_are_kept(stream):
    for _ in range(RING_EVENTS + 10):
        stream.send(b"{}")
    answered = Answered()
    stream.attach(answered)
    assert len(answered.events) == RING_EVENTS
    assert ids(answered)[0] == "a1-11"
    assert ids(answered)[-1] == f"a1-{RING_EVENTS + 10}"
    assert stream.bytes_kept == len(answered.raw_events)


@pytest.mark.covers("I-5", "F-H-04")
def test_the_ring_is_bounded_in_bytes_too_but_an_answer_is_kept(stream):
    for _ in range(30):
        stream.send(b'"%b"' % (b"x" * 100_000))
    assert RING_BYTES - 200_000 < stream.bytes_kept <= RING_BYTES
    stream.finish(b'"%b"' % (b"y" * (3 << 20)))
    answered = Answered()
    stream.attach(answered)
    assert ids(answered)[-1] == "a1-31"
    assert len(answered.events) > 5
    assert answered.complete.is_set()


@pytest.mark.covers("F-H-04", "T-29")
def test_questions_outlive_a_flood_of_progress(stream):
    stream.send(b'"question"', vital=True)
    for _ in range(RING_EVENTS * 3):
        stream.send(b'"%b"' % (b"x" * 10_000))
    answered = Answered()
    stream.attach(answered)
    assert answered.events[0] == ("a1-1", b'"question"')
    assert ids(answered)[-1] == f"a1-{RING_EVENTS * 3 + 1}"
    assert stream.bytes_kept == len(answered.raw_events)


@pytest.mark.covers("I-5")
def test_even_questions_are_bounded(stream):
    for _ in range(RING_EVENTS + 10):
        stream.send(b'"q"', vital=True)
    answered = Answered()
    stream.attach(answered)
    assert ids(answered)[0] == "a1-11"
    stream.detach()
    for _ in range(5):
        stream.send(b'"%b"' % (b"x" * (VITAL_BYTES // 4)), vital=True)
    assert stream.bytes_kept <= VITAL_BYTES
    stream.send(b'"%b"' % (b"x" * VITAL_BYTES), vital=True)
    assert VITAL_BYTES < stream.bytes_kept < VITAL_BYTES + 100


def test_nothing_follows_the_end(stream):
    stream.finish(b"{}")
    kept = stream.bytes_kept
    stream.send(b"{}", vital=True)
    assert stream.bytes_kept == kept


@pytest.mark.covers("F-H-04")
def test_a_host_that_does_not_keep_up_misses_what_may_be_missed(stream):
    answered = Answered()
    stream.attach(answered)
    stream.send(b"{}")
    answered.queued_bytes = CONGESTED_STREAM_BYTES + 1
    stream.send(b"{}")
    stream.send(b"[]", vital=True)
    assert ids(answered) == ["a1-1", "a1-2"]
    assert answered.events[-1][1] == b"[]"


def test_a_connection_that_is_gone_already(stream):
    answered, left = Answered(), []
    answered.leave()
    stream.attach(answered, on_left=lambda: left.append(1))
    assert left == [1]
    assert not stream.attached
    late = Answered()
    late.leave()
    stream.attach(late)
    assert not stream.attached
    assert answered.started
    assert late.started


def test_leaving_is_told_once(stream):
    answered, left = Answered(), []
    stream.attach(answered, on_left=lambda: left.append(1))
    answered.leave()
    stream.detach()
    stream.finish()
    assert left == [1]


# --- the archive ------------------------------------------------------------------------------------------------------


def finished(name: str, size: int, session: dict[str, EventStream]) -> EventStream:
    stream = session[name] = EventStream(name, primed=False)
    stream.finish(b'"%b"' % (b"x" * size))
    return stream


@pytest.mark.covers("I-5", "F-H-20")
def test_streams_are_forgotten_in_time():
    archive, session = StreamArchive(), {}
    for number in range(3):
        archive.put(finished(f"a{number}", 10, session), session, 100.0 * number)
    archive.expire(KEEP_S - 1)
    assert len(archive) == 3
    archive.expire(KEEP_S + 100)
    assert list(session) == ["a2"]
    archive.remove(session["a2"])
    archive.remove(session["a2"])
    assert (len(archive), archive._bytes) == (0, 0)
    archive.expire(KEEP_S * 9)
    assert list(session) == ["a2"]


@pytest.mark.covers("I-5")
def test_a_session_has_its_share():
    archive, session, other = StreamArchive(), {}, {}
    archive.put(finished("a0", 10, other), other, 0)
    for number in range(40):
        archive.put(finished(f"a{number}", 10, session), session, 0)
    assert list(session) == [f"a{number}" for number in range(8, 40)]
    for number in range(40, 44):
        archive.put(finished(f"a{number}", 3 << 20, session), session, 0)
    assert list(session) == ["a42", "a43"]
    archive.put(finished("a44", 9 << 20, session), session, 0)
    assert list(session) == ["a44"]
    assert list(other) == ["a0"]


@pytest.mark.covers("I-5")
def test_all_sessions_together_have_a_limit():
    archive, sessions = StreamArchive(), [{} for _ in range(12)]
    for session in sessions:
        archive.put(finished("a1", 6 << 20, session), session, 0)
    assert [len(session) for session in sessions] == [0, 0] + [1] * 10
