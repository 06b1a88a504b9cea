"""A set of tools as settings of a profile, and back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from config.name_globs import problem_of
from config.profile_settings import Profile
from hub.cli.profiles.tool_globs import Choice, can_be_named, choice_of, profiles_without, tools_of_choice, with_unknown
from hub.control.answers import ToolUse
from tests.hub.cli.configuration.test_make_change import Home

pytestmark = pytest.mark.covers("EP-10")


def tools(**servers):
    return [
        ToolUse(name=f"{server}__{name}", server=server, tool=name, tokens=10)
        for server, names in servers.items()
        for name in names.split()
    ]


FILES = tools(files="read write move delete", time="now convert", mail="send")


def test_all_of_all_says_nothing():
    assert choice_of({each.name for each in FILES}, FILES).settings() == {}


def test_whole_servers():
    chosen = {each.name for each in FILES if each.server != "mail"}
    assert choice_of(chosen, FILES, ["prompts"]).settings() == {"servers": ["files", "time", "prompts"]}


def test_a_server_with_few_exceptions_and_one_with_many():
    chosen = {"files__read", "files__write", "files__move", "mail__send", "time__now"}
    assert choice_of(chosen, FILES).settings() == {"tools": ["files__*", "time__now", "mail__*", "!files__delete"]}


def test_names_without_a_prefix_are_listed():
    bare = [ToolUse(name="read", server="bare", tokens=1), ToolUse(name="write", server="bare", tokens=1), *FILES]
    assert choice_of({"read", "write"}, bare).settings() == {"servers": ["bare"]}
    assert choice_of({"read", "write", "time__now"}, bare).tools == ("read", "write", "time__now")


def test_a_prefix_that_another_server_has_too_is_not_used():
    odd = [ToolUse(name="time__odd", server="bare", tokens=1), *tools(time="now convert", mail="send")]
    assert choice_of({"time__now", "time__convert"}, odd).settings() == {"servers": ["time"]}
    chosen = {"time__now", "time__convert", "mail__send"}
    assert choice_of(chosen, odd) == Choice(("time", "mail"))


def test_nothing():
    assert tools_of_choice(choice_of((), FILES), FILES) == []


@pytest.mark.parametrize(
    ("before", "chosen", "after"),
    [
        (Choice(("files", "hub", "db")), Choice(("mail",)), Choice(("mail", "hub", "db"))),
        (Choice(("files", "db")), Choice(), Choice()),
        (
            Choice((), ("files__*", "db__*", "!db__drop")),
            Choice((), ("mail__send",)),
            Choice((), ("mail__send", "db__*", "!db__drop")),
        ),
        (Choice((), ("files__*", "db__*", "!db__drop")), Choice(), Choice((), ("!db__drop",))),
        (Choice((), ("*",)), Choice((), ("mail__send",)), Choice((), ("mail__send",))),
    ],
)
def test_what_was_said_of_servers_that_are_not_here_stays(before, chosen, after):
    assert with_unknown(chosen, before, {"files", "time", "mail"}, FILES) == after


@given(st.sets(st.sampled_from([each.name for each in FILES]), min_size=1))
def test_what_is_chosen_is_what_is_shown(chosen):
    choice = choice_of(chosen, FILES)
    assert {each.name for each in tools_of_choice(choice, FILES)} == chosen
    assert problem_of(choice.tools) == ""


def test_leaving_one_tool_out_drops_no_server_that_is_away():
    all_names = {each.name for each in FILES}
    few = choice_of(all_names - {"files__delete"}, FILES, ["db"], {"db": "db__"})
    assert few == Choice((), ("!files__delete",))
    assert tools_of_choice(few, tools(db="query"))
    many = choice_of({"files__read"}, FILES, ["db", "prompts"], {"db": "db__"})
    assert many == Choice(("files", "db", "prompts"), ("files__read", "db__*"))
    assert tools_of_choice(many, tools(db="query"))
    bare = choice_of({"files__read"}, FILES, ["db"], {"db": ""})
    assert bare == Choice(("files", "db"), ("!files__write", "!files__move", "!files__delete"))
    assert choice_of(all_names, FILES, ["db"], {"db": "db__"}) == Choice()
    assert choice_of((), FILES, ["db"], {"db": "db__"}) == Choice(("db",), ("db__*",))
    away = {f"s{at}": f"s{at}__" for at in range(100)}
    assert problem_of(choice_of({"files__read", "time__now"}, FILES, [*away], away).tools) == ""


def test_a_server_that_is_away_and_not_to_be_shown_is_left_out_though_all_others_are_chosen():
    all_names = {each.name for each in FILES}
    assert choice_of(all_names, FILES, closed=True) == Choice(("files", "time", "mail"))
    few = choice_of(all_names - {"files__delete"}, FILES, ["db"], {"db": "db__"}, closed=True)
    assert few == Choice(("files", "time", "mail", "db"), ("!files__delete",))


ODD = ["*", "!x", "my tool", "#hash", "a?", "[a]", "x" * 300, "a\nb", "a\x1bb"]


@pytest.mark.parametrize("name", ODD)
def test_a_name_that_would_mean_something_else_is_never_written(name):
    odd = [*(ToolUse(name=each, server="bare", tokens=1) for each in (name, "read", "write")), *FILES]
    assert not can_be_named(name)
    assert choice_of({name}, odd) == Choice((), ())
    assert choice_of({name, "read"}, odd) == Choice(("bare",), ("read",))
    assert choice_of({"read", "write"}, odd) == Choice(("bare",))
    rest = {each.name for each in odd} - {"files__delete"}
    assert name not in {
        each.name for each in tools_of_choice(choice_of(rest - {"write"}, odd, ["db"], {"db": ""}), odd)
    }
    alone = [ToolUse(name=name, server="bare", tokens=1), *FILES]
    assert choice_of({each.name for each in FILES}, alone) == Choice()
    assert choice_of({"mail__send"}, alone) == Choice(("mail", "bare"))


def test_what_is_to_be_added():
    profiles = {
        "all": Profile(),
        "some": Profile(servers=("files",)),
        "both": Profile(servers=("files",), tools=("files__*",)),
        "there": Profile(servers=("time",)),
    }
    assert list(profiles_without(profiles, "time", "time")) == [
        ("some", '"time" to {whose} `servers`'),
        ("both", '"time" to {whose} `servers` and "time__*" to {whose} `tools`'),
    ]
    assert dict(profiles_without(profiles, "time", "")) == {
        "some": '"time" to {whose} `servers`',
        "both": '"time" to {whose} `servers`',
    }
    assert dict(profiles_without(profiles, "time", "t"))["both"].endswith('"t__*" to {whose} `tools`')


def test_what_hubd_add_says_of_them(tmp_path):
    home = Home(tmp_path)
    home.write(
        '[profiles.small]\ntools = ["files__*"]\n[profiles.other]\nservers = ["files"]\n'
        '[profiles.third]\nservers = ["files"]\n[profiles.whole]\n'
    )
    said = home.run("add", "time", "--", "true")
    assert (
        'hubd: note: hosts of the profile small are not shown time: add "time__*" to its `tools`, or choose with `hubd '
        "tools --pick small`\n"
        'hubd: note: hosts of the profiles other, third are not shown time: add "time" to their `servers`, or choose '
        "with `hubd tools --pick other`\n"
    ) in said
    assert "the profile other" not in home.run("add", "files", "--", "true")
    assert "are not shown" not in home.run("add", "more", "--dry-run", "--", "true")
    assert "are not shown" not in home.run("add", "files", "--", "true", code=1)
