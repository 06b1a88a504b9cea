"""`hubd add FILE.mcpb`, and the bundles that registries name: looked at, shown, asked about, unpacked, added."""

import io
import os
import shlex
import shutil
import subprocess
from collections.abc import Callable, Container, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from config.registry.bundle_manifest import BundleManifest, refuse_runtime, way_of_bundle
from config.registry.entry_of_answers import Answers, entry
from config.registry.places_to_fill import NotRunnable
from config.registry.server_json import RegistrySource, id_of, one_line
from config.registry.ways_to_run import Way
from config.server_names import RULE, is_usable
from hub.cli.bundles.archive import Archive, BadBundle, open_archive
from hub.cli.bundles.folders import folder_in, manifest_in, place_of, remove_unnamed, unpack
from hub.cli.context import Context, Output
from hub.cli.registry.answer_and_add import Chosen, add_chosen
from hub.cli.registry.client import Registry, run
from hub.cli.registry.find_server import Known, NotAdded, before_answers_of
from hub.wire.printable import printable

VERSION_S: Final = 10.0
_INSTALL: Final = {
    "node": "install Node.js (https://nodejs.org)",
    "python3": "install Python 3",
    **dict.fromkeys(("uv", "uvx"), "install uv (https://docs.astral.sh/uv)"),
}


class Bundle(Struct, frozen=True):
    """A bundle that was looked at, and the way to run it once it is unpacked."""

    archive: Archive
    folder: Path
    way: Way

    @contextmanager
    def unpack_for(
        self, server: str, config: Path | None, needed: Callable[[], Path | None] = lambda: None
    ) -> Iterator[None]:
        """Unpack it for the block; afterwards those bundles of the server are deleted that the configuration does not
        name, but for the one that is `needed`. Raises: BadBundle."""
        program = os.path.relpath(self.way.command[0], self.folder) if "/" in self.way.command[0] else ""
        try:
            unpack(self.archive, server, self.folder, [program])
            yield
        finally:
            remove_unnamed(server, config, needed())

    def choose(self, server: str, source: RegistrySource | None = None) -> Chosen:
        """It as a server to be added."""
        make = partial(settings_of_bundle, self.way, self.folder, source=source)
        return Chosen(server, self.way, make, partial(self.unpack_for, server))

    def describe(self) -> Iterator[str]:
        """What is known of the file, in lines."""
        yield f"  sha256      {self.archive.sha256}"
        if self.archive.signers:
            yield f"  signed by   {printable(one_line(self.archive.signers))}: not checked, nothing follows from it"


def way_here(manifest: BundleManifest, folder: Path, files: Container[str]) -> Way:
    """The way to run a bundle on this machine. Raises: BadBundle."""
    try:
        way = way_of_bundle(manifest, str(folder), os.path.expanduser("~"), files)
        program = way.command[0]
        if "/" not in program:
            if shutil.which(program) is None:
                todo = _INSTALL.get(program, f"install {program}")
                raise NotRunnable(f"it needs {program}, which is not on the PATH: {todo}")
            refuse_runtime(manifest, program, partial(_version_of, program))
    except NotRunnable as error:
        raise BadBundle(f"{title_of(manifest)} cannot be added: {error}") from None
    return way


def _version_of(program: str) -> str:
    try:
        done = subprocess.run([program, "--version"], capture_output=True, timeout=VERSION_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout[:200].decode(errors="replace")


@contextmanager
def open_file(path: Path, name: Callable[[BundleManifest], str]) -> Iterator[tuple[str, Bundle]]:
    """The bundle in a file, and the server that it is for, by `name`. Raises: BadBundle, which names the file."""
    try:
        with path.open("rb") as file, open_archive(file) as archive:
            server = name(archive.manifest)
            yield server, bundle_of(archive, server)
    except BadBundle as error:
        raise BadBundle(f"{path}: {error}") from None
    except OSError as error:
        raise BadBundle(f"{path} cannot be read: {error.strerror}") from None


@contextmanager
def open_listed(registry: Registry, way: Way, server: str, output: Output) -> Iterator[Bundle]:
    """The bundle that a registry names by a way, for a server. Raises: BadBundle, RegistryFailed."""
    data = run(lambda client: client.download(registry, way.address), output.progress)
    try:
        with open_archive(io.BytesIO(data), way.sha256) as archive:
            yield bundle_of(archive, server)
    except BadBundle as error:
        raise BadBundle(f"{printable(one_line(way.address))}: {error}") from None


def bundle_of(archive: Archive, server: str) -> Bundle:
    """A bundle for a server. Raises: BadBundle, if it cannot be run here."""
    if not is_usable(server):
        raise BadBundle(f'"{printable(server)}" cannot name a server: use {RULE}')
    folder = place_of(server, archive.sha256)
    return Bundle(archive, folder, way_here(archive.manifest, folder, archive.files))


def settings_of_bundle(way: Way, folder: Path, got: Answers, source: RegistrySource | None = None) -> dict[str, Any]:
    """The settings of a server that runs in the folder of its bundle."""
    return {**entry(way, got, None), "cwd": str(folder)} | ({} if source is None else {"source": str(source)})


def add_file(options: Context, path: str, own: Mapping[str, Any]) -> None:
    """Add the server in a bundle. `own`: settings that the command line says besides. Raises: BadBundle, EditError,
    UsageError."""
    output, taken = options.output, Known(options.loaded).upstreams
    with open_file(Path(path), lambda manifest: options.called or id_of(f"/{manifest.name}", taken)) as (id, bundle):
        manifest = bundle.archive.manifest
        if not options.called and _is_there(options, path, bundle, own):
            return
        output.say(f"{title_of(manifest)}, a bundle")
        for line in (*bundle.describe(), *before_answers_of(manifest.description, bundle.way, options)):
            output.say(line)
        add_chosen(options, own, bundle.choose(id))


def _is_there(options: Context, path: str, bundle: Bundle, own: Mapping[str, Any]) -> bool:
    """True if a server runs from this very bundle, and nothing is to be changed of it, which is said. Raises: NotAdded,
    if one runs from another version of it, or is to be another by what the command line says."""
    new = bundle.archive.manifest
    for name, config in options.loaded.config.upstreams.items():
        words = {"cwd": config.cwd, "command": config.command, "args": config.args}
        folder = folder_in(name, words)
        old = None if folder is None else manifest_in(folder)
        if folder is None or old is None or old.name != new.name:
            continue
        there = f'{title_of(old)} is there already, as "{name}"'
        again = f"`hubd add NAME {shlex.quote(path)}` adds it once more"
        if folder.name != bundle.folder.name:
            todo = f"`hubd update {name} {shlex.quote(path)}` changes it to {title_of(new)}"
            raise NotAdded(f"{there}: {todo}, and {again}")
        ask = f"`hubd update {name} --ask` asks for its values again"
        if own or options.input:
            raise NotAdded(f"{there}: {ask}, and {again}")
        options.output.set(did="unchanged")
        options.output.say(f"{there}, from this bundle: nothing to do; {ask}, and {again}")
        return True
    return False


def title_of(manifest: BundleManifest) -> str:
    """The name and version of a bundle, for people."""
    return printable(f"{one_line(manifest.name, 80)} {one_line(manifest.version, 40)}")
