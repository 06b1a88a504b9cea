"""The sandbox of one process: what of this machine its preset shows, and whether bubblewrap can do that here.

bubblewrap is tried when a server is to be started, until it has worked once: who installs it need not restart the hub.
"""

import os
import shutil
import stat
import sys
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from typing import Any, Final

import trio
from msgspec import structs

from config import base_directories
from config.diagnostics import ConfigError
from config.hub_paths import own_home, runtime_dir
from config.loading.assemble import Loaded
from config.loading.gather import DROP_INS, IMPORTED, OWN_VARIABLES
from config.secrets.run_child import ChildFailed, run_child
from config.settings import UpstreamConfig
from hub.link.hub_errors import UpstreamConfined
from hub.wire.printable import printable
from upstreams.transports.stdio.sandbox.arguments import (
    ALL,
    OPEN,
    REPLACED,
    SKELETONS,
    Bind,
    Enclosure,
    SandboxPlaces,
    bubblewrap_arguments,
    is_within,
    limit_arguments,
)

PROBE_S: Final = 20.0
"""Time for bubblewrap to show that it works: on a busy machine a new network may take seconds."""
RESOLVER: Final = "/etc/resolv.conf"
SSH_SNIPPETS: Final = "/etc/ssh/ssh_config.d"
"""ssh refuses to start where files here are neither root's nor its user's, and in a sandbox nothing is root's."""
SNAPS: Final = ("/snap", "/var/lib/snapd/snap")
HUBS: Final = frozenset(("hubd", "mcp-hubd"))
CONFIG_NAMES: Final = frozenset(("hubd.toml", OWN_VARIABLES, DROP_INS, IMPORTED, "hubd.schema.json"))
"""The hub's own names in its configuration directory. One that holds no other file is hidden as a whole."""
NOT_INSTALLED: Final = "bubblewrap is not installed (Debian, Ubuntu, Fedora, Arch: the package `bubblewrap`)"
FORBIDDEN: Final = "bubblewrap does not work here: {why}. Its version may be too old, or user namespaces are forbidden"
REMEDY: Final = "by AppArmor, in a container, or in a unit with RestrictNamespaces="


class Sandboxes:
    """The sandboxes of a hub's servers. `loaded` is its present configuration; None: it has no files."""

    def __init__(
        self, loaded: Callable[[], Loaded | None] = lambda: None, environ: Mapping[str, str] = os.environ
    ) -> None:
        self._loaded = loaded
        self._environ = environ
        self._working: set[tuple[str, str]] = set()
        """Programs and presets that were tried and work."""

    async def enclose(self, config: UpstreamConfig, name: str, env: Mapping[str, str]) -> Enclosure:
        """The sandbox of the next process of a server, whose environment is `env`. Raises UpstreamConfined: it cannot
        be had."""
        box = config.sandbox
        if box.preset == "off" and not box.memory_bytes:
            return OPEN
        return await trio.to_thread.run_sync(self._enclose, config, name, env)

    def _enclose(self, config: UpstreamConfig, name: str, env: Mapping[str, str]) -> Enclosure:
        box = config.sandbox
        preset = "shield" if box.preset == "auto" else box.preset
        why = _reason_for_none(config, env) if box.preset == "auto" else ""
        places = SandboxPlaces()
        try:
            limits = self._limits(box.memory_bytes, box.processes)
            if preset != "off":
                why = why or self.problem_of(preset)
                places = places if why else _places(preset, config, name, env, self._loaded())
        except (OSError, ConfigError) as error:
            why, limits = str(error), ()
        if why and box.preset != "auto" and box.fallback != "off":
            fix = 'or set fallback = "off" beside the preset, and it runs without'
            raise UpstreamConfined(
                f'{name} is not started: sandbox "{preset}" cannot be had: {why}; {fix}', upstream=name
            )
        if why or preset == "off":
            return Enclosure(why=why, limits=self._limits(box.memory_bytes) if limits else ())
        program = self._which("bwrap")
        assert program is not None
        return Enclosure(preset, "", (program, *bubblewrap_arguments(preset, places)), limits, places)

    def problem_of(self, preset: str) -> str:
        """The reason why `preset` cannot be had on this machine; "": it can. Blocks for some milliseconds."""
        if (program := self._which("bwrap")) is None:
            return NOT_INSTALLED if sys.platform == "linux" else "there are no sandboxes but on Linux"
        if (program, preset) in self._working:
            return ""
        try:
            argv = [program, *ALL, *SKELETONS[preset], "true"]
            done = run_child(argv, within_s=PROBE_S, limit_bytes=1, environ=self._environ, directory="/")
        except ChildFailed as error:
            return FORBIDDEN.format(why=error)
        if done.status:
            said = printable(done.stderr.decode(errors="replace").strip())
            return f"{FORBIDDEN.format(why=said or f'status {done.status}')} ({REMEDY})"
        self._working.add((program, preset))
        return ""

    def _which(self, command: str) -> str | None:
        return shutil.which(command, path=f"{self._environ.get('PATH', '')}:{os.defpath}")

    def _limits(self, memory_bytes: int, processes: int = 0) -> tuple[str, ...]:
        if not memory_bytes and not processes:
            return ()
        if (program := self._which("prlimit")) is None:
            raise FileNotFoundError("prlimit is not installed (the package `util-linux`)")
        return tuple(limit_arguments(program, memory_bytes, processes))


