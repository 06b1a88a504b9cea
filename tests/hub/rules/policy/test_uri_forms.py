"""The forms of URIs."""

import pytest

from config.policy.selectors import spell_uri
from hub.rules.policy.uri_forms import forms_of


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
        ("file:///C|/x", None),
        ("file:///e\ttc/passwd", None),
        ("file:///home/.\t./etc/passwd", None),
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
    assert (forms_of(uri) or (None,))[0] == form
    if form is not None and "%" not in form:
        assert forms_of(form) == (form,)


@pytest.mark.parametrize(
    ("uri", "form"),
    [
        ("note://vault/secret", "note://vault/secret"),
        ("NOTE://Vault/secret", "note://vault/secret"),
        ("note://vault/x/../secret", "note://vault/secret"),
        ("note://vault/./secret", "note://vault/secret"),
        ("note://vault/%2E%2e/secret", "note://vault/secret"),
        ("note://vault/a%2f..%2Fsecret", "note://vault/secret"),
        ("note://vault/%73ecret", "note://vault/secret"),
        ("note://vault/top%2Bsecret", "note://vault/top+secret"),
        ("note:a", "note:a"),
        ("note://vault", "note://vault"),
        ("https://Example.com:443", "https://example.com/"),
        ("https://example.com:8443/a/../b?c=/../d", "https://example.com:8443/b?c=/../d"),
        ("http://127.0.0.1/a", "http://127.0.0.1/a"),
        ("note", "note"),
        *((f"note://vault/secret{end}", None) for end in " \n\t\r\0\x7f\xa0"),
        (" note://vault/secret", None),
        ("no\tte://vault/secret", None),
        ("https:example.com/a", None),
        ("https:///example.com/a", None),
        ("https:\\\\example.com\\a", None),
        ("https://user@example.com/a", None),
        ("https://ex\u00adample.com/a", None),
        ("https://%65xample.com/a", None),
        ("http://0x7f.1/a", None),
        ("http://2130706433/", None),
    ],
)
@pytest.mark.covers("POL-09")
def test_uris_have_the_form_that_the_most_generous_reader_understands(uri, form):
    assert (forms_of(uri) or (None,))[0] == form


@pytest.mark.covers("POL-09")
def test_escapes_that_mean_nothing_are_no_other_spelling():
    assert forms_of("note://vault/s%C3%A9cr%65t") == forms_of("note://vault/sécret") == ("note://vault/sécret",)
    assert spell_uri("a%2f%ff%2a%41%73%ffb%zz") == "a%2F%FF%2AAs%FFb%zz"


def test_the_host_of_a_template_may_go_on():
    assert forms_of("https://api.", is_start=True) == ("https://api.",)
    assert forms_of("https://API.example.com/x", is_start=True)[0] == "https://api.example.com/x"
    assert forms_of("note://", is_start=True) == ("note://",)
    assert forms_of("", is_start=True) == ("",)
