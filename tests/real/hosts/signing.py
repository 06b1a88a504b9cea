"""A person at a host: what the hosts that sign in share. The browser is the test.

A host prints `OPEN URL` when its user is to go to a page, and reads the address that the browser is sent back to; at
the end it prints `RESULT` with the text of the tool's answer. Its plan is an argument, as JSON: `url`, `redirect` (its
redirect URI), `method` (how it says who it is), `client_id` (if it is known there already), `tool` and `arguments`.
"""

import json
import sys
from urllib.parse import parse_qs, urlsplit

import anyio
from mcp.shared.auth import OAuthClientInformationFull

PLAN = json.loads(sys.argv[1])


def metadata():
    """What the host registers with."""
    return {
        "client_name": "signing host",
        "redirect_uris": [PLAN["redirect"]],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": PLAN["method"],
        "application_type": "native",
    }


CLIENT = None
if "client_id" in PLAN:
    CLIENT = OAuthClientInformationFull(client_id=PLAN["client_id"], **metadata())


class Storage:
    """What the SDK keeps, for as long as the host runs."""

    def __init__(self):
        self.tokens = None
        self.client = CLIENT

    async def get_tokens(self):
        return self.tokens

    async def set_tokens(self, tokens):
        self.tokens = tokens

    async def get_client_info(self):
        return self.client

    async def set_client_info(self, client):
        self.client = client


async def open_page(url):
    print(f"OPEN {url}", flush=True)  # noqa: T201


async def sent_back():
    """The parameters of the address that the browser was sent back to."""
    line = await anyio.to_thread.run_sync(sys.stdin.readline)
    return {name: values[0] for name, values in parse_qs(urlsplit(line.strip()).query).items()}


def show(result):
    print(f"RESULT {result.content[0].text}", flush=True)  # noqa: T201
