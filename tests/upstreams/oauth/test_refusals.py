"""What refusals by the upstream lead to: a renewal, a look at who is responsible, more scopes, or a person."""

from math import inf

import pytest
import trio
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from msgspec.structs import replace

from config.security_settings import IdentityProvider, UpstreamOAuth
from config.setting_declarations import Secret
from config.settings import UpstreamConfig
from hub.link.call_interface import OWNER
from hub.link.hub_errors import UpstreamUnauthorized, UpstreamUnresolved
from tests.support.token_world import ISSUER, KEY, PUBLIC, SERVER, URL, answer, error, running, together, tokens
from upstreams.oauth.model import OAuthUnavailable, same_issuer
from upstreams.oauth.store.grant_store import GrantStore
from upstreams.oauth.store.key_seal import KeyLocked, KeySeal
from upstreams.oauth.token_endpoint import with_settings
from upstreams.sessions.sharing import terms_of


async def signed_in(world, credential=None, *, after_s=60, **changes):
    credential = credential or world.credential()
    credential.signed_in(await world.accounts.keep(world.grant(**changes)))
    await trio.sleep(after_s)
    return credential


async def test_a_fresh_token_is_refused_and_nothing_is_tried_for_a_minute(tmp_path, autojump_clock):
    async with running(tmp_path, tokens("a2"), tokens("a3")) as world:
        credential = await signed_in(world)
        assert await credential.replace_refused("Bearer a1", [])
        errors = await together(50, lambda: credential.replace_refused("Bearer a2", []))
        text = (
            f"notes refuses (401) the token that {ISSUER} has just given for it; perhaps it is for another audience. "
            "Nothing is tried for 60 s."
        )
        assert {str(each) for each in errors} == {text}
        assert {each.executed.value for each in errors} == {"no"}
        assert (world.looks, world.server.count, credential.state) == (1, 1, "needed")
        await trio.sleep(59)
        with pytest.raises(UpstreamUnauthorized) as raised:
            await credential.renew()
        assert raised.value.retry_after_ms == pytest.approx(1000)
        await trio.sleep(2)
        await credential.renew()
        assert (world.server.count, credential.authorization) == (2, "Bearer a3")


async def test_a_young_token_that_is_over_is_renewed_when_it_is_refused(tmp_path, autojump_clock):
    async with running(tmp_path, tokens("a2", expires_in=5), tokens("a3")) as world:
        credential = await signed_in(world)
        assert await credential.replace_refused("Bearer a1", [])
        await trio.sleep(5)  # it was sent in time, and arrived too late
        assert await credential.replace_refused("Bearer a2", [])
        assert (credential.authorization, credential.state, world.looks) == ("Bearer a3", "good", 0)


async def test_the_upstream_has_moved_to_another_authorization_server(tmp_path, autojump_clock):
    async with running(tmp_path, tokens("a2")) as world:
        credential = await signed_in(world)
        assert await credential.replace_refused("Bearer a1", [])
        world.issuer = "https://b.example"
        with pytest.raises(UpstreamUnauthorized) as raised:
            await credential.replace_refused("Bearer a2", [])
        assert str(raised.value) == (
            f"notes now names https://b.example as its authorization server; until now it was {ISSUER}. "
            'If you expect that, run "hubd auth notes" in a terminal.'
        )
        assert (credential.state, credential.authorization) == ("needed", "")
        assert world.store.load(KEY).refresh_token == Secret("r1")  # kept, not used
        assert set(world.server.urls) == {f"{ISSUER}/token"}


async def test_the_look_fails(tmp_path, autojump_clock):
    async with running(tmp_path, tokens("a2")) as world:
        credential = await signed_in(world, after_s=0)
        world.issuer = ""
        with pytest.raises(UpstreamUnauthorized, match="has just given"):
            await credential.replace_refused("Bearer a1", [])
        assert world.server.count == 0


