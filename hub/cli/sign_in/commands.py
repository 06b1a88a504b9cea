"""`hubd auth` and `hubd logout`: sign in at servers that want it, see where somebody is signed in, and sign out."""

import argparse
import os
import re
import sys
from collections.abc import Collection
from getpass import getpass
from math import inf
from os import EX_TEMPFAIL
from typing import Any, Final

from msgspec.structs import asdict

from config.atomic_writes import lock_edits
from config.diagnostics import ConfigError
from config.editing.draft_across_files import Draft
from config.hosts.secret_literals import NewSecrets
from config.hub_paths import state_dir
from config.loading.assemble import load_or_defaults
from config.secrets.store import SecretStore
from config.server_names import account_id
from hub.cli.await_server_starts import ServerOutcome, watch
from hub.cli.background_hub import start_hub
from hub.cli.configuration.save_draft import reload_hub, save, say_problems
from hub.cli.context import CommandFailed, Context, Output, UsageError, agreed, ask_hub, client, now
from hub.cli.hosts.who_runs_servers import hosts_that_start
from hub.cli.keyboard import read_line
from hub.cli.parser import add
from hub.cli.render.sign_ins import accounts_blocks
from hub.cli.secret_commands import say_kept
from hub.cli.sign_in.conversation import WHO, TokenWanted, Wishes, converse, how_long
from hub.control.methods import SIGN_IN_FINISH, SIGN_IN_STATUS, SIGN_OUT
from hub.control.sign_in_messages import SignedOutAccount, SignInOutcome
from hub.wire.printable import printable

MAX_ADDRESS_CHARS: Final = 32 << 10
_MEMBERS: Final = """\
  on a line at once:
  url        what to open in a browser
  expires_s  how long the hub waits for it to come back
  opened     whether a browser was opened here
  code       what the page asks for, where the hub cannot tell whose browser it is
  then the outcome, on one line:
  upstream, state  the server, and "signed_in", "denied", "failed", "timed_out", or "open": it can still be ended
  text       a sentence on it
  issuer, scope    where somebody signed in, and the scopes that were granted
  until      when the access ends, in seconds since 1970; null: nobody knows
  renewable  whether it is renewed without a person
  server     what became of the server: state (as in `hubd status --json`), tools, why

with --status:
  accounts   of each: upstream ("": the identity provider), principal, account ("shared" or "each"), state, issuer,
             expires_s, renewable, scope, note, key_source"""
_OUT: Final = """\
  accounts  of each: upstream, principal, was_signed_in, revoked (null: the authorization server was not asked),
            why_not, forgot_client"""
_EPILOG: Final = """examples:
  hubd auth linear                  sign in at a server in the browser
  hubd auth linear --no-browser     print the address: over SSH, or for another browser
  hubd auth linear --no-wait        print the address and exit with 0; the hub waits for the browser
  hubd auth linear --timeout 60     wait for a minute, then exit with 75; the hub goes on waiting
  hubd auth linear --finish < FILE  the address of the page that did not load, read from a file
  hubd auth --status                where somebody is signed in, and until when
"""


def add_commands(commands: Any) -> None:
    """`auth`, `logout`."""
    auth = add(commands, "auth", _auth, json=_MEMBERS)
    auth.usage = (
        "hubd auth NAME [--account A] [--no-browser] [--no-wait | --timeout SECONDS] [--reset] [--scope S] [--yes]\n"
        "       hubd auth NAME --finish\n"
        "       hubd auth --status [NAME]\n"
        "       hubd auth --idp"
    )
    auth.epilog = f"{_EPILOG}\n{auth.epilog}"
    auth.add_value("name", "NAME", "the server's name as `hubd status` shows it", nargs="?")
    auth.add_value("--account", "A", "sign in for this one of its several accounts", default="")
    auth.add_flag("--status", "show where somebody is signed in, and until when")
    auth.add_flag("--idp", "sign in at the company's identity provider, [oauth.idp]")
    auth.add_flag("--no-browser", "open none; print the address that is to be opened")
    auth.add_flag("--no-wait", "print the address, open no browser, and exit")
    auth.add_value("--timeout", "SECONDS", "wait no longer than this for the browser", type=_seconds)
    auth.add_flag("--reset", "have the hub registered anew there")
    auth.add_value("--scope", "S", "ask for this, too; several joined by spaces", default="")
    auth.add_flag("--finish", "read the address of the page that did not load from standard input")
    auth.add_flag("--yes", "agree to what is unusual, such as another server than before")
    logout = add(commands, "logout", _logout, json=_OUT)
    logout.usage = "hubd logout NAME [--forget]\n       hubd logout --all [--forget]"
    logout.add_value("name", "NAME", "the server's name as `hubd status` shows it", nargs="?")
    logout.add_value("--account", "A", "sign out of this one of its several accounts", default="")
    logout.add_flag("--all", "of all servers")
    logout.add_flag("--forget", "forget, too, that the hub is registered there")


