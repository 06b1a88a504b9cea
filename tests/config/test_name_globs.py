import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from config.diagnostics import ConfigError
from config.loading.assemble import load_all
from config.name_globs import (
    ALL,
    MAX_CHARS,
    MAX_GLOBS,
    MAX_WILD,
    EachGlob,
    MetGlobs,
    NameChoice,
    NameStarts,
    is_wild,
    may_choose,
    problem_of,
    union,
)

GLOBS = st.lists(st.text("ab*?!", max_size=6), max_size=6)
NAMES = st.text("ab!\n", max_size=8)


def matches(glob: str, name: str) -> bool:
    """The naive matcher: one character after the other."""
    if not glob:
        return not name
    if glob[0] == "*":
        return matches(glob[1:], name) or (bool(name) and matches(glob, name[1:]))
    return bool(name) and glob[0] in ("?", name[0]) and matches(glob[1:], name[1:])


@given(GLOBS, NAMES)
def test_a_choice_is_what_the_naive_matcher_says(globs, name):
    away = [glob[1:] for glob in globs if glob.startswith("!")]
    given_ = [glob for glob in globs if not glob.startswith("!")]
    chosen = any(matches(glob, name) for glob in given_) or bool(away and not given_)
    assert (name in NameChoice(globs)) == (chosen and not any(matches(glob, name) for glob in away))


@given(GLOBS, GLOBS, NAMES)
def test_a_union_chooses_what_either_does_and_more_only_by_globs_that_take_away(one, other, name):
    either = name in NameChoice(one) or name in NameChoice(other)
    joined = union(one, other)
    assert (name in NameChoice(joined)) >= either
    if not any(glob.startswith("!") and is_wild(glob) for glob in (*one, *other)):
        assert (name in NameChoice(joined)) == either


@pytest.mark.parametrize(
    ("one", "other", "both"),
    [
        (["a"], ["b", "a"], ("a", "b")),
        (["a"], ["*"], ALL),
        (["!a", "!b"], ["!b", "!c"], ("!b",)),
        (["a"], ["!a", "!b"], ("!b",)),
        ([], ["a"], ("a",)),
        (["!x*"], ["!x*", "!y"], ("!x*",)),
    ],
)
def test_unions(one, other, both):
    assert union(one, other) == both


@given(GLOBS, NAMES)
def test_order_means_nothing(globs, name):
    assert (name in NameChoice(globs)) == (name in NameChoice(globs[::-1]))


@pytest.mark.parametrize(
    ("globs", "left"),
    [
        (ALL, ["read", "Read", "delete_it", "a.b"]),
        ([], []),
        (["!delete_*"], ["read", "Read", "a.b"]),
        (["read"], ["read"]),
        (["*", "!read"], ["Read", "delete_it", "a.b"]),
        (["?ead"], ["read", "Read"]),
        (["a.b", "a*c"], ["a.b"]),
        (["!*"], []),
    ],
)
def test_a_glob_means_the_whole_name_and_case_counts(globs, left):
    assert [name for name in ("read", "Read", "delete_it", "a.b") if name in NameChoice(globs)] == left


