"""`hubd update NAME`: the newest version of a server of a registry, once somebody has seen what changes."""

import os
import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from difflib import SequenceMatcher
from typing import Any
from urllib.parse import urlsplit

from config.editing.draft_across_files import Draft
from config.hosts.secret_literals import NewSecrets
from config.registry.answers_in_entry import answers_in
from config.registry.entry_of_answers import Answers, check_answer
from config.registry.places_to_fill import Asked, Piece, all_asked
from config.registry.server_json import LATEST, Listed, RegistrySource, is_older, source_of
from config.registry.ways_to_run import ENGINES, Way, ways_of
from config.secrets.store import SecretStore
from hub.cli.bundles.folders import folder_in
from hub.cli.configuration.make_change import make_change
from hub.cli.context import Context, Output, UsageError
from hub.cli.hosts.change_host_files import configuration_diff
from hub.cli.parser import load_when_run
from hub.cli.registry.add_from_registry import refuse_deleted, settings_of
from hub.cli.registry.answer_and_add import absolute, answers, is_agreed
from hub.cli.registry.client import Client, Registry, run
from hub.cli.registry.find_server import Found, Known, NotAdded, head, status_of
from hub.cli.render.terminal import Screen

SETTINGS = ("command", "args", "cwd", "env", "url", "headers", "transport", "source")
"""The settings that an entry of a registry has, in the order in which a change of them is told."""

_VERSION = re.compile(r"(?<=.)(?:@|==).*|:[^/]*$")
"""The end of `ID@VERSION`, `ID==VERSION` and `IMAGE:TAG`."""


def update(options: Context, output: Output) -> None:
    """Update one server. Raises: NotAdded, RegistryFailed, UsageError, EditError."""
    known = Known(options.loaded)
    settings = Draft(options.config, os.environ).settings_of(options.name)
    source = source_of(str(settings.get("source", "")))
    if (folder := folder_in(options.name, settings)) is not None:
        return load_when_run("hub.cli.bundles.update_bundle:update_bundle")(options, settings, folder)
    if options.file or options.ask:
        raise UsageError(f"{options.name} does not run from a bundle, which FILE and --ask are for")
    if source is None:
        raise NotAdded(f"{options.name} did not come from a registry, so nothing says what its newest version is")
    found, old = ask_newest(known.get(source.registry), source, output.progress)
    if not is_newer(options, found, source):
        return
    new = NewSecrets(SecretStore.open())
    changes = _new_values(options, settings, found, old, new)
    output.say(f"{head(found)}; {options.name} has {source.version}")
    if said := status_of(found):
        output.warn(f"{source.name}: {said}")
    write(options, settings, changes, new)


def is_newer(options: Context, found: Found, source: RegistrySource) -> bool:
    """True if what was found is newer than what there is; else that is said."""
    output, version = options.output, found.listed.server.version
    output.set(source=str(source), newest=version)
    if version == source.version:
        said = status_of(found)
        text = f"{options.name} has the newest version, {version}{f'; {said}' if said else ''}"
    elif is_older(version, source.version):
        text = f"{options.name} has {source.version}, which is ahead of the newest that is named, {version}"
    else:
        return True
    output.set(did="unchanged")
    output.say(text)
    return False


def ask_newest(registry: Registry, source: RegistrySource, screen: Screen) -> tuple[Found, Listed | None]:
    """The newest version, and the one that there is, if the registry still has it."""

    async def ask(client: Client) -> tuple[Listed | None, Listed | None]:
        newest = await client.version(registry, source.name, LATEST)
        return newest, await client.version(registry, source.name, source.version)

    newest, old = run(ask, screen)
    if newest is None:
        raise NotAdded(f"registry {registry.name} does not have {source.name} any more")
    found = Found(registry, newest)
    refuse_deleted(found)
    return found, old


def _new_values(
    options: Context, settings: Mapping[str, Any], found: Found, old: Listed | None, new: NewSecrets
) -> dict[str, Any]:
    """The new values of those settings that change."""
    server, kind = found.listed.server, _kind(settings)
    way = _nearest_way(found.listed, kind, settings)
    if way.why:
        raise NotAdded(f"{server.name} {server.version} cannot be taken: {way.why}")
    if options.yes and (other := _other_program(way, settings)):
        text = f"{options.name} would run {other}, which it does not run now: if you trust that, run `hubd update"
        raise NotAdded(f"{text} {options.name}` at a terminal, without --yes")
    before = _nearest_way(old, kind, settings) if old is not None else Way(kind=kind, why="it is gone")
    carried, fits = ({}, False) if before.why else answers_in(before, settings)
    if not fits:
        options.output.warn(f"{options.name} was changed by hand, or its old version is gone: what runs is made anew")
    asked_before = {asked.key: asked for _, asked in all_asked(before.slots)}
    good = dict(still_good(way, asked_before, carried, settings))
    got = answers(way, options, options.name, new, good, asked_before)
    made = settings_of(found, way, got, source=RegistrySource(found.registry.name, server.name, server.version))
    keep_own(made, settings, {slot.name for slot in before.slots})
    if "transport" in settings and kind == "remote":
        made.setdefault("transport", "auto")
    if made.get("headers") and _host(made) != _host(settings):
        names = ", ".join(made["headers"])
        options.output.warn(f"{_host(made)} would get what {_host(settings)} gets now: {names}")
    return {name: made[name] for name in SETTINGS if name in made and made[name] != settings.get(name)}


