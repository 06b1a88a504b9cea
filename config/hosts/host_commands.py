"""Programs of hosts that change their files themselves, since these are live state."""

import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from config.errors import EditError
from config.hosts.facts import Host

PROGRAM_PATIENCE_S: Final = 60


def run_program(command: tuple[str, ...], environ: Mapping[str, str]) -> None:
    """Run a host's own program; what it says is shown only if it fails.

    Raises:
        EditError: it cannot be run, or fails.
    """
    name = Path(command[0]).name
    try:
        done = subprocess.run(
            command,
            env=dict(environ),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=PROGRAM_PATIENCE_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        if isinstance(error, OSError):
            raise EditError(f"`{name} mcp` cannot be run: {error.strerror}; nothing was changed") from None
        raise EditError(f"`{name} mcp` gave no answer within {PROGRAM_PATIENCE_S} s, and was stopped") from None
    if done.returncode:
        said = done.stdout.decode(errors="replace").strip()[:300]
        raise EditError(f"`{' '.join((name, *command[1:6]))}` failed: {said or f'exit code {done.returncode}'}")


def own_program(host: Host, environ: Mapping[str, str]) -> str | None:
    """The host's own program for changing its entries, if it has one and it is on PATH."""
    return shutil.which(host.program, path=environ.get("PATH", "")) if host.program else None
