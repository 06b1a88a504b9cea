"""Packages as their runners are told of them: identifiers that can be nothing else, and exact versions. Pure.

An identifier goes into a command line, where `npx` would also take a path, a repository or an option.
"""

import re
from typing import Final

from config.registry.names import is_range
from config.registry.refusals import NotRunnable
from config.registry.server_json import Package, one_line

_NPM = re.compile(r"(?:@[A-Za-z0-9~][A-Za-z0-9._~-]*/)?[A-Za-z0-9~][A-Za-z0-9._~-]*")
_NPM_VERSION = re.compile(r"\d+\.\d+\.\d+(?:-[0-9A-Za-z.-]+)?(?:\+[0-9A-Za-z.-]+)?")
_PYPI = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")
_PYPI_VERSION = re.compile(r"(?:\d+!)?\d[0-9A-Za-z._+-]*")
_IMAGE = re.compile(
    r"(?P<name>[a-z0-9](?:[a-z0-9._-]*[a-z0-9])?(?::\d{1,5}(?=/))?(?:/[a-z0-9]+(?:[._-]+[a-z0-9]+)*)*)"
    r"(?::(?P<tag>[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}))?(?P<digest>@sha256:[0-9a-f]{64})?"
)
_HOMES: Final = {
    "npm": ("https://registry.npmjs.org",),
    "pypi": ("https://pypi.org", "https://pypi.org/simple"),
    "oci": ("https://docker.io", "https://ghcr.io", "https://index.docker.io"),
}


def npm_package(package: Package) -> str:
    """The argument of `npx`: `ID@VERSION`.

    Raises:
        NotRunnable: it is no package of npm, or names no exact version.
    """
    _refuse_other_home(package)
    if not _NPM.fullmatch(package.identifier) or len(package.identifier) > 214:
        raise NotRunnable("its identifier is no name of a package of npm")
    if not _NPM_VERSION.fullmatch(package.version):
        raise NotRunnable("it names no exact version of its package")
    return f"{package.identifier}@{package.version}"


def pypi_package(package: Package, joined: str = "@") -> str:
    """The argument of `uvx`: `ID@VERSION`, or `ID==VERSION` behind `--from`.

    Raises:
        NotRunnable: it is no package of PyPI, or names no exact version.
    """
    _refuse_other_home(package)
    if not _PYPI.fullmatch(package.identifier) or len(package.identifier) > 214:
        raise NotRunnable("its identifier is no name of a package of PyPI")
    if is_range(package.version) or not _PYPI_VERSION.fullmatch(package.version):
        raise NotRunnable("it names no exact version of its package")
    return f"{package.identifier}{joined}{package.version}"


def image(package: Package) -> str:
    """The image that `docker run` is told, with its tag or digest.

    Raises:
        NotRunnable: it is no image, or names no exact version.
    """
    _refuse_other_home(package)
    found = _IMAGE.fullmatch(package.identifier) if len(package.identifier) <= 512 else None
    if found is None:
        raise NotRunnable("its identifier is no image of a container")
    if found["digest"] or (found["tag"] and found["tag"] != "latest"):
        return package.identifier
    if found["tag"] or not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}", package.version):
        raise NotRunnable("its image names neither a version nor a digest")
    return f"{package.identifier}:{package.version}"


def _refuse_other_home(package: Package) -> None:
    home = package.registry_base_url.rstrip("/")
    if home and home not in _HOMES[package.registry_type]:
        raise NotRunnable(f"its package comes from {one_line(home, 100)}; add it by hand if you trust that")
