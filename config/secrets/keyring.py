"""The system's keyring, asked through a process of its own (`keyring_child`), a minute at most. Blocks."""

import importlib.util
import json
import sys
import time
from functools import cache
from math import inf
from pathlib import Path
from typing import Final

from config import base_directories
from config.secrets.run_child import ChildFailed, run_child

PATIENCE_S: Final = 60.0
"""Time for a person to unlock it."""
MAX_ANSWER_BYTES: Final = 1 << 19
SERVICE: Final = "hubd"
now = time.monotonic  # noqa: TID251  # threads have no clock of trio


class NoKeyring(Exception):
    """There is no keyring that could be asked; the text says why."""


class KeyringRefused(Exception):
    """There is a keyring, and it did not do it; the text says why, and what to do."""


class SystemKeyring:
    """The keyring of the desktop or the system. `state`: the state directory, whose secrets are kept apart.

    One that did not answer in time is not asked again. All requests together take `total_s` seconds at most. Each
    request raises NoKeyring or KeyringRefused.
    """

    def __init__(self, state: Path, *, patience_s: float = PATIENCE_S, total_s: float = inf) -> None:
        self._service = SERVICE if state == Path.home() / ".local/state/hubd" else f"{SERVICE} {state}"
        self._patience_s = patience_s
        self._left_s = total_s
        self._silent: str | None = None
        """The refusal of the request that was not answered."""

    def get(self, name: str) -> str | None:
        return self._ask("get", name)

    def set(self, name: str, value: str) -> None:
        self._ask("set", name, value)

    def delete(self, name: str) -> None:
        self._ask("delete", name)

    def _ask(self, do: str, name: str, value: str | None = None) -> str | None:
        if importlib.util.find_spec("keyring") is None:
            raise NoKeyring("hubd was installed without its extra `keyring`")
        if self._silent is not None:
            raise KeyringRefused(self._silent)
        request = json.dumps({"do": do, "service": self._service, "name": name, "value": value})
        argv = [sys.executable, "-P", "-m", "config.secrets.keyring_child"]
        begun_at, within_s = now(), min(self._patience_s, self._left_s)
        try:
            done = run_child(argv, within_s=within_s, limit_bytes=MAX_ANSWER_BYTES, input=request.encode())
        except ChildFailed as error:
            self._silent = f"the keyring did not answer ({error}): unlock it"
            raise KeyringRefused(self._silent) from None
        finally:
            self._left_s = max(0.0, self._left_s - (now() - begun_at))
        try:
            answer = json.loads(done.stdout)
        except ValueError:
            raise KeyringRefused(f"the keyring could not be asked (exit status {done.status})") from None
        problem, why = answer.get("problem"), str(answer.get("why", ""))[:300]
        if problem in ("absent", "unusable"):
            raise NoKeyring(why)
        if problem:
            raise KeyringRefused(f"the keyring ({answer.get('backend', 'unknown')}) refuses, {why}: unlock it")
        found = answer.get("value")
        return found if isinstance(found, str) else None


class NoSystemKeyring(SystemKeyring):
    """In place of one where secrets are kept in files."""

    def _ask(self, do: str, name: str, value: str | None = None) -> str | None:
        raise NoKeyring("secrets of people are kept in files")


def system_keyring() -> SystemKeyring:
    """The keyring of this user's state directory, the same one for the run of a command."""
    return _keyring_of(Path(base_directories.state_dir()))


def hasty_keyring(total_s: float = PATIENCE_S) -> SystemKeyring:
    """The same, for a number of requests by a process that goes on: they wait `total_s` seconds together, and those
    after them begin anew."""
    return SystemKeyring(Path(base_directories.state_dir()), total_s=total_s)


_keyring_of = cache(SystemKeyring)
