"""The program that asks the system's keyring, with one request of JSON on stdin: `python -m
config.secrets.keyring_child`.

It is a process of its own: a keyring that waits for somebody to unlock it can be left without a thread that waits for
ever, a session bus that comes later is seen, and the hub loads none of this. Its answer is one object on stdout.

    {"do": "get" | "set" | "delete", "service": ..., "name": ..., "value": ...}
    {"value": ..., "backend": ...}  or  {"problem": "absent" | "unusable" | "refused", "why": ...}
"""

import json
import os
import sys
from typing import Any

LOWEST_PRIORITY = 1
"""Backends below this are files that others can read, or tests."""


def main() -> None:
    """Answer one request."""
    request = json.loads(sys.stdin.buffer.read())
    sys.stdout.write(json.dumps(_answer(request)))


def _answer(request: dict[str, Any]) -> dict[str, Any]:
    _find_session_bus()
    try:
        import keyring
        from keyring.backends import fail, null
        from keyring.errors import KeyringError, KeyringLocked
    except ImportError:
        return {"problem": "absent", "why": "the package keyring is not installed"}
    backend = keyring.get_keyring()
    name = getattr(backend, "name", type(backend).__name__)
    try:
        is_real = not isinstance(backend, fail.Keyring | null.Keyring) and backend.priority >= LOWEST_PRIORITY
    except Exception:  # noqa: BLE001 - a backend that cannot be judged is none
        is_real = False
    if not is_real:
        return {"problem": "unusable", "why": "no keyring answers here"}
    try:
        return {"backend": name, **_carry_out(keyring, request)}
    except KeyringLocked:
        return {"problem": "refused", "why": "it is locked", "backend": name}
    except KeyringError as error:
        return {"problem": "refused", "why": str(error) or type(error).__name__, "backend": name}
    except Exception as error:  # noqa: BLE001 - whatever the bus or a plug-in raises
        return {"problem": "refused", "why": f"{type(error).__name__}: {error}", "backend": name}


def _carry_out(keyring: Any, request: dict[str, Any]) -> dict[str, Any]:
    place = (request["service"], request["name"])
    match request["do"]:
        case "set":
            keyring.set_password(*place, request["value"])
            if keyring.get_password(*place) != request["value"]:
                return {"problem": "refused", "why": "it does not keep what it is given"}
        case "delete":
            if keyring.get_password(*place) is not None:
                keyring.delete_password(*place)
        case _:
            return {"value": keyring.get_password(*place)}
    return {"value": None}


def _find_session_bus() -> None:
    """Name the user's bus where a service or a host did not pass it on."""
    bus = f"/run/user/{os.getuid()}/bus"
    if "DBUS_SESSION_BUS_ADDRESS" not in os.environ and os.path.exists(bus):
        os.environ["DBUS_SESSION_BUS_ADDRESS"] = f"unix:path={bus}"


if __name__ == "__main__":
    main()
