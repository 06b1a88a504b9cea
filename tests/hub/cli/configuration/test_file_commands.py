"""`hubd config`, `validate` and `schema`, as a user types them."""

import json

import pytest

from hub.cli.main import main

pytestmark = pytest.mark.usefixtures("home")


def run(capsys, *arguments: str) -> tuple[int, str, str]:
    try:
        code = main(arguments)
    except SystemExit as exit:
        code = int(str(exit.code))
    out, err = capsys.readouterr()
    assert "c4n4ry" not in out + err
    return code, out, err


@pytest.mark.covers("SEC-61")
def test_what_counts_is_shown_with_where_it_comes_from(files, capsys):
    code, out, err = run(capsys, "config")
    main, imported = files / "hubd.toml", files / "imported/c.json"
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert (code, err) == (0, "")
    assert lines == [
        f"# user: {main}",
        f"# imported: {imported}",
        f"page_size = 5 # user {main}:1",
        "",
        f"[upstreams.git] # imported {imported}:2",
        f'command = "x" # imported {imported}:2',
        f'args = ["--key", "***", "--pat=***", "***"] # imported {imported}:2',
        f'prefix = "g" # user {main}:3',
        f'env.TOKEN = "${{TOKEN}}" # user {main}:4',
        f'env.A = "***" # imported {imported}:2',
        "",
        f"[upstreams.web] # user {main}:5",
        f'url = "https://example.com/mcp?key=***" # user {main}:6',
        f'headers.Authorization = "***" # user {main}:7',
        f'headers.X-Key = "Bearer ${{TOKEN}}" # user {main}:7',
        f"# does not count: imported {imported}:3",
    ]


def test_defaults_are_shown_on_demand(files, capsys):
    _, out, _ = run(capsys, "config", "--effective")
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert 'listen = "127.0.0.1:8765" # default' in lines
    assert "timeouts.call = 300.0 # default" in lines


def test_the_same_for_programs(files, capsys):
    _, out, _ = run(capsys, "config", "--json")
    found = json.loads(out)
    assert found["files"][1] == {"path": str(files / "imported/c.json"), "layer": "imported"}
    assert found["settings"] == [
        {"key": ["page_size"], "value": 5, "layer": "user", "file": str(files / "hubd.toml"), "line": 1}
    ]
    [git, web] = found["upstreams"]
    assert git["settings"][0]["value"] == "x"
    assert web["shadowed"] == [{"layer": "imported", "file": str(files / "imported/c.json"), "line": 3}]


def test_nothing_is_configured(home, capsys):
    assert run(capsys, "config") == (0, f"# no file: {home}/config/hubd/hubd.toml is not there\n", "")
    assert run(capsys, "validate") == (0, "ok: 0 servers\n", "")


@pytest.mark.covers("F-C-01")
def test_everything_that_is_wrong_is_said(files, capsys):
    (files / "hubd.toml").write_text("listen = 1\npage_sise = 1\n")
    (files / "imported/d.json").write_text("{")
    code, out, err = run(capsys, "validate")
    assert (code, out) == (78, "")
    assert err.splitlines() == [
        f"hubd: {files}/hubd.toml, line 1: listen: expected text in quotes, not a whole number",
        f'hubd: {files}/imported/d.json, line 1: is not JSON at column 2: expected a name in quotes, or "}}"',
        f"hubd: warning: {files}/hubd.toml, line 2: page_sise: ignored: unknown setting;"
        ' did you mean "page_size"?',
    ]  # fmt: skip
    code, out, _ = run(capsys, "validate", "--json")
    found = json.loads(out)
    assert (code, found["sound"], len(found["problems"])) == (78, False, 2)
    assert found["warnings"][0]["key"] == ["page_sise"]
    code, _, err = run(capsys, "config")
    assert code == 78
    assert "(1 more problem: see `hubd validate`)" in err


def test_one_file_is_checked_by_itself_or_in_its_place(files, home, capsys):
    other = home / "servers.json"
    other.write_text('{"mcpServers": {"a": {"command": "x"}}}')
    assert run(capsys, "validate", str(other)) == (0, "ok: 1 server\n", "")
    drop_in = files / "upstreams.d/x.toml"
    drop_in.parent.mkdir()
    drop_in.write_text('listen = "127.0.0.1:1"\n[upstreams.x]\ncommand = "x"\n')
    code, _, err = run(capsys, "validate", str(drop_in))
    assert code == 78
    assert "is a setting of the whole hub, and this file may only name upstreams" in err
    code, _, err = run(capsys, "validate", str(home / "gone.toml"))
    assert (code, err) == (78, f"hubd: {home}/gone.toml: cannot be read: No such file or directory\n")


def test_a_project_file_is_checked_as_one(files, project, capsys):
    (project / ".hubd.toml").write_text('[upstreams.git]\nargs = ["${workspaceFolder}"]\n')
    assert run(capsys, "validate", str(project / ".hubd.toml")) == (0, "ok: 2 servers\n", "")


def test_the_schema_is_printed(capsys):
    assert json.loads(run(capsys, "schema")[1])["title"] == "hubd.toml"
    assert json.loads(run(capsys, "schema", "--project")[1])["title"] == ".hubd.toml"


def test_what_files_hold_cannot_command_the_terminal(files, capsys):
    (files / "hubd.toml").write_text('[upstreams.a]\ncommand = "\\u001b]0;x\\u0007\\u202e\\u009b"\n')
    _, out, _ = run(capsys, "config")
    assert r'command = "\u001b]0;x\u0007\u202e\u009b"' in out
