"""Changes of hubd's own files: only what was meant changes, and nothing that would break the whole is saved."""

import json
import re
import tomllib
from datetime import UTC, datetime

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from config.diagnostics import ConfigError, EditError
from config.editing.draft_across_files import NEW_FILE, Draft

BUSY = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
NOW = datetime(2026, 11, 21, 12, 30, 15, tzinfo=UTC)
FILES = """\
# mine, keep
listen = "127.0.0.1:0"  # any

# the first
[upstreams.first]   # here
command = 'a'
args = [ "x",   # why
         "y" ]

    [upstreams.first.env]
    A = "1"

[upstreams.second]
url = "https://example.com"
"""


class Home:
    """A directory of configuration files."""

    def __init__(self, directory):
        self.main = directory / "hubd.toml"
        self.backups = directory / "state"

    def write(self, text, name="hubd.toml"):
        path = self.main.parent / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(text.encode())
        return path

    def draft(self, **environ):
        return Draft(self.main, environ)

    def save(self, draft):
        assert draft.problems() == []
        return draft.save(NOW, self.backups)

    def text(self):
        return self.main.read_bytes().decode()


@pytest.fixture
def home(tmp_path):
    return Home(tmp_path)


def changed(home, change):
    """Save one change; the text of the main file."""
    draft = home.draft()
    change(draft)
    home.save(draft)
    return home.text()


# --- add --------------------------------------------------------------------------------------------------------------


def test_the_first_server_makes_the_file(home):
    text = changed(home, lambda draft: draft.add("a", {"command": "x", "args": ['"', "\\", "é\n"]}))
    assert text.startswith("#:schema ")
    assert text.startswith(NEW_FILE)
    assert tomllib.loads(text) == {"upstreams": {"a": {"command": "x", "args": ['"', "\\", "é\n"]}}}
    assert home.main.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("end", ["", "\n", "\r\n", "\n\n\n", "\n# the end"])
def test_what_is_there_stays_as_it_is(home, end):
    before = FILES.rstrip("\n") + end
    home.write(before)
    text = changed(home, lambda draft: draft.add("third", {"command": "z"}))
    assert text.startswith(before)
    assert tomllib.loads(text)["upstreams"]["third"] == {"command": "z"}
    assert changed(home, lambda draft: draft.remove("third")).rstrip() == before.rstrip()


def test_links_are_followed_and_modes_kept(home, tmp_path):
    real = home.write(FILES, "elsewhere/real.toml")
    real.chmod(0o640)
    home.main.symlink_to(real)
    [backup] = changed_files(home, lambda draft: draft.add("third", {"command": "z"}))
    assert home.main.is_symlink()
    assert real.stat().st_mode & 0o777 == 0o640
    assert "[upstreams.third]" in real.read_text()
    assert backup.read_text() == FILES
    assert backup.stat().st_mode & 0o777 == 0o600


def changed_files(home, change):
    draft = home.draft()
    change(draft)
    return home.save(draft).values()


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("My Server", 'for instance "my-server"'),
        ("a__b", 'for instance "a-b"'),
        ("first", r"already, in .*/hubd.toml, line 5$"),
        ("dropped", r"already, in .*/upstreams.d/x.json, line 1$"),
    ],
)
def test_a_name_that_cannot_be(home, name, expected):
    home.write(FILES)
    home.write('{"mcpServers": {"dropped": {"command": "x"}}}', "upstreams.d/x.json")
    with pytest.raises(EditError, match=expected):
        home.draft().add(name, {"command": "x"})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[upstreams", "is not TOML"),
        ("upstreams = { a = { command = 'x' } }\n", "by hand"),
        ('[mcp_servers.x]\ncommand = "y"\n', "is the file of a host"),
    ],
)
def test_a_file_that_cannot_be_edited_for_certain_is_left_alone(home, text, expected):
    home.write(text)
    with pytest.raises((EditError, ConfigError), match=expected):
        home.draft().add("b", {"command": "x"})
    assert home.text() == text


