"""What is not imported where it is not needed: it would cost each start of a hub or a command."""

import json
import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from tests.guard.count_calls import HttpHost
from tests.support.oauth.rig import OAuthRig
from tests.support.processes import ROOT, Hub, free_port, own_directories, running
from tests.support.signing_hub import SigningHub

HERE = Path(__file__).parent


FAR = "[upstreams.far]\nurl = 'http://127.0.0.1:1/mcp'\n"


@pytest.mark.parametrize(
    ("far", "imported"),
    [("", ""), (FAR, "email upstreams.fetch upstreams.oauth upstreams.transports.http")],
    ids=["stdio", "a URL too"],
)
def test_what_no_server_and_no_call_needs_is_not_imported(tmp_path: Path, far: str, imported: str) -> None:
    config = tmp_path / "hubd.toml"
    args = json.dumps(["-I", "-S", str(HERE / "echo_server.py")])
    config.write_text(f"[upstreams.echo]\ncommand = {json.dumps(sys.executable)}\nargs = {args}\nera = 'legacy'\n{far}")
    env = own_directories(tmp_path)
    argv = [sys.executable, HERE / "imported_hub.py", "--config", config, "--listen", "127.0.0.1:0"]
    with running(argv, tmp_path / "hubd.log", env=env, cwd=tmp_path) as hub:
        port = int(hub.wait_for(r"https?://[^\s\"]+:(\d+)/mcp")[1])
        token = Path(env["XDG_STATE_HOME"], "hubd", "token").read_text().strip()
        with closing(HttpHost(port, token, "modern", 1)) as host:
            host.round()
        hub.signalled(signal.SIGUSR2, patience_s=0)
        assert hub.wait_for("^imported: .*")[0] == f"imported: {imported}."


def test_nobody_waits_while_what_signs_in_is_loaded(oauth: OAuthRig, tmp_path: Path) -> None:
    """From the first refusal to the logout: it is loaded in threads, whoever asks first."""
    notes, other = oauth.liar(), oauth.liar()
    env = own_directories(tmp_path)
    config = tmp_path / "hubd.toml"
    config.write_text(f"[upstreams.notes]\nurl = '{notes.url}'\n[upstreams.other]\nurl = '{other.url}'\n")
    argv = [sys.executable, HERE / "imported_hub.py", "--config", config, "--listen", f"127.0.0.1:{free_port()}"]
    with running(argv, tmp_path / "hubd.log", env=env, cwd=tmp_path) as process:
        url = process.wait_for(r"https?://[^\s\"]+/mcp")[0]
        with pytest.raises(HTTPError):
            urlopen(url.replace("/mcp", "/oauth/begin/stranger"), timeout=60)
        token = Path(env["XDG_STATE_HOME"], "hubd", "token").read_text().strip()
        hub = SigningHub(Hub(url, token, env, config, process), tmp_path)
        hub.until_refused()
        assert hub.sign_in().state == "signed_in"
        assert hub.call().is_good
        notes.expire()
        hub.call()
        assert hub.sign_out().was_signed_in
        process.signalled(signal.SIGUSR2, patience_s=0)
        assert "httpx" in process.wait_for("^imported: .*")[0]
        assert process.wait_for("^waited for: .*")[0] == "waited for: ."


def test_only_commands_that_ask_a_registry_import_a_client_of_the_web(tmp_path: Path) -> None:
    told = (
        "import sys; from hub.cli.main import main; main(sys.argv[1:]); print('httpx' in sys.modules, file=sys.stderr)"
    )
    env = own_directories(tmp_path)
    gone = tmp_path / "gone.toml"
    gone.write_text('[registries.official]\nurl = "http://127.0.0.1:1"\n')
    said = {}
    for words in (["add", "x", "--", "sh"], ["outdated"], ["remove", "x"], ["search", "x", "--config", str(gone)]):
        done = subprocess.run([sys.executable, "-c", told, *words], env=env, capture_output=True, text=True, timeout=60)
        said[words[0]] = done.stderr.strip().rpartition("\n")[2]
    assert said == {"add": "False", "outdated": "False", "remove": "False", "search": "True"}


def test_a_plain_install_has_all_that_is_imported() -> None:
    """All but the store in Redis and WebSocket, where no extra is installed."""
    told = (
        "import importlib, sys\n"
        "sys.modules.update(dict.fromkeys(('coredis', 'anyio', 'keyring', 'wsproto')))\n"
        "for name in sys.argv[1:]: importlib.import_module(name)"
    )
    paths = [
        path.relative_to(ROOT)
        for part in ("hub", "config", "upstreams", "cache")
        for path in (ROOT / part).rglob("*.py")
    ]
    programs = {"hubd_script.py", "mcp_hubd_script.py", "__main__.py"}
    extras = {ROOT / "cache" / "redis", ROOT / "upstreams" / "transports" / "websocket"}
    names = [
        ".".join(path.with_suffix("").parts)
        for path in paths
        if extras.isdisjoint((ROOT / path).parents) and path.name not in programs
    ]
    done = subprocess.run([sys.executable, "-c", told, *names], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_words_of_commands_are_read_without_what_carries_them_out() -> None:
    told = "import sys; import hub.cli.parser; print(*sorted(sys.modules.keys() & set(sys.argv[1:])))"
    heavy = ("httpx", "msgspec", "rich", "tomlkit", "trio", "typing_extensions", "yaml")
    done = subprocess.run([sys.executable, "-c", told, *heavy], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split() == []
