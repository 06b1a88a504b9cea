"""Sessions of legacy hosts over HTTP that outlive the hub, and those that must not."""

import json
from contextlib import asynccontextmanager

import msgspec
import pytest
import trio
import trio.testing

from cache.shared_store import MAX_FACT_BYTES
from config.profile_settings import Profile
from config.remembered_facts import Memory
from hub.catalog.endpoint_views import EVERYTHING
from hub.catalog.profiles.profile_choice import ProfileChoice
from hub.downstream.http import age_in_running_time, sessions
from hub.downstream.http import durable_sessions as module
from hub.downstream.http.durable_sessions import LIFE_S, MAX_ID, MAX_URIS, DurableSessions, KeptFacts
from hub.downstream.http.session import RESUBSCRIBE_S
from hub.downstream.http.sessions import IDLE_UPKEEP_S, MAX_SESSIONS_OF_PRINCIPAL, SESSION_IDLE_S
from hub.link.call_interface import Identity
from hub.link.sealing import Signer
from hub.wire.jsonrpc import raw
from hub.wire.mcp import L1, L2, L3, L4, MODERN, Kind
from tests.support.fakes import FakeUpstream
from tests.support.house import a_house
from tests.support.http_fakes import BOB, Answered, Host, Scripted, make_durable_sessions, make_endpoint
from upstreams.inventory.last_known_lists import LastKnown

TOOLS_CHANGED = "notifications/tools/list_changed"
UPDATED = "notifications/resources/updated"


class Hubs:
    """One hub after another, with one state directory. Each is killed, without a word, when the next one starts."""

    def __init__(self, path, nursery):
        self.path = path
        self.now = 1_800_000_000.0
        self._nursery = nursery
        self._scope = trio.CancelScope()
        self._over = None

    async def start(self, router=None, *, saved=True):
        """The next one; `saved`: the one before had the time to write what it keeps."""
        if self._over is not None:
            kept = self.path.read_bytes() if self.path.exists() else None
            self._scope.cancel()
            await self._over.wait()
            if not saved and kept is not None:
                self.path.write_bytes(kept)
            elif not saved:
                self.path.unlink(missing_ok=True)
        self._over = trio.Event()
        self.router = router or Scripted()
        self.journal = Memory(self.path)
        self.durable = make_durable_sessions(self.journal, lambda: self.now)
        self.endpoint = make_endpoint(self.router, self.durable)
        self._nursery.start_soon(self._run, self.endpoint)
        await trio.testing.wait_all_tasks_blocked()
        return self

    async def _run(self, endpoint):
        over = self._over
        with trio.CancelScope() as self._scope:
            await endpoint.run()
        over.set()

    async def host(self, version=L4, **more):
        """A host with a session."""
        host = Host(self.endpoint, **more)
        host.capabilities = {"roots": {"listChanged": True}, "elicitation": {}}
        await host.initialize(version)
        await host.notify("notifications/initialized")
        return host

    def again(self, host):
        """The same host, at the hub that runs now."""
        host.endpoint = self.endpoint
        return host

    async def listen(self, host, **headers):
        """What a host hears on a stream of its own."""
        answered = Answered()
        self._nursery.start_soon(lambda: host.get(into=answered, **headers))
        await trio.testing.wait_all_tasks_blocked()
        return answered


@pytest.fixture
async def hubs(nursery, tmp_path):
    return await Hubs(tmp_path / "sessions.json", nursery).start()


async def is_gone(host):
    """Whether the session does not exist, whatever is done with it; what is said of it then."""
    called = await host.call("echo")
    assert called.status == 404
    for answered in (await host.get(), await host.http("DELETE", b"", host.headers())):
        assert (answered.status, answered.body) == (404, called.body)
    return called.body


