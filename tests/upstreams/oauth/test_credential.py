"""What sessions show, and what becomes of those who wait for a renewal."""

from itertools import pairwise
from math import inf

import pytest
import trio
import trio.testing
from msgspec.structs import replace

from config.setting_declarations import Secret
from hub.link.hub_errors import UpstreamUnauthorized
from tests.support.token_world import ISSUER, KEY, LOST, NOT_SENT, PUBLIC, URL, answer, error, running, together, tokens


async def test_without_a_grant_requests_go_without_a_token(tmp_path, autojump_clock):
    async with running(tmp_path, tokens()) as world:
        credential = world.credential()
        assert (credential.authorization, credential.due, credential.state) == ("", inf, "none")
        await credential.renew()
        with pytest.raises(UpstreamUnauthorized, match='needs you to sign in; run "hubd auth notes"'):
            await credential.replace_refused("", ['Bearer scope="read"'])
        assert credential.state == "needed"
        assert credential.asks_person
        assert credential.challenge.scope == "read"
        assert world.server.count == 0


async def test_a_kept_grant_is_used_in_the_next_run(tmp_path, autojump_clock):
    async with running(tmp_path, tokens()) as world:
        await world.accounts.keep(world.grant())
        world.accounts = world.new_accounts()
        credential = world.credential()
        assert credential.due < trio.current_time()
        await credential.renew()
        assert credential.authorization == "Bearer a1"
        assert credential.state == "good"
        assert credential.due - trio.current_time() == pytest.approx(3600 - 300)


async def test_it_is_renewed_before_a_request_when_it_is_about_to_end(tmp_path, autojump_clock):
    async with running(tmp_path, tokens("a2", refresh_token="r2")) as world:
        credential = world.credential()
        credential.signed_in(await world.accounts.keep(world.grant()))
        await trio.sleep(3299)
        await credential.renew()
        assert world.server.count == 0
        await trio.sleep(2)
        assert await together(50, credential.renew) == [None] * 50
        assert credential.authorization == "Bearer a2"
        assert world.server.asked == [
            {"grant_type": "refresh_token", "refresh_token": "r1", "resource": URL, "client_id": "hub-1"}
        ]
        kept = world.store.load(KEY)
        assert (kept.generation, kept.refresh_token.reveal()) == (2, "r2")


async def test_fifty_refused_calls_lead_to_one_renewal(tmp_path, autojump_clock):
    async with running(tmp_path, tokens("a2")) as world:
        credential = world.credential()
        credential.signed_in(await world.accounts.keep(world.grant()))
        await trio.sleep(60)
        assert await together(50, lambda: credential.replace_refused("Bearer a1", [])) == [True] * 50
        assert world.server.count == 1
        assert await credential.replace_refused("Bearer a1", [])  # it was for the generation before
        assert world.server.count == 1
        assert world.store.load(KEY).refresh_token.reveal() == "r1"  # no new one came


async def test_a_sign_in_at_another_origin_is_not_used(tmp_path, autojump_clock):
    async with running(tmp_path, tokens()) as world:
        credential = world.credential()
        credential.signed_in(world.grant(origin="https://elsewhere.example:443"))
        assert (credential.authorization, credential.grant, credential.state) == ("", None, "none")


async def signed_in(world, **changes):
    """The credential after a sign-in a minute ago: its token is no longer young."""
    credential = world.credential()
    credential.signed_in(await world.accounts.keep(world.grant(**changes)))
    await trio.sleep(60)
    return credential


async def nearly_over(world, **changes):
    """The credential when its token lasts for 100 s more."""
    credential = await signed_in(world, **changes)
    await trio.sleep(3440)
    return credential


# --- what an answer to a renewal leads to -----------------------------------------------------------------------------


async def test_tokens_are_kept_before_they_are_used(tmp_path, autojump_clock):
    async with running(tmp_path, tokens("a2", refresh_token="r2", scope="read write")) as world:
        credential = await nearly_over(world)
        world.changes.clear()
        await credential.renew()
        kept = world.store.load(KEY)
        assert (kept.access_token, kept.refresh_token, kept.scope) == (Secret("a2"), Secret("r2"), "read write")
        assert world.changes == [("notes", "local")] * 2  # renewing, good
        assert credential.due - trio.current_time() == pytest.approx(3300)


