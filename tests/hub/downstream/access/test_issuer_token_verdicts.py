"""Tokens of authorization servers: which open the hub, keys that come and go, and servers that fail."""

import threading

import pytest
import trio
import trio.testing

from config.security_settings import AccessConfig, AccessIssuer, Introspection
from config.setting_declarations import Secret
from hub.downstream.access import issuer_token_verdicts
from hub.downstream.access.access import Access, Credentials
from hub.downstream.access.claims import TokenVerdict, verdict_of
from hub.downstream.access.issuer_token_verdicts import IssuerTokens
from hub.downstream.access.read_unverified_jwt import Unfit, read_jwt
from hub.downstream.access.refusals import NOT_NOW, TOKEN_IN_QUERY
from hub.downstream.access.token_lookup import NamedTokens
from hub.downstream.access.trusted_issuer import read_keys
from hub.link.call_interface import Identity
from hub.net.http_request import EarlyReply, HttpRequest
from tests.support.issuer_world import BY_NAME, HUB, KEYS, NOW, OTHER, TOKENS, URL, World
from tests.support.oauth.bad_tokens import Keys, jwk_ec, tokens
from upstreams.fetch.terms_and_answers import Fetched, FetchFailed

TEAM = AccessIssuer(name="team", issuer=URL)
PARTNER = AccessIssuer(name="partner", issuer=OTHER)


@pytest.fixture
def world():
    return World()


def hub(world, *issuers, **settings):
    settings.setdefault("required_scopes", ("mcp",))
    issued = IssuerTokens(AccessConfig(issuers=issuers or (TEAM,), **settings), HUB, world, world)
    return Access(port=80, hosts=["hub"], token="o" * 43, others=Credentials(NamedTokens(None, world), issued)), issued


async def show(access, token, path="/mcp", **more):
    """What becomes of a request: the identity, or the refusal."""
    headers = {"host": "hub"} | ({} if token is None else {"authorization": f"Bearer {token}"})
    request = HttpRequest("POST", path, headers, **more)
    found = access.guard(request)
    if found is not None and not isinstance(found, EarlyReply):
        found = await found()
    return found or request.identity, request


def status(found):
    return 200 if isinstance(found, Identity) else found.status


@pytest.mark.covers("SEC-31", "F-H-16")
@pytest.mark.parametrize("path", ["/mcp", "/mcp/notes"])
@pytest.mark.parametrize("row", TOKENS, ids=lambda row: row["name"])
async def test_good_tokens_open_the_hub_and_no_others(world, row, path, autojump_clock):
    access, _ = hub(world, TEAM, PARTNER)
    found, request = await show(access, row["token"], path)
    assert status(found) == row["verdict"], row["why"]
    again, _ = await show(access, row["token"], path)
    assert status(again) == row["verdict"], "remembered as it was judged"
    if isinstance(found, Identity):
        assert found == Identity("team/alice", "host-1")
        assert request.lease is not None
    elif found.status == 401:
        sent_one = "error=" in dict(found.headers)["WWW-Authenticate"]
        assert found.body == (await show(access, None, path))[0].body, "one body for all"
        assert sent_one == (row["name"] != "whitespace-inside")
    assert not any("attacker" in url for url in world.asked)


@pytest.mark.covers("SEC-31")
async def test_an_id_token_whose_audience_is_configured_opens_nothing(world, autojump_clock):
    access, _ = hub(world, AccessIssuer(name="team", issuer=URL, audiences=("host-1",)))
    assert status((await show(access, BY_NAME["aud-client-id"]))[0]) == 401


@pytest.mark.covers("SEC-30")
async def test_refusals_say_where_to_sign_in_and_what_is_needed(world, autojump_clock, caplog):
    caplog.set_level("INFO", "hubd")
    access, _ = hub(world)
    place = 'resource_metadata="https://hub.example.com/.well-known/oauth-protected-resource/mcp'
    found, _ = await show(access, None)
    assert dict(found.headers)["WWW-Authenticate"] == f'Bearer realm="hubd", {place}", scope="mcp"'
    found, _ = await show(access, "x.y.z", "/mcp/notes")
    challenge = f'Bearer realm="hubd", {place}/notes", scope="mcp", error="invalid_token"'
    assert dict(found.headers)["WWW-Authenticate"] == challenge
    found, _ = await show(access, BY_NAME["no-scope"])
    assert 'error="insufficient_scope", scope="mcp"' in dict(found.headers)["WWW-Authenticate"]
    assert caplog.messages[-1].endswith("is refused (403): it has not all scopes of mcp")
    found, _ = await show(access, None, query="access_token=x")
    assert found is TOKEN_IN_QUERY


