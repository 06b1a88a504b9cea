"""Sealed values: texts that hosts carry for the hub, and can neither read nor change (cursors, task ids, states).

`v1.<key id>.<base64url(nonce || AES-256-GCM ciphertext)>`, with the purpose as associated data, so that a value sealed
for one purpose opens for no other. There may be two keys: the first one seals, both open. So a hub still opens what it
sealed before its key was replaced, and hubs that share a key can be given a new one, hub by hub.

Values that need not be secret are signed instead (`Signer`), which takes nothing but the standard library.
"""

import hmac
import os
import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from config.atomic_writes import replace_private
from config.diagnostics import ConfigError
from config.loading.checks.cache_replica_and_keys import KEY_BYTES, KEYS, keys_in
from config.safe_reading import read_private
from config.setting_declarations import Secret

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

NONCE_BYTES: Final = 12
OVERHEAD_BYTES: Final = NONCE_BYTES + 16
"""Bytes that sealing adds: the nonce, and a tag."""
MAX_FILE_BYTES: Final = 4096


class InvalidSeal(Exception):
    """A text that was not sealed or signed by this hub for this purpose, or was changed, or whose key was replaced."""


class Keys(NamedTuple):
    """The key that seals, and another one that only opens: the previous key, or the next."""

    current: bytes
    other: bytes | None = None


class _KeyRing:
    """The keys of one hub by their short ids, which reveal nothing of them; `_kid` is that of the current one."""

    def __init__(self, keys: Keys | bytes) -> None:
        current, other = keys if isinstance(keys, Keys) else Keys(keys)
        ids = {sha256(b"hubd-kid\0" + key).hexdigest()[:8]: key for key in (other, current) if key is not None}
        self._keys, self._kid = ids, list(ids)[-1]