async def test_a_token_without_refresh_token_is_refused(tmp_path, autojump_clock):
    async with running(tmp_path, tokens("a2")) as world:
        credential = await signed_in(world, refresh_token=None)
        await credential.renew()
        with pytest.raises(UpstreamUnauthorized, match=f"needs you to sign in at {ISSUER}"):
            await credential.replace_refused("Bearer a1", [])
        assert (credential.state, world.server.count) == ("needed", 0)
        with pytest.raises(UpstreamUnauthorized):
            await credential.renew()
        await world.new_accounts().keep(world.grant(access_token=Secret("b1")))  # a sign-in by another process
        await trio.sleep(6)
        await credential.renew()
        assert (credential.state, credential.authorization) == ("good", "Bearer b1")


async def test_a_token_whose_end_nobody_knows_is_used_until_it_is_refused(tmp_path, autojump_clock):
    async with running(tmp_path, tokens("a2", expires_in=None)) as world:
        credential = await signed_in(world, expires_at=None)
        assert credential.due == inf
        await trio.sleep(80_000)
        await credential.renew()
        assert world.server.count == 0
        assert await credential.replace_refused("Bearer a1", [])
        assert (credential.authorization, credential.due) == ("Bearer a2", inf)


async def test_a_token_that_is_over_at_once_is_renewed_before_each_use(tmp_path, autojump_clock):
    async with running(tmp_path, tokens("a2", expires_in=0), tokens("a3", expires_in="-1")) as world:
        credential = await signed_in(world, after_s=0, expires_at=world.wall())
        for number in (2, 3):
            assert await together(9, credential.renew) == [None] * 9
            assert credential.authorization == f"Bearer a{number}"
            assert world.server.count == number - 1


async def test_the_machine_sleeps(tmp_path, autojump_clock):
    async with running(tmp_path, tokens("a2")) as world:
        credential = await signed_in(world)
        assert credential.due > trio.current_time() + 3000
        world.slept += 3400
        assert credential.due < trio.current_time()
        await credential.renew()
        assert credential.authorization == "Bearer a2"


@pytest.mark.parametrize("ahead", [-3600, 3600])
async def test_the_clock_is_set_while_the_hub_runs(tmp_path, autojump_clock, ahead):
    async with running(tmp_path, tokens("a2")) as world:
        credential = await signed_in(world)
        world.wall_ahead = ahead
        await credential.renew()
        assert world.server.count == 0
        assert credential.due - trio.current_time() == pytest.approx(3600 - 300 - 60)


async def test_the_clock_was_set_back_between_two_runs(tmp_path, autojump_clock):
    async with running(tmp_path, tokens("a2")) as world:
        await world.accounts.keep(world.grant())
        world.wall_ahead = -3600
        world.accounts = world.new_accounts()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(world.accounts.run)
            await world.credential().renew()
            assert (world.server.count, world.credential().authorization) == (1, "Bearer a2")
            nursery.cancel_scope.cancel()


async def test_tokens_are_not_for_another_origin(tmp_path, autojump_clock):
    async with running(tmp_path, tokens("a2")) as world:
        await world.accounts.keep(world.grant())
        moved = UpstreamConfig(url="https://elsewhere.example/mcp", oauth=UpstreamOAuth())
        credential = world.new_accounts().credential("notes", moved, OWNER)
        await credential.renew()
        assert (credential.authorization, credential.grant) == ("", None)


async def test_the_key_is_locked_and_later_it_is_not(tmp_path, autojump_clock):
    async with running(tmp_path, tokens("a2")) as world:
        await world.accounts.keep(world.grant())
        asked = 0
        is_locked = True

        def read():
            nonlocal asked
            asked += 1
            if is_locked:
                raise KeyLocked("keyring")
            from tests.support.token_world import SEALING

            return SEALING

        world.accounts = world.new_accounts(lambda: GrantStore(world.folder, KeySeal("keys", read)))
        credential = world.credential()
        for each in await together(20, credential.renew):
            assert isinstance(each, UpstreamUnresolved)
            assert str(each) == "The key of your sign-ins (keyring) is locked; unlock it, then try again."
        assert asked == 1
        is_locked = False
        await trio.sleep(11)
        await credential.renew()
        assert credential.authorization == "Bearer a1"


