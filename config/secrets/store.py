"""The store of `hubd secret`: secrets by name, in the keyring where one answers, else in `secrets.json` (0600).

    store = SecretStore.open()                      or open(principal="bob"): those of one of several people
    people()                                ->  {"bob", "eve"}: those of whom some are kept
    store.keep("GITHUB_TOKEN", value)       ->  where it is kept, and why not in the keyring
    store.names()                           ->  {"GITHUB_TOKEN": "keyring"}
    store.get("GITHUB_TOKEN")
    store.remove("GITHUB_TOKEN")

The file says of each name its value or that the keyring has it, so nothing has to be searched. All methods block: the
keyring may wait a minute for somebody who unlocks it.
"""

import secrets
import shlex
from collections.abc import Callable
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Final, Literal

from msgspec import Struct

from config.atomic_writes import lock_edits, replace_private
from config.diagnostics import EditError
from config.hub_paths import secrets_path
from config.secret_references import NAME_RULE, NUL, is_name
from config.secrets.kept_secrets import MAX_VALUE_BYTES, SECRETS, KeptSecret, read_secrets
from config.secrets.keyring import KeyringRefused, NoKeyring, NoSystemKeyring, SystemKeyring, system_keyring
from config.secrets.private_state_files import MAX_FILE_BYTES, StateUnreadable
from config.settings import OWNER

Place = Literal["keyring", "file"]
_PEOPLE: Final = "people"


class SecretUnavailable(Exception):
    """A secret that cannot be had. The text says why, and what to do; never a value."""


class Stored(Struct, frozen=True):
    """The outcome of keeping a secret."""

    place: Place
    why: str = ""
    """The reason why the keyring does not have it; "" if it does."""


