"""A server at which everybody signs in: whose lists are seen, and whose sign-in calls go by."""

import html
import os
import re
import subprocess
import urllib.request

import pytest

from tests.support.attached import Post
from tests.support.oauth.rig import walk_to_the_end
from tests.support.processes import HUBD
from tests.support.signing_hub import Called, SigningHub, signing_hub, told

pytestmark = pytest.mark.skipif(os.getuid() in (0, 65534), reason="browsers of this user cannot be told from others")


OPEN = '[policy]\ndefault = "allow"'


def token_of(hub: SigningHub, name: str) -> str:
    """A token of a principal of its own."""
    done = subprocess.run(
        [HUBD, "token", "new", name, "--principal", name],
        env=hub.hub.env,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    (token,) = re.findall(r"hubd_[\w-]+", done.stdout)
    return token


def call(hub: SigningHub, token: str | None, tool: str) -> Called:
    """A call of a modern host of this principal; None: of the owner."""
    return told(Post(hub.hub, tool, {}, token=token or hub.hub.token).answer()[1])


def address(asked: Called) -> str:
    """The address of the page that a host was told of."""
    (url,) = re.findall(r"http://\S+/oauth/begin/[\w-]+", asked.text)
    return str(url)


def sign_in(asked: Called, user: str) -> None:
    """Open the page that a host was told of."""
    with urllib.request.urlopen(address(asked), timeout=60) as answer:
        (link,) = re.findall(r'<a href="([^"]+)"', answer.read().decode())
    assert "Signed in for notes" in walk_to_the_end(html.unescape(link), user=user).text


@pytest.mark.parametrize("across", [False, True], ids=["lists of the owner", "lists of whoever signed in"])
def test_everybody_acts_by_the_own_sign_in(oauth, tmp_path, across):
    notes = oauth.liar()
    settings = 'oauth.account = "each"' + "\nacross_principals = true" * across
    with signing_hub(tmp_path, {"notes": notes.url}, OPEN, notes=settings) as hub:
        hub.until_refused()
        bob, eve = token_of(hub, "bob"), token_of(hub, "eve")
        sign_in(call(hub, bob, "notes__sign_in"), "bob")
        if across:
            assert "List the tools again" in call(hub, bob, "notes__sign_in").text
            assert call(hub, bob, "notes__read").is_good
            assert hub.row().state == "connected"
        else:
            said = call(hub, bob, "notes__sign_in")
            assert said.is_error
            assert "this hub lists them as its owner, who has to sign in there, too" in said.text
            account = hub.row().account
            assert account is not None
            assert "Its lists are read as you, the owner" in account.note
            assert hub.sign_in().state == "signed_in"
            assert call(hub, bob, "notes__read").is_good
            assert call(hub, None, "notes__read").is_good
        for stranger in (eve, *((None,) if across else ())):
            refused = call(hub, stranger, "notes__read")
            assert refused.is_error
            assert "needs you to sign in" in refused.text
        sign_in(call(hub, eve, "notes__read"), "eve")
        assert call(hub, eve, "notes__read").is_good
    assert not notes.asked("EVIL")


@pytest.mark.covers("SEC-05", "SEC-61")
def test_two_tokens_are_two_people(oauth, tmp_path):
    """Each is asked at an address of its own, and no call of one goes by the sign-in of the other."""
    notes = oauth.liar(behind=oauth.oidc_provider("--ttl", "3600"))
    settings = 'oauth.account = "each"\nacross_principals = true'

    def called_as(*asking):
        before = len(notes.asked("mcp"))
        for token in asking:
            assert call(hub, token, "notes__read").is_good
        return [entry["sub"] for entry in notes.asked("mcp")[before:] if entry["method"] == "tools/call"]

    with signing_hub(tmp_path, {"notes": notes.url}, OPEN, notes=settings) as hub:
        hub.until_refused()
        bob, eve = token_of(hub, "bob"), token_of(hub, "eve")
        of_bob, of_eve = (call(hub, token, "notes__sign_in") for token in (bob, eve))
        address_of_bob, address_of_eve = (address(asked) for asked in (of_bob, of_eve))
        assert address_of_bob != address_of_eve
        sign_in(of_bob, "bob")
        refused = call(hub, eve, "notes__read")
        assert "needs you to sign in" in refused.text
        assert address(refused) == address_of_eve, "it is the own one that is still open"
        assert called_as(bob) == ["bob"]
        sign_in(of_eve, "eve")
        assert called_as(eve, bob, eve) == ["eve", "bob", "eve"]
    with signing_hub(tmp_path, {"notes": notes.url}, OPEN, notes=settings) as hub:
        assert called_as(bob, eve) == ["bob", "eve"]
        assert call(hub, None, "notes__read").is_error, "the owner has signed in nowhere"