@pytest.mark.covers("T-32", "T-36", "F-D-03", "G-18")
@pytest.mark.parametrize("version", [L1, L2, L3, L4])
async def test_a_session_is_as_before(autojump_clock, hubs, version):
    host = await hubs.host(version)
    before = hubs.endpoint.hosts.status()[0]
    await hubs.start(saved=False)
    assert (await hubs.again(host).call("echo")).last["result"]
    caller = hubs.router.seen[0][0].caller
    assert (caller.version, caller.identity) == (version, host.identity)
    assert json.loads(bytes(caller.capabilities["roots"])) == {"listChanged": True}
    assert hubs.endpoint.hosts.status()[0] == msgspec.structs.replace(before, attached_s=0.0)
    assert (await host.call("echo", 2)).last["result"]
    assert len(hubs.endpoint.sessions) == 1
    await hubs.start(saved=False)
    assert (await hubs.again(host).call("echo")).status == 200


@pytest.mark.covers("T-32", "SEC-06")
async def test_ids_are_plain_short_and_never_the_same(autojump_clock, hubs):
    ids = [(await hubs.host()).session for _ in range(3)]
    assert len(set(ids)) == 3
    for id in ids:
        assert len(id) < 400
        assert set(id) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.")


@pytest.mark.covers("F-H-14", "SEC-06", "T-33")
async def test_every_changed_character_makes_it_another(autojump_clock, hubs):
    host = await hubs.host()
    await hubs.start()
    hubs.again(host)
    id = host.session
    host.session = "x" * 32
    nothing = await is_gone(host)
    for at, char in enumerate(id):
        for other in {chr(ord(char) ^ 1), "A", ".", ""} - {char}:
            host.session = id[:at] + other + id[at + 1 :]
            answered = await host.call("echo")
            assert (answered.status, answered.body) == (404, nothing), (at, other)
    for changed in (id + "A", id + ".", "v1." + id, id + id, id.upper(), "\u00e9" + id, id + "=", "", "..."):
        host.session = changed
        assert (await host.call("echo")).status == 404, changed
    host.session = id
    assert (await host.call("echo")).status == 200


@pytest.mark.covers("F-H-14", "SEC-05", "SEC-06")
async def test_a_session_of_another_is_as_none(autojump_clock, hubs):
    owner = await hubs.host()
    scoped = await hubs.host(path="/mcp/files")
    await hubs.start()
    strangers = [
        Host(hubs.endpoint, BOB),
        Host(hubs.endpoint, Identity(owner.identity.principal, "other")),
        Host(hubs.endpoint, path="/mcp/files"),
    ]
    for each in strangers:
        each.session = owner.session
    strangers.append(Host(hubs.endpoint))
    strangers[-1].session = scoped.session
    strangers.append(Host(hubs.endpoint))
    strangers[-1].session = "x" * 300
    assert len({await is_gone(each) for each in strangers}) == 1
    assert len(hubs.endpoint.sessions) == 0
    assert (await hubs.again(owner).call("echo")).status == 200
    assert len({await is_gone(each) for each in strangers}) == 1
    assert (await hubs.again(scoped).call("echo")).status == 200


class Recorder(Signer):
    """Remembers what an id was bound to."""

    bound = b""

    def sign(self, purpose: str, value: bytes, bound: bytes = b"") -> str:
        self.bound = bound
        return super().sign(purpose, value, bound)


@pytest.mark.covers("F-H-14")
async def test_an_id_signed_with_another_key_or_for_something_else(autojump_clock, hubs):
    host = await hubs.host()
    await hubs.start()
    signer = Recorder(b"o" * 32)
    foreign = DurableSessions(signer, Memory(None), lambda: hubs.now)
    forged = Host(hubs.endpoint)
    forged.session = foreign.mint(host.identity, EVERYTHING, L4, {}, raw({})).id
    await is_gone(forged)
    for purpose, value in (("cursor", b"0"), ("session", b"0"), ("session", b"\xff"), ("session", b"[]")):
        forged.session = Signer(b"k" * 32).sign(purpose, value, signer.bound)
        await is_gone(forged)


@pytest.mark.covers("T-33", "T-34", "F-H-21")
async def test_what_was_ended_stays_so_in_this_run_and_all_others(autojump_clock, hubs):
    host, silent = await hubs.host(), await hubs.host()
    assert (await host.http("DELETE", b"", host.headers())).status == 200
    body = await is_gone(host)
    await trio.sleep(SESSION_IDLE_S + 60)
    await is_gone(silent)
    for _ in range(3):
        await hubs.start()
        assert {await is_gone(hubs.again(host)), await is_gone(hubs.again(silent))} == {body}


