"""The Containerfile: its RUN, HEALTHCHECK and CMD lines work for somebody without rights, in an empty home and a new
environment; and as a whole, where there is a builder."""

import json
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support.processes import ROOT, free_port, running

FILE = ROOT / "systemd" / "Containerfile"
NOBODY = 65534
PATIENCE_S = 100


class Instruction(NamedTuple):
    """One instruction of the file: its word, and the rest, continued lines joined."""

    word: str
    rest: str


def instructions() -> list[Instruction]:
    text = "\n".join(line for line in FILE.read_text().splitlines() if not line.startswith("#"))
    words = re.findall(r"^(\w+)\s+(.*)$", text.replace("\\\n", " "), re.MULTILINE)
    return [Instruction(*each) for each in words]


def the(word: str) -> list[str]:
    return [each.rest for each in instructions() if each.word == word]


@pytest.fixture
def place():
    """A folder of somebody who has no rights: root's temporary folders are closed to others."""
    with tempfile.TemporaryDirectory(prefix="hubd-") as name:
        os.chmod(name, 0o755)
        yield Path(name)


def somebody(argv: list[str]) -> list[str]:
    """The command as a user without rights, if this is root."""
    if os.geteuid():
        return argv
    return ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--no-new-privs", *argv]


@pytest.mark.everything
def test_its_lines_work_without_rights(place):
    port = str(free_port())

    def here(text: str) -> str:
        return text.replace("8765", port)

    source, bin_ = place / "src", place / "bin"
    for words in the("COPY"):
        *names, target = [word for word in words.split() if not word.startswith("--")]
        if "--from" not in words:
            for name in names:
                to = source / target / (name if target == "./" else "")
                to.parent.mkdir(parents=True, exist_ok=True)
                copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
                copy(ROOT / name, to)
    container = source / "systemd/container.toml"
    container.write_text(here(container.read_text()))
    bin_.mkdir()
    (bin_ / "python").symlink_to("/usr/bin/python3")
    environ = {name: value for name, value in os.environ.items() if name.startswith(("PIP_", "SSL_"))}
    environ |= {"VENV": str(place / "venv"), "HOME": str(place / "home"), "HUBD_RUNTIME_DIR": str(place / "run")}
    environ["PATH"] = f"{bin_}:/usr/bin:/bin"
    if not os.geteuid():
        for path in (place, *place.rglob("*")):
            os.chown(path, NOBODY, NOBODY, follow_symlinks=False)
    for line in the("RUN"):
        argv = somebody(["sh", "-c", line])
        done = subprocess.run(argv, cwd=source, env=environ, capture_output=True, text=True, timeout=PATIENCE_S)
        assert done.returncode == 0, done.stdout + done.stderr
    environ["PATH"] = f"{place / 'venv/bin'}:/usr/bin:/bin"
    [command] = [json.loads(rest) for rest in the("CMD")]
    [check] = [rest.partition(" CMD ")[2] for rest in the("HEALTHCHECK")]
    check_argv = somebody(["sh", "-c", here(check)])
    assert subprocess.run(check_argv, env=environ, capture_output=True, timeout=PATIENCE_S).returncode == 1, "too early"
    with running(somebody(command), place / "log", env=environ, cwd=place / "home") as hub:
        hub.wait_for("hubd listens on")
        subprocess.run(check_argv, env=environ, check=True, timeout=PATIENCE_S)
        token = somebody([str(place / "venv/bin/hubd"), "token"])
        shown = subprocess.run(token, env=environ, check=True, capture_output=True, timeout=PATIENCE_S)
        assert len(shown.stdout.strip()) >= 16
        listening = subprocess.run(["ss", "-ltn"], capture_output=True, text=True, check=False).stdout
        assert not listening or f"0.0.0.0:{port}" in listening
    assert "root" not in the("USER")
    assert the("USER") == ["1000:1000"]


def test_it_is_published_on_loopback_only():
    """Every command of ours that publishes a port names the address."""
    for file in (FILE, ROOT / "README.md", ROOT / "systemd/README.md"):
        for port in re.findall(r"docker run .*-p (\S+)", file.read_text()):
            assert port.startswith("127.0.0.1:")


@pytest.mark.everything
@pytest.mark.timeout(900)
def test_it_is_built_where_there_is_a_builder():
    builder = shutil.which("docker") or shutil.which("podman")
    if builder is None or subprocess.run([builder, "info"], capture_output=True, check=False).returncode:
        pytest.skip("there is no builder of containers here")
    subprocess.run(shlex.split(f"{builder} build -q -f {FILE} {ROOT}"), check=True, timeout=800)
