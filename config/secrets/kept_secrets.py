"""Secrets that `hubd secret` keeps: `secrets.json` has the value of each, or says that the keyring has it.
`config.secrets.store` writes that file.
"""

from pathlib import Path
from typing import Final

from msgspec import Struct

from config.secret_references import NUL, is_name
from config.secrets.private_state_files import StateFile

MAX_VALUE_BYTES: Final = 1 << 16


class KeptSecret(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """One secret."""

    version: str
    """Changes whenever the value does."""
    value: str | None = None
    """None: the keyring has it."""
    keyring: bool = False
    whose: str = ""
    """The person whose it is, as far as it is kept for one; "": the hub's owner."""

    def __repr__(self) -> str:
        return f"<KeptSecret in the {'keyring' if self.keyring else 'file'}>"


SECRETS: Final = StateFile(
    "secrets",
    KeptSecret,
    if_damaged="set its secrets again with `hubd secret set`",
    if_exposed=", and set anew what others may have read",
)


def read_secrets(path: Path) -> dict[str, KeptSecret]:
    """All secrets by name; none if there is no file. Blocks.
    Raises: StateUnreadable, if the file is not as hubd writes it, or cannot be read."""
    secrets = SECRETS.read(path)
    for name, kept in secrets.items():
        is_hex = not kept.version.strip("0123456789abcdef")
        if not is_name(name) or (kept.value is None) != kept.keyring or not is_hex or NUL in (kept.value or ""):
            raise SECRETS.damage_error(path)
    return secrets