@pytest.mark.covers("T-34")
async def test_a_session_of_an_earlier_run_can_be_ended(autojump_clock, hubs):
    host = await hubs.host()
    await hubs.start()
    assert (await hubs.again(host).http("DELETE", b"", host.headers())).status == 200
    await is_gone(host)
    assert len(hubs.router.gone) == 1
    await hubs.start()
    await is_gone(hubs.again(host))


@pytest.mark.covers("F-H-14", "T-33")
async def test_old_sessions_are_not_revived(autojump_clock, hubs):
    old, young = await hubs.host(), None
    hubs.now += 3600
    young = await hubs.host()
    hubs.now += LIFE_S - 3600
    assert (await old.call("echo")).status == 200  # it lives
    await hubs.start()
    await is_gone(hubs.again(old))
    assert (await hubs.again(young).call("echo")).status == 200
    hubs.now -= 2 * LIFE_S  # a clock that was wrong
    await hubs.start()
    await is_gone(hubs.again(young))


SOON_S = 200.0


@pytest.fixture
def soon(monkeypatch):
    """Hubs forget after this time, for a day has very many moments."""
    monkeypatch.setattr(module, "FORGET_S", SOON_S)
    monkeypatch.setattr(age_in_running_time, "NOTE_S", 20.0)
    monkeypatch.setattr(sessions, "IDLE_UPKEEP_S", 10.0)


def test_hubs_run_longer_than_sessions_live_until_they_forget():
    assert module.FORGET_S > LIFE_S + IDLE_UPKEEP_S


@pytest.mark.covers("F-D-11", "F-H-14", "F-H-21")
@pytest.mark.parametrize("days", [2, 400, -2, -400])
@pytest.mark.parametrize("while_it_runs", [True, False])
async def test_a_clock_that_is_wrong_for_a_while_changes_nothing(autojump_clock, hubs, days, while_it_runs):
    ended, living = await hubs.host(), await hubs.host()
    await set_level(living, "error")
    await subscribe(living, "a://1")
    assert (await ended.http("DELETE", b"", ended.headers())).status == 200
    hubs.now += days * LIFE_S
    if not while_it_runs:
        await hubs.start()
        await is_gone(hubs.again(ended))
    await trio.sleep(30)  # upkeep
    await hubs.host()
    hubs.now -= days * LIFE_S
    await hubs.start()
    await trio.sleep(30)
    await is_gone(hubs.again(ended))
    assert (await hubs.again(living).call("echo")).status == 200
    await trio.testing.wait_all_tasks_blocked()
    assert hubs.endpoint.hosts.log_levels() == ["error"]
    assert hubs.router.subscribed == ["a://1"]


@pytest.mark.covers("F-D-11", "F-H-14", "F-H-21")
async def test_what_has_ended_stays_so_though_it_is_forgotten(autojump_clock, hubs, soon):
    """The clock is set back by all the time that has gone by since."""
    ended = await hubs.host()
    assert (await ended.http("DELETE", b"", ended.headers())).status == 200
    hubs.now += LIFE_S
    await trio.sleep(SOON_S + 20)
    assert hubs.journal.keys("over") == []
    hubs.now -= LIFE_S
    await hubs.start()
    await is_gone(hubs.again(ended))
    host = await hubs.host()  # at the very second
    await hubs.start()
    assert (await hubs.again(host).call("echo")).status == 200


@pytest.mark.covers("F-D-11")
async def test_how_long_hubs_have_run_adds_up(autojump_clock, hubs, soon):
    ended = await hubs.host()
    assert (await ended.http("DELETE", b"", ended.headers())).status == 200
    for _ in range(8):
        assert hubs.journal.keys("over")
        await trio.sleep(SOON_S / 8)
        await hubs.start()
    await trio.sleep(SOON_S / 2)  # what did not count
    assert hubs.journal.keys("over") == []