async def test_what_cannot_be_opened_needs_a_sign_in(tmp_path, autojump_clock):
    from hub.link.sealing import Keys

    async with running(tmp_path, tokens("a2")) as world:
        await world.accounts.keep(world.grant())
        world.accounts = world.new_accounts(lambda: GrantStore(world.folder, KeySeal("keys", lambda: Keys(b"z" * 32))))
        credential = world.credential()
        await credential.renew()
        assert credential.state == "needed"
        text = 'What hubd knew of your sign-in at notes cannot be opened (another key); run "hubd auth notes".'
        assert credential.problem == text
        with pytest.raises(UpstreamUnauthorized) as raised:
            await credential.replace_refused("", [])
        assert str(raised.value) == text


async def test_tokens_that_cannot_be_kept_are_used_and_kept_later(tmp_path, autojump_clock):
    class FullStore(GrantStore):
        is_full = False

        def save(self, grant):
            if self.is_full:
                from upstreams.oauth.store.private_folder import NotKept

                raise NotKept("A sign-in cannot be kept: disk full.")
            super().save(grant)

    async with running(tmp_path, tokens("a2", refresh_token="r2"), tokens("a3", refresh_token="r3")) as world:
        store = FullStore(world.folder, KeySeal("keys", lambda: world.store._seal._read()))
        world.accounts = world.new_accounts(lambda: store)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(world.accounts.run)
            credential = await signed_in(world, after_s=3500)
            store.is_full = True
            await credential.renew()
            assert (credential.authorization, store.load(KEY).generation) == ("Bearer a2", 1)
            assert "could not be kept" in credential.problem
            store.is_full = False
            await trio.sleep(3500)
            await credential.renew()
            assert world.server.asked[1]["refresh_token"] == "r2"
            assert (credential.authorization, store.load(KEY).generation) == ("Bearer a3", 3)
            nursery.cancel_scope.cancel()


# --- more scopes ------------------------------------------------------------------------------------------------------

WRITE = ['Bearer error="insufficient_scope", scope="write"']


async def test_more_scopes_are_asked_of_a_person_twice_an_operation(tmp_path, autojump_clock):
    async with running(tmp_path, tokens("a2")) as world:
        credential = await signed_in(world)
        for number in (1, 2):
            with pytest.raises(UpstreamUnauthorized, match="wants the scopes write for save; run"):
                await credential.widen_scope(credential.authorization, WRITE, "save")
            assert credential.wanted_scope == "read write"
            assert credential.asks_person
            assert credential.state == "good"
            credential.signed_in(world.grant(access_token=Secret(f"b{number}")))  # which did not ask for it
            assert not credential.asks_person
        assert await credential.widen_scope("Bearer a1", WRITE, "save")  # it was for the token before
        with pytest.raises(UpstreamUnauthorized, match="refuses save: it wants the scopes write"):
            await credential.widen_scope("Bearer b2", WRITE, "save")
        with pytest.raises(UpstreamUnauthorized, match="for delete; run"):
            await credential.widen_scope("Bearer b2", WRITE, "delete")
        assert world.server.count == 0  # no 403 is answered by a renewal


async def test_a_sign_in_that_gave_less_is_not_asked_for_again(tmp_path, autojump_clock):
    async with running(tmp_path, tokens("a2")) as world:
        credential = await signed_in(world, asked_scope="read write", scope="read")
        with pytest.raises(UpstreamUnauthorized, match="does not give them"):
            await credential.widen_scope("Bearer a1", WRITE, "save")


async def test_scopes_that_the_operator_forbids(tmp_path, autojump_clock):
    async with running(tmp_path, tokens("a2")) as world:
        credential = await signed_in(world, world.credential(max_scopes=("read",)))
        with pytest.raises(UpstreamUnauthorized, match="does not give them"):
            await credential.widen_scope("Bearer a1", WRITE, "save")


# --- without a person -------------------------------------------------------------------------------------------------

MACHINE = {"grant": "client_credentials", "issuer": ISSUER, "client_id": "m", "client_secret": Secret("CANARY")}


