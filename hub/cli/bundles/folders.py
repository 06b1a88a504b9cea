"""Folders of unpacked bundles, `$XDG_DATA_HOME/hubd/bundles/NAME/HASH`: each is there as a whole or not at all, and is
deleted once no file of the configuration names it."""

import os
import shutil
import tempfile
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from config.base_directories import data_dir
from config.hub_paths import config_file
from config.loading.gather import gather
from config.private_directories import NotPrivate, private_dir
from config.registry.bundle_manifest import MANIFEST, MAX_MANIFEST_BYTES, BundleManifest, read_manifest
from config.registry.server_json import Unreadable
from hub.cli.bundles.archive import Archive, BadBundle

HASH_DIGITS: Final = 16
_UNFINISHED: Final = ".unpacking-"


def place_of(server: str, sha256: str) -> Path:
    """The folder of a bundle of this hash for a server."""
    return Path(data_dir(), "bundles", server, sha256[:HASH_DIGITS])


def folder_in(server: str, settings: Mapping[str, Any]) -> Path | None:
    """The folder that an entry runs from; None: it is none of a bundle."""
    above = f"{Path(data_dir(), 'bundles', server)}/"
    for word in (settings.get("cwd"), settings.get("command"), *(settings.get("args") or ())):
        if isinstance(word, str) and word.startswith(above):
            return Path(above, word.removeprefix(above).partition("/")[0])
    return None


def manifest_in(folder: Path) -> BundleManifest | None:
    """The manifest of what is unpacked in a folder; None: it is no bundle any more."""
    try:
        with (folder / MANIFEST).open("rb") as file:
            return read_manifest(file.read(MAX_MANIFEST_BYTES))
    except (OSError, Unreadable):
        return None


def unpack(archive: Archive, server: str, folder: Path, programs: Iterable[str] = ()) -> None:
    """Make the folder of a bundle; it appears once all of it is written. `programs`: files to be run, whatever the
    zip says. Raises: BadBundle."""
    try:
        private_dir(data_dir())
        above = Path(private_dir(private_dir(f"{data_dir()}/bundles") + f"/{server}"))
        if folder.is_dir():
            return
        unfinished = Path(tempfile.mkdtemp(prefix=_UNFINISHED, dir=above))
        try:
            for name in archive.files:
                _write(unfinished, name, archive, 0o700 if archive.is_program(name) or name in programs else 0o600)
            unfinished.rename(folder)
        except BaseException:
            shutil.rmtree(unfinished, ignore_errors=True)
            raise
    except NotPrivate as error:
        raise BadBundle(str(error)) from None
    except OSError as error:
        raise BadBundle(f"it cannot be unpacked to {folder}: {error.strerror}") from None


def _write(folder: Path, name: str, archive: Archive, mode: int) -> None:
    path = folder / name
    for above in reversed(Path(name).parents):
        (folder / above).mkdir(mode=0o700, exist_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    with open(path, "xb", opener=lambda at, _: os.open(at, flags, mode)) as file:
        for data in archive.read(name):
            file.write(data)
        os.fchmod(file.fileno(), mode)


def remove_unnamed(server: str, config: Path | None, needed: Path | None = None) -> None:
    """Delete the folders of a server that no file of the configuration names, but for the one that is `needed` still;
    and what was left of one that was not unpacked to its end. `config`: the main file, if it is not the usual one."""
    above = Path(data_dir(), "bundles", server)
    if not above.is_dir():
        return
    texts = []
    for source in gather((config or config_file()).expanduser(), os.environ).sources:
        with suppress(FileNotFoundError):
            texts.append(source.path.read_text(encoding="utf-8", errors="replace").replace("\\/", "/"))
    with suppress(OSError):
        for folder in list(above.iterdir()):
            if not any(f"/{server}/{folder.name}" in text for text in texts) and folder != needed:
                shutil.rmtree(folder, ignore_errors=True)
        above.rmdir()  # unless something is left
