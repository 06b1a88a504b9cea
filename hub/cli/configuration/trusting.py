"""Commands that allow what the files of a project start, as they are now, and take that back. None of them needs a
running hub."""

import os
from os import EX_OK
from pathlib import Path
from typing import Any, Final

from config.hosts.import_writing import starts_beside_hub
from config.hub_paths import trust_path
from config.loading.assemble import load_all
from config.loading.precedence import stacks
from config.projects import Trust, find_project, load_project, read_project
from config.show.effective import lines, show_upstream
from hub.cli.configuration.showing import upstream_object
from hub.cli.context import EX_FAILED, Context, UsageError, agreed
from hub.cli.parser import add

_MEMBERS: Final = """\
  project    its folder
  did        allowed, unchanged (it is allowed already, or the answer was no), revoked
  files      that are allowed as they are now
  upstreams  that they name, as in `hubd config --json`
  warnings   what works, and probably not as meant"""


def add_commands(commands: Any) -> None:
    """`trust` and `untrust`."""
    trust = add(commands, "trust", _trust, json=_MEMBERS)
    trust.add_argument("--yes", action="store_true", help="do not ask")
    untrust = add(commands, "untrust", _untrust, json=_MEMBERS)
    for command in (trust, untrust):
        command.add_argument("directory", type=Path, metavar="DIR", nargs="?", help="else the current directory")


def _trust(options: Context) -> int:
    output = options.output
    root = _root(options.directory)
    sources = read_project(root, os.environ)
    project = load_project(root, os.environ, load_all(None, os.environ).config, sources=sources)
    trust = Trust(trust_path())
    starts = [show_upstream(name, stack, foreign=True) for name, stack in stacks(sources).items()]
    files = [str(path) for path in project.files]
    output.set(project=str(root), did="unchanged", files=files, upstreams=[upstream_object(each) for each in starts])
    if trust.is_allowed(project):
        output.say(f"{root} is allowed already, as it is now")
        return EX_OK
    output.say(f"{root} names these servers, which hosts that work there would use:")
    output.say("\n".join((*lines((), starts), "")))
    for warning in project.warnings:
        output.warn(str(warning))
    titles, _ = starts_beside_hub(root, options.machine)
    if titles:
        output.note(
            f"{' and '.join(titles)} start{'s' * (len(titles) == 1)} what .mcp.json names by themselves, "
            "so it runs twice there: .hubd.toml is for hubd alone"
        )
    if not options.yes and not output.is_attended():
        raise UsageError("not a terminal: review the above and pass --yes")
    if not options.yes and not agreed(f"Allow this for hosts that work in {root}?", default=False):
        return output.fail(EX_FAILED, "nothing was allowed")
    trust.allow(project)
    output.set(did="allowed")
    files_read = " or ".join(path.name for path in project.files[:2])
    output.say(f"trusted; run `hubd trust` again after any change of {files_read}")
    return EX_OK


def _untrust(options: Context) -> int:
    output = options.output
    named = Path(os.path.realpath(options.directory or Path.cwd()))
    trust = Trust(trust_path())
    for root in (named, *named.parents):
        if trust.deny(root):
            output.set(project=str(root), did="revoked")
            output.say(f"{root} is no longer trusted")
            return EX_OK
    return output.fail(EX_FAILED, f"nothing of {named} was allowed")


def _root(named: Path | None) -> Path:
    directory = named or Path.cwd()
    if (root := find_project(directory, Path.home())) is None:
        raise UsageError(f"neither {directory} nor a folder above it has a .hubd.toml or .mcp.json of yours")
    return root
