"""Commands that show the configuration in files, check it and describe it; and that allow what the files of a project
start, as they are now, or take that back. None of them needs a running hub; one that runs knows who is no person."""

import os
import sys
from contextlib import suppress
from itertools import chain
from os import EX_CONFIG
from pathlib import Path
from typing import Any, Final

from msgspec import structs

from config.diagnostics import ConfigError, Diagnostic
from config.hosts.known_hosts import find_mistyped
from config.hosts.servers_in_hub import starts_beside_hub
from config.hub_paths import trust_path
from config.loading.assemble import Loaded, load_all, load_gathered
from config.loading.checks.rules import words_on_project
from config.loading.gather import gather
from config.loading.precedence import Origin, stacks
from config.projects import PROJECT_FILES, Project, Trust, find_project, load_project, read_project
from config.server_names import account_id
from config.settings import HubConfig
from config.show.effective import ShownSetting, ShownUpstream, hub_settings, lines, show_upstream, upstreams
from config.show.json_schema import schema
from hub.cli.configuration.save_draft import diagnostic_object
from hub.cli.context import CommandFailed, Context, Output, UsageError, agreed, as_json, ask_hub
from hub.cli.doctor import texts_of_unresolved, words_of_hub
from hub.cli.parser import add, add_config
from hub.cli.profiles.who_is_shown_profile import tokens
from hub.control.client_errors import HubNotRunning
from hub.control.methods import DEMAND_PERSON


def add_commands(commands: Any) -> None:
    """`config`, `validate`, `schema`, `trust` and `untrust`."""
    config = add(commands, "config", _config, json=True)
    config.add_flag("--effective", "with the defaults of what no file mentions")
    add_config(config)
    config.add_value("--project", "DIR", "as hosts that work in DIR see it; else the current directory", type=Path)
    validate = add(commands, "validate", _validate, json=True)
    validate.add_value("file", "FILE", "a hubd.toml, or any host's file", type=Path, nargs="?")
    schema = add(commands, "schema", _schema, json=True)
    schema.description = (
        "The JSON Schema of hubd.toml: keep it in a file, and write `#:schema FILE` as first line there."
    )
    schema.add_flag("--project", "of a project's .hubd.toml")
    trust = add(commands, "trust", _trust, json=_TRUSTED)
    trust.add_flag("--yes", "do not ask")
    untrust = add(commands, "untrust", _untrust, json=_TRUSTED)
    for command in (trust, untrust):
        command.add_value("directory", "DIR", "else the current directory", type=Path, nargs="?")


# --- what it says -----------------------------------------------------------------------------------------------------


def _config(options: Context, output: Output) -> None:
    gathered = gather(options.config, os.environ)
    base = load_gathered(gathered)
    root, project, sources = _project_of(options.project, base.config)
    if project is not None:
        gathered = structs.replace(gathered, sources=(*sources, *gathered.sources))
    hub = hub_settings(gathered, defaults=options.effective)
    found = upstreams(gathered, defaults=options.effective)
    warnings = [*base.warnings, *(() if project is None else project.warnings)]
    output.set(
        files=[{"path": str(source.path), "layer": source.layer.value} for source in gathered.sources],
        project=None if root is None else {"root": str(root), "allowed": project is not None},
        settings=[_setting(setting) for setting in hub],
        upstreams=[upstream_object(upstream) for upstream in found],
    )
    for source in gathered.sources:
        output.say(f"# {source.layer.value}: {source.path}")
    if not gathered.sources:
        output.say(f"# no file: {gathered.files[0]} is not there")
    if root is not None and project is None:
        output.say(f"# the project {root} is not allowed, so it does not count; see `hubd trust`")
    for line in lines(hub, found):
        output.say(line)
    for warning in warnings:
        output.warn(str(warning))
    output.set(warnings=[diagnostic_object(warning) for warning in warnings])


def _project_of(named: Path | None, base: HubConfig) -> tuple[Path | None, Project | None, tuple[Any, ...]]:
    """The root of a folder's project; with the project and its sources, if the user allowed it."""
    if (root := find_project(named or Path.cwd(), Path.home())) is None:
        if named is not None:
            raise UsageError(f"--project: neither {named} nor a folder above it has a .hubd.toml or .mcp.json")
        return None, None, ()
    found = Trust(trust_path()).load_allowed(root, os.environ, base)
    return (root, None, ()) if found is None else (root, found[0], tuple(found[1]))


def upstream_object(upstream: ShownUpstream) -> dict[str, Any]:
    """A server and where its settings come from, for programs."""
    return {
        "name": upstream.name,
        **_origin(upstream.origin),
        "settings": [_setting(setting) for setting in upstream.settings],
        "shadowed": [_origin(origin) for origin in upstream.shadowed],
    }


def _setting(setting: ShownSetting) -> dict[str, Any]:
    return {"key": list(setting.keys), "value": setting.value, **_origin(setting.origin)}


def _origin(origin: Origin | None) -> dict[str, Any]:
    if origin is None:
        return {"layer": "default"}
    return {"layer": origin.layer.value, "file": str(origin.file), "line": origin.line}


# --- whether it can be used -------------------------------------------------------------------------------------------


