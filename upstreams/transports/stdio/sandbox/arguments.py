"""The command in front of a server's command: bubblewrap with what each preset shows and hides, then prlimit. Pure.

    shield    everything as it is; the hub's own directories are empty, its files read-only or not to be opened
    own-home  the system read-only; a home, /tmp and /run of its own in place of the user's; what is named beside that
    offline   the same, and of the network only a loopback of its own

What stands later covers what stands before it. So the walls around the hub's own come last, and what is empty is made
read-only after it was filled: what a server wrote there would seem to be kept, and be lost. A directory with a wall in
it is mounted onto itself: else a server could move it away, wall and all, and put another one in its place.
"""

from collections.abc import Collection, Iterable, Iterator
from pathlib import PurePath
from typing import Final, NamedTuple

from msgspec import Struct

ALL: Final = ("--unshare-user", "--cap-drop", "ALL", "--die-with-parent")
REPLACED: Final = ("/tmp", "/run")
"""Directories of the system that are empty in a home of its own: in them are sockets of whoever would obey."""
_OWN_HOME: Final = (
    *("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"),
    *("--unshare-pid", "--unshare-ipc", "--unshare-uts"),
)
SKELETONS: Final = {"shield": ("--dev-bind", "/", "/"), "own-home": _OWN_HOME, "offline": (*_OWN_HOME, "--unshare-net")}
"""The part of each preset that is the same for all servers, with which is tried whether it can be had."""
NOT_TO_BE_OPENED: Final = "/dev/null"
"""In place of a file: devices cannot be opened where it is shown."""


_APART: Final = 'exec "$0" "$@" 8<&0 9>&1 </dev/null >/dev/null'
_TOGETHER: Final = ("/bin/sh", "-c", 'exec "$0" "$@" <&8 >&9 8<&- 9>&-')
"""Standard input and output are for the command alone: bubblewrap, which stays beside it, would hold them open when it
has closed them."""


class Bind(NamedTuple):
    """Something of the machine, and the path that a server finds it by."""

    source: str
    at: str


class SandboxPlaces(Struct, frozen=True, kw_only=True):
    """Paths of this machine, links followed."""

    hidden: tuple[str, ...] = ()
    """Directories of the hub that nobody is shown."""
    closed: tuple[str, ...] = ()
    """Files of the hub that nobody may read."""
    guarded: tuple[Bind, ...] = ()
    """Files and directories of the hub that nobody may write."""
    beside: tuple[str, ...] = ()
    """Directories that are not the hub's, in those that are hidden."""
    home: str = ""
    """The home directory of the user."""
    own: str = ""
    """The directory that is the home of this server."""
    shown: tuple[Bind, ...] = ()
    """Places that a server with a home of its own may read."""
    writable: tuple[Bind, ...] = ()
    """Those that it may write."""
    cwd: str = ""
    """Its working directory; "": its home."""


class Enclosure(Struct, frozen=True):
    """The way that a process is started."""

    preset: str = "off"
    """The preset in effect."""
    why: str = ""
    """The reason why it is not the one that was wanted."""
    bubblewrap: tuple[str, ...] = ()
    """The command and arguments in front; none: it is not used."""
    limits: tuple[str, ...] = ()
    """The command that limits the one behind it."""
    places: SandboxPlaces = SandboxPlaces()

    def words(self, limits: str = ":") -> list[str]:
        """All that stands in front of the command. `limits` are commands of a shell that limit the one that runs them:
        they come before bubblewrap starts others."""
        if not self.bubblewrap:
            return [*self.limits]
        return ["/bin/sh", "-c", f"{limits}; {_APART}", *self.bubblewrap, *_TOGETHER, *self.limits]

    def hides(self, path: str) -> bool:
        """True if the process is not shown `path`, links followed, if there is such a thing."""
        if self.preset == "off" or is_within(path, self.places.hidden):
            return self.preset != "off"
        return self.preset != "shield" and not is_shown(path, self.places)

    def outside(self, text: str) -> str:
        """A text with paths of the process's home, with those that it has for others."""
        return text.replace(self.places.home, self.places.own) if self.places.own else text


OPEN: Final = Enclosure()


def bubblewrap_arguments(preset: str, places: SandboxPlaces) -> list[str]:
    """The arguments of bubblewrap for a preset, without the command."""
    words = [*ALL, *SKELETONS[preset]]
    if preset != "shield":
        mounts: list[tuple[str, ...]] = [("--tmpfs", path) for path in REPLACED]
        mounts += [("--bind", places.own, places.home)]
        mounts += [("--ro-bind", *bind) for bind in places.shown] + [("--bind", *bind) for bind in places.writable]
        for mount in sorted(mounts, key=lambda each: each[-1]):  # what is within comes after what it is within
            words += mount if mount[-1] != "/" else ()
        words += ["--unsetenv", "TMPDIR", "--chdir", places.cwd or places.home]
    is_whole, writable = preset == "shield", [bind.at for bind in places.writable]
    seen = [path for path in outermost(places.hidden) if is_whole or is_shown(path, places)]
    open_to, bind_as = (["/"], "--dev-bind") if is_whole else (writable, "--bind")
    for path in directories_above([*seen, *(bind.at for bind in places.guarded), *places.closed], open_to):
        words += [bind_as, path, path] if not is_within(path, seen) else ()
    for path in seen:
        words += ["--tmpfs", path]
    for path in places.beside:
        if is_within(path, seen):
            words += ["--bind" if is_whole or is_within(path, writable) else "--ro-bind", path, path]
    for bind in places.guarded:
        if is_within(bind.at, seen) or is_whole or is_shown(bind.at, places):
            words += ["--ro-bind", *bind]
    for path in places.closed:
        if not is_within(path, seen) and (is_whole or is_shown(path, places)):
            words += ["--ro-bind", NOT_TO_BE_OPENED, path]
    for path in seen:
        words += ["--remount-ro", path]
    return words


def limit_arguments(prlimit: str, memory_bytes: int, processes: int) -> list[str]:
    """The command that limits the one behind it; 0: no limit."""
    limits = [f"--data={memory_bytes}"] * bool(memory_bytes) + [f"--nproc={processes}"] * bool(processes)
    return [prlimit, *limits] if limits else []


def is_within(path: str, directories: Iterable[str]) -> bool:
    """True if `path` is one of these directories, or below one."""
    return any(f"{path}/".startswith(f"{directory.rstrip('/')}/") for directory in directories)


def is_shown(path: str, places: SandboxPlaces) -> bool:
    """True if a server with a home of its own finds `path` as it is outside."""
    binds = (*places.shown, *places.writable)
    return is_within(path, [bind.at for bind in binds]) or not is_within(path, (places.home, *REPLACED))


def directories_above(paths: Iterable[str], within: Collection[str]) -> list[str]:
    """The directories that hold these paths, outer ones first: those below one of the directories `within`."""
    above = {each for path in paths for each in map(str, PurePath(path).parents)}
    return sorted(path for path in above if path not in within and is_within(path, within))


def outermost(directories: Iterable[str]) -> Iterator[str]:
    """These directories without those below another."""
    found: list[str] = []
    for directory in sorted(set(directories)):
        if not is_within(directory, found):
            found.append(directory)
            yield directory
