"""Secrets in settings of servers, and references in their places."""

import pytest

from config.diagnostics import EditError
from config.hosts.secret_literals import NewSecrets, open_references, refer_to_store, spots_of
from config.secrets.keyring import KeyringRefused, NoKeyring
from config.secrets.store import SecretStore

CANARY = "s3cret-canary-0123456789"


class NoneAtAll:
    def get(self, name):
        raise NoKeyring("no keyring answers here")

    set = delete = lambda self, *_: self.get("")


@pytest.fixture
def store(tmp_path):
    return SecretStore(tmp_path / "secrets.json", NoneAtAll())


def moved(store, values, name="my-server"):
    new = NewSecrets(store)
    return (
        refer_to_store(values, name, spots_of(values), new),
        {name: value.reveal() for name, value in new.values.items()},
        new,
    )


def test_each_secret_has_a_name_of_its_server_and_place(store):
    values = {
        "command": "x",
        "args": ["--api-key", CANARY, f"--token=Bearer {CANARY}1", "plain"],
        "env": {"API_KEY": f"{CANARY}2", "LEVEL": "debug"},
        "headers": {"Authorization": f"Bearer {CANARY}3", "X-Api-Key": f"{CANARY}4"},
        "url": f"https://x/?api_key={CANARY}5",
    }
    found, kept, _ = moved(store, values)
    assert found == {
        "command": "x",
        "args": ["--api-key", "${secret:MY_SERVER_ARG_1}", "--token=Bearer ${secret:MY_SERVER_TOKEN_2}", "plain"],
        "env": {"API_KEY": "${secret:MY_SERVER_API_KEY}", "LEVEL": "debug"},
        "headers": {"Authorization": "Bearer ${secret:MY_SERVER_TOKEN}", "X-Api-Key": "${secret:MY_SERVER_X_API_KEY}"},
        "url": "${secret:MY_SERVER_URL}",
    }
    assert set(kept.values()) == {CANARY, *(f"{CANARY}{n}" for n in range(1, 5)), f"https://x/?api_key={CANARY}5"}
    assert values["env"]["API_KEY"] == f"{CANARY}2"


def test_an_escape_is_none_in_the_store_and_a_reference_stays(store):
    values = {"env": {"A_KEY": "a$${b}c-0123456789", "B_KEY": "x-${HOME}-0123456789"}}
    found, kept, _ = moved(store, values)
    assert found["env"] == {"A_KEY": "${secret:MY_SERVER_A_KEY}", "B_KEY": "x-${HOME}-0123456789"}
    assert kept == {"MY_SERVER_A_KEY": "a${b}c-0123456789"}


def test_a_name_that_another_secret_has_is_not_taken_from_it(store):
    store.keep("MY_SERVER_API_KEY", "another")
    found, kept, new = moved(store, {"env": {"API_KEY": CANARY}})
    assert found["env"]["API_KEY"] == "${secret:MY_SERVER_API_KEY_2}"
    new.keep()
    assert store.get("MY_SERVER_API_KEY") == "another"
    assert store.get("MY_SERVER_API_KEY_2") == CANARY
    found, kept, _ = moved(store, {"env": {"API_KEY": CANARY}})
    assert (found["env"]["API_KEY"], kept) == ("${secret:MY_SERVER_API_KEY_2}", {})


def test_long_names_fit_and_stay_apart(store):
    long = "A" * 100 + "_KEY"
    found, kept, new = moved(store, {"env": {long: CANARY, f"{long}_KEY": f"{CANARY}2"}})
    assert len(kept) == 2
    assert all(len(name) <= 64 for name in kept)
    new.keep()
    assert CANARY not in repr(new)
    assert found["env"][long] == f"${{secret:{next(iter(kept))}}}"


def test_what_is_not_written_is_not_kept(store):
    _, _, new = moved(store, {"env": {"API_KEY": CANARY, "B_KEY": CANARY}})
    new.forget_unused(["x = '${secret:MY_SERVER_B_KEY}'"])
    assert list(new.keep()) == ["MY_SERVER_B_KEY"]
    assert store.names() == {"MY_SERVER_B_KEY": "file"}


def test_a_store_that_cannot_be_used_says_so_before_anything_is_written(store):
    store.path.write_text("{")
    store.path.chmod(0o600)
    with pytest.raises(EditError, match="damaged"):
        NewSecrets(store)


def test_references_are_compared_by_what_they_stand_for():
    secrets = {"A": "one"}
    given = ("command", "x", ("${secret:A}", "\0secret:ab:A\0", "$${secret:A}", "${secret:B}"), frozenset({"E"}))
    assert open_references(given, secrets.get) == (
        "command",
        "x",
        ("one", "one", "$${secret:A}", "${secret:B}"),
        frozenset({"E"}),
    )


def kept(store, **values):
    """Secrets of a plan that are kept under these names."""
    new = NewSecrets(store)
    for name, value in values.items():
        assert new.name_for(name, value) == name
    return new


def test_a_name_that_has_another_secret_by_now_is_refused_before_anything_is_kept(store):
    new = kept(store, A="mine", B="mine", C="mine")
    store.keep("B", "another's")
    with pytest.raises(EditError, match="the secret B was kept by another program meanwhile; nothing was changed"):
        new.keep()
    assert list(store.names()) == ["B"]
    new.take_back()
    assert store.get("B") == "another's"


def test_only_what_was_kept_and_is_still_that_is_taken_back(store):
    new = kept(store, A="mine", B="the same", C="mine")
    store.keep("B", "the same")
    assert list(new.keep()) == ["A", "C"]
    store.keep("C", "changed since")
    new.take_back()
    assert {name: store.get(name) for name in store.names()} == {"B": "the same", "C": "changed since"}


class Stuck:
    """A keyring that forgets nothing but B."""

    def __init__(self):
        self.known = {}

    def get(self, name):
        return self.known.get(name)

    def set(self, name, value):
        self.known[name] = value

    def delete(self, name):
        if name != "B":
            raise KeyringRefused("it is locked")


def test_all_secrets_are_taken_back_though_one_cannot_be(tmp_path):
    store = SecretStore(tmp_path / "secrets.json", Stuck())
    new = kept(store, A="secret", B="secret", C="secret")
    new.keep()
    with pytest.raises(EditError) as failed:
        new.take_back()
    assert store.names() == {}
    assert [f"the secret {name}:" in str(failed.value) for name in ("A", "B", "C")] == [True, False, True]
    assert 'secret"' not in str(failed.value)
