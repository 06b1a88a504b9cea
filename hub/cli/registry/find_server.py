"""Find a server by its name in the registries of the configuration: all of them are asked, so that none can pass its
own off as that of another. Then the choices that nobody makes silently: which registry, which way to run it; and the
screens
about it before it is added: its command, its input, the words of its publisher."""

import os
import shlex
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from config.diagnostics import ConfigError, EditError
from config.loading.assemble import Loaded
from config.loading.checks.registries import flaw_of_registry
from config.loading.variables import Unresolved, Variables
from config.registry.entry_of_answers import words_without_answers
from config.registry.places_to_fill import Piece, Slot, fill_template
from config.registry.server_json import LATEST, Listed, one_line
from config.registry.ways_to_run import Way, ways_of
from config.secret_references import fill_references, references_in
from config.settings import in_order
from hub.cli.context import Context, UsageError, ask
from hub.cli.registry.client import Registry, RegistryFailed, run_all
from hub.cli.render.terminal import Screen
from hub.wire.printable import printable
from upstreams.read_secret_references import Unresolvable, read_references


class Known:
    """The registries that there are, in the order in which they are asked, and the upstreams."""

    def __init__(self, loaded: Loaded) -> None:
        self.upstreams = loaded.config.upstreams
        self._registries = in_order(loaded.config.registries)
        main = next(iter(loaded.sources), None)
        self._variables = Variables(loaded.environ or os.environ, main.parent if main else Path.cwd())

    def get(self, name: str) -> Registry:
        """One registry. Raises UsageError: there is none; ConfigError: a reference in its settings leads nowhere."""
        if name not in self._registries:
            raise UsageError(f'there is no registry "{name}"; there are: {", ".join(self._registries)}')
        registry, at = self._registries[name], f"registries.{name}"
        url = self._text(f"{at}.url", registry.url)
        if flaw := flaw_of_registry(url):
            raise ConfigError(f"{at}.url: {flaw}")
        headers = {key: self._text(f"{at}.headers.{key}", value.reveal()) for key, value in registry.headers.items()}
        return Registry(name, url, headers)

    def choose(self, name: str | None) -> Sequence[Registry]:
        """The one of that name, or all. Raises as `get`."""
        return [self.get(each) for each in ([name] if name is not None else self._registries)]

    def _text(self, setting: str, text: str) -> str:
        try:
            expanded = self._variables.expand_for_server(text)
            return fill_references(expanded, read_references(references_in(expanded), environ=self._variables.environ))
        except (Unresolved, Unresolvable) as error:
            raise ConfigError(f"{setting}: {error}") from None


class Found(Struct, frozen=True):
    """A server, and the registry that has it."""

    registry: Registry
    listed: Listed


def find(registries: Sequence[Registry], name: str, version: str, screen: Screen) -> list[Found]:
    """The server in each registry that has it. `screen`: as of `run`. Raises RegistryFailed: one of them does not say:
    what it has may be another server of that name."""
    answers = run_all(lambda client, registry: client.version(registry, name, version), registries, screen)
    found = []
    for registry, listed in zip(registries, answers, strict=True):
        if isinstance(listed, RegistryFailed):
            raise listed
        if listed is not None:
            found.append(Found(registry, listed))
    return found


MAX_ASKED: Final = 5


class NotAdded(EditError):
    """The server is not added, and nothing was written. The text says why."""


def choose_registry(found: Sequence[Found], options: Context, name: str, version: str) -> Found:
    """The one that is meant. Raises NotAdded: no registry has it; UsageError: several have it, and there is nobody to
    ask."""
    if not found:
        wanted = name if version == LATEST else f"{name} {version}"
        of = f"registry {options.registry} does not have" if options.registry else "no registry has"
        raise NotAdded(f"{of} {wanted}; `hubd search {name.partition('/')[2]}` looks for names like it")
    if len(found) == 1:
        return found[0]
    servers = [(each.registry.name, each.listed.server) for each in found]
    titles = [f"{registry}: {server.version}, {one_line(server.description, 80)}" for registry, server in servers]
    names = " or ".join(f"--registry {each.registry.name}" for each in found)
    if not options.output.is_attended():
        raise UsageError(f"{name} is in several registries; pass {names}")
    return found[_number(f"{name} is in several registries, which need not mean the same server:", titles, options)]


