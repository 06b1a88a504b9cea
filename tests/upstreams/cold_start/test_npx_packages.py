"""What a folder of npx lacks, by its own lists."""

import json

import pytest

from upstreams.cold_start.npx_packages import LOCK, lacks_package

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
