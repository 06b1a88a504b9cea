"""State: what the liar's two ports share, and its tokens."""

import argparse
import secrets
import threading
import time
from typing import Any


class State:
    def __init__(self, args: argparse.Namespace, port: int, evil_port: int) -> None:
        self.args = args
        self.lie: str | None = args.lie
        self.base, self.evil = f"http://127.0.0.1:{port}", f"http://127.0.0.1:{evil_port}"
        self.own = args.issuer is None
        """It is its own authorization server."""
        self.issuer: str = args.issuer or self.base
        self.resource = f"{self.base}/mcp"
        self.moved: str | None = None
        """The authorization server that its metadata names since a test has said so."""
        self.log: list[dict[str, Any]] = []
        self.secrets: set[str] = set()
        """All that must not be found in logs, messages or files: tokens, codes, client secrets, verifiers, states."""
        self.clients: dict[str, dict[str, Any]] = {}
        self.forgotten: set[str] = set()
        self.codes: dict[str, dict[str, str]] = {}
        self.access: dict[str, dict[str, Any]] = {}
        self.refresh: dict[str, dict[str, Any]] = {}
        self.shown: set[str] = set()
        """Tokens of another server that were shown here."""
        self.dead: set[str] = set()
        """Those among them that a test has ended."""
        self._lock = threading.Lock()

    def note(self, what: str, **detail: object) -> None:
        with self._lock:
            self.log.append({"what": what, **detail})

    def secret(self, size: int = 24) -> str:
        """A new secret, remembered."""
        made = secrets.token_urlsafe(size)
        self.secrets.add(made)
        return made

    def remember(self, *seen: str | None) -> None:
        """These are secrets, too."""
        self.secrets.update(text for text in seen if text)

    def give(self, client: str, scope: str, resource: str | None) -> dict[str, Any]:
        """The answer of a token endpoint, with new tokens."""
        access, refresh, ttl = self.secret(), self.secret(), self.args.ttl
        now = time.time()  # noqa: TID251
        self.access[access] = {"scope": scope, "until": now + ttl, "made": now, "resource": resource}
        self.refresh[refresh] = {"client": client, "scope": scope, "resource": resource}
        life = {"expires_in": int(ttl) if ttl == int(ttl) else ttl}
        return {"access_token": access, "token_type": "Bearer", **life, "refresh_token": refresh, "scope": scope}
