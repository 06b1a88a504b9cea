"""The key that seals what is kept of sign-ins: given by the service manager or the configuration, in the keyring, or
the hub's own, which lies beside what it seals.

It is read when it is needed first. Where it is to come from is decided by the configuration alone: if that place is
silent nothing is opened or sealed, and no other key is made.
"""

import os
import secrets
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from config.errors import ConfigError
from config.loading.check_fleet import KEY_BYTES, keys_in
from config.loading.safe_reading import read_plain
from config.secrets.keyring import Keyring, KeyringRefused, NoKeyring, SystemKeyring
from config.settings import HubConfig
from hub.link.sealing import Keys, keys_from_setting
from upstreams.oauth.store.seal import KeyLocked, KeySeal

CREDENTIAL: Final = "hubd-oauth-key"
"""Its name among the credentials of the service manager, and in the keyring."""
KEYRING_S: Final = 5.0
MAX_BYTES: Final = 4096


def oauth_seal(
    config: HubConfig,
    keys: Keys,
    state: Path,
    environ: Mapping[str, str] = os.environ,
    keyring: Callable[[Path], Keyring] = lambda state: SystemKeyring(state, patience_s=KEYRING_S),
) -> KeySeal:
    """The seal of this hub. `keys`: those of the hub, used if nothing else is said; `state`: its state directory."""
    directory = environ.get("CREDENTIALS_DIRECTORY", "")
    if directory and (path := Path(directory, CREDENTIAL)).exists():
        return KeySeal("credential", lambda: _from_file(path))
    if config.sealing_key is not None:
        setting = config.sealing_key
        return KeySeal("sealing_key", lambda: keys_from_setting(setting))
    if config.oauth.keyring:
        return KeySeal("keyring", lambda: _from_keyring(keyring(state)))
    return KeySeal("keys", lambda: keys)


def _from_file(path: Path) -> Keys:
    try:
        data, _ = read_plain(path, MAX_BYTES)
        return Keys(*keys_in(data.decode("ascii")))
    except (OSError, ValueError):
        raise KeyLocked("credential") from None


def _from_keyring(keyring: Keyring) -> Keys:
    try:
        text = keyring.get(CREDENTIAL)
        if text is None:
            text = secrets.token_bytes(KEY_BYTES).hex()
            keyring.set(CREDENTIAL, text)
            text = keyring.get(CREDENTIAL) or text  # another process may have made one at the same time
        return Keys(*keys_in(text))
    except (NoKeyring, KeyringRefused, ValueError, ConfigError):
        raise KeyLocked("keyring") from None
