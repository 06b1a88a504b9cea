"""Whether an upstream is heard, and since when."""

from upstreams.subscriptions.notification_coverage import Coverage


def test_it_is_heard_until_it_is_not_and_again_from_then_on():
    hearing = Coverage()
    assert hearing.is_on
    assert not hearing.turn(10.0, on=True)
    assert hearing.since < 0, "what is said of it again is no news"
    assert hearing.turn(20.0, on=False)
    assert not hearing.is_on
    assert not hearing.turn(30.0, on=False)
    assert hearing.turn(40.0, on=True)
    assert (hearing.is_on, hearing.since) == (True, 40.0)
    assert repr(hearing) == "<Coverage since 40, 0 lists>"
