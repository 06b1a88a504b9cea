"""Packages as their runners are told of them: identifiers that can be nothing else, exact versions; and what a
publisher may not ask for: options of runners, and variables that decide which code runs. Pure.

An identifier goes into a command line, where `npx` would also take a path, a repository or an option. A server that
asks for something dangerous is not added without that part: it would not work, and nobody would know why.
"""

import re
from typing import Final

from config.registry.server_json import Package, one_line

BY_HAND: Final = "add it by hand if you trust it"
_DECISIVE = re.compile(
    r"LD_.*|DYLD_.*|GCONV_PATH|GLIBC_TUNABLES|PATH|HOME|SHELL|IFS|BASH_ENV|TMPDIR|XDG_.*|HUBD_.*"
    r"|NODE_OPTIONS|NODE_PATH|NODE_EXTRA_CA_CERTS|NODE_TLS_REJECT_UNAUTHORIZED|NPM_CONFIG_.*"
    r"|PYTHON.*|UV_.*|PIP_.*|VIRTUAL_ENV|DOCKER_.*|CONTAINER_HOST|CONTAINERS_.*|REGISTRY_AUTH_FILE"
    r"|.*_PROXY|SSL_CERT_.*|OPENSSL_(?:CONF|ENGINES|MODULES)|REQUESTS_CA_BUNDLE|CURL_CA_BUNDLE|SSH_ASKPASS"
    r"|GIT_(?:SSH|EXEC|CONFIG|PROXY|ASKPASS|DIR|EDITOR|SEQUENCE_EDITOR|PAGER|EXTERNAL_DIFF|TEMPLATE_DIR).*"
    r"|(?:MAN)?PAGER|LESS(?:OPEN|CLOSE)|EDITOR|VISUAL|BROWSER|PROMPT_COMMAND|PS4"
    r"|PERL5.*|PERLLIB|RUBY(?:OPT|LIB)|LUA_INIT.*|(?:JAVA_TOOL|JDK_JAVA|_JAVA)_OPTIONS"
    r"|DOTNET_(?:STARTUP_HOOKS|ADDITIONAL_DEPS|SHARED_STORE)|COR(?:ECLR)?_.*",
    re.I,
)
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_OF_THE_CONNECTION = re.compile(r"host|connection|content-.*|transfer-encoding|te|trailer|upgrade|expect|mcp-.*", re.I)


class NotRunnable(ValueError):
    """A way of running a server that is not taken. The text says why, as what follows "it cannot be added: "."""


def refuse_variable(name: str, *, fixed: bool) -> None:
    """Refuse what is no variable, and one whose value, `fixed` by the publisher, decides which code runs.

    Raises:
        NotRunnable: it is refused.
    """
    if not _VARIABLE.fullmatch(name) or len(name) > 128:
        raise NotRunnable("a variable has a name that no variable can have")
    if fixed and _DECISIVE.fullmatch(name):
        raise NotRunnable(f"it sets {name}, which decides which code runs; {BY_HAND}")


def refuse_header(name: str) -> None:
    """Refuse what is no header, and those that belong to the connection. Raises: NotRunnable."""
    if not _HEADER.fullmatch(name) or len(name) > 128:
        raise NotRunnable("a header has a name that no header can have")
    if _OF_THE_CONNECTION.fullmatch(name):
        raise NotRunnable(f"it sets the header {name}, which is the connection's own; {BY_HAND}")


def refuse_unseen(text: str | None, what: str) -> None:
    """Refuse a fixed text with characters that nobody sees: a person judges by looks. Raises: NotRunnable."""
    if text is not None and not text.isprintable():
        raise NotRunnable(f"{what} holds characters that cannot be printed")


def refuse_option(runner: str, *words: str) -> NotRunnable:
    """The refusal of an option of a runner."""
    asked = " ".join(word for word in words if word)
    asked = asked if len(asked) <= 80 else f"{asked[:77]}..."
    return NotRunnable(f"it asks {runner} for {asked or 'an empty argument'}; {BY_HAND}")


_NPM = re.compile(r"(?:@[A-Za-z0-9~][A-Za-z0-9._~-]*/)?[A-Za-z0-9~][A-Za-z0-9._~-]*")
_NPM_VERSION = re.compile(r"\d+\.\d+\.\d+(?:-[0-9A-Za-z.-]+)?(?:\+[0-9A-Za-z.-]+)?")
_PYPI = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")
_PYPI_VERSION = re.compile(r"(?!.*\.[xX](?:\.|$))(?:\d+!)?\d[0-9A-Za-z._+-]*")
"""One version; `1.x` stands for several."""
_FORMS: Final = {"npm": ("npm", _NPM, _NPM_VERSION), "pypi": ("PyPI", _PYPI, _PYPI_VERSION)}
"""By the type of a registry: its title, and the forms of identifiers and versions."""
_IMAGE = re.compile(
    r"(?P<name>[a-z0-9](?:[a-z0-9._-]*[a-z0-9])?(?::\d{1,5}(?=/))?(?:/[a-z0-9]+(?:[._-]+[a-z0-9]+)*)*)"
    r"(?::(?P<tag>[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}))?(?P<digest>@sha256:[0-9a-f]{64})?"
)
_HOMES: Final = {
    "npm": ("https://registry.npmjs.org",),
    "pypi": ("https://pypi.org", "https://pypi.org/simple"),
    "oci": ("https://docker.io", "https://ghcr.io", "https://index.docker.io"),
}


def exact_package(package: Package, joined: str = "@") -> str:
    """The argument of `npx` or `uvx`: `ID@VERSION`, or `ID==VERSION` behind `--from`.

    Raises:
        NotRunnable: it is no package of npm or PyPI, or names no exact version.
    """
    _refuse_other_home(package)
    title, identifiers, versions = _FORMS[package.registry_type]
    if not identifiers.fullmatch(package.identifier) or len(package.identifier) > 214:
        raise NotRunnable(f"its identifier is no name of a package of {title}")
    if not versions.fullmatch(package.version):
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
