"""Which credentials a hub remembers."""

from config.oauth_settings import UpstreamOAuth
from config.settings import UpstreamConfig
from hub.link.interface import OWNER
from tests.support.token_world import URL, running, tokens
from upstreams.oauth.accounts import MAX_IDLE

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
