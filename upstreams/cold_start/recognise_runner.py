"""Package runners: programs that install what they run. Pure.

A command is recognised with whatever options it has, also behind `env` and behind a shell that runs one simple command.
What it installs is only told from what another command installs: two that install the same have the same key, and two
that have the same key may wait for each other needlessly, no more.
"""

import re
import shlex
from collections.abc import Mapping, Sequence
from hashlib import sha512
from typing import Final

from msgspec import Struct

SHELLS: Final = frozenset({"sh", "bash", "dash", "zsh", "ksh", "ash"})
MAX_DEPTH: Final = 4
"""Wrappers around wrappers that are looked through."""


class PackageRun(Struct, frozen=True):
    """A run of a package runner."""

    runner: str
    """As one calls it: `npx`, `uv run`."""
    key: str
    """The same for all commands that install the same packages to the same place."""
    exact: str = ""
    """As `key`, with versions: where one of these commands has been installed, all of them are."""
    npx_folder: str = ""
    """The name of the folder that npx installs it in, below `_npx`; "": it is not npx, or nobody can say."""


class _Runner(Struct, frozen=True):
    shown: str
    words: tuple[str, ...] = ()
    """Subcommands that must follow, after options."""
    family: str = ""
    """Runners of one family install to the same place."""
    values: frozenset[str] = frozenset()
    """Options that are followed by a value."""
    packages: frozenset[str] = frozenset()
    """Options whose value is a package; then the first argument is none."""


def _runners(shown: str, *ways: str, family: str = "", values: str = "", packages: str = "") -> tuple[_Runner, ...]:
    """One for each of the `ways` to write its subcommand; none: it has no subcommand."""
    of_package = frozenset(packages.split())
    of_value = of_package.union(values.split())
    return tuple(_Runner(shown, tuple(way.split()), family or shown, of_value, of_package) for way in ways or ("",))


_NPM_VALUES: Final = "-c --call -w --workspace --registry --cache --prefix --userconfig --loglevel --node-options"
_UV_VALUES: Final = (
    "--with --with-editable --with-requirements --python -p --index --index-url -i --default-index --extra-index-url "
    "--find-links -f --directory --project --env-file --cache-dir --config-file --refresh-package --upgrade-package -P "
    "--extra --group --only-group --resolution --prerelease --exclude-newer --link-mode --python-platform --package "
    "--color --constraints -c --overrides --allow-insecure-host --keyring-provider --config-setting -C -m --module"
)
_DOCKER_VALUES: Final = (
    "-e --env --env-file -v --volume --mount --name --network --net -p --publish -w --workdir -u --user --entrypoint "
    "--platform -l --label -m --memory --memory-swap --cpus -c --add-host --device --gpus -h --hostname --pull "
    "--restart --runtime --security-opt --shm-size --tmpfs --ulimit --cap-add --cap-drop --dns --ipc --pid --userns "
    "--log-driver --log-opt --volumes-from --stop-signal --stop-timeout --group-add --cidfile --label-file --context "
    "-H --host --config --log-level --network-alias --ip --mac-address --sysctl --expose --link -a --attach"
)

_RUNNERS: Final[Mapping[str, tuple[_Runner, ...]]] = {
    "npx": _runners("npx", values=_NPM_VALUES, packages="-p --package"),
    "npm": _runners("npm exec", "exec", "x", family="npx", values=_NPM_VALUES, packages="-p --package"),
    "bunx": _runners("bunx", packages="-p --package"),
    "bun": _runners("bunx", "x", packages="-p --package"),
    "pnpx": _runners("pnpm dlx", packages="--package"),
    "pnpm": _runners("pnpm dlx", "dlx", values="--config -C --dir --reporter", packages="--package"),
    "yarn": _runners("yarn dlx", "dlx", packages="-p --package"),
    "uvx": _runners("uvx", family="uv", values=_UV_VALUES, packages="--from"),
    "uv": (
        *_runners("uv tool run", "tool run", family="uv", values=_UV_VALUES, packages="--from"),
        *_runners("uv run", "run", values=_UV_VALUES),
    ),
    "pipx": _runners("pipx run", "run", values="--python --pip-args --index-url -i", packages="--spec"),
    "docker": _runners("docker run", "run", "container run", values=_DOCKER_VALUES),
    "podman": _runners("podman run", "run", "container run", values=_DOCKER_VALUES),
    "deno": _runners("deno run", "run", values="-c --config --import-map --lock -r --seed"),
}
_PLACES: Final = frozenset({"--directory", "--project", "--with-requirements", "--with-editable"})
"""Options of `uv run` that say which project is installed."""