@pytest.mark.parametrize(
    ("audience", "path", "expected"),
    [
        (f"{HUB}/notes", "/mcp/notes", 200),
        (f"{HUB}/notes", "/mcp", 401),
        (f"{HUB}/notes", "/mcp/other", 401),
        (f"{HUB}/notes", "/healthz", 401),
        (HUB, "/mcp/notes", 200),
        (HUB, "/healthz", 200),
        ("api://hub", "/mcp", 200),
        ("api://other", "/mcp", 401),
    ],
)
async def test_a_token_for_one_server_opens_that_one_alone(world, audience, path, expected, autojump_clock):
    access, _ = hub(world, AccessIssuer(name="team", issuer=URL, audiences=("api://hub",)))
    made = {each["name"]: each["token"] for each in tokens(KEYS, URL, audience, now=NOW)}
    found, _ = await show(access, made["good-es256"], path)
    assert status(found) == expected


async def fails():
    raise FetchFailed("as.example does not answer")


async def html():
    return Fetched(200, {}, b"<html>")


async def error():
    return Fetched(500, {}, b"{}")


async def too_large():
    raise FetchFailed("The answer of as.example is too large", sent=True)


async def never():
    await trio.sleep_forever()


FAULTS = [fails, html, error, too_large, never]


@pytest.mark.parametrize("fault", FAULTS)
async def test_without_keys_nobody_can_tell(world, fault, autojump_clock):
    access, _ = hub(world)
    world.fault = fault
    begun = trio.current_time()
    assert (await show(access, BY_NAME["good-es256"]))[0] is NOT_NOW
    assert trio.current_time() - begun <= 5
    world.fault = None
    await trio.sleep(6)
    assert status((await show(access, BY_NAME["good-es256"]))[0]) == 200, "as soon as they can be read"


@pytest.mark.parametrize("fault", FAULTS)
async def test_keys_that_were_read_count_for_a_day(world, fault, nursery, autojump_clock):
    access, issued = hub(world)
    nursery.start_soon(issued.run)
    await trio.testing.wait_all_tasks_blocked()
    world.fault = fault
    await trio.sleep(80_000)
    assert status((await show(access, BY_NAME["good-rs256"]))[0]) == 200
    await trio.sleep(10_000)
    assert (await show(access, BY_NAME["good-eddsa"]))[0] is NOT_NOW


async def test_an_exchanged_key_takes_its_verdicts_and_streams_along(world, nursery, autojump_clock):
    access, _ = hub(world)
    found, request = await show(access, BY_NAME["good-es256"])
    assert status(found) == 200
    new = Keys()
    world.jwks = {"keys": [jwk_ec(new.ec, "e2", alg="ES256")]}
    made = {each["name"]: each["token"] for each in tokens(new, URL, HUB, now=NOW)}
    await trio.sleep(61)
    assert status((await show(access, BY_NAME["unknown-kid"]))[0]) == 401, "and its kid has had the keys read"
    assert request.lease.is_over
    assert status((await show(access, BY_NAME["good-es256"]))[0]) == 401
    assert status((await show(access, made["good-es256"]))[0]) == 401, "another kid than that of the new key"


async def test_a_key_exchanged_under_its_name_is_read_when_it_has_signed_a_token(world, autojump_clock):
    access, _ = hub(world)
    found, request = await show(access, BY_NAME["good-es256"])
    assert status(found) == 200
    new = Keys()
    world.jwks = new.public()
    made = [{each["name"]: each["token"] for each in tokens(new, URL, HUB, now=NOW + n)} for n in range(2)]
    assert status((await show(access, made[0]["good-es256"]))[0]) == 401, "the keys were read a moment ago"
    assert status((await show(access, BY_NAME["good-rs256"]))[0]) == 200
    await trio.sleep(60)
    assert status((await show(access, made[1]["good-es256"]))[0]) == 200
    assert request.lease.is_over
    assert [status((await show(access, BY_NAME[name]))[0]) for name in ("good-es256", "good-rs256")] == [401, 401]
    assert sum("jwks" in url for url in world.asked) == 2, "bad signatures have them read once a minute"


