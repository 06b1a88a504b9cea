"""Places, and the queue for them: whose turn it is, who has to go, and what a minute holds."""

from collections import Counter
from math import inf

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from hub.link.fair_limits import MINUTE_S, Places, Turn


def nobody(error):
    """The wake of those whom no test wakes."""


def places_for(in_flight=0, queue=64, per_minute=0):
    places = Places()
    places.adjust(in_flight, queue, per_minute)
    return places


def wait(places, *hosts, goes_first=False):
    """Have one of each host wait; the turns, of which none had to go."""
    turns = [Turn(host, nobody, goes_first=goes_first) for host in hosts]
    assert [places.join(turn) for turn in turns] == [None] * len(turns)
    return turns


def in_order(places, now=0.0):
    """The hosts that get a place one after another, until none waits or has one."""
    order = []
    while (turn := places.next(now)) is not None:
        order.append(turn.host)
        places.release()
    return order


def test_without_limits_nobody_waits():
    places = Places()
    assert all(places.take(0.0) for _ in range(1000))
    assert (places.running, places.waiting) == (1000, 0)


def test_what_is_beyond_waits_for_a_place_to_be_given_back():
    places = places_for(2)
    assert [places.take(0.0) for _ in range(3)] == [True, True, False]
    (turn,) = wait(places, "a")
    assert places.opens_at(0.0) == inf
    assert places.next(0.0) is None
    places.release()
    assert not places.take(0.0), "others have waited for it"
    assert places.next(0.0) is turn
    assert (places.running, places.waiting) == (2, 0)


def test_hosts_take_turns_and_each_of_their_calls_in_its_order():
    places = places_for(1)
    assert places.take(0.0)
    mine = wait(places, *"aaaa")
    wait(places, *"bcb")
    places.release()
    first = places.next(0.0)
    assert first is mine[0]
    wait(places, "d")
    places.release()
    assert in_order(places) == [*"bcadbaa"]


def test_what_goes_on_goes_first_but_not_twice_before_another():
    places = places_for(1)
    assert places.take(0.0)
    wait(places, *"abc")
    wait(places, *"cc", goes_first=True)
    places.release()
    assert in_order(places) == [*"cacbc"]


def test_whoever_repeats_to_go_on_keeps_nobody_out():
    places = places_for(1)
    assert places.take(0.0)
    wait(places, *"aaaaa")
    order = []
    for _ in range(10):
        wait(places, "evil", goes_first=True)
        places.release()
        order.append(places.next(0.0).host)
    assert Counter(order) == {"a": 5, "evil": 5}


def test_of_too_many_the_newest_of_the_host_that_has_most_goes():
    places = places_for(1, queue=4)
    assert places.take(0.0)
    mine = wait(places, *"aaa")
    wait(places, "b")
    assert places.join(Turn("c", nobody)) is mine[2]
    assert places.join(newest := Turn("a", nobody)) is newest, "which may be the one that comes"
    assert places.join(Turn("b", nobody)) is not None
    assert places.waiting == 4
    places.release()
    assert in_order(places) == [*"abca"]


def test_of_equal_hosts_the_one_that_comes_goes():
    places = places_for(1, queue=2)
    assert places.take(0.0)
    wait(places, *"ab")
    for host in "cab":
        assert places.join(turn := Turn(host, nobody)) is turn


def test_a_round_of_a_host_stays_before_its_calls():
    places = places_for(1, queue=2)
    assert places.take(0.0)
    first, second = wait(places, *"aa")
    going_on = Turn("a", nobody, goes_first=True)
    assert places.join(going_on) is second
    places.release()
    assert [places.next(0.0), places.next(0.0)] == [going_on, None]
    places.release()
    assert places.next(0.0) is first


def test_without_a_queue_nobody_waits():
    places = places_for(1, queue=0)
    assert places.take(0.0)
    assert places.join(turn := Turn("a", nobody)) is turn
    assert places.waiting == 0


def test_whoever_withdraws_takes_nothing_from_others():
    places = places_for(1)
    assert places.take(0.0)
    turns = wait(places, *"aab")
    places.withdraw(turns[0])
    places.withdraw(turns[2])
    places.release()
    assert places.next(0.0) is turns[1]
    assert places.waiting == 0


