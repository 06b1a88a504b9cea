"""Two people at one hub, and a server at which everybody signs in: neither gets at the other's sign-in.

A relay names them, which here is the test: it shows the relay's secret with each request.
"""

import html
import http.client
import json
import re
import threading
from contextlib import closing, contextmanager
from typing import NamedTuple

import pytest

from hub.wire.mcp import CLIENT_CAPABILITIES_KEY, MODERN, VERSION_KEY
from tests.support.oauth.rig import walk
from tests.support.processes import free_port, running_hub
from tests.support.signing_hub import told

SECRET = "s3cret-of-the-relay-0123456789"
NAME = "hub.example"
"""Under which people reach the hub, through the relay."""
COOKIE = "__Host-hubd-signin"
BROWSER = {"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document", "Sec-Fetch-Site": "none"}


class Page(NamedTuple):
    """What a browser is answered."""

    status: int
    text: str
    cookie: str
    location: str


class Person:
    """A person with a host and a browser, both behind the relay; `name` "": the relay names nobody."""

    def __init__(self, hub, name):
        self.name, self._hub = name, hub

    def _ask(self, method, path, body=None, **headers):
        fields = {"Host": NAME, "X-Hubd-Proxy-Secret": SECRET, **headers}
        if self.name:
            fields["X-Person"] = self.name
        address = self._hub.url.split("/")[2]
        with closing(http.client.HTTPConnection(address, timeout=60)) as connection:
            connection.request(method, path, body, fields)
            answer = connection.getresponse()
            return answer, answer.read().decode()

    def call(self, tool):
        """A call of a modern host."""
        meta = {VERSION_KEY: MODERN, CLIENT_CAPABILITIES_KEY: {}}
        params = {"name": tool, "arguments": {}, "_meta": meta}
        _, text = self._ask(
            "POST",
            "/mcp",
            json.dumps({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params}),
            **{
                "Content-Type": "application/json",
                "Accept": "application/json, text/event-stream",
                "MCP-Protocol-Version": MODERN,
                "Mcp-Method": "tools/call",
                "Mcp-Name": tool,
            },
        )
        events = [line for line in text.splitlines() if line.startswith("data:")]
        return told(json.loads(events[-1].removeprefix("data:") if events else text))

    def opens(self, path, *cookies):
        """The browser goes to an address of the hub."""
        shown = {"Cookie": "; ".join(cookies)} if cookies else {}
        answer, text = self._ask("GET", path, **BROWSER, **shown)
        cookie = answer.headers.get("Set-Cookie", "").partition(";")[0]
        return Page(answer.status, text, cookie, answer.headers.get("Location", ""))

    def is_asked(self):
        """The path of the page that the host is told of."""
        (path,) = re.findall(rf"https://{NAME}(/oauth/begin/[\w-]+)", self.call("notes__sign_in").text)
        return path

    def agrees(self, page):
        """Sign in with the link of a page, as the same name; the path to which the browser is sent back."""
        (link,) = re.findall(r'<a href="([^"]+)"', page.text)
        return walk(html.unescape(link), user=self.name).removeprefix(f"https://{NAME}")

    def signs_in(self):
        page = self.opens(self.is_asked())
        assert page.status == 200, page.text
        assert self.opens(self.agrees(page), page.cookie).status == 303


class Team:
    """The hub, its people, and the server that tells whose token it was shown."""

    def __init__(self, hub, notes):
        self._notes = notes
        self.alice, self.bob, self.nobody = (Person(hub, name) for name in ("alice", "bob", ""))

    def called_as(self, *work):
        """The people as whom the server was called by this work, done at once."""
        before = len(self._notes.asked("mcp"))
        threads = [threading.Thread(target=each) for each in work]
        for each in threads:
            each.start()
        for each in threads:
            each.join(90)
        return [entry["sub"] for entry in self._notes.asked("mcp")[before:] if entry["method"] == "tools/call"]


@contextmanager
def team(notes, directory):
    config = (
        f'auth = "proxy"\nbehind_tls_proxy = true\nallowed_hosts = ["{NAME}:443"]\n'
        f'[access.proxy]\nheader = "X-Person"\nsecret = "{SECRET}"\n[policy]\ndefault = "allow"\n'
        f'[upstreams.notes]\nurl = "{notes.url}"\noauth.account = "each"\nacross_principals = true\n'
    )
    with running_hub(directory, config, auth="proxy", listen=f"127.0.0.1:{free_port()}") as hub:
        yield Team(hub, notes)


@pytest.fixture
def notes(oauth):
    return oauth.liar(behind=oauth.oidc_provider("--ttl", "3600"))


@pytest.mark.covers("SEC-05", "SEC-61")
def test_nobody_opens_finishes_or_uses_the_sign_in_of_another(notes, tmp_path):
    with team(notes, tmp_path) as people:
        alice, bob, nobody = people.alice, people.bob, people.nobody
        path = alice.is_asked()
        assert bob.is_asked() != path
        for stranger in (bob, nobody):
            refused = stranger.opens(path)
            assert refused.status in (401, 403)
            assert "href" not in refused.text
            assert not refused.cookie
        page = alice.opens(path)
        assert page.cookie.startswith(COOKIE)
        back = alice.agrees(page)
        for stranger in (bob, nobody):
            for cookies in ((), (page.cookie,)):
                assert stranger.opens(back, *cookies).status in (401, 403)
        assert alice.opens(back).status == 403, "not the browser that began it"
        assert alice.is_asked() == path, "nothing has come of it yet"

        done = alice.opens(back, page.cookie)
        assert done.status == 303
        assert "Signed in for notes" in alice.opens(done.location).text
        assert alice.call("notes__read").is_good
        assert bob.opens(path).status in (403, 404), "it is over"
        refused = bob.call("notes__read")
        assert refused.is_error
        assert "needs you to sign in" in refused.text
        assert "alice" not in refused.text

        bob.signs_in()
        assert people.called_as(lambda: bob.call("notes__read")) == ["bob"]
        assert people.called_as(lambda: alice.call("notes__read")) == ["alice"]
        work = [lambda person=person: person.call("notes__read") for person in (alice, bob) * 10]
        assert sorted(people.called_as(*work)) == ["alice"] * 10 + ["bob"] * 10
    with team(notes, tmp_path) as people:  # and the next hub keeps them apart
        assert people.called_as(lambda: people.bob.call("notes__read")) == ["bob"]
        assert people.called_as(lambda: people.alice.call("notes__read")) == ["alice"]
        assert people.nobody.call("notes__read").is_error
