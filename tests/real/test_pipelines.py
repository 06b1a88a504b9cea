"""Pipelines over real servers: what the README shows, as a newcomer does it."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.real.recorded import OFFICIAL, table
from tests.support.processes import HUBD, running_hub

pytestmark = pytest.mark.real
README = Path(__file__).parents[2] / "hub" / "README.md"
STRUCTURED = """
[pipelines.weather]
description = "Write the weather of a city into a file."
input = { type = "object", properties = { city = { type = "string" }, path = { type = "string" } } }
[[pipelines.weather.steps]]
id = "weather"
tool = "everything__get-structured-content"
args = { location = "${input.city}" }
[[pipelines.weather.steps]]
id = "save"
tool = "files__write_file"
args = { path = "${input.path}", content = "${weather.data.conditions}, ${weather.data.temperature} degrees, $${x}" }
"""


def example() -> str:
    """The pipeline of the README."""
    section = README.read_text().partition("\n## Pipelines\n")[2].partition("\n## ")[0]
    return re.search(r"```toml\n(.*?)```", section, re.S)[1]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("notes").resolve()


@pytest.fixture(scope="module")
def hub(tmp_path_factory, folder):
    node = shutil.which("node")
    servers = [
        "startup_grace_s = 60",
        table("files", command=node, args=[str(OFFICIAL / "server-filesystem" / "dist" / "index.js"), str(folder)]),
        table("everything", command=node, args=[str(OFFICIAL / "server-everything" / "dist" / "index.js")]),
        example().replace("/home/ann/notes", str(folder)),
        STRUCTURED,
        "[profiles.small]",
        "large_results_bytes = 1000",
        "resource_tools = true",
    ]
    with running_hub(tmp_path_factory.mktemp("hub"), "\n".join(servers)) as hub:
        yield hub


def hubd(hub, *words, code=0):
    done = subprocess.run([HUBD, *words], env=hub.env, capture_output=True, text=True, timeout=60, check=False)
    assert code in (done.returncode, None), done
    return done.stdout + done.stderr


@pytest.mark.covers("EF-1", "EF-2")
def test_the_example_of_the_readme(hub, folder):
    (folder / "plan.md").write_text("A plan with ${input.name} in it.\n")
    assert "hub__keep_copy" in hubd(hub, "tools")
    assert "hub__keep_copy(name)" in hubd(hub, "tools", "hub__keep_copy").replace(": string", "")
    hubd(hub, "call", "hub__keep_copy", "name=plan")
    assert (folder / "plan.old.md").read_text() == "A plan with ${input.name} in it.\n"
    assert "files__write_file" in hubd(hub, "calls")


@pytest.mark.covers("EF-5")
def test_a_step_that_fails_says_so(hub, folder):
    said = hubd(hub, "call", "hub__keep_copy", "name=none", code=1)
    assert "step 1 of 2 (note: files__read_text_file) failed: " in said
    said = hubd(hub, "call", "hub__weather", "city=New York", "path=/etc/outside.txt", code=1)
    assert "step 2 of 2 (save: files__write_file) failed: " in said
    assert "Step 1 was carried out." in said


@pytest.mark.covers("EF-1")
def test_a_part_of_a_structured_result(hub, folder):
    hubd(hub, "call", "hub__weather", "city=New York", f"path={folder / 'weather.txt'}")
    assert re.fullmatch(r".+, \d+ degrees, \$\{x\}", (folder / "weather.txt").read_text())


@pytest.mark.covers("EF-2")
def test_what_is_missing_is_told(hub, folder):
    before = hub.config.read_text()
    hub.config.write_text(before.replace("files__write_file", "files__write_fil"))
    assert "pipelines.keep_copy" in hubd(hub, "reload")
    assert "hub__keep_copy" not in hubd(hub, "tools")
    missing = "pipeline keep_copy is not shown, since there is no tool files__write_fil"
    assert missing in " ".join(hubd(hub, "status").split())
    assert missing in " ".join(hubd(hub, "doctor", code=None).split())
    hub.config.write_text(before.replace("${note.text}", "${not.text}"))
    refused = hubd(hub, "reload", code=78)
    assert "`${not.text}` leads to no earlier step; did you mean note?" in refused
    hub.config.write_text(before)
    hubd(hub, "reload")
    assert "hub__keep_copy" in hubd(hub, "tools")


@pytest.mark.covers("EL-1", "EL-3")
def test_a_long_file_is_read_in_parts_and_resources_by_tools(hub, folder):
    lines = "".join(f"line {number}\n" for number in range(1_000))
    (folder / "long.txt").write_text(lines)
    few = "--profile", "small"
    shown = hubd(hub, "call", "files__read_text_file", f"path={folder / 'long.txt'}", *few)
    id, offset = re.search(r"hub__read_result id=(\S+) offset=(\d+)", shown).group(1, 2)
    assert lines[int(offset) :].startswith("line ")
    found = hubd(hub, "call", "hub__read_result", f"id={id}", "find=line 999", *few)
    assert f"offset={lines.index('line 999')}: line 999" in found
    assert "hub__read_result" not in hubd(hub, "tools")
    uris = re.findall(r"^(\S+://\S+)  ", hubd(hub, "call", "hub__list_resources", *few), re.M)
    assert uris
    assert hubd(hub, "call", "hub__read_resource", f"uri={uris[0]}", *few).strip()
