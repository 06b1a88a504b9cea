"""Sealed values: names that reveal nothing, and values that only hubs of the same key can make.

A value is sealed with AES-256-GCM under the name it is kept by: a changed, moved or foreign value does not open. All
keys are derived from the one key that hubs share. Pure, except for random numbers.
"""

import hmac
import os
from functools import cached_property
from hashlib import blake2b, sha256
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

NONCE_BYTES: Final = 12
TAG_BYTES: Final = 16
OVERHEAD_BYTES: Final = NONCE_BYTES + TAG_BYTES
"""Bytes that sealing adds."""


class ValueSealer:
    """Names and seals by one key. `cryptography` is loaded at the first use, since it costs memory."""

    def __init__(self, key: bytes) -> None:
        self._names = _derive(key, b"names")
        self._values = _derive(key, b"values")
        self.namespace = _derive(key, b"namespace").hex()[:16]
        """Common to hubs of this key, and to no others. Not secret."""

    def __repr__(self) -> str:
        return f"<ValueSealer {self.namespace}>"

    def digest(self, *parts: str) -> str:
        """A short text that stands for `parts` and reveals nothing of them."""
        digest = blake2b(key=self._names, digest_size=12)
        for part in parts:
            encoded = part.encode(errors="surrogatepass")
            digest.update(b"%d:%b" % (len(encoded), encoded))
        return digest.hexdigest()

    def seal(self, name: str, value: bytes) -> bytes:
        """Seal `value` under `name`; never twice the same."""
        nonce = os.urandom(NONCE_BYTES)
        return nonce + self._cipher.encrypt(nonce, value, name.encode())

    def open(self, name: str, sealed: bytes) -> bytes | None:
        """Open a value that was sealed under `name`; None: it was not."""
        from cryptography.exceptions import InvalidTag

        if len(sealed) < OVERHEAD_BYTES:
            return None
        try:
            return self._cipher.decrypt(sealed[:NONCE_BYTES], sealed[NONCE_BYTES:], name.encode())
        except InvalidTag:
            return None

    @cached_property
    def _cipher(self) -> "AESGCM":
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        return AESGCM(self._values)


def _derive(key: bytes, purpose: bytes) -> bytes:
    return hmac.digest(key, b"hubd shared store 3: " + purpose, sha256)
