"""Sources of values: programs that hang, fail, flood and print nonsense; credentials; the store of secrets."""

import shlex
import sys

import pytest

from config.references import Reference
from upstreams.resolution import sources
from upstreams.resolution.sources import Unresolvable, read_references

CANARY = "s3cret-canary-0123456789"
HIDDEN = f"'{CANARY[::-1]}'[::-1]"
"""An expression for it, so that it does not stand in the command itself."""


def command(code):
    return Reference("cmd", shlex.join([sys.executable, "-I", "-c", code]))


def value(reference):
    return read_references([reference])[reference]


@pytest.mark.parametrize(
    ("printed", "expected"),
    [("x", "x"), ("x\n", "x"), ("x\r\n", "x"), ("x\n\n", "x\n"), (" x ", " x "), ("a\nb\n", "a\nb"), ("é", "é")],
)
def test_what_a_program_prints_is_the_value_without_one_line_end(printed, expected):
    assert value(command(f"import sys; sys.stdout.buffer.write({printed.encode()!r})")) == expected


@pytest.mark.covers("BOX-01")
@pytest.mark.parametrize(
    ("code", "why"),
    [
        (f"print({HIDDEN}); import sys; sys.exit('not signed in: run `op signin`')", "not signed in: run `op signin`"),
        (f"print({HIDDEN}); import sys; sys.exit(4)", "exited with status 4$"),
        (f"print({HIDDEN}, flush=True); import os; os.kill(os.getpid(), 15)", "was killed by signal 15"),
        (f"import sys\nwhile True: sys.stdout.write({HIDDEN})", "printed more than 64 KB"),
        (f"print({HIDDEN} + chr(0))", "holds a NUL character"),
        (f"import sys; sys.stdout.buffer.write({HIDDEN}.encode() + bytes([255]))", "no UTF-8 text"),
        ("pass", "it is empty"),
        ("print()", "it is empty"),
    ],
)
def test_a_program_that_gives_none_is_named_and_its_output_is_not(code, why):
    with pytest.raises(Unresolvable, match=why) as raised:
        value(command(code))
    assert CANARY not in str(raised.value)


def test_one_that_hangs_is_given_up(monkeypatch):
    monkeypatch.setattr(sources, "COMMAND_S", 0.5)
    with pytest.raises(Unresolvable, match=r"did not end within 0\.5 seconds"):
        value(command("import time; time.sleep(600)"))


def test_one_that_is_not_there_is_named():
    with pytest.raises(Unresolvable, match=r"\$\{cmd:no-such-program x\} has no value: no-such-program was not found"):
        value(Reference("cmd", "no-such-program x"))


def test_there_is_no_shell():
    assert value(Reference("cmd", "echo $HOME '; id' `id`")) == "$HOME ; id `id`"


def test_the_terminal_is_safe_from_what_a_program_says():
    with pytest.raises(Unresolvable, match=r"status 1: \\x1b\]0;owned"):
        value(command("import sys; sys.exit(chr(27) + ']0;owned')"))


def test_credentials_are_files_of_their_directory(tmp_path, monkeypatch):
    reference = Reference("credential", "db.password")
    monkeypatch.delenv("CREDENTIALS_DIRECTORY", raising=False)
    with pytest.raises(Unresolvable, match=r"CREDENTIALS_DIRECTORY is not set: .* LoadCredential=db\.password:FILE"):
        value(reference)
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(tmp_path))
    with pytest.raises(Unresolvable, match=r"cannot read .*db\.password: No such file"):
        value(reference)
    (tmp_path / "db.password").write_text(f"{CANARY}\n")
    assert value(reference) == CANARY
    (tmp_path / "db.password").write_bytes(b"x" * 65537)
    with pytest.raises(Unresolvable, match="larger than 64 KB"):
        value(reference)
    (tmp_path / "db.password").write_bytes(b"\xff")
    with pytest.raises(Unresolvable, match="no UTF-8"):
        value(reference)


def test_a_secret_that_is_not_kept_says_what_to_run(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    with pytest.raises(
        Unresolvable, match=r"\$\{secret:K\} has no value: there is no secret K: run `hubd secret set K`"
    ):
        value(Reference("secret", "K"))
