"""The files that make up a configuration, found and read.

    hubd.toml            the main file: settings of the hub, upstreams, and `include`
    upstreams.d/*        beside it: upstreams, one or more per file        } layer of the user
    include = [...]      paths and globs in the main file: upstreams       }
    imported/*           beside the main file: what was taken from hosts     layer of the imported
    hubd.env             beside it: variables that win over those of the environment, KEY=VALUE; a service reads it, too

A main file that is a host's own stands alone: what lies beside it is the host's business. Files of a directory are read
in the order of their names; names that begin with a dot, and suffixes that are not ours, do not count.
"""

import glob
import os
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from fnmatch import filter as matching
from itertools import islice
from pathlib import Path
from typing import Final

from msgspec import Struct

from config.diagnostics import ConfigError, Findings, Problem
from config.environment.hubd_env import Assignment, join_own
from config.hub_paths import config_file
from config.loading.document import SUFFIXES
from config.loading.read_source import Layer, Source, find_config, read_source
from config.loading.resolve_values import resolve_settings
from config.loading.variables import Unresolved, Variables
from config.safe_reading import refuse_foreign

DROP_INS: Final = "upstreams.d"
IMPORTED: Final = "imported"
OWN_VARIABLES: Final = "hubd.env"
MAX_FILES: Final = 1000
"""Files that one pattern may match."""


class ConfigFiles(Struct, frozen=True, kw_only=True):
    """The files of a configuration, and the variables that its servers may get."""

    files: tuple[Path, ...] = ()
    """Files that were read, or would be if they were there: a change of any may change the configuration."""
    directories: tuple[Path, ...] = ()
    """Directories in which new files count, too, whether they exist or not."""
    named_directories: tuple[Path, ...] = ()
    """The directories that are named and not only found, `upstreams.d` and the beginnings of patterns: removing one of
    these is no way to remove a server."""
    environ: Mapping[str, str] = {}
    """The variables of the environment, and of `hubd.env` over them."""
    own_lines: Mapping[str, int] = {}
    """The variables that `hubd.env` says, with the line."""


class Gathered(ConfigFiles, frozen=True, kw_only=True):
    """The content of the files, in the order in which their upstreams are listed."""

    main: Source | None
    sources: tuple[Source, ...]
    """All files that were read, the main file first."""
    findings: Findings
    """Findings about no single file."""


def gather(named: Path | None, environ: Mapping[str, str], texts: Mapping[Path, str] = {}) -> Gathered:
    """Read the file that was named, or the user's own, and all that belong to it. Blocks; never raises."""
    found = find_config(named)
    path = Path(os.path.abspath((found or config_file()).expanduser()))
    findings = Findings(path)
    own = [path.parent / OWN_VARIABLES] if path.suffix == ".toml" else []
    own_lines: dict[str, Assignment] = {}
    for file in own:
        its = Findings(file)
        with its.collect():
            own_lines = own_variables(file)
        findings.problems += its.problems
    environ = join_own(environ, {name: each.value for name, each in own_lines.items()}) if own_lines else environ
    main = read_source(path, Layer.USER, environ, is_main=True, text=texts.get(path)) if found else None
    sources = [] if main is None else [main]
    directories: dict[Path, None] = {}
    named_directories: list[Path] = []
    if main is None or not main.is_dialect:
        named_directories = [path.parent / DROP_INS, path.parent / IMPORTED]
        included = [] if main is None else _includes_of(main, directories, named_directories)
        user = [*_within(named_directories[0], findings), *included]
        imported = _within(named_directories[1], findings)
        seen = {path}
        for each, layer in ((user, Layer.USER), (imported, Layer.IMPORTED)):
            fresh = [file for file in dict.fromkeys(each) if file not in seen]
            seen.update(fresh)
            sources += [read_source(file, layer, environ, text=texts.get(file)) for file in fresh]
    return Gathered(
        main=main,
        sources=tuple(sources),
        files=tuple(dict.fromkeys([path, *(source.path for source in sources), *own])),
        directories=tuple(dict.fromkeys((*named_directories, *directories))),
        named_directories=tuple(dict.fromkeys(named_directories)),
        environ=environ,
        own_lines={name: each.line for name, each in own_lines.items() if environ[name] == each.value},
        findings=findings,
    )


def token_of(named: Path | None, environ: Mapping[str, str]) -> str | None:
    """The `token` of the main file, whatever else is wrong there; None if it has none. Blocks.
    Raises: ConfigError, if it cannot be read or resolved."""
    main = gather(named, environ).main
    if main is None:
        return None
    token = resolve_settings(main).get("token")
    if unclear := [each for each in main.findings.problems if each.keys in ((), ("token",))]:
        raise ConfigError.of(unclear)
    return token if isinstance(token, str) else None


