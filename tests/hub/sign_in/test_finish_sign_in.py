"""What a browser may come back with, and what it means."""

import os
from urllib.parse import quote, quote_plus

import pytest

from hub.sign_in.finish_sign_in import (
    MAX_DESCRIPTION,
    BadResponse,
    RefusedResponse,
    is_navigation,
    judge,
    read_pasted,
    read_query,
)
from tests.fuzz.mutation import damaged
from upstreams.oauth.model import AuthorizationServer

ISSUER = "https://id.example"
COUNT = int(os.environ.get("HUBD_FUZZ", "300"))
BROWSER = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}


def server(issuer: str, sends_issuer: bool) -> AuthorizationServer:
    return AuthorizationServer(issuer=issuer, token_endpoint=f"{issuer}/token", sends_issuer=sends_issuer)


@pytest.mark.parametrize(
    "headers", [{}, BROWSER, {**BROWSER, "sec-fetch-user": "?1"}, {**BROWSER, "sec-fetch-site": "none"}]
)
def test_a_page_that_a_person_opens(headers):
    assert is_navigation(headers)


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "https://evil.test"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:8765"},
        {**BROWSER, "sec-purpose": "prefetch"},
        {**BROWSER, "sec-purpose": "prefetch;prerender"},
        {"purpose": "prefetch"},
        {"x-moz": "prefetch"},
        {**BROWSER, "sec-fetch-dest": "iframe"},
        {**BROWSER, "sec-fetch-dest": "image", "sec-fetch-mode": "no-cors"},
        {**BROWSER, "sec-fetch-mode": "cors", "sec-fetch-dest": "empty"},
        {**BROWSER, "sec-fetch-dest": "object"},
        {**BROWSER, "sec-fetch-mode": ""},
    ],
)
def test_what_no_person_opens(headers):
    assert not is_navigation(headers)


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("", {}),
        ("code=a&state=b", {"code": "a", "state": "b"}),
        ("code=a%2Bb+c&iss=https%3A%2F%2Fid.example", {"code": "a+b c", "iss": "https://id.example"}),
        ("code&state=", {"code": "", "state": ""}),
        ("&&code=a", {"code": "a"}),
        ("code=a=b", {"code": "a=b"}),
        ("code=" + "x" * 4096, {"code": "x" * 4096}),
        ("a=%C3%BC", {"a": "ü"}),
        ("error_description=a%0Ab%1b", {"error_description": "a\nb\x1b"}),
    ],
)
def test_queries(query, found):
    assert read_query(query) == found


@pytest.mark.covers("SEC-40")
@pytest.mark.parametrize(
    "query",
    [
        "code=a&code=a",
        "state=a&%73tate=b",
        "iss=a&code=b&iss=a",
        "code=" + "x" * 4097,
        "code=" + "%41" * 4097,
        "a=" + "x" * 4000 + "&b=" + "x" * 4000 + "&c=" + "x" * 1000,
        "&".join(f"p{n}=1" for n in range(40)),
        "code=%00",
        "code=a%0d%0ab",
        "code=%7f",
        "code=%ff",
        "code=%c3",
    ],
)
def test_queries_that_can_be_read_in_two_ways_or_not_at_all(query):
    with pytest.raises(BadResponse):
        read_query(query)


CONTROLS = [*range(0x20), 0x7F]


@pytest.mark.covers("SEC-40")
@pytest.mark.parametrize("code", CONTROLS)
def test_a_control_character_is_in_what_is_shown_alone_and_is_not_shown_as_it_is(code):
    for query in (f"code=a%{code:02x}", f"state=%{code:02X}b", f"iss=%{code:02x}", f"a%{code:02x}=b", f"%{code:02x}=b"):
        with pytest.raises(BadResponse):
            read_query(query)
    found = read_query(f"error=e%{code:02x}&error_description=d%{code:02x}%e2%80%ae")
    with pytest.raises(RefusedResponse) as refused:
        judge(found, server(IT, sends_issuer=False))
    assert str(refused.value).isprintable()


IT = ISSUER
OTHER = "https://evil.test"


