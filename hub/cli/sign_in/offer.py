"""The offer of a sign-in by a command that has met a server which wants one."""

from collections.abc import Collection

from hub.cli.server_watch import ServerOutcome
from hub.cli.sign_in.commands import sign_in, why_no_browser
from hub.cli.sign_in.conversation import Wishes
from hub.cli.subcommand import Output, agreed
from hub.wire.printable import printable


def offered(found: "Collection[ServerOutcome]", output: Output) -> int | None:
    """Ask whoever sits at the terminal to sign in at the one server that wants it; the exit code of that. None: nobody
    was asked, or wants to.

    Raises:
        HubNotRunning, ControlFailed, NotUnderstood: as `conversation.sign_in`.
    """
    wanting = [each for each in found if each.sign_in]
    if len(wanting) != 1 or not output.is_attended():
        return None
    name = wanting[0].name
    output.say(printable(f"{name} wants you to sign in."))
    if not agreed("Sign in now?", default=True):
        return None

    return sign_in(Wishes(name, why_not=why_no_browser()), output)
