import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.catalog.uri_tags import Template, looks_tagged, looks_ui_tagged, scheme_of, tag, untag

KNOWN = {"pg": "pg", "pg2": "Postgres 2"}


@pytest.mark.parametrize(
    ("uri", "scheme"),
    [("https://a", "https"), ("FILE:///a", "file"), ("git+ssh://a", "git+ssh"), ("a/b:c", ""), ("", ""), ("1a:b", "")],
)
def test_the_scheme(uri, scheme):
    assert scheme_of(uri) == scheme


def test_tags():
    assert tag("pg2", "postgres://db/schema") == "hub.pg2+postgres://db/schema"
    assert tag("pg2", "ui://widget/main.html") == "ui://pg2~widget/main.html"
    assert tag("pg2", "UI://widget") == "hub.pg2+UI://widget"
    assert looks_tagged("hub.gone+x:y")
    assert not looks_tagged("hub.x:y+")
    assert looks_ui_tagged("ui://a~b")
    assert looks_ui_tagged("ui://a{b}")
    assert not looks_ui_tagged("ui://a/~b")


def test_a_tag_of_no_known_server_is_none():
    for uri in ("hub.mysql+x://y", "ui://mysql~y", "hub.+x", "x://y", "ui://~x", ""):
        assert untag(uri, KNOWN) is None


def test_a_tag_survives_a_host_that_normalises_schemes():
    assert untag("HUB.pg+x://y", KNOWN) == ("pg", "x://y")


@pytest.mark.covers("G-3")
@given(
    st.sampled_from(sorted(KNOWN)), st.text() | st.from_regex(r"(hub\.pg\+|ui://pg2?~|ui://|x:){0,3}", fullmatch=True)
)
def test_untag_undoes_tag(sid, uri):
    assert untag(tag(sid, uri), KNOWN) == (KNOWN[sid], uri)


@pytest.mark.parametrize(
    ("template", "uri", "expected"),
    [
        ("a://b", "a://b", True),
        ("a://b", "a://bc", False),
        ("a://{x}", "a://b", True),
        ("a://{x}", "a://", False),
        ("a://{x}", "b://x", False),
        ("a://{x}/end", "a://x/end", True),
        ("a://{x}/end", "a:///end", False),
        ("a://{x}/m/{y}", "a://1/m/2", True),
        ("a://{x}/m/{y}", "a://1/n/2", False),
        ("a://{x}{y}", "a://1", False),
        ("a://{x}{y}", "a://12", True),
        ("a://list{?cursor}", "a://list", True),
        ("a://list{?cursor}", "a://list?cursor=1", True),
        ("a://{x}aba{y}", "a://1abab", True),
        ("a://{open", "a://{open", True),
    ],
)
def test_which_uris_a_template_may_expand_to(template, uri, expected):
    assert Template(template).matches(uri) is expected


PIECES = st.lists(st.sampled_from(["{a}", "{b}", "{?c}", "x", "y", "xy", "/"]), max_size=7)


@given(PIECES, st.text("xy/z", max_size=12))
def test_matching_agrees_with_a_regular_expression(pieces, rest):
    template = "s:" + "".join(pieces)
    gaps = {"{a}": ".+", "{b}": ".+", "{?c}": ".*"}
    pattern = "s:" + "".join(gaps.get(piece) or re.escape(piece) for piece in pieces)
    assert Template(template).matches("s:" + rest) is (re.fullmatch(pattern, "s:" + rest, re.S) is not None)


@pytest.mark.covers("F-P-16")
def test_matching_stays_linear_for_hostile_templates():
    template = Template("a:" + "{x}a" * 500 + "b")
    assert not template.matches("a:" + "a" * 20_000)
