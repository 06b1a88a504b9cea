"""The files of a project: upstreams for hosts that work in its folder, on top of the user's own.

    .hubd.toml     [upstreams.NAME], as in hubd.toml
    .mcp.json      as Claude Code and others have it; `.hubd.toml` wins where both name an upstream

A file that came with a checkout starts programs, so nothing of it counts until the user allowed exactly its content
(`Trust`), and a hub does not even look into it before: `Trust.load_allowed` compares bytes before it reads what they
mean. The user's decisions stand in one small JSON file, 0600, replaced as a whole; one that cannot be read allows
nothing.
"""

import errno
import os
import stat
from collections.abc import Mapping, Sequence
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from config.atomic_writes import replace_private
from config.diagnostics import ConfigError, Diagnostic, Keys, Problem
from config.environment.hubd_env import Environ
from config.loading.assemble import check_names, origins_of, upstream_of, without_sampling
from config.loading.precedence import Origin, Stack, stacks
from config.loading.read_source import Layer, Source, read_source
from config.policy.selectors import BadSelector, without_others
from config.safe_reading import MAX_OWN_BYTES, Content, fetch, read_state
from config.safe_reading import PROJECT_FILES as PROJECT_FILES
from config.server_names import NO_ACCOUNTS
from config.settings import HubConfig, UpstreamConfig

FORMAT: Final = 1
VOUCHING: Final = ("trusted", "hints", "allow")
"""The settings by which the user vouches for a server as it was written down."""
LACKING: Final = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)
"""Errors that say nothing about a file: this process, or the machine, lacks something for a moment."""


class Folder(Struct, frozen=True):
    """The project files of one folder as they were found, not looked into."""

    root: Path
    contents: Mapping[Path, Content | Problem]
    """The contents of the files that are there."""

    @property
    def digest(self) -> str:
        """The digest of their bytes."""
        found = {path: content.data for path, content in self.contents.items() if isinstance(content, Content)}
        return _digest(self.root, found)


class Project(Struct, frozen=True, kw_only=True):
    """The upstreams of one folder's files, checked together with those of the user."""

    root: Path
    files: tuple[Path, ...]
    """A change of any of these, or that one comes to be, may change the project."""
    digest: str
    """The digest of the project's files; if they name files of variables below `root`, also one of all of these."""
    upstreams: dict[str, UpstreamConfig]
    """Upstreams that the project names, in its order: new ones, and others in place of the user's."""
    accounts: Mapping[str, str]
    """The accounts that serve at the user's own servers, by those of which the files say nothing else."""
    origins: Mapping[Keys, Origin]
    warnings: tuple[Diagnostic, ...]


def find_project(directory: Path, home: Path) -> Path | None:
    """The folder at or above `directory` that holds project files; links are followed.

    Neither the home directory nor the root of the file system is a project, and nothing is looked for at or above them,
    nor at or above a directory that belongs to someone else or to everyone, like /tmp.
    """
    here, end = Path(os.path.realpath(directory)), Path(os.path.realpath(home))
    for each in (here, *here.parents):
        if each in (end, each.parent):
            return None
        try:
            found = each.stat()
        except OSError:
            return None
        is_everyone_s = found.st_mode & stat.S_ISVTX and found.st_mode & stat.S_IWOTH
        if found.st_uid not in (0, os.geteuid()) or is_everyone_s:
            return None
        if any(os.path.lexists(each / name) for name in PROJECT_FILES):
            return each
    return None


def read_folder(root: Path) -> Folder:
    """The bytes of those of the project's files that are there. Blocks; never raises."""
    contents: dict[Path, Content | Problem] = {}
    for path in (root / name for name in PROJECT_FILES if os.path.lexists(root / name)):
        try:
            contents[path] = fetch(path)
        except Problem as problem:
            contents[path] = problem.with_traceback(None)
    return Folder(root, contents)


def read_project(root: Path, environ: Environ, folder: Folder | None = None) -> list[Source]:
    """Read the project's files that are there, as they were found in `folder` or are now. Blocks; never raises."""
    contents = (folder or read_folder(root)).contents
    read = partial(read_source, layer=Layer.PROJECT, environ=environ, project=root)
    return [read(path, content=content) for path, content in contents.items()]


def load_project(root: Path, environ: Environ, base: HubConfig, *, sources: Sequence[Source] | None = None) -> Project:
    """Read and check the files of `root`. Blocks. An entry without `command` or `url` adds to that of `base`.

    `sources` are what `read_project` found, so that what is shown to the user and what is allowed are the same.
    Raises: ConfigError, with all problems, each with file, line and key, and what to write instead."""
    sources = read_project(root, environ) if sources is None else sources
    found = stacks(sources, base.upstreams)
    upstreams = {name: _upstream(name, stack, base) for name, stack in found.items()}
    if base.serves_several:
        upstreams = {name: without_sampling(upstream) for name, upstream in upstreams.items()}
    others = {name: upstream for name, upstream in base.upstreams.items() if name not in upstreams}
    check_names(found, others | upstreams, base.name_budget)
    if problems := [each for source in sources for each in source.findings.problems]:
        raise ConfigError.of(problems)
    own = tuple(root / name for name in PROJECT_FILES)
    choices = [name for name, stack in found.items() if all([*each.table.values] == ["account"] for each in stack.used)]
    accounts = {name: upstreams.pop(name).account for name in choices}
    return Project(
        root=root,
        files=tuple(dict.fromkeys((*own, *(path for source in sources for path in source.variables.files)))),
        digest=_digests(root, sources),
        upstreams=upstreams,
        accounts=accounts,
        origins={keys: origin for name, stack in found.items() for keys, origin in origins_of(name, stack)},
        warnings=tuple(warning for source in sources for warning in source.findings.warnings),
    )