async def test_a_grant_that_is_gone_is_used_while_its_token_lasts(tmp_path, autojump_clock):
    async with running(tmp_path, error("invalid_grant")) as world:
        credential = await nearly_over(world)
        assert await together(5, credential.renew) == [None] * 5
        assert (credential.state, credential.authorization) == ("needed", "Bearer a1")
        await trio.sleep(90)
        await credential.renew()
        assert world.server.count == 1
        kept = world.store.load(KEY)
        assert (kept.refresh_token, kept.sign_in_needed) == (None, True)
        assert kept.note == f'{ISSUER} no longer renews the sign-in for notes; run "hubd auth notes".'
        await trio.sleep(20)
        with pytest.raises(UpstreamUnauthorized, match='run "hubd auth notes"') as raised:
            await credential.renew()
        assert raised.value.retry_after_ms is None
        with pytest.raises(UpstreamUnauthorized):
            await credential.replace_refused("Bearer a1", [])
        assert world.server.count == 1


async def test_invalid_grant_while_another_process_has_renewed(tmp_path, autojump_clock):
    async with running(tmp_path, error("invalid_grant")) as world:
        credential = await nearly_over(world)

        def renewed_elsewhere(fields):
            newer = world.grant(generation=2, access_token=Secret("a2"), refresh_token=Secret("r2"))
            world.store.save(replace(newer, signed_in_at=world.store.load(KEY).signed_in_at))
            return error("invalid_grant")

        world.server.answers = [renewed_elsewhere]
        await credential.renew()
        assert (credential.state, credential.authorization) == ("good", "Bearer a2")
        assert world.store.load(KEY).refresh_token == Secret("r2")


@pytest.mark.parametrize("unclear", [answer(400), error("invalid_request"), error("unsupported_grant_type")])
async def test_a_refusal_that_does_not_say_why_counts_twice(tmp_path, autojump_clock, unclear):
    async with running(tmp_path, unclear) as world:
        credential = await nearly_over(world)
        await credential.renew()
        assert credential.state == "waiting"
        await trio.sleep(59)
        await credential.renew()
        assert world.server.count == 1
        assert world.store.load(KEY).refresh_token == Secret("r1")
        await trio.sleep(2)
        await credential.renew()
        assert (world.server.count, credential.state) == (2, "needed")
        assert world.store.load(KEY).refresh_token is None


async def test_one_refusal_that_does_not_say_why_is_forgotten_after_tokens(tmp_path, autojump_clock):
    async with running(tmp_path, answer(400), tokens("a2"), answer(400)) as world:
        credential = await nearly_over(world)
        await credential.renew()
        await trio.sleep(61)
        await credential.renew()
        assert credential.authorization == "Bearer a2"
        await trio.sleep(3500)
        await credential.renew()
        assert (credential.state, world.server.count) == ("waiting", 3)


@pytest.mark.parametrize("code", ["invalid_client", "unauthorized_client"])
async def test_a_client_that_is_forgotten_is_registered_anew(tmp_path, autojump_clock, code):
    async with running(tmp_path, error(code, 401)) as world:
        credential = await nearly_over(world)
        world.store.clients.put(ISSUER, "http://127.0.0.1:1/oauth/callback", "notes", PUBLIC)
        world.store.clients.put(ISSUER, "http://127.0.0.1:1/oauth/callback", "other", PUBLIC)
        await credential.renew()
        assert credential.state == "needed"
        assert "registers there anew" in credential.problem
        assert world.store.clients.find(ISSUER, "http://127.0.0.1:1/oauth/callback", "notes") is None
        assert world.store.clients.find(ISSUER, "http://127.0.0.1:1/oauth/callback", "other") == PUBLIC
        kept = world.store.load(KEY)
        assert (kept.refresh_token, kept.sign_in_needed) == (Secret("r1"), True)  # until other tokens replace it
        assert credential.authorization == "Bearer a1"