@pytest.mark.covers("F-D-11")
async def test_a_journal_of_another_version_counts_from_now(autojump_clock, hubs, soon):
    ended = await hubs.host()
    assert (await ended.http("DELETE", b"", ended.headers())).status == 200
    hubs.durable.save()
    file = json.loads(hubs.path.read_bytes())
    del file["sections"]["since"]
    file["sections"]["clock"] = {"ran": "x"}
    hubs.path.write_text(json.dumps(file))
    await hubs.start(saved=False)
    await trio.sleep(SOON_S - 20)
    await is_gone(hubs.again(ended))
    assert len(hubs.journal.keys("over")) == 1
    await trio.sleep(40)
    assert hubs.journal.keys("over") == []


async def test_a_host_with_too_much_to_say_gets_a_session_that_ends_with_the_hub(autojump_clock, hubs):
    host = Host(hubs.endpoint)
    host.capabilities = {"experimental": {"x": {"y": "z" * MAX_ID}}}
    answered = await host.initialize()
    assert len(answered.headers["Mcp-Session-Id"]) < 64
    assert (await host.call("echo")).status == 200
    assert (
        await host.post({"jsonrpc": "2.0", "id": 1, "method": "logging/setLevel", "params": {"level": "info"}})
    ).last
    await hubs.start()
    await is_gone(hubs.again(host))
    host.session = "x" * 100_000
    await is_gone(host)


async def test_names_of_hosts_are_kept_short(autojump_clock, hubs):
    host = Host(hubs.endpoint)
    info = {"name": "n" * 5000, "version": "1", "icons": [{"src": "data:" + "x" * 5000}]}
    past = hubs.durable.mint(host.identity, EVERYTHING, L4, {}, raw(info))
    await hubs.start()
    assert hubs.durable.find(past.id, host.identity, EVERYTHING, EVERYTHING).handshake.info == {
        "name": "n" * 100,
        "version": "1",
    }


# --- streams ----------------------------------------------------------------------------------------------------------


@pytest.mark.covers("T-29", "SEC-06", "F-H-14")
async def test_streams_of_an_earlier_run_are_gone_and_no_other_is_taken_for_them(autojump_clock, hubs):
    host = await hubs.host()
    streamed = await host.call("progress", token=1)
    assert streamed.events[0][0] == "a1-1"
    (await hubs.listen(host)).leave()
    await hubs.start()
    hubs.again(host)
    again = await host.call("progress", token=1)
    assert again.events[0][0] not in (None, "a1-1")
    for id in ("a1-0", "a1-1", "a2-0"):
        assert (await host.get(last_event_id=id)).status == 400
    resumed = await host.get(last_event_id=again.events[0][0])
    assert resumed.last["result"]
    carried_on = await hubs.listen(host, last_event_id="n1-0")
    assert carried_on.status == 200
    carried_on.leave()


# --- what came after the handshake ------------------------------------------------------------------------------------


async def set_level(host, level):
    message = {"jsonrpc": "2.0", "id": 7, "method": "logging/setLevel", "params": {"level": level}}
    assert (await host.post(message)).last["result"] == {}


async def subscribe(host, uri, method="resources/subscribe"):
    answered = await host.post({"jsonrpc": "2.0", "id": 8, "method": method, "params": {"uri": uri}})
    assert answered.last["result"] == {}


def heard(answered, method):
    return [message.get("params") for message in answered.messages if message["method"] == method]


@pytest.mark.covers("S-23", "N-17", "F-D-03")
async def test_level_and_subscriptions_are_as_before(autojump_clock, hubs):
    host = await hubs.host()
    await set_level(host, "warning")
    for uri in ("a://1", "a://2", "a://3"):
        await subscribe(host, uri)
    await subscribe(host, "a://2", "resources/unsubscribe")
    await hubs.host()
    for _ in range(2):
        await hubs.start()
        assert hubs.router.subscribed == []
        stream = await hubs.listen(hubs.again(host))
        assert sorted(hubs.router.subscribed) == ["a://1", "a://3"]
        assert hubs.endpoint.hosts.log_levels() == ["warning"]
        assert hubs.router.level_changes == 1
        assert sorted(each["uri"] for each in heard(stream, UPDATED)) == ["a://1", "a://3"]
        assert heard(stream, TOOLS_CHANGED) == []
        stream.leave()


