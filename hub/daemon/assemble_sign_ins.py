"""Everything of sign-ins at upstreams that one hub has: credentials, requests, what is kept, and the flow.

Each part is imported and made when it is first needed: the credentials when a session with a URL opens, the flow when
somebody wants to sign in, the key that seals what is kept. Where that is to come from is decided by the configuration
alone: if that place is silent nothing is opened or sealed, and no other key is made.
"""

import os
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import trio

from config.diagnostics import ConfigError
from config.loading.checks.cache_replica_and_keys import KEY_BYTES, keys_in
from config.loading.split_accounts import whole_name
from config.safe_reading import read_plain
from config.secrets.keyring import KeyringRefused, NoKeyring, SystemKeyring
from config.security_settings import OAuthConfig
from config.settings import HubConfig, UpstreamConfig
from hub.app import WALL, Hub
from hub.daemon.bind_http import ANYWHERE, is_met_at
from hub.daemon.http_listener import HttpListener
from hub.link.module_loading import load
from hub.link.sealing import Keys, keys_from_setting
from hub.net.look_after_connections import HttpRequest, HttpResponse

if TYPE_CHECKING:
    from hub.sign_in.parse_redirect_uri import Listening
    from hub.sign_in.sign_ins import SignIns
    from upstreams.fetch.fetcher import Fetcher
    from upstreams.oauth.credential import UpstreamCredential
    from upstreams.oauth.credentials_by_upstream import Accounts
    from upstreams.oauth.store.grant_store import GrantStore
    from upstreams.oauth.store.key_seal import KeySeal

CREDENTIAL: Final = "hubd-oauth-key"
"""Its name among the credentials of the service manager, and in the keyring."""
KEYRING_S: Final = 5.0
MAX_BYTES: Final = 4096


def oauth_seal(
    config: HubConfig,
    keys: Keys,
    state: Path,
    environ: Mapping[str, str] = os.environ,
    keyring: Callable[[Path], SystemKeyring] = lambda state: SystemKeyring(state, patience_s=KEYRING_S),
) -> "KeySeal":
    """The seal of this hub. `keys`: those of the hub, used if nothing else is said; `state`: its state directory."""
    from upstreams.oauth.store.key_seal import KeySeal

    directory = environ.get("CREDENTIALS_DIRECTORY", "")
    if directory and (path := Path(directory, CREDENTIAL)).exists():
        return KeySeal(
            "credential", lambda: _read_keys("credential", lambda: read_plain(path, MAX_BYTES)[0].decode("ascii"))
        )
    if config.sealing_key is not None:
        setting = config.sealing_key
        return KeySeal("sealing_key", lambda: keys_from_setting(setting))
    if config.oauth.keyring:
        return KeySeal("keyring", lambda: _read_keys("keyring", lambda: _find_in_keyring(keyring(state))))
    return KeySeal("keys", lambda: keys)


def _read_keys(source: str, read: Callable[[], str]) -> Keys:
    from upstreams.oauth.store.key_seal import KeyLocked

    try:
        return Keys(*keys_in(read()))
    except (NoKeyring, KeyringRefused, OSError, ValueError, ConfigError):
        raise KeyLocked(source) from None


def _find_in_keyring(keyring: SystemKeyring) -> str:
    text = keyring.get(CREDENTIAL)
    if text is None:
        text = secrets.token_bytes(KEY_BYTES).hex()
        keyring.set(CREDENTIAL, text)
        text = keyring.get(CREDENTIAL) or text  # another process may have made one at the same time
    return text


OF_CREDENTIALS: Final = (
    "upstreams.fetch.fetcher",
    "upstreams.oauth.credentials_by_upstream",
    "upstreams.oauth.store.private_folder",
)
OF_THE_FLOW: Final = (
    "hub.sign_in.connection_owner",
    "hub.sign_in.answer_browsers",
    "hub.sign_in.ask_authorization_server",
    "upstreams.oauth.renewal",
    "upstreams.oauth.store.grant_store",
)


