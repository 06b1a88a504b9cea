"""The banner: how hosts come in, by each kind of access."""

import json
import re

import pytest

from config.access_settings import AccessConfig, AccessIssuer, TrustedProxy
from config.settings import HubConfig
from hub.daemon.banner import announce

TEAM = AccessIssuer(name="team", issuer="https://id.example")
PARTNER = AccessIssuer(name="partner", issuer="https://other.example")
PROXIED = {"behind_tls_proxy": True, "allowed_hosts": ("hub.example",), "listen": "127.0.0.1:8765"}
HERE, FAR = "http://127.0.0.1:8765/mcp", "https://hub.example:8765/mcp"


class Listener:
    """A listener that stands still."""

    address = ("127.0.0.1", 8765)
    url = HERE


def entries(config, capsys):
    """What is printed: each entry by URL with the words before it, and whether it shows a token."""
    announce(Listener(), config, shown=True)
    printed = capsys.readouterr().out
    found = {}
    for title, entry in re.findall(r"^(A host [^\n]*):\n(\{.*?^\})", printed, re.M | re.S):
        (made,) = json.loads(entry)["mcpServers"].values()
        if "url" in made:
            found[made["url"]] = title, "headers" in made
    return found


@pytest.mark.parametrize(
    ("config", "with_token", "said"),
    [
        (HubConfig(), {HERE: True}, "TOKEN stands for"),
        (HubConfig(auth="none"), {HERE: False}, "that opens URLs"),
        (
            HubConfig(auth="oauth", access=AccessConfig(issuers=(TEAM, PARTNER))),
            {HERE: False},
            "hosts sign in at https://id.example or https://other.example",
        ),
        (
            HubConfig(auth="oauth", access=AccessConfig(issuers=(TEAM,)), **PROXIED),
            {FAR: False, HERE: True},
            "hosts sign in at https://id.example",
        ),
        (
            HubConfig(auth="proxy", access=AccessConfig(proxy=TrustedProxy(header="X-P", peer_uid=(0,))), **PROXIED),
            {FAR: False, HERE: True},
            "the proxy says who comes",
        ),
        (HubConfig(**PROXIED), {FAR: True, HERE: True}, "TOKEN stands for"),
    ],
)
def test_an_entry_shows_the_token_that_opens_the_hub(config, with_token, said, capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("HUBD_RUNTIME_DIR", str(tmp_path))
    found = entries(config, capsys)
    assert {url: shows for url, (_, shows) in found.items()} == with_token
    assert said in next(iter(found.values()))[0]
