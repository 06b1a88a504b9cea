"""`file:` URIs in one form."""

import pytest

from hub.rules.policy.file_uris import is_file_uri, normal_form


@pytest.mark.parametrize(
    ("uri", "form"),
    [
        ("file:///etc/passwd", "file:///etc/passwd"),
        ("FILE:///etc/passwd", "file:///etc/passwd"),
        ("file:/etc/passwd", "file:///etc/passwd"),
        ("file://localhost/etc/passwd", "file:///etc/passwd"),
        ("file:////etc//passwd", "file:///etc/passwd"),
        ("file:///home/../etc/./passwd", "file:///etc/passwd"),
        ("file:///home/%2e%2E/etc/passwd", "file:///etc/passwd"),
        ("file:///%65tc/p%61sswd", "file:///etc/passwd"),
        ("file:///../../etc/passwd", "file:///etc/passwd"),
        ("file:///a/", "file:///a/"),
        ("file:///a/b/..", "file:///a/"),
        ("file:///", "file:///"),
        ("file:///a%20b%C3%A9", "file:///a bé"),
        ("file:///a?x=/../b", "file:///a?x=/../b"),
        ("file:///a#..", "file:///a#.."),
        ("file:///100%25", "file:///100%"),
        ("file:///a%2fb", None),
        ("file:///a%2Fb", None),
        ("file:///a%5cb", None),
        ("file:///a\\b", None),
        ("file:///a%00", None),
        ("file:///a%252fb", None),
        ("file:///a%zz", None),
        ("file:///a%", None),
        ("file:///%ff", None),
        ("file://other/etc/passwd", None),
        ("file:etc/passwd", None),
    ],
)
@pytest.mark.covers("POL-09")
def test_all_spellings_of_a_file_have_one_form(uri, form):
    assert is_file_uri(uri)
    assert normal_form(uri) == form
    if form is not None and "%" not in form:
        assert normal_form(form) == form


def test_other_uris_are_left_alone():
    assert not is_file_uri("files:///a")
    assert not is_file_uri("note:file:///a")
