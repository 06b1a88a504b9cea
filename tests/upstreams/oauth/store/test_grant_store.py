"""What is kept of sign-ins: files, their modes, their key, and what is done with those that cannot be read."""

import json
import os
import stat
import subprocess
import sys

import pytest
import trio
from msgspec.structs import replace

from config.setting_declarations import Secret
from hub.link.sealing import Keys
from hub.linux import this_machine
from tests.support.token_world import ISSUER, KEY, PUBLIC, SEALING, START, URL
from upstreams.oauth.model import Grant
from upstreams.oauth.store.grant_store import CannotOpen, GrantStore, SealedElsewhere
from upstreams.oauth.store.key_seal import KeyLocked, KeySeal
from upstreams.oauth.store.private_folder import NotKept, store_folder
from upstreams.oauth.token_answers import is_for, origin_of


def store_at(tmp_path, keys=SEALING, source="keys"):
    return GrantStore(tmp_path / "oauth", KeySeal(source, lambda: keys))


def locked(tmp_path):
    def read():
        raise KeyLocked("keyring")

    return GrantStore(tmp_path / "oauth", KeySeal("keyring", read))


def grant(**changes) -> Grant:
    from tests.support.token_world import SERVER

    fields = {
        "key": KEY,
        "access_token": Secret("CANARY-access"),
        "refresh_token": Secret("CANARY-refresh"),
        "id_token": Secret("CANARY-id"),
        "obtained_at": START,
        "expires_at": START + 3600.5,
        "scope": "read",
        "asked_scope": "read write",
        "signed_in_at": START - 7,
        "server": SERVER,
        "client": replace(PUBLIC, secret=Secret("CANARY-secret"), token_auth="client_secret_post"),
        "note": "x",
        "origin": origin_of(URL),
    }
    return Grant(**{**fields, **changes})


def only_file(store, suffix=".json"):
    (found,) = (store.folder / "grants").glob(f"*{suffix}")
    return found


@pytest.mark.covers("SEC-62")
def test_a_grant_comes_back_as_it_was_and_nothing_secret_is_plain(tmp_path):
    os.umask(0o022)
    store = store_at(tmp_path)
    assert store.load(KEY) is None
    assert store.find("notes", "local") is None
    store.save(grant())
    assert store.load(KEY) == store.find("notes", "local") == grant()
    store.clients.put(ISSUER, "http://127.0.0.1:1/cb", "notes", grant().client)
    assert store.clients.find(ISSUER, "http://127.0.0.1:1/cb", "notes") == grant().client
    files = [path for path in store.folder.rglob("*") if path.is_file()]
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}
    folders = [store.folder, *(path for path in store.folder.rglob("*") if path.is_dir())]
    assert {stat.S_IMODE(path.stat().st_mode) for path in folders} == {0o700}
    assert not any(b"CANARY" in path.read_bytes() for path in files)
    assert b'"notes"' in only_file(store).read_bytes()
    assert "CANARY" not in repr((grant(), store, store.grants(), store.clients))


def test_grants_are_kept_apart(tmp_path):
    store = store_at(tmp_path)
    keys = [KEY, *(replace(KEY, **{name: "other"}) for name in ("issuer", "resource", "upstream", "principal"))]
    for number, key in enumerate(keys):
        store.save(grant(key=key, signed_in_at=START + number))
    assert [store.load(key).key for key in keys] == keys
    assert store.find("notes", "local").key == keys[2]  # the latest sign-in
    assert store.find("notes", "other").key == keys[4]
    assert store.delete_all("notes", "local")
    assert store.find("notes", "local") is None
    assert store.load(keys[3]) is not None
    assert not store.delete_all("notes", "local")


def test_another_key(tmp_path):
    store_at(tmp_path).save(grant())
    other = store_at(tmp_path, Keys(b"x" * 32))
    text = 'What hubd knew of your sign-in at notes cannot be opened (another key); run "hubd auth notes".'
    with pytest.raises(CannotOpen) as raised:
        other.find("notes", "local")
    assert str(raised.value) == text
    assert only_file(other, ".unreadable")
    assert other.find("notes", "local") is None
    assert [(each.file.upstream, each.is_readable) for each in other.grants()] == [("notes", False)]
    other.save(grant())  # a new sign-in takes its place
    assert [each.is_readable for each in other.grants()] == [True]


