"""The ways in which a server can be run: a package and its runner, or an address. Pure.

    npm -> npx -y ID@VERSION    pypi -> uvx ID@VERSION    oci -> docker|podman run --rm -i --init IMAGE    remote -> url
    mcpb -> `bundle_manifest`, once it is there

`runtimeHint` chooses among these, and never another program. A way that cannot be taken says why.

An identifier goes into a command line, where `npx` would also take a path, a repository or an option: so it must have
the form of one that can be nothing else, with an exact version. Options of runners, and variables that decide which
code runs, are refused to publishers. A server that asks for something dangerous is not added without that part: it
would not work, and nobody would know why.
"""

import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from msgspec import Struct

from config.registry.places_to_fill import NotRunnable, Place, Slot, names_in, slots_of
from config.registry.server_json import Argument, ArgumentTemplate, KeyValue, Package, ServerJson, Transport, one_line

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


def refuse_variable(name: str, *, fixed: bool) -> None:
    """Refuse what is no variable, and one whose value, `fixed` by the publisher, decides which code runs.
    Raises: NotRunnable, if it is refused."""
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
    Raises: NotRunnable, if it is no package of npm or PyPI, or names no exact version."""
    _refuse_other_home(package)
    title, identifiers, versions = _FORMS[package.registry_type]
    if not identifiers.fullmatch(package.identifier) or len(package.identifier) > 214:
        raise NotRunnable(f"its identifier is no name of a package of {title}")
    if not versions.fullmatch(package.version):
        raise NotRunnable("it names no exact version of its package")
    return f"{package.identifier}{joined}{package.version}"


def image(package: Package) -> str:
    """The image that `docker run` is told, with its tag or digest.
    Raises: NotRunnable, if it is no image, or names no exact version."""
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


KINDS: Final = ("npm", "pypi", "oci", "mcpb")
"""Values of `--package`."""
ENGINES: Final = ("docker", "podman")
_BY_HAND: Final = {"nuget": "dnx {0}@{1}", "cargo": "cargo install {0} --version {1}", "go": "go install {0}@{1}"}
_SAFE: Final = re.compile(r"[A-Za-z0-9@][A-Za-z0-9@._/+-]{0,199}")
"""Text that may be pasted into a shell."""
_HARMLESS: Final = frozenset({"-i", "--interactive", "--rm", "--init"})
_MOUNT_ALIASES: Final = {"src": "source", "dst": "target", "destination": "target", "ro": "readonly"}


class Way(Struct, frozen=True, kw_only=True):
    """One way of running a server."""

    kind: str
    """npm, pypi, oci, mcpb, remote; or that of a package which is not run."""
    why: str = ""
    """The reason why it cannot be taken; "": it can."""
    command: tuple[str, ...] = ()
    """The program and its arguments before those of the slots; of a container up to where options go."""
    image: str = ""
    """The image, behind the options of the container."""
    transport: str = ""
    """The setting `transport`, where it says more than the address does."""
    slots: tuple[Slot, ...] = ()
    address: str = ""
    sha256: str = ""
    """The address of a bundle that has to be looked into before it is known what runs, and its SHA-256."""

    @property
    def title(self) -> str:
        """A few words for a person who chooses."""
        titles = {"npm": "npm (npx)", "pypi": "PyPI (uvx)", "oci": "container", "mcpb": "bundle"}
        return titles.get(self.kind, self.kind)

    def slots_at(self, place: Place) -> list[Slot]:
        """The slots of one sort, in order."""
        return [slot for slot in self.slots if slot.place == place]


def ways_of(server: ServerJson, engine: str = "docker") -> list[Way]:
    """All ways, those that can be taken and those that cannot. `engine` runs containers where no hint says which."""
    found = [_try(package.registry_type, partial(_of_package, package, engine)) for package in server.packages]
    return [*found, *(_try("remote", partial(_of_remote, remote)) for remote in server.remotes)]


def kinds_of(server: ServerJson) -> list[str]:
    """The kinds it runs as, in few words, without a closer look."""
    kinds = [package.registry_type for package in server.packages] + ["remote"] * bool(server.remotes)
    return list(dict.fromkeys(kind[:16] for kind in kinds))


def _try(kind: str, make: Callable[[], Way]) -> Way:
    try:
        return make()
    except NotRunnable as error:
        return Way(kind=kind, why=str(error))


def _of_package(package: Package, engine: str) -> Way:
    kind = package.registry_type
    if kind == "mcpb":
        if not package.identifier.startswith(("https://", "http://")) or not package.identifier.isprintable():
            raise NotRunnable("its bundle (.mcpb) has no address")
        if not re.fullmatch(r"[0-9a-fA-F]{64}", package.file_sha256):
            raise NotRunnable("it does not say the SHA-256 of its bundle (.mcpb), by which that is known")
        return Way(kind=kind, address=package.identifier, sha256=package.file_sha256.lower())
    if kind not in ("npm", "pypi", "oci"):
        command = _BY_HAND.get(kind, "").format(package.identifier, package.version)
        is_safe = command and _SAFE.fullmatch(package.identifier) and _SAFE.fullmatch(package.version)
        todo = f": install it by hand (`{command}`), then `hubd add NAME -- COMMAND`" if is_safe else ""
        raise NotRunnable(f"packages of {one_line(kind, 32)} are not run from a registry{todo}")
    if package.transport.type != "stdio":
        raise NotRunnable("its package serves HTTP and not stdio: start it by hand, then `hubd add NAME URL`")
    _refuse_unseen_texts((*package.runtime_arguments, *package.package_arguments, *package.environment_variables))
    variables = list(package.environment_variables)
    mounts: list[Argument] = []
    if kind == "oci":
        mounts, more = _container_options(package)
        known = {each.name for each in variables}
        variables += [each for each in more if each.name not in known]
    for each in variables:
        parts = (each, *each.variables.values())
        refuse_variable(each.name, fixed=any(part.value is not None or part.default is not None for part in parts))
    if len({each.name for each in variables}) < len(variables):
        raise NotRunnable("it sets a variable twice")
    slots = slots_of([("mount", mounts), ("argument", package.package_arguments), ("variable", variables)])
    if kind == "npm":
        for word in _words(package.runtime_arguments, "npx"):
            if word not in ("-y", "--yes"):
                raise refuse_option("npx", word)
        return Way(kind=kind, command=("npx", "-y", exact_package(package)), slots=slots)
    if kind == "pypi":
        return Way(kind=kind, command=("uvx", *_from_of_uvx(package)), slots=slots)
    program = package.runtime_hint if package.runtime_hint in ENGINES else engine
    return Way(kind=kind, command=(program, "run", "--rm", "-i", "--init"), image=image(package), slots=slots)


def _of_remote(remote: Transport) -> Way:
    if remote.type not in ("streamable-http", "sse"):
        raise NotRunnable(f"it speaks {one_line(remote.type, 32)}, which is neither streamable-http nor sse")
    refuse_unseen(remote.url, "its address")
    _refuse_unseen_texts(remote.headers)
    for header in remote.headers:
        refuse_header(header.name)
    if len({header.name.lower() for header in remote.headers}) < len(remote.headers):
        raise NotRunnable("it sets a header twice")
    address = ArgumentTemplate(value=remote.url, variables=dict(remote.variables), is_required=True)
    slots = slots_of([("address", [address]), ("header", remote.headers)])
    return Way(kind="remote", transport="sse" if remote.type == "sse" else "", slots=slots)


def _refuse_unseen_texts(templates: Sequence[ArgumentTemplate]) -> None:
    for each in templates:
        refuse_unseen(each.name, "the name of an option, variable or header")
        for one in (each, *each.variables.values()):
            refuse_unseen(one.value, "a fixed value")
            refuse_unseen(one.default, "a default")
            for choice in one.choices:
                refuse_unseen(choice, "a choice")
        for variable in each.variables:
            refuse_unseen(variable, "the name of a variable")


# --- what runners are asked for ---------------------------------------------------------------------------------------


def _words(arguments: Sequence[Argument], runner: str) -> list[str]:
    """Fixed arguments as words. Raises: NotRunnable."""
    found: list[str] = []
    for each in arguments:
        if each.variables or (each.value is None and (each.type == "positional" or each.default or each.is_required)):
            raise refuse_option(runner, each.name, each.value or "")
        words = [each.name, each.value or ""] if each.type == "named" else [each.value or ""]
        found += [word for word in words if word]
    return found


def _from_of_uvx(package: Package) -> list[str]:
    """The arguments of `uvx`: the package, and before it a `--from` of that package."""
    name = exact_package(package)
    words: list[str] = []
    for word in _words(package.runtime_arguments, "uvx"):
        words += word.split("=", 1) if word.startswith("--from=") else [word]
    if not words:
        return [name]
    exact = exact_package(package, "==")
    if len(words) != 2 or words[0] != "--from" or words[1] not in (package.identifier, name, exact):
        raise refuse_option("uvx", *words)
    return ["--from", exact, package.identifier]


def _container_options(package: Package) -> tuple[list[Argument], list[KeyValue]]:
    """The mounts and variables that a container is asked for by options of its runner."""
    mounts: list[Argument] = []
    variables: list[KeyValue] = []
    for each in package.runtime_arguments:
        word = each.name if each.type == "named" else each.value or ""
        if word in _HARMLESS and (each.type == "positional" or each.value in (None, "")) and not each.variables:
            continue  # it is there anyway
        if each.type == "named" and word in ("-e", "--env") and each.value is not None:
            variables.append(_variable(each, each.value))
        elif each.type == "named" and word == "--mount" and each.value is not None:
            _refuse_mount(each, each.value)
            mounts.append(each)
        else:
            raise refuse_option("the container", each.name, each.value or "")
    return mounts, variables


def _variable(argument: Argument, value: str) -> KeyValue:
    """The variable that `-e NAME=VALUE` sets, or asks for by `-e NAME`."""
    name, equals, text = value.partition("=")
    return KeyValue(
        name=name,
        description=argument.description,
        is_required=argument.is_required,
        is_secret=argument.is_secret,
        value=text if equals else None,
        variables=argument.variables if equals else {},
    )


def _refuse_mount(argument: Argument, template: str) -> None:
    """Refuse a mount unless it binds one folder that the user types. Raises: NotRunnable."""
    parts = [part.partition("=") for part in template.split(",")]
    options = {_MOUNT_ALIASES.get(key, key): value for key, _, value in parts}
    source = options.get("source", "")
    is_sound = (
        len(options) == len(parts)
        and {"type", "source", "target"} <= options.keys() <= {"type", "source", "target", "readonly"}
        and options["type"] == "bind"
        and [source] == [f"{{{name}}}" for name in names_in(source, argument.variables)]
        and source not in options["target"]
        and options.get("readonly", "") in ("", "true")
    )
    fixed = any(each.value is not None for each in argument.variables.values())  # may hold a comma, and more behind it
    if not is_sound or fixed:
        raise refuse_option("the container", "--mount", template)
