"""`hubd token`: the hub's own token, and tokens of single hosts, which can be taken back one by one."""

import argparse
import json
import os
import re
import shlex
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

from config.hub_paths import metrics_token_path, token_path, tokens_path
from config.loading.checks.http_access import token_problem
from config.loading.gather import token_of
from config.security_settings import AccessToken
from config.settings import HubConfig
from hub.cli.context import CommandFailed, Context, Output, ask_hub, now
from hub.cli.parser import Parser, add, add_config, on_main_file
from hub.cli.render.blocks import Table
from hub.control.client_errors import HubNotRunning
from hub.control.methods import READ_TOKENS
from hub.downstream.access.token_files import HostTokens, KeptToken, check_token, read_or_make_token
from hub.link.call_interface import OWNER

_SECONDS: Final = {"m": 60, "h": 3600, "d": 86400}
MAX_SECONDS: Final = 3650 * 86400
_MADE: Final = """\
  name, token  of the new token, which is shown here and kept nowhere
  principal    the account of the host
  host         its label
  expires      the time from which it does not count any more; null: none
  profile      the profile that it opens, and nothing else; null: it chooses none"""
_LISTED: Final = """\
  tokens  of each: name, principal, host, expires (null: never), profile (null: none), former_until (of a token
          before a rotation), configured (it is in hubd.toml)"""
_REVOKED: Final = """\
  name, did  the token, and "revoked\""""


def add_commands(commands: Any) -> None:
    """`token`, with its commands `new`, `list`, `rotate` and `revoke`."""
    of_hub = partial(on_main_file, needs_answer=False)
    token = add(commands, "token", of_hub(_token))
    token.add_flag("--metrics", "print the token that opens GET /metrics and nothing else, for Prometheus")
    token.add_flag("--json", "print JSON")
    add_config(token)
    actions = token.add_subparsers(metavar="COMMAND", parser_class=Parser, prog="hubd token")
    new = add(actions, "new", of_hub(_new), "make a token for one host, and print it once", json=_MADE)
    new.add_value("--principal", "P", "the account of the host, in place of the owner's", default="")
    new.add_value("--host", "LABEL", "the label of the host, in place of NAME", default="")
    new.add_value("--profile", "NAME", "the profile that it opens, and nothing else", default="")
    new.add_value("--expires", "TIME", "how long it counts, such as 90d or 12h", type=_seconds)
    rotate = add(actions, "rotate", of_hub(_rotate), "replace a token, and print the new one once", json=_MADE)
    text = "how long the one before counts, such as 24h; else not"
    rotate.add_value("--grace", "TIME", text, type=_seconds, default=0)
    text = "take a token back; whoever uses it is cut off at once"
    revoke = add(actions, "revoke", of_hub(_revoke), text, json=_REVOKED, aliases=("rm", "remove"))
    text = "its name: lower-case letters, digits, dots, dashes, underscores"
    for each in (new, rotate, revoke):
        each.add_value("name", "NAME", text)
    listed = add(actions, "list", of_hub(_list), "list the tokens of hosts", json=_LISTED, aliases=("ls",))
    for each in (new, rotate, revoke, listed):
        add_config(each)


def _seconds(text: str) -> float:
    """A length of time in seconds."""
    found = re.fullmatch(r"([0-9]{1,6})([mhd])", text)
    seconds = int(found[1]) * _SECONDS[found[2]] if found else 0
    if not 0 < seconds <= MAX_SECONDS:
        raise argparse.ArgumentTypeError(f"expected a time such as 90d, 12h or 30m, not {text}")
    return seconds


def _token(options: Context, output: Output) -> None:
    if options.metrics:
        return _metrics_token(output)
    configured = token_of(options.config, os.environ)
    token = read_or_make_token(token_path()) if configured is None else check_token(configured)
    output.set(token=token)
    output.say(token)


def _metrics_token(output: Output) -> None:
    is_new = not metrics_token_path().exists()
    token = read_or_make_token(metrics_token_path())
    if is_new:
        _tell_hub()
    output.set(token=token)
    output.say(token)


def _new(options: Context, output: Output) -> None:
    name = options.name
    meant = AccessToken(name=name, principal=options.principal, host=options.host, profile=options.profile)
    if (problem := token_problem(meant, options.loaded.config.profiles)) is not None:
        raise CommandFailed(f"{problem.keys[0]}: {problem}; nothing was made")
    if where := _place_of_token(options):
        raise CommandFailed(f"{where} has a token {name} already; take another name")
    expires = None if options.expires is None else now().timestamp() + options.expires
    store = _store()
    token = store.make(name, principal=options.principal, host=options.host, expires=expires, profile=options.profile)
    _show(name, store, token, output, options.loaded.config)


