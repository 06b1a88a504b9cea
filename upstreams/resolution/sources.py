"""Sources of values: the store of `hubd secret`, `$CREDENTIALS_DIRECTORY`, and programs that print one. Blocks.

A value is text of at most 64 KiB without NUL; one line end behind it does not belong to it. Programs are run without a
shell and without input, in the home directory, with the environment of the hub.
"""

import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Final

from config.child_output import ChildFailed, ChildOutput, run_child
from config.errors import ConfigError
from config.loading.safe_reading import read_plain
from config.references import NUL, Reference
from config.secrets.file import MAX_VALUE_BYTES
from config.secrets.keyring import Keyring, hasty_keyring
from config.secrets.store import SecretStore, SecretUnavailable
from hub.wire.printable import printable

COMMAND_S: Final = 10.0
CREDENTIALS: Final = "CREDENTIALS_DIRECTORY"
STDERR_CHARS: Final = 200
"""Characters of what a failing program said last that are shown."""


class Unresolvable(Exception):
    """A reference that has no value now. The text names it, says why and what to do, and shows no value."""


ReadReferences = Callable[[Iterable[Reference]], Mapping[Reference, str]]
"""`read_references`, or a test's own."""


def read_references(references: Iterable[Reference], environ: Mapping[str, str] = os.environ) -> dict[Reference, str]:
    """The values of references. Takes up to a minute for a keyring that has to be unlocked, whatever the number of
    references, and 10 s for a program.

    `environ`: that of programs, and where credentials are looked up.

    Raises:
        Unresolvable: one has no value now.
    """
    keyring = hasty_keyring()
    return {reference: _value(reference, environ, keyring) for reference in references}


def read_each(
    references: Iterable[Reference], environ: Mapping[str, str], patience_s: float
) -> tuple[dict[Reference, str], dict[Reference, str]]:
    """The values of those that have one, and of the others the reason. Takes `patience_s` for a keyring that has to be
    unlocked, whatever the number of references; else as `read_references`."""
    keyring = hasty_keyring(patience_s)
    values, lacking = {}, {}
    for reference in references:
        try:
            values[reference] = _value(reference, environ, keyring)
        except Unresolvable as error:
            lacking[reference] = str(error)
    return values, lacking


def _value(reference: Reference, environ: Mapping[str, str], keyring: Keyring) -> str:
    if reference.kind == "secret":
        return _secret(reference, keyring)
    data = (_credential if reference.kind == "credential" else _output_of)(reference, environ)
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise _without(reference, "it is no UTF-8 text") from None
    text = text.removesuffix("\n").removesuffix("\r")
    if NUL in text:
        raise _without(reference, "it holds a NUL character, which no program can be given")
    if not text:
        raise _without(reference, "it is empty")
    return text


def _secret(reference: Reference, keyring: Keyring) -> str:
    try:
        return SecretStore.open(keyring).get(reference.text)
    except (SecretUnavailable, ConfigError) as error:
        raise _without(reference, str(error)) from None


def _credential(reference: Reference, environ: Mapping[str, str]) -> bytes:
    directory = environ.get(CREDENTIALS)
    if not directory:
        text = (
            f"${CREDENTIALS} is not set: start the hub by a unit with LoadCredential={reference.text}:FILE, or set it"
        )
        raise _without(reference, text)
    path = Path(directory, reference.text)
    try:
        data, _ = read_plain(path, MAX_VALUE_BYTES + 1)
    except OSError as error:
        raise _without(reference, f"cannot read {path}: {error.strerror}") from None
    if len(data) > MAX_VALUE_BYTES:
        raise _without(reference, f"{path} is larger than {MAX_VALUE_BYTES >> 10} KB")
    return data


def _output_of(reference: Reference, environ: Mapping[str, str]) -> bytes:
    argv = reference.argv
    name = os.path.basename(argv[0])
    home = os.path.expanduser("~")
    directory = home if os.path.isdir(home) else "/"
    try:
        done = run_child(argv, within_s=COMMAND_S, limit_bytes=MAX_VALUE_BYTES, environ=environ, directory=directory)
    except ChildFailed as error:
        raise _without(reference, f"{name} {error}") from None
    if done.status:
        raise _without(reference, f"{name} {_ending(done)}")
    return done.stdout


def _ending(done: ChildOutput) -> str:
    """The end of a program that failed, and the last line that it said about it."""
    how = f"exited with status {done.status}" if done.status > 0 else f"was killed by signal {-done.status}"
    lines = [line.strip() for line in done.stderr.decode(errors="replace").splitlines() if line.strip()]
    return f"{how}: {printable(lines[-1])[:STDERR_CHARS]}" if lines else how


def _without(reference: Reference, why: str) -> Unresolvable:
    return Unresolvable(f"{printable(str(reference))} has no value: {why}")