@pytest.mark.covers("F-D-03")
async def test_what_was_set_a_second_before_the_crash_is_kept(autojump_clock, hubs):
    host = await hubs.host()
    await set_level(host, "error")
    await trio.sleep(1)
    for _ in range(1_000_000):  # the clock does not wait for threads
        if b"error" in (hubs.path.read_bytes() if hubs.path.exists() else b""):
            break
        await trio.lowlevel.checkpoint()
    assert hubs.path.stat().st_mode & 0o777 == 0o600
    await hubs.start(saved=False)
    await hubs.again(host).call("echo")
    assert hubs.endpoint.hosts.log_levels() == ["error"]


async def test_a_subscription_that_is_refused_is_tried_again_for_a_while(autojump_clock, hubs):
    host = await hubs.host()
    await subscribe(host, "a://1")
    await subscribe(host, "a://2")
    router = Scripted()
    router.unwatchable = {"a://1", "a://2"}
    await hubs.start(router)
    stream = await hubs.listen(hubs.again(host))
    await trio.sleep(5)
    router.unwatchable.discard("a://1")
    await trio.sleep(sum(RESUBSCRIBE_S))
    assert [each["uri"] for each in heard(stream, UPDATED)] == ["a://1"]
    stream.leave()
    await hubs.start()
    stream = await hubs.listen(hubs.again(host))
    assert hubs.router.subscribed == ["a://1"]
    stream.leave()


async def test_nothing_is_subscribed_to_for_a_host_that_does_not_want_it_any_more(autojump_clock, hubs):
    one, other = await hubs.host(), await hubs.host()
    for host in (one, other):
        await subscribe(host, "a://1")
    router = Scripted()
    router.unwatchable = {"a://1"}
    await hubs.start(router)
    router.unwatchable = set()
    router.settled = trio.Event()
    await hubs.again(one).call("echo")
    await hubs.again(other).call("echo")
    await one.http("DELETE", b"", one.headers())
    router.settled.set()
    await trio.sleep(1)
    assert router.subscribed == ["a://1"]


@pytest.mark.covers("N-8")
async def test_only_lists_that_changed_meanwhile_are_told(autojump_clock, hubs):
    host, idle = await hubs.host(), await hubs.host()
    late = await hubs.host(path="/mcp/files")
    await trio.sleep(1)
    router = Scripted()
    router.lists = {**router.lists, "tools": "other"}
    await hubs.start(router)
    for each in (host, late):
        stream = await hubs.listen(hubs.again(each))
        assert [message["method"] for message in stream.messages] == [TOOLS_CHANGED]
        stream.leave()
    await trio.sleep(1)
    again = Scripted()
    again.lists = router.lists
    await hubs.start(again)
    for each, told in ((host, []), (idle, [TOOLS_CHANGED])):
        stream = await hubs.listen(hubs.again(each))
        assert [message["method"] for message in stream.messages] == told
        stream.leave()


@pytest.mark.covers("EP-8", "N-8")
async def test_hosts_of_a_profile_are_told_of_its_lists_and_no_others(autojump_clock, hubs):
    profiles = ProfileChoice({"coding": Profile(hosts=("cursor",))})
    hubs.endpoint.hosts.profiles = profiles
    cursor, other = await hubs.host(identity=Identity("alice", "cursor")), await hubs.host()
    await trio.sleep(1)
    router = Scripted()
    known = router.digests
    router.digests = lambda view: {**known(view), "tools": "other"} if view.profile else known(view)
    await hubs.start(router)
    hubs.endpoint.hosts.profiles = profiles
    for each, told in ((cursor, [TOOLS_CHANGED]), (other, [])):
        stream = await hubs.listen(hubs.again(each))
        assert [message["method"] for message in stream.messages] == told
        stream.leave()


