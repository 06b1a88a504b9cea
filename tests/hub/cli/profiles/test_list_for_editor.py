"""The list of tools in an editor: how it looks, and what is made of what was saved."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.cli.profiles.list_for_editor import ListToPick, Picked
from hub.cli.profiles.tool_globs import NOBODY, Away
from hub.control.answers import ToolUse

pytestmark = pytest.mark.covers("EP-10")

TOOLS = [
    ToolUse(name="files__read", server="files", tokens=284),
    ToolUse(name="files__write_file", server="files", tokens=90),
    ToolUse(name="time__now", server="time", tokens=1100),
]


def pick_list(name, hosts, tools, chosen, away=(), texts=NOBODY):
    return ListToPick(name, hosts, tools, away, chosen).text(texts)


def read_list(text, tools, away=()):
    return ListToPick("coding", [], tools, away, set()).read(text)


LIST = pick_list("coding", ["cursor"], TOOLS, {"files__read", "time__now"})


def test_one_line_a_tool():
    assert LIST == (
        "# The tools of the profile coding (cursor): 2 tools, ~1 400 tokens, of 3 tools, ~1 500 tokens.\n"
        "# `#` before a tool leaves it out. Save and close to write the profile; close this as it is to change nothing."
        "\n"
        "\n"
        "# files: 2 tools, ~370 tokens\n"
        "files__read           ~280\n"
        "#files__write_file     ~90\n"
        "\n"
        "# time: 1 tool, ~1 100 tokens\n"
        "time__now           ~1 100\n"
    )


def test_read_again_it_is_what_was_chosen():
    assert read_list(LIST, TOOLS).names == ("files__read", "time__now")
    assert read_list(LIST, TOOLS).mistakes == ()


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (LIST.replace("#files__", "files__"), ("files__read", "files__write_file", "time__now")),
        (LIST.replace("#files__", " # files__"), ("files__read", "time__now")),
        (LIST.replace("time__now", "#time__now"), ("files__read",)),
        ("time__now", ("time__now",)),
        ("time__now\r\nfiles__read\r\n", ("files__read", "time__now")),
        ("time__now\ntime__now\n#time__now", ("time__now",)),
        ("", ()),
        ("# nothing\n\n", ()),
    ],
)
def test_what_is_chosen(text, names):
    assert read_list(text, TOOLS).names == names
    assert read_list(text, TOOLS).mistakes == ()


@pytest.mark.parametrize(
    ("text", "left_out"),
    [
        (LIST.replace("files__read", "#files__read").replace("time__now", " # time__now"), True),
        ("#time__now", True),
        (LIST, False),
        ("", False),
        ("# The tools of nobody\n# files: 2 tools\n", False),
    ],
)
def test_a_list_without_a_tool_is_meant_where_one_is_left_out_by_its_line(text, left_out):
    assert read_list(text, TOOLS).all_left_out is left_out


def test_whose_the_list_is():
    assert "profile small (of no host yet): " in pick_list("small", [], TOOLS, set())
    assert "profile default (all hosts without another one): " in pick_list("default", [], TOOLS, set())


def test_a_line_that_names_no_tool_is_a_mistake():
    assert read_list("files__raed  ~280\nq!\n", TOOLS).mistakes == (
        'line 1: there is no tool files__raed; did you mean "files__read"?',
        "line 2: there is no tool q!; each line begins with the name of a tool",
    )
    many = read_list("\n".join(["what"] * 1000), TOOLS)
    assert len(many.mistakes) == 6
    assert many.mistakes[-1] == "995 more lines name no tool"


@given(st.text(max_size=200))
def test_anything_can_be_saved(text):
    read_list(text, TOOLS)


@pytest.mark.parametrize("name", ["*", "!x", "my tool", "#hash", "read file", "x" * 5_000, "two\nlines"])
def test_a_tool_that_cannot_be_named_is_a_comment(name):
    tools = [ToolUse(name=each, server="bare", tokens=9) for each in ("read", name, "write")]
    text = pick_list("small", [], tools, {"read", name, "write"})
    (line,) = [each for each in text.splitlines() if "cannot be chosen" in each]
    assert line.startswith("# ")
    assert len(line) < 220
    assert read_list(text, tools).names == ("read", "write")
    assert read_list(text, tools).mistakes == ()
    none = read_list(text.replace("\nread", "\n#read").replace("\nwrite", "\n#write"), tools)
    assert (none.names, none.all_left_out, none.mistakes) == ((), True, ())
    assert read_list(line, tools) == Picked()


AWAY = [Away("db", "db__", "failed", True), Away("bare", "", "unauthorized", True), Away("", "old__find", "", True)]


def test_what_is_not_connected_has_lines_that_can_be_left_out():
    text = pick_list("coding", [], TOOLS, {"time__now", "db__*", "old__find"}, AWAY)
    assert text.endswith(
        "\n# not connected now: a line shows all tools that its server will have, `#` leaves them out\n"
        "db__*  db is failed\n"
        "#bare:*  bare is waiting for a sign-in\n"
        "old__find  not here now; the profile names it\n"
    )
    assert read_list(text, TOOLS, AWAY) == Picked(("time__now",), ("db__*", "old__find"))
    assert read_list("#db__*", TOOLS, AWAY) == Picked(all_left_out=True)


@pytest.mark.parametrize(
    ("description", "shown"),
    [
        ("Read a file.\n\nAnd more", "Read a file. And more"),
        ("\x1b[2J\u202eevil", r"\x1b[2J\u202eevil"),
        ("vim: set foldexpr=system('x')", "vim : set foldexpr=system('x')"),
        pytest.param("x" * 10_000, "x" * 79 + "...", id="long"),
    ],
)
def test_a_description_is_a_short_line_that_is_no_order_to_an_editor(description, shown):
    (line,) = [
        each
        for each in pick_list("x", [], TOOLS, set(), (), {"time__now": description}).splitlines()
        if each.startswith("#time__now")
    ]
    assert line.removeprefix("#time__now").strip().removeprefix("~1 100  ") == shown
    assert len(line) <= 110
