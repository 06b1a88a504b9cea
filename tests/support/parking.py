"""Numbers of parked calls, by which tests see that nothing is left of them."""

from typing import NamedTuple

from hub.bridge.parking.parked_call_phases import Phase
from hub.bridge.parking.parking import ParkedCalls


class ParkingStatistics(NamedTuple):
    """Numbers of calls; all but the last two are 0 when the hub is idle."""

    running: int
    """Calls that are with their upstreams."""
    asked: int
    """Calls that have asked and are not over."""
    parked: int
    """Of these, calls that no request is attached to, ended ones included."""
    tombstones: int
    """Calls that are gone, and of which is known why."""
    roots: int
    """Hosts whose roots are known."""


def statistics_of(parking: ParkedCalls) -> ParkingStatistics:
    """Numbers of calls now."""
    tasks = () if parking._nursery is None else parking._nursery.child_tasks
    running = sum(task.name.endswith("._carry_out") for task in tasks)
    parked = sum(call.state.phase in (Phase.PARK, Phase.DONE) for call in parking._calls.values())
    return ParkingStatistics(running, len(parking._calls), parked, len(parking._tombstones), len(parking.roots._known))