@pytest.mark.covers("F-C-02", "I-7")
def test_what_would_be_wrong_is_said_with_its_line(home):
    home.write(FILES)
    draft = home.draft()
    draft.add("third", {"url": "nonsense", "headers": {"A": "${UNSET_HERE}"}})
    problems = draft.problems()
    assert {problem.keys[:2] for problem in problems} == {("upstreams", "third")}
    assert any("UNSET_HERE is not set" in problem.text and problem.line == 18 for problem in problems)
    assert home.text() == FILES


def test_what_was_wrong_before_is_no_hindrance(home):
    home.write(FILES + "[upstreams.broken]\ncommand = 'x'\nargs = ['${UNSET_HERE}']\n")
    draft = home.draft()
    draft.switch("broken", disabled=True)
    assert list(home.save(draft)) == [home.main]
    assert home.draft().problems_of_main() == []


def test_a_file_that_changes_meanwhile_is_left_alone(home):
    home.write(FILES)
    draft = home.draft()
    draft.add("third", {"command": "z"})
    home.write(FILES + "# and more\n")
    with pytest.raises(EditError, match="changed by another program meanwhile"):
        draft.save(NOW, home.backups)
    assert home.text() == FILES + "# and more\n"


# --- remove -----------------------------------------------------------------------------------------------------------


def test_remove_takes_the_tables_and_leaves_the_words(home):
    home.write(FILES)
    text = changed(home, lambda draft: draft.remove("first"))
    assert text == FILES[: FILES.index("[upstreams.first]")] + FILES[FILES.index("\n[upstreams.second]") :]


def test_the_last_server_leaves_a_file_that_is_not_empty(home):
    home.write("[upstreams.only]\ncommand = 'x'\n")
    assert changed(home, lambda draft: draft.remove("only")) == NEW_FILE
    path = home.write("[upstreams.only]\ncommand = 'x'\n", "upstreams.d/only.toml")
    changed(home, lambda draft: draft.remove("only"))
    assert path.read_text() == "# No servers are left here.\n"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("upstreams.d/x.toml", "# mine\n[upstreams.x]\ncommand = 'x'\n[upstreams.y]\ncommand = 'y'\n"),
        (
            "upstreams.d/x.json",
            '{\n  "mcpServers": { // mine\n    "x": {"command": "x"},\n    "y": {"command": "y"}\n  }\n}\n',
        ),
        ("imported/x.yaml", "mcpServers:  # mine\n  x:\n    command: x\n  y:\n    command: y\n"),
    ],
)
def test_an_entry_is_removed_where_it_stands(home, name, text):
    home.write(FILES + "[upstreams.x]\ndisabled = true\n")
    path = home.write(text, name)
    assert home.draft().upstreams["x"].value("disabled") is True
    draft = home.draft()
    assert draft.remove("x") is None
    assert home.save(draft).keys() == {path, home.main}
    assert home.text() == FILES
    assert "mine" in path.read_text()
    assert list(home.draft().upstreams) == ["first", "second", "y"]


def test_what_lies_beneath_is_told(home):
    home.write(FILES)
    home.write('{"mcpServers": {"first": {"command": "other"}}}', "imported/h.json")
    beneath = home.draft().remove("first")
    assert beneath.source.path.name == "h.json"


def test_a_name_that_is_not_there_brings_the_nearest(home):
    home.write(FILES)
    for change in (lambda draft: draft.remove("frist"), lambda draft: draft.switch("frist", disabled=True)):
        with pytest.raises(EditError, match='there is no server "frist"; did you mean "first"'):
            change(home.draft())
    with pytest.raises(EditError, match=r"there are: first, second$"):
        home.draft().remove("zzz")


# --- disable, enable --------------------------------------------------------------------------------------------------


def test_off_and_on_again(home):
    home.write(FILES)
    off = changed(home, lambda draft: draft.switch("first", disabled=True))
    meant = tomllib.loads(FILES)
    meant["upstreams"]["first"]["disabled"] = True
    assert tomllib.loads(off) == meant
    assert [line for line in off.splitlines() if line != "disabled = true"] == FILES.splitlines()
    assert home.draft().switch("first", disabled=True) is False
    assert changed(home, lambda draft: draft.switch("first", disabled=False)) == FILES