def test_no_glob_and_no_name_makes_it_slow():
    worst = NameChoice(["a*" * (MAX_CHARS // 2 - 1) + "b"] * (MAX_WILD - 1) + ["!" + "*?" * (MAX_CHARS // 2 - 1)])
    began = time.process_time()
    for length in range(MAX_CHARS - 20, MAX_CHARS + 20):
        assert "a" * length not in worst
    assert time.process_time() - began < 5


def test_a_name_too_long_for_any_glob_is_left_out_where_there_is_a_choice():
    assert "d" * 10_000 in NameChoice(ALL)
    assert "d" * (MAX_CHARS + 1) not in NameChoice(["!x*"])
    assert "d" * MAX_CHARS in NameChoice(["!x*"])


@pytest.mark.parametrize(
    ("globs", "problem"),
    [
        (["a", "!b*", "*"], ""),
        ([""], "without a name"),
        (["a", "!"], "without a name"),
        (["a" * (MAX_CHARS + 1)], f"{MAX_CHARS} are the most"),
        (["a"] * (MAX_GLOBS + 1), f"{MAX_GLOBS} are the most"),
        (["a?"] * (MAX_WILD + 1), f"more than {MAX_WILD} globs"),
    ],
)
def test_globs_are_bounded(globs, problem):
    assert problem in problem_of(globs)
    assert bool(problem) == bool(problem_of(globs))


def test_a_setting_that_is_no_choice_is_refused_with_its_line(tmp_path):
    file = tmp_path / "hubd.toml"
    file.write_text('[upstreams.a]\ncommand = "a"\ntools = ["ok", ""]\n')
    with pytest.raises(ConfigError, match=r"(?s)line 3.*without a name"):
        load_all(file, {})
    file.write_text('[upstreams.a]\ncommand = "a"\ntools = ["!delete_*"]\n')
    assert load_all(file, {}).config.upstreams["a"].tools == ("!delete_*",)


_text = st.text("ab_*?", max_size=6)


@given(st.lists(_text.filter(bool), max_size=8), st.lists(st.text("ab_", max_size=6), max_size=8))
def test_a_glob_is_met_by_the_names_that_it_chooses(globs, names):
    each = EachGlob(["*", *globs, *(f"!{glob}" for glob in globs[:2])], ["*a"])
    meets = MetGlobs(each)
    for name in (*names, "a" * (MAX_CHARS + 1)):
        meets.look_at(name)
    wanted = {glob for glob in globs if glob != "*" and any(name in NameChoice((glob,)) for name in names)}
    assert meets.notes() == wanted
    assert MetGlobs(each).notes() == frozenset(), "looking changes nothing for others"


def test_a_name_with_a_star_in_it_is_met_by_itself_only():
    meets = MetGlobs(EachGlob([], ["a*", "!b"]))
    for name in ("ab", "b"):
        meets.look_at(name)
    assert meets.notes() == frozenset()
    for name in ("a*", "!b"):
        meets.look_at(name)
    assert meets.notes() == {"a*", "!b"}


@given(_text.filter(bool), st.sampled_from(["a", "b", "ab", "a_", "a__b", "_a"]), st.text("ab_", max_size=4))
def test_what_chooses_a_name_of_a_server_fits_its_beginning(glob, id, rest):
    if f"{id}__{rest}" in NameChoice((glob,)):
        assert NameStarts([id]).fit(glob)
        assert NameStarts([id]).fit(f"!{glob}")
    assert NameStarts([], any_name=True).fit(glob)
    assert not NameStarts([]).fit(glob)


def test_what_cannot_be_a_name_of_a_server_does_not_fit():
    starts = NameStarts(["github", "my-files"])
    fitting = ["github__*", "git*", "*", "?ithub__x", "my-files__read", "!github__x", "github_*", "*__read"]
    assert list(filter(starts.fit, fitting)) == fitting
    assert not any(map(starts.fit, ["gihub__*", "files__read", "github", "create_issue", "hub*", "github_x*", ""]))


@pytest.mark.parametrize(
    ("globs", "may"),
    [
        (("*",), True),
        (("files__*",), False),
        (("files__*", "time__now"), True),
        (("time__*",), True),
        (("t*",), True),
        (("*__read",), True),
        (("?ime__now",), True),
        (("times__*",), False),
        (("time",), False),
        (("!files__*",), True),
        (("!time__*",), False),
        (("!t*",), False),
        (("!time__now",), True),
        (("*", "!time__*"), False),
        (("*", "!*__now"), True),
        ((), False),
    ],
)
def test_globs_that_may_choose_a_name(globs, may):
    assert may_choose(globs, "time__") is may
