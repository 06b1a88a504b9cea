"""What is counted: outcomes, and seconds that pass."""

import pytest

from hub.telemetry.tally import MAX_OUTCOMES, OTHER_OUTCOME, SECONDS, Seconds, Tally


def test_seconds_pass_and_are_forgotten():
    seconds = Seconds()
    seconds.move(1_000)
    seconds.calls[1_000 % SECONDS] += 3
    seconds.move(1_002)
    seconds.calls[1_002 % SECONDS] += 1
    seconds.failed[1_002 % SECONDS] += 1
    seconds.cancelled[1_000 % SECONDS] += 2
    assert seconds.last(1_003, 4) == ([3, 0, 1, 0], [0, 0, 1, 0])
    assert seconds.lately(1_003) == (2, 1)
    assert seconds.lately(1_001 + SECONDS) == (1, 1)
    assert sum(seconds.last(1_001 + SECONDS)[0]) == 1
    assert sum(seconds.last(10 * SECONDS)[0]) == 0


@pytest.mark.covers("OM-6")
def test_outcomes_that_a_server_invents_are_bounded():
    tally = Tally(Seconds())
    for code in range(10_000):
        (tally.outcomes.get(str(code)) or tally.histogram(str(code))).observe(0.1)
    assert len(tally.outcomes) == MAX_OUTCOMES + 1
    assert tally.outcomes[OTHER_OUTCOME].count == 10_000 - MAX_OUTCOMES
    assert tally.count == 10_000
