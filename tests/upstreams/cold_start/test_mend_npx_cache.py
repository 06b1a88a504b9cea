"""Proofs that a folder of npx is broken, and what may be moved."""

import json
import os
import shutil
from pathlib import Path

import pytest

from upstreams.cold_start.mend_npx_cache import LOCK, find_breakage, lacks_package, move_aside, npm_cache

NAME = "15b07286cbcc3329"
NODE = """\
node:internal/modules/esm/resolve:873
  throw new ERR_MODULE_NOT_FOUND(packageName, fileURLToPath(base), null);
        ^

Error [ERR_MODULE_NOT_FOUND]: Cannot find package 'zod' imported from {folder}/node_modules/@x/y/dist/index.js
    at packageResolve (node:internal/modules/esm/resolve:873:9)
  code: 'ERR_MODULE_NOT_FOUND'
}
"""
COMMONJS = """\
Error: Cannot find module 'zod'
Require stack:
- {folder}/node_modules/x/index.js
  code: 'MODULE_NOT_FOUND',
  requireStack: [ '{folder}/node_modules/x/index.js' ]
"""
NPM = """\
npm error code ENOTEMPTY
npm error syscall rename
npm error path {folder}/node_modules/ajv
npm error dest {folder}/node_modules/.ajv-x9kPoQ2k
npm error errno -39
npm error ENOTEMPTY: directory not empty, rename '{folder}/node_modules/ajv' -> '{folder}/node_modules/.ajv-x9kPoQ2k'
"""

KILLED = """\
npm error code ENOENT
npm error syscall open
npm error path {folder}/package.json
npm error errno -2
npm error enoent Could not read package.json: Error: ENOENT: no such file or directory, open '{folder}/package.json'
"""


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / ".npm" / "_npx" / NAME
    folder.mkdir(parents=True)
    (folder / "package.json").write_text('{"dependencies": {"zod": "4"}}')
    return folder


def env(folder):
    return {"HOME": str(folder.parents[2])}


@pytest.mark.parametrize(
    ("said", "why"),
    [(NODE, "ERR_MODULE_NOT_FOUND"), (COMMONJS, "MODULE_NOT_FOUND"), (NPM, "ENOTEMPTY"), (KILLED, "ENOENT")],
)
def test_the_last_words_of_a_server_prove_it(folder, said, why):
    found = find_breakage(said.replace("{folder}", str(folder)), NAME, env(folder))
    assert found == (folder, why)


@pytest.mark.parametrize(
    "said",
    [
        "Error: connect ECONNREFUSED",
        "Listening below {folder}/node_modules",
        "Cannot find module 'zod'\n- /srv/app/index.js",
        "npm error code ENOTEMPTY",
        "npm error code E404\nnpm error 404 {folder}",
        NODE.replace("{folder}", "/elsewhere/_npx/" + NAME),
    ],
)
def test_other_words_do_not(folder, said):
    assert find_breakage(said.replace("{folder}", str(folder)), NAME, env(folder)) is None


def test_a_plug_in_that_was_never_installed_there_proves_nothing(folder):
    lock = folder / "node_modules" / ".package-lock.json"
    lock.parent.mkdir()
    lock.write_text('{"packages": {"node_modules/eslint": {}}}')
    for said in (NODE, COMMONJS):
        said = said.replace("zod", "eslint-plugin-x").replace("{folder}", str(folder))
        assert find_breakage(said, NAME, env(folder)) is None


def test_a_package_that_is_there_is_not_missing(folder):
    said = NODE.replace("{folder}", str(folder))
    package = folder / "node_modules" / "zod" / "package.json"
    package.parent.mkdir(parents=True)
    assert find_breakage(said, NAME, env(folder)) is not None, "only its folder is there"
    package.write_text("{}")
    assert find_breakage(said, NAME, env(folder)) is None


def test_half_a_package_is_missing_if_the_install_never_ended(folder):
    package = folder / "node_modules" / "zod" / "package.json"
    package.parent.mkdir(parents=True)
    package.write_text("{}")
    said = NODE.replace("'zod'", "'{folder}/node_modules/zod/index.js'").replace("{folder}", str(folder))
    assert find_breakage(said, NAME, env(folder)) is not None
    (folder / "node_modules" / ".package-lock.json").write_text("{}")
    assert find_breakage(said, NAME, env(folder)) is None


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("node_modules/.package-lock.json", '{"packages": {"node_modules/zod": {}}}'),
        ("node_modules/@x/y/package.json", '{"dependencies": {"zod": "^4"}}'),
    ],
)
@pytest.mark.parametrize("missing", ["zod", "zod/v4", "{folder}/node_modules/zod/index.js"])
def test_a_dependency_of_a_dependency_is_one(folder, path, text, missing):
    said = NODE.replace("'zod'", f"'{missing}'").replace("{folder}", str(folder))
    (folder / "package.json").write_text("{}")
    assert find_breakage(said, NAME, env(folder)) is None
    (folder / path).parent.mkdir(parents=True)
    (folder / path).write_text(text)
    assert find_breakage(said, NAME, env(folder))[1] == "ERR_MODULE_NOT_FOUND"


