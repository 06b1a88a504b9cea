import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.catalog.uri_tags import looks_tagged, looks_ui_tagged, scheme_of, tag, untag

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
