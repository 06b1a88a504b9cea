"""Browser: Debian's chromium, headless, as the one who signs in. `make deps` unpacks it and installs nothing.

A trip takes about three seconds; `rig.walk` does the same by forms in a tenth, and is enough unless a browser's own
headers, cookies or redirects are what a test is about.
"""

import json
import os
import subprocess
from pathlib import Path
from typing import NamedTuple

import trio

from tests.support import debian
from tests.support.oauth.sign_in import Stuck
from tests.support.processes import DEPS, NODE, NODE_ENV

UNPACKED = DEPS / "browser"
SCRIPT = Path(__file__).with_name("browser.cjs")
LIMIT_S = 120


class Trip(NamedTuple):
    """A sign-in that came to the redirect URI."""

    redirect: str
    """The redirect, with its query."""
    url: str
    """The page at the end."""
    text: str
    """What is to be read there."""


def chromium() -> debian.Program | None:
    """The unpacked program, or else the installed one; None: there is none."""
    unpacked = UNPACKED / "usr" / "lib" / "chromium" / "chromium"
    if not unpacked.exists():
        return debian.find("chromium")
    private = UNPACKED.glob("usr/lib/*/pulseaudio")  # its library names this folder where it would be installed
    env = {**os.environ, "LD_LIBRARY_PATH": ":".join([*map(str, private), debian.libraries(UNPACKED)])}
    fonts = UNPACKED / "etc" / "fonts"
    return debian.Program(unpacked, env | ({"FONTCONFIG_PATH": str(fonts)} if fonts.is_dir() else {}))


def browser_sign_in(url: str, *, user: str = "alice", code: str = "", follow: bool = False) -> Trip:
    """Sign in at an authorization URL, or behind a page with a link to one, which may ask for a code before.

    Stops before the redirect URI, or with `follow` goes there. From trio: `await browser_signed_in(url)`.
    Raises: AssertionError if there is no chromium; Stuck.
    """
    program = chromium()
    assert program is not None, "there is no chromium: make deps"
    argv = [str(NODE), str(SCRIPT), url, "--chromium", str(program.path), "--user", user, "--code", code]
    argv += ["--follow"] if follow else []
    env = {**program.env, **NODE_ENV}
    done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    if done.returncode:
        raise Stuck(done.stderr)
    return Trip(**json.loads(done.stdout))


async def browser_signed_in(url: str, *, user: str = "alice", follow: bool = False) -> Trip:
    """The same in a thread, so that servers in this process can answer."""
    return await trio.to_thread.run_sync(lambda: browser_sign_in(url, user=user, follow=follow))
