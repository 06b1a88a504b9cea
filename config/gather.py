"""Which files make up a configuration, all of them read.

    hubd.toml            the main file: settings of the hub, upstreams, and `include`
    upstreams.d/*        beside it: upstreams, one or more per file        } layer of the user
    include = [...]      paths and globs in the main file: upstreams       }
    imported/*           beside the main file: what was taken from hosts     layer of the imported
    hubd.env             beside it: variables that the environment does not have, KEY=VALUE; a service reads it, too

A main file that is a host's own stands alone: what lies beside it is the host's business. Files of a directory are read
in the order of their names; names that begin with a dot, and suffixes that are not ours, do not count.
"""

import glob
import os
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Final

from msgspec import Struct

from config.document import SUFFIXES
from config.errors import ConfigError
from config.load import Layer, Source, find_config, read_source, resolved_settings
from config.paths import config_file
from config.source import Findings, refuse_foreign
from config.variables import Unresolved, Variables

DROP_INS: Final = "upstreams.d"
IMPORTED: Final = "imported"
OWN_VARIABLES: Final = "hubd.env"
MAX_FILES: Final = 1000
"""That one pattern may match."""


class Gathered(Struct, frozen=True, kw_only=True):
    """The files of a configuration, in the order in which their upstreams are listed."""

    main: Source | None
    sources: tuple[Source, ...]
    """All that were read, the main file first."""
    files: tuple[Path, ...]
    """Those, and the main file if it is missing."""
    directories: tuple[Path, ...]
    """In which new files count, whether they exist or not."""
    findings: Findings
    """About no single file."""


def gather(named: Path | None, environ: Mapping[str, str], texts: Mapping[Path, str] = {}) -> Gathered:
    """Read the file that was named, or the user's own, and all that belong to it. Blocks; never raises."""
    found = find_config(named)
    path = Path(os.path.abspath((found or config_file()).expanduser()))
    findings = Findings(path)
    own = [path.parent / OWN_VARIABLES] if path.suffix == ".toml" else []
    for file in own:
        environ = _with_own(environ, file, findings)
    main = read_source(path, Layer.USER, environ, is_main=True, text=texts.get(path)) if found else None
    sources = [] if main is None else [main]
    directories: list[Path] = []
    if main is None or not main.is_dialect:
        user, directories = _of_user(path, main, findings)
        imported = _within(path.parent / IMPORTED, findings)
        directories.append(path.parent / IMPORTED)
        seen = {path}
        for each, layer in ((user, Layer.USER), (imported, Layer.IMPORTED)):
            fresh = [file for file in dict.fromkeys(each) if file not in seen]
            seen.update(fresh)
            sources += [read_source(file, layer, environ, text=texts.get(file)) for file in fresh]
    return Gathered(
        main=main,
        sources=tuple(sources),
        files=tuple(dict.fromkeys([path, *(source.path for source in sources), *own])),
        directories=tuple(dict.fromkeys(directories)),
        findings=findings,
    )


def token_of(named: Path | None, environ: Mapping[str, str]) -> str | None:
    """What HTTP asks for as the main file says it, whatever else is wrong there; None: it says nothing. Blocks.

    Raises:
        ConfigError: that cannot be told.
    """
    main = gather(named, environ).main
    if main is None:
        return None
    token = resolved_settings(main).get("token")
    if unclear := [each for each in main.findings.problems if each.keys in ((), ("token",))]:
        raise ConfigError.of(unclear)
    return token if isinstance(token, str) else None


def _with_own(environ: Mapping[str, str], path: Path, findings: Findings) -> Mapping[str, str]:
    """`environ`, and what it does not have of the variables in the file `path`, if there is one."""
    if not os.path.lexists(path):
        return environ
    its = Findings(path)
    with its.gathered():
        refuse_foreign(path)
        try:
            return {**Variables({}, path.parent).env_file(path.name), **environ}
        except Unresolved as error:
            its.wrong((), str(error))
    findings.problems += its.problems
    return environ


def _of_user(path: Path, main: Source | None, findings: Findings) -> tuple[list[Path], list[Path]]:
    """Drop-in files and what the main file includes; and the directories in which there may be more."""
    files = _within(path.parent / DROP_INS, findings)
    directories = [path.parent / DROP_INS]
    patterns = main.settings.get("include") if main is not None else None
    if main is not None and isinstance(patterns, list):
        for pattern in patterns:
            if isinstance(pattern, str):  # else it is refused later
                files += _included(pattern, main, directories)
    return files, directories


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


def _included(pattern: str, main: Source, directories: list[Path]) -> list[Path]:
    """What a path or pattern leads to; `directories` gets those where more may come."""
    whole = os.path.normpath(main.path.parent / os.path.expanduser(pattern))
    if not glob.has_magic(whole):
        return [Path(whole)]
    directories.extend(Path(each) for each in _parents(whole))
    found = list(islice(glob.iglob(whole, recursive=True), MAX_FILES + 1))
    if len(found) > MAX_FILES:
        main.findings.wrong(("include",), f'"{pattern}" matches more than {MAX_FILES} files; write a narrower one')
        return []
    return sorted(Path(each) for each in found if each.endswith(SUFFIXES) and not os.path.isdir(each))


def _parents(pattern: str) -> Iterator[str]:
    """The directories in which something could come to match: each level from the first that is not fixed."""
    parts = pattern.split("/")
    first = next(at for at, part in enumerate(parts) if glob.has_magic(part))
    yield "/".join(parts[:first]) or "/"
    for length in range(first + 1, len(parts)):
        matching = glob.iglob("/".join(parts[:length]), recursive=True)
        yield from (each.rstrip("/") for each in islice(matching, MAX_FILES) if os.path.isdir(each))
