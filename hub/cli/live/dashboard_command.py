"""`hubd dashboard`: open the hub in a browser of this machine, or print what opens it elsewhere."""

import os
from typing import Any, Final

from hub.cli.context import Context, Output, ask_hub
from hub.cli.parser import add
from hub.cli.render.words import duration
from hub.cli.sign_in.conversation import open_browser, why_elsewhere
from hub.control.answers import DashboardTicket
from hub.control.methods import END_PAGES, TICKET

_OPENED: Final = """\
  url        what was opened, without its ticket; or with --print what opens the dashboard once
  opened     whether a browser was opened
  expires_s  how long the ticket is good
  session_s  how long the page is signed in then"""


def add_commands(commands: Any) -> None:
    """`dashboard`."""
    dashboard = add(commands, "dashboard", _dashboard, json=_OPENED)
    dashboard.add_flag("--print", "print its address, ticket included, and open nothing: for a browser elsewhere")
    dashboard.add_flag("--sign-out", "sign all pages out that are open")


def _dashboard(options: Context, output: Output) -> None:
    if options.sign_out:
        ask_hub(END_PAGES)
        output.set(did="signed out")
        return output.say("all pages of the dashboard are signed out")
    if options.print or why_elsewhere(os.environ):
        return _print(ask_hub(TICKET, printed=True), output)
    ticket = ask_hub(TICKET)
    if ticket.printed or open_browser(ticket.url, os.environ):
        return _print(ticket if ticket.printed else ask_hub(TICKET, printed=True), output)
    output.set(url=ticket.page, opened=True, expires_s=ticket.expires_s, session_s=ticket.session_s)
    output.say(f"opened {ticket.page} in your browser (signed in for {duration(ticket.session_s)})")


def _print(ticket: DashboardTicket, output: Output) -> None:
    output.set(url=ticket.url, opened=False, expires_s=ticket.expires_s, session_s=ticket.session_s)
    output.say(ticket.url)
    text = f"good once, for {ticket.expires_s:.0f} s; the page is signed in for {ticket.session_s / 3600:.0f} h"
    output.remark(f"{text}. A browser that does not find it: 127.0.0.1 in place of the name")
