"""Commands that show the configuration in files, check it and describe it. None of them needs a running hub."""

import os
import sys
from os import EX_CONFIG, EX_OK
from pathlib import Path
from typing import Any

from msgspec import structs

from config.errors import ConfigError, Diagnostic
from config.hosts.facts import find_mistyped
from config.hub_paths import trust_path
from config.loading.assemble import Loaded, load_all, load_gathered
from config.loading.gather import gather
from config.loading.precedence import Origin
from config.projects import PROJECT_FILES, Project, Trust, find_project, load_project
from config.settings import HubConfig
from config.show.effective import ShownSetting, ShownUpstream, hub_settings, lines, upstreams
from config.show.json_schema import schema
from hub.cli.configuration.saving import diagnostic_object
from hub.cli.context import Context, UsageError, as_json
from hub.cli.doctor import texts_of_unresolved, words_of_hub
from hub.cli.parser import add, add_config
from hub.cli.profiles.ways_in import tokens


def add_commands(commands: Any) -> None:
    """`config`, `validate` and `schema`."""
    config = add(commands, "config", _config, json=True)
    config.add_argument("--effective", action="store_true", help="with the defaults of what no file mentions")
    add_config(config)
    config.add_argument(
        "--project", type=Path, metavar="DIR", help="as hosts that work in DIR see it; else the current directory"
    )
    validate = add(commands, "validate", _validate, json=True)
    validate.add_argument("file", type=Path, metavar="FILE", nargs="?", help="a hubd.toml, or any host's file")
    schema = add(commands, "schema", _schema, json=True)
    schema.description = (
        "The JSON Schema of hubd.toml: keep it in a file, and write `#:schema FILE` as first line there."
    )
    schema.add_argument("--project", action="store_true", help="of a project's .hubd.toml")


# --- what it says -----------------------------------------------------------------------------------------------------


def _config(options: Context) -> int:
    gathered = gather(options.config, os.environ)
    base = load_gathered(gathered)
    root, project, sources = _project_of(options.project, base.config)
    if project is not None:
        gathered = structs.replace(gathered, sources=(*sources, *gathered.sources))
    hub = hub_settings(gathered, defaults=options.effective)
    found = upstreams(gathered, defaults=options.effective)
    output, warnings = options.output, [*base.warnings, *(() if project is None else project.warnings)]
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
    return EX_OK


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


def _validate(options: Context) -> int:
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
    words = [text for text in words if not any(each.text == text for each in warnings)]
    if options.json:
        parts = {"problems": problems, "warnings": warnings, "unresolved": unresolved}
        found = {name: [diagnostic_object(each) for each in part] for name, part in parts.items()}
        print(as_json({"sound": not problems, **found, "hub": hub, "hub_warnings": words}))
    else:
        for problem in problems:
            print(f"hubd: {problem}", file=sys.stderr)
        for text in (
            *map(str, warnings),
            *texts_of_unresolved(unresolved, hub),
            *(f"the running hub: {text}" for text in words),
        ):
            options.output.warn(text)
        if not problems:
            print(f"ok: {len(names)} server{'s' * (len(names) != 1)}")
    return EX_CONFIG if problems else EX_OK


def _doubts_of_labels(loaded: Loaded) -> list[Diagnostic]:
    config = loaded.config
    if not loaded.files or not any(profile.hosts for profile in config.profiles.values()):
        return []

    doubts = find_mistyped(config.profiles, {each.host for each in tokens(config.access.tokens)})
    return [Diagnostic(loaded.files[0], None, ("profiles", name, "hosts"), text) for name, text in doubts]


def _schema(options: Context) -> int:
    print(as_json(schema(project=options.project)))
    return EX_OK
