"""The variables of the hub that a server gets beside those of its own section. Pure.

Patterns are names with `*`, `?` and `[...]`, read in order: the built-in ones, those of `[defaults]`, those of the
server; the last one that matches a name decides, and `!` before it means: not passed. A variable that looks like a
secret by its name or value passes only if `pass` names it in full. What was set for the hub itself never passes by a
pattern: a server must not take the hub's socket, or its watchdog, for its own.
"""

import re
from collections.abc import Iterator
from fnmatch import translate
from functools import cache
from typing import Final, Literal

from msgspec import Struct

from config.environment.hubd_env import Environ
from config.secrets.detection import looks_secret

ALWAYS: Final = ("HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER", "LANG", "LC_*", "TZ", "TMPDIR")
"""Variables without which programs hardly run; whether they look like secrets is not asked."""

CERTIFICATES: Final = (
    *("SSL_CERT_*", "NODE_EXTRA_CA_CERTS", "NODE_USE_SYSTEM_CA", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "PIP_CERT"),
    *("GIT_SSL_CAINFO", "GIT_SSL_CAPATH", "AWS_CA_BUNDLE", "DENO_CERT", "DENO_TLS_CA_STORE", "NIX_SSL_CERT_FILE"),
    *("HTTPLIB2_CA_CERTS", "CARGO_HTTP_CAINFO", "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH"),
)
PROXIES: Final = ("*_PROXY", "*_proxy", "NODE_USE_ENV_PROXY")
DESKTOP: Final = (*("DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY", "XDG_*", "DBUS_SESSION_BUS_ADDRESS"), "SSH_AUTH_SOCK")
RUNTIMES: Final = (
    *("NVM_DIR", "FNM_DIR", "N_PREFIX", "NODENV_ROOT", "VOLTA_HOME", "PNPM_HOME", "BUN_INSTALL", "DENO_DIR"),
    *("DENO_INSTALL", "COREPACK_HOME", "npm_config_*", "NPM_CONFIG_*", "UV_*", "PYENV_ROOT", "PIPX_*", "PIP_INDEX_URL"),
    *("PIP_EXTRA_INDEX_URL", "PIP_TRUSTED_HOST", "PIP_CONFIG_FILE", "ASDF_*", "MISE_*", "RBENV_ROOT", "GOENV_ROOT"),
    *("GOPATH", "GOROOT", "CARGO_HOME", "RUSTUP_HOME", "JAVA_HOME", "SDKMAN_DIR", "HOMEBREW_*", "NIX_PATH"),
    *("NIX_PROFILES", "LOCALE_ARCHIVE", "PLAYWRIGHT_BROWSERS_PATH"),
)
"""Roots of version managers, and where package runners find packages and keep them."""
_DOCKER: Final = ("DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_CONFIG", "DOCKER_CERT_PATH", "DOCKER_TLS_VERIFY")
PASSED: Final = (*ALWAYS, "LANGUAGE", *CERTIFICATES, *PROXIES, *DESKTOP, *_DOCKER, "CONTAINER_HOST", *RUNTIMES)
"""The built-in patterns."""

HUBS_OWN: Final = (
    *("HUBD_*", "NOTIFY_SOCKET", "LISTEN_*", "WATCHDOG_*", "INVOCATION_ID", "JOURNAL_STREAM", "MAINPID"),
    *("MANAGERPID", "MEMORY_PRESSURE_*", "SYSTEMD_*", "CREDENTIALS_DIRECTORY", "RUNTIME_DIRECTORY"),
    *("STATE_DIRECTORY", "CACHE_DIRECTORY", "LOGS_DIRECTORY", "CONFIGURATION_DIRECTORY", "UV_RUN_RECURSION_DEPTH"),
)
"""Variables that hubd, its service manager or its package runner set for the hub itself."""
_STATE_OF_UNIT: Final = ("XDG_STATE_HOME", "STATE_DIRECTORY")
"""The system unit sets the first for the hub's own state; it has the second only there."""

Patterns = tuple[str, ...]
Reason = Literal["secret", "pattern", "own"]


class Passing(Struct, frozen=True):
    """The variables that a server gets, and those that it does not get although a pattern names them."""

    passed: dict[str, str]
    withheld: dict[str, Reason]
    """`secret`: it looks like one and is not named in full; `pattern`: one with `!` takes it out; `own`: it was set for
    the hub itself."""


def select_passed(environ: Environ, patterns: Patterns = ()) -> dict[str, str]:
    """The variables of `environ` that a server with these patterns gets."""
    return passing(environ, patterns).passed


def passing(environ: Environ, patterns: Patterns = ()) -> Passing:
    """As `passed`, and what is withheld."""
    by_name: dict[str, str] = {}
    withheld: dict[str, Reason] = {}
    for name, value in environ.items():
        matching = _is_named(name, patterns)
        if matching is None or value.startswith("()"):  # the definition of a function
            continue
        if matching is False:
            if _compile(PASSED).match(name):
                withheld[name] = "pattern"
        elif name in patterns or _compile(ALWAYS).match(name):
            by_name[name] = value
        elif _compile(HUBS_OWN).match(name) or (name == _STATE_OF_UNIT[0] and _STATE_OF_UNIT[1] in environ):
            withheld[name] = "own"
        elif looks_secret(name, value):
            withheld[name] = "secret"
        else:
            by_name[name] = value
    return Passing(by_name, withheld)


def _is_named(name: str, patterns: Patterns) -> bool | None:
    """The decision of the last pattern that matches a name; None: none does."""
    for pattern in reversed(patterns):
        takes_out = pattern.startswith("!")
        if _compile((pattern[takes_out:],)).match(name):
            return not takes_out
    return True if _compile(PASSED).match(name) else None


@cache
def _compile(patterns: Patterns) -> re.Pattern[str]:
    return re.compile("|".join(map(translate, patterns)))


def mistakes(patterns: Patterns) -> Iterator[str]:
    """The mistakes in patterns, as a sentence each."""
    for pattern in patterns:
        name = pattern.removeprefix("!")
        if not name or re.search(r"[=\s\x00]", name):
            yield 'expected names of variables such as "NODE_*" or "!DISPLAY"; values belong in `env`'
