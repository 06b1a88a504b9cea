"""One call is found by its number wherever it is told of, and the log says no more than its levels want."""

import json
import re

import pytest

from hub.control.client import ControlClient
from hub.control.methods import RELOAD
from hub.daemon.logs.record_fields import FIELDS
from tests.support.attached import hubd, last_record, ready, said, upstream
from tests.support.failure_facts import but_ref
from tests.support.processes import running_hub

LOSES = upstream("files", {"on": {"tools/call:die": [["exit", 3]]}})
SECRET = "canary-5f1c"
TRACE = "0af7651916cd43dd8448eb211c80319c"
TRACED = {"traceparent": f"00-{TRACE}-b7ad6b7169203331-01"}


def log_of(hub):
    return [json.loads(line) for line in hub.process.log.read_text().splitlines()]


@pytest.mark.covers("OL-1", "OL-2")
def test_a_call_that_failed_is_found_by_its_ref(tmp_path):
    with running_hub(tmp_path, LOSES) as hub, ready(hub) as host:
        host.ask(2, "tools/call", {"name": "files__die", "arguments": {"secret": SECRET}, "_meta": TRACED})
        facts = host.receive()["result"]["_meta"]["dev.hubd/failure"]
        assert but_ref(facts)["hub"] == "upstream_lost"
        ref = facts["ref"]
        found = [record for record in log_of(hub) if record.get("ref") == ref]
        assert last_record(hub, "end", "--ref", ref)["ref"] == ref
        (line,) = [json.loads(each) for each in hubd(hub, "logs", "--ref", ref, "--json").stdout.splitlines()]
        shown = said(hub, "logs", "--ref", ref.upper())
        call = said(hub, "calls", ref)
    (record,) = found
    assert list(record) == ["time", "level", "logger", *FIELDS[:7], "message"]
    assert record["trace_id"] == TRACE
    assert (record["level"], record["upstream"], record["tool"]) == ("warning", "files", "files__die")
    assert re.fullmatch(r"\S+: files__die upstream_lost after \S+ s: files ended while .*", record["message"])
    assert (line["text"], line["about"], line["level"]) == (record["message"], "files", "warning")
    assert record["message"] in call
    assert re.search(rf" files +warning  {ref}  \S+: files__die upstream_lost", shown)


@pytest.mark.covers("OL-4", "SEC-61")
def test_levels_change_while_the_hub_runs(tmp_path):
    with running_hub(tmp_path, LOSES) as hub, ready(hub) as host:
        hub.config.write_text(f'{LOSES}[log.levels]\nfiles = "debug"\n')
        with ControlClient(f"{hub.env['XDG_RUNTIME_DIR']}/hubd/control.sock") as control:
            control.request(RELOAD)
        before = len(log_of(hub))
        host.ask(2, "tools/call", {"name": "files__die", "arguments": {"secret": SECRET}})
        assert host.receive()["id"] == 2
        said(hub, "restart", "files")
        host.ask(3, "tools/call", {"name": "files__echo", "arguments": {"secret": SECRET}})
        assert host.receive()["id"] == 3
        later = log_of(hub)[before:]
        kept = said(hub, "logs", "hub")
    assert {record["upstream"] for record in later if record["level"] == "debug"} == {"files"}
    assert "files: stopped to" in kept or "to connected" in kept
    assert SECRET not in hub.process.log.read_text() + kept
