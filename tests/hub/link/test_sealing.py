import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from config.diagnostics import ConfigError
from hub.link.sealing import InvalidSeal, Keys, Sealer, Signer, load_keys

KEY = bytes(range(32))
OTHER = bytes(range(1, 33))


@pytest.mark.covers("SEC-20", "SEC-87")
@given(st.text(), st.binary(max_size=300))
def test_what_was_sealed_opens_for_the_same_purpose_only(purpose, value):
    sealer = Sealer(KEY)
    text = sealer.seal(purpose, value)
    assert sealer.open(purpose, text) == value
    with pytest.raises(InvalidSeal):
        sealer.open(purpose + "x", text)


@pytest.mark.covers("SEC-87")
@given(st.data())
def test_no_changed_character_goes_unnoticed(data):
    sealer = Sealer(KEY)
    text = sealer.seal("cursor", b"3:100")
    at = data.draw(st.integers(0, len(text) - 1))
    char = data.draw(st.characters(codec="utf-8").filter(lambda char: char != text[at]))
    for changed in (text[:at] + char + text[at + 1 :], text[:at], text[:at] + char + text[at:]):
        with pytest.raises(InvalidSeal):
            sealer.open("cursor", changed)


@pytest.mark.parametrize(
    "text", ["", "v1", "v1.", "v1..", "v2.{kid}.AAAA", "v1.{kid}", "v1.{kid}.", "v1.{kid}.AAAA.", "v1.{kid}.é"]
)
def test_nonsense_is_refused(text):
    sealer = Sealer(KEY)
    kid = sealer.seal("p", b"").split(".")[1]
    with pytest.raises(InvalidSeal):
        sealer.open("p", text.replace("{kid}", kid))


def test_sealed_text_is_safe_in_headers_and_never_repeats():
    sealer = Sealer(KEY)
    texts = {sealer.seal("p", b"same") for _ in range(50)}
    assert len(texts) == 50
    assert all(text.isascii() and set(text) <= set("-_.").union(map(chr, range(48, 123))) for text in texts)


def test_a_previous_key_opens_but_does_not_seal():
    old, new = Sealer(KEY), Sealer(Keys(OTHER, KEY))
    text = old.seal("p", b"value")
    assert new.open("p", text) == b"value"
    with pytest.raises(InvalidSeal):
        old.open("p", new.seal("p", b"value"))
    with pytest.raises(InvalidSeal):
        Sealer(OTHER).open("p", text)


def test_cryptography_is_loaded_at_the_first_use_only():
    code = (
        "import sys; from hub.link.sealing import Sealer; sealer = Sealer(bytes(32));"
        "assert 'cryptography' not in sys.modules; sealer.seal('p', b'');assert 'cryptography' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parents[2])


def test_keys_without_a_file_live_as_long_as_the_process():
    assert load_keys(None) != load_keys(None)


@pytest.mark.covers("SEC-87")
def test_the_key_file_is_made_once_and_is_private(tmp_path):
    path = tmp_path / "state" / "key"
    keys = load_keys(path)
    assert load_keys(path) == keys
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(path.parent.iterdir()) == [path]


def test_a_second_line_is_the_previous_key(tmp_path):
    path = tmp_path / "key"
    first = load_keys(path)
    assert first.other is None
    path.write_text("ab" * len(first.current) + "\n" + path.read_text())
    second = load_keys(path)
    assert second.other == first.current
    assert Sealer(second).open("task", Sealer(first).seal("task", b"x")) == b"x"


def test_a_key_file_open_to_others_is_refused(tmp_path):
    path = tmp_path / "key"
    load_keys(path)
    path.chmod(0o640)
    with pytest.raises(ConfigError, match="chmod 600"):
        load_keys(path)


@pytest.mark.parametrize("content", ["", "zz", "00" * 31, "é", "00" * 32 + "\n" + "11" * 31, "00" * 32 + "\n11\n22"])
def test_a_damaged_key_file_is_refused(tmp_path, content):
    path = tmp_path / "key"
    path.write_text(content)
    path.chmod(0o600)
    with pytest.raises(ConfigError, match="damaged"):
        load_keys(path)


@pytest.mark.covers("SEC-62")
@pytest.mark.parametrize("kind", ["link", "device", "pipe", "large"])
def test_a_key_file_that_is_none_is_not_read(tmp_path, kind):
    path, sound = tmp_path / "keys", tmp_path / "sound"
    load_keys(sound)
    if kind == "pipe":
        os.mkfifo(path, 0o600)
    elif kind == "large":
        path.touch(0o600)
        path.write_bytes(sound.read_bytes() * 1000)
    else:
        path.symlink_to(sound if kind == "link" else "/dev/zero")
    with pytest.raises(OSError, match=r"link|plain file|larger"):
        load_keys(path)


def test_a_key_file_that_cannot_be_written_leaves_nothing_behind(tmp_path):
    path = tmp_path / "key"
    path.mkdir()
    with pytest.raises(OSError):
        load_keys(path)
    path.rmdir()
    target = tmp_path / "not-a-folder"
    target.write_text("")
    with pytest.raises(OSError):
        load_keys(target / "key")
    assert list(tmp_path.iterdir()) == [target]


# --- what is signed only ----------------------------------------------------------------------------------------------


@pytest.mark.covers("SEC-06")
@given(st.text(st.characters(exclude_characters="\0", codec="utf-8")), st.binary(max_size=300), st.binary(max_size=20))
def test_what_was_signed_opens_for_the_same_purpose_and_bond_only(purpose, value, bound):
    signer = Signer(KEY)
    text = signer.sign(purpose, value, bound)
    assert signer.open(purpose, text, bound) == value
    for other in ((purpose + "x", bound), (purpose, bound + b"x"), ("x" + purpose, bound), (purpose, b"x" + bound)):
        with pytest.raises(InvalidSeal):
            signer.open(other[0], text, other[1])
    for foreign in (Signer(OTHER), Signer(Keys(OTHER))):
        with pytest.raises(InvalidSeal):
            foreign.open(purpose, text, bound)


@pytest.mark.covers("F-H-14")
@given(st.data())
def test_no_changed_character_of_a_signed_text_goes_unnoticed(data):
    signer = Signer(KEY)
    text = signer.sign("session", b'["a","b"]')
    at = data.draw(st.integers(0, len(text) - 1))
    char = data.draw(st.characters(codec="utf-8").filter(lambda char: char != text[at]))
    for changed in (text[:at] + char + text[at + 1 :], text[:at], text[:at] + char + text[at:], text + "=", text + "."):
        with pytest.raises(InvalidSeal):
            signer.open("session", changed)


@pytest.mark.parametrize(
    "text", ["", "v1", "...", "v1...", "v2.{kid}.AAAA.AAAA", "v1.{kid}.AA.", "v1.{kid}..AA", "v1.{kid}.A.A.A", "\u0661"]
)
def test_nonsense_is_not_signed(text):
    signer = Signer(KEY)
    kid = signer.sign("p", b"").split(".")[1]
    with pytest.raises(InvalidSeal):
        signer.open("p", text.replace("{kid}", kid))


def test_signed_texts_survive_a_rotation_and_need_no_heavy_library():
    text = Signer(KEY).sign("p", b"value")
    assert Signer(Keys(OTHER, KEY)).open("p", text) == b"value"
    code = "import sys; from hub.link.sealing import Signer; Signer(b'k' * 32).sign('p', b'')"
    code += "; assert 'cryptography' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
