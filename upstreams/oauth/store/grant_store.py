"""The store of grants: one sealed file each, below a folder that all processes of this user on this machine share.

grants/ID.json     a grant; its plain part may be read without the key
grants/ID.lock     held while the grant is renewed
clients/ID.json    a client id of the hub
facts.json         small things
"""

import logging
from collections.abc import Collection, Iterator
from contextlib import AbstractAsyncContextManager, suppress
from pathlib import Path
from typing import Final

import trio
from msgspec import Struct
from msgspec.structs import replace

from upstreams.oauth import model
from upstreams.oauth.store import private_folder as files
from upstreams.oauth.store import records
from upstreams.oauth.store.key_seal import KeySeal
from upstreams.oauth.store.redirects_and_consents import SignInFactsFile
from upstreams.oauth.store.renewal_lock import HeldLock, hold_lock

log = logging.getLogger(__name__)
PLACES: Final = {
    "credential": "from the service manager (the credential hubd-oauth-key)",
    "sealing_key": "from the setting sealing_key",
    "keyring": "from the keyring",
    "keys": "from its own file",
}


class CannotOpen(model.OAuthProblem):
    """A grant was sealed with another key, or is damaged. It was set aside, and a person has to sign in again."""

    def __init__(self, upstream: str) -> None:
        known = f"What hubd knew of your sign-in at {upstream or model.IDENTITY_PROVIDER}"
        super().__init__(f"{known} cannot be opened (another key); run {model.sign_in_command(upstream)}.")


class SealedElsewhere(CannotOpen):
    """A grant was sealed by a hub that has its key from another place. It is left alone until such a hub runs again, or
    a person signs in anew."""

    def __init__(self, upstream: str, before: str, now: str) -> None:
        model.OAuthProblem.__init__(
            self,
            f"What hubd knows of your sign-in at {upstream or model.IDENTITY_PROVIDER} was sealed with the key "
            f"{PLACES.get(before, 'from elsewhere')}; now this hub has its key {PLACES.get(now, 'from elsewhere')}. "
            f"Start it as before and nothing is lost, or run {model.sign_in_command(upstream)}.",
        )


class KeptGrant(Struct, frozen=True):
    """A grant without its secrets."""

    file: records.GrantFile
    is_readable: bool = True
    """False: it was set aside, since it could not be opened."""

    def row(self, wall: float) -> model.AccountRow:
        """The row for people."""
        file, is_over = self.file, not self.is_readable or self.file.sign_in_needed
        lasts = file.renewable or file.expires_at is None or file.expires_at > wall
        return model.AccountRow(
            upstream=file.upstream,
            principal=file.principal,
            state="good" if lasts and not is_over else "needed",
            issuer=file.issuer,
            expires_at=file.expires_at,
            renewable=file.renewable and not file.sign_in_needed,
            scope=file.scope,
            note=file.note if self.is_readable else "It cannot be opened (another key).",
            key_source=file.key.partition(":")[0],
        )


