"""`hubd add NAME[@VERSION]`: a server of a registry, with its exact version."""

import re
from collections.abc import Mapping
from functools import partial
from typing import Any, Final
from urllib.parse import urlsplit

from config.hosts.secret_literals import NewSecrets
from config.registry.entry import Answers, entry
from config.registry.server_json import RegistrySource, id_of, source_of, split
from config.registry.slots import NotRunnable
from config.registry.ways_to_run import Way
from config.secrets.store import SecretStore
from hub.cli.configuration.editing import add_server
from hub.cli.context import EX_FAILED, Context, UsageError, agreed
from hub.cli.registry import choosing
from hub.cli.registry.asking import answers
from hub.cli.registry.client import run
from hub.cli.registry.lookup import Found, Known, find

_REFERRED: Final = re.compile(r"\$\{[^{}]+\}(?::\d{1,5})?")
"""A host that is wholly the user's own reference."""


@partial(choosing.report_failures, advises=True)
def add_listed(options: Context, own: Mapping[str, Any]) -> int:
    """Add a server of a registry. `own`: settings that the command line says besides.

    Raises:
        NotAdded, RegistryFailed, UsageError: it is not added, and nothing was written.
    """
    try:
        name, version = split(options.name)
    except ValueError as error:
        raise UsageError(str(error)) from None
    known, output = Known(options.loaded), options.output
    there = find(known.choose(options.registry), name, version, output.progress)
    found = choosing.choose_registry(there, options, name, version)
    server = found.listed.server
    refuse_deleted(found)
    id = options.called or id_of(name, known.upstreams)
    for other, upstream in () if options.called else known.upstreams.items():
        source = source_of(upstream.source)
        if source is not None and source.name == name:
            todo = f"`hubd update {other}` takes the newest version, and --as NAME adds it once more"
            raise choosing.NotAdded(f'{name} is there already, as "{other}" ({source.version}): {todo}')
    way = choosing.choose_way(found, options)
    for line in choosing.before_answers(found, way):
        output.say(line)
    if said := choosing.status_of(found):
        output.warn(f"{name}: {said}")
    new = NewSecrets(SecretStore.open())
    got = answers(way, options, id, new, {})
    settings = settings_of(found, way, got, RegistrySource(found.registry.name, name, server.version))
    for setting, value in own.items():  # of tables both count
        below = settings.get(setting)
        settings[setting] = below | value if isinstance(below, dict) and isinstance(value, dict) else value
    for line in choosing.as_written(settings) if got else ():
        output.say(line)
    if not is_agreed(f'Add it as "{id}"?', options, default=not said):
        output.say("nothing was changed")
        return EX_FAILED
    output.set(source=settings["source"])
    return add_server(options.replace(name=id), settings, new)


def settings_of(found: Found, way: Way, got: Answers, source: RegistrySource) -> dict[str, Any]:
    """The settings, if its address may be reached. Raises: NotAdded, RegistryFailed."""
    try:
        settings = entry(way, got, source)
    except NotRunnable as error:
        raise choosing.NotAdded(f"{source.name} {source.version} cannot be added: {error}") from None
    if "url" in settings:
        try:
            _judge_address(found, way, got, settings["url"])
        except ValueError:
            raise choosing.NotAdded(f"{source.name} {source.version} cannot be added: its address is no URL") from None
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
    """True if somebody says yes, or need not: with `--yes` or `--dry-run` nobody is asked. Raises: UsageError."""
    if options.yes or options.dry_run:
        return True
    if not options.output.is_attended():
        raise UsageError("there is nobody to ask: pass --yes, or --dry-run to see what would be written")
    return agreed(question, default=default)


def refuse_deleted(found: Found) -> None:
    """Refuse a version that its registry has no more for anybody. Raises: NotAdded."""
    if found.listed.status == "deleted":
        server = found.listed.server
        raise choosing.NotAdded(
            f"{server.name} {server.version} was taken out of registry {found.registry.name}:"
            f" {choosing.status_of(found)}"
        )