async def test_client_credentials(tmp_path, autojump_clock):
    async with running(tmp_path, tokens("m1"), tokens("m2"), tokens("m3", scope="read write")) as world:
        credential = world.credential(**MACHINE)
        assert (credential.authorization, credential.due) == ("", inf)
        assert await together(20, lambda: credential.replace_refused("", [])) == [True] * 20
        assert (world.server.count, world.looks, credential.authorization) == (1, 1, "Bearer m1")
        asked = {"grant_type": "client_credentials", "scope": "read", "resource": URL, "client_id": "m"}
        assert world.server.asked[0] == asked
        await trio.sleep(3400)
        await credential.renew()
        assert credential.authorization == "Bearer m2"
        assert await credential.widen_scope("Bearer m2", WRITE, "save")
        assert world.server.asked[2]["scope"] == "read write"
        assert credential.authorization == "Bearer m3"
        with pytest.raises(UpstreamUnauthorized, match="does not give"):
            await credential.widen_scope("Bearer m3", WRITE, "save")
        assert world.store.load(KEY).generation == 3
        assert not credential.asks_person
        world.accounts = world.new_accounts()
        again = world.credential(**MACHINE)
        await again.renew()
        assert (again.authorization, world.server.count) == ("Bearer m3", 3)


async def test_client_credentials_that_are_wrong(tmp_path, autojump_clock):
    async with running(tmp_path, error("invalid_client", 401)) as world:
        credential = world.credential(**MACHINE)
        with pytest.raises(UpstreamUnauthorized, match=r"correct them below \[upstreams\.notes\.oauth\]"):
            await credential.replace_refused("", [])
        assert not credential.asks_person
        with pytest.raises(UpstreamUnauthorized):
            await credential.replace_refused("", [])
        assert world.server.count == 1  # not at once again


async def test_client_credentials_without_an_issuer(tmp_path, autojump_clock):
    async with running(tmp_path, tokens()) as world:
        credential = world.credential(**{**MACHINE, "issuer": ""})
        with pytest.raises(UpstreamUnauthorized, match="needs issuer and client_id"):
            await credential.replace_refused("", [])
        assert (world.server.count, world.looks) == (0, 0)


async def test_a_signed_statement_is_for_the_issuer_and_once_for_the_endpoint(tmp_path, autojump_clock):
    import json
    from base64 import urlsafe_b64decode

    key = ec.generate_private_key(ec.SECP256R1()).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    async with running(tmp_path, error("invalid_client", 401), tokens("m1")) as world:
        settings = {**MACHINE, "client_secret": None, "private_key": Secret(key.decode())}
        credential = world.credential(**settings)
        assert await credential.replace_refused("", [])
        told = [
            json.loads(urlsafe_b64decode(asked["client_assertion"].split(".")[1] + "=="))["aud"]
            for asked in world.server.asked
        ]
        assert told == [ISSUER, f"{ISSUER}/token"]


async def test_the_identity_provider_vouches(tmp_path, autojump_clock):
    jag = answer(
        access_token="CANARY.j.g", issued_token_type="urn:ietf:params:oauth:token-type:id-jag", token_type="N_A"
    )
    idp = IdentityProvider(issuer="https://idp.example", client_id="i", client_secret=Secret("s"))
    async with running(tmp_path, jag, tokens("m1"), idp=idp) as world:
        settings = {**MACHINE, "grant": "id_jag"}
        credential = world.credential(**settings)
        with pytest.raises(UpstreamUnauthorized, match='run "hubd auth --idp"'):
            await credential.replace_refused("", [])
        at_idp = replace(SERVER, issuer="https://idp.example", token_endpoint="https://idp.example/token")
        client = replace(PUBLIC, issuer=idp.issuer, client_id="i", kind="configured", token_auth="client_secret_post")
        key = replace(KEY, issuer="https://idp.example", resource="", upstream="")
        await world.accounts.keep(
            world.grant(key=key, server=at_idp, client=client, id_token=Secret("i.d.t"), sends_resource=False)
        )
        await trio.sleep(61)
        assert await credential.replace_refused("", [])
        assert world.server.urls == ["https://idp.example/token", f"{ISSUER}/token"]
        first, second = world.server.asked
        assert (first["subject_token"], first["audience"], first["client_secret"]) == ("i.d.t", ISSUER, "s")
        assert (second["assertion"], credential.authorization) == ("CANARY.j.g", "Bearer m1")
        assert not any(b"CANARY" in path.read_bytes() for path in world.folder.rglob("*") if path.is_file())


