"""Which URIs a template may expand to."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.catalog.uri_templates import Template


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
