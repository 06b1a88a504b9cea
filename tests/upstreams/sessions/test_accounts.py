"""Whose sign-in a session shows: the owner's is nobody else's, unless the configuration says so."""

from math import inf

import pytest
import trio

from config.security_settings import UpstreamOAuth
from config.settings import UpstreamConfig
from hub.link.call_interface import OWNER
from hub.link.hub_errors import UpstreamUnauthorized
from hub.wire.mcp import L4, MODERN
from tests.support.fakes import FakeUpstream, make_supervisor
from tests.upstreams.sessions.test_pool import Host, House, WebFake, attempt, do

ERAS = pytest.mark.parametrize("version", [MODERN, L4])


class Shown:
    """A credential that tells whose it is."""

    due = inf

    def __init__(self, principal: str) -> None:
        self.authorization = principal


class SignedIn(House):
    """A house whose hub signs in: every principal has a credential."""

    def __init__(self, version: str, **settings: object) -> None:
        era = "modern" if version == MODERN else "legacy"
        url = {"command": None, "url": "https://notes.example/mcp", "era": era}
        super().__init__(FakeUpstream(version=version), WebFake, **{**url, **settings})
        self.supervisor = make_supervisor(
            self.memory, lambda name: None, run_session=self.run_session, credentials=self
        )
        self.owner_is_out = False

    async def lister(self, name: str) -> str:
        return "team/bob" if self.owner_is_out else OWNER

    async def credential(self, name: str, config: UpstreamConfig, principal: str) -> Shown:
        return Shown(principal)

    async def run_session(self, config, name, events, memory, terms, started):
        if self.owner_is_out and terms.credential.authorization == OWNER:
            raise UpstreamUnauthorized("the owner has not signed in", upstream=name)
        await super().run_session(config, name, events, memory, terms, started)

    @property
    def shown(self) -> list[str | None]:
        """Whose sign-in each session shows, the main one first."""
        return [terms.credential and terms.credential.authorization for terms in self.terms]


async def signed_in(nursery: trio.Nursery, version: str, **settings: object) -> SignedIn:
    house = SignedIn(version, **settings)
    await nursery.start(house.supervisor.run, {"a": house.config})
    await house.supervisor.settled.wait()
    return house


@ERAS
async def test_the_owners_sign_in_serves_nobody_else(nursery, autojump_clock, version):
    house = await signed_in(nursery, version)
    calls = await do(house, Host(principal=OWNER), Host(principal="team/bob"), Host(principal=OWNER))
    assert sum(calls) == 3
    assert house.shown[0] == OWNER
    assert house.shown.count(None) == 1  # bob's, which the server may let in or not
    assert set(house.shown) == {OWNER, None}


@ERAS
async def test_it_serves_all_where_the_configuration_says_so(nursery, autojump_clock, version):
    house = await signed_in(nursery, version, across_principals=True)
    await do(house, Host(principal=OWNER), Host(principal="team/bob"))
    assert set(house.shown) == {OWNER}


@ERAS
async def test_each_principal_may_have_an_account(nursery, autojump_clock, version):
    house = await signed_in(nursery, version, oauth=UpstreamOAuth(account="each"), across_principals=True)
    await do(house, Host(principal=OWNER), Host(principal="team/bob"), Host(principal="team/eve"))
    assert set(house.shown) == {OWNER, "team/bob", "team/eve"}
    assert [house.shown.count(name) for name in ("team/bob", "team/eve")] == [1, 1]


@ERAS
async def test_whoever_has_an_account_does_not_wait_for_the_owners(nursery, autojump_clock, version):
    house = SignedIn(version, oauth=UpstreamOAuth(account="each"))
    house.owner_is_out = True
    await nursery.start(house.supervisor.run, {"a": house.config})
    await house.supervisor.settled.wait()
    assert isinstance(await attempt(house, Host(principal=OWNER)), UpstreamUnauthorized)
    bob = Host(principal="team/bob")
    assert sum(await do(house, bob, bob)) == 2
    assert set(house.shown) == {"team/bob"}


@ERAS
async def test_lists_that_are_everybodys_are_read_as_whoever_signed_in(nursery, autojump_clock, version):
    house = SignedIn(version, oauth=UpstreamOAuth(account="each"), across_principals=True)
    house.owner_is_out = True
    await nursery.start(house.supervisor.run, {"a": house.config})
    await house.supervisor.settled.wait()
    assert house.supervisor.upstreams["a"].offered.listed
    assert isinstance(await attempt(house, Host(principal=OWNER)), UpstreamUnauthorized)
    assert sum(await do(house, Host(principal="team/bob"), Host(principal="team/eve"))) == 2
    assert set(house.shown) == {"team/bob", "team/eve"}, "lists are lent, calls are not"


@ERAS
async def test_a_server_that_nobody_signs_in_at_is_everybodys_as_before(nursery, autojump_clock, version):
    house = SignedIn(version)
    house.supervisor = make_supervisor(house.memory, lambda name: None, run_session=house.run_session)
    await nursery.start(house.supervisor.run, {"a": house.config})
    await house.supervisor.settled.wait()
    await do(house, Host(principal=OWNER), Host(principal="team/bob"))
    assert set(house.shown) == {None}
    assert len(house.terms) == (1 if version == MODERN else 3)
