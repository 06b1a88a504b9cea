"""Screens of a setup: each change once, and how it is undone."""

import json

import pytest

from config.hosts.hub_entries import KEY, Records
from config.hosts.install import plan_entries
from config.hosts.known_hosts import Machine, all_hosts, user_places
from config.hosts.removal_choice import HostRemovals
from config.hosts.removed_originals import remove_from_host
from config.hosts.write_import_to_files import Write
from hub.cli.configuration.env_command import Capture
from hub.cli.context import Output
from hub.cli.render.terminal import Screen
from hub.cli.setup import questions, screens
from hub.cli.setup.carry_out import SetupPlan
from hub.cli.setup.verdicts import ServerVerdict
from tests.support import host_homes

HUB = {"command": "/opt/hubd", "args": ["connect", "--host", "cursor"]}


@pytest.fixture
def make_plan(tmp_path):
    def plan(*, servers, without, capture=None):
        path = host_homes.write(tmp_path, "cursor")["cursor"]
        path.write_text(json.dumps({"mcpServers": servers}, indent=2))
        (place,) = user_places(all_hosts()["cursor"], Machine(tmp_path, {}))
        text, originals = path.read_text(), []
        for key in without:
            text, original = remove_from_host(place, text, key)
            originals.append(original)
        write = Write(path, path.read_text(), text, place, tuple(originals))
        installed = plan_entries(place, {KEY: HUB}, Records(tmp_path / "installed.json"))
        return SetupPlan([], None, capture, [installed], HostRemovals([write] if without else [], []), "running")

    return plan


def test_a_host_that_gets_the_hub_and_loses_servers_has_one_diff(make_plan):
    servers = {"files": {"command": "files"}, "kept": {"command": "kept"}, "time": {"command": "time"}}
    plan = make_plan(servers=servers, without=["files", "time"])
    (diff,) = screens.diffs(plan)
    lines = diff.splitlines()
    assert sum(line.startswith("--- ") for line in lines) == 1
    for key in servers:
        assert any(line.startswith("-  ") and f'"{key}": {{' in line for line in lines) == (key != "kept")
    assert any(line.startswith("+") and '"connect"' in line for line in lines)
    assert screens.undo(plan) == screens.UNDO


def test_one_that_only_gets_the_hub_or_only_loses_servers_has_one_too(make_plan):
    (diff,) = screens.diffs(make_plan(servers={"kept": {"command": "kept"}}, without=[]))
    assert "connect" in diff
    plan = make_plan(servers={"hub": HUB, "files": {"command": "files"}}, without=["files"])
    (diff,) = screens.diffs(plan)
    assert '"files"' in diff


def record(tmp_path, before, left_out=()):
    return Capture(
        path=tmp_path / "hubd.env",
        before=before,
        after=b"after",
        recorded=None,
        values={"PATH": "/bin"},
        left_out=dict(left_out),
    )


@pytest.mark.parametrize(("before", "undone"), [(None, "rm "), (b"before", "copying ")])
def test_what_concerns_no_host_is_not_undone_by_leaving_all_of_them(tmp_path, make_plan, before, undone):
    plan = make_plan(servers={"hub": HUB}, without=[], capture=record(tmp_path, before))
    plan = SetupPlan([], None, plan.capture, [], plan.host_removals, "running")
    assert screens.undo(plan) is None
    *_, last = screens.all_changes(plan, tmp_path)
    assert last.startswith(f"Undone by: {undone}")
    assert str(tmp_path / "hubd.env") in last
    assert "uninstall" not in last


def test_directories_of_the_path_that_are_not_recorded_are_said(tmp_path):
    temporary = [f"/tmp/{number}" for number in range(8)]
    reasons = {**dict.fromkeys(temporary, "temporary"), "bin\x1b": "relative", "TOKEN": "it looks like a secret"}
    said = screens.omissions(record(tmp_path, None, reasons), "/bin:bin\x1b:/tmp/0")
    assert said == [
        "not recorded of this shell's PATH: /tmp/0, /tmp/1, /tmp/2, /tmp/3, /tmp/4, /tmp/5 and 2 more (temporary)",
        "not recorded of this shell's PATH: bin\\x1b (relative)",
    ]


def test_changes_are_paged_on_a_terminal_where_there_is_a_pager(tmp_path, monkeypatch, capsys):
    (pager := tmp_path / "page").write_text(f"#!/bin/sh\nexec cat > {tmp_path}/$1\n")
    pager.chmod(0o755)
    monkeypatch.setenv("PAGER", f"{pager} there")
    answers = iter(["d", "n"])
    monkeypatch.setattr("hub.cli.setup.questions.ask", lambda text: next(answers))
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    assert not questions.write_it(["a change", "another"], Output(json=False))
    assert (tmp_path / "there").read_text() == "a change\nanother\n"
    monkeypatch.setenv("PAGER", "no-such-pager")
    answers = iter(["d", ""])
    assert questions.write_it(["a change"], Output(json=False))
    assert "a change" in capsys.readouterr().err


def test_the_changes_of_the_shells_record_are_shown(make_plan, tmp_path):
    capture = record(tmp_path, before=b"A=1\n")
    (_, diff) = screens.diffs(make_plan(servers={"kept": {"command": "kept"}}, without=[], capture=capture))[::-1]
    assert str(tmp_path / "hubd.env") in diff


def test_one_reason_is_said_once(tmp_path):
    verdicts = [
        ServerVerdict(host="kiro", title="Kiro", key=key, name=key, did="does not work") for key in ("one", "two")
    ]
    said = [str(each) for each in screens.stay(verdicts, {"one": "X is not set", "two": "X is not set"})]
    assert said == ["one and two stay with Kiro: X is not set"]


def test_a_duplicate_that_is_left_has_the_name_of_its_own_host():
    off = ServerVerdict(host="kiro", title="Kiro", key="mine", name="theirs", did="left", why="disabled there")
    (table,) = screens.results([off])
    assert "mine" in Screen(None).render(table)
