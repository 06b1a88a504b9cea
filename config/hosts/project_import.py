"""Servers of a project go into the project's own file, `.hubd.toml`, and not into the user's list.

What stands there stays as it is: new servers are added at the end. The file counts once the user has allowed it
(`hubd trust`), as any project file.
"""

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from msgspec import structs

from config.editing.text import toml
from config.editing.text.change import EditRefused
from config.errors import EditError
from config.files import read_file
from config.hosts.host_servers import Identity, Server
from config.hosts.import_choice import Import, block, identities_in, unfit
from config.hosts.import_files import Write, problems_of, with_secrets
from config.loading.document import parse
from config.loading.safe_reading import MAX_PROJECT_BYTES, PROJECT_FILES, Problem
from config.loading.variables import Variables

NEW_FILE = "# The servers of this project, for hosts on hubd that work in it. `hubd trust` allows this content.\n"


def project_file(project: Path) -> Path:
    """The file of hubd's own in a project."""
    return project / PROJECT_FILES[0]


def known_in(project: Path, environ: Mapping[str, str]) -> tuple[dict[Identity, str], list[str]]:
    """The servers in the file of a project, by identity, and all their names; none, if it cannot be read."""
    path = project_file(project)
    with suppress(Problem, EditRefused, EditError):
        text = _text(path)
        names = parse(text, path).tree.get("upstreams", {})
        return with_secrets(identities_in(text, Variables(environ, project, project=project))), list(names)
    return {}, []


def project_write(result: Import, project: Path, environ: Mapping[str, str]) -> Write | None:
    """The file of a project with all that was taken from it; None: nothing was. What cannot be used is given back."""
    path = project_file(project)
    try:
        before = _text(path)
        toml.read(before)
    except (EditRefused, EditError) as refused:
        why = str(refused).removeprefix(f"{path}: ")
        for name, _ in _of(result, project):
            result.refuse(name, f"{path}: {why}")
        return None
    for name, server in _of(result, project):
        if why := unfit(name, server):
            result.refuse(name, why)
    there = set(problems_of(path, before, environ)) if before.strip() else set()
    while mine := _of(result, project):
        blocks = [_block(name, server, project) for name, server in mine]
        after = "\n\n".join([(before or NEW_FILE).rstrip("\n"), *blocks]) + "\n"
        wrong = {name: why for name, why in problems_of(path, after, environ).items() if name not in there}
        if len(after.encode()) > MAX_PROJECT_BYTES:
            wrong = {mine[-1][0]: f"{path} would be larger than {MAX_PROJECT_BYTES >> 10} KB"}
        if not wrong:
            return Write(path, before if path.exists() else None, after)
        names = {name for name, _ in mine}
        for name in wrong.keys() & names or names:
            result.refuse(name, wrong.get(name) or f"{path}: {next(iter(wrong.values()))}")
    return None


def _of(result: Import, project: Path) -> list[tuple[str, Server]]:
    return [(name, server) for name, server in result.taken if server.place.project == project]


def _text(path: Path) -> str:
    """The text of the file; "": there is none.

    Raises:
        EditError: it cannot be read.
        EditRefused: it is not UTF-8.
    """
    try:
        return (read_file(path, trusted=True) or b"").decode()
    except UnicodeDecodeError:
        raise EditRefused("is not UTF-8 text") from None


def _block(name: str, server: Server, project: Path) -> str:
    """The lines of one server, with its directory relative to the project, which may lie elsewhere tomorrow."""
    values = dict(server.values)
    cwd = values.get("cwd")
    if isinstance(cwd, str) and Path(cwd).is_relative_to(project):
        relative = os.path.relpath(cwd, project)
        values.pop("cwd")
        values |= {"cwd": relative} if relative != "." else {}
    text = block(name, structs.replace(server, values=values))
    return text.replace(f"# Then run `hubd enable {name}`.", "# Then delete the line `disabled = true`.")
