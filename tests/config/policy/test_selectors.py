"""Selectors: terms, and what they mean."""

from fnmatch import fnmatchcase

import pytest
from hypothesis import given
from hypothesis import strategies as st

from config.policy.selectors import MARKS, BadSelector, CallerTerm, Thing, read_selector, without_others


def means(text, name, kind="tool", upstream="", marks=()):
    return read_selector(text).means(Thing(kind, name, upstream, frozenset(marks)))


@pytest.mark.covers("POL-03")
def test_all_terms_must_hold():
    assert means("mail__*", "mail__send")
    assert not means("mail__*", "Mail__send")
    assert not means("mail__*", "xmail__send")
    assert means("mail__* !*__send", "mail__read")
    assert not means("mail__* !*__send", "mail__send")
    assert means("!@read-only", "x")
    assert not means("!@read-only", "x", marks=["read-only"])
    assert means("@open-world upstream:crm", "x", upstream="crm", marks=["open-world"])
    assert not means("@open-world upstream:crm", "x", upstream="other", marks=["open-world"])
    assert means("host:cursor", "anything")
    assert not means("*", "a", kind="prompt")
    assert means("prompt:*", "a", kind="prompt")
    assert means("resource:file:///etc/*", "file:///etc/passwd", kind="resource")
    assert not means("!prompt:a*", "ab", kind="prompt")
    assert means("!prompt:a*", "b", kind="prompt")


@pytest.mark.covers("POL-03")
def test_terms_about_callers_are_told_apart():
    selector = read_selector('host:cursor !principal:team/alice "group:Domain Users" scope:mcp:x profile:work *')
    assert selector.by == (
        (CallerTerm("host", "cursor"), False),
        (CallerTerm("principal", "team/alice"), True),
        (CallerTerm("group", "Domain Users"), False),
        (CallerTerm("scope", "mcp:x"), False),
        (CallerTerm("profile", "work"), False),
    )
    facts = {CallerTerm("host", "cursor"), CallerTerm("group", "Domain Users")}
    facts |= {CallerTerm("scope", "mcp:x"), CallerTerm("profile", "work")}
    assert selector.admits(facts.__contains__)
    assert not selector.admits({*facts, CallerTerm("principal", "team/alice")}.__contains__)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "is empty"),
        ("   ", "is empty"),
        ("!", "without a value"),
        ("host:", "without a value"),
        ("@", "without a value"),
        ("@readonly", "unknown mark"),
        ("hots:cursor", "unknown kind"),
        ("prompt:* @destructive", "at once"),
        ("prompt:* resource:*", "at once"),
        ('a "b', "is empty, or has a single"),
        ("x" * 2000, "characters"),
        ("resource:" + "x" * 300, "a glob of"),
        ("a " * 20, "20 terms"),
    ],
)
@pytest.mark.covers("POL-03")
def test_what_is_no_selector_says_why(text, reason):
    with pytest.raises(BadSelector, match=reason):
        read_selector(text)


NAMES = st.text("abc_", max_size=6)
GLOBS = st.text("abc_*?", min_size=1, max_size=5)


@st.composite
def terms(draw):
    what = draw(st.sampled_from(("glob", "mark", "upstream")))
    negated = draw(st.booleans())
    text = {"glob": GLOBS, "mark": st.sampled_from(MARKS).map("@{}".format), "upstream": st.just("upstream:u")}[what]
    return ("!" if negated else "") + draw(text)


def naive(texts, thing):
    for text in texts:
        bare = text.removeprefix("!")
        if bare.startswith("@"):
            holds = bare[1:] in thing.marks
        elif bare.startswith("upstream:"):
            holds = thing.upstream == bare.partition(":")[2]
        else:
            holds = fnmatchcase(thing.name, bare)
        if holds is text.startswith("!"):
            return False
    return True


@pytest.mark.covers("POL-03")
@given(
    texts=st.lists(terms(), min_size=1, max_size=4),
    thing=st.builds(
        Thing, st.just("tool"), NAMES, st.sampled_from(("u", "v")), st.frozensets(st.sampled_from(MARKS), max_size=4)
    ),
)
def test_it_means_what_a_naive_matcher_says(texts, thing):
    assert read_selector(" ".join(texts)).means(thing) is naive(texts, thing)


def test_long_names_and_hostile_globs_take_no_time():
    assert not means("*a*a*a*a*a*a*a*a*b", "a" * 20_000)
    assert not means("resource:*a*a*a*a*a*a*a*b", "a" * 20_000, kind="resource")


@pytest.mark.covers("POL-12")
def test_a_choice_by_globs_is_a_denial_of_the_others():
    assert without_others(("read_*", "list", "!read_x")) == ("read_x", "!read_* !list")
    assert without_others(("!delete_*",)) == ("delete_*",)
    assert without_others(()) == ("*",)
    assert without_others(("*",)) == ()
