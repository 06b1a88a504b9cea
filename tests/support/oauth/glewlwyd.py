"""Glewlwyd: an authorization server in C, of Debian's, unpacked and not installed. User alice, password secret.

    python -m tests.support.oauth.glewlwyd DIRECTORY [RESOURCE ...]

Issuer: http://127.0.0.1:PORT/api/oidc. Metadata only at ISSUER/.well-known/openid-configuration, the path before it; no
public clients (`none` can be registered, and is then refused at the token endpoint); a registration is answered by 200;
`iss` is sent and not promised; `bearer` in lower case; redirect URIs are compared as text; access tokens are for the
RESOURCEs. Its page wants JavaScript that is not fetched: `sign_in.Walker.glewlwyd_sign_in` uses its API.
"""

import argparse
import gzip
import http.cookiejar
import json
import os
import sqlite3
import subprocess
import threading
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tests.support.debian import libraries
from tests.support.oauth.pages import announce
from tests.support.processes import DEPS, free_port

ROOT = DEPS / "glewlwyd"
PROGRAM = ROOT / "usr" / "bin" / "glewlwyd"
SHARED = ROOT / "usr" / "share" / "doc" / "glewlwyd"
ATTEMPTS, PAUSE_S = 400, 0.05
SCOPES = ("mcp", "mcp:write", "offline_access")


class Api:
    """Its API, with the cookie of one user."""

    def __init__(self, origin: str) -> None:
        self._base = origin + "/api"
        cookies = urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar())
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), cookies)

    def call(self, method: str, path: str, body: object) -> int:
        kind = {"Content-Type": "application/json"}
        request = urllib.request.Request(self._base + path, json.dumps(body).encode(), kind, method=method)
        try:
            with self._opener.open(request, timeout=60) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            with error:
                return error.code


def configuration(directory: Path, port: int) -> str:
    """Debian's sample with our places and port."""
    with gzip.open(SHARED / "glewlwyd.conf.sample.gz", "rt") as sample:
        lines = sample.read().splitlines()
    own = {
        "port": f'port={port}\nbind_address="127.0.0.1"',
        "external_url": f'external_url="http://127.0.0.1:{port}"',
        "cookie_domain": 'cookie_domain="127.0.0.1"',
        "cookie_secure": "cookie_secure=0",
    }
    text = "\n".join(own.get(line.partition("=")[0], line) for line in lines) + "\n"
    for installed in ("/usr/share/glewlwyd", "/usr/lib/glewlwyd"):
        text = text.replace(installed, f"{ROOT}{installed}")
    return text.replace("/var/cache/glewlwyd/glewlwyd.db", str(directory / "glewlwyd.db"))


def provider(origin: str, resources: list[str]) -> dict[str, Any]:
    """The settings of its OpenID Connect plugin."""
    key = ec.generate_private_key(ec.SECP256R1())
    pem, plain = serialization.Encoding.PEM, serialization.NoEncryption()
    public = key.public_key().public_bytes(pem, serialization.PublicFormat.SubjectPublicKeyInfo)
    on = ("jwks-show", "refresh-token-rolling", "allow-non-oidc", "oauth-as-iss-id", "pkce-allowed", "pkce-required")
    on += tuple(f"auth-type-{name}-enabled" for name in ("code", "client", "refresh"))
    on += ("auth-type-code-revoke-replayed", "introspection-revocation-allowed", "register-client-allowed")
    on += ("introspection-revocation-allow-target-client", "register-client-management-allowed", "resource-allowed")
    off = tuple(f"auth-type-{name}-enabled" for name in ("token", "id-token", "none", "password", "device"))
    off += ("pkce-method-plain-allowed", "resource-scope-and-client-property", "resource-change-allowed")
    empty = ("pkce-scopes", "introspection-revocation-auth-scope", "register-client-auth-scope")
    empty += ("register-client-credentials-scope", "scope", "additional-parameters", "claims")
    return {
        **dict.fromkeys(on, True),
        **dict.fromkeys((*off, "request-parameter-allow"), False),
        **{name: [] for name in empty},
        **dict.fromkeys(("name-claim", "email-claim", "scope-claim"), "no"),
        "iss": f"{origin}/api/oidc",
        "jwt-type": "ecdsa",
        "jwt-key-size": "256",
        "key": key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain).decode(),
        "cert": public.decode(),
        "access-token-duration": 3600,
        "refresh-token-duration": 86400,
        "code-duration": 600,
        "subject-type": "public",
        "refresh-token-one-use": "always",
        "resource-scope": {"mcp": resources, "mcp:write": resources},
        "allowed-scope": ["openid"],
        "address-claim": {"type": "no"},
    }


def furnish(origin: str, resources: list[str]) -> None:
    """Wait until it listens, then give it scopes, a provider and a user."""
    admin = Api(origin)
    for _ in range(ATTEMPTS):
        try:
            if admin.call("POST", "/auth", {"username": "admin", "password": "password"}) == 200:
                break
        except OSError:
            threading.Event().wait(PAUSE_S)
    for name in SCOPES:
        scope = {"name": name, "display_name": name, "description": name, "password_required": True}
        admin.call("POST", "/scope", {**scope, "password_max_age": 0, "scheme": {}})
    plugin = {"module": "oidc", "name": "oidc", "display_name": "oidc", "parameters": provider(origin, resources)}
    assert admin.call("POST", "/mod/plugin", plugin) == 200
    alice = {"username": "alice", "name": "Alice", "email": "alice@example.test", "password": "secret"}
    admin.call("POST", "/user", {**alice, "enabled": True, "scope": ["g_profile", "openid", *SCOPES]})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path)
    parser.add_argument("resources", nargs="*", default=["http://127.0.0.1:8765/mcp"])
    args = parser.parse_args()
    directory: Path = args.directory
    directory.mkdir(parents=True, exist_ok=True)
    (ROOT / "usr" / "lib" / "glewlwyd" / "user_middleware").mkdir(exist_ok=True)
    port = free_port()
    (directory / "glewlwyd.conf").write_text(configuration(directory, port))
    with gzip.open(SHARED / "database" / "init.sqlite3.sql.gz", "rt") as tables:
        made = sqlite3.connect(directory / "glewlwyd.db")
        made.executescript(tables.read())
        made.close()
    env = {**os.environ, "LD_LIBRARY_PATH": libraries(ROOT)}
    argv = [str(PROGRAM), f"--config-file={directory / 'glewlwyd.conf'}"]
    with (directory / "glewlwyd.log").open("wb") as log:
        subprocess.Popen(argv, env=env, stdout=log, stderr=log)  # ends with the group of this process
    origin = f"http://127.0.0.1:{port}"
    furnish(origin, args.resources)
    announce(issuer=f"{origin}/api/oidc", control=origin)


if __name__ == "__main__":
    main()
