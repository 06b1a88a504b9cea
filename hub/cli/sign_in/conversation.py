"""One sign-in, as the person at the terminal goes through it: what to open, and the wait for the browser to come back.

The hub does all of it; here it is said, a browser of this machine is opened, if there is one for this terminal, and an
address that is pasted is handed to the hub.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from math import inf
from typing import Final

from msgspec import Struct

from hub.cli.context import Output, agreed, client
from hub.cli.keyboard import single_characters
from hub.cli.render.words import duration
from hub.control.client import ControlClient
from hub.control.client_errors import ControlFailed
from hub.control.interruptible_wait import now_s, readable
from hub.control.methods import SIGN_IN, SIGN_IN_FINISH
from hub.control.sign_in_messages import SignInOutcome, SignInStep
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


PATIENCE_S: Final = 60.0
"""Seconds after the end of a sign-in that the hub may take to say so."""
WHO: Final = "the identity provider"
PASTE: Final = "paste the address of the page that does not load, here and nowhere else:"
MAX_LINE_BYTES: Final = 32 << 10
"""Longer ones are not read: no hub takes such an address."""
ERASE: Final = b"\x7f\x08"
END: Final = b"\x04"
"""The byte that a terminal sends for Ctrl-D."""
PIECE_BYTES: Final = 4096


class Wishes(Struct, frozen=True, kw_only=True):
    """The wishes of the person for a sign-in."""

    name: str = ""
    """"": at the identity provider."""
    scope: str = ""
    reset: bool = False
    yes: bool = False
    why_not: str = ""
    """The reason why no browser is opened; "": one is, if there is one for this terminal."""
    within_s: float = inf
    """Time to wait for the end, beside what the hub waits; 0: the address alone is wanted."""

    def request(self, hub: ControlClient, *, yes: bool) -> SignInStep:
        """Ask the hub to begin; its first step."""
        idp = not self.name
        return hub.request(SIGN_IN, name=self.name, idp=idp, scope=self.scope, reset=self.reset, yes=yes)


class TokenWanted(ControlFailed):
    """There is no sign-in: the server wants a token, which a person has to have from elsewhere."""


@contextmanager
def input_lines() -> Iterator["PastedLines"]:
    """Lines of standard input. A terminal hands over single characters meanwhile: it keeps only 4 KiB of a line."""
    try:
        descriptor = None if sys.stdin is None else sys.stdin.fileno()
    except (OSError, ValueError):  # it has no descriptor
        descriptor = None
    if descriptor is None or not os.isatty(descriptor):
        yield PastedLines(descriptor, is_typed=False)
        return
    with single_characters(descriptor, shown=True):
        yield PastedLines(descriptor, is_typed=True)


class PastedLines:
    """Lines of standard input, read when it is readable."""

    def __init__(self, descriptor: int | None, *, is_typed: bool) -> None:
        """`is_typed`: single characters come, also those that erase others."""
        self.descriptor = descriptor
        """To be waited for; None: nothing more comes."""
        self._is_typed = is_typed
        self._received = bytearray()

    def lines(self) -> list[str]:
        """The lines that are complete now, without empty ones; to be called when `descriptor` is readable. Of one that
        is too long only the beginning is kept, which nobody takes for an address."""
        assert self.descriptor is not None, "nothing more comes"
        try:
            data = os.read(self.descriptor, PIECE_BYTES)
        except OSError:
            data = b""
        if not data or (self._is_typed and data == END):
            self.descriptor = None
            data = b"\n"
        found: list[str] = []
        for piece in data.splitlines(keepends=True):
            self._take(piece)
            if piece.endswith((b"\n", b"\r")):
                found.append(self._received.decode(errors="replace").strip())
                self._received.clear()
        return [line for line in found if line]

    def _take(self, piece: bytes) -> None:
        if not self._is_typed:
            self._received += piece[: MAX_LINE_BYTES - len(self._received)]
            return
        for key in piece:
            if key in ERASE:
                del self._received[-1:]
            elif len(self._received) < MAX_LINE_BYTES:
                self._received.append(key)


def converse(
    hub: ControlClient, wishes: Wishes, output: Output, environ: Mapping[str, str] = os.environ
) -> SignInOutcome:
    """Carry out one sign-in. `hub`: a connection for this alone. Raises TokenWanted: there is no sign-in;
    ControlFailed: nobody agreed to what is unusual about it, or the hub says why it cannot begin; HubNotRunning,
    NotUnderstood: as `ControlClient`; KeyboardInterrupt: the sign-in stands as it is, and its page still works."""
    step = _begin(hub, wishes, output)
    at = f" ({step.server_url})" if step.server_url else ""
    output.say(f"{wishes.name or WHO}{at} asks you to sign in at {step.issuer}")
    if step.scope:
        output.say(f"scopes: {step.scope}")
    unknown = "" if step.url else "the hub cannot tell whose browser it is"
    why_not = wishes.why_not or why_elsewhere(environ) or unknown
    if not why_not and (failed := open_browser(step.url, environ)):
        why_not = f"the browser cannot be opened: {failed}"
    url = step.authorization_url if why_not else step.url
    code = {"code": step.code} if step.code else {}
    output.line(url=url, expires_s=step.expires_s, opened=not why_not, **code)
    if not wishes.within_s:
        _say_address(step, why_not, output)
        return _still_open(wishes, step)
    patience = duration(min(wishes.within_s, step.expires_s))
    with input_lines() as pasted:
        if why_not:
            _say_elsewhere(step, why_not, patience, output, environ)
        else:
            output.say("Opened in your browser. If nothing happens, open")
            output.say(f"  {url}")
            _say_code(step, output)
            output.say(f"Waiting {patience}. On another machine: {PASTE}")
        return _wait(hub, wishes, step, pasted, output)


def _begin(hub: ControlClient, wishes: Wishes, output: Output) -> SignInStep:
    """The first step. A person is asked, if that is necessary."""
    step = wishes.request(hub, yes=wishes.yes)
    if step.wants_token:
        raise TokenWanted(step.wants_token)
    if not step.unusual:
        return step
    about, _, advice = step.unusual.partition(" If you ")
    if wishes.yes:  # it was agreed to, and something else is unusual by now
        raise ControlFailed(step.unusual)
    if not output.is_attended():
        without = f"{step.unusual} There is no terminal here; with --yes nothing is asked."
        raise ControlFailed(without if advice else about)
    output.say(about)
    if not agreed("Sign in there?", default=False):
        raise ControlFailed("nothing was changed")
    step = wishes.request(hub, yes=True)
    if step.unusual:
        raise ControlFailed(step.unusual)
    return step


def _say_address(step: SignInStep, why: str, output: Output) -> None:
    output.say(f"Open this address in a browser ({why}):")
    output.say(f"  {step.authorization_url}")
    _say_code(step, output)


def _say_code(step: SignInStep, output: Output) -> None:
    if step.code:
        output.say(f"If its page asks for a code: {step.code}")


def _say_elsewhere(step: SignInStep, why: str, patience: str, output: Output, environ: Mapping[str, str]) -> None:
    _say_address(step, why, output)
    if step.port and not step.code:  # with a code, what comes back is not taken from a program
        output.say("If that browser is on another machine, let it come back to this one first, by")
        output.say(f"  {forwarding(step.port, environ)}")
        output.say(f"or {PASTE}")
    elif not step.code:
        output.say(f"If its last page does not load, {PASTE}")
    output.say(f"Waiting {patience}.")


def _still_open(wishes: Wishes, step: SignInStep) -> SignInOutcome:
    """The outcome as far as this command waits for it."""
    text = "nobody has signed in yet" if wishes.within_s else "the sign-in is open"
    text += f"; the address works for {duration(step.expires_s - wishes.within_s)}, and `hubd auth --status` shows it"
    return SignInOutcome(upstream=wishes.name, state="open", text=text, issuer=step.issuer, scope=step.scope)


def forwarding(port: int, environ: Mapping[str, str]) -> str:
    """The command by which the person's own machine hands connections to this port on to this one."""
    parts = environ.get("SSH_CONNECTION", "").split()
    user = environ.get("USER") or environ.get("LOGNAME") or "USER"
    host, at = (parts[2], parts[3]) if len(parts) == 4 else ("THIS-MACHINE", "22")
    other = "" if at == "22" else f" -p {at}"
    return f"ssh -L {port}:127.0.0.1:{port}{other} {user}@{host}"


