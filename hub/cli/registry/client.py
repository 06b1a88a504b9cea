"""Requests to a registry: bounded in time, size and pages, and to no other host than the one that was configured."""

import os
from collections.abc import Awaitable, Callable, Collection, Mapping
from os import EX_UNAVAILABLE
from typing import Any, Final, TypeVar
from urllib.parse import urljoin, urlsplit

import outcome
import trio
from msgspec import Struct

from config.registry import server_json
from config.settings import LOOPBACK
from hub.cli.context import EX_FAILED, CommandFailed
from hub.cli.render.terminal import Screen
from upstreams.fetch.fetcher import Fetcher
from upstreams.fetch.terms_and_answers import Allowed, Fetched, FetchFailed

TIMEOUT_S: Final = 8.0
SAY_AFTER_S: Final = 1.5
"""Seconds after which somebody at a terminal is told what is waited for."""
DRAW_S: Final = 0.5
MAX_BODY_BYTES: Final = 5 << 20
MAX_PAGES: Final = 3
DOWNLOAD_S: Final = 300.0
MAX_BUNDLE_BYTES: Final = 256 << 20
AT_ONCE: Final = 8
"""Questions that are asked at the same time."""
MAX_REDIRECTS: Final = 3
_MOVED: Final = frozenset({301, 302, 303, 307, 308})
_GONE: Final = frozenset({404, 410})
Item = TypeVar("Item")
T = TypeVar("T")


class RegistryFailed(CommandFailed):
    """A registry does not say what it was asked, or says what is not taken. The text says why."""

    def __init__(self, text: str, code: int = EX_UNAVAILABLE, *, why: str = "", registry: str = "") -> None:
        super().__init__(text)
        self.code = code
        self.why = why
        """The reason alone, where the registry does not answer; else ""."""
        self.registry = registry

    @property
    def advice(self) -> str:
        """The end of the sentence for who wants to add a server: the way that works all the same; "": it is said."""
        return "; `hubd add NAME -- COMMAND` works without it" if self.why else ""


class Registry(Struct, frozen=True, repr_omit_defaults=True):
    """A registry that can be asked: references in its settings are resolved."""

    name: str
    url: str
    headers: Mapping[str, str] = {}

    def __repr__(self) -> str:
        return f"<Registry {self.name}>"

    @property
    def allowed(self) -> Allowed:
        """Who may be asked because somebody configured this registry: itself, and on loopback others there."""
        host = urlsplit(self.url).hostname or ""
        return Allowed(private_hosts=frozenset({host}), loopback_http=host in LOOPBACK)

    def failure(self, why: str) -> RegistryFailed:
        return RegistryFailed(f"cannot reach registry {self.name}: {why}", why=why, registry=self.name)


def run(ask: Callable[["Client"], Awaitable[T]], screen: Screen | None = None) -> T:
    """The result of `ask`, with a client of its own. `screen`: where it is shown what is waited for. Raises:
    RegistryFailed."""

    async def ask_and_say() -> T:
        client = Client(Fetcher(os.environ, timeout_s=TIMEOUT_S, max_body_bytes=MAX_BODY_BYTES))
        async with trio.open_nursery() as nursery:
            if screen is not None and screen.live:
                nursery.start_soon(_say_asked, client, screen)
            found = await outcome.acapture(ask, client)
            nursery.cancel_scope.cancel()
        return found.unwrap()

    try:
        return trio.run(ask_and_say)
    except BaseExceptionGroup as group:
        if group.subgroup(KeyboardInterrupt) is not None:  # it came while some task ran
            raise KeyboardInterrupt from None
        raise


def run_all(
    ask: Callable[["Client", Item], Awaitable[T]], items: Collection[Item], screen: Screen
) -> list[T | RegistryFailed]:
    """The answer to `ask` of each item, in their order, or the reason why there is none. Some are asked at the same
    time. `screen`: as of `run`."""
    found: dict[int, T | RegistryFailed] = {}

    async def ask_one(client: Client, at: int, item: Item, at_once: trio.CapacityLimiter) -> None:
        async with at_once:
            try:
                found[at] = await ask(client, item)
            except RegistryFailed as error:
                found[at] = error

    async def ask_all(client: Client) -> None:
        at_once = trio.CapacityLimiter(AT_ONCE)
        async with trio.open_nursery() as nursery:
            for at, item in enumerate(items):
                nursery.start_soon(ask_one, client, at, item, at_once)

    run(ask_all, screen)
    return [found[at] for at in range(len(items))]


async def _say_asked(client: "Client", screen: Screen) -> None:
    began_at = trio.current_time()
    await trio.sleep(SAY_AFTER_S)
    with screen.live_lines() as redraw:
        while True:
            names = " and ".join(dict.fromkeys(client.asked))
            redraw([f"asking registry {names} ... {trio.current_time() - began_at:.0f} s"] if names else [])
            await trio.sleep(DRAW_S)