def test_extensions_are_declared_to_those_upstreams_only():
    def declared(**settings):
        return list(terms_of(UpstreamConfig(url=URL, oauth=UpstreamOAuth(**settings))).extensions)

    assert declared() == []
    assert declared(grant="client_credentials") == ["io.modelcontextprotocol/oauth-client-credentials"]
    assert declared(grant="id_jag") == ["io.modelcontextprotocol/enterprise-managed-authorization"]
    assert declared(grant="none") == []


# --- accounts ---------------------------------------------------------------------------------------------------------


async def test_who_has_a_credential(tmp_path, autojump_clock):
    async with running(tmp_path, tokens()) as world:
        find = world.accounts.credential
        assert find("files", UpstreamConfig(command="files"), OWNER) is None
        assert find("notes", UpstreamConfig(url=URL, headers={"authorization": Secret("x")}), OWNER) is None
        assert find("notes", UpstreamConfig(url=URL, oauth=UpstreamOAuth(grant="none")), OWNER) is None
        config = UpstreamConfig(url=URL)
        assert find("notes", config, OWNER) is find("notes", UpstreamConfig(url=URL), OWNER)
        assert find("notes", config, "team/alice") is not find("notes", config, OWNER)
        assert world.accounts.find("notes", "team/bob") is None
        assert not world.folder.exists()


async def test_rows_for_people(tmp_path, autojump_clock):
    async with running(tmp_path, tokens()) as world:
        await signed_in(world)
        await world.accounts.keep(world.grant(key=replace(KEY, upstream="other"), refresh_token=None))
        rows = {row.upstream: row for row in world.accounts.rows()}
        assert (rows["notes"].state, rows["notes"].renewable, rows["notes"].key_source) == ("good", True, "keys")
        assert (rows["other"].state, rows["other"].renewable, rows["other"].issuer) == ("good", False, ISSUER)


@pytest.mark.parametrize(
    ("revocation", "revoked", "why"),
    [(answer(200), True, ""), (answer(503), False, "did not end it"), (OAuthUnavailable("x"), False, "x")],
)
async def test_logging_out(tmp_path, autojump_clock, revocation, revoked, why):
    async with running(tmp_path, revocation) as world:
        credential = await signed_in(world)
        world.store.clients.put(ISSUER, "x", "notes", PUBLIC)
        done = await credential.logout()
        assert (done.was_signed_in, done.revoked, done.forgot_client) == (True, revoked, False)
        assert why in done.why_not
        assert world.server.urls == [f"{ISSUER}/revoke"]
        assert (credential.state, credential.authorization, credential.due) == ("none", "", inf)
        assert world.store.load(KEY) is None
        assert world.store.clients.find(ISSUER, "x", "notes") == PUBLIC
        again = await credential.logout(forget=True)
        assert (again.was_signed_in, again.revoked, again.forgot_client) == (False, None, True)
        with pytest.raises(UpstreamUnauthorized):
            await credential.replace_refused("", [])


async def test_logging_out_waits_five_seconds_for_the_server(tmp_path, autojump_clock):
    async with running(tmp_path, answer(200)) as world:
        credential = await signed_in(world)
        world.server.gate = trio.Event()
        done = await credential.logout()
        assert (done.revoked, done.why_not) == (False, f"{ISSUER} did not answer within 5 s")
        assert world.store.load(KEY) is None


async def test_asking_covers_the_state(tmp_path, autojump_clock):
    async with running(tmp_path, tokens()) as world:
        credential = await signed_in(world)
        credential.asking(True)
        assert (credential.state, credential.is_usable) == ("asking", True)
        credential.asking(False)
        assert credential.state == "good"