def _validate(options: Context, output: Output) -> None:
    file: Path | None = options.file
    if file is not None and Path(os.path.abspath(file)) in gather(None, os.environ).files:
        file = None  # a part is judged by its place in the whole
    problems, warnings, names, unresolved = [], [], [], []
    try:
        if file is not None and file.name in PROJECT_FILES:
            base = load_all(None, os.environ).config
            project = load_project(Path(os.path.abspath(file)).parent, os.environ, base)
            names, warnings = list(project.upstreams), list(project.warnings)
        else:
            loaded = load_all(file, os.environ, partly=True)
            unresolved = list(loaded.unresolved)
            names, warnings = list(loaded.config.upstreams), list(loaded.warnings)
            warnings += _doubts_of_labels(loaded)
    except ConfigError as error:
        problems, warnings = list(error.diagnostics), list(error.warnings)
        if not problems:
            raise
    hub, words = words_of_hub() if file is None else ({}, [])
    told = [*(each.text for each in warnings), *map(str, problems)]
    words = [text for text in words if not text.endswith(tuple(told))]
    if options.json:
        parts = {"problems": problems, "warnings": warnings, "unresolved": unresolved}
        found = {name: [diagnostic_object(each) for each in part] for name, part in parts.items()}
        print(as_json({"sound": not problems, **found, "hub": hub, "hub_warnings": words}))
    else:
        for problem in problems:
            print(f"hubd: {problem}", file=sys.stderr)
        told = [f"the running hub: {text}" for text in words]
        for text in (*map(str, warnings), *texts_of_unresolved(unresolved, hub), *told):
            output.warn(text)
        if not problems:
            print(f"ok: {len(names)} server{'s' * (len(names) != 1)}")
    if problems:
        output.exit_with(EX_CONFIG)


def _doubts_of_labels(loaded: Loaded) -> list[Diagnostic]:
    config = loaded.config
    if not loaded.files or not any(profile.hosts for profile in config.profiles.values()):
        return []

    doubts = find_mistyped(config.profiles, {each.host for each in tokens(config.access.tokens)})
    return [Diagnostic(loaded.files[0], None, ("profiles", name, "hosts"), text) for name, text in doubts]


def _schema(options: Context, output: Output) -> None:
    print(as_json(schema(project=options.project)))


_TRUSTED: Final = """\
  project    its folder
  did        allowed, unchanged (it is allowed already, or the answer was no), revoked
  files      that are allowed as they are now
  upstreams  that they name, as in `hubd config --json`
  warnings   what works, and probably not as meant"""


def _trust(options: Context, output: Output) -> None:
    root = _root(options.directory)
    sources = read_project(root, os.environ)
    base = load_all(None, os.environ).config
    project = load_project(root, os.environ, base, sources=sources)
    trust = Trust(trust_path())
    found = stacks(sources)
    starts = [show_upstream(name, stack, foreign=True) for name, stack in found.items()]
    own = {name: {*chain(*(each.table.values for each in its.used))} for name, its in found.items() if its.defines()}
    files = [str(path) for path in project.files]
    output.set(project=str(root), did="unchanged", files=files, upstreams=[upstream_object(each) for each in starts])
    if trust.is_allowed(project):
        return output.say(f"{root} is allowed already, as it is now")
    if chosen := [account_id(name, account) for name, account in project.accounts.items()]:
        output.say(f"hosts that work in {root} would use your {' and '.join(chosen)}, whatever else serves elsewhere")
    if starts := [each for each in starts if each.name not in project.accounts]:
        output.say(f"{root} names these servers, which hosts that work there would use:")
        output.say("\n".join((*lines((), starts), "")))
    for warning in (*project.warnings, *words_on_project(base, project.upstreams, own)):
        output.warn(str(warning))
    titles, _ = starts_beside_hub(root, options.machine)
    if titles:
        text = f"{' and '.join(titles)} start{'s' * (len(titles) == 1)} what .mcp.json names by themselves, so it runs"
        output.note(f"{text} twice there: .hubd.toml is for hubd alone")
    if not options.yes and not output.is_attended():
        raise UsageError("not a terminal: review the above and pass --yes")
    with suppress(HubNotRunning):  # then no host is attached to it
        ask_hub(DEMAND_PERSON, command="hubd trust", about=str(root))
    if not options.yes and not agreed(f"Allow this for hosts that work in {root}?", default=False):
        raise CommandFailed("nothing was allowed")
    trust.allow(project)
    output.set(did="allowed")
    files_read = " or ".join(path.name for path in project.files[:2])
    output.say(f"trusted; run `hubd trust` again after any change of {files_read}")


def _untrust(options: Context, output: Output) -> None:
    named = Path(os.path.realpath(options.directory or Path.cwd()))
    trust = Trust(trust_path())
    for root in (named, *named.parents):
        if trust.deny(root):
            output.set(project=str(root), did="revoked")
            return output.say(f"{root} is no longer trusted")
    raise CommandFailed(f"nothing of {named} was allowed")


def _root(named: Path | None) -> Path:
    directory = named or Path.cwd()
    if (root := find_project(directory, Path.home())) is None:
        raise UsageError(f"neither {directory} nor a folder above it has a .hubd.toml or .mcp.json of yours")
    return root
