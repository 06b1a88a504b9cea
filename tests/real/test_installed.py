"""The wheel as people install it: by pip, pipx and uv, from an index, with nothing of this checkout in reach."""

import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support.processes import ROOT, own_directories, running

pytestmark = pytest.mark.everything

TOOLS = Path(sys.executable).parent
INSTALL = ROOT / "tests/deps/install.sh"
SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin"
PATIENCE_S = 110
HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
}


class Installed(NamedTuple):
    """A hubd that somebody installed, and the environment of the shell in which it is used."""

    hubd: Path
    env: dict[str, str]
    place: Path

    def run(self, *arguments: str, code: int = 0) -> str:
        """Run `hubd` with these arguments; what it says on both outputs."""
        return run([self.hubd, *arguments], self.env, self.place, code=code)


def run(argv, env, cwd, *, code=0):
    """Run a command that ends with `code`; what it says on both outputs."""
    done = subprocess.run(
        [str(word) for word in argv],
        env=env,
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=PATIENCE_S,
    )
    assert done.returncode == code, done.stdout
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The wheel, built of the unpacked source distribution: so that is complete, too."""
    folder = tmp_path_factory.mktemp("dist")
    run([TOOLS / "hatchling", "build", "-t", "sdist", "-d", folder], os.environ, ROOT)
    with tarfile.open(next(folder.glob("*.tar.gz"))) as archive:
        archive.extractall(folder, filter="data")
    source = next(path for path in folder.iterdir() if path.is_dir())
    run([TOOLS / "hatchling", "build", "-t", "wheel", "-d", folder], os.environ, source)
    return next(folder.glob("*.whl"))


def shell(place, hubd):
    """The environment of a shell that finds `hubd`, and nothing of this checkout."""
    env = own_directories(place)
    configured(Path(env["XDG_CONFIG_HOME"]), hubd.resolve().with_name("python"))
    env.pop("VIRTUAL_ENV", None)
    env["PATH"] = f"{hubd.parent}:{SYSTEM_PATH}"
    return env


def configured(configuration, python):
    """Let hubs that shims start listen on a port of the kernel's choice, with the demo server that is installed."""
    (configuration / "hubd").mkdir(parents=True)
    demo = f"[upstreams.demo]\ncommand = {json.dumps(str(python))}\nargs = ['-I', '-m', 'upstreams.demo']\n"
    (configuration / "hubd/hubd.toml").write_text(f'listen = "127.0.0.1:0"\n{demo}')


def installing(folder):
    """The environment of installers: all that they keep is below `folder`; the index is this machine's."""
    return {
        **os.environ,
        "UV_TOOL_DIR": f"{folder}/uv-tools",
        "UV_TOOL_BIN_DIR": f"{folder}/bin",
        "UV_CACHE_DIR": f"{folder}/cache/uv",
        "PIPX_HOME": f"{folder}/pipx",
        "PIPX_BIN_DIR": f"{folder}/bin",
        "PIPX_MAN_DIR": f"{folder}/man",
    }


def pipx(folder):
    """A pipx in an environment of its own; its path."""
    place = folder / "pipx-itself"
    run([sys.executable, "-m", "venv", "--without-pip", place], os.environ, folder)
    run([INSTALL, place, "pipx"], os.environ, folder)
    return place / "bin/pipx"


def by_pip(wheel, folder):
    run([sys.executable, "-m", "venv", folder / "venv"], os.environ, folder)
    run([folder / "venv/bin/pip", "install", "--quiet", wheel], os.environ, folder)
    return folder / "venv/bin/hubd"


def by_pipx(wheel, folder):
    run([pipx(folder), "install", wheel], installing(folder), folder)
    return folder / "bin/hubd"


def by_uv(wheel, folder):
    run([TOOLS / "uv", "tool", "install", "--python", sys.executable, wheel], installing(folder), folder)
    return folder / "bin/hubd"


def _way(install, id):
    return pytest.param(install, id=id, marks=pytest.mark.xdist_group(f"installed by {id}"))


@pytest.fixture(scope="module", params=[_way(by_pip, "pip"), _way(by_pipx, "pipx"), _way(by_uv, "uv tool")])
def installed(request, wheel, tmp_path_factory):
    folder = tmp_path_factory.mktemp("i")
    hubd = request.param(wheel, folder)
    place = folder / "user"
    return Installed(hubd, shell(place, hubd), place)


