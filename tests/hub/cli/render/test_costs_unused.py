"""`hubd tools --unused`: the tools that nobody called."""

import pytest
from msgspec import structs

from hub.cli.render.costs import NOT_KEPT, blocks_of_unused, json_of_unused
from hub.control.answers import ToolUse, ToolUses
from tests.support.terminal import drawn, widest

pytestmark = pytest.mark.covers("ET-3")

USES = ToolUses(
    tools=(
        ToolUse(name="files__read", server="files", tokens=284, calls={"cursor": 4}, last="2026-11-22"),
        ToolUse(name="files__move", server="files", tokens=90),
        ToolUse(name="github__delete", server="github", tokens=900),
        ToolUse(name="github__create", server="github", tokens=6025, last="2026-09-30"),
    ),
    since="2026-08-01",
    today="2026-11-23",
)


def test_by_server_the_most_expensive_first():
    assert drawn(*blocks_of_unused(USES), width=80) == (
        "TOOL            TOKENS  LAST CALL\n"
        "files__move        ~90  -\n"
        "github__create  ~6 000  2026-09-30\n"
        "github__delete    ~900  -\n"
        "\n"
        "3 of 4 tools, ~7 000 tokens: not called for 30 days\n"
    )


@pytest.mark.parametrize("width", [20, 60, 80, 120])
def test_it_fits(width):
    assert widest(drawn(*blocks_of_unused(USES), width=width)) <= width


def test_of_one_server():
    assert "1 of 2 tools" in drawn(*blocks_of_unused(USES, "files"))
    assert [each["name"] for each in json_of_unused(USES, "files")["tools"]] == ["files__move"]


@pytest.mark.parametrize(
    ("since", "said"), [("2026-11-23", "(today)"), ("2026-11-22", "(yesterday)"), ("2026-11-13", "(10 days ago)")]
)
def test_a_young_record_says_when_it_began(since, said):
    shown = drawn(*blocks_of_unused(structs.replace(USES, since=since)), width=120)
    assert f"not called since {since}, when the counting began {said}" in shown


def test_without_a_record_nothing_is_called_unused():
    nothing = structs.replace(USES, since=None)
    assert drawn(*blocks_of_unused(nothing), width=200).strip() == NOT_KEPT
    assert json_of_unused(nothing) == {"since": None, "days": 30, "tools": []}


def test_nothing_to_list():
    used = structs.replace(USES, tools=USES.tools[:1])
    assert drawn(*blocks_of_unused(used)) == "every one of 1 tools was called in the last 30 days\n"
    assert drawn(*blocks_of_unused(structs.replace(USES, tools=()))) == "no tools\n"
