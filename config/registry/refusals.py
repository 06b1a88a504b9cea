"""The things that a publisher may not ask for: options of runners, and variables that decide which code runs. Pure.

Such a server is not added with the dangerous part left out: it would not work, and nobody would know why.
"""

import re
from typing import Final

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
    """Refuse what is no variable, and one that decides which code runs if its value is `fixed` by the publisher.

    Raises:
        NotRunnable: it is refused.
    """
    if not _VARIABLE.fullmatch(name) or len(name) > 128:
        raise NotRunnable("a variable has a name that no variable can have")
    if fixed and _DECISIVE.fullmatch(name):
        raise NotRunnable(f"it sets {name}, which decides which code runs; {BY_HAND}")


def refuse_header(name: str) -> None:
    """Refuse what is no header, and those that belong to the connection.

    Raises:
        NotRunnable: it is refused.
    """
    if not _HEADER.fullmatch(name) or len(name) > 128:
        raise NotRunnable("a header has a name that no header can have")
    if _OF_THE_CONNECTION.fullmatch(name):
        raise NotRunnable(f"it sets the header {name}, which is the connection's own; {BY_HAND}")


def refuse_unseen(text: str | None, what: str) -> None:
    """Refuse a fixed text with characters that nobody sees, since a person judges it by its looks.

    Raises:
        NotRunnable: it has some.
    """
    if text is not None and not text.isprintable():
        raise NotRunnable(f"{what} holds characters that cannot be printed")


def refuse_option(runner: str, *words: str) -> NotRunnable:
    """The refusal of an option of a runner."""
    asked = " ".join(word for word in words if word)
    asked = asked if len(asked) <= 80 else f"{asked[:77]}..."
    return NotRunnable(f"it asks {runner} for {asked or 'an empty argument'}; {BY_HAND}")