def choose_way(found: Found, options: Context) -> Way:
    """The way to run a server that is meant. Raises NotAdded: it cannot be run here; UsageError: there are several, and
    there is nobody to ask."""
    server = found.listed.server
    engine = "podman" if shutil.which("docker") is None and shutil.which("podman") is not None else "docker"
    ways = ways_of(server, engine)
    if not ways:
        where = f": see {one_line(server.website_url)}" if server.website_url else ""
        raise NotAdded(f"{server.name} {server.version} names neither a package nor an address{where}")
    kind = "remote" if options.remote else options.package
    asked_for = [way for way in ways if kind in (None, way.kind)]
    if not asked_for:
        there = ", ".join(dict.fromkeys(way.kind for way in ways))
        raise NotAdded(f"{server.name} {server.version} has no such way to run; it has: {there}")
    usable = [way for way in asked_for if not way.why]
    if not usable:
        reasons = [f"{way.title}: {way.why}" if len(asked_for) > 1 else way.why for way in asked_for]
        raise NotAdded(f"{server.name} {server.version} cannot be added: {'; '.join(dict.fromkeys(reasons))}")
    for way in ways:
        if way.why:
            options.output.remark(f"not as {way.title}: {way.why}")
    if any(way.kind == "remote" and way.transport != "sse" for way in usable):  # HTTP+SSE is older than that
        usable = [way for way in usable if way.transport != "sse"]
    if len(usable) == 1:
        return usable[0]
    if not options.output.is_attended():
        flags = ["--remote" if way.kind == "remote" else f"--package {way.kind}" for way in usable]
        raise UsageError(f"{server.name} can be run in several ways; pass {' or '.join(dict.fromkeys(flags))}")
    titles = [f"{way.title}: {_what(way)}" for way in usable]
    return usable[_number("It can be run in several ways:", titles, options)]


def _what(way: Way) -> str:
    return _address(way) if way.kind == "remote" else way.image or way.address or way.command[-1]


def _address(way: Way) -> str:
    return way.slots_at("address")[0].template or ""


def _number(question: str, titles: Sequence[str], options: Context) -> int:
    """The place of the title that somebody chooses."""
    options.output.say(question)
    for number, title in enumerate(titles, 1):
        options.output.say(f"  {number}  {printable(title)}")
    for _ in range(MAX_ASKED):
        answer = ask(f"Which one? [1-{len(titles)}]")
        if answer.isascii() and answer.isdigit() and 0 < int(answer[:6]) <= len(titles):
            return int(answer[:6]) - 1
    raise UsageError("there was no answer that could be used; nothing was changed")


def head(found: Found) -> str:
    """Name, version, day, registry."""
    listed = found.listed
    day = f", published {printable(listed.published)}" if listed.published else ""
    return f"{listed.server.name} {listed.server.version}{day}, in registry {found.registry.name}"


def status_of(found: Found) -> str:
    """The words of the registry against it; "": nothing."""
    listed = found.listed
    if listed.status == "active":
        return ""
    why = f": {printable(one_line(listed.message, 500))}" if listed.message else ""
    return f"it is {printable(listed.status[:32])}{why}"


def before_answers(found: Found, way: Way, options: Context) -> Iterator[str]:
    """The server as the publisher describes it, with the keys of what will be asked in capitals."""
    yield head(found)
    yield from before_answers_of(found.listed.server.description, way, options)


def before_answers_of(description: str, way: Way, options: Context) -> Iterator[str]:
    """The same without its name."""
    if description:
        yield f"  {printable(one_line(description))}"
    if way.kind == "remote":
        yield f"  opens       {printable(_address(way))}"
        if headers := [slot.name for slot in way.slots_at("header")]:
            yield f"  headers     {printable(', '.join(headers))}"
        yield "What you ask of it, and what you answer, goes to that server."
        return
    yield f"  runs        {printable(' '.join(words_without_answers(way)))}"
    given = {key: value for key, _, value in (pair.partition("=") for pair in options.input)}
    for slot in way.slots_at("variable"):
        yield printable(f"  environment {slot.name}{_value_of(slot, given)}")
    yield "This program gets your rights."


def _value_of(slot: Slot, given: Mapping[str, str]) -> str:
    """The value of a variable, behind its name, as far as it is known before anybody is asked."""
    values = {}
    for asked in slot.asked:
        value = given.get(asked.key) or asked.input.default
        if value is None or (asked.secret and value == given.get(asked.key)):
            is_said = "as given, kept as a secret" if value else "asked for" if asked.required else "if you say it"
            return f": {one_line(asked.key)}, {is_said}"
        values[asked.variable] = Piece(value)
    if slot.template is None:
        return "".join(f"={each.text}" for each in values.values() if each.text)
    fixed = {name: Piece(value) for name, value in slot.fixed}
    return f"={''.join(piece.text for piece in fill_template(slot.template, fixed | values))}"


def as_written(settings: Mapping[str, Any]) -> Iterator[str]:
    """The settings as they will be written; secrets are references there."""
    if "url" in settings:
        yield f"  opens       {printable(settings['url'])}"
        for name, value in settings.get("headers", {}).items():
            yield f"  header      {printable(f'{name}: {value}')}"
    else:
        yield f"  runs        {printable(shlex.join([settings['command'], *settings.get('args', ())]))}"
    for name, value in settings.get("env", {}).items():
        yield f"  environment {printable(f'{name}={value}')}"