def _reason_for_none(config: UpstreamConfig, env: Mapping[str, str]) -> str:
    """The reason why a command gets no sandbox unasked; "": it gets one."""
    command = config.command or ""
    if os.path.basename(command) in _tool_chains()["own_sandboxes"]:
        return f"{os.path.basename(command)} makes sandboxes of its own, which it could not do in it"
    names = {os.path.basename(word) for word in (command, *config.args[:2])}
    if not names.isdisjoint(HUBS) or config.args[:2] == ("-m", "hub"):
        return "it is a hub, which keeps its own directories"
    found = shutil.which(command, path=env.get("PATH", os.defpath)) or command
    if is_within(found, SNAPS):
        return "snaps do not run in it"
    with suppress(OSError):
        if os.stat(found).st_mode & (stat.S_ISUID | stat.S_ISGID):
            return f"{os.path.basename(command)} changes its user, which it could not do in it"
    return ""


# --- what there is on this machine ------------------------------------------------------------------------------------


def _places(
    preset: str, config: UpstreamConfig, name: str, env: Mapping[str, str], loaded: Loaded | None
) -> SandboxPlaces:
    """The paths that matter to one server. Raises OSError, ConfigError: one that it needs is not there."""
    hidden = [os.path.realpath(path) for path in (base_directories.state_dir(), runtime_dir(), SSH_SNIPPETS)]
    files = [] if loaded is None else [*_own_files(loaded)]
    own_directory = os.path.realpath(base_directories.config_dir())
    beside = _folders_in(own_directory) if files else None
    if beside is not None:  # a wall around a single file is gone once somebody replaces the file
        hidden.append(own_directory)
    guarded = [Bind(path, path) for path in map(os.path.realpath, files) if os.path.exists(path)]
    known = () if loaded is None else loaded.files
    closed = [os.path.realpath(path) for path in known if path.name == OWN_VARIABLES and path.is_file()]
    places = SandboxPlaces(
        hidden=tuple(path for path in hidden if os.path.isdir(path)),
        closed=tuple(closed),
        guarded=tuple(bind for bind in dict.fromkeys(guarded) if bind.source not in closed),
        beside=tuple(beside or ()),
    )
    if preset == "shield":
        return places
    others = () if loaded is None else loaded.config.upstreams.values()
    return _with_home(places, config, name, env, files, [path for each in others for path in each.sandbox.write])