def test_what_a_person_wrote_about_it_stays(home):
    home.write(FILES + "disabled = true  # until spring\n")
    text = changed(home, lambda draft: draft.switch("second", disabled=False))
    assert text == FILES + "disabled = false  # until spring\n"


@pytest.mark.parametrize("name", ["upstreams.d/x.json", "imported/x.json"])
@pytest.mark.parametrize("already", [False, True])
def test_a_file_of_a_host_is_overruled_in_the_main_file(home, name, already):
    entry = {"command": "x", "disabled": already}
    text = json.dumps({"mcpServers": {"x": {k: v for k, v in entry.items() if v}}})
    path = home.write(text, name)
    home.write(FILES)
    draft = home.draft()
    assert draft.switch("x", disabled=not already)
    home.save(draft)
    assert home.text() == f"{FILES}\n[upstreams.x]\ndisabled = {str(not already).lower()}\n"
    assert path.read_text() == text
    draft = home.draft()
    assert draft.switch("x", disabled=already)
    home.save(draft)
    assert home.draft().upstreams["x"].value("disabled") in ((already,) if already else (None, False))
    if not already:
        assert home.text() == FILES, "what was added is gone"


def test_an_imported_one_that_was_adjusted_is_turned_off_there(home):
    home.write('{"mcpServers": {"x": {"command": "x"}}}', "imported/x.json")
    home.write("[upstreams.x]\nidle_stop_s = 5\n")
    assert tomllib.loads(changed(home, lambda draft: draft.switch("x", disabled=True))) == {
        "upstreams": {"x": {"idle_stop_s": 5, "disabled": True}}
    }


# --- another value ----------------------------------------------------------------------------------------------------


def test_a_setting_gets_another_value_where_it_stands(home):
    home.write("# mine\n[upstreams.x]\ncommand = 'npx'  # of nvm\nargs = ['-y', 'x']\n")
    text = changed(home, lambda draft: draft.assign("x", "command", "/n/npx"))
    assert text == "# mine\n[upstreams.x]\ncommand = \"/n/npx\"  # of nvm\nargs = ['-y', 'x']\n"


def test_a_value_of_an_imported_entry_is_overruled_in_the_main_file(home):
    path = home.write('{"mcpServers": {"x": {"command": "npx", "args": ["-y", "x"]}}}', "imported/x.json")
    before = path.read_text()
    home.write(FILES)
    assert changed(home, lambda draft: draft.assign("x", "command", "/n/npx")) == (
        f'{FILES}\n[upstreams.x]\ncommand = "/n/npx"\n'
    )
    assert path.read_text() == before
    assert home.draft().upstreams["x"].value("command") == "/n/npx"


def test_a_value_that_a_host_s_own_file_has_is_left_to_that_file(home):
    home.write('{"mcpServers": {"x": {"command": "npx"}}}', "upstreams.d/x.json")
    home.write(FILES)
    with pytest.raises(EditError, match=r"x\.json.*change it there"):
        home.draft().assign("x", "command", "/n/npx")


# --- any document -----------------------------------------------------------------------------------------------------

NAMES = st.sampled_from(["a", "b-c", "long-name", "z9"])
TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\r", exclude_categories=["Cs"]), max_size=12)
COMMENT = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), max_size=12).map(
    lambda text: f"# {text}"
)
LINES = st.lists(st.one_of(COMMENT, st.just(""), st.just("   ")), max_size=3)