# --- auth -------------------------------------------------------------------------------------------------------------


def _auth(options: Context, output: Output) -> None:
    _refuse_contradictions(options)
    start_hub()
    if options.status:
        return _status(options)
    if options.finish:
        return _finish(options)
    wishes = Wishes(
        name=_name_of(options),
        scope=options.scope,
        reset=options.reset,
        yes=options.yes,
        why_not="--no-wait" if options.no_wait else "--no-browser" if options.no_browser else why_no_browser(),
        within_s=0 if options.no_wait else options.timeout or inf,
    )
    sign_in(wishes, output)


def _name_of(options: Context) -> str:
    """The server, or the account there."""
    name: str = options.name or ""
    return account_id(name, options.account) if name and options.account else name


def _refuse_contradictions(options: Context) -> None:
    """Raises: UsageError: the options do not belong together."""
    names = ("account", "no_browser", "no_wait", "timeout", "reset", "scope", "yes")
    of_a_sign_in = [f"--{name.replace('_', '-')}" for name in names if getattr(options, name)]
    whole = [f"--{name}" for name in ("status", "idp", "finish") if getattr(options, name)]
    usage = options.parser.format_usage()
    if len(whole) > 1:
        raise UsageError(f"{whole[0]} and {whole[1]} do not go together", usage)
    if of_a_sign_in and whole and whole != ["--idp"]:
        raise UsageError(f"{of_a_sign_in[0]} does not go with {whole[0]}", usage)
    if options.no_wait and options.timeout:
        raise UsageError("--no-wait and --timeout do not go together", usage)
    if options.idp and options.name:
        raise UsageError("--idp takes no name: its server is that of [oauth.idp]", usage)
    if not whole and not options.name:
        raise UsageError("say at which server; `hubd auth --status` lists them", usage)


def _seconds(text: str) -> float:
    """Raises: argparse.ArgumentTypeError: it is no time to wait."""
    try:
        found = float(text)
    except ValueError:
        found = 0.0
    if not 0 < found < inf:
        raise argparse.ArgumentTypeError(f"expected a number of seconds above 0, got {text!r}")
    return found


def why_no_browser() -> str:
    """The reason why the configuration wants no browser opened; "": it does not say so."""
    wanted = load_or_defaults(None, os.environ).oauth.open_browser  # what is wrong is for the hub to say
    return 'open_browser = "never"' if wanted == "never" else ""


def sign_in(wishes: Wishes, output: Output) -> None:
    """Carry out a sign-in, and say what came of it and of the server. Raises HubNotRunning, ControlFailed,
    NotUnderstood: as `converse`."""
    try:
        with client() as hub:
            return _end(converse(hub, wishes, output), output, is_wanted=not wishes.within_s)
    except TokenWanted:
        if not output.is_attended():
            raise
    ask_token(wishes.name, output)


def offer_sign_in(found: Collection[ServerOutcome], output: Output) -> bool:
    """Ask whoever sits at the terminal to sign in at the one server that wants it, and carry that out. False: nobody
    was asked, or wants to. Raises HubNotRunning, ControlFailed, NotUnderstood: as `converse`."""
    wanting = [each for each in found if each.sign_in]
    if len(wanting) != 1 or not output.is_attended():
        return False
    name = wanting[0].name
    output.say(printable(f"{name} wants you to sign in."))
    if not agreed("Sign in now?", default=True):
        return False
    sign_in(Wishes(name=name, why_not=why_no_browser()), output)
    return True


def _finish(options: Context) -> None:
    line = "" if sys.stdin is None else read_line(sys.stdin, MAX_ADDRESS_CHARS).strip()
    if not line:
        raise UsageError("standard input has no line with the address of the page that did not load")
    _end(ask_hub(SIGN_IN_FINISH, address=line), options.output)


