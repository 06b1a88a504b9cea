"""`hubd secret`: keep secrets of servers apart from configuration files, which name them as `${secret:NAME}`.

What other commands say of secrets that they keep, or leave, is here, too.
"""

import json
import os
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from getpass import getpass
from pathlib import Path
from typing import Any, Final, NoReturn

from config.diagnostics import ConfigError, EditError
from config.loading.checks.http_access import PRINCIPAL
from config.secrets.kept_secrets import MAX_VALUE_BYTES
from config.secrets.store import SecretStore, Stored, check_name
from config.secrets.uses import secret_uses
from config.settings import LOOPBACK, OWNER
from hub.cli.context import CommandFailed, Context, Output, UsageError
from hub.cli.parser import Parser, add, add_config, on_main_file
from hub.cli.render.blocks import Table
from hub.wire.printable import printable

PATIENCE_S: Final = 60.0
MAX_ANSWER: Final = 1000
PLACES: Final = {"keyring": "the keyring", "file": "a file only you can read"}
_LISTED_PLACES: Final = {"keyring": "the keyring", "file": "a file", None: "not set"}
_LISTED: Final = """\
  secrets  of each: name, kept ("keyring" or "file"; null: it is not set) and servers, those that use it"""
_SET: Final = """\
  name, kept  the secret, and where it is kept: "keyring", "file", or the hub of --at
  why         why not in the keyring
  servers     those that use it"""
_REMOVED: Final = """\
  name, did  the secret, and "removed"
  servers    those that use it"""


def add_commands(commands: Any) -> None:
    """`secret`, with its commands `set`, `ls` and `rm`."""
    secret = add(commands, "secret", _usage)
    actions = secret.add_subparsers(metavar="COMMAND", parser_class=Parser, prog="hubd secret")
    of_hub = partial(on_main_file, needs_answer=False)
    new = add(actions, "set", of_hub(_keep), "ask for a secret and keep it, in the keyring if one answers", json=_SET)
    new.epilog = f"Without a terminal the secret is the first line of standard input.\n\n{new.epilog}"
    text = "list the secrets, where each is kept and which servers use it"
    ls = add(actions, "ls", of_hub(_ls), text, json=_LISTED, aliases=("list",))
    rm = add(actions, "rm", of_hub(_rm), "forget a secret", json=_REMOVED, aliases=("remove",))
    rm.add_flag("--force", "even if servers use it")
    new.add_value("--at", "URL", "of a hub elsewhere, which keeps it for you alone; needs --token")
    new.add_value("--token", "FILE", "the file with your token of that hub")
    for each in (new, ls, rm):
        each.add_value("--for", "PRINCIPAL", 'of a person who uses servers with `account = "each"`', dest="principal")
    for each in (new, rm):
        each.add_value("name", "NAME", "letters, digits, dots, dashes and underscores")
    for each in (new, ls, rm):
        add_config(each)


def _usage(options: Context, output: Output) -> NoReturn:
    raise UsageError("say what to do with secrets: set, ls or rm", options.parser.format_usage())


def _open(options: Context) -> SecretStore:
    """Raises: UsageError, if nobody can be called so."""
    principal: str = options.principal or OWNER
    if not PRINCIPAL.fullmatch(principal):
        raise UsageError("a principal is printable ASCII without spaces, at most 256 characters")
    return SecretStore.open(principal=principal)


def _keep(options: Context, output: Output) -> None:
    check_name(options.name)
    if options.at or options.token:
        return _keep_elsewhere(options, output)
    store = _open(options)
    stored = store.keep(options.name, _ask(options))
    servers = secret_uses(options.config, os.environ).get(options.name, [])
    output.set(name=options.name, kept=stored.place, servers=servers)
    if stored.why:
        output.set(why=stored.why)
        output.say(f"{options.name} is kept in {store.path}, which only you can read: {stored.why}")
    else:
        output.say(f"{options.name} is kept in the keyring")
    if options.principal:
        output.say(f'for {options.principal}, at servers with account = "each" that use it, from the next session on')
    elif servers:
        output.say(f"used by {', '.join(servers)}: a running hub restarts what is connected, and starts what waited")
    else:
        output.say(f"no server uses it yet: write ${{secret:{options.name}}} in its env, headers, args or url")


def _opener() -> Any:
    """It follows no redirect: the token and the secret are for this hub."""
    from urllib import request  # not above: it is hardly ever needed

    class Stay(request.HTTPRedirectHandler):
        def redirect_request(self, *_: Any) -> None:
            return None

    return request.build_opener(Stay, request.ProxyHandler({}))


