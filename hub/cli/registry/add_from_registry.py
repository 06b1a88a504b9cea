"""`hubd add NAME[@VERSION]`: a server of a registry, with its exact version; and the values that it needs: given by
`--input KEY=VALUE`, asked at the terminal, or the publisher's defaults."""

import os
import re
import sys
from collections.abc import Collection, Mapping, Sequence
from getpass import getpass
from typing import Any, Final
from urllib.parse import urlsplit

from config.hosts.secret_literals import NewSecrets
from config.registry.entry_of_answers import Answers, about, check_answer, default_of, entry, missing
from config.registry.places_to_fill import Asked, NotRunnable, Piece, Slot, all_asked
from config.registry.server_json import RegistrySource, id_of, source_of, split
from config.registry.ways_to_run import Way
from config.secrets.store import SecretStore
from hub.cli.configuration.change_servers import add_server
from hub.cli.context import EX_FAILED, Context, UsageError, agreed, ask_text, nearest
from hub.cli.registry import find_server
from hub.cli.registry.client import RegistryFailed, run
from hub.cli.registry.find_server import MAX_ASKED, Found, Known, find
from hub.wire.printable import printable

MAX_REPEATED: Final = 64
_REFERENCE: Final = re.compile(r"(?:Bearer )?\$\{[^{}]+\}")


def absolute(path: str) -> str:
    """A path as it is from everywhere."""
    return os.path.abspath(os.path.expanduser(path))


def read_inputs(pairs: Sequence[str], way: Way) -> dict[str, list[str]]:
    """The values of `--input`, checked. Raises: UsageError."""
    known = {asked.key: (slot, asked) for slot, asked in all_asked(way.slots)}
    found: dict[str, list[str]] = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not equals:
            raise UsageError("--input takes KEY=VALUE")
        if key not in known:
            there = f"there are: {', '.join(known)}" if known else "it asks for nothing"
            raise UsageError(f'--input: it has no "{printable(key)}"; {nearest(key, known) or there}')
        slot, asked = known[key]
        if key in found and not slot.repeated:
            raise UsageError(f"--input {key}: it has a value already")
        try:
            found.setdefault(key, []).append(check_answer(slot, asked, text, absolute))
        except ValueError as error:
            raise UsageError(f"--input {key}: {error}") from None
    return found


def answers(
    way: Way, options: Context, server: str, new: NewSecrets, known: Answers, asked_before: Collection[str] = ()
) -> Answers:
    """All values: of the command line, those `known` before, of somebody at the terminal, and defaults. Secrets are put
    into `new`, and references to them into the answers; `server` is the name of the upstream. What was `asked_before`
    and may be left out is not asked again. Raises UsageError: something has to be said, and there is nobody to say
    it."""
    said = read_inputs(options.input, way)
    values = dict(known)
    asks = options.output.is_attended() and not options.yes
    for slot, asked in all_asked(way.slots):
        default = default_of(slot, asked, absolute)
        texts = said.get(asked.key, [])
        if not texts and asked.key in values:
            continue
        if not texts and asks and (asked.required or not (default or asked.key in asked_before)):
            texts = _ask(slot, asked, default)
        if texts:
            values[asked.key] = tuple(_keep(text, asked, server, new) for text in texts)
        elif default:
            values[asked.key] = (Piece(default),)
            if _is_path(slot, asked, default) and not os.path.lexists(default):
                text = f"{default} is what the publisher offers, and nothing is there"
                options.output.warn(f"{asked.key}: {text}; --input {asked.key}=PATH names something of yours")
    if lacking := missing(way.slots, values):
        keys = ", ".join(f"{asked.key}{_why(asked)}" for asked in lacking)
        raise UsageError(f"these have to be said: {keys}; pass --input KEY=VALUE for each")
    return values


def _is_path(slot: Slot, asked: Asked, default: str) -> bool:
    """True if a default is a path, by its format or, of an argument, by its looks: few publishers say the format."""
    looks = slot.place == "argument" and default.startswith("/") and default.count("/") > 1
    return asked.input.format == "filepath" or looks


def _why(asked: Asked) -> str:
    text = about(asked)
    return f" ({printable(text)})" if text else ""


def _keep(text: str, asked: Asked, server: str, new: NewSecrets) -> Piece:
    """An answer, or the reference to it if it is a secret that is no reference already. One that the publisher offered
    is the publisher's text, though somebody typed or chose it."""
    if text in (asked.input.default, *asked.input.choices):
        return Piece(text)
    if not asked.secret or _REFERENCE.fullmatch(text):
        return Piece(text, typed=True)
    wanted = "".join(c if c.isascii() and c.isalnum() else "_" for c in f"{server}_{asked.key}".upper())
    return Piece(f"${{secret:{new.name_for(wanted, text)}}}", typed=True)


def _ask(slot: Slot, asked: Asked, default: str) -> list[str]:
    """The answers of somebody at the terminal; none if it may be left out, or has a default, and is left out."""
    found: list[str] = []
    failures = 0
    while len(found) < MAX_REPEATED and failures < MAX_ASKED:
        text = _read_answer(asked, default if not found else "", again=bool(found))
        if not text and (found or default or not asked.required):
            return found  # without one the default counts, which is the publisher's text
        try:
            if not text:
                raise ValueError("it has to be said")
            found.append(check_answer(slot, asked, text, absolute))
        except ValueError as error:
            failures += 1
            print(f"{asked.key}: {printable(str(error))}", file=sys.stderr)
            continue
        if not slot.repeated:
            return found
    if failures == MAX_ASKED:
        raise UsageError(f"there was no answer for {asked.key} that will do; nothing was changed")
    return found


