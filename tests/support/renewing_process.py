"""A process with a credential and its own clocks, for tests of several processes with one store.

    python -m tests.support.renewing_process '{"folder": ..., "issuer": ..., "waiters": 100, "die": ""}'

For each line on stdin, a number of seconds, the clocks are set to that, all waiters ask for a token that lasts, and a
line of JSON on stdout says what came of it. `die`: the step at which it kills itself.
"""

import json
import os
import signal
import sys
from pathlib import Path

import trio

from config.security_settings import OAuthConfig
from config.setting_declarations import Secret
from config.settings import UpstreamConfig
from hub.link.call_interface import OWNER
from hub.link.hub_errors import HubError
from hub.link.sealing import Keys
from upstreams.fetch.fetcher import Fetcher
from upstreams.oauth.credentials_by_upstream import Accounts
from upstreams.oauth.model import AuthorizationServer, Grant, GrantKey, OAuthClient
from upstreams.oauth.store.grant_store import GrantStore
from upstreams.oauth.store.key_seal import KeySeal
from upstreams.oauth.store.renewal_lock import HeldLock
from upstreams.oauth.token_answers import origin_of

WALL = 1_700_000_000.0
LIFE_S = 100.0


def url_of(issuer: str) -> str:
    return f"{issuer}/mcp"


def key_of(issuer: str) -> GrantKey:
    return GrantKey(issuer, url_of(issuer), "notes", OWNER)


def store_in(folder: str) -> GrantStore:
    return GrantStore(Path(folder), KeySeal("keys", lambda: Keys(b"k" * 32)))


def first(issuer: str) -> Grant:
    """A grant that was given at `WALL`, with the refresh token `r1`."""
    return Grant(
        key=key_of(issuer),
        access_token=Secret("a1"),
        refresh_token=Secret("r1"),
        obtained_at=WALL,
        expires_at=WALL + LIFE_S,
        signed_in_at=WALL,
        server=AuthorizationServer(issuer=issuer, token_endpoint=f"{issuer}/token"),
        client=OAuthClient(issuer=issuer, client_id="hub"),
        origin=origin_of(issuer),
    )


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class DyingFetcher(Fetcher):
    """Dies before a request or after its answer."""

    def __init__(self, step: str) -> None:
        super().__init__({}, timeout_s=60.0)  # of a machine that has much else to do
        self._step = step

    async def post_form(self, url, fields, allowed, *, headers=None):
        if self._step == "before the request":
            die()
        answer = await super().post_form(url, fields, allowed, headers=headers)
        if self._step == "after the answer":
            die()
        return answer


def dying(step: str) -> None:
    """Die at a step of the store."""
    before = {
        "before reading": (GrantStore, "load"),
        "before the note": (HeldLock, "begin"),
        "before writing": (GrantStore, "save"),
        "before renaming": (os, "replace"),
        "before the note is void": (HeldLock, "finish"),
    }
    after = {
        "after reading": (GrantStore, "load"),
        "after the note": (HeldLock, "begin"),
        "after renaming": (os, "replace"),
        "after writing": (GrantStore, "save"),
        "after the note is void": (HeldLock, "finish"),
    }
    for steps, is_after in ((before, False), (after, True)):
        if step in steps:
            owner, name = steps[step]
            real = getattr(owner, name)

            def deadly(*args, _real=real, _is_after=is_after, **more):
                if _is_after:
                    _real(*args, **more)
                die()

            setattr(owner, name, deadly)


async def main(folder: str, issuer: str, waiters: int, step: str) -> None:
    at = 0.0
    fetch = DyingFetcher(step)

    accounts = Accounts(
        OAuthConfig,
        lambda: store_in(folder),
        fetch,
        folder=Path(folder),
        wall=lambda: WALL + at,
        clock=lambda: trio.current_time() + at,
    )
    credential = accounts.credential("notes", UpstreamConfig(url=url_of(issuer)), OWNER)
    assert credential is not None
    errors: set[str] = set()

    async def wait() -> None:
        try:
            await credential.renew()
        except HubError as error:
            errors.add(str(error))

    async with trio.open_nursery() as hub:
        hub.start_soon(accounts.run)
        while line := await trio.to_thread.run_sync(sys.stdin.readline):
            at = float(line)
            async with trio.open_nursery() as nursery:
                for _ in range(waiters):
                    nursery.start_soon(wait)
            said = {"token": credential.authorization, "state": credential.state, "errors": sorted(errors)}
            sys.stdout.write(json.dumps({**said, "problem": credential.problem}) + "\n")
            sys.stdout.flush()
        hub.cancel_scope.cancel()


if __name__ == "__main__":
    options = json.loads(sys.argv[1])
    dying(options["die"])
    trio.run(main, options["folder"], options["issuer"], options["waiters"], options["die"])
