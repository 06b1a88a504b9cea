"""A person signs in with a real browser: by the three commands, and by the page to which a host sends its user."""

import os
import re
import stat
import subprocess
from pathlib import Path

import pytest

from hub.sign_in.connection_owner import ConnectionOwners
from tests.support.oauth.browser import browser_sign_in
from tests.support.processes import HUBD, free_port, own_directories, running
from tests.support.signing_hub import signing_hub

IS_BLIND = ConnectionOwners().blind
"""Nobody can tell the browsers of such a user from those of others."""
BROWSER = """#!/bin/sh
echo "$1" >{fifo}
"""

pytestmark = pytest.mark.usefixtures("browser")


@pytest.mark.skipif(IS_BLIND, reason="`hubd auth` opens no browser then")
def test_added_and_used_in_three_commands(oauth, tmp_path):
    """`hubd auth` opens the browser, which goes through the server's forms and comes back to the hub."""
    notes = oauth.liar(behind=oauth.django_toolkit())
    fifo, program = tmp_path / "opened", tmp_path / "open-it"
    os.mkfifo(fifo)
    program.write_text(BROWSER.format(fifo=fifo))
    program.chmod(stat.S_IRWXU)
    env = {name: value for name, value in own_directories(tmp_path).items() if not name.startswith("SSH_")}
    env |= {"BROWSER": program.name, "DISPLAY": ":0", "PATH": f"{tmp_path}:{env['PATH']}"}
    config = Path(env["XDG_CONFIG_HOME"], "hubd", "hubd.toml")
    config.parent.mkdir()
    config.write_text(f'listen = "127.0.0.1:{free_port()}"\n')
    serve = [HUBD, "serve"]

    def command(*args: str) -> str:
        done = subprocess.run([HUBD, *args], env=env, capture_output=True, text=True, timeout=120)
        return done.stdout + done.stderr

    with running(serve, tmp_path / "hubd.log", env=env, cwd=tmp_path) as hub:
        hub.wait_for("/mcp")
        assert "sign in: hubd auth notes" in command("add", "notes", "--url", notes.url)
        assert "sign-in needed" in command("status")
        argv = [HUBD, "auth", "notes"]
        signing_in = subprocess.Popen(
            argv, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        trip = browser_sign_in(fifo.read_text().strip(), follow=True)
        assert "Signed in for notes" in trip.text
        assert "code=" in trip.redirect
        assert "code=" not in trip.url, "neither the address bar nor the history has it"
        said, _ = signing_in.communicate(timeout=120)
        assert signing_in.returncode == 0, said
        assert "Connected, 2 tools" in said
        assert "read: done" in command("call", "notes__read")
    with running(serve, tmp_path / "hubd.log", env=env, cwd=tmp_path) as hub:
        hub.wait_for("/mcp")
        assert "read: done" in command("call", "notes__read"), "no second sign-in"


def test_the_page_that_a_host_shows(oauth, tmp_path):
    notes = oauth.liar(behind=oauth.oidc_provider())
    with signing_hub(tmp_path, {"notes": notes.url}) as hub:
        hub.until_refused()
        text = hub.call("notes__sign_in").text
        (url,) = re.findall(r"http://\S+/oauth/begin/[\w-]+", text)
        code = re.search(r"type the code (\d{3} \d{3}) there", text)
        assert (code is not None) == IS_BLIND
        trip = browser_sign_in(url, code=code[1] if code else "", follow=True)
        assert "Signed in for notes" in trip.text
        assert hub.call().is_good