def _upstream(name: str, stack: Stack, base: HubConfig) -> UpstreamConfig:
    below = base.upstreams.get(name)
    if below is not None and below.disabled and not stack.defines() and stack.value("disabled") is False:
        text = f'"{name}" is disabled in your own configuration, which a project cannot change'
        stack.wrong(("disabled",), f"{text}: give it a command or url")
    if stack.value("account") in NO_ACCOUNTS and below is not None and not stack.defines():
        text = "is for your own configuration to say of your server: a project can name one of its `accounts`"
        stack.wrong(("account",), text)
    if below is None or stack.defines():
        return upstream_of(stack, below, base.defaults)
    return _narrow(upstream_of(stack, below, base.defaults), below, stack)


def _narrow(upstream: UpstreamConfig, below: UpstreamConfig, stack: Stack) -> UpstreamConfig:
    """A server of the user as a project sees it: the rules of both, and only tools that both choose."""
    try:
        away = () if stack.value("tools") is None else without_others(upstream.tools)
    except BadSelector as error:
        stack.wrong(("tools",), f"{error}; write `deny` in its place")
        return upstream
    other = [key for key in ("args", "cwd", "env", "pass_") if getattr(upstream, key) != getattr(below, key)]
    if other and (said := [f"`{name}`" for name in VOUCHING if getattr(below, name)]):
        key = other[0].rstrip("_")
        stack.warn((key,), f"has another program run than yours, for which your {' and '.join(said)} do not count")
        none = UpstreamConfig()
        upstream = msgspec.structs.replace(upstream, **{name: getattr(none, name) for name in VOUCHING})
    added = {name: getattr(upstream, name) if stack.value(name) is not None else () for name in ("deny", "ask")}
    return msgspec.structs.replace(
        upstream, tools=below.tools, deny=(*below.deny, *added["deny"], *away), ask=(*below.ask, *added["ask"])
    )


def _digests(root: Path, sources: Sequence[Source]) -> str:
    own = {source.path: source.data for source in sources}
    read = ((path, data) for source in sources for path, data in source.variables.files.items())
    content = own | {path: data for path, data in read if _is_below(path, root)}
    first = _digest(root, own)
    return first if content == own else f"{first} {_digest(root, content)}"


def _digest(root: Path, content: Mapping[Path, bytes]) -> str:
    digest = sha256()
    for path, data in sorted(content.items()):
        for part in (os.fsencode(os.path.relpath(path, root)), data):
            digest.update(b"%d:%b" % (len(part), part))
    return digest.hexdigest()


def _is_below(path: Path, root: Path) -> bool:
    return Path(os.path.realpath(path)).is_relative_to(root) or Path(os.path.normpath(path)).is_relative_to(root)


class _File(msgspec.Struct, frozen=True):
    format: int
    projects: dict[str, str]
    """Root -> `Project.digest` of the allowed content."""


class Trust:
    """The user's decisions. Each question reads the file, so that another process may answer meanwhile.

    Each raises OSError if that cannot be told now, for lack of descriptors or memory.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def load_allowed(self, root: Path, environ: Environ, base: HubConfig) -> tuple[Project, list[Source]] | None:
        """The project of `root` and what its files say, if the user allowed exactly that; None: it is another content,
        and was not parsed.
        Raises: ConfigError, if it is allowed, and cannot be used."""
        folder = read_folder(root)
        if self._read().get(str(root), "").partition(" ")[0] != folder.digest:
            return None
        sources = read_project(root, environ, folder)
        project = load_project(root, environ, base, sources=sources)
        return (project, sources) if self.is_allowed(project) else None

    def is_allowed(self, project: Project) -> bool:
        """True if the user allowed exactly what `project` says now."""
        return self._read().get(str(project.root)) == project.digest

    def roots(self) -> list[Path]:
        """The projects of which the user allowed some content."""
        return [Path(root) for root in self._read()]

    def allows_any(self) -> bool:
        """True if the user allowed anything at all."""
        return bool(self._read())

    def allow(self, project: Project) -> None:
        """Allow what `project` says now, in place of what was allowed for its root before.
        Raises: OSError, if the decision cannot be written."""
        self._write(self._read() | {str(project.root): project.digest})

    def deny(self, root: Path) -> bool:
        """Allow nothing of `root` any more; whether anything was.
        Raises: OSError, if the decision cannot be written."""
        allowed = self._read()
        if str(root) not in allowed:
            return False
        self._write({known: digest for known, digest in allowed.items() if known != str(root)})
        return True

    def _read(self) -> dict[str, str]:
        file = read_state(self.path, MAX_OWN_BYTES, _File, "no project is allowed", raised=LACKING)
        return file.projects if file is not None and file.format == FORMAT else {}

    def _write(self, projects: dict[str, str]) -> None:
        replace_private(self.path, msgspec.json.encode(_File(FORMAT, projects)))