class GrantStore:
    """All that is kept of sign-ins. The methods block, for the disk and up to some seconds for the key, and may be
    called by several threads; but for `lock`, which is for tasks.

    A file that must not be read is passed over, with a line in the log, where several are looked at. Raises NotKept:
    the file must not be read (a link, another user's, not private), or cannot be written; KeyLocked: the key cannot be
    had now; nothing was changed."""

    def __init__(self, folder: Path, seal: KeySeal) -> None:
        self.folder = folder
        self.clients = Clients(folder / "clients", seal)
        self.facts = SignInFactsFile(folder)
        self._seal = seal
        self._grants = folder / "grants"
        self._passed_over: set[Path] = set()

    def load(self, key: model.GrantKey) -> model.Grant | None:
        """The grant; None: there is none. Raises CannotOpen: there was one, and it was set aside; SealedElsewhere:
        there is one, which a hub with its key from another place can open."""
        path = self._path(key)
        try:
            if (plain := _read(path, records.GrantFile)) is None:
                return self._bring_back(path)
            before = plain.key.partition(":")[0]
            try:
                return records.open_grant(plain, self._seal)
            except records.UnreadableRecord:
                if before in ("", self._seal.source):
                    raise
                raise SealedElsewhere(key.upstream, before, self._seal.source) from None
        except records.OtherVersion:
            text = f"{path} was written by another version of hubd; use that one, or delete the file."
            raise files.NotKept(text) from None
        except records.UnreadableRecord:
            aside = files.move_aside(path)
            log.warning("what is kept of the sign-in at %s cannot be opened; it is now %s", key.upstream, aside)
            raise CannotOpen(key.upstream) from None

    def find(self, upstream: str, principal: str) -> model.Grant | None:
        """The current grant of a principal at an upstream: that of the latest sign-in; None: there is none. Raises
        CannotOpen: as `load`."""
        for suffix in (".json", ".json.unreadable"):
            mine = [each for each in self._files(suffix) if (each.upstream, each.principal) == (upstream, principal)]
            if mine:
                return self.load(max(mine, key=lambda file: file.signed_in_at).grant_key)
        return None

    def save(self, grant: model.Grant) -> None:
        """Keep a grant in place of one that is there; durable when this returns. Renewals hold the lock meanwhile."""
        path = self._path(grant.key)
        files.write_file(path, records.encode_grant(grant, self._seal))
        files.remove_file(files.aside_of(path))

    def delete(self, key: model.GrantKey) -> None:
        """Forget a grant, and what was set aside of it."""
        path = self._path(key)
        files.remove_file(path)
        files.remove_file(files.aside_of(path))

    def delete_all(self, upstream: str, principal: str) -> bool:
        """Forget all grants of a principal at an upstream, those that cannot be opened, too; True if there were any.
        Needs no key."""
        files = [each.file for each in self.grants()]
        mine = [file.grant_key for file in files if (file.upstream, file.principal) == (upstream, principal)]
        for key in mine:
            self.delete(key)
        return bool(mine)

    def lock(self, key: model.GrantKey) -> AbstractAsyncContextManager[HeldLock]:
        """Hold the lock of a grant, among tasks and processes. Raises NotKept, OAuthUnavailable."""
        return hold_lock(self._path(key).with_suffix(".lock"))

    async def keep(self, grant: model.Grant) -> model.Grant:
        """Keep the grant of a new sign-in, and return it as it is kept: its generation tells other processes that it is
        new. Durable when this returns. Raises OAuthUnavailable, too: another process has the grant for too long."""
        async with self.lock(grant.key) as held:

            def keep_here() -> model.Grant:
                new = grant
                with suppress(CannotOpen):
                    if (before := self.load(grant.key)) is not None:
                        new = replace(grant, generation=before.generation + 1)
                self.save(new)
                held.finish()
                return new

            return await trio.to_thread.run_sync(keep_here)

    def grants(self) -> list[KeptGrant]:
        """All grants without their secrets; needs no key."""
        kept = [KeptGrant(file) for file in self._files()]
        return kept + [KeptGrant(file, is_readable=False) for file in self._files(".json.unreadable")]

    def keys(self) -> list[model.GrantKey]:
        """The keys of all grants that can be opened; needs no key of the seal."""
        return [each.file.grant_key for each in self.grants() if each.is_readable]

    def rows(self, wall: float) -> dict[tuple[str, str], model.AccountRow]:
        """The latest sign-in of each upstream and principal, for people; needs no key."""
        latest: dict[tuple[str, str], KeptGrant] = {}
        for each in sorted(self.grants(), key=lambda each: (each.is_readable, each.file.signed_in_at)):
            latest[each.file.upstream, each.file.principal] = each
        return {key: each.row(wall) for key, each in latest.items()}

    def drop_removed(self, configured: Collection[str], now: float) -> list[str]:
        """Forget what was kept for upstreams that have not been configured for 30 days; their names. `now` is wall
        time. To be called at each start."""
        kept = [each.file.grant_key for each in self.grants()]
        gone = self.facts.long_removed({key.upstream for key in kept}, configured, now) if kept else []
        for key in kept:
            if key.upstream in gone:
                self.delete(key)
        for upstream in gone:
            self.clients.forget(upstream)
        return gone

    def _bring_back(self, path: Path) -> model.Grant | None:
        """The grant that was set aside, if its key is there again; None: there is nothing, or it still cannot be
        opened."""
        try:
            if (plain := _read(files.aside_of(path), records.GrantFile)) is None:
                return None
            grant = records.open_grant(plain, self._seal)
        except (records.OtherVersion, records.UnreadableRecord):
            return None
        with suppress(OSError):  # it is used all the same
            files.aside_of(path).rename(path)
        return grant

    def _files(self, suffix: str = ".json") -> Iterator[records.GrantFile]:
        for name in files.names_in(self._grants, suffix):
            path = self._grants / name
            try:
                if (file := _read(path, records.GrantFile)) is not None:
                    yield file
                self._passed_over.discard(path)
            except files.NotKept as problem:  # whose it is cannot be known, and it must not stop all others
                if path not in self._passed_over:
                    self._passed_over.add(path)
                    log.warning("%s Until then it is passed over.", problem)
            except records.OtherVersion:
                log.warning("%s was written by another version of hubd; it is left alone", path)
            except records.UnreadableRecord:
                if suffix == ".json":
                    log.warning("%s is damaged; it is now %s", path, files.move_aside(path))

    def _path(self, key: model.GrantKey) -> Path:
        return self._grants / f"{records.id_of(key.issuer, key.resource, key.upstream, key.principal)}.json"