def keep_own(made: dict[str, Any], settings: Mapping[str, Any], published: Collection[str]) -> None:
    """Keep the variables and headers that the user added, and the order that there is."""
    for table in ("env", "headers"):
        present, wanted = _table(settings, table), _table(made, table)
        kept = {name: value for name, value in present.items() if name in wanted or name not in published}
        if kept or table in settings:
            made[table] = kept | wanted


def still_good(
    way: Way, asked_before: Mapping[str, Asked], carried: Answers, settings: Mapping[str, Any]
) -> Iterator[tuple[str, tuple[Piece, ...]]]:
    """The answers that the new version takes as well. One for something else opens no folder, and is no address."""
    for slot, asked in all_asked(way.slots):
        pieces = carried.get(asked.key, ())
        if not pieces or (asked.typed and not asked_before[asked.key].typed):
            continue
        if slot.place == "address" and not all(_is_there(piece, settings) for piece in pieces):
            pieces = tuple(Piece(piece.text) for piece in pieces)
        try:
            for piece in pieces:
                check_answer(slot, asked, piece.text, absolute)
        except ValueError:
            continue
        yield asked.key, pieces


def _is_there(piece: Piece, settings: Mapping[str, Any]) -> bool:
    """True if an answer names no other host than the one that the server has, so that it may name this one again."""
    try:
        host = urlsplit(piece.text).netloc
    except ValueError:
        return False
    return host in ("", _host(settings))


def _kind(settings: Mapping[str, Any]) -> str:
    """The way that an entry was made by."""
    if "url" in settings:
        return "remote"
    command = settings.get("command")
    kind = {"npx": "npm", "uvx": "pypi", **dict.fromkeys(ENGINES, "oci")}.get(str(command))
    if kind is None:
        raise NotAdded(f"its command is {command}, which is not what a registry's entry runs: it was changed by hand")
    return kind


def _nearest_way(listed: Listed, kind: str, settings: Mapping[str, Any]) -> Way:
    """The way of that kind which is the most like that of the entry; with `why`, if none can be taken."""
    engine = settings.get("command")
    is_sse = settings.get("transport") == "sse"
    ways = [way for way in ways_of(listed.server, engine if engine in ENGINES else "docker") if way.kind == kind]
    again = f"`hubd remove` takes it out, and then `hubd add {listed.server.name}` adds what it is now"
    return min(
        ways,
        key=lambda way: ((way.transport == "sse") != is_sse and kind == "remote", way.why != ""),
        default=Way(kind=kind, why=f"it does not run as {kind} any more; {again}"),
    )


def _other_program(way: Way, settings: Mapping[str, Any]) -> str:
    """The packages and programs of a way, without versions, that the entry's command line does not have; "": none."""
    there = {_VERSION.sub("", str(word)) for word in settings.get("args") or ()}
    words = (_VERSION.sub("", word) for word in (*way.command[1:], way.image))
    return " ".join(word for word in words if word not in there and not word.startswith("-"))


def _host(settings: Mapping[str, Any]) -> str:
    try:
        return urlsplit(str(settings.get("url", ""))).netloc
    except ValueError:
        return ""


def _table(settings: Mapping[str, Any], name: str) -> dict[str, Any]:
    value = settings.get(name)
    return value if isinstance(value, dict) else {}


def _say(settings: Mapping[str, Any], changes: Mapping[str, Any]) -> Iterator[str]:
    """The differences, each command, argument, variable and header by its name; no values of variables."""
    for name, value in changes.items():
        before = settings.get(name)
        if name == "args":
            yield from _say_words([str(word) for word in before or ()], value)
        elif name in ("env", "headers"):
            yield from _say_table("variable" if name == "env" else "header", _table(settings, name), value)
        elif name != "source":
            yield f"{name}: {before} becomes {value}" if before is not None else f"{name}: {value}, new"


def _say_words(before: list[str], after: list[str]) -> Iterator[str]:
    for what, one, two, three, four in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if what == "replace":
            yield f"argument: {' '.join(before[one:two])} becomes {' '.join(after[three:four])}"
        elif what != "equal":
            words = " ".join(before[one:two] if what == "delete" else after[three:four])
            yield f"argument: {words}, {'gone' if what == 'delete' else 'new'}"


def _say_table(kind: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
    for name in {**before, **after}:
        if name not in after:
            yield f"{kind} {name}: gone"
        elif name not in before:
            yield f"{kind} {name}: new"
        elif before[name] != after[name]:
            yield f"{kind} {name}: another value"


def write(
    options: Context,
    settings: Mapping[str, Any],
    changes: Mapping[str, Any],
    new: NewSecrets,
    prepare: AbstractContextManager[None] | None = None,
) -> None:
    """Say what changes, and change it if somebody agrees, within `prepare`."""
    output = options.output
    told = list(_say(settings, changes))
    output.set(changes=told)
    for line in told:
        output.say(f"  {line}")

    def assign(draft: Draft) -> tuple[str, str]:
        for name, value in changes.items():
            draft.assign(options.name, name, value)
        return "updated", f"updated {options.name}"

    if not options.dry_run:
        trial = Draft(options.config, os.environ)
        assign(trial)
        for each in trial.changes():
            output.say(configuration_diff(each.path, each.before or "", each.after))
        if not is_agreed(f"Update {options.name}?", options):
            return
    with nullcontext() if options.dry_run or prepare is None else prepare:
        make_change(options, assign, new=new, waits=settings.get("disabled") is not True, offers=True)
