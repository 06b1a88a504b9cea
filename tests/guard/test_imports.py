"""What a hub does not import that serves calls of servers that need no sign-in."""

import json
import signal
import sys
from contextlib import closing
from pathlib import Path

from tests.guard.count_calls import HttpHost
from tests.support.processes import own_directories, running

HERE = Path(__file__).parent


def test_calls_import_no_client_of_the_web(tmp_path: Path) -> None:
    config = tmp_path / "hubd.toml"
    args = json.dumps(["-I", "-S", str(HERE / "echo_server.py")])
    config.write_text(
        f"[upstreams.echo]\ncommand = {json.dumps(sys.executable)}\nargs = {args}\nera = 'legacy'\n"
        "[upstreams.far]\nurl = 'http://127.0.0.1:1/mcp'\n"
    )
    env = own_directories(tmp_path)
    argv = [sys.executable, HERE / "imported_hub.py", "--config", config, "--listen", "127.0.0.1:0"]
    with running(argv, tmp_path / "hubd.log", env=env, cwd=tmp_path) as hub:
        port = int(hub.wait_for(r"https?://[^\s\"]+:(\d+)/mcp")[1])
        token = Path(env["XDG_STATE_HOME"], "hubd", "token").read_text().strip()
        with closing(HttpHost(port, token, "modern", 1)) as host:
            host.round()
        hub.signalled(signal.SIGUSR2, patience_s=0)
        assert hub.wait_for("^imported: .*")[0] == "imported: ."