async def test_a_configured_client_that_is_refused_is_to_be_corrected(tmp_path, autojump_clock):
    client = replace(PUBLIC, kind="configured", client_id="c", secret=Secret("old"), token_auth="client_secret_post")
    async with running(tmp_path, error("invalid_client", 401), tokens("a2")) as world:
        credential = world.credential(client_id="c", client_secret=Secret("wrong"), issuer=ISSUER)
        credential.signed_in(await world.accounts.keep(world.grant(client=client)))
        await trio.sleep(3500)
        await credential.renew()
        assert world.server.asked[0]["client_secret"] == "wrong"  # that of the configuration
        assert credential.problem == (
            f"{ISSUER} refuses the client_id or client_secret of notes; correct them below [upstreams.notes.oauth]."
        )
        assert credential.state == "needed"
        corrected = world.credential(client_id="c", client_secret=Secret("right"), issuer=ISSUER)
        assert corrected is not credential
        await corrected.renew()
        assert world.server.asked[1]["client_secret"] == "right"
        assert corrected.authorization == "Bearer a2"


AWAY = [answer(429), answer(503), error("nonsense", 500), answer(401), answer(403), error("forbidden", 403),
        tokens(token_type="mac"), answer(302), NOT_SENT, LOST]  # fmt: skip


@pytest.mark.parametrize("away", AWAY)
async def test_a_server_that_cannot_answer_is_asked_again_with_growing_pauses(tmp_path, autojump_clock, away):
    async with running(tmp_path, away) as world:
        credential = await nearly_over(world)
        counts = []
        for _ in range(30):
            await credential.renew()
            assert credential.authorization == "Bearer a1"
            counts.append(world.server.count)
            await trio.sleep(1)
        # at 0, 1, 3, 7 and 15 s
        assert counts == [1, 2, 2, 3, 3, 3, 3] + [4] * 8 + [5] * 15
        assert credential.state == "waiting"
        assert world.store.load(KEY).refresh_token == Secret("r1")
        await trio.sleep(71)
        errors = await together(9, credential.renew)
        assert world.server.count == 6
        for each in errors:
            assert isinstance(each, UpstreamUnauthorized)
            assert each.retry_after_ms == pytest.approx(32_000)
            assert str(each).startswith("The sign-in for notes cannot be renewed now: https://id.example ")
            assert str(each).endswith(" It is tried again in 32 s.")
        await trio.sleep(20)
        with pytest.raises(UpstreamUnauthorized) as raised:
            await credential.renew()
        assert raised.value.retry_after_ms == pytest.approx(12_000)
        with pytest.raises(UpstreamUnauthorized):
            await credential.replace_refused("Bearer a1", [])
        assert world.server.count == 6


async def test_pauses_end_at_a_minute_and_begin_anew_after_tokens(tmp_path, autojump_clock):
    async with running(tmp_path, answer(503)) as world:
        credential = await nearly_over(world, expires_at=world.wall() + 1e6, obtained_at=world.wall())
        await trio.sleep(1e6 - 3500 - 200)
        asked_at = []
        for _ in range(200):
            before = world.server.count
            await credential.renew()
            if world.server.count > before:
                asked_at.append(trio.current_time())
            await trio.sleep(1)
        pauses = [round(later - sooner) for sooner, later in pairwise(asked_at)]
        assert pauses == [1, 2, 4, 8, 16, 32, 60, 60]


async def test_the_server_says_when_to_ask_again(tmp_path, autojump_clock):
    async with running(tmp_path, answer(503, {"retry-after": "40"}), tokens("a2")) as world:
        credential = await nearly_over(world)
        await credential.renew()
        await trio.sleep(39)
        await credential.renew()
        assert world.server.count == 1
        await trio.sleep(2)
        await credential.renew()
        assert (world.server.count, credential.state) == (2, "good")


@pytest.mark.parametrize("lost", [LOST, answer(502), answer(504), tokens(token_type="mac")])
async def test_the_answer_to_a_renewal_was_lost(tmp_path, autojump_clock, lost):
    async with running(tmp_path, lost, error("invalid_grant")) as world:
        credential = await nearly_over(world)
        await credential.renew()
        await trio.sleep(2)
        await credential.renew()
        assert credential.state == "needed"
        assert credential.problem == (
            f"The answer to a renewal was lost on the way from {ISSUER}, and it takes the old token no more; "
            'run "hubd auth notes".'
        )
        assert world.store.load(KEY).note == credential.problem


@pytest.mark.parametrize("away", [NOT_SENT, answer(503), answer(429), answer(403)])
async def test_nothing_was_lost_where_nothing_was_done(tmp_path, autojump_clock, away):
    async with running(tmp_path, away, error("invalid_grant")) as world:
        credential = await nearly_over(world)
        await credential.renew()
        await trio.sleep(2)
        await credential.renew()
        assert "no longer renews" in credential.problem