def answers(shim, identity):
    """Read lines of a shim until the answer with this id."""
    match = shim.wait_for(rf'"id":\s*{identity}\b.*')
    return json.loads(match.string)


def ask(shim, identity, method, **params):
    shim.write(json.dumps({"jsonrpc": "2.0", "id": identity, "method": method, "params": params}).encode() + b"\n")
    return answers(shim, identity)


def begin(shim):
    shim.write(json.dumps(HELLO).encode() + b"\n")
    assert answers(shim, 1)["result"]["serverInfo"]["name"] == "hubd"
    shim.write(b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n')


def test_it_serves_and_calls(installed):
    with running([installed.hubd, "serve"], installed.place / "log", env=installed.env) as hub:
        hub.wait_for("hubd listens on")
        assert installed.run("call", "demo__add", "a=2", "b=40") == "2 + 40 = 42\n"
        installed.run("stop")
        assert hub.exit_code() == 0


def test_a_shim_starts_the_hub_and_starts_it_again(installed):
    """The working directory and PYTHONPATH hold modules that stop everything that imports them."""
    hostile = installed.place / "hostile"
    hostile.mkdir()
    for name in ("hub", "config", "cache", "upstreams"):
        (hostile / f"{name}.py").write_text("raise SystemExit('a module of somebody else')")
    env = {**installed.env, "PYTHONPATH": str(hostile)}
    try:
        with running([installed.hubd, "connect"], installed.place / "shim.log", env=env, cwd=hostile) as shim:
            begin(shim)
            for identity in (2, 3):
                arguments = {"a": identity, "b": 40}
                result = ask(shim, identity, "tools/call", name="demo__add", arguments=arguments)["result"]
                assert result["content"][0]["text"] == f"{identity} + 40 = {identity + 40}"
                installed.run("stop")
    finally:  # a shim that still runs starts the hub again
        subprocess.run(
            [installed.hubd, "stop"], env=installed.env, capture_output=True, timeout=PATIENCE_S, check=False
        )


def test_it_can_be_set_up(installed):
    """A home with one host and one server: what setup would do, and nothing is done."""
    file = installed.place / "home" / ".codeium/windsurf/mcp_config.json"
    file.parent.mkdir(parents=True)
    python = installed.hubd.resolve().with_name("python")
    server = {"command": str(python), "args": ["-I", "-m", "upstreams.demo"], "env": {"MINE": "1"}}
    file.write_text(json.dumps({"mcpServers": {"mine": server}}))
    before = file.read_text()
    said = installed.run("setup", "--dry-run", "--yes")
    assert "Windsurf" in said
    assert "6 tools" in said
    assert file.read_text() == before
    file.unlink()


def test_hosts_get_a_path_that_outlives_updates(installed):
    file = installed.place / "home" / ".cursor" / "mcp.json"
    file.parent.mkdir(parents=True)
    installed.run("install", "cursor")
    assert json.loads(file.read_text())["mcpServers"]["hub"]["command"] == str(installed.hubd)


@pytest.mark.parametrize("runner", ["uvx", "pipx run"])
def test_a_hub_of_one_run_works_and_is_put_into_no_host(runner, wheel, tmp_path):
    """`uvx mcp-hubd` and `pipx run mcp-hubd`: the command has the name of the package."""
    if runner == "uvx":
        start = [TOOLS / "uv", "tool", "run", "--python", sys.executable, "--from", wheel, "mcp-hubd"]
    else:
        start = [pipx(tmp_path), "run", "--spec", wheel, "mcp-hubd"]
    env = {**installing(tmp_path), "HUBD_RUNTIME_DIR": str(tmp_path / "r")}
    env |= {"XDG_STATE_HOME": str(tmp_path / "state"), "XDG_CONFIG_HOME": str(tmp_path / "config")}
    env["PATH"] = SYSTEM_PATH
    configured(tmp_path / "config", sys.executable)
    assert run([*start, "version"], env, tmp_path).splitlines()[-1].startswith("hubd ")
    said = run([*start, "install", "cursor"], env, tmp_path, code=2)
    assert "mcp-hubd`" in said
    assert f"cache of {runner}" in said
    with running([*start, "connect"], tmp_path / "shim.log", env=env, cwd=tmp_path) as shim:
        begin(shim)
        run([*start, "stop"], env, tmp_path)
    assert "may vanish" in shim.log.read_text()
