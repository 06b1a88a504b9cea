"""What hubs keep in a store that others may read and write: names that tell nothing, values that nobody else can make.

A value is sealed with AES-256-GCM under the name it is kept by: changed, swapped or foreign ones do not open (F-X-04,
SEC-23). All keys come from the one key that the hubs share. Pure, but for the random numbers.
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
"""How much longer a value is when it is sealed."""


class ValueSealer:
    """Names and seals, by a key. `cryptography` is loaded at the first use: it costs memory."""

    def __init__(self, key: bytes) -> None:
        self._names = _derived(key, b"names")
        self._values = _derived(key, b"values")
        self.namespace = _derived(key, b"namespace").hex()[:16]
        """What hubs of this key, and no others, have in common. No secret."""

    def __repr__(self) -> str:
        return f"<ValueSealer {self.namespace}>"

    def digest(self, *parts: str) -> str:
        """Short text that stands for `parts` and shows nothing of them."""
        digest = blake2b(key=self._names, digest_size=12)
        for part in parts:
            encoded = part.encode(errors="surrogatepass")
            digest.update(b"%d:%b" % (len(encoded), encoded))
        return digest.hexdigest()

    def seal(self, name: str, value: bytes) -> bytes:
        """`value`, to be kept under `name`; never twice the same."""
        nonce = os.urandom(NONCE_BYTES)
        return nonce + self._cipher.encrypt(nonce, value, name.encode())

    def open(self, name: str, sealed: bytes) -> bytes | None:
        """What was sealed under `name`; None: it was not, or not like that."""
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


def _derived(key: bytes, purpose: bytes) -> bytes:
    return hmac.digest(key, b"hubd shared store 3: " + purpose, sha256)