_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")
_NOT_PLAIN = re.compile(r"[;|<>()`\n]")
_NAME_OF_PACKAGE = re.compile(r"(@[^/@\s]+/)?[^@=<>!~\[\s:]*")


def recognise(command: str | None, args: Sequence[str]) -> PackageRun | None:
    """The package runner that a command starts; None: it is none, or that is not plain."""
    if command is None:
        return None
    words: list[str] | None = [command, *args]
    for _ in range(MAX_DEPTH):
        if not words:
            return None
        program = words[0].rpartition("/")[2]
        if program in _RUNNERS:
            runs = ((runner, _after(runner, words[1:])) for runner in _RUNNERS[program])
            return next((_run_by(runner, rest) for runner, rest in runs if rest is not None), None)
        if program != "env" and program not in SHELLS:
            return None
        words = (_after_env if program == "env" else _in_shell)(words[1:])
    return None


def is_failure_of_npm(said: str) -> bool:
    """True if npm itself says that it failed: the server never ran."""
    return any(line.startswith(("npm error", "npm ERR!")) for line in said.splitlines())


def _run_by(runner: _Runner, words: list[str]) -> PackageRun:
    packages, places = _install_of(runner, words)
    is_bare = runner.family in ("docker run", "podman run", "deno run")
    names = sorted(packages if is_bare else map(_bare, packages))
    folder = ""
    if runner.family == "npx" and len(packages) == 1 and not packages[0].startswith((".", "/", "~", "file:")):
        # as libnpmexec calls it; the order of several packages would depend on a locale
        folder = sha512(packages[0].encode(errors="replace")).hexdigest()[:16]
    key, exact = (" ".join([runner.family, *found, *places]) for found in (names, sorted(packages)))
    return PackageRun(runner.shown, key, exact, folder)


def _after(runner: _Runner, words: list[str]) -> list[str] | None:
    """The words without the subcommand, options that stand before it included; None: it is another one."""
    if not runner.words:
        return words
    before: list[str] = []
    at = 0
    while at < len(words) and words[at].startswith("-"):
        width = 2 if words[at] in runner.values else 1
        before += words[at : at + width]
        at += width
    end = at + len(runner.words)
    return [*before, *words[end:]] if tuple(words[at:end]) == runner.words else None


def _install_of(runner: _Runner, words: list[str]) -> tuple[list[str], list[str]]:
    """The package that is installed, as it is called, and the project that it is for."""
    packages: list[str] = []
    places: list[str] = []
    at = 0
    while at < len(words) and words[at] != "--" and words[at].startswith("-"):
        option, equals, value = words[at].partition("=")
        at += 1
        if not equals and option in runner.values:
            value = words[at] if at < len(words) else ""
            at += 1
        if option in runner.packages and value:
            packages.append(value)
        elif option in _PLACES:
            places.append(value)
    at += at < len(words) and words[at] == "--"
    return packages or words[at : at + 1], places


def _bare(package: str) -> str:
    """A package without its version and extras; an address stays whole."""
    match = _NAME_OF_PACKAGE.match(package)
    return (match[0] if match and "://" not in package else "") or package


def _after_env(words: list[str]) -> list[str] | None:
    rest = list(words)
    while rest:
        word = rest[0]
        if word in ("-u", "--unset", "-C", "--chdir"):
            rest = rest[2:]
        elif word in ("-S", "--split-string"):
            split = _simple(rest[1]) if len(rest) > 1 else None
            return None if split is None else _after_env([*split, *rest[2:]])
        elif word.startswith("-") or _ASSIGNMENT.match(word):
            rest = rest[1:]
        else:
            return rest
    return None


def _in_shell(words: list[str]) -> list[str] | None:
    """The one simple command of `sh -c TEXT`."""
    for at, word in enumerate(words):
        if not word.startswith("-"):
            return None
        if not word.startswith("--") and "c" in word:
            split = _simple(words[at + 1]) if at + 1 < len(words) else None
            if split is None:
                return None
            while split and (split[0] == "exec" or _ASSIGNMENT.match(split[0])):
                split = split[1:]
            return split
    return None


def _simple(text: str) -> list[str] | None:
    """The words of the last of some commands that are joined by `&&`; None: there is more to it."""
    if _NOT_PLAIN.search(text):
        return None
    try:
        words = shlex.split(text)
    except ValueError:
        return None
    while "&&" in words:
        words = words[words.index("&&") + 1 :]
    return None if any("&" in word for word in words) else words
