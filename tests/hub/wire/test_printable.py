"""What a peer said cannot command a terminal."""

import pytest

from hub.wire.printable import printable


@pytest.mark.covers("SEC-54")
def test_what_people_see_of_it_obeys_nothing() -> None:
    assert printable("plain \N{SNOWMAN}") == "plain \N{SNOWMAN}"
    assert printable("a\nb\u202e\x1b[2J\ud800", keep="\n") == "a\nb\\u202e\\x1b[2J\\ud800"
