"""Signals that end a setup: never lost, never in the middle of what is done as a whole."""

import signal

import pytest

from hub.cli.setup.hold_back_signals import HELD, Interrupted, as_ctrl_c, hold_back


@pytest.fixture(autouse=True)
def handlers():
    before = {number: signal.getsignal(number) for number in HELD}
    yield
    assert {number: signal.getsignal(number) for number in HELD} == before


def interrupted(number):
    with as_ctrl_c():
        signal.raise_signal(number)
        pytest.fail("it goes on")


@pytest.mark.parametrize("number", HELD)
def test_a_signal_ends_the_block_as_ctrl_c_does(number):
    with pytest.raises(KeyboardInterrupt) as caught:
        interrupted(number)
    assert isinstance(caught.value, Interrupted) == (number != signal.SIGINT)


def done_as_a_whole(number, done):
    with as_ctrl_c(), hold_back():
        with hold_back():
            signal.raise_signal(number)
            done.append("inner")
        done.append("outer")


@pytest.mark.parametrize("number", HELD)
def test_blocks_within_each_other_are_done_before_it_counts(number):
    done = []
    with pytest.raises(KeyboardInterrupt):
        done_as_a_whole(number, done)
    assert done == ["inner", "outer"]


def failing(number):
    with hold_back():
        signal.raise_signal(number)
        raise ValueError("own")


def test_an_error_of_the_block_counts_more_and_nothing_is_left_of_the_signal():
    with as_ctrl_c():
        with pytest.raises(ValueError, match="own"):
            failing(signal.SIGTERM)
        with hold_back():
            pass


@pytest.mark.parametrize(("step", "number"), [(1, HELD[0]), (2, HELD[0]), (3, HELD[0]), (4, HELD[-1]), (5, HELD[-1])])
def test_one_that_comes_while_handlers_change_is_heard_when_all_have_changed(monkeypatch, step, number):
    """Three steps set handlers, three put them back."""
    set_handler, steps = signal.signal, []

    def then_comes_one(which, handler):
        before = set_handler(which, handler)
        steps.append(which)
        if len(steps) == step:
            signal.raise_signal(number)
        return before

    monkeypatch.setattr(signal, "signal", then_comes_one)
    with pytest.raises(KeyboardInterrupt), as_ctrl_c():
        pass
    assert len(steps) == 2 * len(HELD)
