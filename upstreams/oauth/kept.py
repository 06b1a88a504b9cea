"""The grant that is kept of a sign-in, if it is good for an upstream as it is configured now."""

import trio

from config.oauth_settings import UpstreamOAuth
from upstreams.oauth.model import Grant, OAuthProblem, same_issuer
from upstreams.oauth.parts import Shared
from upstreams.oauth.tokens.grants import is_for


async def kept_grant(
    upstream: str, principal: str, url: str, settings: UpstreamOAuth, shared: Shared
) -> tuple[Grant | None, str]:
    """The grant of a principal for the upstream at `url`, and what a person should know: why there is one that cannot
    be used.

    Raises:
        KeyLocked: the key cannot be had now.
    """
    try:
        grant = await trio.to_thread.run_sync(lambda: shared.store().find(upstream, principal))
    except OAuthProblem as problem:
        return None, str(problem)
    if grant is None or (upstream and not is_for(grant, url)):
        return None, ""
    if settings.issuer and not same_issuer(grant.key.issuer, settings.issuer):
        return None, ""  # the operator has moved it to another authorization server since
    return grant, ""
