"""`hubd secret`: keep secrets of servers apart from configuration files, which name them as `${secret:NAME}`.

What other commands say of secrets that they keep, or leave, is here, too.
"""

import json
import os
import shlex
import sys
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from getpass import getpass
from pathlib import Path
from typing import Any, Final, NoReturn

from config.diagnostics import ConfigError, EditError
from config.hub_paths import tokens_path
from config.loading.checks.http_access import PRINCIPAL
from config.secrets.kept_secrets import MAX_VALUE_BYTES
from config.secrets.store import Place, SecretStore, Stored, check_name, people
from config.secrets.uses import secret_uses, uses_by_people
from config.settings import LOOPBACK, OWNER
from hub.cli.context import CommandFailed, Context, Output, UsageError, nearest_or_all
from hub.cli.parser import Parser, add, add_config, on_main_file
from hub.cli.render.blocks import Table
from hub.downstream.access.token_files import HostTokens
from hub.wire.printable import printable

PATIENCE_S: Final = 60.0
MAX_ANSWER: Final = 1000
PLACES: Final = {"keyring": "the keyring", "file": "a file only you can read"}
_LISTED_PLACES: Final = {"keyring": "the keyring", "file": "a file", None: "not set"}
_LISTED: Final = """\
  secrets  of each: name, principal (null: it is yours), kept ("keyring" or "file"; null: it is not set) and servers,
           those that use it"""
_SET: Final = """\
  name, kept  the secret, and where it is kept: "keyring", "file", or the hub of --at
  why         why not in the keyring
  servers     those that use it"""
_REMOVED: Final = """\
  name, did  the secret, and "removed"; null, if there are several
  servers    those that use it
  removed    of each: name and servers"""


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
    new.add_value("name", "NAME", "letters, digits, dots, dashes and underscores")
    rm.add_value("names", "NAME", "as `hubd secret ls` shows it", nargs="+")
    for each in (new, ls, rm):
        add_config(each)


def _usage(options: Context, output: Output) -> NoReturn:
    raise UsageError("say what to do with secrets: set, ls or rm", options.parser.format_usage())


def _person(options: Context) -> str:
    """The person whose secrets are meant; "": the hub's owner. Raises: UsageError, if nobody can be called so."""
    principal: str = options.principal or OWNER
    if not PRINCIPAL.fullmatch(principal):
        raise UsageError("a principal is printable ASCII without spaces, at most 256 characters")
    return "" if principal == OWNER else principal


def _uses(options: Context, person: str) -> dict[str, list[str]]:
    """The servers, and profiles, by the secret of this person that they use."""
    if person:
        return uses_by_people(options.loaded.config.upstreams)
    return secret_uses(options.config, os.environ)


def _let_in(options: Context) -> list[str]:
    """The people who have a token of the hub."""
    kept = HostTokens(tokens_path(), time.time).all().values()  # noqa: TID251  # of which nothing counts here
    found = {token.principal for token in kept} | {token.principal for token in options.loaded.config.access.tokens}
    return sorted(found - {"", OWNER})


def _check_person(options: Context, person: str, uses: Collection[str]) -> None:
    """Raise CommandFailed: no server takes such a secret of people, or nobody of this name is let in by a token."""
    if options.name not in uses:
        way = 'a server takes keys of people with `account = "each"` and ${secret:NAME} in its settings'
        hint = f"{nearest_or_all(options.name, sorted(uses))}" if uses else way
        raise CommandFailed(f"no server takes a secret {options.name} of people; {hint}")
    known = _let_in(options)
    if person not in known and options.loaded.config.auth not in ("oauth", "proxy"):  # these say who comes
        hint = nearest_or_all(person, known)
        new = f"`hubd token new NAME --principal {shlex.quote(person)}` lets them in"
        raise CommandFailed(f"nobody called {person} has a token of this hub; {hint}; {new}")


def _keep(options: Context, output: Output) -> None:
    check_name(options.name)
    if options.at or options.token:
        return _keep_elsewhere(options, output)
    person = _person(options)
    uses = _uses(options, person)
    if person:
        _check_person(options, person, uses)
    store = SecretStore.open(principal=person or OWNER)
    stored = store.keep(options.name, _ask(options))
    servers = uses.get(options.name, [])
    output.set(name=options.name, kept=stored.place, servers=servers)
    if stored.why:
        output.set(why=stored.why)
        output.say(f"{options.name} is kept in {store.path}, which only you can read: {stored.why}")
    else:
        output.say(f"{options.name} is kept in the keyring")
    if person:
        output.say(f"{person} uses it at {', '.join(servers)}, from the next session on")
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
    rows = list(_rows(options))
    output.set(
        secrets=[
            {"name": name, "principal": person or None, "kept": place, "servers": servers}
            for name, person, place, servers in rows
        ]
    )
    if not rows:
        return output.say("there are no secrets; `hubd secret set NAME` keeps one")
    with_people = any(person for _, person, _, _ in rows)
    heads = ("NAME", *(("PERSON",) if with_people else ()), "KEPT IN", "USED BY")
    cells = [
        (name, *((person or "you",) if with_people else ()), _LISTED_PLACES[place], ", ".join(servers))
        for name, person, place, servers in rows
    ]
    output.show(Table(heads, cells, shorten=("USED BY",)))


def _rows(options: Context) -> Iterator[tuple[str, str, Place | None, list[str]]]:
    """The secrets that are kept or used: the name, whose it is, where it is kept, who uses it. Without `--for` those of
    the owner, then those of everybody who has a token or a secret."""
    persons = [_person(options)] if options.principal else [""]
    if not options.principal:
        with suppress(ConfigError, EditError):  # of others nothing can be said then
            persons += sorted({*people(), *_let_in(options)})
    for person in persons:
        kept, uses = SecretStore.open(principal=person or OWNER).names(), _uses(options, person)
        for name in sorted({*kept, *uses}):
            yield name, person, kept.get(name), uses.get(name, [])


def _rm(options: Context, output: Output) -> None:
    person = _person(options)
    store, uses, names = (
        SecretStore.open(principal=person or OWNER),
        _uses(options, person),
        dict.fromkeys(options.names),
    )
    kept = store.names()
    for name in names:
        if name in kept and (servers := uses.get(name)) and not person and not options.force:
            raise CommandFailed(f"{name} is used by {', '.join(servers)}; change these first, or pass --force")
        if name not in kept and len(names) > 1:
            raise CommandFailed(f"there is no secret {name}; `hubd secret ls` lists what there is; nothing was removed")
    removed = []
    for name in names:
        note, servers = store.remove(name), uses.get(name, [])
        removed.append({"name": name, "servers": servers})
        output.say(f"removed {name}{person and f' of {person}'}")
        if person and servers:
            again = " ".join(f"`hubd restart {server}`" for server in servers)
            output.say(f"a session of {person} that is open goes on with it: {again} ends it")
        if note:
            output.warn(note)
    is_one = len(removed) == 1
    output.set(
        name=removed[0]["name"] if is_one else None,
        did="removed",
        servers=sorted({server for each in removed for server in each["servers"]}),
        removed=removed,
    )
