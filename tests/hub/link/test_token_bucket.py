"""Token bucket: how much passes at once, and from then on."""

from hub.link.token_bucket import TokenBucket


def passed(bucket, now, tries=100):
    return sum(bucket.take(now) for _ in range(tries))


def test_a_full_one_lets_so_much_pass_at_once_and_then_what_comes_in():
    bucket = TokenBucket(10, per_s=2)
    assert [passed(bucket, now) for now in (50.0, 50.0, 50.5, 52.0, 52.4)] == [10, 0, 1, 3, 0]
    assert passed(bucket, 1000.0) == 10, "and never more than it holds"


def test_what_is_too_much_takes_nothing():
    bucket = TokenBucket(10, per_s=1)
    assert [bucket.take(0.0, amount) for amount in (8, 3, 2, 1)] == [True, False, True, False]
    assert not bucket.take(9.0, 11)
    assert repr(bucket) == "<TokenBucket, 9 of 10 at 9>"


def test_seconds_that_do_not_add_up_cost_nothing():
    bucket = TokenBucket(1, per_s=10)
    assert all(bucket.take(number * 0.1) for number in range(1000))