def own_variables(path: Path) -> dict[str, Assignment]:
    """The variables of the `hubd.env` at `path`, by name; none, if there is no such file. Blocks.
    Raises: Problem, if someone else could have written it, or it cannot be read."""
    if not os.path.lexists(path):
        return {}
    refuse_foreign(path)
    try:
        found = Variables({}, path.parent).assignments(path.name)
    except Unresolved as error:
        raise Problem((), str(error)) from None
    for each in found:
        if "\0" in each.value:
            raise Problem((), f"the value of {each.name} holds a NUL character, which no variable can have")
    return {each.name: each for each in found}


def _includes_of(main: Source, directories: dict[Path, None], named_directories: list[Path]) -> list[Path]:
    """Files that the main file includes. `directories` gets those where more may come, `named_directories` those where
    patterns begin."""
    texts, files = main.settings.get("include"), list[Path]()
    for text in texts if isinstance(texts, list) else ():
        if not isinstance(text, str):
            continue  # it is refused later
        if "\0" in text:
            main.findings.wrong(("include",), "holds a NUL character, which no path has")
            continue
        base, parts = _read_pattern(text, main.path.parent)
        if not parts:
            files.append(base)
            continue
        named_directories.append(base)
        matches, more = _expand(base, *parts)
        directories |= dict.fromkeys(islice(more, MAX_FILES))
        found = list(islice(matches, MAX_FILES + 1))
        if len(found) > MAX_FILES:
            main.findings.wrong(("include",), f'"{text}" matches more than {MAX_FILES} files; write a narrower one')
        else:
            files += sorted(found)
    return files


def _within(directory: Path, findings: Findings) -> list[Path]:
    """The files of a directory that count, by name. None, if there is no such directory."""
    try:
        names = sorted(os.listdir(directory))
    except FileNotFoundError:
        return []
    except OSError as error:
        findings.wrong((), f"the directory {directory} cannot be read: {error.strerror}")
        return []
    return [directory / name for name in names if not name.startswith(".") and name.endswith(SUFFIXES)]


ANY_DEPTH: Final = "**"


def _read_pattern(text: str, beside: Path) -> tuple[Path, tuple[str, ...]]:
    """The path that `text` means in a file in the directory `beside`, and the parts below it, of which the first is a
    pattern; no parts: it names a file. Characters of a pattern in the names of that directory and of the user's own
    mean themselves."""
    base = beside
    if text.startswith("~"):
        home, _, text = text.partition("/")
        base /= os.path.expanduser(home)
    parts = os.path.normpath(text or ".").split("/")
    first = next((at for at, part in enumerate(parts) if glob.has_magic(part)), len(parts))
    base = base / ("/".join(parts[:first]) or ("/" if first else ""))
    return Path(os.path.normpath(base)), tuple(parts[first:])


def _expand(base: Path, *pattern: str) -> tuple[Iterator[Path], dict[Path, None]]:
    """The files below `base` that a pattern matches and that are of a kind we read, as they are found, and the
    directories in which more could come to match: each level from the first that is a pattern. Blocks."""
    *parts, last = (*pattern, "*") if pattern[-1] == ANY_DEPTH else pattern
    here = [base]
    directories = dict.fromkeys(here)
    for part in parts:
        here = list(_below(here) if part == ANY_DEPTH else filter(os.path.isdir, _matches(part, here)))
        directories |= dict.fromkeys(here)
    return (each for each in _matches(last, here) if each.name.endswith(SUFFIXES) and not each.is_dir()), directories


def _matches(part: str, directories: Iterable[Path]) -> Iterator[Path]:
    """Entries of these directories whose names one part of a pattern matches."""
    for directory in directories:
        if glob.has_magic(part):
            names: list[str] = []
            with suppress(OSError):
                names = sorted(os.listdir(directory))
            shown = (name for name in names if part.startswith(".") or not name.startswith("."))
            yield from (directory / name for name in matching(shown, part))
        elif os.path.lexists(directory / part):
            yield directory / part


def _below(tops: Iterable[Path]) -> Iterator[Path]:
    """These directories and all below them, each once, by whatever is the shortest way."""
    seen: set[tuple[int, int]] = set()
    left = deque(tops)
    while left:
        directory = left.popleft()
        try:
            facts = os.stat(directory)
        except OSError:
            continue
        if (key := (facts.st_dev, facts.st_ino)) not in seen:
            seen.add(key)
            yield directory
            left.extend(filter(os.path.isdir, _matches("*", [directory])))
