"""The hub as the client that the suite's `auth/` scenarios judge: auth_client.py URL.

It puts a hub in front of the suite's server and is a host of that hub, which lists tools and calls the first. Where the
answer says that a sign-in is needed, it signs in by `hubd auth` as on a machine without a browser: it goes to the URL
that the command prints, at which the suite's server sends it back with a code at once, and tells the command where to.
Then it calls again, at most three times.
"""

import json
import os
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.conformance.client import Host, sample
from tests.support.processes import HUBD, free_port, running_hub

NAME = "suite"
SIGN_INS = 3
LIMIT_S = 60
DOCUMENT = "https://conformance-test.local/client-metadata.json"
"""The client document that the suite expects; nothing is there."""


class _Stay(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        return None


def redirect_of(url: str) -> str:
    """Where the server at this URL sends a browser. Raises: AssertionError if it does not."""
    try:
        with urllib.request.build_opener(_Stay()).open(url, timeout=LIMIT_S) as answer:
            status, location = answer.status, None
    except urllib.error.HTTPError as error:
        with error:
            status, location = error.code, error.headers["Location"]
    assert location, f"{status} instead of a redirect"
    return location


def sign_in(argv: Sequence[str | Path], env: Mapping[str, str]) -> bool:
    """Run `hubd auth ... --json` and be the person at it; returns whether somebody is signed in then.

    The command prints `{"url": ...}` on a line, or the outcome at once; it reads the address of the page that a browser
    would have come to, prints the outcome, and ends with 0 if that is good.
    """
    said = [str(part) for part in argv]
    with subprocess.Popen(said, env=dict(env), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as command:
        assert command.stdin is not None
        assert command.stdout is not None
        first = command.stdout.readline()
        sys.stderr.write(f"hubd auth: {first}")
        if url := json.loads(first or "{}").get("url"):
            command.stdin.write(redirect_of(url) + "\n")
            command.stdin.flush()
            sys.stderr.write(f"hubd auth: {command.stdout.readline()}")
        return command.wait(LIMIT_S) == 0


def wants_sign_in(answer: dict[str, Any]) -> bool:
    """Whether the answer of a call tells the user to sign in."""
    return f"hubd auth {NAME}" in json.dumps(answer)


def act(host: Host, argv: Sequence[str | Path], env: Mapping[str, str]) -> None:
    """List, call the first tool, and sign in where that is needed."""
    for attempt in range(SIGN_INS + 1):
        tools = host.ask("tools/list").get("tools", [])
        answer = host.call(tools[0]["name"], sample(tools[0]["inputSchema"])) if tools else {}
        sys.stderr.write(f"call {attempt + 1}: {json.dumps(answer)[:400]}\n")
        if tools and not wants_sign_in(answer):
            return
        if attempt == SIGN_INS or not sign_in(argv, env):
            return


def issuer_of(url: str) -> str:
    """The authorization server that the metadata of the suite's server names; a person would know it."""
    parts = urlsplit(url)
    place = f"{parts.scheme}://{parts.netloc}/.well-known/oauth-protected-resource"
    for at in (place + parts.path, place):
        try:
            with urllib.request.urlopen(at, timeout=LIMIT_S) as answer:
                return str(json.load(answer)["authorization_servers"][0])
        except urllib.error.HTTPError as error:
            error.close()
    raise AssertionError(f"{url} has no metadata")


def settings(scenario: str, url: str, context: Mapping[str, str]) -> str:
    """The text of hubd.toml. `context`: what the suite has registered in advance."""
    above: list[str] = []
    oauth: dict[str, str] = {}
    if scenario == "auth/basic-cimd":
        redirect = f"http://127.0.0.1:{free_port()}/oauth/callback"  # a document names one, with a port of its own
        above = ["[oauth]", f"client_metadata_url = {json.dumps(DOCUMENT)}", f"redirect_uri = {json.dumps(redirect)}"]
    if "client_id" in context:
        oauth = {"client_id": context["client_id"], "issuer": issuer_of(url)}
    if "client_secret" in context:
        oauth["client_secret"] = context["client_secret"]
    if "private_key_pem" in context:
        oauth["private_key"] = context["private_key_pem"]
        oauth["signing_alg"] = context.get("signing_algorithm", "ES256")
    if scenario.startswith("auth/client-credentials-"):
        oauth["grant"] = "client_credentials"
    if "idp_issuer" in context:
        # The suite's identity provider has nowhere to sign in; it gives an ID token, which is configured.
        oauth["grant"] = "id_jag"
        names = {"idp_issuer": "issuer", "idp_client_id": "client_id", "idp_id_token": "id_token"}
        above += ["[oauth.idp]", *(f"{name} = {json.dumps(context[key])}" for key, name in names.items())]
    own = [f"[upstreams.{NAME}]", f"url = {json.dumps(url)}", 'prefix = ""']
    below = [f"{name} = {json.dumps(value)}" for name, value in oauth.items()]
    return "\n".join([*above, *own, *([f"[upstreams.{NAME}.oauth]", *below] if below else []), ""])


def main() -> None:
    context = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT", "{}"))
    text = settings(os.environ["MCP_CONFORMANCE_SCENARIO"], sys.argv[-1], context)
    with tempfile.TemporaryDirectory(prefix="hubd-auth-") as scratch:
        with running_hub(Path(scratch), text, auth="none", forked=False) as hub:
            act(Host(hub.url), [HUBD, "auth", NAME, "--no-browser", "--json", "--yes"], hub.env)
        sys.stderr.write(hub.process.tail())


if __name__ == "__main__":
    main()
