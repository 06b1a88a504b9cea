"""Client ids of the hub at authorization servers, kept by (issuer, redirect URI, upstream)."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

from upstreams.oauth.model import OAuthClient
from upstreams.oauth.store.folder import (
    HeldLock,
    NotKept,
    hold_lock,
    move_aside,
    names_in,
    read_file,
    remove_file,
    write_file,
)
from upstreams.oauth.store.records import (
    ClientFile,
    OtherVersion,
    UnreadableRecord,
    encode_client,
    id_of,
    open_client,
    read_plain,
)
from upstreams.oauth.store.seal import Seal


class Clients:
    """The files below `clients`; `registration` knows this as its client store. All but `turn` blocks.

    Raises:
        NotKept: a file must not be read, or cannot be written.
        KeyLocked: the key cannot be had now.
    """

    def __init__(self, folder: Path, seal: Seal) -> None:
        self._folder = folder
        self._seal = seal

    def __repr__(self) -> str:
        return f"<Clients {self._folder}>"

    def find(self, issuer: str, redirect_uri: str, upstream: str) -> OAuthClient | None:
        """The client that was registered for this key; None: none, or none that can be read any more."""
        path = self._path(issuer, redirect_uri, upstream)
        data = read_file(path)
        if data is None:
            return None
        try:
            return open_client(read_plain(data, ClientFile), self._seal)
        except OtherVersion:
            return None
        except UnreadableRecord:
            move_aside(path)  # another one is registered
            return None

    def put(self, issuer: str, redirect_uri: str, upstream: str, client: OAuthClient) -> None:
        """Keep a client in place of one that is there; durable when this returns."""
        write_file(self._path(issuer, redirect_uri, upstream), encode_client(upstream, client, self._seal))

    def forget(self, issuer: str, redirect_uri: str, upstream: str) -> None:
        """Forget what `find` returns for this key."""
        remove_file(self._path(issuer, redirect_uri, upstream))

    def forget_client(self, upstream: str, client: OAuthClient) -> bool:
        """Forget this very client of an upstream, whatever it is kept by; True if it was there."""
        return self._forget(lambda file: file.upstream == upstream and file.client.client_id == client.client_id)

    def forget_upstream(self, upstream: str) -> bool:
        """Forget all clients of an upstream; True if there was one."""
        return self._forget(lambda file: file.upstream == upstream)

    def turn(self, issuer: str, redirect_uri: str, upstream: str) -> AbstractAsyncContextManager[HeldLock]:
        """Held while a client is looked for and registered: one at a time for each key, also among processes."""
        return hold_lock(self._path(issuer, redirect_uri, upstream).with_suffix(".lock"))

    def _forget(self, is_meant: Callable[[ClientFile], bool]) -> bool:
        found = False
        for name in names_in(self._folder, ".json"):
            path = self._folder / name
            try:
                if (data := read_file(path)) is not None and is_meant(read_plain(data, ClientFile)):
                    remove_file(path)
                    found = True
            except (UnreadableRecord, OtherVersion, NotKept):
                continue
        return found

    def _path(self, issuer: str, redirect_uri: str, upstream: str) -> Path:
        return self._folder / f"{id_of(issuer, redirect_uri, upstream)}.json"
