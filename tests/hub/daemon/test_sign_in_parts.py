"""The parts of sign-ins of one hub: what stops them, and what does not."""

from types import SimpleNamespace

import trio

from config.settings import HubConfig
from hub.daemon.sign_in_parts import SignInParts
from hub.link.sealing import Keys


def parts_at(tmp_path) -> SignInParts:
    parts = SignInParts(tmp_path, Keys(b"k" * 32), {}, trio.current_time)
    supervisor = SimpleNamespace(upstreams={"notes": None})
    parts.serves(SimpleNamespace(follow_sign_ins=lambda parts: None, supervisor=supervisor, config=HubConfig()), None)
    return parts


async def test_facts_that_cannot_be_read_stop_no_renewal_and_no_sign_in(tmp_path, caplog):
    from tests.upstreams.oauth.store.test_grant_store import grant

    parts = parts_at(tmp_path)
    parts.accounts.store().save(grant())
    (tmp_path / "oauth" / "facts.lock").mkdir()
    renewed, signed_in = trio.Event(), trio.Event()

    async def renew():
        renewed.set()

    async def sign_in():
        signed_in.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(parts.run)
        parts.accounts._spawn("a renewal", renew)
        await renewed.wait()
        while "is not looked through" not in caplog.text:
            await trio.lowlevel.checkpoint()
        parts._spawn(sign_in)
        await signed_in.wait()
        nursery.cancel_scope.cancel()
    assert "facts.lock cannot be opened" in caplog.text
