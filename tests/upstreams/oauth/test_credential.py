"""What sessions show, and what becomes of those who wait for a renewal."""

from math import inf

import pytest
import trio

from hub.link.hub_errors import UpstreamUnauthorized
from tests.support.token_world import (
    KEY,
    URL,
    running,
    together,
    tokens,
)


async def test_without_a_grant_requests_go_without_a_token(tmp_path, autojump_clock):
    async with running(tmp_path, tokens()) as world:
        credential = world.credential()
        assert (credential.authorization, credential.due, credential.state) == ("", inf, "none")
        await credential.renew()
        with pytest.raises(UpstreamUnauthorized, match='needs you to sign in; run "hubd auth notes"'):
            await credential.refused("", ['Bearer scope="read"'])
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
        assert await together(50, lambda: credential.refused("Bearer a1", [])) == [True] * 50
        assert world.server.count == 1
        assert await credential.refused("Bearer a1", [])  # it was for the generation before
        assert world.server.count == 1
        assert world.store.load(KEY).refresh_token.reveal() == "r1"  # no new one came
