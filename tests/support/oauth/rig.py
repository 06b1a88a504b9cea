"""Rig: starts the parts, ends them with the test, and gives their control to it.

`OAuthRig` starts them, each in a process of its own, on ports of the kernel's choice; `README.md` shows its use.
"""

import contextlib
import html
import json
import os
import re
import ssl
import sys
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlencode

import pytest
import trio

from tests.support.oauth import glewlwyd
from tests.support.oauth.sign_in import Answer, Walker, redirect_uri_of
from tests.support.processes import DEPS, NODE, NODE_ENV, ROOT, Process, running

HERE = Path(__file__).parent
PYTHON_DJANGO = DEPS / "py-django" / "bin" / "python"
INTROSPECTION_CLIENT = "rig-resource-server:introspect-me"
"""Client id and secret by which a protected server may introspect, at all servers that can be asked."""
PATIENCE_S = 200.0
"""Django takes two seconds of a processor to start, which a busy machine may not have for long."""
PUBLIC_CLIENT = "rig-public"
SECRET_CLIENT = ("rig-secret", "rig secret: 100%+/=")
"""Client id and secret; its redirect URI is http://127.0.0.1:8765/oauth/callback."""
KEY_CLIENT = "rig-key"
"""Client id of oidc-provider for `private_key_jwt` and client credentials; its key is `Part.client_key()`."""


class Part:
    """A running part: what it said when it listened, and its control."""

    def __init__(self, process: Process, facts: dict[str, Any], ca: str | None = None) -> None:
        self.process, self.facts = process, facts
        self._tls = ssl.create_default_context(cafile=ca) if ca else None

    @property
    def issuer(self) -> str:
        """The issuer of the authorization server."""
        return str(self.facts["issuer"])

    @property
    def url(self) -> str:
        """The URL of the protected MCP server (liar)."""
        return str(self.facts["url"])

    @property
    def evil(self) -> str:
        """The attacker's origin (liar)."""
        return str(self.facts["evil"])

    @property
    def client_id(self) -> str:
        """The URL of the client's metadata document."""
        return str(self.facts["client_id"])

    @property
    def origin(self) -> str:
        """Scheme, host and port."""
        return str(self.facts["control"])

    @property
    def ca(self) -> Path:
        """The certificate of the authority that a fetcher of the client's document has to trust."""
        return Path(self.facts["ca"])

    def control(self, what: str, *, post: bool = True, **query: str) -> Any:
        """Ask `/_rig/WHAT`; returns the answer."""
        url = f"{self.origin}/_rig/{what}" + (f"?{urlencode(query)}" if query else "")
        request = urllib.request.Request(url, data=b"" if post else None)
        handlers = [urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=self._tls)]
        with urllib.request.build_opener(*handlers).open(request, timeout=60) as answer:
            return json.load(answer)

    def log(self) -> list[dict[str, Any]]:
        """What it was asked, oldest first."""
        found: list[dict[str, Any]] = self.control("log", post=False)
        return found

    def asked(self, what: str) -> list[dict[str, Any]]:
        """The entries of the liar's log whose `what` begins so: `token`, `registration`, `authorization`, `mcp`,
        `EVIL`."""
        return [entry for entry in self.log() if entry["what"].startswith(what)]

    def refreshes(self) -> int:
        """How often the token endpoint was asked to renew tokens (liar, oidc-provider)."""
        return sum(entry.get("grant") == "refresh_token" for entry in self.log())

    def secrets(self) -> list[str]:
        """All secrets that the liar has made or seen: none of them may be in a log, a message or a plain file."""
        found: list[str] = self.control("secrets", post=False)
        return found

    def expire(self) -> None:
        """End all access tokens."""
        self.control("expire")

    def revoke_all(self) -> None:
        """End all tokens, refresh tokens among them."""
        self.control("revoke-all")

    def forget_clients(self) -> None:
        """Forget all registrations."""
        self.control("forget-clients")

    def rotate_keys(self) -> None:
        """Exchange the signing keys (oidc-provider, token issuer)."""
        self.control("rotate-keys")

    def move(self, to: str | None = None) -> None:
        """Let the liar's metadata name this authorization server from now on, or the attacker."""
        self.control("move", **({"to": to} if to else {}))

    def tell(self, lie: str | None) -> None:
        """Let the liar tell another lie from now on, or the truth."""
        self.control("lie", **({"name": lie} if lie else {}))

    def tokens(self) -> dict[str, dict[str, Any]]:
        """The token issuer's tokens, new at each call: name -> `token`, the `verdict` that is due, and `why`."""
        found = self.control("tokens", post=False)
        return {entry["name"]: entry for entry in found}

    def fail(self, what: str, fault: str = "") -> None:
        """Let the token issuer serve `jwks`, `metadata` or `introspection` badly: `500`, `html`, `huge`, `slow`,
        `hang-up`; no fault: well again."""
        self.control(what, fault=fault)

    def client_key(self) -> dict[str, str]:
        """The private key of `KEY_CLIENT` as a JWK (oidc-provider)."""
        found: dict[str, str] = self.control("client-key", post=False)
        return found

    def stop(self) -> None:
        """End the process: the server is down from now on."""
        self.process.stop()