@dataclass(eq=False, repr=False)
class SignInParts:
    """The parts of one hub, which `serves` it once it is made. `run` has to run beside it."""

    _folder: Path
    """The state directory."""
    _keys: Keys
    """They seal what is kept there."""
    _environ: Mapping[str, str]
    _clock: Callable[[], float]
    """It counts while the machine sleeps."""
    hub: Hub = field(init=False)
    _listener: HttpListener | None = None
    _used: trio.Event = field(default_factory=trio.Event)

    def serves(self, hub: Hub, listener: HttpListener) -> None:
        """Note the hub that these are of, and its listener; its hosts send people here to sign in."""
        self.hub, self._listener = hub, listener
        hub.follow_sign_ins(self.guide)

    async def credential(self, name: str, config: UpstreamConfig, principal: str) -> "UpstreamCredential | None":
        """The credential that sessions of `principal` show an upstream; None: the configured headers are all there
        is."""
        if config.url is None:
            return None
        await load(*OF_CREDENTIALS)
        return self.accounts.credential(name, config, principal)

    async def lister(self, name: str) -> str:
        """The principal as whom lists are read that everybody sees the same of, where each has an account."""
        await load(*OF_CREDENTIALS)
        return await self.accounts.first_of(name)

    def find(self, name: str, principal: str) -> "UpstreamCredential | None":
        """The credential that sessions have asked for; nothing is loaded for that."""
        return None if "accounts" not in self.__dict__ else self.accounts.find(self.name_of(name), principal)

    async def run(self) -> None:
        """Carry out what nobody waits for, until cancelled."""
        await self._used.wait()
        names = [*self._sign_in_names()]
        self.accounts.spawn("Looking through old sign-ins", lambda: self.accounts.start(names))
        await self.accounts.run()

    async def ready(self) -> None:
        """Have everything loaded that a sign-in needs. To be awaited before `accounts` or `sign_ins` are used."""
        await load(*OF_CREDENTIALS, *OF_THE_FLOW)

    async def handle(self, request: HttpRequest, response: HttpResponse) -> None:
        """Answer a browser."""
        if (rest := (await self.guide()).handle(request, response)) is not None:
            await rest

    async def guide(self) -> "SignIns":
        """The flow, loaded, which knows where hosts send people."""
        await self.ready()
        return self.sign_ins

    # --- parts --------------------------------------------------------------------------------------------------------

    @cached_property
    def fetch(self) -> "Fetcher":
        """The door to servers on the web."""
        from upstreams.fetch.fetcher import Fetcher

        return Fetcher(self._environ, is_own_listener=self._is_own)

    @cached_property
    def accounts(self) -> "Accounts":
        """All credentials of the hub."""
        from upstreams.oauth.credentials_by_upstream import Accounts
        from upstreams.oauth.store.private_folder import store_folder

        self._used.set()
        return Accounts(
            self._oauth,
            self._make_store,
            self.fetch,
            folder=store_folder(self._folder),
            wall=WALL,
            clock=self._clock,
            configured=self._sign_in_names,
        )

    @cached_property
    def sign_ins(self) -> "SignIns":
        """The flow."""
        from hub.sign_in.answer_browsers import make_sign_ins
        from hub.sign_in.ask_authorization_server import AuthorizationServers, Surroundings
        from hub.sign_in.connection_owner import ConnectionOwners

        around = Surroundings(
            config=lambda: self.hub.config,
            upstream=self.config_of,
            name_of=self.name_of,
            listening=self._listening,
            accounts=self.accounts,
            servers=AuthorizationServers(self.fetch, self._oauth, self.accounts, WALL),
            ends=ConnectionOwners(),
            signed_in=self._signed_in,
            spawn=partial(self.accounts.spawn, "A sign-in"),
            wall=WALL,
        )
        return make_sign_ins(around)

    # --- what they need -----------------------------------------------------------------------------------------------

    def name_of(self, upstream: str) -> str:
        """The name under which sign-ins at what runs as `upstream` are kept."""
        found = self.hub.supervisor.upstreams.get(upstream)
        return upstream if found is None else whole_name(upstream, found.config)

    def _sign_in_names(self) -> set[str]:
        return {whole_name(name, each.config) for name, each in self.hub.supervisor.upstreams.items()}

    def _oauth(self) -> OAuthConfig:
        return self.hub.config.oauth

    def _make_store(self) -> "GrantStore":
        from upstreams.oauth.store.grant_store import GrantStore
        from upstreams.oauth.store.private_folder import store_folder

        seal = oauth_seal(self.hub.config, self._keys, self._folder, self._environ)
        return GrantStore(store_folder(self._folder), seal)

    def config_of(self, name: str) -> UpstreamConfig | None:
        """The settings of an upstream, with the values of references as they were read last; None: there is none.
        "": the company's identity provider, where people sign in as at an upstream."""
        if not name:
            from upstreams.oauth.model import settings_of

            idp = self._oauth().idp
            return UpstreamConfig(url=idp.issuer, oauth=settings_of(idp)) if idp.issuer else None
        if (upstream := self.hub.supervisor.upstreams.find(name)) is None:
            return None
        return upstream.values.fill(upstream.config) if upstream.values.is_read else upstream.config

    def _listening(self) -> "Listening | None":
        from hub.sign_in.parse_redirect_uri import Listening

        return None if self._listener is None else Listening(*self._listener.address, self._listener.is_lasting)

    def _is_own(self, address: str, port: int) -> bool:
        """True if the hub itself listens there: another program may have the port at another address."""
        address = ANYWHERE.get(address, address)
        if "sign_ins" in self.__dict__ and self.sign_ins.addresses.listeners.is_open(address, port):
            return True
        return self._listener is not None and is_met_at(self._listener.address, address, port)

    def _signed_in(self, upstream: str, visit: str) -> None:
        supervisor = self.hub.supervisor
        through_idp = [name for name, each in supervisor.upstreams.items() if each.config.oauth.grant == "id_jag"]
        named = supervisor.upstreams.find(upstream)
        for name in ([] if named is None else [named.name]) if upstream else through_idp:
            supervisor.signed_in(name)
            self.hub.audit.note("access", what="signed in", up=name)
        self.hub.visit_done(upstream, visit)
