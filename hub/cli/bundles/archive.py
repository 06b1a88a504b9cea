"""The file of a bundle: a zip that is refused as a whole before anything is unpacked if a name in it leads elsewhere,
if it holds what is no file, or more than it looks like. Python's `zipfile` would rename such entries, or write them.

A signature behind the zip is shown and never believed: there is no list of those who may sign.
"""

import hashlib
import os
import re
import stat
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Final

from config.diagnostics import EditError
from config.registry.bundle_manifest import MANIFEST, MAX_MANIFEST_BYTES, BundleManifest, read_manifest
from config.registry.server_json import Unreadable

MAX_FILES: Final = 20_000
MAX_BYTES: Final = 1 << 30
"""Of all files, unpacked."""
MAX_RATIO: Final = 200
"""How many times as large as the bundle its files may be."""
MAX_DIRECTORY_BYTES: Final = 16 << 20
"""Of the list of files in the zip."""
MAX_PATH: Final = 1024
MAX_NAME: Final = 255
PIECE_BYTES: Final = 1 << 20
_END: Final = b"PK\x05\x06"
_END_BYTES: Final = 22
_MAX_COMMENT: Final = (1 << 16) - 1
_FLAGS: Final = 0x0001 | 0x0040 | 0x2000
"""Encrypted, in one of three ways."""
_SIGNED: Final = re.compile(rb"MCPB_SIG_V1(.{4})(.*)MCPB_SIG_END\Z", re.S)
_METHODS: Final = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)


class BadBundle(EditError):
    """The file is no bundle that can be taken; nothing of it was written. The text says why."""


class Archive:
    """A bundle that was looked at and may be unpacked. Made by `open_archive`."""

    def __init__(self, file: IO[bytes], sha256: str) -> None:
        self._zip = _open(file)
        self.sha256 = sha256
        self.files = {name: info for name, info in _entries(self._zip) if not info.is_dir()}
        size = file.seek(0, os.SEEK_END)
        if sum(info.file_size for info in self.files.values()) > min(MAX_BYTES, size * MAX_RATIO):
            raise BadBundle(f"its files are more than {MAX_RATIO} times as large as it, or more than 1 GiB")
        if MANIFEST not in self.files or self.files[MANIFEST].file_size > MAX_MANIFEST_BYTES:
            raise BadBundle(f"it has no {MANIFEST}, or one of more than {MAX_MANIFEST_BYTES >> 10} KiB")
        try:
            self.manifest: BundleManifest = read_manifest(b"".join(self.read(MANIFEST)))
        except Unreadable as error:
            raise BadBundle(str(error)) from None
        self.signers = _signers(file, size)
        """The subjects that a signature behind the zip names, which is not checked; "": there is none."""

    def read(self, name: str) -> Iterator[bytes]:
        """The content of a file, in pieces. Raises: BadBundle."""
        try:
            with self._zip.open(self.files[name]) as content:
                while data := content.read(PIECE_BYTES):
                    yield data
        except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError):
            raise BadBundle(f"{name} in it is damaged") from None

    def is_program(self, name: str) -> bool:
        """True if a file may be run."""
        return bool(self.files[name].external_attr >> 16 & 0o111)


@contextmanager
def open_archive(file: IO[bytes], wanted_sha256: str = "") -> Iterator[Archive]:
    """A bundle, looked at. `wanted_sha256`: the only one that will do. Raises: BadBundle."""
    digest = hashlib.sha256()
    while data := file.read(PIECE_BYTES):
        digest.update(data)
    found = digest.hexdigest()
    if wanted_sha256 and found != wanted_sha256:
        raise BadBundle(f"it is not the bundle that the registry means: its SHA-256 is {found}, not {wanted_sha256}")
    yield Archive(file, found)


def _open(file: IO[bytes]) -> zipfile.ZipFile:
    """The zip, whose list of files is short enough to be read at all. Raises: BadBundle."""
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - _END_BYTES - _MAX_COMMENT))
    tail = file.read()
    at = len(tail) - _END_BYTES
    if at < 0 or tail[at : at + 4] != _END or tail[-2:] != b"\0\0":  # as `zipfile` finds it
        at = tail.rfind(_END)
    record = tail[at : at + _END_BYTES]
    if at < 0 or len(record) < _END_BYTES:
        raise BadBundle("it is no zip file")
    count, length = int.from_bytes(record[10:12], "little"), int.from_bytes(record[12:16], "little")
    if count > MAX_FILES or length > MAX_DIRECTORY_BYTES or tail[max(0, at - 20) :].startswith(b"PK\x06\x07"):
        raise BadBundle(f"it has more than {MAX_FILES} files")
    try:
        return zipfile.ZipFile(file)
    except (zipfile.BadZipFile, NotImplementedError, ValueError, OSError):
        raise BadBundle("it is no zip file, or a damaged one") from None


def _entries(archive: zipfile.ZipFile) -> Iterator[tuple[str, zipfile.ZipInfo]]:
    """The entries, each with its path. Raises: BadBundle, if one of them may not be unpacked."""
    infos = archive.infolist()
    if len(infos) > MAX_FILES:
        raise BadBundle(f"it has more than {MAX_FILES} files")
    kinds: dict[str, bool] = {}
    for info in infos:
        name = info.orig_filename.removesuffix("/") if info.is_dir() else info.orig_filename
        _check_name(name)
        kind = stat.S_IFMT(info.external_attr >> 16)
        if kind not in (0, stat.S_IFDIR if info.is_dir() else stat.S_IFREG):
            raise BadBundle(f"{name!a} in it is a link or a device")
        if info.flag_bits & _FLAGS or info.compress_type not in _METHODS:
            raise BadBundle(f"{name!a} in it is encrypted, or packed in an unusual way")
        folded = name.casefold()
        if folded in kinds:
            raise BadBundle(f"{name!a} is in it twice, or with other capitals")
        kinds[folded] = info.is_dir()
        yield name, info
    for name in kinds:
        above = name
        while "/" in above:
            above = above.rpartition("/")[0]
            if kinds.get(above) is False:
                raise BadBundle(f"{above!a} in it is a file and a folder")


def _check_name(name: str) -> None:
    """Refuse a name that leads elsewhere, or that not every system can have. Raises: BadBundle."""
    parts = name.split("/")
    is_sound = (
        len(name.encode(errors="replace")) <= MAX_PATH
        and name.isprintable()
        and not set(name) & set("\\:")
        and all(part not in ("", ".", "..") and len(part.encode(errors="replace")) <= MAX_NAME for part in parts)
    )
    if not is_sound:
        raise BadBundle(f"{ascii(name)[:200]} in it is no name that a file of a bundle may have")


def _signers(file: IO[bytes], size: int) -> str:
    file.seek(max(0, size - _MAX_COMMENT))
    if (found := _SIGNED.search(file.read())) is None:
        return ""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization.pkcs7 import load_der_pkcs7_certificates

    try:
        names = [each.subject.rfc4514_string() for each in load_der_pkcs7_certificates(found[2])[:4]]
    except (ValueError, UnsupportedAlgorithm):
        names = []
    return "; ".join(names) or "somebody who cannot be read"
