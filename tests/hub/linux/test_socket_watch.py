"""The watch over sockets that need no tasks: whom it tells, how often, and whom it lets pass meanwhile."""

import socket
from collections import Counter
from collections.abc import Iterator

import pytest
import trio
import trio.testing

from hub.link.sync_primitives import loop_turns
from hub.linux.socket_watch import ANSWERS, SHARED_FOR, SHARED_TURN, STRANGERS_TURN, TURN, SocketWatch, socket_watch


class Pair:
    """A socket that is watched, and its peer."""

    def __init__(self, watch: SocketWatch) -> None:
        self.watch = watch
        self.mine, self.peer = socket.socketpair()
        self.mine.setblocking(False)
        self.told: list[bool] = []
        watch.add(self.mine.fileno(), self.told.append)

    def close(self) -> None:
        if self.mine.fileno() >= 0:
            self.watch.remove(self.mine.fileno())
        self.mine.close()
        self.peer.close()


@pytest.fixture
async def watch() -> SocketWatch:
    return socket_watch()


@pytest.fixture
async def pairs(watch: SocketWatch) -> Iterator[list[Pair]]:
    made = [Pair(watch) for _ in range(2)]
    yield made
    for pair in made:
        pair.close()


async def settle() -> None:
    await trio.testing.wait_all_tasks_blocked()


async def test_one_watch_for_all(watch):
    assert socket_watch() is watch


async def test_each_event_is_told_once_to_its_owner(pairs):
    mine, other = pairs
    for told in ([False], [False, False]):
        mine.peer.send(b"x")
        await settle()
        await settle()
        assert (mine.told, other.told) == (told, [])
    mine.peer.shutdown(socket.SHUT_WR)
    await settle()
    assert mine.told == [False, False, True]


async def test_what_is_left_unread_is_told_anew_when_asked_for(watch, pairs):
    mine, _ = pairs
    mine.peer.send(b"x")
    await settle()
    watch.heed(mine.mine.fileno(), bytes=True)
    await settle()
    assert mine.told == [False, False]


async def test_only_hang_ups_are_told_while_a_task_reads(watch, pairs):
    mine, _ = pairs
    watch.heed(mine.mine.fileno(), bytes=False)
    mine.peer.send(b"x")
    await settle()
    assert mine.told == []
    mine.peer.shutdown(socket.SHUT_WR)
    await settle()
    assert mine.told == [True]
    watch.heed(mine.mine.fileno(), bytes=True)
    await settle()
    assert mine.told == [True, True]


async def test_an_event_of_one_that_was_removed_is_dropped(watch, pairs):
    """Both have an event in the same step; whoever is told first removes the other, and closes it."""

    def end(other: Pair) -> None:
        if other.mine.fileno() >= 0:
            watch.remove(other.mine.fileno())
            other.mine.close()

    for mine, other in (pairs, pairs[::-1]):
        watch.add(mine.mine.fileno(), lambda hung_up, mine=mine, other=other: (mine.told.append(hung_up), end(other)))
        mine.peer.send(b"x")
    await settle()
    assert sorted(pair.told for pair in pairs) == [[], [False]]


async def test_another_owner_takes_the_place_of_the_first(watch, pairs):
    mine, _ = pairs
    told: list[bool] = []
    watch.add(mine.mine.fileno(), told.append)
    mine.peer.send(b"x")
    await settle()
    assert (mine.told, told) == ([], [False])


async def test_to_remove_again_is_harmless(watch, pairs):
    watch.remove(pairs[0].mine.fileno())
    watch.remove(pairs[0].mine.fileno())


