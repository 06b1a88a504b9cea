"""Sign-in pages of a user's hub, opened by another user of the machine: only the hub's own user gets anywhere.

The hub runs as a user who is not root, for one of root's cannot tell whose a browser is; the other user is root.
"""

import html
import os
import re
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.real.test_as_a_user import AS_USER, USER, becomes_user
from tests.support.attached import Post
from tests.support.oauth.rig import walk
from tests.support.oauth.sign_in import Walker
from tests.support.processes import HUBD, Hub, own_directories, running
from tests.support.restarts import TICK
from tests.support.signing_hub import told

OPEN = """
import sys, urllib.request
request = urllib.request.Request(sys.argv[1], headers={"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"})
with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=60) as answer:
    print(answer.read().decode())
"""
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be two users")


@contextmanager
def hub_of_user(url):
    """The user's hub, with one server at which everybody signs in; two tokens, of bob and of eve."""
    with tempfile.TemporaryDirectory(prefix="hubd-user-") as name:  # tmp_path lies below a directory of root
        directory = Path(name)
        env = own_directories(directory)
        file = directory / "hubd.toml"
        notes = f'[upstreams.notes]\nurl = "{url}"\noauth.account = "each"\nacross_principals = true\n'
        file.write_text(f'[policy]\ndefault = "allow"\n{notes}')
        for path in (directory, *directory.rglob("*")):
            os.chown(path, int(USER), int(USER))
        serve = [*AS_USER, HUBD, "serve", "--config", file, "--listen", "127.0.0.1:0"]
        with running(serve, directory / "log", env=env, cwd=directory) as process:
            hub = Hub(process.wait_for(r"https?://[^\s\"]+/mcp")[0], None, env, file, process)
            yield hub, *(token_of(hub, person) for person in ("bob", "eve"))


def token_of(hub, name):
    argv = [*AS_USER, HUBD, "token", "new", name, "--principal", name]
    done = subprocess.run(argv, env=hub.env, capture_output=True, text=True, timeout=60, check=True)
    return re.findall(r"hubd_[\w-]+", done.stdout)[0]


def call(hub, token, tool):
    return told(Post(hub, tool, {}, token=token).answer()[1])


def address(hub, token):
    """The page that a host is told of, once the server has said that it wants a sign-in."""
    for _ in range(600):
        if found := re.findall(r"http://\S+/oauth/begin/[\w-]+", call(hub, token, "notes__sign_in").text):
            return found[0]
        TICK.wait(0.1)
    raise AssertionError("nobody is asked to sign in")


def opened_by_user(url):
    """What the user's own browser is shown."""
    argv = [*AS_USER, sys.executable, "-c", OPEN, url]
    return subprocess.run(argv, capture_output=True, text=True, timeout=90, check=True).stdout


@pytest.mark.covers("SEC-05")
def test_only_the_user_of_the_hub_opens_and_ends_a_sign_in(oauth):
    if not becomes_user():
        pytest.skip("this root may not run programs as somebody else")
    notes = oauth.liar()
    with hub_of_user(notes.url) as (hub, bob, eve):
        page = address(hub, bob)
        assert address(hub, eve) != page
        other = Walker()
        refused = other.fetch(page)
        assert refused.status == 403
        assert "href" not in refused.text
        assert not notes.asked("authorization")
        (link,) = re.findall(r'<a href="([^"]+)"', opened_by_user(page))
        back = walk(html.unescape(link))
        assert other.fetch(back).status == 403
        assert not notes.asked("token"), "the code is still unused"
        assert "Signed in for notes" in opened_by_user(back)
        assert call(hub, bob, "notes__read").is_good
        assert "needs you to sign in" in call(hub, eve, "notes__read").text
