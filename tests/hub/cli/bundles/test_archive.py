"""Bundles that are refused before anything of them is written, and what is written of others."""

import contextlib
import io
import json
import os
import random
import stat
import struct
import warnings
import zipfile

import pytest

from hub.cli.bundles import archive as module
from hub.cli.bundles.archive import BadBundle, open_archive
from hub.cli.bundles.folders import place_of, unpack
from tests.support.bundles import bundle, manifest, python_server


def entry(name, mode=0, **settings):
    found = zipfile.ZipInfo(name)
    found.filename = name  # which its constructor cuts and changes
    found.external_attr = mode << 16
    for key, value in settings.items():
        setattr(found, key, value)
    return found


def with_entry(*entries, content=b"x"):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return bundle(manifest(), {"server/main.py": "", **dict.fromkeys(entries, content)})


def many(count):
    return bundle(manifest(), {f"f{number}": b"" for number in range(count)})


def bomb():
    return bundle(manifest(), {"server/main.py": "", "zeros": bytes(8 << 20)})


def patch(data, old, new):
    assert old in data
    return data.replace(old, new)


NAMES = [
    "../evil", "a/../../evil", "/etc/evil", "C:/evil", "C:evil", "..\\evil", "a\\b", "a//b", "./a", "a/./b", "..",
    "a\nb", "a\x1b[2J", "\u202egnp.exe", "x" * 256, "/".join(["deep"] * 250), "server/main.py/below", "SERVER/main.py",
]  # fmt: skip


@pytest.mark.covers("EB-1")
@pytest.mark.parametrize("name", NAMES)
def test_a_name_that_leads_elsewhere_is_refused(name, tmp_path):
    with pytest.raises(BadBundle), open_archive(io.BytesIO(with_entry(entry(name)))):
        raise AssertionError


@pytest.mark.covers("EB-1")
def test_a_name_with_nul_is_refused():
    data = patch(with_entry(entry("abcZevil")), b"abcZevil", b"abc\0evil")
    with pytest.raises(BadBundle, match="no name that a file of a bundle may have"), open_archive(io.BytesIO(data)):
        raise AssertionError


@pytest.mark.covers("EB-1")
@pytest.mark.parametrize(
    ("data", "why"),
    [
        (with_entry(entry("link", stat.S_IFLNK | 0o777), content=b"/etc/passwd"), "a link or a device"),
        (with_entry(entry("device", stat.S_IFCHR | 0o666)), "a link or a device"),
        (with_entry(entry("pipe", stat.S_IFIFO | 0o666)), "a link or a device"),
        (with_entry(entry("folder", stat.S_IFDIR | 0o777)), "a link or a device"),
        (with_entry(entry("README"), entry("readme")), "twice, or with other capitals"),
        (with_entry(entry("a"), entry("a")), "twice"),
        (with_entry(entry("a"), entry("a/b")), "a file and a folder"),
        (with_entry(entry("a", compress_type=zipfile.ZIP_BZIP2)), "packed in an unusual way"),
        (bomb(), "more than 200 times as large"),
        (bundle(manifest(), {"server/main.py": "", "x": "y"})[:-40], "no zip file"),
        (b"", "no zip file"),
        (b"PK\x05\x06" + bytes(18), "it has no manifest.json"),
        (b"#!/bin/sh\n" * 1000, "no zip file"),
        (bundle(json.dumps([random.Random(1).randbytes(140_000).hex()]).encode()), "more than 256 KiB"),
        (bundle(b"[]"), "its manifest.json is none"),
        (bundle(b"{"), "its manifest.json is none"),
        (bundle(b"[" * 100_000), "its manifest.json is none"),
        (bundle(manifest(manifest_version="9.9")), "of a version that is not known"),
        (bundle(manifest(name=None)), "its manifest.json is none"),
        (bundle(manifest(name="a\x1bb")), "names no bundle"),
        (bundle(manifest(user_config={"a b": {"type": "string"}})), "by no name that can be said"),
    ],
    ids=range(21),
)
def test_a_bad_bundle_is_refused_as_a_whole(data, why):
    with pytest.raises(BadBundle, match=why), open_archive(io.BytesIO(data)):
        raise AssertionError


@pytest.mark.covers("EB-1")
def test_what_is_encrypted_is_refused():
    data = bytearray(with_entry(entry("secret")))
    for at in (data.rindex(b"PK\x03\x04") + 6, data.rindex(b"PK\x01\x02") + 8):
        data[at] |= 1
    with pytest.raises(BadBundle, match="encrypted"), open_archive(io.BytesIO(bytes(data))):
        raise AssertionError