class Client:
    """The questions to registries. One that does not answer is not asked again."""

    def __init__(self, fetcher: Fetcher) -> None:
        self._fetcher = fetcher
        self._silent: dict[str, RegistryFailed] = {}
        self.asked: list[str] = []
        """The registries whose answers are waited for."""

    async def search(self, registry: Registry, text: str) -> server_json.RegistryPage:
        """The first pages, as one, of servers whose names hold `text`, in their newest versions. Raises:
        RegistryFailed."""
        found: list[server_json.Listed] = []
        unreadable, cursor = 0, ""
        for _ in range(MAX_PAGES):
            page = await self._page(registry, text, cursor)
            found += page.servers
            unreadable += page.unreadable
            cursor = page.next_cursor if page.next_cursor != cursor else ""
            if not cursor:
                break
        return server_json.RegistryPage(tuple(found), unreadable, cursor)

    async def version(self, registry: Registry, name: str, version: str) -> server_json.Listed | None:
        """One version of a server; None: there is none. Raises RegistryFailed: it does not say, or speaks of another
        server."""
        answer = await self._get(registry, server_json.versions_path(name, version))
        if answer is None:
            await self._page(registry, name)  # it is no registry, if it has no list
            return None
        try:
            found = server_json.read_listed(answer)
        except server_json.Unreadable as error:
            text = f"what registry {registry.name} says of {name} cannot be used: {error}"
            raise RegistryFailed(text, EX_FAILED) from None
        if found.server.name != name or version not in ("latest", found.server.version):
            text = f"registry {registry.name} was asked for {name} and answers with another server"
            raise RegistryFailed(text, EX_FAILED)
        return found

    async def versions(self, registry: Registry, name: str) -> list[server_json.Listed]:
        """All versions of a server that can be read, deleted ones as well. Raises: RegistryFailed."""
        answer = await self._get(registry, server_json.versions_path(name))
        if answer is None:
            await self._page(registry, name)  # it is no registry, if it has no list
            return []
        return [each for each in _read_page(registry, answer).servers if each.server.name == name]

    async def judge(self, registry: Registry, url: str) -> None:
        """Raise unless a server may be reached at `url`, which the registry said. Raises: RegistryFailed."""
        try:
            await self._fetcher.judge(url, registry.allowed)
        except FetchFailed as error:
            text = f"the address that registry {registry.name} has of it is not taken: {error.text}"
            code = EX_FAILED if error.refused else EX_UNAVAILABLE
            raise RegistryFailed(f"{text}; `hubd add NAME URL` adds it by hand", code) from None

    async def download(self, registry: Registry, url: str) -> bytes:
        """The bundle at `url`, which the registry said, wherever its host sends on to: it is known by its hash. Raises:
        RegistryFailed."""
        fetcher = Fetcher(os.environ, timeout_s=DOWNLOAD_S, max_body_bytes=MAX_BUNDLE_BYTES)
        what = f"the bundle that registry {registry.name} names"
        try:
            for _ in range(MAX_REDIRECTS + 1):
                self.asked.append(_origin(url)[1])
                fetched = await fetcher.get(url, registry.allowed, headers={"accept": "application/octet-stream, */*"})
                self.asked.pop()
                if fetched.status == 200:
                    return fetched.body
                if fetched.status not in _MOVED:
                    raise RegistryFailed(f"{what} is not there: its host answers with status {fetched.status}")
                url = urljoin(url, fetched.headers.get("location", ""))
        except FetchFailed as error:
            code = EX_FAILED if error.refused else EX_UNAVAILABLE
            raise RegistryFailed(f"{what} cannot be had: {error.text}", code) from None
        except ValueError:
            pass
        raise RegistryFailed(f"{what} cannot be had: its host sends on again and again, or to no address")

    async def _page(self, registry: Registry, text: str, cursor: str = "") -> server_json.RegistryPage:
        answer = await self._get(registry, server_json.list_path(text, cursor))
        if answer is None:
            raise registry.failure(f"there is no registry at its address; is [registries.{registry.name}] url right?")
        return _read_page(registry, answer)

    async def _get(self, registry: Registry, path: str) -> dict[str, Any] | None:
        """The object at a path; None: there is nothing."""
        self.asked.append(registry.name)
        try:
            fetched = await self._follow(registry, registry.url.rstrip("/") + path)
        finally:
            self.asked.remove(registry.name)
        if fetched.status in _GONE:
            return None
        if fetched.status != 200:
            raise registry.failure(_say(fetched))
        found = fetched.json_object()
        if found is None:
            raise registry.failure("its answer is no JSON object")
        return found

    async def _follow(self, registry: Registry, url: str) -> Fetched:
        """The answer, also where the registry sends on to another place of the same host."""
        if (silent := self._silent.get(registry.name)) is not None:
            raise silent
        begin = _origin(url)
        for _ in range(MAX_REDIRECTS + 1):
            try:
                fetched = await self._fetcher.get(url, registry.allowed, headers=registry.headers)
            except FetchFailed as error:
                failure = self._silent[registry.name] = registry.failure(error.text)
                raise failure from None
            if fetched.status not in _MOVED:
                return fetched
            try:
                url = urljoin(url, fetched.headers.get("location", ""))
                elsewhere = _origin(url) != begin
            except ValueError:
                raise registry.failure("it sends on to something that is no address") from None
            if elsewhere:
                text = "it sends on to another host, which is not followed; if it has moved, write its new address"
                raise registry.failure(f"{text} into [registries.{registry.name}] url")
        raise registry.failure("it sends on again and again")


def _read_page(registry: Registry, answer: Mapping[str, Any]) -> server_json.RegistryPage:
    try:
        return server_json.read_page(answer)
    except server_json.Unreadable as error:
        raise registry.failure(f"its answer makes no sense: {error}") from None


def _origin(url: str) -> tuple[str, str, int | None]:
    parts = urlsplit(url)
    return parts.scheme, (parts.hostname or "").lower(), parts.port


def _say(fetched: Fetched) -> str:
    """The meaning of a status for who asked."""
    if fetched.status in (401, 403):
        return f"it refuses access (status {fetched.status}); say who you are with `headers` of the registry"
    if fetched.status == 429:
        wait = fetched.headers.get("retry-after", "")
        when = f"in {wait} s" if wait.isascii() and wait.isdigit() and len(wait) < 6 else "later"
        return f"it was asked too often (status 429); try again {when}"
    return f"it answers with status {fetched.status}"