@pytest.mark.covers("SEC-40")
@pytest.mark.parametrize(
    ("promised", "sent", "good"),
    [
        (True, IT, True),
        (True, None, False),
        (True, OTHER, False),
        (True, IT + "/", False),
        (True, "HTTPS://id.example", False),
        (True, "", False),
        (False, IT, True),
        (False, None, True),
        (False, OTHER, False),
        (False, IT + "/", False),
        (False, "https://id.example:443", False),
        (False, "", False),
    ],
)
def test_who_answers(promised, sent, good):
    expected = server(IT, promised)
    issuer = {} if sent is None else {"iss": sent}
    if good:
        assert judge({"code": "C", **issuer}, expected) == "C"
        return
    for more in ({"code": "C"}, {"error": "hint", "error_description": "call 0800 to unlock"}):
        with pytest.raises(RefusedResponse) as refused:
            judge({**more, **issuer}, expected)
        assert refused.value.code == ""
        for shown in ("hint", "0800", OTHER):
            assert shown not in str(refused.value), "nothing of an answer is shown before it is known whose it is"


def test_an_error_of_the_right_server_is_shown_in_part():
    description = "no\x1b[31m \u202e" + "y" * 500
    with pytest.raises(RefusedResponse) as refused:
        judge({"error": "server_error", "error_description": description, "code": "C"}, server(IT, False))
    text = str(refused.value)
    assert refused.value.code == "server_error"
    assert text.startswith(f"{IT} refused: server_error (no\\x1b[31m \\u202eyyy")
    assert text.isprintable()
    assert len(text) < len(IT) + MAX_DESCRIPTION + 100


def test_who_declines_is_said_to_have_declined():
    with pytest.raises(RefusedResponse, match="access was denied") as refused:
        judge({"error": "access_denied"}, server(IT, False))
    assert refused.value.code == "access_denied"


@pytest.mark.parametrize("more", [{}, {"code": ""}, {"token": "x"}])
def test_an_answer_without_a_code(more):
    with pytest.raises(RefusedResponse, match="without a code"):
        judge({"iss": IT, **more}, server(IT, True))


@pytest.mark.parametrize(
    "line",
    [
        "http://127.0.0.1:8765/oauth/callback?code=C&state=S",
        "  <http://localhost:1/oauth/callback?state=S&code=C>\n",
        '"https://elsewhere.example/oauth/callback?code=C&state=S"',
        "http://127.0.0.1:8765/oauth/callback?code=C&state=S#frag",
    ],
)
def test_addresses_that_were_pasted(line):
    assert read_pasted(line) == ("/oauth/callback", {"code": "C", "state": "S"})


@pytest.mark.parametrize(
    "line",
    [
        "",
        "C",
        "code=C&state=S",
        "?code=C&state=S",
        "http://127.0.0.1:8765/oauth/callback",
        "http://127.0.0.1:8765/oauth/callback?code=C",
        "http://127.0.0.1:8765/oauth/callback?code=C&code=D&state=S",
        "http://127.0.0.1:8765/oauth/callback?state=S&state=T&code=C",
        "javascript:alert(1)?code=C&state=S",
        "http:///oauth/callback?code=C&state=S",
        "http://[::1/oauth/callback?code=C&state=S",
        "http://127.0.0.1:8765/oauth/callback?code=C%00&state=S",
        "http://127.0.0.1:8765/oauth/call\x1bback?code=C&state=S",
        "http://127.0.0.1:8765/oauth/callback?state=S&code=" + "x" * 9000,
        "http://127.0.0.1:8765/" + "x" * 10_000 + "?state=S&code=C",
    ],
)
def test_what_is_no_address_to_paste(line):
    with pytest.raises(BadResponse):
        read_pasted(line)


SEEDS = [
    f"code=C1&state=S&iss={quote(ISSUER, safe='')}".encode(),
    f"error=access_denied&error_description=no+way&state=S&iss={quote_plus(ISSUER)}".encode(),
    b"state=S&code=" + b"aBcD" * 75,
    b"code=C1&state=S&code=C2&iss=https://evil.test",
]


def test_fuzz_nothing_but_the_right_parameters_gives_a_code():
    given, said = 0, set()
    for data in damaged(SEEDS, COUNT):
        query = data.decode("latin-1")
        for expected in (server(ISSUER, True), server(ISSUER, False)):
            try:
                parameters = read_query(query)
                code = judge(parameters, expected)
            except (BadResponse, RefusedResponse) as error:
                said.add(str(error))
                continue
            given += 1
            assert code == parameters["code"] != ""
            assert parameters.get("iss", ISSUER) == ISSUER
            assert "error" not in parameters
            assert not expected.sends_issuer or "iss" in parameters
        try:
            path, parameters = read_pasted(f"http://127.0.0.1:1/oauth/callback?{query}")
        except BadResponse as error:
            said.add(str(error))
        else:
            assert path.startswith("/oauth/callback")
            assert "state" in parameters
    assert all(text.isprintable() and len(text) < 400 for text in said)
    assert given, "some of it still is an answer"