@pytest.mark.covers("EB-1")
def test_too_many_files_are_refused_before_they_are_listed(monkeypatch):
    monkeypatch.setattr(module, "MAX_FILES", 50)
    with open_archive(io.BytesIO(many(48))), pytest.raises(AssertionError, match="listed"):
        raise AssertionError("listed")
    data = many(60)
    monkeypatch.setattr(zipfile, "ZipFile", lambda file: pytest.fail("it was read"))
    with pytest.raises(BadBundle, match="more than 50 files"), open_archive(io.BytesIO(data)):
        raise AssertionError


@pytest.mark.covers("EB-1")
def test_a_long_list_of_files_and_a_zip64_are_refused_before_they_are_read(monkeypatch):
    data = bundle(manifest())
    end = data.rindex(b"PK\x05\x06")
    long = data[: end + 12] + struct.pack("<I", 17 << 20) + data[end + 16 :]
    locator = data[:end] + b"PK\x06\x07" + bytes(16) + data[end:]
    monkeypatch.setattr(zipfile, "ZipFile", lambda file: pytest.fail("it was read"))
    for each in (long, locator):
        with pytest.raises(BadBundle, match="files"), open_archive(io.BytesIO(each)):
            raise AssertionError


@pytest.mark.covers("EB-3")
def test_one_flipped_byte(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    data = bundle(manifest(), {"server/main.py": "print('hello')" * 100})
    with open_archive(io.BytesIO(data)) as good:
        wanted = good.sha256
    at = data.index(b"server/main.py") + 30
    flipped = data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
    why = "not the bundle that the registry means"
    with pytest.raises(BadBundle, match=why), open_archive(io.BytesIO(flipped), wanted):
        raise AssertionError
    folder = place_of("notes", "0" * 64)
    with open_archive(io.BytesIO(flipped)) as damaged, pytest.raises(BadBundle, match="is damaged"):
        unpack(damaged, "notes", folder)
    assert list(folder.parent.iterdir()) == []


@pytest.mark.covers("EB-2")
def test_what_is_unpacked_is_private(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    old = os.umask(0)
    try:
        files = {"server/main.py": python_server(), entry("run", 0o104777): "#!/bin/sh", "empty/": b"", "a/b/c": "d"}
        with open_archive(io.BytesIO(bundle(manifest(), files))) as archive:
            folder = place_of("notes", archive.sha256)
            unpack(archive, "notes", folder, ["a/b/c"])
    finally:
        os.umask(old)
    modes = {
        str(path.relative_to(tmp_path)).replace(folder.name, "HASH"): path.stat().st_mode & 0o7777
        for path in tmp_path.rglob("*")
    }
    above = "hubd/bundles/notes/HASH"
    folders = ["hubd", "hubd/bundles", "hubd/bundles/notes", above, f"{above}/server", f"{above}/a", f"{above}/a/b"]
    files = {f"{above}/manifest.json": 0o600, f"{above}/server/main.py": 0o600}
    assert modes == dict.fromkeys(folders, 0o700) | files | {f"{above}/run": 0o700, f"{above}/a/b/c": 0o700}
    assert len(folder.name) == 16


@pytest.mark.covers("EB-2")
def test_a_crash_at_each_step_leaves_nothing_or_all(tmp_path, monkeypatch):
    """Each call of the system fails in its turn; then the same is unpacked again."""
    data = bundle(manifest(), {"server/main.py": python_server(), "a/b": "c"})

    class Crash(BaseException):
        pass

    steps = 0
    while True:
        monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / str(steps)))
        left = steps

        def count(real):
            def call(*arguments, **options):
                nonlocal left
                if left == 0:
                    left = -1
                    raise Crash
                left -= 1
                return real(*arguments, **options)

            return call

        with monkeypatch.context() as patched, open_archive(io.BytesIO(data)) as archive:
            folder = place_of("notes", archive.sha256)
            for name in ("mkdir", "open", "fchmod", "rename", "write"):
                patched.setattr(os, name, count(getattr(os, name)))
            with contextlib.suppress(Crash):
                unpack(archive, "notes", folder)
        if left > 0:
            break
        there = sorted(str(each.relative_to(folder)) for each in folder.rglob("*") if each.is_file())
        assert there in ([], ["a/b", "manifest.json", "server/main.py"])
        with open_archive(io.BytesIO(data)) as archive:
            unpack(archive, "notes", folder)
        assert json.loads((folder / "manifest.json").read_text())["name"] == "bundled-notes"
        steps += 1
    assert steps > 10