@pytest.mark.covers("EP-1")
async def test_a_session_is_only_of_the_token_that_began_it(autojump_clock, hubs):
    """Two tokens of one person and one label, of which one opens a single profile."""
    whole, bound = Identity("alice", "desk"), Identity("alice", "desk", "coding")
    host = await hubs.host(identity=whole)
    host.identity = bound
    assert (await host.http("GET", headers=host.headers())).status == 404
    await hubs.start()
    hubs.again(host)
    assert (await host.http("GET", headers=host.headers())).status == 404
    host.identity = whole
    await hubs.again(host).call("echo")


@pytest.mark.covers("N-8")
async def test_what_could_not_be_told_before_the_end_is_told_after_it(autojump_clock, hubs):
    """As when a list changes while the hub stops: streams that only listen have ended by then."""
    host, listening = await hubs.host(), await hubs.host()
    stream = await hubs.listen(listening)
    hubs.router.lists = {**hubs.router.lists, "tools": "other"}
    hubs.endpoint.hosts.list_changed({Kind.TOOL}, EVERYTHING)
    assert len(stream.messages) == 1
    await trio.sleep(1)
    stream.leave()
    for expected in ([TOOLS_CHANGED], []):
        router = Scripted()
        router.lists = hubs.router.lists
        await hubs.start(router)
        for each, told in ((host, expected), (listening, [])):
            stream = await hubs.listen(hubs.again(each))
            assert [message["method"] for message in stream.messages] == told
            stream.leave()


@pytest.mark.covers("N-8")
async def test_lists_are_compared_when_they_are_settled(autojump_clock, hubs):
    host = await hubs.host()
    await trio.sleep(1)
    router = Scripted()
    router.settled = trio.Event()
    whole, router.lists = router.lists, {**router.lists, "tools": "half of them"}
    await hubs.start(router)
    stream = await hubs.listen(hubs.again(host))
    await trio.sleep(2)
    router.lists = whole
    router.settled.set()
    await trio.sleep(2)
    assert stream.messages == []
    stream.leave()


# --- bounds -----------------------------------------------------------------------------------------------------------


async def test_there_is_no_room_for_more_sessions_than_there_may_be(autojump_clock, hubs, monkeypatch):
    host = await hubs.host()
    await hubs.start()
    for _ in range(MAX_SESSIONS_OF_PRINCIPAL):
        await Host(hubs.endpoint).initialize()
    assert (await hubs.again(host).call("echo")).status == 404
    await trio.sleep(100)  # now others may give way
    assert (await host.call("echo")).status == 200
    assert len(hubs.endpoint.sessions) == MAX_SESSIONS_OF_PRINCIPAL


async def test_of_too_many_that_are_over_the_oldest_are_told_by_their_age(autojump_clock, hubs, monkeypatch):
    monkeypatch.setattr(module, "MAX_OVER", 2)
    ended = []
    for _ in range(4):
        hubs.now += 10
        ended.append(await hubs.host())
        hubs.now += 10
        living = await hubs.host()
    for host in ended:
        await host.http("DELETE", b"", host.headers())
    await hubs.start()
    for host in ended:
        await is_gone(hubs.again(host))
    assert (await hubs.again(living).call("echo")).status == 200


async def test_the_journal_stays_small(autojump_clock, hubs, monkeypatch, soon):
    monkeypatch.setattr(module, "MAX_KEPT_CHARS", 100)
    greedy, other = await hubs.host(), await hubs.host()
    await subscribe(greedy, "a://" + "x" * 80)
    await subscribe(greedy, "a://1")
    await subscribe(other, "a://" + "y" * 80)
    await set_level(other, "info")
    await hubs.start()
    await hubs.again(greedy).call("echo")
    await hubs.again(other).call("echo")
    await trio.testing.wait_all_tasks_blocked()
    assert sorted(map(len, hubs.router.subscribed)) == [5, 84]
    assert hubs.endpoint.hosts.log_levels() == ["info"]
    await subscribe(greedy, "a://1", "resources/unsubscribe")
    assert hubs.durable.kept_chars == 84
    await greedy.http("DELETE", b"", greedy.headers())
    assert hubs.durable.kept_chars == 0
    hubs.now += LIFE_S
    await trio.sleep(SOON_S + 20)
    assert hubs.journal.keys("kept") == hubs.journal.keys("over") == []
    assert [key for key in hubs.journal.keys("since") if not key.startswith("runs/")] == []
    for _ in range(20):
        await hubs.start()
        await hubs.host()
        await trio.sleep(20)
    assert len(hubs.journal.keys("lists")) <= module.MAX_RUNS + 1


