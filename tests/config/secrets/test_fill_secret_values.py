"""Arguments that profiles fix: with the values of their references, or without the tool of one that has none."""

import pytest

from config.base_directories import state_dir
from config.diff import difference
from config.loading.assemble import load_all
from config.loading.checks.profiles import MAX_ARGUMENTS_TOLD
from config.secret_references import Reference
from config.secrets.fill_secret_values import (
    MAX_FIXED_BYTES,
    NOT_READ_YET,
    references_in_profiles,
    unread_arguments,
    with_values,
)
from config.secrets.store import SecretStore
from config.setting_declarations import secrets_of

SERVER = '[upstreams.a]\ncommand = "x"\n'


@pytest.fixture(autouse=True)
def own_state(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", "keyring.backends.fail.Keyring")


def load(tmp_path, fix, environ=None):
    path = tmp_path / "hubd.toml"
    path.write_text(f"{SERVER}[profiles.p.override]\na__x = {{ fix = {{ {fix} }} }}\na__y = {{ fix = {{ z = 1 }} }}\n")
    return load_all(path, environ or {})


def override(loaded):
    return loaded.config.profiles["p"].override["a__x"]


@pytest.mark.parametrize(
    ("reference", "why"),
    [
        ("${NOPE}", "the variable NOPE is not set: set it in the environment of hubd"),
        ("${file:nokey.txt}", "nokey.txt for ${file:nokey.txt}: No such file or directory"),
        ("${file:nul.txt}", "what `${file:nul.txt}` leads to holds a NUL character"),
        ("${secret:K}", "there is no secret K: run `hubd secret set K`"),
    ],
)
def test_an_argument_without_a_value_costs_its_tool_only(tmp_path, reference, why):
    (tmp_path / "nul.txt").write_bytes(b"a\0b")
    loaded = load(tmp_path, f'id = 7, key = ["{reference}"]')
    assert override(loaded).fix == {"id": 7}
    assert why in override(loaded).unread["key"]
    assert not hasattr(loaded.config.profiles["p"].override["a__y"], "unread")
    (warning,) = loaded.warnings
    assert (warning.line, warning.keys) == (4, ("profiles", "p", "override", "a__x", "fix", "key"))
    assert why in warning.text
    assert warning.text.endswith('Until that is mended profile p leaves "a__x" out')


def test_what_may_come_is_watched_and_is_a_change_when_it_is_there(tmp_path):
    first = load(tmp_path, 'key = "${file:key.txt}"')
    assert tmp_path / "key.txt" in first.files
    (tmp_path / "key.txt").write_text("k3y")
    second = load(tmp_path, 'key = "${file:key.txt}"')
    assert override(second).fix == {"key": "k3y"}
    assert not override(second).unread
    assert difference(first.config, second.config).settings == ("profiles.p",)


def test_a_secret_is_marked_until_it_is_read_and_another_version_is_a_change(tmp_path):
    store = SecretStore.open()
    store.keep("K", "s3cret")
    loaded = load(tmp_path, 'id = 7, key = { deep = ["Bearer ${secret:K}", "${X}"] }', {"X": "v4r"})
    assert not loaded.warnings
    assert dict(override(loaded).unread) == {"key": NOT_READ_YET}, "nobody calls it with what is only marked"
    (reference,) = references_in_profiles(loaded.config.profiles)
    assert (reference.kind, reference.text) == ("secret", "K")
    filled = with_values(loaded.config.profiles, {reference: "s3cret"}, {})["p"]
    assert filled.override["a__x"].fix == {"id": 7, "key": {"deep": ["Bearer s3cret", "v4r"]}}
    assert not filled.override["a__x"].unread
    assert set(secrets_of(filled)) == {"s3cret", "v4r"}
    assert "s3cret" not in repr(filled)
    store.keep("K", "other")
    again = load(tmp_path, 'id = 7, key = { deep = ["Bearer ${secret:K}", "${X}"] }', {"X": "v4r"})
    assert references_in_profiles(again.config.profiles) != (reference,)


def test_a_value_that_cannot_be_read_or_is_too_much_leaves_the_tool_out(tmp_path):
    loaded = load(tmp_path, 'a = "${credential:C}", b = "${credential:D}${credential:D}", c = "${credential:E}"')
    c, d, e = (Reference("credential", name) for name in "CDE")
    found = with_values(loaded.config.profiles, {d: "x" * (MAX_FIXED_BYTES // 2), e: "\ud800"}, {c: "it is locked"})
    assert found["p"].override["a__x"].fix == {}
    told = {keys[-1]: why for keys, why in unread_arguments(found)}
    assert told == {
        "a": "it is locked",
        "b": "all values together are larger than 64 KB",
        "c": "all values together are larger than 64 KB",
    }
    (alone,) = unread_arguments(with_values(load(tmp_path, 'c = "${credential:E}"').config.profiles, {e: "\ud800"}, {}))
    assert alone[1] == "${credential:E} is no text that JSON can hold"


def test_many_are_told_in_few_words(tmp_path):
    path = tmp_path / "hubd.toml"
    tools = "".join(f'a__x{n} = {{ fix = {{ a = "${{A}}", b = "${{B}}" }} }}\n' for n in range(100))
    path.write_text(f"{SERVER}[profiles.p.override]\n{tools}")
    warnings = [str(each) for each in load_all(path, {}).warnings]
    assert len(warnings) == MAX_ARGUMENTS_TOLD + 1
    assert f"{200 - MAX_ARGUMENTS_TOLD} more fixed arguments have no value; their tools are left out" in warnings[-1]


def test_the_store_of_this_test_is_its_own(tmp_path):
    assert str(state_dir()).startswith(str(tmp_path))
