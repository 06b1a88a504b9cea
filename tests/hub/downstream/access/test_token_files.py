"""Tokens of single hosts: made, rotated, revoked; and who is let in by them, as whom, and for how long."""

import os

import pytest
import trio

from config.diagnostics import EditError
from config.security_settings import AccessToken
from config.setting_declarations import Secret
from hub.downstream.access.access import Access, Credentials
from hub.downstream.access.refusals import NO_TOKEN, WRONG_TOKEN
from hub.downstream.access.token_files import TOKENS, HostTokens
from hub.downstream.access.token_lookup import NamedTokens
from hub.link.call_interface import Identity
from hub.net.http_request import HttpRequest
from tests.support.wall_clock import Clock

OWN = "o" * 43
NOW = 1_800_000_000.0


@pytest.fixture
def wall():
    return Clock(NOW)


@pytest.fixture
def tokens(tmp_path, wall):
    return HostTokens(tmp_path / "tokens.json", wall)


@pytest.fixture
def named(tokens, wall):
    return NamedTokens(tokens.path, wall)


@pytest.fixture
def access(named):
    return Access(port=8765, token=OWN, others=Credentials(named))


def ask(access, token):
    headers = {"host": "localhost:8765"} | ({} if token is None else {"authorization": f"Bearer {token}"})
    return access.check(HttpRequest("POST", "/mcp", headers))


async def test_a_new_token_opens_the_hub_at_once(tokens, access):
    assert ask(access, "hubd_x") is WRONG_TOKEN
    assert ask(access, None) is NO_TOKEN
    token = tokens.make("ci", principal="ci", host="runner")
    assert token.startswith("hubd_")
    assert len(token) == 48
    assert ask(access, token) == Identity("ci", "runner")
    assert ask(access, OWN) == Identity("local", "http"), "the hub's own goes on"
    assert ask(access, token[:-1]) is WRONG_TOKEN


async def test_by_default_it_is_the_owner_under_the_name_of_the_token(tokens, access):
    assert ask(access, tokens.make("cursor")) == Identity("local", "cursor")


def test_hashes_alone_are_kept_and_nobody_else_reads_them(tokens):
    token = tokens.make("ci")
    assert tokens.path.stat().st_mode & 0o777 == 0o600
    text = tokens.path.read_text()
    assert token not in text
    assert token.removeprefix("hubd_") not in text
    assert TOKENS.read(tokens.path)["ci"].made == NOW


async def test_a_token_ends_when_it_expires(tokens, access, wall):
    token = tokens.make("ci", expires=NOW + 60)
    assert ask(access, token) == Identity("local", "ci")
    wall.now += 60
    assert ask(access, token) is WRONG_TOKEN


async def test_streams_of_a_token_last_though_the_clock_was_ahead(tokens, access, wall, autojump_clock):
    former = tokens.make("ci", expires=NOW + 60)
    token = tokens.rotate("ci", grace_s=60)
    wall.now += 1e9
    assert ask(access, token) is ask(access, former) is WRONG_TOKEN
    wall.now -= 1e9
    assert ask(access, former) == Identity("local", "ci")
    request = HttpRequest("GET", "/mcp", {"host": "localhost:8765", "authorization": f"Bearer {token}"})
    assert access.guard(request) is None
    assert request.lease.ends_at == trio.current_time() + 60


async def test_a_rotated_token_counts_for_its_grace(tokens, access, wall):
    first = tokens.make("ci")
    second = tokens.rotate("ci", grace_s=3600)
    assert ask(access, first) == ask(access, second) == Identity("local", "ci")
    wall.now += 3600
    assert ask(access, first) is WRONG_TOKEN
    third = tokens.rotate("ci", grace_s=0)
    assert ask(access, second) is WRONG_TOKEN
    assert ask(access, third) == Identity("local", "ci")


async def test_a_revoked_token_is_over_with_its_streams(tokens, access, named, autojump_clock):
    token = tokens.make("ci")
    other = tokens.make("other")
    leases = []
    for each in (token, other):
        request = HttpRequest("GET", "/mcp", {"host": "localhost:8765", "authorization": f"Bearer {each}"})
        assert access.guard(request) is None
        leases.append(request.lease)
    with trio.move_on_after(60) as mine, leases[0].keeps(mine), trio.move_on_after(60) as its, leases[1].keeps(its):
        tokens.revoke("ci")
        assert ask(access, token) is WRONG_TOKEN
        assert mine.cancel_called
        assert not its.cancel_called
        await trio.lowlevel.checkpoint_if_cancelled()
    assert mine.cancelled_caught
    with pytest.raises(EditError, match="there is no token ci; `hubd token list`"):
        tokens.revoke("ci")


async def test_a_file_that_others_could_read_opens_nothing(tokens, access, named, caplog):
    token = tokens.make("ci")
    os.chmod(tokens.path, 0o644)
    assert ask(access, token) is WRONG_TOKEN
    assert "chmod 600" in named.problem
    os.chmod(tokens.path, 0o600)
    assert ask(access, token) == Identity("local", "ci")
    assert named.problem == ""


@pytest.mark.parametrize("text", ["", "{", '{"format":2,"tokens":{}}', '{"format":1,"tokens":{"a":{}}}', "[" * 9999])
async def test_a_damaged_file_opens_nothing(tokens, access, named, text):
    token = tokens.make("ci")
    tokens.path.write_text(text)
    assert ask(access, token) is WRONG_TOKEN
    assert named.problem
    with pytest.raises(EditError):
        tokens.make("other")


def test_names_are_unique(tokens):
    tokens.make("ci")
    with pytest.raises(EditError, match="there is a token ci already"):
        tokens.make("ci")


async def test_configured_tokens_count_until_their_day(named, access, wall):
    token = "c4n4ry-c4n4ry-c4n4ry"
    configured = AccessToken(name="ci", token=Secret(token), principal="ci", expires="2027-01-16")
    named.configure([configured])
    assert ask(access, token) == Identity("ci", "ci")
    wall.now = 1_800_057_600 - 1  # the day begins in UTC
    assert ask(access, token) == Identity("ci", "ci")
    wall.now += 1
    assert ask(access, token) is WRONG_TOKEN
    wall.now = NOW
    named.configure([])
    assert ask(access, token) is WRONG_TOKEN
    assert token not in repr(named)


async def test_another_principal_ends_what_hangs_on_the_one_before(named, access):
    token = "c4n4ry-c4n4ry-c4n4ry"
    named.configure([AccessToken(name="ci", token=Secret(token), principal="a")])
    before = named.find(token)
    named.configure([AccessToken(name="ci", token=Secret(token), principal="b")])
    assert before.lease.is_over
    assert ask(access, token) == Identity("b", "ci")


async def test_a_stream_that_began_while_the_clock_was_behind_ends_when_the_time_is_known(
    tokens, named, wall, autojump_clock
):
    wall.now -= 1e9
    token, endless = tokens.make("ci", expires=NOW - 60), tokens.make("other")
    leases = [named.find(each).lease for each in (token, endless)]
    with trio.move_on_after(60) as mine, leases[0].keeps(mine), trio.move_on_after(60) as other, leases[1].keeps(other):
        named.end_streams()
        assert not mine.cancel_called
        wall.now += 1e9
        named.end_streams()
        assert mine.cancel_called
        assert not other.cancel_called
        await trio.lowlevel.checkpoint_if_cancelled()
    wall.now -= 1e9
    assert not named.find(token).lease.is_over
