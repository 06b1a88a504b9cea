"""When servers were connected last, kept between runs for a day."""

from config.saved_state import Memory
from config.settings import UpstreamConfig
from upstreams.remembered import LATELY_S, NOTED_AGAIN_S, SECTION, LastConnected

FILES, OTHER = UpstreamConfig(command="files"), UpstreamConfig(command="other")


def test_a_server_is_remembered_for_a_day_by_what_it_is(tmp_path):
    now, memory = [1e9], Memory(tmp_path / "memory.json")
    last = LastConnected(memory, lambda: now[0])
    assert last.ago_s(FILES) is None
    last.note(FILES)
    memory.save()
    later = LastConnected(Memory(tmp_path / "memory.json"), lambda: now[0])
    now[0] += LATELY_S
    assert later.ago_s(FILES) == LATELY_S
    assert later.ago_s(OTHER) is None
    now[0] += 1
    assert later.ago_s(FILES) is None


def test_what_is_noted_all_the_time_is_seldom_written():
    now, memory = [1e9], Memory(None)
    last = LastConnected(memory, lambda: now[0])
    last.note(FILES)
    (key,) = memory.keys(SECTION)
    now[0] += NOTED_AGAIN_S - 1
    last.note(FILES)
    assert memory.get(SECTION, key) == 1e9
    now[0] += 1
    last.note(FILES)
    assert memory.get(SECTION, key) == now[0]


def test_what_is_long_gone_is_forgotten_and_a_clock_set_back_too():
    now, memory = [1e9], Memory(None)
    last = LastConnected(memory, lambda: now[0])
    last.note(FILES)
    now[0] -= 2 * LATELY_S
    assert last.ago_s(FILES) is None
    last.note(OTHER)
    assert len(memory.keys(SECTION)) == 1
    memory.put(SECTION, memory.keys(SECTION)[0], "noise")
    assert last.ago_s(OTHER) is None
