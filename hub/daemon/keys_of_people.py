"""Keys of people: a person keeps a secret of their own, by their token, for servers at which everybody has an account.

    POST /secrets   {"name": NAME, "value": VALUE}; null: it is forgotten

There is such a page only while a server of the configuration takes secrets of people, and only for their names. The
hub's owner keeps his own where the hub runs: the hub's token stands in files of hosts.
"""

from collections.abc import Collection
from typing import Final

import msgspec
import trio
from msgspec import Struct

from config.diagnostics import ConfigError, EditError
from config.secrets.kept_secrets import MAX_VALUE_BYTES
from config.secrets.store import SecretStore
from config.secrets.uses import uses_by_people
from config.settings import OWNER
from hub.app import Hub
from hub.net.http_request import HttpRequest
from hub.net.response_writer import HttpResponse
from hub.wire.jsonrpc import encode

PATH: Final = "/secrets"
MAX_BODY_BYTES: Final = 6 * MAX_VALUE_BYTES
"""Each byte of a value may be written as an escape."""
OWNERS: Final = "The hub's owner keeps secrets by `hubd secret set NAME` where the hub runs"
OF_PROFILE: Final = (
    "This token opens a profile and nothing else: keep the secret by another token of yours, or have the hub's owner "
    "run `hubd secret set NAME --for {}`"
)


class _Wish(Struct, forbid_unknown_fields=True):
    name: str
    value: str | None


class KeysPage:
    """Answers `POST /secrets`, one at a time."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._turn = trio.CapacityLimiter(1)

    async def handle(self, request: HttpRequest, response: HttpResponse) -> None:
        """Keep or forget a secret of who asks."""
        status, text = await self._answer(request)
        response.reply(status, encode({"done" if status == 200 else "error": text}))

    async def _answer(self, request: HttpRequest) -> tuple[int, str]:
        identity, names = request.identity, uses_by_people(self._hub.servers.configs)
        if identity is None or identity.principal == OWNER:
            return 403, OWNERS
        if identity.profile:
            return 403, OF_PROFILE.format(identity.principal)
        if len(request.body) > MAX_BODY_BYTES:
            return 413, f"A secret has at most {MAX_VALUE_BYTES >> 10} KB"
        try:
            wish = msgspec.json.decode(request.body, type=_Wish)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return 400, 'Expected {"name": NAME, "value": VALUE}'
        if wish.name not in names:
            return 404, f"No server here takes a secret of yours by that name; there are: {_list(names)}"
        try:
            await trio.to_thread.run_sync(_keep, identity.principal, wish, limiter=self._turn)
        except (EditError, ConfigError) as error:
            return 400, str(error)
        did = "forgotten" if wish.value is None else "kept"
        self._hub.audit.note("access", what=f"secret {did}", name=wish.name, p=identity.principal)
        for upstream in self._hub.supervisor.upstreams.values():
            upstream.forget_keys(identity.principal)
        return 200, f"{wish.name} is {did}"


def _keep(principal: str, wish: _Wish) -> None:
    store = SecretStore.open(principal=principal)
    if wish.value is not None:
        store.keep(wish.name, wish.value)
    elif wish.name in store.names():
        store.remove(wish.name)


def _list(names: Collection[str]) -> str:
    return ", ".join(sorted(names)) or "none"
