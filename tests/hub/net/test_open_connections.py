"""Who is let in, and who goes for it."""

import pytest

from hub.net.open_connections import ARRIVE_S, LOOKS, Crowd


class Someone:
    def __init__(self, crowd, name, principal="me"):
        self.crowd = crowd
        self.name = name
        self.principal = principal
        self.deadline = 0.0
        self.is_idle = False
        self.sent = False

    def has_sent(self):
        return self.sent

    def abort(self):
        self.crowd.gone.append(self.name)
        self.crowd.remove(self)


@pytest.fixture
def crowd():
    crowd = Crowd(4, 3)
    crowd.gone = []
    return crowd


def come(crowd, *names, now=0.0):
    some = [Someone(crowd, name) for name in names]
    for each in some:
        crowd.add_stranger(each, now)
    return some


@pytest.mark.covers("F-H-11")
def test_the_oldest_silent_one_goes_first(crowd):
    first, _second, _third = come(crowd, "first", "second", "third")
    crowd.heard(first)
    come(crowd, "fourth", "fifth", now=ARRIVE_S)
    assert crowd.gone == ["second", "third"]


@pytest.mark.covers("F-H-11")
def test_who_has_only_just_come_stays_if_others_come_to_no_end(crowd):
    for each in come(crowd, "first", "second"):
        crowd.heard(each)
    come(crowd, "third", "fourth", "fifth", now=10.0)
    assert crowd.gone == ["first", "second"]
    come(crowd, "sixth", now=10.0)
    assert crowd.gone == ["first", "second", "third"], "all are silent: the oldest"


@pytest.mark.covers("F-H-11")
def test_who_has_sent_what_nobody_read_yet_is_not_silent(crowd):
    first, second, _ = come(crowd, "first", "second", "third")
    first.sent = second.sent = True
    come(crowd, "fourth", now=10.0)
    assert crowd.gone == ["third"]
    assert (crowd.guests, len(crowd._silent), crowd.strangers) == (0, 1, 3)


@pytest.mark.covers("F-H-11")
def test_so_many_are_looked_at_and_no_more():
    crowd = Crowd(4, 100)
    crowd.gone = []
    for each in come(crowd, *range(100)):
        each.sent = True
    come(crowd, "new", now=10.0)
    assert crowd.gone == [0]
    assert (crowd.guests, len(crowd._silent), crowd.strangers) == (0, 100 - LOOKS + 1, 100)


def test_descriptors_are_given_back_by_strangers_first(crowd):
    (guest,) = come(crowd, "guest")
    assert crowd.make_guest(guest, guest.principal)
    come(crowd, "stranger")
    assert [crowd.make_room(1.0), crowd.make_room(1.0)] == [True, False]
    guest.is_idle = True
    assert crowd.make_room(1.0)
    assert crowd.gone == ["stranger", "guest"]
