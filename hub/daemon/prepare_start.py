"""Before a hub starts: its configuration, by the command line and the files, which are read again on change; cleaning
up after hubs that were killed; and what it needs beside its configuration: keys, a store that it shares with other
hubs, sessions that outlive it.

References to secrets among arguments that profiles fix are read whenever the configuration is.
"""

import logging
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

import trio
from msgspec import Struct, structs

from config import files
from config.directories import state_dir
from config.errors import ConfigError, Diagnostic
from config.fixed_values import references_in_profiles, with_values
from config.hub_paths import audit_dir, sessions_path, tokens_path
from config.loading.assemble import Loaded, for_several, load_all
from config.loading.check import check_hub
from config.loading.check_profiles import warnings_of_unread
from config.loading.safe_reading import Problem
from config.references import Reference, Values
from config.saved_state import Memory
from config.secrets.keyring import PATIENCE_S
from config.secrets.private_json import StateUnreadable
from config.settings import HubConfig, UpstreamConfig
from hub.app import WALL
from hub.downstream.access.host_tokens import TOKENS
from hub.downstream.http.durable_sessions import DurableSessions
from hub.link.call_interface import OWNER
from hub.link.sealing import Keys, Signer, derive_keys, keys_from_setting, load_keys
from hub.linux import orphans
from hub.linux.clocks import current_time
from hub.rules.audit.files import AuditFiles
from hub.rules.audit.writer import Audit
from upstreams.redact import CommonSecrets, Mask
from upstreams.references import read_each

if TYPE_CHECKING:
    from cache.redis.store import RedisStore
    from hub.fleet.gate import Fleet

log = logging.getLogger("hubd")

START_PATIENCE_S: Final = 5.0
MORE: Final = "Then run `hubd reload`"

ReadEach = Callable[[Iterable[Reference], Mapping[str, str], float], tuple[Values, Values]]
"""`read_each`, or a test's own."""


class FixedReferences:
    """The values that were read last, for the next reading. Used by one thread at a time."""

    def __init__(self, read: ReadEach = read_each) -> None:
        self._read = read
        self._kept: dict[Reference, str] = {}
        self._patience_s = START_PATIENCE_S

    def fill(self, loaded: Loaded) -> Loaded:
        """The loaded configuration with the values of these references in their places. An argument without a value
        has its tool left out, and there is a warning."""
        patience_s, self._patience_s = self._patience_s, PATIENCE_S
        profiles = loaded.config.profiles
        references = references_in_profiles(profiles)
        kept = {each: self._kept[each] for each in references if each in self._kept}
        wanted = [each for each in references if each not in kept]
        found, lacking = self._read(wanted, loaded.environ, patience_s) if wanted else ({}, {})
        values = {**kept, **found}
        self._kept = {each: value for each, value in values.items() if each.kind == "secret"}
        if not references:
            return loaded
        filled = with_values(profiles, values, {each: f"{why}. {MORE}" for each, why in lacking.items()})
        told = {warning.keys for warning in loaded.warnings}
        lines = {keys: origin.line for keys, origin in loaded.origins.items()}
        warnings = [
            Diagnostic(loaded.files[0], lines.get(problem.keys), problem.keys, str(problem))
            for problem in warnings_of_unread(filled)
            if problem.keys not in told
        ]
        config = structs.replace(loaded.config, profiles=filled)
        return structs.replace(loaded, config=config, warnings=(*loaded.warnings, *warnings))


class ServeOptions(Struct, frozen=True, kw_only=True):
    """Options of the command line; None leaves a setting to the configuration."""

    config: Path | None = None
    listen: str | None = None
    auth: str | None = None
    stdio: bool = False
    profile: str | None = None
    """The profile that the host on standard input and output is shown; None: its user names none."""
    detached: bool = False
    """`hubd connect` started it: nobody reads its output, and its standard input takes its exit code."""


def configuration(options: ServeOptions, environ: Mapping[str, str], fixed: FixedReferences) -> Loaded:
    """The configuration to serve: from files, else the demo; the command line wins over both. `environ` is what the hub
    was started with; `fixed` reads what the arguments that profiles fix refer to. Blocks.

    Upstreams whose references lead nowhere are left out (`Loaded.unresolved`). Raises ConfigError: the file cannot be
    used."""
    loaded = load_all(options.config, environ, partly=True)
    config = loaded.config if loaded.sources else demo_config()
    changes = {"listen": options.listen, "auth": options.auth}
    config = structs.replace(config, **{name: value for name, value in changes.items() if value is not None})
    tokens = tokens_path()
    config = for_several(check(config)) if config.auth == "token" and _let_others_in(tokens) else check(config)
    return fixed.fill(structs.replace(loaded, config=config, files=(*loaded.files, tokens)))