def _read_answer(asked: Asked, default: str, *, again: bool) -> str:
    shown = f" [{printable(default)}]" if default else "" if asked.required and not again else " [Enter: none]"
    question = f"{asked.key}{_why(asked) if not again else ' (another one)'}{shown}:"
    if not asked.secret:
        return ask_text(question)
    try:
        return getpass(f"{question} ").strip()
    except EOFError:
        raise UsageError("there was no answer; nothing was changed") from None


_REFERRED: Final = re.compile(r"\$\{[^{}]+\}(?::\d{1,5})?")
"""A host that is wholly the user's own reference."""


def add_listed(options: Context, own: Mapping[str, Any]) -> None:
    """Add a server of a registry. `own`: settings that the command line says besides. Raises NotAdded, RegistryFailed,
    UsageError: it is not added, and nothing was written."""
    try:
        name, version = split(options.name)
    except ValueError as error:
        raise UsageError(str(error)) from None
    known, output = Known(options.loaded), options.output
    try:
        there = find(known.choose(options.registry), name, version, output.progress)
    except RegistryFailed as error:
        raise RegistryFailed(f"{error}{error.advice}", error.code) from None
    found = find_server.choose_registry(there, options, name, version)
    server = found.listed.server
    refuse_deleted(found)
    id = options.called or id_of(name, known.upstreams)
    for other, upstream in () if options.called else known.upstreams.items():
        source = source_of(upstream.source)
        if source is not None and source.name == name:
            todo = f"`hubd update {other}` takes the newest version, and --as NAME adds it once more"
            raise find_server.NotAdded(f'{name} is there already, as "{other}" ({source.version}): {todo}')
    way = find_server.choose_way(found, options)
    for line in find_server.before_answers(found, way):
        output.say(line)
    if said := find_server.status_of(found):
        output.warn(f"{name}: {said}")
    new = NewSecrets(SecretStore.open())
    got = answers(way, options, id, new, {})
    settings = settings_of(found, way, got, RegistrySource(found.registry.name, name, server.version))
    for setting, value in own.items():  # of tables both count
        below = settings.get(setting)
        settings[setting] = below | value if isinstance(below, dict) and isinstance(value, dict) else value
    for line in find_server.as_written(settings) if got else ():
        output.say(line)
    if is_agreed(f'Add it as "{id}"?', options, default=not said):
        output.set(source=settings["source"])
        add_server(options.replace(name=id), settings, new)


def settings_of(found: Found, way: Way, got: Answers, source: RegistrySource) -> dict[str, Any]:
    """The settings, if its address may be reached. Raises: NotAdded, RegistryFailed."""
    try:
        settings = entry(way, got, source)
    except NotRunnable as error:
        raise find_server.NotAdded(f"{source.name} {source.version} cannot be added: {error}") from None
    if "url" in settings:
        try:
            _judge_address(found, way, got, settings["url"])
        except ValueError:
            raise find_server.NotAdded(
                f"{source.name} {source.version} cannot be added: its address is no URL"
            ) from None
    return settings


def _judge_address(found: Found, way: Way, got: Answers, url: str) -> None:
    """Refuse an address unless the user said it, or its registry may say it. Raises: RegistryFailed, ValueError."""
    if _is_typed(way, got, url):
        return
    parts = urlsplit(url)
    if not parts.hostname:
        raise ValueError("there is no host in it")
    if not _REFERRED.fullmatch(parts.netloc):  # a reference beside a host says nothing of the host
        run(lambda client: client.judge(found.registry, f"{parts.scheme}://{parts.netloc}/"))


def _is_typed(way: Way, got: Answers, url: str) -> bool:
    """True if the user said where the server is: the address begins with an answer that has its whole host."""
    [address] = way.slots_at("address")
    first = [asked.key for asked in address.asked if (address.template or "").startswith(f"{{{asked.variable}}}")]
    pieces = [piece for key in first for piece in got.get(key, ())]
    return any(each.typed and urlsplit(each.text).netloc == urlsplit(url).netloc != "" for each in pieces)


def is_agreed(question: str, options: Context, *, default: bool = True) -> bool:
    """True if somebody says yes, or need not: with `--yes` or `--dry-run` nobody is asked. A no is a failure, and said.
    Raises: UsageError."""
    if options.yes or options.dry_run:
        return True
    if not options.output.is_attended():
        raise UsageError("there is nobody to ask: pass --yes, or --dry-run to see what would be written")
    if agreed(question, default=default):
        return True
    options.output.say("nothing was changed")
    options.output.exit_with(EX_FAILED)
    return False


def refuse_deleted(found: Found) -> None:
    """Refuse a version that its registry has no more for anybody. Raises: NotAdded."""
    if found.listed.status == "deleted":
        server = found.listed.server
        text = f"{server.name} {server.version} was taken out of registry {found.registry.name}:"
        raise find_server.NotAdded(f"{text} {find_server.status_of(found)}")
