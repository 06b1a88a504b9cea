"""Which credentials a hub remembers."""

import trio
from msgspec.structs import replace

from config.security_settings import UpstreamOAuth
from config.settings import UpstreamConfig
from hub.link.call_interface import OWNER
from tests.support.token_world import KEY, URL, running, tokens
from upstreams.oauth.credentials_by_upstream import MAX_IDLE

CONFIG = UpstreamConfig(url=URL, oauth=UpstreamOAuth(account="each"))


async def test_credentials_that_hold_nothing_are_few(tmp_path, autojump_clock):
    async with running(tmp_path, tokens()) as world:
        accounts = world.accounts
        owner = world.credential()
        owner.signed_in(await accounts.keep(world.grant()))
        of_session = accounts.credential("notes", CONFIG, "held")
        for number in range(MAX_IDLE + 50):
            accounts.credential("notes", CONFIG, f"principal-{number}")
        assert accounts.find("notes", "principal-0") is None
        assert accounts.find("notes", f"principal-{MAX_IDLE + 49}") is not None
        assert accounts.find("notes", OWNER) is owner, "it has a grant"
        assert accounts.credential("notes", CONFIG, "held") is of_session, "one, as long as it is used"
        remembered = sum(accounts.find("notes", f"principal-{each}") is not None for each in range(MAX_IDLE + 50))
        assert remembered <= MAX_IDLE + 1, "and the newest"


async def test_credentials_of_upstreams_that_are_gone_are_forgotten(tmp_path, autojump_clock):
    async with running(tmp_path, tokens()) as world:
        world.configured = {"notes", "other"}
        accounts = world.accounts
        world.credential().signed_in(await accounts.keep(world.grant()))
        accounts.idp(OWNER)
        assert accounts.find("notes", OWNER) is not None
        world.configured = {"other"}
        accounts.credential("other", CONFIG, OWNER)
        assert accounts.find("notes", OWNER) is None
        assert accounts.find("", OWNER) is not None


async def test_lists_that_are_everybodys_are_read_as_the_owner_or_whoever_signed_in_first(tmp_path, autojump_clock):
    async with running(tmp_path, tokens()) as world:
        accounts = world.accounts
        assert await accounts.first_of("notes") == OWNER, "nobody is signed in"

        async def sign_in(principal, *, upstream="notes", **changes):
            key = replace(KEY, upstream=upstream, principal=principal)
            await accounts.keep(replace(world.grant(key=key), **changes))
            await trio.sleep(1)

        await sign_in("team/eve", upstream="other")
        assert await accounts.first_of("notes") == OWNER
        await sign_in("team/mallory", sign_in_needed=True)
        await sign_in("team/bob")
        await sign_in("team/alice")
        assert await accounts.first_of("notes") == "team/bob"
        await sign_in(OWNER)
        assert await accounts.first_of("notes") == OWNER
