"""The store of secrets: what is kept where, and files that are not as hubd writes them."""

import errno
import json
import os

import pytest

from config.diagnostics import EditError
from config.secrets.keyring import KeyringRefused, NoKeyring
from config.secrets.store import SecretStore, SecretUnavailable

CANARY = "s3cret-canary-0123456789"


class MemoryKeyring:
    """A keyring in memory, which may have none of its methods work."""

    def __init__(self, problem=None):
        self.kept = {}
        self.problem = problem

    def get(self, name):
        self._refuse()
        return self.kept.get(name)

    def set(self, name, value):
        self._refuse()
        self.kept[name] = value

    def delete(self, name):
        self._refuse()
        self.kept.pop(name, None)

    def _refuse(self):
        if self.problem is not None:
            raise self.problem


NONE = NoKeyring("no keyring answers here")


@pytest.fixture
def path(tmp_path):
    (tmp_path / "state").mkdir(mode=0o700)
    return tmp_path / "state" / "secrets.json"


def test_without_a_keyring_the_value_is_in_a_private_file(path):
    store = SecretStore(path, MemoryKeyring(NONE))
    stored = store.keep("A.b-c_1", CANARY)
    assert (stored.place, stored.why) == ("file", "no keyring answers here")
    assert path.stat().st_mode & 0o777 == 0o600
    assert CANARY in path.read_text()
    assert store.names() == {"A.b-c_1": "file"}
    assert store.get("A.b-c_1") == CANARY
    assert store.remove("A.b-c_1") == ""
    assert store.names() == {}
    assert CANARY not in path.read_text()
    assert not list(path.parent.glob("backups/*"))


def test_with_a_keyring_the_file_has_the_name_only(path):
    keyring = MemoryKeyring()
    store = SecretStore(path, keyring)
    assert store.keep("A", CANARY).place == "keyring"
    assert CANARY not in path.read_text()
    assert json.loads(path.read_text())["secrets"]["A"]["keyring"] is True
    assert store.get("A") == CANARY
    store.remove("A")
    assert keyring.kept == {}


@pytest.mark.parametrize("before", [None, "the one before"])
def test_what_cannot_be_noted_in_the_file_is_taken_back_out_of_the_keyring(path, monkeypatch, before):
    keyring = MemoryKeyring()
    store = SecretStore(path, keyring)
    if before is not None:
        store.keep("TOKEN", before)

    def full(path, data):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("config.secrets.store.replace_private", full)
    with pytest.raises(EditError, match="No space left"):
        store.keep("TOKEN", CANARY)
    assert keyring.kept == ({} if before is None else {"TOKEN": before})
    assert store.names() == ({} if before is None else {"TOKEN": "keyring"})


def test_each_change_of_a_value_is_another_version(path):
    def version():
        return json.loads(path.read_text())["secrets"]["A"]["version"]

    store = SecretStore(path, MemoryKeyring(NONE))
    store.keep("A", "one")
    first = version()
    store.keep("A", "one")
    assert version() == first
    store.keep("A", "two")
    assert version() != first


def test_a_keyring_that_is_gone_leaves_its_secrets_to_be_set_again(path):
    keyring = MemoryKeyring()
    store = SecretStore(path, keyring)
    store.keep("A", CANARY)
    keyring.problem = KeyringRefused("the keyring did not answer (did not end within 60 seconds): unlock it")
    with pytest.raises(SecretUnavailable, match=r"unlock it$"):
        store.get("A")
    keyring.problem = NONE
    with pytest.raises(SecretUnavailable, match=r"no keyring answers here"):
        store.get("A")
    assert store.keep("A", "new").place == "file"
    assert store.get("A") == "new"
    assert "may still have" in SecretStore(path, _with_secret(path, keyring)).remove("B")


def _with_secret(path, keyring):
    keyring.problem = None
    SecretStore(path, keyring).keep("B", CANARY)
    keyring.problem = NONE
    return keyring


def test_a_keyring_that_forgot_says_what_to_do(path):
    keyring = MemoryKeyring()
    store = SecretStore(path, keyring)
    store.keep("A", CANARY)
    keyring.kept.clear()
    with pytest.raises(SecretUnavailable, match=r"run `hubd secret set A`"):
        store.get("A")


@pytest.mark.parametrize("name", ["", "a b", "a/b", "..", ".", "x" * 65, "é", "a\n", "${A}"])
def test_names_that_are_none(path, name):
    with pytest.raises(EditError, match="no secret can have this name"):
        SecretStore(path, MemoryKeyring(NONE)).keep(name, "x")


@pytest.mark.parametrize("value", ["", "a\0b", "x" * 65537, "\ud800"])
def test_values_that_are_none(path, value):
    with pytest.raises(EditError) as raised:
        SecretStore(path, MemoryKeyring(NONE)).keep("A", value)
    assert not value or value not in str(raised.value)
    assert not path.exists()


HOSTILE = {
    "no JSON": b"{",
    "not UTF-8": b'{"format":1,"secrets":{"A":{"version":"","value":"\xff"}}}',
    "a list": b"[]",
    "deep": b"[" * 100_000,
    "no object": b'{"format":1,"secrets":{"A":"x"}}',
    "a number": b'{"format":1,"secrets":{"A":{"version":"","value":1}}}',
    "both": b'{"format":1,"secrets":{"A":{"version":"","value":"x","keyring":true}}}',
    "neither": b'{"format":1,"secrets":{"A":{"version":""}}}',
    "a name": b'{"format":1,"secrets":{"a/b":{"version":"","value":"x"}}}',
    "a version": b'{"format":1,"secrets":{"A":{"version":"\\u0000","value":"x"}}}',
    "a NUL": b'{"format":1,"secrets":{"A":{"version":"","value":"\\u0000"}}}',
    "huge": b" " * (2 << 20),
    "of another version": b'{"format":2,"secrets":{}}',
}


@pytest.mark.parametrize("data", HOSTILE.values(), ids=HOSTILE.keys())
def test_a_file_that_hubd_did_not_write_is_left_alone(path, data):
    path.write_bytes(data)
    path.chmod(0o600)
    store = SecretStore(path, MemoryKeyring(NONE))
    with pytest.raises(EditError, match=r"secrets\.json"):
        store.keep("A", CANARY)
    with pytest.raises(SecretUnavailable, match=r"secrets\.json") as raised:
        store.get("A")
    assert CANARY not in str(raised.value)
    assert path.read_bytes() == data


def test_a_file_that_others_may_read_is_not_used(path):
    store = SecretStore(path, MemoryKeyring(NONE))
    store.keep("A", CANARY)
    path.chmod(0o644)
    with pytest.raises(SecretUnavailable, match=r"other users may read .*: run `chmod 600 "):
        store.get("A")
    path.chmod(0o600)
    assert store.get("A") == CANARY


def test_a_link_is_not_followed(path, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text('{"format":1,"secrets":{"A":{"version":"","value":"x"}}}')
    elsewhere.chmod(0o600)
    path.symlink_to(elsewhere)
    with pytest.raises(SecretUnavailable, match="it is a link"):
        SecretStore(path, MemoryKeyring(NONE)).get("A")


@pytest.mark.timeout(20)
def test_a_pipe_is_not_waited_for(path):
    os.mkfifo(path, 0o600)
    with pytest.raises(SecretUnavailable, match="not a plain file"):
        SecretStore(path, MemoryKeyring(NONE)).get("A")