async def test_unknown_keys_have_the_set_read_once_a_minute(world, autojump_clock):
    access, _ = hub(world)
    strangers = [tokens(Keys(), URL, HUB, now=NOW + n) for n in range(3)]
    for rows in strangers:
        await show(access, next(row["token"] for row in rows if row["name"] == "unknown-kid"))
    assert sum("jwks" in url for url in world.asked) == 1


async def test_no_host_waits_while_keys_are_read(world, monkeypatch, autojump_clock):
    """The first key has some libraries imported."""
    readers = []

    def note(document):
        readers.append(threading.current_thread())
        return read_keys(document)

    monkeypatch.setattr("hub.downstream.access.trusted_issuer.read_keys", note)
    access, _ = hub(world)
    assert status((await show(access, BY_NAME["good-es256"]))[0]) == 200
    assert readers
    assert threading.main_thread() not in readers


async def test_a_crowd_waits_for_one_reading(world, autojump_clock):
    access, _ = hub(world)
    world.delay_s = 1
    found = []

    async def one(name):
        found.append(status((await show(access, BY_NAME[name]))[0]))

    async with trio.open_nursery() as crowd:
        for name in ("good-es256", "good-rs256", "good-eddsa") * 10:
            crowd.start_soon(one, name)
    assert found == [200] * 30
    assert len(world.asked) == 2, "metadata and keys"


async def test_a_token_ends_and_its_streams_with_it(world, autojump_clock):
    access, _ = hub(world)
    found, request = await show(access, BY_NAME["good-es256"])
    assert isinstance(found, Identity)
    assert request.lease.ends_at == pytest.approx(trio.current_time() + 360, abs=1)
    world.now += 361
    assert status((await show(access, BY_NAME["good-es256"]))[0]) == 401


async def test_a_stream_that_began_while_the_clock_was_behind_ends_when_the_time_is_known(world, nursery):
    access, issued = hub(world)
    _, request = await show(access, BY_NAME["good-es256"])
    stream = Stream(request, nursery)
    issued.end_streams()
    await trio.testing.wait_all_tasks_blocked()
    assert stream.ended_at is None
    world.now += 361
    issued.end_streams()
    await trio.testing.wait_all_tasks_blocked()
    assert stream.ended_at is not None


async def test_a_clock_that_was_ahead_keeps_no_token_out(world, autojump_clock):
    access, _ = hub(world)
    world.now += 1e9
    assert status((await show(access, BY_NAME["good-es256"]))[0]) == 401
    world.now -= 1e9
    await trio.sleep(issuer_token_verdicts.KEEP_REFUSED_S)
    found, request = await show(access, BY_NAME["good-es256"])
    assert isinstance(found, Identity)
    assert request.lease.ends_at == pytest.approx(trio.current_time() + 360, abs=1)


@pytest.mark.covers("SEC-06")
async def test_a_renewed_token_is_the_same_person(world, autojump_clock):
    access, _ = hub(world)
    later = {each["name"]: each["token"] for each in tokens(KEYS, URL, HUB, now=NOW + 10)}
    first, second = (await show(access, BY_NAME["good-es256"]))[0], (await show(access, later["good-es256"]))[0]
    assert first == second == Identity("team/alice", "host-1")


async def test_only_listed_clients_may_come(world, autojump_clock):
    access, _ = hub(world, AccessIssuer(name="team", issuer=URL, clients=("host-2",)))
    assert status((await show(access, BY_NAME["good-es256"]))[0]) == 401


async def test_algorithms_can_be_fewer(world, autojump_clock):
    access, _ = hub(world, AccessIssuer(name="team", issuer=URL, algorithms=("RS256",)))
    assert status((await show(access, BY_NAME["good-es256"]))[0]) == 401
    assert status((await show(access, BY_NAME["good-rs256"]))[0]) == 200