def _with_home(
    places: SandboxPlaces,
    config: UpstreamConfig,
    name: str,
    env: Mapping[str, str],
    files: Iterable[Path],
    written_by_others: Iterable[str],
) -> SandboxPlaces:
    """The same, with a home of its own and what is shown in it."""
    written = os.path.expanduser("~")
    home = os.path.realpath(written)
    if home == "/" or not os.path.isdir(home):
        raise FileNotFoundError(f"the home directory {written} is none that another could stand for")
    bind = partial(_bind, home=home, written=written)
    chains = _tool_chains()
    tools = [os.path.join(home, each) for each in chains["home"]]
    named = (env.get(variable, "") for variable in chains["variables"])
    tools += [path for path in named if os.path.isabs(path) and not is_within(home, (os.path.realpath(path),))]
    shown = [bind(path) for path in tools if os.path.isdir(path)]
    resolver = os.path.realpath(RESOLVER)  # the file that says whom to ask for names
    others = [*chains["run"], *([resolver] if is_within(resolver, ("/run",)) else [])]
    shown += [Bind(path, path) for path in others if os.path.exists(path)]
    cwd = config.cwd or ""
    if os.path.realpath(cwd) in {os.path.realpath(path.parent) for path in files}:
        cwd = ""  # nobody chose that directory
    covers_home = is_within(home, (os.path.realpath(cwd),))
    reads = (*config.sandbox.read, *([cwd] if cwd and not covers_home else []))
    for path in (*reads, *config.sandbox.write):
        if not os.path.exists(path):
            raise FileNotFoundError(f"{path} is not there: make it, or take it out")
        if (link := _find_link(path, (*config.sandbox.write, *written_by_others))) is not None:
            raise FileNotFoundError(f"{path} leads through a link that a server may have made: {link}; name its target")
    read = [bind(path) for path in reads]
    writable = [bind(path) for path in config.sandbox.write]
    shown = [each for each in dict.fromkeys([*shown, *read]) if each not in writable]
    return structs.replace(
        places,
        home=home,
        own=str(own_home(name)),
        shown=tuple(shown),
        writable=tuple(writable),
        cwd=bind(cwd).at if cwd else "",
    )


def _bind(path: str, home: str, written: str) -> Bind:
    """A path as a server finds it: below the home as it is written, elsewhere with links followed."""
    source, path = os.path.realpath(path), os.path.normpath(path)
    if is_within(path, (written,)):
        return Bind(source, os.path.normpath(home + path[len(written.rstrip("/")) :]))
    return Bind(source, path if is_within(path, (home, *REPLACED)) else source)


def _find_link(path: str, writable: Iterable[str]) -> str | None:
    """The first link on the way to `path`, which is there, that lies in one of the places that servers may write."""
    places, at, rest = [os.path.realpath(each) for each in writable], "/", path.split("/")
    while rest:
        name, *rest = rest
        step = os.path.normpath(os.path.join(at, name))
        if not os.path.islink(step):
            at = step
        elif is_within(at, places):
            return step
        else:
            rest = [*os.readlink(step).split("/"), *rest]
            at = "/" if os.path.isabs(os.readlink(step)) else at
    return None


def _own_files(loaded: Loaded) -> Iterator[Path]:
    """The files of the configuration, and the directories where more of them count."""
    yield from loaded.sources
    yield from (path for path in loaded.files if path.name == OWN_VARIABLES)
    yield from (path for path in loaded.named_directories if path.name in (DROP_INS, IMPORTED))


def _folders_in(directory: str) -> list[str] | None:
    """The directories in the hub's configuration directory that are not its own; None: there are other files, too, and
    whoever has them there may want to write more."""
    try:
        others = [os.path.join(directory, name) for name in sorted(set(os.listdir(directory)) - CONFIG_NAMES)]
    except OSError:
        return None
    return others if all(map(os.path.isdir, others)) else None


@cache
def _tool_chains() -> Mapping[str, Any]:
    return tomllib.loads(Path(__file__).with_name("tool_chains.toml").read_text())