def _keep_elsewhere(options: Context, output: Output) -> None:
    """Have a hub elsewhere keep a secret for the person whose token this is.
    Raises: UsageError: an option is missing; CommandFailed: the hub cannot be reached, or refuses."""
    from urllib import error, request  # not above: it is hardly ever needed
    from urllib.parse import urlsplit

    url = urlsplit(options.at or "")
    if not options.token or options.principal or not url.netloc or url.scheme not in ("http", "https"):
        raise UsageError("--at needs the URL of a hub, such as https://hub.example, and --token FILE, and no --for")
    if url.scheme == "http" and url.hostname not in LOOPBACK:
        raise UsageError(f"{url.netloc} would be sent token and secret in the clear: its URL begins with https")
    try:
        token = Path(options.token).read_text().strip()
    except (OSError, UnicodeDecodeError) as problem:
        raise CommandFailed(f"cannot read {options.token}: {problem}") from None
    body = json.dumps({"name": options.name, "value": _ask(options)}).encode()
    fields = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    asked = request.Request(f"{url.scheme}://{url.netloc}/secrets", body, fields, method="POST")
    try:
        with _opener().open(asked, timeout=PATIENCE_S):
            pass
    except error.HTTPError as problem:
        said = printable(problem.read(MAX_ANSWER).decode(errors="replace"))
        raise CommandFailed(f"{url.netloc} refuses ({problem.code}): {said}") from None
    except OSError as problem:
        raise CommandFailed(f"{url.netloc} cannot be reached: {problem}") from None
    output.set(name=options.name, kept=url.netloc, servers=[])
    output.say(f"{options.name} is kept at {url.netloc}, for calls of yours alone")


def say_kept(kept: "Mapping[str, Stored]", output: Output) -> None:
    """Report where secrets are kept that another command has moved."""
    reason = next((f" ({stored.why})" for stored in kept.values() if stored.why), "")
    for place, where in PLACES.items():
        if names := [name for name, stored in kept.items() if stored.place == place]:
            output.say(f"kept in {where}{reason if place == 'file' else ''}: {', '.join(names)}")


def secrets_of(server: str, config: "Path | None") -> list[str]:
    """The secrets that are kept and that a server refers to, before it is removed."""
    try:
        uses = secret_uses(config, os.environ)
        kept = SecretStore.open().names() if uses else {}
    except (ConfigError, EditError):  # nobody is kept from removing a server by that
        return []
    return sorted(name for name, servers in uses.items() if server in servers and name in kept)


def say_unused(names: Sequence[str], config: "Path | None", output: Output) -> None:
    """Note which of these secrets no server uses any more: they stay."""
    uses = secret_uses(config, os.environ) if names else {}
    for name in names:
        if not uses.get(name):
            output.note(f"its secret {name} is kept; `hubd secret rm {name}` removes it")


def _ask(options: Context) -> str:
    """The secret: asked for without showing it, or the first line of standard input."""
    if sys.stdin is not None and sys.stdin.isatty():
        try:
            return getpass(f"{options.name}: ")
        except EOFError:
            raise UsageError("there was no answer; nothing was kept") from None

    data = b"" if sys.stdin is None else sys.stdin.buffer.readline(MAX_VALUE_BYTES + 3)
    try:
        line = data.decode().removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError:
        raise UsageError("the secret on standard input is no UTF-8 text") from None
    if not line:
        raise UsageError("there is no terminal, and standard input has no line with the secret")
    return line


def _ls(options: Context, output: Output) -> None:
    kept, uses = _open(options).names(), secret_uses(options.config, os.environ)
    rows = [(name, kept.get(name), uses.get(name, [])) for name in sorted({*kept, *uses})]
    output.set(secrets=[{"name": name, "kept": place, "servers": servers} for name, place, servers in rows])
    if rows:
        cells = [(name, _LISTED_PLACES[place], ", ".join(servers)) for name, place, servers in rows]
        output.show(Table(("NAME", "KEPT IN", "USED BY"), cells, shorten=("USED BY",)))
    else:
        output.say("there are no secrets; `hubd secret set NAME` keeps one")


def _rm(options: Context, output: Output) -> None:
    store, servers = _open(options), secret_uses(options.config, os.environ).get(options.name, [])
    if options.name in store.names() and servers and not options.force:
        raise CommandFailed(f"{options.name} is used by {', '.join(servers)}; change these first, or pass --force")
    note = store.remove(options.name)
    output.set(name=options.name, did="removed", servers=servers)
    output.say(f"removed {options.name}")
    if note:
        output.warn(note)
