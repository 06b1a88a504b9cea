"""Project files: where they are looked for, what they add to the user's own, and that they count only when allowed."""

import errno
import os
from pathlib import Path

import pytest
from msgspec import structs

from config.diagnostics import ConfigError
from config.loading.read_source import Layer
from config.projects import Trust, find_project, load_project, read_folder
from config.safe_reading import MAX_PROJECT_BYTES
from config.setting_declarations import Secret
from config.settings import HubConfig, UpstreamConfig
from hub.projects.find_project_of_host import TrustedProjects

HOME = Path("/nowhere/home")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "project").mkdir()
    return tmp_path / "project"


def load(root: Path, environ: dict[str, str] | None = None, **upstreams: UpstreamConfig):
    return load_project(root, environ or {}, HubConfig(upstreams=upstreams))


def refusal(root: Path, **upstreams: UpstreamConfig) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        load(root, **upstreams)
    return [str(diagnostic).replace(f"{root}/", "") for diagnostic in caught.value.diagnostics]


# --- where they are ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [".hubd.toml", ".mcp.json"])
def test_the_nearest_folder_with_a_project_file(root, tmp_path, name):
    (root / "a/b").mkdir(parents=True)
    assert find_project(root / "a/b", HOME) is None
    (root / name).touch()
    assert find_project(root, HOME) == find_project(root / "a/b", HOME) == root
    (root / "a" / name).symlink_to("nowhere")
    assert find_project(root / "a/b", HOME) == root / "a", "a dangling link is a file that cannot be read"
    (tmp_path / "link").symlink_to(root / "a/b")
    assert find_project(tmp_path / "link", HOME) == root / "a"
    assert find_project(root / "gone/below", HOME) is None


def test_the_home_directory_is_no_project_and_nothing_above_it(root, tmp_path):
    (root / ".mcp.json").touch()
    (tmp_path / ".mcp.json").touch()
    assert find_project(root, root) is None
    assert find_project(root, tmp_path) == root
    (root / "sub").mkdir()
    assert find_project(root / "sub", root) is None


def test_directories_of_others_are_not_crossed(root):
    (root / "a/b").mkdir(parents=True)
    (root / ".mcp.json").touch()
    (root / "a").chmod(0o1777)
    assert find_project(root / "a/b", HOME) is None, "anybody may put a file there, as in /tmp"
    (root / "a").chmod(0o755)
    assert find_project(root / "a/b", HOME) == root


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory to someone else")
def test_directories_of_other_users_are_not_crossed(root):
    (root / "a/b").mkdir(parents=True)
    (root / ".mcp.json").touch()
    os.chown(root / "a", 12345, 12345)
    assert find_project(root / "a/b", HOME) is None


# --- what they say ----------------------------------------------------------------------------------------------------


def test_both_files_are_read_and_ours_wins(root):
    (root / ".hubd.toml").write_text('[upstreams.a]\ncommand = "./mine"\n[upstreams.c]\nprefix = "see"\n')
    (root / ".mcp.json").write_text(
        '{"mcpServers": {"a": {"command": "theirs"}, "b": {"url": "http://h"}, "c": {"command": "x"}}}'
    )
    project = load(root)
    assert {name: (up.command, up.url, up.prefix) for name, up in project.upstreams.items()} == {
        "a": (str(root / "mine"), None, None),
        "c": ("x", None, "see"),
        "b": (None, "http://h", None),
    }
    assert project.root == root
    assert project.files == (root / ".hubd.toml", root / ".mcp.json")
    origin = project.origins["upstreams", "c", "prefix"]
    assert (origin.file, origin.line, origin.layer) == (root / ".hubd.toml", 4, Layer.PROJECT)