class Cipher:
    """AES-256-GCM by one key. `cryptography` is loaded at the first use: it costs memory."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def seal(self, value: bytes, purpose: bytes) -> bytes:
        """Seal `value` for `purpose`; never twice the same."""
        nonce = os.urandom(NONCE_BYTES)
        return nonce + self._made.encrypt(nonce, value, purpose)

    def open(self, sealed: bytes, purpose: bytes) -> bytes | None:
        """Open what was sealed for `purpose`; None: it was not."""
        from cryptography.exceptions import InvalidTag

        with suppress(InvalidTag):
            if len(sealed) >= OVERHEAD_BYTES:
                return self._made.decrypt(sealed[:NONCE_BYTES], sealed[NONCE_BYTES:], purpose)
        return None

    @cached_property
    def _made(self) -> "AESGCM":
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        return AESGCM(self._key)


class Sealer(_KeyRing):
    """Seals and opens values."""

    def __init__(self, keys: Keys | bytes) -> None:
        super().__init__(keys)
        self._ciphers = {kid: Cipher(key) for kid, key in self._keys.items()}

    def seal(self, purpose: str, value: bytes) -> str:
        """Seal `value` as ASCII text that is safe in headers and URLs."""
        return f"v1.{self._kid}.{_to_text(self._ciphers[self._kid].seal(value, purpose.encode()))}"

    def open(self, purpose: str, text: str) -> bytes:
        """Open a text that was sealed for `purpose`.

        Raises:
            InvalidSeal: `text` is anything but exactly what `seal` returned.
        """
        kid, body = _key_id_and_body(text, self._keys)
        with suppress(ValueError):
            sealed = _from_text(body)
            if _to_text(sealed) != body:  # a value has one spelling only, so that sealed values can be compared
                raise InvalidSeal("Not sealed by this hub")
            if (value := self._ciphers[kid].open(sealed, purpose.encode())) is not None:
                return value
        raise InvalidSeal("Changed on the way, or sealed for another use")


class Signer(_KeyRing):
    """Signs values that hosts carry for the hub, may read, but not change.

    `v1.<key id>.<base64url(value)>.<HMAC-SHA256>`
    """

    def __init__(self, keys: Keys | bytes) -> None:
        super().__init__(keys)
        self._keys = {kid: hmac.digest(key, b"hubd-sign", "sha256") for kid, key in self._keys.items()}

    def sign(self, purpose: str, value: bytes, bound: bytes = b"") -> str:
        """Sign `value` as ASCII text that is safe in headers and URLs, valid only for `purpose` and together with
        `bound`, which is not part of the text."""
        text = f"v1.{self._kid}.{_to_text(value)}"
        return f"{text}.{self._mac(self._kid, purpose, text, bound)}"

    def open(self, purpose: str, text: str, bound: bytes = b"") -> bytes:
        """Open a text that was signed for `purpose` and with `bound`.

        Raises:
            InvalidSeal: `text` is anything but exactly what `sign` returned.
        """
        signed, _, mac = text.rpartition(".")
        kid, body = _key_id_and_body(signed, self._keys)
        # The text is compared, not the value: a value has one spelling only.
        if not mac.isascii() or not hmac.compare_digest(self._mac(kid, purpose, signed, bound), mac):
            raise InvalidSeal("Changed on the way, or signed for another use")
        return _from_text(body)

    def _mac(self, kid: str, purpose: str, text: str, bound: bytes) -> str:
        signed = f"{purpose}\0{text}\0".encode() + bound
        return _to_text(hmac.digest(self._keys[kid], signed, "sha256"))


def _key_id_and_body(text: str, keys: Mapping[str, bytes]) -> tuple[str, str]:
    """Split `v1.<key id>.<body>`. InvalidSeal: the text has another form, or its key is not among `keys`."""
    version, kid, body = (*text.split("."), "", "")[:3]
    if version != "v1" or kid not in keys or text.count(".") != 2 or not text.isascii():
        raise InvalidSeal("Not sealed or signed by this hub, or with a key that has been replaced")
    return kid, body


def _to_text(value: bytes) -> str:
    return urlsafe_b64encode(value).rstrip(b"=").decode()


def _from_text(body: str) -> bytes:
    return urlsafe_b64decode(body + "=" * (-len(body) % 4))


def join_apart(texts: Iterable[str]) -> bytes:
    """The bytes of several texts, which no other texts have."""
    encoded = (text.encode(errors="surrogatepass") for text in texts)
    return b"".join(b"%d:%b" % (len(each), each) for each in encoded)


def derive_keys(keys: Keys, purpose: str) -> list[bytes]:
    """Derive keys for another use, which reveal nothing of `keys`; in the same order."""
    return [hmac.digest(key, f"hubd-derived\0{purpose}".encode(), "sha256") for key in keys if key is not None]


def keys_from_setting(text: Secret) -> Keys:
    """Read the keys in the setting `sealing_key`, the current one first.

    Raises:
        ConfigError: the setting holds no keys; the text does not repeat it.
    """
    try:
        return Keys(*keys_in(text.reveal()))
    except ValueError:
        raise ConfigError(f"sealing_key: {KEYS}") from None


def load_keys(path: Path | None) -> Keys:
    """Read the keys in the file `path` (mode 0600), or make the file; one writer at a time.

    One key per line in hex, the current one first; a second one only opens. Without a path the key lives as long as the
    process. Blocks briefly: for start-up only.

    Raises:
        OSError: the file can be neither read nor written.
        ConfigError: the file holds no keys, or others may read it.
    """
    if path is None:
        return Keys(secrets.token_bytes(KEY_BYTES))
    try:
        data, found = read_private(path, MAX_FILE_BYTES)
        if found.st_mode & 0o077:
            raise ConfigError(f"Others may read the key file {path}: run chmod 600 on it, or delete it")
        return Keys(*keys_in(data.decode("ascii")))
    except FileNotFoundError:
        keys = Keys(secrets.token_bytes(KEY_BYTES))
        replace_private(path, keys.current.hex().encode() + b"\n")
        return keys
    except ValueError:
        raise ConfigError(f"The key file {path} is damaged: delete it, a new one is made at the next start") from None
