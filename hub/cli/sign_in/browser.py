"""The browser of this machine: whether there is one for this terminal, and opening an address in it."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from typing import Final

from hub.wire.questions.page_urls import is_openable

AT_ONCE_S: Final = 0.7
"""A program that opens browsers and fails does so within this time."""
OPENERS: Final = {"darwin": ("open",), "linux": ("xdg-open", "wslview")}

ONE_WORD: Final = re.compile(r"[A-Za-z0-9_./+][A-Za-z0-9_./+-]*")


def why_elsewhere(environ: Mapping[str, str], platform: str = sys.platform) -> str:
    """The reason why no browser of this machine is in front of the person at this terminal; "": one may be."""
    if environ.get("SSH_CONNECTION"):
        return "this terminal is reached by SSH"
    if platform != "darwin" and not (environ.get("DISPLAY") or environ.get("WAYLAND_DISPLAY")):
        return "there is no desktop here"
    if opener(environ, platform) is None:
        return "no program that opens browsers is found (xdg-open, or $BROWSER)"
    return ""


def opener(environ: Mapping[str, str], platform: str = sys.platform) -> str | None:
    """The program that opens an address in a browser; None: there is none. $BROWSER counts if it is one word."""
    path = environ.get("PATH", os.defpath)
    wanted = environ.get("BROWSER", "")
    known = OPENERS.get(platform, ())
    candidates = (wanted, *known) if ONE_WORD.fullmatch(wanted) else known
    return next((found for name in candidates if (found := shutil.which(name, path=path))), None)


def open_browser(url: str, environ: Mapping[str, str]) -> str:
    """Open an address in the browser, in a session of its own; why that failed, or ""."""
    program = opener(environ)
    if program is None or not is_openable(url):
        return "there is none to open" if program is None else "it is no address for a browser"
    try:
        process = subprocess.Popen(
            [program, url],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=dict(environ),
            start_new_session=True,
        )
    except OSError as error:
        return f"{program}: {error.strerror}"
    try:
        code = process.wait(AT_ONCE_S)
    except subprocess.TimeoutExpired:  # a browser in the foreground
        return ""
    return f"{os.path.basename(program)} ended with {code}" if code else ""