def test_a_minute_holds_so_many_wherever_it_begins():
    places = places_for(per_minute=3)
    assert [places.take(at) for at in (0.0, 10.0, 20.0, 30.0)] == [True, True, True, False]
    for _ in range(3):
        places.release()
    assert places.opens_at(30.0) == MINUTE_S
    assert not places.take(59.9)
    assert places.take(60.0)
    assert places.opens_at(60.0) == 70.0
    assert [places.take(200.0) for _ in range(4)] == [True, True, True, False]


def test_other_limits_count_what_was_begun_before():
    places = places_for(2, per_minute=2)
    assert [places.take(at) for at in (0.0, 1.0)] == [True, True]
    places.adjust(0, 64, 4)
    assert [places.take(at) for at in (2.0, 3.0, 4.0)] == [True, True, False]
    places.adjust(3, 64, 1)
    assert places.opens_at(5.0) == inf, "four are running"
    for _ in range(4):
        places.release()
    assert places.opens_at(5.0) == 63.0
    places.adjust(0, 64, 0)
    assert places.take(5.0)


def test_a_shorter_queue_dismisses_the_newest_of_those_that_have_most():
    places = places_for(1)
    assert places.take(0.0)
    turns = wait(places, *"aaabb")
    assert places.dismiss() is None
    places.adjust(1, 2, 0)
    dismissed = iter(places.dismiss, None)
    assert list(dismissed) == [turns[2], turns[4], turns[1]]
    places.release()
    assert in_order(places) == [*"ab"]


class Queue(RuleBasedStateMachine):
    """Whatever happens: no limit is passed, nobody is lost, and each host has its turn."""

    def __init__(self) -> None:
        super().__init__()
        self.limits = (2, 4, 0)
        self.places = Places()
        self.places.adjust(*self.limits)
        self.now = 0.0
        self.running = 0
        self.begun: list[float] = []
        self.waiting: list[Turn] = []
        self.patience: Counter[str] = Counter()
        """By host that waits, the places that others got since it began to wait, or had one."""

    def _begin(self) -> None:
        self.running += 1
        self.begun.append(self.now)
        in_flight, _, per_minute = self.limits
        assert not in_flight or self.running <= in_flight
        assert not per_minute or sum(at > self.now - MINUTE_S for at in self.begun) <= per_minute

    @rule(host=st.sampled_from("abc"), goes_first=st.booleans())
    def come(self, host: str, goes_first: bool) -> None:
        if self.places.take(self.now):
            assert not self.waiting
            self._begin()
            return
        turn = Turn(host, nobody, goes_first=goes_first)
        self.waiting.append(turn)
        if (gone := self.places.join(turn)) is not None:
            counts = Counter(each.host for each in self.waiting)
            assert counts[gone.host] == max(counts.values())
            self.waiting.remove(gone)

    @rule()
    def admit(self) -> None:
        while (turn := self.places.next(self.now)) is not None:
            self.waiting.remove(turn)
            self._begin()
            self.patience += Counter({each.host for each in self.waiting} - {turn.host})
            self.patience[turn.host] = 0
            assert max(self.patience.values()) <= 2 * len("bc") + 1, "before each turn of another, one that goes on"
        assert not self.waiting or self.places.opens_at(self.now) > self.now

    @precondition(lambda self: self.running)
    @rule()
    def end(self) -> None:
        self.running -= 1
        self.places.release()

    @precondition(lambda self: self.waiting)
    @rule(data=st.data())
    def withdraw(self, data: st.DataObject) -> None:
        turn = data.draw(st.sampled_from(self.waiting))
        self.waiting.remove(turn)
        self.places.withdraw(turn)

    @rule(seconds=st.sampled_from([0.5, 20.0, 60.0]))
    def pass_time(self, seconds: float) -> None:
        self.now += seconds

    @invariant()
    def counts_are_right(self) -> None:
        assert (self.places.running, self.places.waiting) == (self.running, len(self.waiting))
        assert len(self.waiting) <= self.limits[1]
        for host in self.patience.keys() - {each.host for each in self.waiting}:
            del self.patience[host]


class Rated(Queue):
    """The same with a limit of both kinds."""

    def __init__(self) -> None:
        super().__init__()
        self.limits = (3, 5, 4)
        self.places.adjust(*self.limits)


TestQueue = Queue.TestCase
TestRated = Rated.TestCase