def _end(outcome: SignInOutcome, output: Output, *, is_wanted: bool = False) -> None:
    """Say how a sign-in ended, and what became of the server. `is_wanted`: that it is open still is what the command is
    for."""
    output.set(**asdict(outcome))
    title = outcome.upstream or WHO
    if outcome.state == "open" and is_wanted:
        return output.say(f"{outcome.text[0].upper()}{outcome.text[1:]}.")
    if outcome.state == "open":
        return output.fail(outcome.text, EX_TEMPFAIL)
    if outcome.state != "signed_in":
        return output.fail(outcome.text)
    said = f"{title}: {how_long(outcome, now())}."
    if outcome.upstream:
        return _with_server(outcome.upstream, said, output)
    output.say(said)


def _with_server(name: str, said: str, output: Output) -> None:
    with client() as hub:
        (found,) = watch(hub, [name], output).values()
    output.set(server=found.as_object())
    if found.works or found.state == "disabled":
        output.say(f"{said} {printable(found.summary[:1].upper() + found.summary[1:])}.")
        if titles := list(dict.fromkeys(place.title for place in hosts_that_start(name))):
            starts = "starts" if len(titles) == 1 else "start"
            output.note(f"{' and '.join(titles)} still {starts} {name} without the hub: `hubd setup` takes it over")
        return
    output.say(said)
    text = f"{printable(str(found))}; `hubd logs {name}` shows all of it"
    if found.state == "unauthorized":
        return output.fail(text)
    output.warn(text)


# --- what there is, and logout ----------------------------------------------------------------------------------------


def _status(options: Context) -> None:
    accounts = ask_hub(SIGN_IN_STATUS, name=options.name).accounts
    options.output.set(accounts=[asdict(each) for each in accounts])
    options.output.show(*accounts_blocks(accounts, options.name))


def _logout(options: Context, output: Output) -> None:
    if options.all == bool(options.name) or (options.all and options.account):
        raise UsageError("say of which server, or --all", options.parser.format_usage())
    start_hub()
    accounts = ask_hub(SIGN_OUT, name=_name_of(options) or None, forget=options.forget).accounts
    output.set(accounts=[asdict(each) for each in accounts])
    for each in accounts:
        output.say(_say_signed_out(each))
    if not accounts:
        output.say(f"nobody is signed in at {_name_of(options)}" if options.name else "nobody is signed in anywhere")


def _say_signed_out(account: SignedOutAccount) -> str:
    title = account.upstream or WHO
    also = "; the hub's registration there is forgotten" if account.forgot_client else ""
    if not account.was_signed_in:
        return f"{title}: nobody was signed in{also}"
    if account.revoked:
        return f"{title}: signed out, and the tokens ended{also}"
    why = f" ({account.why_not})" if account.why_not else ""
    return f"{title}: signed out here; the tokens were not ended there{why} and last until their time is over{also}"


SCHEME: Final = "Bearer "


def ask_token(name: str, output: Output) -> None:
    """Ask for the token of the server `name`, keep it, and have the server connected with it. Raises EditError: it
    cannot be kept, or the file with the server cannot be edited."""
    output.say(f"{name} wants a token and has no sign-in; whoever runs it has tokens for you.")
    try:
        token = getpass("its token (it is not shown): ").strip().removeprefix(SCHEME).strip()
    except EOFError:
        token = ""
    if not token:
        raise CommandFailed("there was no answer; nothing was changed")
    new = NewSecrets(SecretStore.open())
    secret = new.name_for(re.sub(r"\W", "_", f"{name}_token").upper(), token)
    say_kept(new.keep(), output)
    with lock_edits(state_dir()):
        draft = Draft(None, os.environ)
        headers = draft.settings_of(name).get("headers") or {}
        draft.assign(name, "headers", {**headers, "Authorization": f"{SCHEME}${{secret:{secret}}}"})
        if problems := draft.problems():
            say_problems(problems, output)
            raise ConfigError(f"{name} stays as it is; {secret} is kept, `hubd secret rm {secret}` removes it")
        saved = save(draft, "edited", f"headers.Authorization of {name} refers to the secret {secret}", output)
    reload_hub(saved, output, [name])