async def test_the_hubs_own_tokens_go_to_nobody(world, autojump_clock):
    access, _ = hub(world, ASKED)
    assert status((await show(access, "hubd_" + "x" * 43))[0]) == 401
    assert (await show(access, "o" * 43))[0] == Identity("local", "http")
    assert world.asked == []


# --- introspection ----------------------------------------------------------------------------------------------------

ASKED = AccessIssuer(name="team", issuer=URL, introspection=Introspection(client_id="hub", client_secret=Secret("s")))
ANSWER = {"active": True, "sub": "alice", "aud": HUB, "scope": "mcp", "exp": NOW + 300, "client_id": "host-1"}


@pytest.mark.parametrize(
    ("difference", "expected"),
    [
        ({}, 200),
        ({"iss": URL}, 200),
        ({"exp": None}, 200),
        ({"active": False}, 401),
        ({"active": "true"}, 401),
        ({"aud": "https://elsewhere.example"}, 401),
        ({"aud": None}, 401),
        ({"iss": OTHER}, 401),
        ({"exp": 1}, 401),
        ({"sub": None}, 401),
        ({"cnf": {}}, 401),
        ({"scope": "openid"}, 403),
        ({"scope": ["mcp"]}, 200),
        ({"scope": "mcp:read"}, 403),
    ],
)
async def test_a_server_says_what_a_token_is_worth(world, difference, expected, autojump_clock):
    access, _ = hub(world, ASKED, PARTNER)
    world.answers["opaque"] = {k: v for k, v in {**ANSWER, **difference}.items() if v is not None}
    found, _ = await show(access, "opaque")
    assert status(found) == expected
    again, _ = await show(access, "opaque")
    assert status(again) == expected
    assert world.asked.count("opaque") == 1
    world.now -= 86_400  # the clock is set back, which keeps no verdict for longer
    await trio.sleep(31)
    await show(access, "opaque")
    assert world.asked.count("opaque") == 2


async def test_a_server_that_can_only_be_asked_need_not_show_keys(world, nursery, caplog, autojump_clock):
    world.without = ("jwks_uri",)
    access, issued = hub(world, ASKED)
    world.answers["opaque"] = ANSWER
    nursery.start_soon(issued.run)
    await trio.testing.wait_all_tasks_blocked()
    assert status((await show(access, "opaque"))[0]) == 200
    assert status((await show(access, BY_NAME["good-es256"]))[0]) == 401, "nothing of it can be verified"
    assert caplog.records == []
    nursery.cancel_scope.cancel()


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_server_that_does_not_say(world, fault, autojump_clock):
    access, _ = hub(world, ASKED)
    world.fault = fault
    begun = trio.current_time()
    assert (await show(access, "opaque"))[0] is NOT_NOW
    assert trio.current_time() - begun <= 2


async def test_a_crowd_with_one_token_is_one_question(world, autojump_clock):
    access, _ = hub(world, ASKED)
    world.answers["opaque"] = ANSWER
    world.delay_s = 0.5
    found = []

    async def one():
        found.append(status((await show(access, "opaque"))[0]))

    async with trio.open_nursery() as crowd:
        for _ in range(50):
            crowd.start_soon(one)
    assert found == [200] * 50
    assert world.asked.count("opaque") == 1


async def test_a_crowd_is_told_together_that_nobody_can_say(world, autojump_clock):
    access, _ = hub(world, ASKED)
    world.fault = fails
    world.delay_s = 0.5
    begun, found = trio.current_time(), []

    async def one():
        found.append((await show(access, "opaque"))[0])

    async with trio.open_nursery() as crowd:
        for _ in range(20):
            crowd.start_soon(one)
    assert found == [NOT_NOW] * 20
    assert world.asked.count("opaque") == 1
    assert trio.current_time() - begun < 2


