"""A real hub with a real server that does one thing at a time: hosts take turns, and `hubd status` shows who waits."""

import json

from tests.support.attached import hubd, ready, upstream
from tests.support.processes import running_hub


def calls_in(record):
    """The texts of the calls that a server has got, in their order."""
    messages = map(json.loads, record.read_text().splitlines())
    return [each["params"]["arguments"]["text"] for each in messages if each.get("method") == "tools/call"]


def row_of(hub, waiting):
    """The server in `hubd status`, once so many calls wait for it."""
    while True:
        (row,) = json.loads(hubd(hub, "status", "--json").stdout)["upstreams"]
        if row["limits"]["waiting"] == waiting:
            return row


def test_two_hosts_at_a_server_that_does_one_thing_at_a_time(tmp_path):
    busy, record = tmp_path / "busy", tmp_path / "record"
    busy.touch()
    script = {"record": str(record), "on": {"tools/call:work": [["await_gone", str(busy)], ["serve"]]}}
    config = f"{upstream('one', script)}in_flight = 1\nqueue = 4\n"
    with running_hub(tmp_path, config) as hub, ready(hub) as greedy, ready(hub) as modest:
        for number in (2, 3, 4, 5):
            greedy.ask(number, "tools/call", {"name": "one__work", "arguments": {"text": f"a{number}"}})
            row_of(hub, number - 2)
        modest.ask(2, "tools/call", {"name": "one__work", "arguments": {"text": "b2"}})
        row = row_of(hub, 4)
        assert row["limits"] == {"running": 1, "waiting": 4}
        assert row["in_flight"] == 1
        assert "limited: 1 running, 4 waiting" in hubd(hub, "status").stdout
        greedy.ask(6, "tools/call", {"name": "one__work", "arguments": {"text": "a6"}})
        refused = greedy.receive()
        assert (refused["id"], refused["result"]["isError"]) == (6, True)
        assert "its queue is full" in refused["result"]["content"][0]["text"]
        busy.unlink()
        assert [greedy.receive()["id"] for _ in range(4)] == [2, 3, 4, 5]
        assert modest.receive()["id"] == 2
        assert calls_in(record) == ["a2", "a3", "b2", "a4", "a5"]
