"""Finding a server by its name: all registries are asked, so that none can pass its own off as that of another."""

from collections.abc import Sequence

from msgspec import Struct

from config.registry.server_json import Listed
from hub.cli.registry.client import Client, Registry, RegistryFailed, ask_all, run
from hub.cli.render.screen import Screen


class Found(Struct, frozen=True):
    """A server, and the registry that has it."""

    registry: Registry
    listed: Listed


def find(registries: Sequence[Registry], name: str, version: str, screen: Screen | None = None) -> list[Found]:
    """The server in each registry that has it. `screen`: as of `run`.

    Raises:
        RegistryFailed: one of them does not say: what it has may be another server of that name.
    """

    async def ask(client: Client) -> list[Listed | RegistryFailed | None]:
        return await ask_all(lambda registry: client.version(registry, name, version), registries)

    found = []
    for registry, listed in zip(registries, run(ask, screen), strict=True):
        if isinstance(listed, RegistryFailed):
            raise listed
        if listed is not None:
            found.append(Found(registry, listed))
    return found


def judge(registry: Registry, url: str) -> None:
    """Raise unless a server may be reached at `url`, which a registry said.

    Raises:
        RegistryFailed: it may not.
    """

    async def ask(client: Client) -> None:
        await client.judge(registry, url)

    run(ask)