def _wait(hub: ControlClient, wishes: Wishes, step: SignInStep, pasted: PastedLines, output: Output) -> SignInOutcome:
    """The outcome: of the browser that came back, or of an address that was pasted. Raises HubNotRunning: the hub has
    stopped."""
    began = now_s()
    until = began + step.expires_s + PATIENCE_S
    while True:
        left_s = min(until, began + wishes.within_s) - now_s()
        if left_s <= 0 and began + wishes.within_s < until:
            return _still_open(wishes, step)
        if left_s <= 0:
            raise ControlFailed("the hub does not say how the sign-in ended; `hubd auth --status` shows what there is")
        watched: list[int] = [hub.fileno(), *([] if pasted.descriptor is None else [pasted.descriptor])]
        ready = [hub.fileno()] if hub.has_more else readable(watched, left_s)
        if hub.fileno() in ready:
            outcome = hub.further(SIGN_IN).outcome
            if isinstance(outcome, SignInOutcome):
                return outcome
        elif ready:
            for line in pasted.lines():
                if (found := hand_over(line, output, wishes.name)) is not None:
                    return found


def hand_over(address: str, output: Output, name: str | None = None) -> SignInOutcome | None:
    """Hand an address that was pasted to the hub; the outcome, or None: the hub did not take it, or it was for another
    server than `name`, which is said."""
    try:
        with client() as other:
            outcome = other.request(SIGN_IN_FINISH, address=address)
    except ControlFailed as refusal:
        output.warn(str(refusal))
        return None
    if name is not None and outcome.upstream != name:
        output.note(f"that was for {outcome.upstream or WHO}: {outcome.text}")
        return None
    return outcome


def how_long(outcome: SignInOutcome, now: datetime) -> str:
    """`signed in until 18:02, then renewed without you`."""
    if outcome.until is None:
        return "signed in" + (", and renewed without you" if outcome.renewable else "")
    at = datetime.fromtimestamp(outcome.until).astimezone()
    shown = at.strftime("%H:%M" if at.date() == now.astimezone().date() else "%Y-%m-%d %H:%M")
    then = "renewed without you" if outcome.renewable else "you sign in again"
    return f"signed in until {shown}, then {then}"