class SecretStore:
    """Secrets by name. Each method reads the file, so that another process may change it meanwhile. `person`: of whom
    they are; "": of the hub's owner. `at`: the URL at which that person keeps them; "": not known."""

    def __init__(self, path: Path, keyring: SystemKeyring, person: str = "", at: str = "") -> None:
        self.path = path
        self._keyring = keyring
        self._person = person
        self._at = at

    @classmethod
    def open(cls, keyring: SystemKeyring | None = None, *, principal: str = OWNER, at: str = "") -> "SecretStore":
        """The store of this user, or of another principal of the hub, which is a file of its own. `keyring`: None is
        that of the system; `at`: the hub's URL, for what that person is told.
        Raises: ConfigError, if the state directory is not private."""
        own = secrets_path()
        if principal == OWNER:
            return cls(own, keyring or system_keyring())
        path = own.with_name(_PEOPLE) / f"{sha256(principal.encode()).hexdigest()[:32]}.json"
        return cls(path, NoSystemKeyring(own.parent), principal, at)

    @property
    def _directory(self) -> Path:
        return secrets_path().parent

    def names(self) -> dict[str, Place]:
        """The names of all secrets, and the place that keeps each. Raises: EditError, if the file cannot be used."""
        return {name: "keyring" if kept.keyring else "file" for name, kept in sorted(self._read().items())}

    def get(self, name: str) -> str:
        """The secret. Raises: SecretUnavailable, if there is none, or it cannot be read now."""
        try:
            kept = read_secrets(self.path).get(name)
        except StateUnreadable as error:
            raise SecretUnavailable(str(error)) from None
        if kept is None:
            raise SecretUnavailable(self._lack_of(name))
        if kept.value is not None:
            return kept.value
        try:
            value = self._keyring.get(name)
        except NoKeyring as error:
            text = f"the keyring has the secret {name}, and {error}: make the keyring available to the hub, or run"
            raise SecretUnavailable(f"{text} `hubd secret set {name}` where the hub runs") from None
        except KeyringRefused as error:
            raise SecretUnavailable(str(error)) from None
        if value is None:
            raise SecretUnavailable(f"the keyring no longer has the secret {name}: run `hubd secret set {name}`")
        return value

    def _lack_of(self, name: str) -> str:
        """The sentence: there is no such secret. A person may not run what the owner runs."""
        keep = f"`hubd secret set {name}"
        if not self._person:
            return f"there is no secret {name}: run {keep}`"
        lack, owners = f"there is no secret {name} of {self._person}", f"{keep} --for {shlex.quote(self._person)}`"
        if not self._at:
            return f"{lack}: the hub's owner keeps one by {owners}"
        own = f"{keep} --at {self._at} --token FILE`, where FILE has your token of this hub"
        return f"{lack}: run {own}; or have the hub's owner run {owners}"

    def keep(self, name: str, value: str) -> Stored:
        """Keep a secret, in place of the one of that name.
        Raises: EditError, if it cannot be kept, or the file cannot be used; nothing was changed."""
        _refuse(name, value)
        kept = self._read().get(name)
        take_back = self._step_back(name, kept is not None and kept.keyring)
        stored = self._give_to_keyring(name, value)
        try:
            before = self._note(name, value, stored)
        except BaseException:
            if stored.place == "keyring":
                take_back()
            raise
        if stored.place == "file" and before is not None and before.keyring:
            self._forget(name)
        return stored

    def _step_back(self, name: str, is_kept: bool) -> Callable[[], object]:
        """A step that lets the keyring have what it has now, if that can be read."""
        if not is_kept:
            return partial(self._forget, name)
        try:
            value = self._keyring.get(name)
        except (NoKeyring, KeyringRefused):
            value = None
        return (lambda: None) if value is None else partial(self._give_to_keyring, name, value)

    def _note(self, name: str, value: str, stored: Stored) -> KeptSecret | None:
        """Note in the file where a secret is kept; the note before. Raises EditError: the file cannot be used."""
        with lock_edits(self._directory):
            known = self._read()
            before = known.get(name)
            if stored.place == "file" and before is not None and before.value == value:
                return before
            in_keyring = stored.place == "keyring"
            kept, version = None if in_keyring else value, secrets.token_hex(8)
            secret = KeptSecret(version=version, value=kept, keyring=in_keyring, whose=self._person)
            self._write({**known, name: secret})
        return before

    def remove(self, name: str) -> str:
        """Forget a secret; a note if the keyring may still have it, else "".
        Raises: EditError, if there is none, or the file cannot be used."""
        with lock_edits(self._directory):
            known = self._read()
            if name not in known:
                of = f" of {self._person}" if self._person else ""
                raise EditError(f"there is no secret {name}{of}; `hubd secret ls` lists what there is")
            kept = known.pop(name)
            self._write(known)
        return self._forget(name) if kept.keyring else ""

    def _give_to_keyring(self, name: str, value: str) -> Stored:
        try:
            self._keyring.set(name, value)
        except (NoKeyring, KeyringRefused) as error:
            return Stored("file", str(error))
        return Stored("keyring")

    def _forget(self, name: str) -> str:
        try:
            self._keyring.delete(name)
        except (NoKeyring, KeyringRefused) as error:
            return f"the keyring may still have the secret {name}: {error}"
        return ""

    def _read(self) -> dict[str, KeptSecret]:
        try:
            return read_secrets(self.path)
        except StateUnreadable as error:
            raise EditError(str(error)) from None

    def _write(self, known: dict[str, KeptSecret]) -> None:
        data = SECRETS.encode(known)
        if len(data) > MAX_FILE_BYTES:
            most = f"{MAX_FILE_BYTES >> 20} MB"
            raise EditError(f"{self.path}: all secrets together are larger than {most}; remove some")
        try:
            self.path.parent.mkdir(mode=0o700, exist_ok=True)
            replace_private(self.path, data)
        except OSError as error:
            raise EditError(f"{self.path}: cannot be written: {error.strerror}; nothing was changed") from None


def people() -> set[str]:
    """The people for whom secrets are kept. Raises: EditError, if one of their files cannot be used."""
    try:
        files = [read_secrets(path) for path in secrets_path().with_name(_PEOPLE).glob("*.json")]
    except StateUnreadable as error:
        raise EditError(str(error)) from None
    return {kept.whose for file in files for kept in file.values()} - {""}


def check_name(name: str) -> None:
    """Raise EditError, if no secret can have this name."""
    if not is_name(name) or name in (".", ".."):
        raise EditError(f"no secret can have this name: it takes {NAME_RULE}")


def _refuse(name: str, value: str) -> None:
    """Raise EditError, if such a secret cannot be kept."""
    check_name(name)
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        raise EditError("the secret is no UTF-8 text") from None
    if not value:
        raise EditError("the secret is empty; nothing was kept")
    if NUL in value:
        raise EditError("the secret holds a NUL character, which no program can be given")
    if size > MAX_VALUE_BYTES:
        raise EditError(f"the secret is larger than {MAX_VALUE_BYTES >> 10} KB")