def test_a_hub_without_the_key_of_before_loses_nothing(tmp_path):
    store_at(tmp_path, source="keyring").save(grant())
    other = store_at(tmp_path, Keys(b"x" * 32))
    for _ in range(2):
        with pytest.raises(SealedElsewhere) as raised:
            other.find("notes", "local")
    assert str(raised.value) == (
        "What hubd knows of your sign-in at notes was sealed with the key from the keyring; now this hub has its key "
        'from its own file. Start it as before and nothing is lost, or run "hubd auth notes".'
    )
    assert store_at(tmp_path, source="keyring").find("notes", "local") == grant()


async def test_a_new_sign_in_takes_the_place_of_one_that_was_sealed_elsewhere(tmp_path):
    store_at(tmp_path, source="keyring").save(grant())
    other = store_at(tmp_path, Keys(b"x" * 32))
    await other.keep(grant(signed_in_at=START + 5))
    assert other.find("notes", "local").signed_in_at == START + 5


def test_what_was_set_aside_comes_back_with_its_key(tmp_path):
    store_at(tmp_path).save(grant())
    other = store_at(tmp_path, Keys(b"x" * 32))
    with pytest.raises(CannotOpen):
        other.find("notes", "local")
    assert other.find("notes", "local") is None
    store = store_at(tmp_path)
    assert store.find("notes", "local") == grant()
    assert [each.is_readable for each in store.grants()] == [True]


def test_a_key_that_was_replaced_opens_as_long_as_it_is_the_other_one(tmp_path):
    store_at(tmp_path).save(grant())
    assert store_at(tmp_path, Keys(b"n" * 32, b"k" * 32)).load(KEY) == grant()


def test_the_key_is_locked_and_nothing_is_touched(tmp_path):
    store_at(tmp_path).save(grant())
    store = locked(tmp_path)
    before = only_file(store).read_bytes()
    with pytest.raises(KeyLocked, match=r"sign-ins \(keyring\) is locked; unlock it, then try again\."):
        store.find("notes", "local")
    with pytest.raises(KeyLocked):
        store.save(grant(generation=2))
    assert only_file(store).read_bytes() == before
    assert len(store.grants()) == 1  # status needs no key


@pytest.mark.parametrize("cut", [0, 1, 100, -3])
def test_half_a_file(tmp_path, cut):
    store = store_at(tmp_path)
    store.save(grant())
    path = only_file(store)
    path.write_bytes(path.read_bytes()[:cut])
    assert store.find("notes", "local") is None
    assert only_file(store, ".unreadable")


@pytest.mark.parametrize("change", [("https://id.example/token", "https://evil.example"), ("notes", "other"),
                                    ('"generation": 1', '"generation": 9'), ("v1.", "v1.x")])  # fmt: skip
def test_a_file_that_was_changed_does_not_open(tmp_path, change):
    store = store_at(tmp_path)
    store.save(grant())
    path = only_file(store)
    path.write_text(path.read_text().replace(*change))
    with pytest.raises(CannotOpen):
        store.load(KEY)


def test_a_file_of_a_later_version_is_left_alone(tmp_path):
    store = store_at(tmp_path)
    store.save(grant())
    path = only_file(store)
    path.write_text(path.read_text().replace('"version": 1', '"version": 2'))
    assert store.find("notes", "local") is None
    with pytest.raises(NotKept, match="another version"):
        store.load(KEY)
    assert only_file(store) == path


def test_others_may_read_it(tmp_path):
    store = store_at(tmp_path)
    store.save(grant())
    only_file(store).chmod(0o644)
    with pytest.raises(NotKept, match=r"Others may read .* run chmod 600"):
        store.load(KEY)
    assert stat.S_IMODE(only_file(store).stat().st_mode) == 0o644


