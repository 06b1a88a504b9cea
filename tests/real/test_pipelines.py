"""Pipelines over real servers: what the README shows, as a newcomer does it."""

import re
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.real.recorded import OFFICIAL, table
from tests.support.commands import run_hubd
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


@contextmanager
def changed(hub, old, new):
    """The configuration with something else in it."""
    before = hub.config.read_text()
    assert old in before
    hub.config.write_text(before.replace(old, new))
    try:
        yield
    finally:
        hub.config.write_text(before)
        hubd(hub, "reload")


@pytest.mark.covers("EF-1", "EF-2")
def test_the_example_of_the_readme(hub, folder):
    (folder / "plan.md").write_text("A plan with ${input.name} in it.\n")
    assert "hub__keep_copy" in hubd(hub, "tools")
    assert "hub__keep_copy(name)" in hubd(hub, "tools", "hub__keep_copy").replace(": string", "")
    hubd(hub, "call", "hub__keep_copy", "name=plan")
    assert (folder / "plan.old.md").read_text() == "A plan with ${input.name} in it.\n"
    assert "files__write_file" in hubd(hub, "calls")


@pytest.mark.in_turn(2)
@pytest.mark.covers("EF-5")
def test_a_step_that_fails_says_so(hub, folder):
    said = hubd(hub, "call", "hub__keep_copy", "name=none", code=1)
    assert "step 1 of 2 (note: files__read_text_file) failed: " in said
    said = hubd(hub, "call", "hub__weather", "city=New York", "path=/etc/outside.txt", code=1)
    assert "step 2 of 2 (save: files__write_file) failed: " in said
    assert "Step 1 was carried out." in said


@pytest.mark.in_turn(2)
@pytest.mark.covers("EF-1", "EF-6")
def test_fifty_at_once_over_real_servers(hub, folder):
    notes = {f"note-{number}": f"${{input.name}} of {number}\n" * (number + 1) for number in range(50)}
    for name, content in notes.items():
        (folder / f"{name}.md").write_text(content)
    with ThreadPoolExecutor(8) as pool:
        done = [*pool.map(lambda name: run_hubd(["call", "hub__keep_copy", f"name={name}"], hub.env), notes)]
    assert [each.returncode for each in done] == [0] * 50, done
    assert {name: (folder / f"{name}.old.md").read_text() for name in notes} == notes


@pytest.mark.covers("EF-1")
def test_a_part_of_a_structured_result(hub, folder):
    hubd(hub, "call", "hub__weather", "city=New York", f"path={folder / 'weather.txt'}")
    assert re.fullmatch(r".+, \d+ degrees, \$\{x\}", (folder / "weather.txt").read_text())


@pytest.mark.in_turn(2)
@pytest.mark.covers("EF-2")
def test_what_is_missing_is_told(hub, folder):
    why = "step 2 of 2 (copy: files__write_fil): there is no tool files__write_fil; did you mean files__write_file"
    missing = f"pipeline keep_copy is not shown: {why}"
    with changed(hub, "files__write_file", "files__write_fil"):
        reloaded = hubd(hub, "reload")
        assert "pipelines.keep_copy" in reloaded
        assert f"hubd: warning: {missing}" in reloaded
        assert "hub__keep_copy" not in hubd(hub, "tools")
        assert missing in " ".join(hubd(hub, "status").split())
        assert missing in " ".join(hubd(hub, "doctor", code=None).split())
        called = hubd(hub, "call", "hub__keep_copy", "name=plan", code=1)
        assert f"hub__keep_copy cannot be called now: {why}" in called
        assert f"hub__keep_copy: {why}" in hubd(hub, "check", "keep_copy", code=1)
    with changed(hub, "${note.text}", "${not.text}"):
        wrong = "`${not.text}` leads to no earlier step; did you mean note?"
        assert wrong in hubd(hub, "reload", code=78)
        [line] = hubd(hub, "check", "files", code=1).splitlines()
        assert wrong in line
    assert "hub__keep_copy" in hubd(hub, "tools")
    assert hubd(hub, "check", "keep_copy", "hub__weather") == "all is well: 2 pipelines\n"


@pytest.mark.covers("EF-2")
def test_a_misspelt_argument_is_told_before_anything_runs(hub, folder):
    doubts = [
        "step 2 of 2 (copy: files__write_file): its tool has no argument 'contents'; did you mean 'content'?",
        "step 2 of 2 (copy: files__write_file): its tool requires the argument 'content', which it is not given",
    ]
    with changed(hub, 'old.md", content', 'old.md", contents'):
        reloaded, status = hubd(hub, "reload"), " ".join(hubd(hub, "status").split())
        doctor, check = " ".join(hubd(hub, "doctor", code=None).split()), hubd(hub, "check", code=1)
        for doubt in doubts:
            assert f"pipeline keep_copy: {doubt}" in reloaded
            assert f"pipeline keep_copy: {doubt}" in status
            assert f"pipeline keep_copy: {doubt}" in doctor
            assert f"hub__keep_copy: {doubt}\n" in check
    assert hubd(hub, "check") == "all is well: 2 servers, 2 pipelines\n"


@pytest.mark.covers("EF-2")
def test_a_server_that_nobody_has_is_told_by_all_who_read_the_file(hub, folder):
    told = "no server here has tools of such names, unless a project has one that does: 'fils__write_file' (did you"
    with changed(hub, "files__write_file", "fils__write_file"):
        assert told in hubd(hub, "validate", str(hub.config))
        assert told in hubd(hub, "reload")
        assert told in hubd(hub, "check", "everything", code=1)
        assert "no server is called fils; did you mean files__write_file?" in hubd(hub, "check", "keep_copy", code=1)


@pytest.mark.in_turn(2)
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
