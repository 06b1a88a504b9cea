"""Claims: who comes, with which scopes, and until when."""

import pytest

from config.security_settings import AccessIssuer
from hub.downstream.access.claims import ANY_CLIENT, SKEW_S, TokenVerdict, lacking, verdict_of
from hub.downstream.access.read_unverified_jwt import Unfit

NOW = 1_700_000_000.0
GOOD = {"sub": "alice", "aud": "hub", "exp": NOW + 300}


def judged(issuer=None, **claims):
    """The verdict; None: the claims do not count."""
    found = {name: value for name, value in {**GOOD, **claims}.items() if value is not None}
    try:
        return verdict_of(found, issuer or AccessIssuer(name="team", issuer="https://id.example"), NOW)
    except Unfit:
        return None


@pytest.mark.parametrize(
    ("required", "scopes", "expected"),
    [
        ((), (), False),
        (("mcp",), ("mcp",), False),
        (("mcp",), (), True),
        (("mcp:read",), ("mcp",), False),
        (("mcp:read:all",), ("mcp:read",), False),
        (("mcp",), ("mcp:read",), True),
        (("mcpx",), ("mcp",), True),
        (("mcp", "more"), ("mcp",), True),
        (("mcp",), ("MCP",), True),
    ],
)
def test_a_scope_contains_those_that_it_begins(required, scopes, expected):
    assert lacking(required, frozenset(scopes)) is expected


@pytest.mark.parametrize(
    ("claims", "expected"),
    [
        ({"scope": "a b"}, {"a", "b"}),
        ({"scp": "a b"}, {"a", "b"}),
        ({"scp": ["a", "b"]}, {"a", "b"}),
        ({"scope": "a", "scp": "b"}, {"a"}),
        ({"scope": ["a", 1, "", None]}, {"a"}),
        ({"scope": {"a": 1}}, set()),
        ({}, set()),
    ],
)
def test_scopes_as_servers_write_them(claims, expected):
    assert judged(**claims).scopes == expected


@pytest.mark.parametrize(
    ("claims", "who"),
    [
        ({"email": "a@b.example", "email_verified": True}, "team/a@b.example"),
        ({"email": "a@b.example"}, None),
        ({"email": "a@b.example", "email_verified": "true"}, None),
        ({"email": "a@b.example", "email_verified": 1}, None),
        ({}, None),
    ],
)
def test_a_mail_address_counts_if_the_issuer_has_verified_it(claims, who):
    found = judged(AccessIssuer(name="team", issuer="https://id.example", subject="email"), **claims)
    assert (found.identity.principal if isinstance(found, TokenVerdict) else None) == who


@pytest.mark.parametrize(
    ("claims", "host"),
    [
        ({"client_id": "c"}, "c"),
        ({"azp": "a"}, "a"),
        ({"client_id": "c", "azp": "a"}, "c"),
        ({}, ANY_CLIENT),
        ({"client_id": ""}, None),
        ({"client_id": "x" * 1025}, None),
        ({"client_id": "a b"}, None),
        ({"client_id": ["c"]}, None),
    ],
)
def test_the_host_is_the_client(claims, host):
    found = judged(**claims)
    assert (found.identity.host if isinstance(found, TokenVerdict) else None) == host


@pytest.mark.parametrize("subject", ["", "x" * 257, "a\nb", "a\u202eb", 1, None, ["alice"], True])
def test_names_that_are_none(subject):
    assert judged(sub=subject) is None


@pytest.mark.parametrize(
    ("claims", "counts"),
    [
        ({"exp": NOW - SKEW_S + 1}, True),
        ({"exp": NOW - SKEW_S}, False),
        ({"nbf": NOW + SKEW_S}, True),
        ({"nbf": NOW + SKEW_S + 1}, False),
        ({"iat": NOW + SKEW_S + 1}, False),
        ({"exp": True}, False),
        ({"exp": str(NOW + 300)}, False),
        ({"exp": None}, False),
    ],
)
def test_times_count_with_the_skew_of_clocks(claims, counts):
    assert isinstance(judged(**claims), TokenVerdict) is counts


def test_an_answer_about_a_token_may_lack_its_end():
    claims = {"sub": "alice", "aud": "hub"}
    issuer = AccessIssuer(name="team", issuer="https://id.example")
    assert isinstance(verdict_of(claims, issuer, NOW, is_asked=True), TokenVerdict)
    with pytest.raises(Unfit):
        verdict_of(claims, issuer, NOW)


def test_a_crowd_of_audiences_is_none():
    assert isinstance(judged(aud=["hub", *(f"a{n}" for n in range(63))]), TokenVerdict)
    assert judged(aud=["hub", *(f"a{n}" for n in range(64))]) is None