def test_a_file_that_is_not_read_stops_no_other_sign_in(tmp_path, caplog):
    store = store_at(tmp_path)
    store.save(grant())
    open_to_all = only_file(store)
    open_to_all.chmod(0o644)
    (open_to_all.parent / f"{'0' * 32}.json").symlink_to(open_to_all)
    other = replace(KEY, upstream="other")
    store.save(grant(key=other))
    for _ in range(3):
        assert store.find("other", "local").key == other
        assert store.find("notes", "local") is None
    assert [each.file.upstream for each in store.grants()] == ["other"]
    assert store.drop_removed(["other"], START) == []
    assert sorted("it is a link" in text for text in caplog.messages) == [False, True], "once for each"
    assert any(f"run chmod 600 {open_to_all}" in text for text in caplog.messages)
    open_to_all.chmod(0o600)
    assert store.find("notes", "local") == grant()


def test_a_link(tmp_path):
    store = store_at(tmp_path)
    store.save(grant())
    path = only_file(store)
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(NotKept, match="it is a link"):
        store.load(KEY)
    store.save(grant(generation=2))  # takes the place of the link, and does not follow it
    assert not path.is_symlink()
    assert b'"generation": 1' in (tmp_path / "elsewhere").read_bytes()


def test_the_folder_is_open_to_others_or_a_link(tmp_path):
    (tmp_path / "oauth").mkdir(mode=0o755)
    (tmp_path / "oauth" / "grants").mkdir(mode=0o777)
    (tmp_path / "oauth" / "grants").chmod(0o777)
    with pytest.raises(NotKept, match="chmod 700"):
        store_at(tmp_path).save(grant())
    (tmp_path / "oauth" / "grants").rmdir()
    (tmp_path / "oauth" / "grants").symlink_to(tmp_path)
    with pytest.raises(NotKept, match="is a link"):
        store_at(tmp_path).save(grant())


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_a_file_of_another_user(tmp_path):
    store = store_at(tmp_path)
    store.save(grant())
    os.chown(only_file(store), 1234, -1)
    with pytest.raises(NotKept, match="another user"):
        store.load(KEY)


FULL = """
import resource, sys
from tests.upstreams.oauth.store.test_grant_store import grant, store_at
from pathlib import Path
from upstreams.oauth.store.private_folder import NotKept
import signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
try:
    store_at(Path(sys.argv[1])).save(grant(generation=2))
except NotKept as error:
    print(error)
"""


def test_a_full_disk(tmp_path):
    store = store_at(tmp_path)
    store.save(grant())
    done = subprocess.run([sys.executable, "-c", FULL, str(tmp_path)], capture_output=True, text=True, check=True)
    assert "A sign-in cannot be kept" in done.stdout
    assert "File too large" in done.stdout
    assert store.load(KEY) == grant()
    assert len(list((store.folder / "grants").iterdir())) == 1


async def test_a_new_sign_in_continues_the_generations(tmp_path):
    store = store_at(tmp_path)
    await store.keep(grant(generation=1))
    await store.keep(grant(generation=1, signed_in_at=START + 5))
    assert store.find("notes", "local").generation == 2
    assert store.keys() == [KEY]


async def test_only_one_has_a_lock(tmp_path):
    store = store_at(tmp_path)
    order = []
    async with trio.open_nursery() as nursery:

        async def other():
            async with store.lock(KEY) as held:
                order.append(("other", held.pending_generation()))

        async with store.lock(KEY) as held:
            nursery.start_soon(other)
            held.begin(7)
            await trio.testing.wait_all_tasks_blocked()
            order.append(("first", held.pending_generation()))
    assert order == [("first", 7), ("other", 7)]
    (lock,) = (store.folder / "grants").glob("*.lock")
    assert stat.S_IMODE(lock.stat().st_mode) == 0o600


