"""Challenges: every way in which servers write `WWW-Authenticate`, and none that costs much to read."""

import pytest

from upstreams.oauth.discovery.challenge import (
    MAX_CHARS,
    MAX_SCOPES_CHARS,
    fits,
    is_scope,
    parse_challenges,
    permit_scopes,
    pick_scopes,
    readable_scopes,
)
from upstreams.oauth.model import Challenge

URL = "https://h.example/.well-known/oauth-protected-resource/mcp"
FULL = Challenge(resource_metadata=URL, scope="a b", error="invalid_token")


@pytest.mark.parametrize(
    "values",
    [
        [f'Bearer resource_metadata="{URL}", scope="a b", error="invalid_token"'],
        [f'bEARER Resource_Metadata="{URL}",SCOPE="a b",error=invalid_token'],
        [f'Bearer  realm="x" , resource_metadata = "{URL}",,\tscope\t=\t"a b"  ,error="invalid_token",'],
        [f'Bearer resource_metadata="{URL}", scope="a \\b", error="invalid_token", x="say \\"no\\", ok"'],
        ["Basic", f'Bearer resource_metadata="{URL}", scope="a b", error="invalid_token"'],
        [f'Basic realm="Bearer a=\\"c\\", x", Bearer resource_metadata="{URL}", scope="a b", error="invalid_token"'],
        [f'Negotiate YWJj==, Bearer resource_metadata="{URL}", scope="a b", error="invalid_token", DPoP algs="ES256"'],
        [f'DPoP algs=ES256, Bearer resource_metadata="{URL}", scope="a b", error=invalid_token, Bearer scope="c"'],
        ['Basic realm="open, Bearer scope="c', f'Bearer resource_metadata="{URL}", scope="a b", error="invalid_token"'],
        [f'@@ "a, b" @, Bearer resource_metadata="{URL}", scope="a b", error="invalid_token"'],
        [f',Bearer resource_metadata="{URL}" , scope="a b a" , error="invalid_token" , realm=""'],
    ],
)
def test_the_first_bearer_challenge_counts(values):
    assert parse_challenges(values) == FULL


@pytest.mark.parametrize(
    "value",
    [
        "",
        ",, ,",
        "Bearer",
        "Bearer ,",
        "Bearer YWJj==",
        'Basic scope="a"',
        'scope="a"',
        'xBearer scope="a"',
        'Bearer ="",,,scope=", \x7f',
        'Bearer scope="a", scope="b"',
        'Bearer scope="a", resource_metadata=https://h.example/x',
        'Bearer scope="a" error="b"',
        'Bearer scope="a\x00"',
        'Bearer scope="a',
        "Bearer scope=",
        'Bearer, Bearer scope="a"',
        "Bearer scope='a' \"",
        "\x00\xff",
    ],
)
def test_what_cannot_be_read_has_no_parameters(value):
    assert parse_challenges([value]) == Challenge()


@pytest.mark.parametrize(
    ("parameter", "due"),
    [
        ('scope="a  b "', Challenge(scope="a b")),
        ('scope="a \\\\ b"', Challenge()),
        ('scope="a\tb"', Challenge()),
        ('scope="\xe4"', Challenge()),
        (f'scope="{"a" * 257}"', Challenge()),
        (f'scope="{" ".join(map(str, range(101)))}"', Challenge()),
        (f'scope="{"a" * 200}' + " b" * MAX_SCOPES_CHARS + '"', Challenge()),
        (f'resource_metadata="https://h.example/{"a" * 2048}"', Challenge()),
        ('resource_metadata="https://h.example/ a"', Challenge()),
        (f'error="{"a" * 65}"', Challenge()),
        ('error="a\x1b[31m"', Challenge()),
        ('error="insufficient_scope"', Challenge(error="insufficient_scope")),
    ],
)
def test_a_parameter_that_is_no_good_is_left_out(parameter, due):
    assert parse_challenges([f"Bearer {parameter}"]) == due


def test_fields_are_read_up_to_a_limit():
    long = "Basic realm=" + "a" * MAX_CHARS
    assert parse_challenges([long, 'Bearer scope="a"']) == Challenge()
    assert parse_challenges(['Bearer scope="a"', long]) == Challenge(scope="a")


@pytest.mark.parametrize("piece", ['"\\', '\\"', '",', 'a="\\",', 'a="', "a ", "a=a,", "a\t", ",", "Bearer ", '""'])
def test_no_field_takes_long(piece):
    """Quadratic work on so much would show as a test that does not end within its time limit."""
    for _ in range(200):
        parse_challenges([piece * (MAX_CHARS // len(piece))])
        parse_challenges(["Bearer " + piece * (MAX_CHARS // len(piece) - 7)])


@pytest.mark.parametrize("text", ["a", "repo:*", "https://h.example/a.b", "!#[]~", "a" * 256])
def test_a_scope(text):
    assert is_scope(text)
    assert readable_scopes(text) == (text,)


@pytest.mark.parametrize("text", ["", "a b", 'a"', "a\\", "ä", "a\x7f", "a\n", "a" * 257, 1, None, ["a"]])
def test_no_scope(text):
    assert not is_scope(text)


def test_a_list_keeps_what_can_be_read_once():
    assert pick_scopes(["a", 1, "b c", "a", None, "d"]) == ("a", "d")
    assert pick_scopes("a") == pick_scopes(None) == pick_scopes({"a": 1}) == ()


def test_scopes_that_fit_into_a_request():
    assert fits([])
    assert fits([str(number) for number in range(100)])
    assert not fits([str(number) for number in range(101)])
    assert not fits(["a" * 255 + str(number) for number in range(17)])


def test_the_operators_globs_permit():
    wanted = ("repo:read", "repo:write", "user", "repo:read")
    assert permit_scopes(wanted, ()) == ("repo:read", "repo:write", "user")
    assert permit_scopes(wanted, ("repo:*",)) == ("repo:read", "repo:write")
    assert permit_scopes(wanted, ("!*:write",)) == ("repo:read", "user")
    assert permit_scopes(wanted, ("nothing",)) == ()