def _rotate(options: Context, output: Output) -> None:
    if where := _place_of_token(options):
        raise CommandFailed(f"{options.name} is a token of {where}: change it there")
    store = _store()
    _show(options.name, store, store.rotate(options.name, grace_s=options.grace), output, options.loaded.config)


def _show(name: str, store: HostTokens, token: str, output: Output, config: HubConfig) -> None:
    kept = store.all()[name]
    output.set(**_row(name, kept, _moment(kept.expires)), token=token)
    _tell_hub()
    output.say(token)
    what = f"the profile {kept.profile}" if kept.profile else "all servers"
    person = "" if kept.principal == OWNER else kept.principal
    opens = f"It lets {person} in" if person else f"It opens {what}"
    output.remark(f"this is the only time that it is shown: the hub keeps a hash of it. {opens}")
    if person:
        for text in _rules_about(person, what, config):
            output.remark(text)


def _rules_about(person: str, what: str, config: HubConfig) -> Iterator[str]:
    """What another person than the owner may do, and what rule to write."""
    policy, shown = config.policy, f"`hubd policy --principal {shlex.quote(person)}`"
    if config.auth == "none":
        return  # no token counts
    if policy.default == "allow":
        yield f"{person} may use {what}, but for what rules deny, as {shown} shows"
    elif policy.mode == "read-only" or policy.rules or policy.allow or _has_own_allow(config):
        yield f"{person} may use what rules allow, as {shown} shows"
    else:
        own = ["principal:local", "principal:local prompt:*", "principal:local resource:*"]
        allow = "".join(f"  {json.dumps(each)},\n" for each in (*own, f"principal:{person} upstream:NAME"))
        yield f"{person} may use nothing until a rule allows it; since the hub lets in others, neither may your hosts"
        todo = f"to keep all for yourself and give {person} the tools of a server NAME, `hubd edit` and write this"
        yield f'{todo}, which {shown} shows then:\n[policy]\ndefault = "deny"\nallow = [\n{allow}]'


def _has_own_allow(config: HubConfig) -> bool:
    return any(upstream.allow for upstream in config.upstreams.values())


def _revoke(options: Context, output: Output) -> None:
    if where := _place_of_token(options):
        raise CommandFailed(f"{options.name} is a token of {where}: take it out there")
    _store().revoke(options.name)
    _tell_hub()
    output.set(name=options.name, did="revoked")
    output.say(f"revoked {options.name}")


def _list(options: Context, output: Output) -> None:
    rows = []
    for name, kept in _store().all().items():
        former = None if kept.former is None else _moment(kept.former.until)
        rows.append(_row(name, kept, _moment(kept.expires), former_until=former, configured=False))
    rows += [
        _row(token.name, token, token.expires or None, former_until=None, configured=True)
        for token in options.loaded.config.access.tokens
    ]
    output.set(tokens=rows)
    if not rows:
        return output.say("no host has a token of its own; `hubd token new NAME` makes one")
    cells = []
    for row in sorted(rows, key=lambda row: str(row["name"])):
        whose = (row["name"], row["principal"], row["host"], row["profile"] or "")
        cells.append((*whose, row["expires"] or "never", "hubd.toml" if row["configured"] else ""))
    output.show(Table(("NAME", "PRINCIPAL", "HOST", "PROFILE", "EXPIRES", "IN"), cells, shorten=("PRINCIPAL",)))


def _row(name: str, token: AccessToken | KeptToken, expires: str | None, **more: object) -> dict[str, Any]:
    account = {"principal": token.principal or OWNER, "host": token.host or name}
    return {"name": name, **account, "expires": expires, "profile": token.profile or None, **more}


def _moment(at: float | None) -> str | None:
    return None if at is None else datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds")


def _store() -> HostTokens:
    return HostTokens(tokens_path(), time.time)  # noqa: TID251  # it is kept, and shown to people


def _place_of_token(options: Context) -> str:
    """The place of the configuration with a token of this name; "": there is none."""
    loaded = options.loaded
    names = [token.name for token in loaded.config.access.tokens]
    if options.name not in names:
        return ""
    origin = loaded.origins.get(("access", "tokens", str(names.index(options.name)), "name"))
    return "the configuration" if origin is None else f"{origin.file}, line {origin.line}"


def _tell_hub() -> None:
    """Have a running hub read the tokens at once, so that streams end, too."""
    with suppress(HubNotRunning):
        ask_hub(READ_TOKENS)
