"""`hubd update NAME` of a server that runs from a bundle: the newest one of its registry, another file, or the same one
with other answers (`--ask`). The folder that runs stays until the new one is connected."""

import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from config.hosts.secret_literals import NewSecrets
from config.registry.answers_in_entry import answers_in
from config.registry.bundle_manifest import way_of_bundle
from config.registry.places_to_fill import NotRunnable, all_asked
from config.registry.server_json import RegistrySource, is_older, source_of
from config.registry.ways_to_run import Way
from config.secrets.store import SecretStore
from hub.cli.bundles.add_bundle import Bundle, open_file, open_listed, settings_of_bundle, title_of
from hub.cli.bundles.archive import BadBundle
from hub.cli.bundles.folders import manifest_in
from hub.cli.context import Context
from hub.cli.registry.answer_and_add import answers
from hub.cli.registry.find_server import Known, NotAdded, choose_way, head
from hub.cli.registry.update_command import SETTINGS, ask_newest, is_newer, keep_own, still_good, write


def update_bundle(options: Context, settings: Mapping[str, Any], folder: Path) -> None:
    """Update the server that runs from `folder`. Raises: BadBundle, NotAdded, RegistryFailed, UsageError, EditError."""
    source = source_of(str(settings.get("source", "")))
    with ExitStack() as stack:
        bundle: Bundle | None = None
        if options.file is not None:
            path = Path(os.path.abspath(os.path.expanduser(options.file)))
            _, bundle = stack.enter_context(open_file(path, lambda manifest: options.name))
            _say_versions(options, bundle, folder)
            source = None
        elif source is not None:
            newest = _open_newest(options, source)
            if newest is not None:
                source, bundle = stack.enter_context(newest)
        elif not options.ask:
            raise NotAdded(f"{options.name} came from a file: name the one with its new version, or --ask")
        if bundle is None and not options.ask:
            return
        _change(options, settings, folder, bundle, source)


def _open_newest(options: Context, source: RegistrySource) -> Any:
    """A context with the newest version and its bundle; None: there is nothing newer."""
    found, _ = ask_newest(Known(options.loaded).get(source.registry), source, options.output.progress)
    if not is_newer(options, found, source):
        return None
    options.output.say(f"{head(found)}; {options.name} has {source.version}")
    way = choose_way(found, options.replace(package="mcpb", remote=False))
    newest = RegistrySource(source.registry, source.name, found.listed.server.version)

    @contextmanager
    def open_it() -> Iterator[tuple[RegistrySource, Bundle]]:
        with open_listed(found.registry, way, options.name, options.output) as bundle:
            yield newest, bundle

    return open_it()


def _change(
    options: Context, settings: Mapping[str, Any], folder: Path, bundle: Bundle | None, source: RegistrySource | None
) -> None:
    """Change the settings to those of `bundle`, or to those of the one that there is by other answers."""
    output = options.output
    before = _way_in(folder)
    way = bundle.way if bundle is not None else before
    if way is None:
        raise BadBundle(f"what is unpacked in {folder} is no bundle any more; name its file")
    carried, fits = ({}, False) if before is None else answers_in(before, settings)
    if not fits:
        output.warn(f"{options.name} was changed by hand, or its old version is gone: what runs is made anew")
    asked_before = {asked.key: asked for _, asked in all_asked(before.slots if before is not None else ())}
    asks_all = options.ask and output.is_attended() and not options.yes
    good = {} if asks_all else dict(still_good(way, asked_before, carried, settings))
    new = NewSecrets(SecretStore.open())
    got = answers(way, options, options.name, new, good, () if options.ask else asked_before)
    made = settings_of_bundle(way, folder if bundle is None else bundle.folder, got, source)
    if settings.get("cwd") not in (None, str(folder)):
        del made["cwd"]  # the user's own
    if source is None and "source" in settings:
        made["source"] = ""
    keep_own(made, settings, {slot.name for slot in before.slots} if before is not None else ())
    changes = {name: made[name] for name in SETTINGS if name in made and made[name] != settings.get(name)}
    if not changes:
        output.set(did="unchanged")
        return output.say(f"nothing changes in {options.name}")
    for line in bundle.describe() if bundle is not None else ():
        output.say(line)

    def keep_old() -> Path | None:
        """The old folder, for as long as the new one was not seen to run."""
        [state] = [each["state"] for each in output.member("servers", ()) if each["name"] == options.name] or [""]
        return None if state == "connected" else folder

    prepared = None if bundle is None else bundle.unpack_for(options.name, options.config, keep_old)
    write(options, settings, changes, new, prepared)


def _way_in(folder: Path) -> Way | None:
    """The way to run what is unpacked in a folder; None: it is nothing that can be run."""
    if (manifest := manifest_in(folder)) is None:
        return None
    files = {os.path.relpath(os.path.join(at, name), folder) for at, _, names in os.walk(folder) for name in names}
    try:
        return way_of_bundle(manifest, str(folder), os.path.expanduser("~"), files)
    except NotRunnable:
        return None


def _say_versions(options: Context, bundle: Bundle, folder: Path) -> None:
    """Say from which version to which, of a bundle in a file."""
    new, old = bundle.archive.manifest, manifest_in(folder)
    said = f"what cannot be read any more becomes {title_of(new)}"
    if old is not None and (old.name, old.version) == (new.name, new.version):
        said = f"{title_of(new)} as before{'' if folder == bundle.folder else ', from another file'}"
    elif old is not None:
        is_older_now = old.name == new.name and is_older(new.version, old.version)
        said = f"{title_of(old)} becomes {title_of(new)}{', which is older' if is_older_now else ''}"
    options.output.set(version=new.version, before=None if old is None else old.version)
    options.output.say(f"{options.name}: {said}")
