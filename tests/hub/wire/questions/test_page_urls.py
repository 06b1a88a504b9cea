"""Page URLs: to which pages people are sent, and which host they are shown."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.wire.questions.page_urls import MAX_URL_CHARS, ForbiddenUrl, host_of
from tests.support.tables import each_row


@pytest.mark.covers("SEC-86")
@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("https://example.com", "example.com"),
        ("HTTPS://Example.COM/Path?q=1#f", "example.com"),
        ("https://example.com:8443/a%20b;c,d(e)'!*$&+=~", "example.com:8443"),
        ("https://example.com?q=a@b:c", "example.com"),
        ("https://xn--80ak6aa92e.com/", "xn--80ak6aa92e.com"),
        ("https://a_b.example.com./", "a_b.example.com."),
        ("https://192.0.2.7/", "192.0.2.7"),
        ("https://[2001:db8::1]:443/", "[2001:db8::1]:443"),
        ("https://intranet/", "intranet"),
        ("http://127.0.0.1:8080/callback", "127.0.0.1:8080"),
        ("http://127.255.0.9/", "127.255.0.9"),
        ("http://[::1]:1/", "[::1]:1"),
        ("http://localhost:65535/", "localhost:65535"),
        ("http://LOCALHOST", "localhost"),
        ("https://" + "a" * 60 + ".example/" + "x" * (MAX_URL_CHARS - 77), "a" * 60 + ".example"),
    ],
)
def test_pages_that_people_may_visit(url, host):
    assert host_of(url) == host


REFUSED = {
    "a script": "javascript:alert(1)",
    "a file": "file:///etc/passwd",
    "data": "data:text/html,<b>x</b>",
    "no web": "ftp://example.com/",
    "unencrypted": "http://example.com/",
    "nearly here": "http://localhost.example.com/",
    "nearly here, too": "http://127.0.0.1.example.com/",
    "not loopback": "http://128.0.0.1/",
    "not loopback v6": "http://[::2]/",
    "mapped loopback": "http://[::ffff:127.0.0.1]/",
    "loopback in disguise": "http://2130706433/",
    "loopback shortened": "http://127.1/",
    "loopback in hexadecimal": "http://0x7f.0.0.1/",
    "loopback in octal": "http://0177.0.0.1/",
    "a number over https": "https://2130706433/",
    "a user": "https://example.com@evil.example/",
    "a user and a password": "https://a:b@evil.example/",
    "an empty user": "https://@evil.example/",
    "ESC": "https://example.com/\x1b[2J",
    "NUL": "https://example.com/\0",
    "a line end": "https://example.com/\n",
    "a tab in the scheme": "java\tscript:alert(1)",
    "DEL": "https://example.com/\x7f",
    "C1": "https://example.com/\x9b",
    "bidi": "https://example.com/\u202egpj.exe",
    "isolate": "https://example.com/\u2066x",
    "zero width": "https://exam\u200bple.com/",
    "tag": "https://example.com/\U000e0041",
    "soft hyphen": "https://exam\xadple.com/",
    "homograph": "https://\u0430pple.com/",
    "full width stop": "https://example\uff0ecom/",
    "a lone surrogate": "https://example.com/\ud800",
    "a space": "https://example.com/ x",
    "a leading space": " https://example.com/",
    "a no-break space": "https://example.com/\xa0",
    "a backslash": "https://example.com\\@evil.example/",
    "backslashes": "https:\\\\example.com/",
    "one slash": "https:/example.com/",
    "no scheme": "//example.com/",
    "three slashes": "https:///example.com/",
    "no host": "https://",
    "a port alone": "https://:443/",
    "an empty port": "https://example.com:/",
    "a port too high": "https://example.com:65536/",
    "two ports": "https://example.com:1:2/",
    "an empty label": "https://example..com/",
    "a hyphen first": "https://-example.com/",
    "an encoded host": "https://%65xample.com/",
    "a long label": "https://" + "a" * 64 + ".com/",
    "a long name": "https://" + "a." * 130 + "com/",
    "brackets": "https://[example.com]/",
    "half a bracket": "https://[::1/",
    "a zone": "http://[fe80::1%25eth0]/",
    "quotes": 'https://example.com/"x',
    "markup": "https://example.com/<x>",
    "too long": "https://example.com/" + "x" * MAX_URL_CHARS,
    "empty": "",
}


@pytest.mark.covers("SEC-86")
@each_row("url", REFUSED.values())
def test_pages_to_which_nobody_is_sent(url):
    with pytest.raises(ForbiddenUrl) as caught:
        host_of(url)
    said = str(caught.value)
    assert said.isprintable()
    assert said.isascii()
    assert len(said) < 200


@pytest.mark.covers("SEC-86")
@given(st.text(max_size=40), st.sampled_from(["", "https://", "http://", "https://example.com", "http://localhost"]))
def test_whatever_passes_is_plain_and_has_the_host_that_is_told(text, before):
    try:
        host = host_of(before + text)
    except ForbiddenUrl:
        return
    assert (before + text).isascii()
    assert (before + text).isprintable()
    assert "@" not in host
    assert (before + text).lower().startswith((f"https://{host}", f"http://{host}"))