def _read(path: Path, type: type[records.File]) -> records.File | None:
    """The plain part of a file; None: there is none."""
    return None if (data := files.read_file(path)) is None else records.read_plain(data, type)


class Clients(Struct, eq=False):
    """The files below `clients`. All but `turn` blocks. Raises NotKept: a file must not be read, or cannot be written;
    KeyLocked: the key cannot be had now."""

    folder: Path
    seal: KeySeal

    def find(self, issuer: str, redirect_uri: str, upstream: str) -> model.OAuthClient | None:
        """The client that was registered for this key; None: none, or none that can be read any more."""
        path = self._path(issuer, redirect_uri, upstream)
        try:
            plain = _read(path, records.ClientFile)
            return None if plain is None else records.open_client(plain, self.seal)
        except records.OtherVersion:
            return None
        except records.UnreadableRecord:
            files.move_aside(path)  # another one is registered
            return None

    def put(self, issuer: str, redirect_uri: str, upstream: str, client: model.OAuthClient) -> None:
        """Keep a client in place of one that is there; durable when this returns."""
        content = records.encode_client(upstream, client, self.seal)
        files.write_file(self._path(issuer, redirect_uri, upstream), content)

    def forget(self, upstream: str, client_id: str = "") -> bool:
        """Forget the clients of an upstream, or only that of this id, whatever it is kept by; True if there was one."""
        found = False
        for name in files.names_in(self.folder, ".json"):
            with suppress(records.UnreadableRecord, records.OtherVersion, files.NotKept):
                file = _read(self.folder / name, records.ClientFile)
                if file and file.upstream == upstream and client_id in ("", file.client.client_id):
                    files.remove_file(self.folder / name)
                    found = True
        return found

    def turn(self, issuer: str, redirect_uri: str, upstream: str) -> AbstractAsyncContextManager[HeldLock]:
        """Held while a client is looked for and registered: one at a time for each key, also among processes."""
        return hold_lock(self._path(issuer, redirect_uri, upstream).with_suffix(".lock"))

    def _path(self, issuer: str, redirect_uri: str, upstream: str) -> Path:
        return self.folder / f"{records.id_of(issuer, redirect_uri, upstream)}.json"