class OAuthRig:
    """What a test starts; all of it ends with the block."""

    def __init__(self, directory: Path) -> None:
        """The logs of the processes go to `directory`."""
        self._directory = directory
        self._stack = contextlib.ExitStack()
        self._started = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def oidc_provider(self, *options: str, trust: Part | None = None) -> Part:
        """The npm package oidc-provider (needs `make deps`). Options: `--path /tenant1`, `--ttl 5`, `--opaque`,
        `--no-dcr`, `--no-resource`, `--no-rotate`. `trust`: the client document that it may fetch."""
        env = {**os.environ, **NODE_ENV}
        if trust:
            env["NODE_EXTRA_CA_CERTS"] = str(trust.ca)
            options = (*options, "--cimd", trust.origin)
        return self._start([NODE, HERE / "oidc_provider.cjs", *options], env)

    def django_toolkit(self, *options: str) -> Part:
        """The Python package django-oauth-toolkit (needs `make deps`). Options: `--path /o`, `--ttl 5`, `--grace 10`,
        `--no-dcr`, `--no-iss`."""
        return self._start([PYTHON_DJANGO, HERE / "django_toolkit.py", *options], os.environ)

    def glewlwyd(self, *resources: str) -> Part:
        """Debian's Glewlwyd, which gives tokens for these resources; it has no control. Skips if it is absent."""
        if not glewlwyd.PROGRAM.exists():
            pytest.skip("there is no Glewlwyd here: Debian 12 has it, and `make deps` unpacks it")
        directory = self._directory / f"glewlwyd-{self._started}"
        return self._start(module("glewlwyd", str(directory), *resources), os.environ)

    def liar(self, lie: str | None = None, *options: str, behind: Part | None = None) -> Part:
        """A protected MCP server, with an authorization server of its own, or `behind` a real one.

        `lies.LIES` has the lies. Options: `--ttl 5`, `--challenge bare`, `--prm root`, `--no-iss`, `--no-dcr`,
        `--honest ISSUER`, ... as `liar.py --help` has it.
        """
        if lie:
            options = ("--lie", lie, *options)
        if behind:
            options = (*options, "--issuer", behind.issuer, "--introspect", INTROSPECTION_CLIENT)
            options += ("--introspect-url", introspection_endpoint(behind.issuer))
        return self._start(module("liar", *options), os.environ)

    def token_issuer(self, audience: str, *options: str) -> Part:
        """An issuer of tokens for this audience, bad ones nearly all. Options: `--other ISSUER`, `--scope mcp`."""
        return self._start(module("token_issuer", audience, *options), os.environ)

    def client_document(self, *options: str) -> Part:
        """A client's metadata document. Options: `--redirect URI ...`, `--lie other-id|not-json|redirect`."""
        directory = self._directory / f"client-document-{self._started}"
        return self._start(module("client_document", str(directory), *options), os.environ)

    def _start(self, argv: list[str | Path], env: Mapping[str, str]) -> Part:
        self._started += 1
        log = self._directory / f"oauth-{self._started}.log"
        env = {**env, "PYTHONDONTWRITEBYTECODE": ""}  # Django would be compiled at each start
        process = self._stack.enter_context(running(argv, log, env=env, cwd=ROOT))
        facts = json.loads(process.wait_for(r"^\{.*\}$", silence_s=PATIENCE_S)[0])
        return Part(process, facts, facts.get("ca"))


def module(name: str, *options: str) -> list[str | Path]:
    """The command of one of the rig's own servers."""
    return [sys.executable, "-m", f"tests.support.oauth.{name}", *options]


def introspection_endpoint(issuer: str) -> str:
    """Where oidc-provider or django-oauth-toolkit answers for opaque tokens."""
    return f"{issuer}/introspect/" if issuer.endswith("/o") else f"{issuer}/token/introspection"


def walk(url: str, until: str | None = None, *, user: str = "alice", refuse: bool = False) -> str:
    """Sign in at an authorization URL; returns the redirect to the redirect URI, to which it does not go.

    From trio: `await walked(url)`. Raises: sign_in.Stuck.
    """
    return Walker(user).walk(url, until or redirect_uri_of(url), refuse=refuse)


async def walked(url: str, until: str | None = None, *, user: str = "alice", refuse: bool = False) -> str:
    """The same in a thread, so that servers in this process can answer."""
    return await trio.to_thread.run_sync(lambda: walk(url, until, user=user, refuse=refuse))


def open_page(url: str, text: str) -> None:
    """Do what a person does who is shown a page of the hub's, in this text: type the code if there is one, and sign
    in."""
    code = "".join(f"?code={first}{last}" for first, last in re.findall(r"\b(\d{3}) (\d{3})\b", text))
    with urllib.request.urlopen(url + code, timeout=60) as answer:
        (link,) = re.findall(r'<a href="([^"]+)"', answer.read().decode())
    page = walk_to_the_end(html.unescape(link))
    assert "Signed in for notes" in page.text


def walk_to_the_end(url: str, until: str | None = None, *, user: str = "alice", refuse: bool = False) -> Answer:
    """Sign in and go to the redirect URI as a browser does; returns the page that is there, redirects followed."""
    walker = Walker(user)
    return walker.follow(walker.walk(url, until or redirect_uri_of(url), refuse=refuse))


async def walked_to_the_end(url: str, until: str | None = None, *, user: str = "alice", refuse: bool = False) -> Answer:
    """The same in a thread, so that servers in this process can answer."""
    return await trio.to_thread.run_sync(lambda: walk_to_the_end(url, until, user=user, refuse=refuse))