@st.composite
def documents(draw):
    """A hubd.toml as people write them."""
    lines = [*draw(LINES)]
    if draw(st.booleans()):
        lines += [f"drain_s = {draw(st.integers(0, 99))} {draw(COMMENT)}", *draw(LINES)]
    for name in draw(st.lists(NAMES, unique=True, max_size=3)):
        indent = draw(st.sampled_from(["", "  ", "\t"]))
        header = draw(st.sampled_from([f"[upstreams.{name}]", f'[ upstreams . "{name}" ]', f"['upstreams'.{name}]"]))
        lines += [*draw(LINES), f"{indent}{header} {draw(COMMENT)}"]
        lines += [f"{indent}command = {json.dumps(draw(st.sampled_from(['x', 'a b', '#'])))}", *draw(LINES)]
        if draw(st.booleans()):
            lines += [f"{indent}args = [", *draw(LINES), f"  {json.dumps('é [x]')}, {draw(COMMENT)}", "]", *draw(LINES)]
        if draw(st.booleans()):
            lines += [f"{indent}[upstreams.{name}.env]", "A='''\n[upstreams.q]\n'''", *draw(LINES)]
    line = draw(st.sampled_from(["\n", "\r\n"]))
    return line.join(lines) + draw(st.sampled_from(["", line]))


VALUES = st.fixed_dictionaries(
    {"command": st.just("x")},
    optional={
        "args": st.lists(TEXT, max_size=3),
        "env": st.dictionaries(st.text("AB_é ", min_size=1), TEXT, max_size=2),
    },
)


@settings(max_examples=150, deadline=None, suppress_health_check=BUSY)
@given(text=documents(), values=VALUES)
def test_a_server_that_comes_and_goes_leaves_no_trace(home, text, values):
    home.write(text)
    draft = home.draft()
    draft.add("new", values)
    after = draft.text()
    assert after.startswith(text)
    meant = tomllib.loads(text)
    assert tomllib.loads(after) == {**meant, "upstreams": {**meant.get("upstreams", {}), "new": values}}
    home.write(after)
    draft = home.draft()
    draft.remove("new")
    left = draft.text()
    if text.strip():
        assert left.rstrip("\r\n") == text.rstrip("\r\n") or left == text
        assert left.startswith(text)


@settings(max_examples=150, deadline=None, suppress_health_check=BUSY)
@given(text=documents())
def test_a_server_turned_off_and_on_leaves_no_trace(home, text):
    home.write(text)
    for name in tomllib.loads(text).get("upstreams", {}):
        draft = home.draft()
        draft.switch(name, disabled=True)
        off = draft.text()
        meant = tomllib.loads(text)
        meant["upstreams"][name]["disabled"] = True
        assert tomllib.loads(off) == meant
        home.write(off)
        draft = home.draft()
        draft.switch(name, disabled=False)
        assert draft.text() in (text, f"{text}\n", f"{text}\r\n"), "its last line may be a whole one now"
        home.write(text)


@settings(max_examples=100, deadline=None, suppress_health_check=BUSY)
@given(text=documents())
def test_removing_one_leaves_the_others_and_all_comments(home, text):
    home.write(text)
    for name in tomllib.loads(text).get("upstreams", {}):
        draft = home.draft()
        try:
            draft.remove(name)
        except EditError:
            assert "[upstreams.q]" in text, "what looks like a header in a string is no matter of course"
            continue
        left = draft.text()
        meant = tomllib.loads(text)
        del meant["upstreams"][name]
        found = tomllib.loads(left)
        assert found.get("upstreams", {}) == meant["upstreams"]
        assert found.get("drain_s") == meant.get("drain_s")
        if left != NEW_FILE:
            gone = re.sub(r"[\r\n]+", "\n", text).splitlines()
            assert [line for line in left.splitlines() if line.startswith("#") and line not in gone] == []


def test_a_profile_is_taken_out_with_all_that_stands_below_it(home):
    table = '[profiles.work]\ntools = ["a__*"]\n[profiles.work.rename]\na__b = "c"\n# the end\n'
    home.write(f"{FILES}\n{table}")
    draft = home.draft()
    draft.remove_profile("work")
    home.save(draft)
    assert home.text() == f"{FILES}# the end\n"
    home.write(f"{FILES}\nprofiles = {{ work = {{ tools = [] }} }}\n")
    with pytest.raises(EditError, match="change it by hand"):
        home.draft().remove_profile("work")
