"""Texts for people: what a person is shown of a call that waits for a yes. Pure.

Hosts and servers write parts of it, so none of that is shown as it came: nothing may look like another line, change the
direction of writing, or be invisible.
"""

import json
import re
from collections.abc import Iterable, Mapping
from hashlib import sha256
from types import MappingProxyType
from typing import Final

from msgspec import Raw

from config.secrets.masks import mask_arguments, mask_url
from config.settings import UpstreamConfig
from hub.wire.jsonrpc import peek_object
from hub.wire.printable import visible

MAX_ARGUMENTS: Final = 20
MAX_ARGUMENT: Final = 200
"""Characters of one argument."""
MAX_SHOWN: Final = 2 << 10
"""Characters of all arguments together."""
MAX_NAME: Final = 128
_PLAIN_NAME: Final = re.compile(r"[A-Za-z0-9_.$-]+")


def cut(text: str, most: int) -> str:
    """`text`, made safe; of a longer one the beginning, how much more there is, and the digest of the whole."""
    if len(text) <= most:
        return visible(text)
    left = f"{len(text) - most:,}".replace(",", " ")
    digest = sha256(text.encode(errors="surrogatepass")).hexdigest()
    return f"{visible(text[:most])} and {left} more characters, sha256 {digest}"


def show_arguments(
    arguments: Raw | None, most: int = MAX_SHOWN, order: Mapping[str, int] = MappingProxyType({})
) -> str:
    """The arguments of a call on one line, such as `owner="acme" repo="site"`, at most about `most` characters. Those
    with the lowest number in `order` come first, as what is cut off would be the least; names that are no plain words
    stand in quotes."""
    found = peek_object(arguments)
    members = dict(sorted(found.items(), key=lambda each: order.get(each[0], len(order))))
    if not members:
        text = "" if arguments is None else bytes(arguments).decode(errors="replace")
        return "" if text in ("", "{}") else cut(text, most)
    shown: list[str] = []
    left = most
    for number, (name, value) in enumerate(members.items()):
        text = bytes(value).decode(errors="replace")
        if number == MAX_ARGUMENTS or left <= 0:
            rest = b"".join(bytes(each) for each in list(members.values())[number:])
            digest = sha256(rest).hexdigest()
            shown.append(f"and {len(members) - number} more arguments, sha256 {digest}")
            break
        plain = name if _PLAIN_NAME.fullmatch(name) else json.dumps(name, ensure_ascii=False)
        shown.append(f"{cut(plain, MAX_NAME)}={cut(text, min(MAX_ARGUMENT, left))}")
        left -= min(len(text), MAX_ARGUMENT) + len(name) + 2
    return " ".join(shown)


def show_program(config: UpstreamConfig) -> str:
    """The command line or the address of a server, without secrets."""
    words = [config.command or "", *mask_arguments(config.args)]
    return cut(" ".join(words) if config.url is None else mask_url(config.url), MAX_ARGUMENT)


def show_marks(marks: Iterable[str], upstream: str, *, trusted: bool, is_users: bool) -> str:
    """The marks of a tool that rules go by, and who says so. `is_users`: the user has given it some."""
    shown = ", ".join(f"@{mark}" for mark in sorted(marks)) or "none"
    if is_users:
        return f"{shown}, as hints of the configuration say"
    return f"{shown}, says {upstream}, which is trusted" if trusted else f"{shown}, since {upstream} is not trusted"


def question_text(host: str, verb: str, name: str, lines: Iterable[tuple[str, str]]) -> str:
    """The question that a person is asked: may this host do that; then a line for each fact."""
    first = f'hubd: may "{visible(host[:MAX_NAME])}" {verb} {visible(name[:MAX_SHOWN])}?'
    return "\n".join([first, *(f"{label}: {text}" for label, text in lines if text)])