def _let_others_in(tokens: Path) -> bool:
    """True if `hubd token new` made a token for another account than the owner's. Blocks."""
    try:
        return any(token.principal not in ("", OWNER) for token in TOKENS.read(tokens).values())
    except StateUnreadable:  # none of them counts
        return False


def check(config: HubConfig) -> HubConfig:
    """Check that the hub's own settings fit together; return `config`. Raises: ConfigError, if they do not."""
    try:
        check_hub(config)
    except Problem as problem:
        raise ConfigError(f"{'.'.join(problem.keys)}: {problem}") from None
    return config


def demo_config() -> HubConfig:
    """The configuration served when there is none: the embedded demo server, as a real child over stdio."""
    command = (sys.executable, "-I", "-m", "upstreams.demo")
    demo = UpstreamConfig(command=command[0], args=command[1:], cwd=os.path.expanduser("~"))
    return HubConfig(upstreams={"demo": demo})


# --- what it needs ----------------------------------------------------------------------------------------------------


async def kill_orphans() -> None:
    """Kill servers that were left behind when a hub of this user was killed."""
    if killed := await trio.to_thread.run_sync(orphans.kill_orphans):
        log.warning("ended processes of servers that a killed hub had left behind: %d", killed)


async def remove_drafts() -> None:
    """Remove files that killed hubs had not finished. The daemon's lock must be held."""
    if removed := await trio.to_thread.run_sync(files.remove_drafts, state_dir(), WALL()):
        log.info("removed %d unfinished files that hubs left behind when they were killed", removed)


def keys_for(config: HubConfig, path: Path | None) -> Keys:
    """The sealing keys: from the configuration, else from the file `path`. Keys of this run only, if `path` is None or
    the file can be neither read nor made. Raises ConfigError: as `load_keys`."""
    if config.sealing_key is not None:
        return keys_from_setting(config.sealing_key)
    try:
        return load_keys(path)
    except OSError as error:
        log.warning("cannot keep keys in %s (%s); what they seal is lost with this run", path, error.strerror)
        return load_keys(None)


def store_for(loaded: Loaded, keys: Keys) -> "RedisStore | None":
    """The store that this hub shares with others, not connected yet; None: no store is configured.
    Raises: ConfigError, if the store cannot be used as it is configured."""
    cache = loaded.config.cache
    if cache.url is None:
        return None
    from cache.redis.store import RedisStore  # imported only where a store is configured

    key, *others = derive_keys(keys, "store")
    try:
        return RedisStore(cache, key, current_time, others=others)
    except ConfigError as error:
        where = ("cache", "url")
        if (origin := loaded.origins.get(where)) is None:
            raise
        raise loaded.error([Diagnostic(origin.file, origin.line, where, str(error))]) from None


def sessions_for(config: HubConfig, keys: Keys, store: "RedisStore | None") -> "tuple[DurableSessions, Fleet | None]":
    """The durable sessions, and the fleet of `store`; None: this hub is alone."""
    signer, journal = Signer(keys), Memory(sessions_path())
    if store is None:
        return DurableSessions(signer, journal, WALL), None
    from hub.fleet import gate, membership, ownership  # as the store

    facts = ownership.PublishedFacts(store.directory)
    sessions = DurableSessions(signer, journal, WALL, config.replica.name, facts.put)
    me = membership.Registration(sessions.run_id, config.replica.name or sessions.run_id, "")
    return sessions, gate.Fleet(membership.Membership(me, store.directory, sessions.was_mine), facts)


def audit_for(config: HubConfig, keys: Keys, secrets: CommonSecrets) -> Audit:
    """The audit log of this hub. `keys` as `keys_for`; `secrets` are masked in it."""
    key, files = derive_keys(keys, "audit")[0], AuditFiles(audit_dir(), WALL)
    return Audit(config.audit, files, key=key, wall=WALL, mask=Mask(common=secrets))
