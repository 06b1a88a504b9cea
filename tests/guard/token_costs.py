"""What tokens cost a request that is not the first with them, in function calls and in time.

    python -m tests.guard.token_costs        prints microseconds, and the number of calls

`checks` are requests of hosts: the hub's own token, a token of a host, a JWT and a token that its issuer was asked
about, whose verdicts are remembered. `upstream_request` is what is done for the credential of an upstream in which
somebody is signed in, before each of its requests.
"""

import tempfile
import timeit
from collections.abc import Callable
from functools import partial
from math import inf
from pathlib import Path

import trio

from config.security_settings import AccessConfig, AccessIssuer, AccessToken, Introspection
from config.setting_declarations import Secret
from hub.app import WALL
from hub.downstream.access.access import Access, Credentials
from hub.downstream.access.issuer_token_verdicts import IssuerTokens
from hub.downstream.access.token_lookup import NamedTokens
from hub.link.call_interface import Identity
from hub.net.http_request import HttpRequest
from tests.support.counting import calls_of
from tests.support.issuer_world import BY_NAME, HUB, NOW, URL, World
from tests.support.token_world import answer, running
from upstreams.transports.connect_to_url import parse_url
from upstreams.transports.http.request_credentials import RequestCredentials

OWN, OF_HOST = "o" * 43, "h" * 43
TIMES, ROUNDS = 300, 1_000
"""Short rounds, of which the fastest counts: it is one in which nothing else ran."""
Work = Callable[[], object]


async def checks(directory: Path) -> dict[str, Work]:
    """A check of each kind of token, remembered as it is after the first request."""
    world = World()
    world.answers["opaque"] = {"active": True, "sub": "alice", "aud": HUB, "scope": "mcp", "exp": NOW + 300}
    asked = Introspection(client_id="hub", client_secret=Secret("s"))
    issuer = AccessIssuer(name="team", issuer=URL, introspection=asked)
    issued = IssuerTokens(AccessConfig(issuers=(issuer,), required_scopes=("mcp",)), HUB, world, WALL)
    named, none = NamedTokens(directory / "tokens.json", WALL), NamedTokens(directory / "tokens.json", WALL)
    named.configure((AccessToken(name="ci", token=Secret(OF_HOST)),))
    found: dict[str, Work] = {}
    tokens = {"own": OWN, "of a host": OF_HOST, "JWT": BY_NAME["good-es256"], "asked about": "opaque"}
    for name, token in tokens.items():
        request = HttpRequest("POST", "/mcp", {"host": "hub", "authorization": f"Bearer {token}"})
        credentials = Credentials(named if token is OF_HOST else none, issued)
        access = Access(port=80, hosts=["hub"], token=OWN, others=credentials)
        first = access.check(request)
        if not isinstance(first, Identity):
            await first()
        assert isinstance(access.check(request), Identity), name
        found[name] = partial(access.check, request)
    return found


async def upstream_request(directory: Path) -> Work:
    """What a request to an upstream does beyond one without a credential."""
    async with running(directory, answer()) as world:
        credential = world.credential()
        credential.signed_in(await world.accounts.keep(world.grant()))
    fields = RequestCredentials("notes", parse_url("https://notes.example/mcp"), {}, None, credential)
    await fields.refresh(credential)
    assert fields.shown.startswith("Bearer ")

    def work() -> None:
        if credential.authorization is not fields.shown or credential.due < inf:
            try:
                fields.refresh(credential).send(None)
            except StopIteration:
                pass
            else:
                raise AssertionError("it waits for something")
        fields.current()

    return work


async def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        works = {**await checks(directory), "upstream request": await upstream_request(directory)}
        for title, work in works.items():
            best = min(timeit.repeat(work, number=TIMES, repeat=ROUNDS)) / TIMES * 1e6
            print(f"{title:18} {best:5.2f} us  {calls_of(work):3} calls")  # noqa: T201


if __name__ == "__main__":
    trio.run(main)