@pytest.mark.parametrize("ending", ["other rules", "other keys"])
async def test_streams_of_a_verdict_that_had_to_make_room_end_too(world, ending, monkeypatch, autojump_clock):
    monkeypatch.setattr(issuer_token_verdicts, "MAX_KEPT", 1)
    access, issued = hub(world)
    _, request = await show(access, BY_NAME["good-es256"])
    await show(access, BY_NAME["good-rs256"])
    assert not request.lease.is_over
    if ending == "other rules":
        issued.end()
    else:
        world.jwks = {"keys": [jwk_ec(Keys().ec, "e2", alg="ES256")]}
        await trio.sleep(61)
        await show(access, BY_NAME["unknown-kid"])
    assert request.lease.is_over


@pytest.mark.parametrize("claim", ["exp", "nbf", "iat"])
@pytest.mark.parametrize("digits", [309, 4000])
def test_a_time_beyond_all_numbers_counts_for_nothing(claim, digits):
    claims = {**ANSWER, claim: int("9" * digits)}
    with pytest.raises(Unfit, match=r"a time in it .* is beyond all times"):
        verdict_of(claims, TEAM, float(NOW))
    assert isinstance(verdict_of(ANSWER, TEAM, float(NOW)), TokenVerdict)


def test_no_repr_shows_a_token():
    token = BY_NAME["good-es256"]
    shown = repr(read_jwt(token))
    assert shown == "<Jwt ES256>"


async def test_a_crowd_of_tokens_is_bounded(world, autojump_clock):
    access, _ = hub(world, ASKED)
    world.delay_s = 0.5
    found = []

    async def one(number):
        found.append(status((await show(access, f"opaque{number}"))[0]))

    async with trio.open_nursery() as crowd:
        for number in range(50):
            crowd.start_soon(one, number)
    assert sorted(found) == [401] * 8 + [503] * 42


# --- streams of tokens that are asked about ---------------------------------------------------------------------------


class Stream:
    """Something that hangs on the lease of a request, as a stream of notifications does."""

    def __init__(self, request, nursery):
        self.ended_at = None
        nursery.start_soon(self._run, request.lease)

    async def _run(self, lease):
        with trio.CancelScope() as scope, lease.keeps(scope):
            await trio.sleep_forever()
        self.ended_at = trio.current_time()


@pytest.fixture
async def streaming(world, nursery):
    """A hub that runs, and a function that opens a stream by the token `opaque`."""
    access, issued = hub(world, ASKED)
    nursery.start_soon(issued.run)
    world.running()
    world.answers["opaque"] = {**ANSWER, "exp": NOW + 3000}

    async def stream():
        found, request = await show(access, "opaque")
        assert status(found) == 200
        begun = Stream(request, nursery)
        await trio.testing.wait_all_tasks_blocked()
        return begun

    stream.access = access
    yield stream
    nursery.cancel_scope.cancel()


async def test_a_stream_ends_once_its_token_was_taken_back(world, streaming, autojump_clock):
    one, other = await streaming(), await streaming()
    await trio.sleep(310)
    assert (world.asked.count("opaque"), one.ended_at, other.ended_at) == (2, None, None), "it was asked again, once"
    world.answers["opaque"] = {"active": False}
    begun = trio.current_time()
    await trio.sleep(310)
    assert 0 < one.ended_at - begun < 300
    assert other.ended_at == one.ended_at
    asked = world.asked.count("opaque")
    await trio.sleep(4000)
    assert world.asked.count("opaque") == asked, "and nobody asks any more"


async def test_a_request_that_is_refused_ends_streams_at_once(world, streaming, autojump_clock):
    one = await streaming()
    world.answers["opaque"] = {"active": False}
    await trio.sleep(31)
    assert status((await show(streaming.access, "opaque"))[0]) == 401
    await trio.testing.wait_all_tasks_blocked()
    assert one.ended_at is not None


@pytest.mark.parametrize("change", [{"sub": "bob"}, {"scope": "mcp more"}, {"aud": [HUB, f"{HUB}/notes"]}])
async def test_a_token_that_means_something_else_ends_streams(world, streaming, change, autojump_clock):
    one = await streaming()
    world.answers["opaque"] = {**ANSWER, "exp": NOW + 3000, **change}
    await trio.sleep(310)
    assert one.ended_at is not None


