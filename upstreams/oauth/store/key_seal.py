"""The seal of what is kept: a key, where it comes from, and its name, which each file bears.

The key is read at the first use: a hub whose upstreams want no sign-in asks no keyring. A key that cannot be had now
is asked for again at the next use; no other one is taken in its place.
"""

from collections.abc import Callable
from threading import Lock
from typing import Final

from hub.link.sealing import InvalidSeal, Keys, Sealer, derive_keys
from upstreams.oauth.model import OAuthUnavailable

PURPOSE: Final = "oauth"


class KeyLocked(OAuthUnavailable):
    """The key cannot be had now; the text says what to do."""

    def __init__(self, source: str) -> None:
        super().__init__(f"The key of your sign-ins ({source}) is locked; unlock it, then try again.")


class NotSealedHere(Exception):
    """A text that was sealed with another key, or was changed."""


class KeySeal:
    """Seals what is kept by keys of the hub, apart from all else that these seal. `read` returns them, and raises
    KeyLocked. `source` is their place: `credential`, `sealing_key`, `keyring` or `keys`.

    All but `source` may block for some seconds, and may be called by several threads. Raises KeyLocked.
    """

    def __init__(self, source: str, read: Callable[[], Keys]) -> None:
        self.source = source
        self._read = read
        self._reading = Lock()
        self._sealer: Sealer | None = None
        self._name = ""

    def __repr__(self) -> str:
        return f"<KeySeal {self._name or f'{self.source}, not read'}>"

    @property
    def key_name(self) -> str:
        """The name of the key, which reveals nothing of it."""
        self._open_key()
        return self._name

    def seal(self, value: bytes) -> str:
        """Seal `value` as ASCII text."""
        return self._open_key().seal(PURPOSE, value)

    def open(self, text: str) -> bytes:
        """Open what `seal` returned. Raises NotSealedHere, too."""
        sealer = self._open_key()
        try:
            return sealer.open(PURPOSE, text)
        except InvalidSeal:
            raise NotSealedHere("sealed with another key, or changed") from None

    def _open_key(self) -> Sealer:
        with self._reading:
            if self._sealer is None:
                sealer = Sealer(Keys(*derive_keys(self._read(), PURPOSE)))
                kid = sealer.seal(PURPOSE, b"").split(".")[1]
                self._name, self._sealer = f"{self.source}:{kid}", sealer
            return self._sealer