async def test_a_lost_answer_of_a_server_with_patience_does_no_harm(tmp_path, autojump_clock):
    async with running(tmp_path, LOST, tokens("a2"), error("invalid_grant")) as world:
        credential = await nearly_over(world)
        await credential.renew()
        await trio.sleep(2)
        await credential.renew()
        assert (credential.state, credential.authorization) == ("good", "Bearer a2")
        await trio.sleep(3500)
        await credential.renew()
        assert "no longer renews" in credential.problem


# --- those who wait ---------------------------------------------------------------------------------------------------


async def test_one_who_waits_is_cancelled_and_the_renewal_goes_on(tmp_path, autojump_clock):
    async with running(tmp_path, tokens("a2")) as world:
        credential = await nearly_over(world)
        world.server.gate = trio.Event()
        async with trio.open_nursery() as nursery:
            with trio.CancelScope() as first:
                nursery.start_soon(credential.renew)
                await world.server.arrived.wait()
                nursery.start_soon(credential.renew)
                async with trio.open_nursery() as inner:

                    @inner.start_soon
                    async def cancelled():
                        with trio.move_on_after(1):
                            await credential.renew()

                    await trio.sleep(2)
                first.cancel()
            assert credential.state == "renewing"
            world.server.gate.set()
        assert credential.authorization == "Bearer a2"
        assert world.server.count == 1


async def test_all_who_wait_are_cancelled_and_the_answer_is_kept(tmp_path, autojump_clock):
    async with running(tmp_path, tokens("a2", refresh_token="r2")) as world:
        credential = await nearly_over(world)
        world.server.gate = trio.Event()
        with trio.move_on_after(1):
            await credential.renew()
        world.server.gate.set()
        await credential.renew()
        assert world.store.load(KEY).refresh_token == Secret("r2")
        assert world.server.count == 1


async def test_the_hub_ends_and_the_answer_is_kept(tmp_path, autojump_clock):
    async with running(tmp_path, tokens("a2", refresh_token="r2")) as world:
        await world.accounts.keep(world.grant(obtained_at=world.wall() - 3500, expires_at=world.wall() + 100))
        world.accounts = world.new_accounts()
        world.server.gate = trio.Event()
        async with trio.open_nursery() as hub:
            hub.start_soon(world.accounts.run)
            hub.start_soon(world.credential().renew)
            await world.server.arrived.wait()
            hub.cancel_scope.cancel()
            world.server.gate.set()
        assert world.store.load(KEY).refresh_token == Secret("r2")


async def test_a_sign_in_in_between_is_used(tmp_path, autojump_clock):
    async with running(tmp_path, tokens("a2")) as world:
        credential = await nearly_over(world)
        await world.new_accounts().keep(world.grant(access_token=Secret("b1"), refresh_token=Secret("s1")))
        await credential.renew()
        assert (credential.authorization, world.server.count) == ("Bearer b1", 0)
        assert world.store.load(KEY).generation == 2


async def test_a_logout_in_another_process_is_seen(tmp_path, autojump_clock):
    async with running(tmp_path, tokens("a2")) as world:
        credential = await nearly_over(world)
        world.store.delete(KEY)
        with pytest.raises(UpstreamUnauthorized, match="needs you to sign in"):
            await credential.renew()
        assert (credential.state, credential.authorization, credential.due) == ("none", "", inf)


async def test_renewals_that_are_asked_for_before_the_accounts_run_wait(tmp_path, autojump_clock):
    async with running(tmp_path, tokens("a2")) as world:
        await world.accounts.keep(world.grant(obtained_at=world.wall() - 3500, expires_at=world.wall() + 100))
        world.accounts = world.new_accounts()
        async with trio.open_nursery() as nursery:
            async with trio.open_nursery() as waiting:
                waiting.start_soon(world.credential().renew)
                await trio.testing.wait_all_tasks_blocked(0.2)
                assert (world.credential().state, world.server.count) == ("renewing", 0)
                nursery.start_soon(world.accounts.run)
            assert world.credential().authorization == "Bearer a2"
            nursery.cancel_scope.cancel()
