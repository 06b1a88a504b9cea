"""`hubd add NAME[@VERSION]`: a server of a registry, with its exact version."""

import re
from collections.abc import Mapping
from contextlib import ExitStack
from functools import partial
from typing import Any, Final
from urllib.parse import urlsplit

from config.registry.entry_of_answers import Answers, entry
from config.registry.places_to_fill import NotRunnable
from config.registry.server_json import RegistrySource, id_of, source_of, split
from config.registry.ways_to_run import Way
from hub.cli.context import Context, UsageError
from hub.cli.registry import find_server
from hub.cli.registry.answer_and_add import Chosen, add_chosen
from hub.cli.registry.client import RegistryFailed, run
from hub.cli.registry.find_server import Found, Known, find

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
    source = RegistrySource(found.registry.name, name, server.version)
    said = find_server.status_of(found)
    with ExitStack() as stack:
        bundle = None
        if way.kind == "mcpb":
            from hub.cli.bundles.add_bundle import open_listed

            bundle = stack.enter_context(open_listed(found.registry, way, id, output))
            way = bundle.way
        for line in find_server.before_answers(found, way, options):
            output.say(line)
        for line in bundle.describe() if bundle is not None else ():
            output.say(line)
        if said:
            output.warn(f"{name}: {said}")
        make = partial(settings_of, found, way, source=source)
        chosen = Chosen(id, way, make) if bundle is None else bundle.choose(id, source)
        add_chosen(options, own, chosen, default=not said)


def settings_of(found: Found, way: Way, got: Answers, *, source: RegistrySource) -> dict[str, Any]:
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


def refuse_deleted(found: Found) -> None:
    """Refuse a version that its registry has no more for anybody. Raises: NotAdded."""
    if found.listed.status == "deleted":
        server = found.listed.server
        text = f"{server.name} {server.version} was taken out of registry {found.registry.name}:"
        raise find_server.NotAdded(f"{text} {find_server.status_of(found)}")