async def test_a_fault_of_one_owner_stops_no_other(watch, pairs, caplog):
    mine, other = pairs
    watch.add(mine.mine.fileno(), lambda hung_up: 1 // 0)
    for pair in pairs:
        pair.peer.send(b"x")
    await settle()
    assert other.told == [False]
    assert "could not be taken" in caplog.text


async def test_other_tasks_have_their_turn(watch):
    """More sockets than are told of in one step."""
    many = [Pair(watch) for _ in range(2 * TURN + 1)]
    told: list[int] = []
    turns = loop_turns()
    try:
        for pair in many:
            watch.add(pair.mine.fileno(), lambda hung_up: told.append(turns.number))
            pair.peer.send(b"x")
        await settle()
        assert sorted(Counter(told).values()) == [1, TURN, TURN]
    finally:
        for pair in many:
            pair.close()


async def test_it_ends_with_the_loop():
    """Nothing is left of the watch of another loop, which may be removed from later."""
    kept: list[SocketWatch] = []
    pair = socket.socketpair()

    async def main() -> None:
        kept.append(socket_watch())
        kept[0].add(pair[0].fileno(), print)
        await trio.testing.wait_all_tasks_blocked()

    await trio.to_thread.run_sync(trio.run, main)
    kept[0].remove(pair[0].fileno())
    for each in pair:
        each.close()


async def test_a_sender_with_many_sockets_keeps_no_other_waiting(watch):
    """The one that has a single socket is told of in the next step, though it sends when the many have long sent."""
    many, one = [Pair(watch) for _ in range(TURN)], Pair(watch)
    told: list[tuple[int, str]] = []
    turns = loop_turns()

    def hear(pair: Pair, name: str) -> None:
        told.append((turns.number, name))
        if len(told) == SHARED_TURN:  # the first step is over, and most of the many are still to come
            one.peer.send(b"x")

    try:
        for pair, name in (*((each, "many") for each in many), (one, "one")):
            watch.belongs(pair.mine.fileno(), name)
            watch.add(pair.mine.fileno(), lambda hung_up, pair=pair, name=name: hear(pair, name))
        for pair in (many[0], one):
            pair.peer.send(b"x")
        await settle()
        told.clear()
        for pair in many:
            pair.peer.send(b"x")
        await settle()
        assert [name for _, name in told].index("one") < 3 * SHARED_TURN
        steps = Counter(number for number, _ in told)
        assert max(steps.values()) <= SHARED_TURN + 1
        assert len(told) == TURN + 1
    finally:
        for pair in (*many, one):
            pair.close()


async def test_one_that_is_alone_has_long_steps_again(watch):
    many, one = [Pair(watch) for _ in range(TURN)], Pair(watch)
    told: list[int] = []
    turns = loop_turns()
    try:
        for pair, name in (*((each, "many") for each in many), (one, "one")):
            watch.belongs(pair.mine.fileno(), name)
            watch.add(pair.mine.fileno(), lambda hung_up: told.append(turns.number))
        for _ in range(SHARED_FOR + 2):
            one.peer.send(b"x")
            await settle()
        for _ in range(SHARED_FOR + 2):  # of the many, one after the other
            many[0].peer.send(b"x")
            await settle()
        told.clear()
        for pair in many:
            pair.peer.send(b"x")
        await settle()
        assert [*Counter(told).values()] == [TURN]
    finally:
        for pair in (*many, one):
            pair.close()


async def test_as_many_senders_as_there_are_have_a_turn_in_each_step(watch):
    """Of the last one, too, whose only event comes when all the others have more than fits in a step."""
    told: list[str] = []
    pairs = [(Pair(watch), str(number // 20)) for number in range(20 * 16)]
    last = Pair(watch), "last"
    try:
        for pair, name in (*pairs, last):
            watch.belongs(pair.mine.fileno(), name)
            watch.add(pair.mine.fileno(), lambda hung_up, name=name: told.append(name))
            pair.peer.send(b"x")
        await settle()
        most = min(SHARED_TURN, TURN // 17)
        assert Counter(told[: 16 * most + 1]) == {"last": 1} | {str(number): most for number in range(16)}
        assert Counter(told) == Counter(name for _, name in (*pairs, last))
    finally:
        for pair, _ in (*pairs, last):
            pair.close()


@pytest.mark.parametrize(("guests", "most"), [(0, 0), (1, TURN), (TURN, 1)])
async def test_guests_and_strangers_each_have_a_share_of_a_step(watch, guests, most):
    others = STRANGERS_TURN if guests else TURN
    names = [None] * (others + 1) + [str(number) for number in range(guests)] * (most + 1)
    told: list[str | None] = []
    pairs = [(Pair(watch), name) for name in names]
    try:
        for pair, name in pairs:
            watch.add(pair.mine.fileno(), lambda hung_up, name=name: told.append(name), name)
            pair.peer.send(b"x")
        await settle()
        step = Counter(told[: most * guests + others])
        assert step == Counter({str(number): most for number in range(guests)} | {None: others})
        assert len(told) == len(pairs)
    finally:
        for pair, _ in pairs:
            pair.close()


async def test_upstreams_have_a_turn_behind_hosts(watch):
    """However many hosts are busy."""
    told: list[str] = []
    pairs = [(Pair(watch), ANSWERS if number % 2 else str(number)) for number in range(2 * TURN)]
    try:
        for pair, name in pairs:
            watch.add(pair.mine.fileno(), lambda hung_up, name=name: told.append(name), name)
            pair.peer.send(b"x")
        await settle()
        assert ANSWERS not in told[:TURN]
        assert told[TURN:] == [ANSWERS] * TURN
        assert len(told) == len(pairs)
    finally:
        for pair, _ in pairs:
            pair.close()


async def test_an_event_goes_along_when_a_socket_gets_another_sender(watch, pairs):
    for pair in pairs:
        watch.add(pair.mine.fileno(), lambda hung_up, pair=pair: join(pair.told.append(hung_up)))
        pair.peer.send(b"x")

    def join(_: None) -> None:
        for pair in pairs:
            watch.belongs(pair.mine.fileno(), "host")

    await settle()
    assert [pair.told for pair in pairs] == [[False], [False]]


async def test_nothing_is_left_for_who_has_a_descriptor_next(watch, pairs):
    """Whoever is told first takes the other one's place, whose event is still to come."""
    told: list[str] = []

    def replace(mine: Pair, other: Pair) -> None:
        told.append("first")
        number = other.mine.fileno()
        other.mine.recv(1)
        watch.remove(number)
        watch.add(number, lambda hung_up: told.append("next"))

    for mine, other in (pairs, pairs[::-1]):
        watch.add(mine.mine.fileno(), lambda hung_up, mine=mine, other=other: replace(mine, other), "host")
        mine.peer.send(b"x")
    await settle()
    assert told == ["first"]