def kept_of(past, level, uris):
    return KeptFacts(past.handshake.minted, "", level, uris)


def test_of_very_many_subscriptions_some_are_kept():
    durable, identity = make_durable_sessions(), Identity("me", "desk")
    past = durable.mint(identity, EVERYTHING, L4, {}, raw({}))
    durable.keep(past, kept_of(past, None, [f"a://{number}" for number in range(MAX_URIS + 10)]))
    found = durable.find(past.id, identity, EVERYTHING, EVERYTHING, claimed=True)
    assert len(found.kept.uris) == MAX_URIS


def test_other_hubs_are_told_no_more_than_they_can_find():
    told = []
    durable = make_durable_sessions(publish=lambda name, value: told.append((name, value)))
    past = durable.mint(Identity("me", "desk"), EVERYTHING, L4, {}, raw({}))
    uris = [f"a://{number}/" + "x" * (MAX_FACT_BYTES // MAX_URIS) for number in range(MAX_URIS)]
    durable.keep(past, kept_of(past, "error", uris))
    durable.keep(past, kept_of(past, "error", uris[1:9]))
    (_, much), (_, some) = told
    assert json.loads(much)[2:4] == ["error", []]
    assert json.loads(some)[2:4] == ["error", uris[1:9]]


def test_of_very_many_sessions_the_latest_are_kept(monkeypatch):
    monkeypatch.setattr(module, "MAX_KEPT", 3)
    journal = Memory(None)
    durable = make_durable_sessions(journal)
    pasts = [durable.mint(Identity("me", "desk"), EVERYTHING, L4, {}, raw({})) for _ in range(6)]
    for past in pasts:
        durable.keep(past, kept_of(past, "error", ["a://1"]))
    assert journal.keys("kept") == [past.handshake.name for past in pasts[3:]]
    assert durable.kept_chars == 15


@pytest.mark.covers("F-D-05", "F-D-06", "F-D-18")
@pytest.mark.parametrize("data", [b"{", b'{"format":9,"sections":{}}', None, {"kept": 1, "over": "x", "lists": [1]}])
async def test_a_journal_that_cannot_be_used_costs_what_is_in_it(autojump_clock, hubs, data, caplog):
    host = await hubs.host()
    await set_level(host, "error")
    hubs.durable.save()
    match data:
        case None:
            hubs.path.unlink()
            hubs.path.mkdir()
            hubs.path = hubs.path / "memory"
            hubs.path.parent.chmod(0o500)
        case bytes():
            hubs.path.write_bytes(data)
        case _:
            file = json.loads(hubs.path.read_bytes())
            for section in ("kept", "over", "lists"):
                names = file["sections"].get(section) or {"name": 0}
                file["sections"][section] = dict.fromkeys(names, data[section])
            hubs.path.write_text(json.dumps(file))
    await hubs.start(saved=False)
    stream = await hubs.listen(hubs.again(host))
    assert (await host.call("echo")).status == 200
    assert hubs.endpoint.hosts.log_levels() == []
    assert heard(stream, TOOLS_CHANGED) == [None]  # nobody knows what it has seen
    stream.leave()
    await trio.sleep(20)


# --- with a whole hub -------------------------------------------------------------------------------------------------


@asynccontextmanager
async def a_run(directory, fakes):
    """One run of a hub."""
    async with a_house(
        fakes,
        memory=Memory(directory / "memory.json"),
        last_known=LastKnown(directory / "catalogue"),
        durable=make_durable_sessions(directory / "sessions.json"),
    ) as house:
        yield house


async def until_still(house):
    await trio.sleep(3)
    await trio.testing.wait_all_tasks_blocked()


@pytest.mark.covers("N-17", "N-8", "F-D-03", "G-18")
@pytest.mark.parametrize("version", [L4, MODERN])
async def test_a_host_goes_on_as_if_nothing_had_happened(autojump_clock, nursery, tmp_path, version):
    def make():
        return {"files": FakeUpstream(version=version, resources=[{"uri": "f://1", "name": "1"}])}

    async with a_run(tmp_path, make()) as house:
        host = Host(house.endpoint)
        await host.initialize()
        await host.notify("notifications/initialized")
        await subscribe(host, "f://1")
        await set_level(host, "error")
        assert len((await host.call("files__echo")).last["result"]["content"]) == 1
        await until_still(house)
    fakes = make()
    async with a_run(tmp_path, fakes) as house:
        host.endpoint = house.endpoint
        stream = Answered()
        nursery.start_soon(lambda: host.get(into=stream))
        assert (await host.call("files__echo", 2)).last["result"]
        await until_still(house)
        assert [message["method"] for message in stream.messages] == [UPDATED]
        assert fakes["files"].watched() == ["f://1"]
        await fakes["files"].touch("f://1")
        await until_still(house)
        assert [message["method"] for message in stream.messages] == [UPDATED] * 2
        fakes["files"].lists["tools"].append({"name": "new", "inputSchema": {"type": "object"}})
        if version == L4:
            await fakes["files"].conversation.tell(TOOLS_CHANGED)
        else:
            await house.api.restart("files")
        await until_still(house)
        assert TOOLS_CHANGED in [message["method"] for message in stream.messages[2:]]
        stream.leave()
        await trio.testing.wait_all_tasks_blocked()
        assert (await host.http("DELETE", b"", host.headers())).status == 200
        await trio.sleep(60)
        assert fakes["files"].watched() == []


@pytest.mark.covers("N-8")
async def test_a_host_that_comes_late_hears_what_changed_before(autojump_clock, nursery, tmp_path):
    async with a_run(tmp_path, {"files": FakeUpstream(tools=["old"])}) as house:
        host = Host(house.endpoint)
        await host.initialize()
        await until_still(house)
    async with a_run(tmp_path, {"files": FakeUpstream(tools=["new"])}) as house:
        await until_still(house)
        host.endpoint = house.endpoint
        stream = Answered()
        nursery.start_soon(lambda: host.get(into=stream))
        await until_still(house)
        assert [message["method"] for message in stream.messages] == [TOOLS_CHANGED]
        stream.leave()


# --- what is over stays over ------------------------------------------------------------------------------------------


@pytest.mark.covers("F-H-21", "F-D-03")
async def test_a_session_that_was_ended_is_not_back_after_a_kill_right_then(hubs):
    host = await hubs.host()
    assert (await host.http("DELETE", b"", host.headers())).status == 200
    await hubs.start(saved=False)
    assert await is_gone(hubs.again(host))


@pytest.mark.covers("F-H-21")
async def test_sessions_that_are_ended_together_are_written_together(hubs, monkeypatch):
    hosts = [await hubs.host() for _ in range(60)]
    await hubs.durable.saved()
    writes = []
    write = Memory.write
    monkeypatch.setattr(Memory, "write", lambda self, draft: (writes.append(len(draft)), write(self, draft)))
    statuses = []

    async def end(host):
        statuses.append((await host.http("DELETE", b"", host.headers())).status)

    async with trio.open_nursery() as nursery:
        for host in hosts:
            nursery.start_soon(end, host)
    assert statuses == [200] * 60
    assert len(writes) <= 3
    await hubs.start(saved=False)
    assert len({await is_gone(hubs.again(host)) for host in hosts}) == 1


@pytest.mark.covers("F-H-21", "F-D-05")
async def test_a_session_is_ended_though_that_cannot_be_written(hubs, monkeypatch):
    host = await hubs.host()

    def fail(path, data):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("config.remembered_facts.replace_private", fail)
    assert (await host.http("DELETE", b"", host.headers())).status == 200
    await is_gone(host)
