"""Upstreams that were late at the last start."""

from msgspec import structs

from config.saved_state import Memory
from config.settings import UpstreamConfig
from upstreams.inventory.late_reports import LateReports


def test_what_was_late_is_remembered_until_it_lists_what_it_offers():
    config = UpstreamConfig(command="hangs")
    memory = Memory(None)
    assert config not in LateReports(memory)
    LateReports(memory).note(config)
    late = LateReports(memory)
    assert config in late
    assert structs.replace(config, args=("--other",)) not in late, "another server"
    late.forget(config)
    assert config not in late
    assert memory.keys("late") == []
