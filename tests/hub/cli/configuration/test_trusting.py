"""`hubd trust` and `untrust`, as a user types them."""

import json
import os
import sys

import pytest

from tests.hub.cli.configuration.test_file_commands import run

pytestmark = pytest.mark.usefixtures("home")


@pytest.mark.covers("SEC-61")
def test_a_project_counts_after_the_user_allowed_it(files, project, capsys):
    _, out, _ = run(capsys, "config", "--project", str(project))
    assert f"# the project {project} is not allowed, so it does not count; see `hubd trust`" in out
    assert "LD_PRELOAD" not in out
    code, out, err = run(capsys, "trust", str(project / "below"), "--yes")
    assert (code, err) == (0, "")
    assert 'command = "run"' in out
    assert 'env.LD_PRELOAD = "./it.so"' in out, "what a stranger sets is there to be judged"
    assert 'env.API_KEY = "***"' in out
    assert '# env: also the variables of the file ".env"' in out
    _, out, _ = run(capsys, "config", "--project", str(project))
    assert f"# project: {project}/.mcp.json" in out
    assert f"# does not count: user {files}/hubd.toml:5" in out
    assert "is allowed already" in run(capsys, "trust", str(project))[1]
    assert run(capsys, "untrust", str(project / "below"))[0] == 0
    assert "is not allowed" in run(capsys, "config", "--project", str(project))[1]
    code, _, err = run(capsys, "untrust", str(project))
    assert (code, err) == (1, f"hubd: nothing of {project} was allowed\n")


def test_nobody_is_asked_without_a_terminal(files, project, capsys):
    code, out, err = run(capsys, "trust", str(project))
    assert code == 2
    assert 'command = "run"' in out
    assert "pass --yes" in err


@pytest.mark.parametrize(("answer", "code"), [("y", 0), ("n", 1), ("", 1), ("another\ny", 0)])
def test_the_user_is_asked(files, project, capsys, monkeypatch, answer, code):
    keyboard, terminal = os.openpty()
    os.write(keyboard, f"{answer}\n".encode())
    with open(terminal) as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        assert run(capsys, "trust", str(project))[0] == code
    os.close(keyboard)
    allowed = "is not allowed" not in run(capsys, "config", "--project", str(project))[1]
    assert allowed == (code == 0)


POLICY = """
[policy]
mode = "read-only"
pinning = "quarantine"
[defaults]
sandbox = "own-home"
[upstreams.web]
command = "web"
"""
OWN = """
[upstreams.web]
command = "run"
[upstreams.b]
command = "b"
trusted = true
allow = ["*"]
pinning = "warn"
sandbox = "off"
hidden_text = "quarantine"
[upstreams.plain]
command = "plain"
pinning = "required"
trusted = false
"""


@pytest.mark.covers("POL-12")
def test_the_review_says_what_servers_of_a_project_say_against_the_policy(files, project, capsys):
    (project / ".mcp.json").unlink()
    (project / ".hubd.toml").write_text(OWN)
    (files / "hubd.toml").write_text(POLICY)
    _, _, err = run(capsys, "trust", str(project), "--yes")
    assert sorted(err.splitlines()) == [
        'hubd: warning: b says its own `allow`, which counts there whatever your default = "deny" says',
        'hubd: warning: b says its own `pinning`, which counts there whatever your pinning = "quarantine" says',
        "hubd: warning: b says its own `sandbox`, which counts there whatever your `sandbox` below [defaults] says",
        "hubd: warning: b says its own `trusted`, which counts there whatever your rules by what tools do says",
        "hubd: warning: web is there in place of your server of that name, and your rules that name it count for it",
    ]
    (files / "hubd.toml").write_text('[upstreams.web]\ncommand = "web"\n')
    (project / ".hubd.toml").write_text(OWN.replace('pinning = "warn"', ""))
    assert run(capsys, "trust", str(project), "--yes")[2] == "", "there are no rules"


ACCOUNTS = """
[upstreams.gh]
command = "gh-mcp"
accounts = { work = {}, private = {} }
"""


def test_a_project_that_only_chooses_an_account_is_said_to_do_that(files, project, capsys):
    with (files / "hubd.toml").open("a") as file:
        file.write(ACCOUNTS)
    (project / ".mcp.json").unlink()
    (project / ".hubd.toml").write_text('[upstreams.gh]\naccount = "private"\n')
    _, out, _ = run(capsys, "trust", str(project))
    assert out == f"hosts that work in {project} would use your gh:private, whatever else serves elsewhere\n"
    with (project / ".hubd.toml").open("a") as file:
        file.write('[upstreams.own]\ncommand = "own"\n')
    _, out, _ = run(capsys, "trust", str(project))
    first, second, *rest = out.splitlines()
    assert first.endswith("would use your gh:private, whatever else serves elsewhere")
    assert "names these servers" in second
    assert 'command = "own"' in "".join(rest)
    assert "gh" not in "".join(rest)


def test_where_there_is_no_project(home, capsys):
    for arguments in (["trust", str(home)], ["config", "--project", str(home)]):
        code, _, err = run(capsys, *arguments)
        assert code == 2
        assert "has a .hubd.toml or .mcp.json" in err


def test_programs_are_told_what_is_allowed(project, capsys):
    code, out, err = run(capsys, "trust", str(project), "--json")
    found = json.loads(out)
    assert (code, found["error"]["code"], found["did"]) == (2, 2, "unchanged")
    assert "pass --yes" in err
    assert [each["name"] for each in found["upstreams"]] == ["web"]
    code, out, err = run(capsys, "trust", str(project), "--json", "--yes")
    found = json.loads(out)
    assert (code, found["did"], found["project"]) == (0, "allowed", str(project))
    assert str(project / ".mcp.json") in found["files"]
    assert json.loads(run(capsys, "trust", str(project), "--json")[1])["did"] == "unchanged"
    assert json.loads(run(capsys, "untrust", str(project), "--json")[1]) == {"project": str(project), "did": "revoked"}
    code, out, err = run(capsys, "untrust", str(project), "--json")
    assert (code, json.loads(out)["error"]["code"]) == (1, 1)