async def test_nothing_shows_secrets(tmp_path, autojump_clock, caplog):
    async with running(tmp_path, error("invalid_grant", error_description="CANARY")) as world:
        canary = {"access_token": Secret("CANARY1"), "refresh_token": Secret("CANARY2"), "id_token": Secret("CANARY3")}
        credential = await signed_in(world, after_s=3580, **canary)
        await credential.renew()
        await trio.sleep(60)
        with pytest.raises(UpstreamUnauthorized) as raised:
            await credential.renew()
        shown = [credential, world.accounts, raised.value, raised.value.facts(), world.accounts.rows(), caplog.text]
        shown += [credential.grant, credential.problem]
        assert "CANARY" not in repr(shown)


OLD = replace(PUBLIC, kind="configured", secret=Secret("SECRET-OF-A"), token_auth="client_secret_post")
MOVED = {"issuer": "https://b.example", "client_id": "hub-1", "client_secret": Secret("SECRET-OF-B")}


async def test_the_secret_for_another_issuer_is_not_shown_to_the_one_before(tmp_path, autojump_clock):
    async with running(tmp_path, tokens("a2")) as world:
        before = {**MOVED, "issuer": ISSUER, "client_secret": Secret("SECRET-OF-A")}
        await signed_in(world, world.credential(**before), client=OLD)
        credential = world.credential(**MOVED)
        await credential.renew()
        assert (credential.authorization, credential.grant) == ("", None), "the token of the issuer before"
        with pytest.raises(UpstreamUnauthorized, match="needs you to sign in"):
            await credential.replace_refused("", [])
        await trio.sleep(3600)
        await credential.renew()
        await credential.logout()
        assert world.server.count == 0


def test_a_secret_is_for_the_issuer_it_is_configured_beside():
    assert with_settings(OLD, UpstreamOAuth(**MOVED)) == OLD
    stays = UpstreamOAuth(**{**MOVED, "issuer": f"{ISSUER}/"})
    assert with_settings(OLD, stays).secret == MOVED["client_secret"]


@pytest.mark.parametrize(
    ("one", "other", "are_one"),
    [
        ("https://a.example", "https://a.example/", True),
        ("https://a.example/t", "https://a.example/t", True),
        ("https://a.example/t", "https://a.example/t/", False),
        ("https://a.example", "https://a.example//", False),
        ("https://a.example", "https://b.example", False),
        ("https://a.example", "https://A.example", False),
        ("https://a.example", "https://a.example:443", False),
        ("https://a.example?", "https://a.example?/", False),
        ("https://a.example#", "https://a.example#/", False),
        ("https://a.example", "https://a.example.evil.example/", False),
        ("", "/", False),
    ],
)
def test_issuers_with_and_without_a_slash(one, other, are_one):
    assert same_issuer(one, other) is same_issuer(other, one) is are_one


async def test_a_renewal_that_comes_late_does_not_take_the_place_of_a_new_sign_in(tmp_path, autojump_clock):
    async with running(tmp_path, tokens("late")) as world:
        credential = await signed_in(world)
        world.server.gate = trio.Event()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(credential.replace_refused, "Bearer a1", [])
            await world.server.arrived.wait()
            elsewhere = replace(KEY, issuer="https://b.example")
            new = world.grant(key=elsewhere, access_token=Secret("new"))
            credential.signed_in(await world.accounts.keep(new))
            world.server.gate.set()
        assert (credential.authorization, credential.grant.key, credential.state) == ("Bearer new", elsewhere, "good")
        world.server.answers = [error("invalid_grant")]
        world.server.gate = trio.Event()
        world.server.arrived = trio.Event()
        await trio.sleep(60)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(credential.replace_refused, "Bearer new", [])
            await world.server.arrived.wait()
            credential.signed_in(await world.accounts.keep(world.grant(access_token=Secret("newest"))))
            world.server.gate.set()
        assert (credential.authorization, credential.state, credential.problem) == ("Bearer newest", "good", "")