@pytest.mark.parametrize("fault", FAULTS)
async def test_streams_go_on_while_nobody_can_say_until_their_token_ends(world, streaming, fault, autojump_clock):
    one = await streaming()
    world.fault = fault
    await trio.sleep(2900)
    assert one.ended_at is None
    assert world.asked.count("opaque") > 10, "it is tried again every minute"
    await trio.sleep(300)
    assert one.ended_at == pytest.approx(3060, abs=70)


async def test_a_token_that_is_prolonged_keeps_its_streams(world, streaming, autojump_clock):
    one = await streaming()
    world.answers["opaque"] = {**ANSWER, "exp": NOW + 9000}
    await trio.sleep(8000)
    assert one.ended_at is None
    world.answers["opaque"] = {**ANSWER, "exp": NOW + 8100}
    await trio.sleep(1000)
    assert one.ended_at == pytest.approx(8160, abs=5)


async def test_a_token_without_streams_is_not_asked_about(world, streaming, autojump_clock):
    assert status((await show(streaming.access, "opaque"))[0]) == 200
    await trio.sleep(2000)
    assert world.asked.count("opaque") == 1


async def test_a_crowd_of_streams_is_bounded_by_making_those_of_others_begin_anew(
    world, streaming, monkeypatch, autojump_clock
):
    monkeypatch.setattr(issuer_token_verdicts, "MAX_WATCHED", 1)
    one = await streaming()
    world.answers["other"] = {**ANSWER, "exp": NOW + 3000}
    _, request = await show(streaming.access, "other")
    assert request.lease.ends_at == pytest.approx(trio.current_time() + 300, abs=1)
    await trio.sleep(310)
    assert one.ended_at is None


# --- limits, and for how long things are remembered -------------------------------------------------------------------


async def test_keys_are_read_again_every_quarter_of_an_hour(world, nursery, autojump_clock):
    access, issued = hub(world)
    nursery.start_soon(issued.run)
    await trio.testing.wait_all_tasks_blocked()
    found, request = await show(access, BY_NAME["good-es256"])
    assert status(found) == 200
    world.jwks = {"keys": [jwk_ec(Keys().ec, "e2", alg="ES256")]}
    await trio.sleep(890)
    assert not request.lease.is_over
    await trio.sleep(20)
    assert request.lease.is_over, "its key is gone, though nobody has named another"
    assert status((await show(access, BY_NAME["good-es256"]))[0]) == 401


async def test_a_refusal_is_remembered_for_ten_seconds(world, autojump_clock):
    access, _ = hub(world, ASKED)
    world.running()
    assert status((await show(access, "opaque"))[0]) == 401
    world.answers["opaque"] = ANSWER
    await trio.sleep(9)
    assert status((await show(access, "opaque"))[0]) == 401
    await trio.sleep(2)
    assert status((await show(access, "opaque"))[0]) == 200
    assert world.asked.count("opaque") == 2


@pytest.mark.parametrize(("length", "asked"), [(4096, 1), (4097, 0)])
async def test_long_tokens_are_not_asked_about(world, length, asked, autojump_clock):
    access, _ = hub(world, ASKED)
    assert status((await show(access, "x" * length))[0]) == 401
    assert world.asked.count("x" * length) == asked


async def test_twenty_tokens_a_second_are_asked_about(world, autojump_clock):
    access, _ = hub(world, ASKED)
    found = [status((await show(access, f"opaque{number}"))[0]) for number in range(30)]
    assert found == [401] * 20 + [503] * 10
    await trio.sleep(1)
    assert status((await show(access, "one-more"))[0]) == 401


@pytest.mark.parametrize(("limit", "kept"), [("MAX_KEPT", "good-es256"), ("MAX_REFUSED", "expired")])
async def test_what_is_remembered_is_bounded(world, limit, kept, monkeypatch, autojump_clock):
    monkeypatch.setattr(issuer_token_verdicts, limit, 2)
    access, issued = hub(world)
    names = [row["name"] for row in TOKENS if row["verdict"] == (200 if limit == "MAX_KEPT" else 401)][:6]
    for name in (*names, kept):
        await show(access, BY_NAME[name])
    assert len(issued._kept) == 2 or limit == "MAX_REFUSED"
    assert status((await show(access, BY_NAME[kept]))[0]) == (200 if limit == "MAX_KEPT" else 401)