def test_facts_between_sign_ins(tmp_path):
    facts = store_at(tmp_path).facts
    assert [facts.redirect_number(issuer) for issuer in ("a", "b", "a", "c")] == [1, 2, 1, 3]
    assert facts.port() is None
    facts.keep_port(4711)
    assert facts.port() == 4711
    assert not facts.is_agreed("notes", "local", "a")
    facts.agree("notes", "local", "a")
    assert facts.is_agreed("notes", "local", "a")
    assert not facts.is_agreed("notes", "other", "a")
    assert [facts.only_for(uri, issuer) for uri, issuer in ("xa", "xb", "yb", "xa")] == ["a", "a", "b", "a"]
    assert store_at(tmp_path).facts.only_for("x", "b") == "a", "the next run knows it, too"
    for number in range(300):
        facts.only_for(f"uri-{number}", "a")
    assert len(json.loads((tmp_path / "oauth" / "facts.json").read_bytes())["only_for"]) == 256
    (tmp_path / "oauth" / "facts.json").write_text("{")
    assert facts.redirect_number("c") == 1


def test_a_start_with_a_clock_years_ahead_removes_no_grants(tmp_path):
    store, day = store_at(tmp_path), 86_400
    store.save(grant())
    assert store.drop_removed([], START) == []
    assert store.drop_removed([], START + 3650 * day) == []
    assert store.drop_removed([], START + 1 * day) == []
    assert store.load(KEY) is not None
    assert store.drop_removed([], START + 20 * day) == []
    assert store.drop_removed([], START + 31 * day) == ["notes"]


def test_grants_of_upstreams_that_are_gone_are_kept_for_thirty_days(tmp_path):
    store, day = store_at(tmp_path), 86_400
    store.save(grant())
    store.clients.put(ISSUER, "x", "notes", PUBLIC)
    assert store.drop_removed(["notes"], START) == []
    assert store.drop_removed([], START + 40 * day) == []  # only now it is missing
    assert store.drop_removed(["notes"], START + 60 * day) == []  # it was back
    assert store.drop_removed([], START + 61 * day) == []
    assert store.drop_removed([], START + 90 * day) == []
    assert store.load(KEY) is not None
    assert store.drop_removed([], START + 92 * day) == ["notes"]
    assert store.load(KEY) is None
    assert store.clients.find(ISSUER, "x", "notes") is None


@pytest.mark.parametrize(
    ("kind", "is_apart"), [("ext4", False), ("nfs4", True), ("nfs", True), ("cifs", True), ("9p", True), ("", False)]
)
def test_each_machine_has_its_own_folder_where_homes_are_shared(tmp_path, monkeypatch, kind, is_apart):
    device = os.stat(tmp_path).st_dev
    mounts, id = tmp_path / "mounts", tmp_path / "machine-id"
    monkeypatch.setattr(this_machine, "MOUNTS", mounts)
    monkeypatch.setattr(this_machine, "MACHINE_ID", id)
    mounts.write_text(
        f"22 1 0:5 / /proc rw - proc proc rw\n29 1 {os.major(device)}:{os.minor(device)} / /home rw,relatime "
        f"shared:1 - {kind} server:/home rw\n"
        if kind
        else "nonsense\n"
    )
    id.write_text("0123456789abcdef\n")
    folder = store_folder(tmp_path)
    assert folder.parent == (tmp_path / "oauth" if is_apart else tmp_path)
    assert "0123456789" not in str(folder)
    id.write_text("another\n")
    assert (store_folder(tmp_path) != folder) is is_apart


@pytest.mark.parametrize(
    ("origin", "url", "fits"),
    [
        (origin_of(URL), URL, True),
        (origin_of(URL), "https://NOTES.example:443/other", True),
        (origin_of(URL), "https://notes.example:444/mcp", False),
        (origin_of(URL), "http://notes.example/mcp", False),
        (origin_of(URL), "https://evil.example/mcp", False),
        ("", URL, True),
        ("", "https://evil.example/mcp", False),
        ("", "nonsense", False),
        ("https://[::1]:8443", "https://[::1]:8443/mcp", True),
        (origin_of(URL), "https://notes.example:99999/mcp", False),
    ],
)
def test_tokens_are_for_one_origin(origin, url, fits):
    assert is_for(grant(origin=origin), url) is fits