@pytest.mark.parametrize("text", ["", "[]", "{", '{"dependencies": ["zod"]}', "[" * 100_000, "x" * (1 << 21)])
def test_files_of_the_folder_may_be_anything(folder, text):
    (folder / "package.json").write_text(text)
    said = NODE.replace("{folder}", str(folder))
    assert find_breakage(said, NAME, env(folder)) is None


@pytest.mark.parametrize("missing", ["../zod", "./zod", "/zod", "node:zod", "@zod", "{folder}/../zod", "zod" * 5000])
def test_what_is_missing_may_be_anything(folder, missing):
    said = NODE.replace("'zod'", f"'{missing}'").replace("{folder}", str(folder))
    assert find_breakage(said, NAME, env(folder)) is None


def test_a_folder_that_is_not_the_server_s_own_is_none(folder):
    said = NODE.replace("{folder}", str(folder))
    assert find_breakage(said, "0" * 16, env(folder)) is None
    assert find_breakage(said, "", env(folder)) is None
    assert find_breakage(said, NAME, {}) is None
    assert find_breakage(said, NAME, {"HOME": "/nowhere"}) is None
    shutil.rmtree(folder)
    assert find_breakage(said, NAME, env(folder)) is None
    folder.symlink_to("/tmp")
    assert find_breakage(said, NAME, env(folder)) is None


def test_a_home_behind_a_link_is_the_same(folder, tmp_path):
    link = tmp_path / "link"
    link.symlink_to(folder.parents[2])
    said = NODE.replace("{folder}", str(folder))
    assert find_breakage(said, NAME, {"HOME": str(link)})[0] == folder


@pytest.mark.parametrize(
    ("environ", "cache"),
    [
        ({"HOME": "{}"}, "{}/.npm"),
        ({"HOME": "{}", "npm_config_cache": "/c"}, "/c"),
        ({"HOME": "{}", "NPM_CONFIG_CACHE": "/c"}, "/c"),
        ({}, None),
    ],
)
def test_the_cache_is_where_npm_has_it(tmp_path, environ, cache):
    found = npm_cache({name: value.format(tmp_path) for name, value in environ.items()})
    assert found == (None if cache is None else Path(cache.format(tmp_path)))


def test_npmrc_says_where_the_cache_is(tmp_path):
    for text, cache in {
        "x=1\ncache = /c\n": "/c",
        'cache="/c d"': "/c d",
        "cache=~/c": f"{tmp_path}/c",
        "cache=${HOME}/c": f"{tmp_path}/c",
        "; cache=/c\n": f"{tmp_path}/.npm",
    }.items():
        (tmp_path / ".npmrc").write_text(text)
        assert npm_cache({"HOME": str(tmp_path)}) == Path(cache), text
    (tmp_path / "other").write_text("cache=/d")
    assert npm_cache({"HOME": str(tmp_path), "npm_config_userconfig": str(tmp_path / "other")}) == Path("/d")


def test_folders_are_moved_aside_one_after_the_other(folder):
    (folder / "one").touch()
    assert move_aside(folder) == folder.parent / f"{NAME}.broken-1"
    folder.mkdir()
    assert move_aside(folder) == folder.parent / f"{NAME}.broken-2"
    assert (folder.parent / f"{NAME}.broken-1" / "one").exists()
    with pytest.raises(FileNotFoundError):
        move_aside(folder)


def test_nothing_else_is_moved(folder, tmp_path):
    npx = folder.parent
    for other in (npx, tmp_path, npx / "0", npx / "x" / NAME, npx / f"{NAME}x"):
        other.mkdir(parents=True, exist_ok=True)
        with pytest.raises(OSError):
            move_aside(other)
        assert other.is_dir()
    link = npx / ("0" * 16)
    link.symlink_to(tmp_path)
    with pytest.raises(PermissionError):
        move_aside(link)
    outside = tmp_path / "outside"
    npx.rename(outside)
    os.symlink(outside, npx)
    with pytest.raises(OSError):
        move_aside(folder)
    assert (outside / NAME).is_dir()


SERVER = "node_modules/@scope/server/dist/index.js"


@pytest.mark.parametrize(
    ("packages", "lacks"),
    [
        ({"node_modules/zod": {}}, True),
        ({"node_modules/@scope/sdk/node_modules/zod": {}}, True),
        ({"node_modules/@scope/sdk": {"dependencies": {"zod": "^4"}}}, True),
        ({"node_modules/@scope/sdk": {"dependencies": ["zod"]}, "": None}, False),
        ({"node_modules/other-zod": {}}, False),
        ({}, False),
        ([], False),
    ],
)
def test_a_package_is_wanted_if_anything_there_needs_it(tmp_path, packages, lacks):
    folder = tmp_path / "_npx" / "0123456789abcdef"
    (folder / LOCK).parent.mkdir(parents=True)
    (folder / LOCK).write_text(json.dumps({"packages": packages}))
    said = f"Error [ERR_MODULE_NOT_FOUND]: Cannot find package 'zod' imported from {folder}/{SERVER}"
    assert lacks_package(said, folder) is lacks
    there = folder / "node_modules/zod"
    there.mkdir()
    (there / "package.json").write_text("{}")
    assert not lacks_package(said, folder)