def test_it_replaces_or_adds_to_what_the_user_has(root):
    mine = UpstreamConfig(command="mine", env={"A": Secret("1"), "B": Secret("2")}, cwd="/home/me")
    (root / ".hubd.toml").write_text(
        '[upstreams.a]\nenv = { B = "3" }\ntimeouts = { call = 5 }\n[upstreams.b]\nurl = "http://h"\n'
    )
    project = load(root, a=mine, b=mine, other=mine)
    changed = structs.replace(mine, env=mine.env | {"B": Secret("3")})
    a = project.upstreams["a"]
    assert structs.replace(a, timeouts=mine.timeouts) == changed
    assert a.timeouts.call == 5.0
    assert project.upstreams["b"] == UpstreamConfig(url="http://h")
    assert list(project.upstreams) == ["a", "b"], "what it does not name is left alone"


def test_the_names_of_editors_mean_the_project(root):
    (root / ".env").write_text("A=1\n")
    (root / ".mcp.json").write_text(
        '{"a": {"command": "${workspaceFolder}/run", "args": ["${workspaceFolderBasename}"],'
        ' "envFile": "${workspaceFolder}/.env"}}'
    )
    project = load(root)
    a = project.upstreams["a"]
    assert (a.command, a.args, a.env) == (str(root / "run"), ("project",), {"A": Secret("1")})
    assert project.files[2:] == (root / ".env",)


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        (".hubd.toml", 'listen = "127.0.0.1:1"\n', ".hubd.toml, line 1: listen: is a setting of the whole hub, and"),
        (".hubd.toml", "[upstreams.x]\ndisabled = true\n", ".hubd.toml, line 1: upstreams.x: an upstream has either"),
        (".hubd.toml", "[upstreams.off]\ndisabled = false\n", '.hubd.toml, line 2: upstreams.off.disabled: "off" is'),
        (".hubd.toml", '[upstreams.a_b]\ncommand = "x"\n', '.hubd.toml, line 1: upstreams.a_b: "a_b" is taken: it eq'),
        (".mcp.json", '{"a": {"command": "${UNSET}"}}', ".mcp.json, line 1: a.command: the variable UNSET is not set"),
        (".mcp.json", "", ".mcp.json: is empty"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said(root, name, text, expected):
    (root / name).write_text(text)
    mine = UpstreamConfig(command="mine")
    [text] = refusal(root, **{"off": structs.replace(mine, disabled=True), "a-b": mine})
    assert text.startswith(expected)


@pytest.mark.covers("SEC-50")
def test_a_project_file_that_others_can_change_is_refused(root):
    (root / ".mcp.json").write_text('{"a": {"command": "x"}}')
    (root / ".mcp.json").chmod(0o666)
    assert "others may write it" in refusal(root)[0]


# --- whether they count -----------------------------------------------------------------------------------------------


def test_only_the_content_that_was_allowed_counts(root, tmp_path):
    trust = Trust(tmp_path / "trust.json")
    (root / ".mcp.json").write_text('{"a": {"command": "x"}}')
    project = load(root)
    assert not trust.is_allowed(project)
    trust.allow(project)
    assert trust.is_allowed(project)
    assert Trust(tmp_path / "trust.json").is_allowed(load(root))
    assert (tmp_path / "trust.json").stat().st_mode & 0o777 == 0o600
    (root / ".mcp.json").write_text('{"a": {"command": "y"}}')
    assert not trust.is_allowed(load(root))
    (root / ".mcp.json").write_text('{"a": {"command": "x"}}')
    assert trust.is_allowed(load(root))
    (root / ".hubd.toml").write_text('[upstreams.b]\ncommand = "x"\n')
    assert not trust.is_allowed(load(root)), "a file that came to be is another content"
    (root / ".hubd.toml").unlink()
    assert trust.deny(root)
    assert not trust.is_allowed(load(root))
    assert not trust.deny(root)


@pytest.mark.covers("SEC-13", "I-5")
@pytest.mark.parametrize(
    "text",
    [
        ".".join(["a"] * 200_000) + " = 1",
        "".join(f"[a.b{n}]\n" for n in range(100_000)),
        "[upstreams.db",
        "[upstreams.a]\ncommand = 'x'\nenv_file = './fifo'\n",
    ],
    ids=["long key", "many tables", "no TOML", "sound"],
)
def test_what_was_not_allowed_is_not_looked_into(root, tmp_path, text):
    (root / ".hubd.toml").write_text(text)
    trust = Trust(tmp_path / "trust.json")
    assert trust.load_allowed(root, {}, HubConfig()) is None, "not even that it cannot be used is known"
    assert len(read_folder(root).contents[root / ".hubd.toml"].data) <= MAX_PROJECT_BYTES + 1


def test_what_was_allowed_is_what_was_compared(root, tmp_path):
    trust = Trust(tmp_path / "trust.json")
    (root / ".env").write_text("A=1\n")
    (root / ".hubd.toml").write_text("[upstreams.a]\ncommand = 'x'\nenv = { A = '${file:.env}' }\n")
    trust.allow(load(root))
    found = trust.load_allowed(root, {}, HubConfig())
    assert found is not None
    assert found[0] == load(root)
    (root / ".env").write_text("A=2\n")
    assert trust.load_allowed(root, {}, HubConfig()) is None
    (root / ".env").write_text("A=1\n")
    (root / ".mcp.json").symlink_to("nowhere")
    with pytest.raises(ConfigError, match="cannot be read"):
        trust.load_allowed(root, {}, HubConfig())


@pytest.mark.parametrize("name", [".hubd.toml", ".mcp.json"])
def test_a_project_file_is_small(root, name):
    (root / name).write_text(f'{{"a": {{"command": "{"x" * MAX_PROJECT_BYTES}"}}}}')
    assert "is larger than 64 KB" in refusal(root)[0]


def test_files_that_the_project_brings_are_content_and_the_user_s_are_not(root, tmp_path):
    (root / ".env").write_text("A=1\n")
    (tmp_path / "mine.env").write_text("B=1\n")
    (root / ".mcp.json").write_text(
        '{"a": {"command": "x", "envFile": ".env"}, "b": {"command": "x", "envFile": "../mine.env"}}'
    )
    before = load(root).digest
    (tmp_path / "mine.env").write_text("B=2\n")
    assert load(root).digest == before
    (root / ".env").write_text("LD_PRELOAD=./evil.so\n")
    assert load(root).digest != before


@pytest.mark.parametrize("text", ["", "{", "[]", '{"format": 2, "projects": {}}', "\ud800"])
def test_a_damaged_file_allows_nothing_and_can_be_written_anew(root, tmp_path, text):
    path = tmp_path / "trust.json"
    path.write_bytes(text.encode(errors="surrogatepass"))
    (root / ".mcp.json").write_text('{"a": {"command": "x"}}')
    project = load(root)
    assert not Trust(path).is_allowed(project)
    Trust(path).allow(project)
    assert Trust(path).is_allowed(project)
    assert [each.name for each in tmp_path.iterdir() if each.name.startswith("trust")] == ["trust.json"]


@pytest.mark.covers("SEC-62", "I-5")
@pytest.mark.parametrize("kind", ["link", "device", "pipe"])
def test_a_file_of_decisions_that_is_none_allows_nothing(root, tmp_path, kind, caplog):
    path, sound = tmp_path / "trust.json", tmp_path / "sound.json"
    (root / ".mcp.json").write_text('{"a": {"command": "x"}}')
    project = load(root)
    Trust(sound).allow(project)
    if kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to(sound if kind == "link" else "/dev/zero")
    assert not Trust(path).is_allowed(project)
    assert "no project is allowed" in caplog.text


@pytest.mark.covers("F-D-07")
def test_without_descriptors_nothing_is_taken_for_a_decision(root, tmp_path, monkeypatch):
    def refuse(*arguments):
        raise OSError(errno.EMFILE, "Too many open files")

    (root / ".mcp.json").write_text('{"a": {"command": "x"}}')
    trust = Trust(tmp_path / "trust.json")
    trust.allow(project := load(root))
    reader = TrustedProjects(trust, {}, HOME)
    assert reader.find(root, HubConfig(), {}).project == project
    monkeypatch.setattr("config.safe_reading.read_private", refuse)
    found = reader.find(root, HubConfig(), {root: project})
    assert found.project == project, "what runs goes on"
    assert "cannot tell what you have allowed" in found.problem
    with pytest.raises(OSError, match="Too many"):
        reader.trust.is_allowed(project)


# --- rules ------------------------------------------------------------------------------------------------------------

HINTS = {"get": ("read-only",)}
FILES = UpstreamConfig(command="fs", tools=("!delete_*",), deny=("drop",), ask=("write",), hints=HINTS)


@pytest.mark.covers("POL-12")
def test_a_project_can_only_narrow_what_a_server_of_the_user_may_do(root):
    (root / ".hubd.toml").write_text(
        '[upstreams.files]\ndeny = ["move"]\nask = ["host:cursor *"]\ntools = ["read_*", "!read_all"]\n'
    )
    files = load(root, files=FILES).upstreams["files"]
    assert files.tools == FILES.tools
    assert files.deny == ("drop", "move", "read_all", "!read_*")
    assert files.ask == ("write", "host:cursor *")
    assert files.hints == FILES.hints
    (root / ".hubd.toml").write_text('[upstreams.files]\nstart = "lazy"\n')
    assert load(root, files=FILES).upstreams["files"] == structs.replace(FILES, start="lazy")


@pytest.mark.covers("POL-12")
@pytest.mark.parametrize(
    "text",
    [
        *("trusted = true", 'hints = { "*" = ["read-only"] }', 'flow = ["private"]', 'allow = ["*"]'),
        *('prefix = "z"', 'rename = { drop = "get" }'),
        *('pinning = "off"', 'pin_ignore = ["description"]', 'hidden_text = "pass"'),
    ],
)
def test_a_project_never_vouches_for_or_renames_a_server_of_the_user(root, text):
    (root / ".hubd.toml").write_text(f"[upstreams.files]\n{text}\n")
    [found] = refusal(root, files=FILES)
    assert "is for your own configuration to say of your server" in found
    (root / ".hubd.toml").write_text(f'[upstreams.other]\ncommand = "x"\n{text}\n')
    load(root, files=FILES)


@pytest.mark.covers("POL-12")
@pytest.mark.parametrize("text", ['args = ["other.js"]', 'cwd = "sub"', 'env.NODE_OPTIONS = "-r x"', 'pass = ["*"]'])
def test_nobody_vouches_for_the_other_program_that_a_project_makes_of_a_server(root, text):
    user = structs.replace(FILES, trusted=True, allow=("get",), args=("fs.js",))
    (root / ".hubd.toml").write_text(f"[upstreams.files]\n{text}\n")
    project = load(root, files=user)
    files = project.upstreams["files"]
    assert (files.trusted, files.hints, files.allow) == (False, {}, ())
    assert (files.deny, files.ask, files.tools) == (user.deny, user.ask, user.tools)
    [warning] = project.warnings
    assert "your `trusted` and `hints` and `allow` do not count" in str(warning)
    assert not load(root, files=structs.replace(user, trusted=False, hints={}, allow=())).warnings
    (root / ".hubd.toml").write_text('[upstreams.files]\nargs = ["fs.js"]\n')
    assert load(root, files=user).upstreams["files"] == user, "the same program"


@pytest.mark.covers("POL-12")
def test_a_project_has_no_policy(root):
    (root / ".hubd.toml").write_text('[policy]\ndefault = "allow"\n[upstreams.a]\ncommand = "x"\n')
    [found] = refusal(root)
    assert "policy: is a setting of the whole hub" in found


@pytest.mark.covers("POL-55")
def test_servers_of_projects_may_sample_for_several_people_only_if_that_is_written(root):
    text = '[upstreams.a]\ncommand = "a"\n[upstreams.b]\ncommand = "b"\nsampling.allow = true\n'
    (root / ".hubd.toml").write_text(text)
    upstreams = load_project(root, {}, HubConfig(auth="proxy")).upstreams
    assert [upstreams[name].sampling.allow for name in "ab"] == [False, True]
    assert load(root).upstreams["a"].sampling.allow is None
