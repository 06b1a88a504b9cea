"""The lasting state of a hub: its keys, a store that it shares with other hubs, sessions that outlive it."""

import logging
from pathlib import Path
from typing import TYPE_CHECKING

from config.diagnostics import ConfigError, Diagnostic
from config.hub_paths import audit_dir, sessions_path
from config.loading.assemble import Loaded
from config.remembered_facts import Memory
from config.settings import HubConfig
from hub.app import WALL
from hub.downstream.http.durable_sessions import DurableSessions
from hub.link.sealing import Keys, Signer, derive_keys, keys_from_setting, load_keys
from hub.linux.boot_clock import current_time
from hub.rules.audit.files import AuditFiles
from hub.rules.audit.writer import Audit
from upstreams.redact import CommonSecrets, Mask

if TYPE_CHECKING:
    from cache.redis.store import RedisStore
    from hub.fleet.route_to_owner import Fleet

log = logging.getLogger("hubd")


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
    """The store that this hub shares with others, not connected yet; None: no store is configured. Raises: ConfigError,
    if the store cannot be used as it is configured."""
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
    from hub.fleet import membership, route_to_owner, session_ownership  # as the store

    facts = session_ownership.PublishedFacts(store.directory)
    sessions = DurableSessions(signer, journal, WALL, config.replica.name, facts.put)
    me = membership.Registration(sessions.run_id, config.replica.name or sessions.run_id, "")
    return sessions, route_to_owner.Fleet(membership.Membership(me, store.directory, sessions.was_mine), facts)


def audit_for(config: HubConfig, keys: Keys, secrets: CommonSecrets) -> Audit:
    """The audit log of this hub. `keys` as `keys_for`; `secrets` are masked in it."""
    key, files = derive_keys(keys, "audit")[0], AuditFiles(audit_dir(), WALL)
    return Audit(config.audit, files, key=key, wall=WALL, mask=Mask(common=secrets))
