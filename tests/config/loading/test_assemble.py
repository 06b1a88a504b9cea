"""Several files as one configuration: which belong to it, which wins, and where each value comes from."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from config.diagnostics import ConfigError
from config.loading.assemble import Loaded, load_all
from config.loading.precedence import Origin
from config.loading.read_source import Layer
from config.setting_declarations import Secret
from config.settings import HubConfig


@pytest.fixture
def write(tmp_path: Path):
    def write(name: str, text: str) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    return write


def read(directory: Path, environ: dict[str, str] | None = None) -> Loaded:
    return load_all(directory / "hubd.toml", environ or {})


def refusal(directory: Path) -> list[str]:
    """What is wrong, without the directory."""
    with pytest.raises(ConfigError) as caught:
        read(directory)
    return [str(diagnostic).replace(f"{directory}/", "") for diagnostic in caught.value.diagnostics]


# --- which files belong to it -----------------------------------------------------------------------------------------


def test_files_beside_the_main_file_are_read_in_the_order_of_their_names(write, tmp_path):
    write("hubd.toml", 'page_size = 5\n[upstreams.main]\ncommand = "x"\n')
    write("upstreams.d/b.toml", '[upstreams.b]\ncommand = "x"\n')
    write("upstreams.d/a.json", '{"mcpServers": {"a": {"command": "x"}}}')
    write("upstreams.d/c.yaml", "mcpServers:\n  - name: c\n    command: x\n")
    write("upstreams.d/notes.txt", "nothing")
    write("upstreams.d/b.toml~", "broken [")
    write("upstreams.d/.#b.toml", "broken [")
    write("imported/z.json", '{"z": {"command": "x"}}')
    loaded = read(tmp_path)
    assert list(loaded.config.upstreams) == ["main", "a", "b", "c", "z"]
    assert loaded.config.page_size == 5
    names = ["hubd.toml", "upstreams.d/a.json", "upstreams.d/b.toml", "upstreams.d/c.yaml", "imported/z.json"]
    assert loaded.sources == tuple(tmp_path / name for name in names)
    assert loaded.files == (*loaded.sources, tmp_path / "hubd.env")
    assert loaded.directories == (tmp_path / "upstreams.d", tmp_path / "imported")


def test_variables_of_the_file_beside_win_over_the_environment(write, tmp_path):
    """But for those that say where the file is."""
    write("hubd.toml", '[upstreams.a]\ncommand = "x"\nenv = { A = "${ONE}", B = "${TWO}", C = "${HOME}" }\n')
    path = write("hubd.env", "# as a service has them\nONE=1\nTWO='2'\nHOME=/no\nXDG_X=/no\nHUBD_X=no\nXDG_Y=/yes\n")
    given = {"TWO": "two", "HOME": "/home/me", "XDG_X": "/x", "HUBD_X": "x", "ELSE": "e"}
    loaded = read(tmp_path, given)
    assert loaded.config.upstreams["a"].env == {"A": Secret("1"), "B": Secret("2"), "C": Secret("/home/me")}
    assert loaded.environ == {**given, "ONE": "1", "TWO": "2", "XDG_Y": "/yes"}
    assert path in loaded.files
    path.write_text("ONE\n")
    assert any("hubd.env" in each and "KEY=VALUE" in each for each in refusal(tmp_path))
    path.write_text("ONE=1\nTWO=2\n")
    path.chmod(0o666)
    assert any("hubd.env" in each and "others may write it" in each for each in refusal(tmp_path))


def test_without_a_main_file_the_others_count(write, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    nothing = load_all(None, {})
    assert (nothing.config, nothing.sources) == (HubConfig(), ())
    expected = (tmp_path / "hubd/hubd.toml", tmp_path / "hubd/hubd.env")
    assert nothing.files == expected, "they would be read if they were there"
    assert nothing.directories == (tmp_path / "hubd/upstreams.d", tmp_path / "hubd/imported")
    write("hubd/upstreams.d/a.toml", '[upstreams.a]\ncommand = "x"\n')
    write("hubd/imported/b.toml", '[upstreams.b]\ncommand = "x"\n')
    loaded = load_all(None, {})
    assert list(loaded.config.upstreams) == ["a", "b"]
    assert loaded.sources == (tmp_path / "hubd/upstreams.d/a.toml", tmp_path / "hubd/imported/b.toml")


def test_a_file_that_was_named_must_be_there(tmp_path):
    assert refusal(tmp_path) == ["hubd.toml: cannot be read: No such file or directory"]


def test_files_are_included_by_path_and_by_pattern(write, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    write(
        "hubd.toml", 'include = ["more/*.toml", "~/one.json", "deep/*/x/*.json", "none/**/*.toml", "upstreams.d/*"]\n'
    )
    write("upstreams.d/d.toml", '[upstreams.d]\ncommand = "x"\n')
    write("more/b.toml", '[upstreams.b]\ncommand = "x"\n')
    write("more/a.toml", '[upstreams.a]\ncommand = "./x"\n')
    write("home/one.json", '{"one": {"command": "x"}}')
    write("deep/p/x/y.json", '{"y": {"command": "x"}}')
    write("deep/p/x/README", "nothing")
    (tmp_path / "deep/q").mkdir()
    loaded = read(tmp_path)
    assert list(loaded.config.upstreams) == ["d", "a", "b", "one", "y"]
    assert loaded.config.upstreams["a"].command == str(tmp_path / "more/x"), "relative to the file that says so"
    assert set(loaded.directories) == {
        tmp_path / name for name in ("upstreams.d", "more", "deep", "deep/p", "deep/q", "deep/p/x", "none", "imported")
    }
    assert {origin.layer for origin in loaded.origins.values()} == {Layer.USER}


def test_what_is_included_by_path_must_be_there(write, tmp_path):
    write("hubd.toml", 'page_size = 0\ninclude = ["gone.toml"]\n')
    assert refusal(tmp_path) == ["gone.toml: cannot be read: No such file or directory"]


def test_an_include_of_another_type(write, tmp_path):
    write("hubd.toml", 'include = "more.toml"\n')
    assert refusal(tmp_path) == ["hubd.toml, line 1: include: expected a list, not text in quotes"]
    write("hubd.toml", "include = [1]\n")
    assert refusal(tmp_path) == ["hubd.toml, line 1: include: expected text in quotes, not a whole number"]


def test_includes_do_not_include(write, tmp_path):
    write("hubd.toml", 'include = ["more.toml"]\n')
    write("more.toml", 'include = ["hubd.toml"]\nunheard = 1\n[upstreams.a]\ncommand = "x"\n')
    text = "is a setting of the whole hub, and this file may only name upstreams; move it to hubd.toml"
    assert refusal(tmp_path) == [f"more.toml, line 1: include: {text}"]


def test_a_pattern_that_matches_too_much(write, tmp_path, monkeypatch):
    monkeypatch.setattr("config.loading.gather.MAX_FILES", 2)
    write("hubd.toml", 'include = ["*.json"]\n')
    for name in "abc":
        write(f"{name}.json", f'{{"{name}": {{"command": "x"}}}}')
    [text] = refusal(tmp_path)
    assert text.startswith('hubd.toml, line 1: include: "*.json" matches more than 2 files')


def test_the_name_of_its_own_directory_is_no_pattern(write, tmp_path, monkeypatch):
    here = tmp_path / "a [b] *"
    monkeypatch.setenv("HOME", str(here / "home"))
    write("a [b] */hubd.toml", 'include = ["more.toml", "x/*.toml", "~/one.json", "../c?.toml", "x/../d.toml"]\n')
    for name in ("more.toml", "x/y.toml", "home/one.json", "../c1.toml", "d.toml"):
        entry = Path(name).stem
        is_json = name.endswith("json")
        text = f'{{"{entry}": {{"command": "x"}}}}' if is_json else f'[upstreams.{entry}]\ncommand = "x"\n'
        write(f"a [b] */{name}", text)
    loaded = read(here)
    assert list(loaded.config.upstreams) == ["more", "y", "one", "c1", "d"]
    assert loaded.named_directories == (here / "upstreams.d", here / "imported", here / "x", tmp_path)


def test_links_that_lead_back_do_no_harm(write, tmp_path):
    write("hubd.toml", 'include = ["tree/**/*.toml"]\n')
    write("tree/x/a.toml", '[upstreams.a]\ncommand = "x"\n')
    write("elsewhere/deep/b.toml", '[upstreams.b]\ncommand = "x"\n')
    write("tree/.hidden/c.toml", "broken [")
    for name, target in (("self", "."), ("again", "."), ("x/up", ".."), ("there", "../elsewhere"), ("gone", "nowhere")):
        (tmp_path / "tree" / name).symlink_to(target)
    loaded = read(tmp_path)
    assert [str(path.relative_to(tmp_path)) for path in loaded.sources[1:]] == [
        "tree/there/deep/b.toml",
        "tree/x/a.toml",
    ]


def test_a_pattern_for_any_depth_alone_means_all_files(write, tmp_path):
    write("hubd.toml", 'include = ["tree/**"]\n')
    write("tree/a.toml", '[upstreams.a]\ncommand = "x"\n')
    write("tree/x/y/b.json", '{"b": {"command": "x"}}')
    write("tree/x/README", "nothing")
    assert list(read(tmp_path).config.upstreams) == ["a", "b"]


def test_an_include_that_is_no_path(write, tmp_path):
    write("hubd.toml", 'include = ["a\\u0000b.toml", "a\\u0000*"]\n')
    assert refusal(tmp_path) == ["hubd.toml, line 1: include: holds a NUL character, which no path has"] * 2


def test_only_the_main_file_speaks_for_the_hub(write, tmp_path):
    write("hubd.toml", 'listen = "127.0.0.1:1"\n')
    write("upstreams.d/a.toml", 'auth = "none"\nunheard = 1\n[upstreams.a]\ncommand = "x"\n')
    text = "is a setting of the whole hub, and this file may only name upstreams; move it to hubd.toml"
    assert refusal(tmp_path) == [f"upstreams.d/a.toml, line 1: auth: {text}"]


def test_a_host_s_file_as_main_file_stands_alone(write, tmp_path):
    write("upstreams.d/a.toml", '[upstreams.a]\ncommand = "x"\n')
    main = write("servers.json", '{"b": {"command": "x"}}')
    loaded = load_all(main, {})
    assert (list(loaded.config.upstreams), loaded.files, loaded.directories) == (["b"], (main,), ())


# --- which one wins ---------------------------------------------------------------------------------------------------

IMPORTED = '{"mcpServers": {"git": {"command": "./old", "args": ["1"], "env": {"A": "a", "B": "b"}, "cwd": "sub"}}}'


def test_an_entry_without_a_command_adds_to_the_one_below(write, tmp_path):
    write("imported/git.json", IMPORTED)
    write("hubd.toml", '[upstreams.git]\nprefix = "g"\nenv = { B = "new", C = "c" }\ntimeouts = { call = 5 }\n')
    git = read(tmp_path).config.upstreams["git"]
    assert (git.command, git.args, git.cwd) == (
        str(tmp_path / "imported/sub/old"),
        ("1",),
        str(tmp_path / "imported/sub"),
    )
    assert git.env == {"A": Secret("a"), "B": Secret("new"), "C": Secret("c")}
    assert (git.prefix, git.timeouts.call, git.timeouts.start) == ("g", 5.0, 60.0)


def test_an_entry_with_a_command_replaces_the_one_below(write, tmp_path):
    write("imported/git.json", IMPORTED)
    write("hubd.toml", '[upstreams.git]\nurl = "https://example.com/mcp"\n')
    git = read(tmp_path).config.upstreams["git"]
    assert (git.command, git.args, git.env, git.url) == (None, (), {}, "https://example.com/mcp")


def test_what_is_imported_can_be_turned_off_and_needs_no_variables_then(write, tmp_path):
    write("imported/git.json", '{"git": {"command": "x", "env": {"A": "${UNSET}"}}}')
    write("hubd.toml", "[upstreams.git]\ndisabled = true\n")
    assert read(tmp_path).config.upstreams["git"].disabled
    write("hubd.toml", "[upstreams.git]\ndisabled = false\n")
    assert "the variable UNSET is not set" in refusal(tmp_path)[0]


def test_the_main_file_adds_to_what_the_user_has_elsewhere(write, tmp_path):
    write("hubd.toml", "[upstreams.git]\ndisabled = true\n")
    write("upstreams.d/git.json", IMPORTED)
    git = read(tmp_path).config.upstreams["git"]
    assert (git.disabled, git.args) == (True, ("1",))


@pytest.mark.covers("F-C-02")
@pytest.mark.parametrize(
    ("files", "expected"),
    [
        (
            {"hubd.toml": '[upstreams.a]\ncommand = "x"', "upstreams.d/a.toml": '\n[upstreams.a]\ncommand = "y"'},
            ['upstreams.d/a.toml, line 2: upstreams.a: "a" is also in hubd.toml, line 1; keep one of them'],
        ),
        (
            {"upstreams.d/1.json": '{"a": {"command": "x"}}', "upstreams.d/2.json": '{"a": {"command": "x"}}'},
            ['upstreams.d/2.json, line 1: a: "a" is also in upstreams.d/1.json, line 1; keep one of them'],
        ),
        (
            {"imported/1.json": '{"a": {"command": "x"}}', "imported/2.json": '{"a": {"command": "x"}}'},
            ['imported/2.json, line 1: a: "a" is also in imported/1.json, line 1; keep one of them'],
        ),
        (
            {"hubd.toml": '[upstreams.a]\ncommand = "x"', "upstreams.d/a.toml": "[upstreams.a]\ndisabled = true"},
            ['upstreams.d/a.toml, line 1: upstreams.a: "a" is also in hubd.toml, line 1; keep one of them'],
        ),
        (
            {"hubd.toml": '[upstreams.a-b]\ncommand = "x"', "imported/b.json": '{\n"A B": {"command": "x"}}'},
            [],
        ),
        (
            {"hubd.toml": '[upstreams.a_b]\ncommand = "x"', "imported/b.json": '{\n"A B": {"command": "x"}}'},
            ['imported/b.json, line 2: "A B": "a-b" is taken: it equals, or differs only in case or dashes from,'],
        ),
    ],
)  # fmt: skip
def test_a_name_stands_once_in_a_layer(write, tmp_path, files, expected):
    write("hubd.toml", "page_size = 0")
    for name, text in files.items():
        write(name, text)
    found = refusal(tmp_path) if expected else []
    assert [text.startswith(start) for text, start in zip(found, expected, strict=True)] == [True] * len(expected)


def test_one_wrong_file_of_many_refuses_all_and_every_problem_is_named(write, tmp_path):
    write("hubd.toml", 'listen = 1\n[upstreams.a]\ncommand = "x"\n')
    write("upstreams.d/b.json", '{"b": {"command": "x",}')
    write("upstreams.d/c.toml", "\n")
    write("upstreams.d/d.toml", '[upstreams.d]\ncommand = "x"\nera = "late"\n')
    assert refusal(tmp_path) == [
        "hubd.toml, line 1: listen: expected text in quotes, not a whole number",
        'upstreams.d/b.json, line 1: is not JSON at column 24: expected "," or "}"',
        "upstreams.d/c.toml: is empty; write at least one [upstreams.NAME], or remove the file",
        'upstreams.d/d.toml, line 3: upstreams.d.era: must be one of "auto", "legacy", "modern"',
    ]
    with pytest.raises(ConfigError, match=r"hubd.toml, line 1: .* \(3 more problems: see `hubd validate`\)") as caught:
        read(tmp_path)
    assert tmp_path / "upstreams.d/b.json" in caught.value.files, "a change of it may mend the whole"
    assert tmp_path / "imported" in caught.value.directories


# --- the files themselves ---------------------------------------------------------------------------------------------


@pytest.mark.covers("F-C-03")
def test_every_prefix_of_a_drop_in_is_sound_or_refused(write, tmp_path):
    write("hubd.toml", "page_size = 0\n")
    whole = '{"mcpServers": {"a": {"command": "x", "args": ["1"]}, "b": {"url": "http://h"}}}'
    write("upstreams.d/a.json", whole)
    expected = read(tmp_path).config
    for length in range(len(whole)):
        write("upstreams.d/a.json", whole[:length])
        assert refusal(tmp_path)[0].startswith("upstreams.d/a.json")
    write("upstreams.d/a.json", whole)
    assert read(tmp_path).config == expected


@pytest.mark.covers("F-C-03")
def test_what_is_no_plain_file_is_refused(write, tmp_path):
    write("hubd.toml", "page_size = 0\n")
    (tmp_path / "upstreams.d").mkdir()
    (tmp_path / "upstreams.d/dir.toml").mkdir()
    os.mkfifo(tmp_path / "upstreams.d/fifo.toml")
    (tmp_path / "upstreams.d/gone.toml").symlink_to("nowhere")
    assert [text.partition(":")[2] for text in refusal(tmp_path)] == [
        " cannot be read: it is not a plain file",
        " cannot be read: it is not a plain file",
        " cannot be read: No such file or directory",
    ]
    write("imported", "a file where a directory belongs")
    assert any("imported cannot be read: Not a directory" in text for text in refusal(tmp_path))


@pytest.mark.covers("F-C-10", "SEC-50")
@pytest.mark.parametrize("name", ["hubd.toml", "upstreams.d/a.toml", "imported/a.toml", "more.toml"])
def test_no_file_may_be_one_that_others_can_change(write, tmp_path, name):
    for file in ("upstreams.d/a.toml", "imported/b.toml", "more.toml"):
        write(file, f'[upstreams.{Path(file).stem}]\ncommand = "x"\n')
    write("imported/a.toml", "[upstreams.a]\ndisabled = true\n")
    write("hubd.toml", 'include = ["more.toml"]\n')
    read(tmp_path)
    path = tmp_path / name
    path.chmod(0o646)
    assert refusal(tmp_path)[0].startswith(f"{name}: others may write it, and it decides which commands hubd runs")
    path.chmod(0o644)
    path.parent.chmod(0o757)
    assert "others may write its directory" in refusal(tmp_path)[0]
    path.parent.chmod(0o755)


@pytest.mark.covers("F-C-10", "SEC-50")
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to someone else")
def test_no_file_may_be_someone_else_s(write, tmp_path):
    write("hubd.toml", "page_size = 0\n")
    path = write("upstreams.d/a.toml", '[upstreams.a]\ncommand = "x"\n')
    os.chown(path, 12345, 12345)
    assert refusal(tmp_path) == [
        "upstreams.d/a.toml: belongs to another user (uid 12345); it decides which commands hubd runs"
    ]


@pytest.mark.covers("F-C-11")
def test_files_of_secrets_belong_to_the_configuration(write, tmp_path):
    write("hubd.toml", '[upstreams.a]\ncommand = "x"\nenv = { TOKEN = "${file:secret}" }\n')
    assert "cannot read" in refusal(tmp_path)[0]
    write("secret", "one\n")
    loaded = read(tmp_path)
    assert loaded.files == (tmp_path / "hubd.toml", tmp_path / "hubd.env", tmp_path / "secret")
    write("secret", "two\n")
    assert read(tmp_path).config.upstreams["a"].env == {"TOKEN": Secret("two")}
    (tmp_path / "secret").unlink()
    with pytest.raises(ConfigError) as caught:
        read(tmp_path)
    assert tmp_path / "secret" in caught.value.files


# --- where values come from -------------------------------------------------------------------------------------------


def test_each_value_is_traced_to_its_line(write, tmp_path):
    main = write(
        "hubd.toml", '# mine\npage_size = 5\n\n[upstreams.git]\nprefix = "g"\n[upstreams.git.env]\nB = "new"\n'
    )
    imported = write(
        "imported/git.json",
        '{"mcpServers": {\n  "git": {\n    "command": "x",\n    "environment": {\n      "A": "a",\n      "B": "b"}}}}',
    )
    origins = read(tmp_path).origins
    assert origins == {
        ("page_size",): Origin(main, 2, Layer.USER),
        ("upstreams", "git"): Origin(imported, 2, Layer.IMPORTED),
        ("upstreams", "git", "command"): Origin(imported, 3, Layer.IMPORTED),
        ("upstreams", "git", "env"): Origin(main, 6, Layer.USER),
        ("upstreams", "git", "env", "A"): Origin(imported, 5, Layer.IMPORTED),
        ("upstreams", "git", "env", "B"): Origin(main, 7, Layer.USER),
        ("upstreams", "git", "prefix"): Origin(main, 5, Layer.USER),
    }


@given(
    st.dictionaries(st.sampled_from(["a", "b", "c"]), st.sampled_from(["define", "add", "none"])),
    st.dictionaries(st.sampled_from(["a", "b", "c"]), st.sampled_from(["define", "none"])),
)
def test_the_user_s_word_counts_before_what_was_imported(tmp_path_factory, user, imported):
    directory = tmp_path_factory.mktemp("config")
    files = {directory / "hubd.toml": ("user", user), directory / "imported/all.toml": ("imported", imported)}
    for path, (layer, entries) in files.items():
        path.parent.mkdir(exist_ok=True)
        lines = ["# nothing"]
        for name, kind in entries.items():
            if kind != "none":
                settings = [f'command = "{layer}"'] if kind == "define" else []
                lines += [f"[upstreams.{name}]", *settings, f'prefix = "{name}-{layer}"']
        path.write_text("\n".join(lines))
    lost = {name for name, kind in user.items() if kind == "add" and imported.get(name) != "define"}
    if lost:
        assert len(refusal(directory)) == len(lost)
        return
    upstreams = read(directory).config.upstreams
    kinds = {name: (user.get(name), imported.get(name)) for name in ("a", "b", "c")}
    assert upstreams.keys() == {name for name, kind in kinds.items() if "define" in kind}
    for name, upstream in upstreams.items():
        assert upstream.command == ("user" if kinds[name][0] == "define" else "imported")
        assert upstream.prefix == f"{name}-{'user' if kinds[name][0] in ('define', 'add') else 'imported'}"


# --- references to what is not there ----------------------------------------------------------------------------------

LACKING = "[upstreams.a]\ncommand = 'sh'\n[upstreams.b]\nurl = '${NOT_SET}'\nheaders = { X = '${file:none}' }\n"


@pytest.mark.covers("F-C-11")
def test_who_lacks_something_can_be_left_out(tmp_path, write):
    write("hubd.toml", LACKING)
    with pytest.raises(ConfigError) as caught:
        read(tmp_path)
    assert [(each.unresolved, each.line, each.keys[2:]) for each in caught.value.diagnostics] == [
        ("b", 4, ("url",)),
        ("b", 5, ("headers", "X")),
    ]
    found = load_all(tmp_path / "hubd.toml", {}, partly=True)
    assert list(found.config.upstreams) == ["a"]
    assert found.unresolved == caught.value.diagnostics
    assert tmp_path / "none" in found.files
    write("none", "x")
    found = load_all(tmp_path / "hubd.toml", {"NOT_SET": "https://example.com/mcp"}, partly=True)
    assert (list(found.config.upstreams), found.unresolved) == (["a", "b"], ())


@pytest.mark.covers("F-C-11")
@pytest.mark.parametrize(
    ("more", "says"),
    [
        ("era = 'x'\n", "era: must be one of"),
        ("aliases = ['${']\n[upstreams.c]\ncommand = '${'\n", "has no `}`"),
        ("[cache]\nurl = '${NOT_SET}'\n", "cache.url: the variable NOT_SET"),
        ("[replica]\nname = '${NOT_SET}'\n", "replica.name: the variable NOT_SET"),
    ],
)
def test_what_no_variable_mends_is_refused_as_ever(tmp_path, write, more, says):
    write("hubd.toml", LACKING + more)
    with pytest.raises(ConfigError) as caught:
        load_all(tmp_path / "hubd.toml", {}, partly=True)
    assert says in str([str(each) for each in caught.value.diagnostics if not each.unresolved])


def test_what_is_imported_and_added_to_is_left_out_as_a_whole(tmp_path, write):
    write("hubd.toml", "[upstreams.a]\nenv = { T = '${NOT_SET}' }\n")
    write("imported/host.json", '{"mcpServers": {"a": {"command": "sh"}, "b": {"command": "sh"}}}')
    found = load_all(tmp_path / "hubd.toml", {}, partly=True)
    assert list(found.config.upstreams) == ["b"]
    assert [(each.file.name, each.unresolved) for each in found.unresolved] == [("hubd.toml", "a")]
