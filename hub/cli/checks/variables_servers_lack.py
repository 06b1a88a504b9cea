"""Checks of the environment of servers: what this shell has and servers lack, and what their last words say of it."""

import os
import re
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

from msgspec import Struct

from config.diagnostics import EditError
from config.environment.pass_variables_by_patterns import CERTIFICATES, PROXIES, passing
from config.settings import UpstreamConfig
from hub.cli.checks.findings import Finding, KeepVariables, RunHubd, join_few
from hub.cli.checks.machine_state import MachineState
from hub.cli.configuration.env_command import environment_file, plan_capture
from hub.cli.shell_secrets import only_here_of_hub
from hub.control.answers import UpstreamRow
from upstreams.journal.lacking_variable import PART, lacking_variable

CAPTURE: Final = "run `hubd env capture`"
BUNDLES: Final = ("/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem")
"""The files in which distributions keep the certificates that this machine trusts, those of a company among them."""
NODE: Final = ("npx", "node", "npm", "pnpm", "yarn", "bunx", "bun", "tsx")


class _Cause(Struct, frozen=True):
    """A cause that servers name in their last words."""

    words: str
    """A pattern; upper and lower case are the same."""
    variables: tuple[str, ...]
    """The variables that may be missing; the first one that this shell has is named, else the first."""
    what: str
    only_if_here: bool = False
    """The words may mean something else, so they count only if this shell has a variable that the server lacks."""


CERTIFICATE: Final = _Cause(
    r"UnknownIssuer|self[- _]signed[- _]cert|unable to get (local )?issuer cert|UNABLE_TO_(GET_ISSUER|VERIFY_LEAF)"
    r"|unable to verify the first cert|CERTIFICATE_VERIFY_FAILED|certificate verify failed"
    r"|signed by unknown authority|SSL certificate problem",
    ("SSL_CERT_FILE",),
    "does not trust a certificate",
)
CAUSES: Final = (
    CERTIFICATE,
    _Cause(
        r"Missing X server|(can't|cannot|unable to) open (X )?display|XServer running|\$DISPLAY"
        r"|no DISPLAY|failed to connect to (the )?wayland",
        ("DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY"),
        "finds no display",
    ),
    _Cause(
        r"DBUS_SESSION_BUS_ADDRESS|autolaunch D-Bus|org\.freedesktop\.secrets|No such secret collection",
        ("DBUS_SESSION_BUS_ADDRESS",),
        "finds no session bus, where keyrings are",
    ),
    _Cause(
        r"authentication agent|Permission denied \(publickey",
        ("SSH_AUTH_SOCK",),
        "finds no SSH agent",
        only_if_here=True,
    ),
    _Cause(
        r"Cannot connect to the Docker daemon|docker\.sock",
        ("DOCKER_HOST", "DOCKER_CONTEXT"),
        "finds no Docker",
        only_if_here=True,
    ),
    _Cause(
        r"ENOTFOUND|EAI_AGAIN|ETIMEDOUT|ECONNREFUSED|ENETUNREACH|getaddrinfo|could not resolve|name resolution"
        r"|dns error|Name or service not known|Network is unreachable|407 Proxy|Proxy Authentication",
        ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy", "HTTP_PROXY", "http_proxy"),
        "reaches nothing on the network",
        only_if_here=True,
    ),
)


def last_words(examined: MachineState) -> Iterator[Finding]:
    """Servers whose last words name a missing certificate, proxy, display or the like."""
    found: dict[tuple[str, str, str], list[str]] = {}
    for row in examined.seen.upstreams:
        config = examined.config.upstreams.get(row.name)
        if config is None or config.command is None or row.state == "connected" or not row.last_error:
            continue
        for cause in CAUSES:
            if re.search(cause.words, row.last_error, re.I) and (remedy := _remedy(cause, row, config, examined)):
                found.setdefault((cause.what, *remedy), []).append(row.name)
                break
        else:
            variable = lacking_variable(row.last_error.partition("\n")[2])  # what it said itself
            if variable and (remedy := _about_part(variable, row.name, config, examined)):
                found.setdefault((f"lacks {variable}, it seems", *remedy), []).append(row.name)
    for (what, why, fix), names in found.items():
        then = f"then run `hubd restart {names[0] if len(names) == 1 else 'NAME'}`"
        yield Finding("environment", "problem", f"{join_few(names)}: {what}", why, f"{fix}; {then}", names=tuple(names))


def _remedy(cause: _Cause, row: UpstreamRow, config: UpstreamConfig, examined: MachineState) -> tuple[str, str] | None:
    """The reason why a server fails for this cause, and the remedy; None: it is not to be told."""
    shell = examined.machine.environ
    variables = _certificates_of(config, row.last_error or "") if cause is CERTIFICATE else cause.variables
    variable = next((each for each in variables if shell.get(each)), variables[0])
    recorded = variable in examined.loaded.own_lines
    if variable in config.env:
        return None if cause.only_if_here else (f"{variable} in its `env` does not help", f"correct {variable} there")
    if variable in shell and not recorded:
        return _about_this_shell(variable, row.name, config, shell)
    if cause is CERTIFICATE:
        return _about_certificates(variable, recorded, examined)
    if cause.only_if_here or variable not in _OF_A_LOGIN:
        return None
    fix = "let it do without (`--headless`, if it knows that), or start the hub on the desktop"
    return f"neither this shell nor the hub has {variable}", fix


def _about_this_shell(variable: str, name: str, config: UpstreamConfig, shell: Mapping[str, str]) -> tuple[str, str]:
    given = passing(shell, config.pass_)
    if variable not in given.passed:
        reason = given.withheld.get(variable)
        told = _REASONS[reason] if reason else f"they {PART}"
        why = f"this shell has {variable}, and servers do not get it: {told}"
        return why, f'write pass = ["{variable}"] below [defaults] or [upstreams.{name}], and {CAPTURE}'
    why = f"this shell has {variable}, and the hub has not"
    if variable in _OF_A_LOGIN:
        line = f'env = {{ {variable} = "{shell[variable]}" }} below [upstreams.{name}]'
        return f"{why}, since it was started elsewhere", f"run `hubd stop` and `hubd start` here, or write {line}"
    return why, CAPTURE


def _about_part(variable: str, name: str, config: UpstreamConfig, examined: MachineState) -> tuple[str, str] | None:
    """As `_remedy`, for a variable that the server says it lacks."""
    recorded = examined.loaded.environ if variable in examined.loaded.own_lines else {}
    if variable in config.env or variable in passing(recorded, config.pass_).passed:
        return None
    if examined.machine.environ.get(variable):
        return _about_this_shell(variable, name, config, examined.machine.environ)
    return f"servers {PART}", f'write env = {{ {variable} = "..." }} below [upstreams.{name}] (`hubd edit`)'


_OF_A_LOGIN: Final = ("DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY", "DBUS_SESSION_BUS_ADDRESS", "SSH_AUTH_SOCK")
_REASONS: Final = {
    "secret": "it looks like a secret",
    "pattern": "`pass` takes it out",
    "own": "it was set for the hub itself",
}


def _certificates_of(config: UpstreamConfig, said: str) -> tuple[str, ...]:
    """The variables by which a server's runtime takes further certificates, the likeliest first."""
    program = os.path.basename(config.command or "")
    if program in NODE or re.search(r"npm (ERR!|error)|SELF_SIGNED_CERT_IN_CHAIN|UNABLE_TO_\w+", said):
        return ("NODE_EXTRA_CA_CERTS",)
    if program == "deno":
        return ("DENO_CERT",)
    if "requests" in said:
        return ("REQUESTS_CA_BUNDLE", "SSL_CERT_FILE")
    return ("GIT_SSL_CAINFO",) if program == "git" else ("SSL_CERT_FILE",)


def _about_certificates(variable: str, known: bool, examined: MachineState) -> tuple[str, str]:
    loaded = examined.loaded
    own = str(loaded.files[0].with_name("hubd.env")) if loaded.files else "hubd.env"
    if known:
        path, line = loaded.environ[variable], loaded.own_lines[variable]
        there = "does not hold the issuer" if os.path.exists(path) else "is not there"
        return f"{variable} names {path}, which {there}", f"correct line {line} of {own}"
    shell = examined.machine.environ
    others = [shell[each] for each in ("SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE") if shell.get(each)]
    path = next((each for each in (*others, *BUNDLES) if os.path.isfile(each)), "/path/to/ca.pem")
    why = f"its issuer is one of your company or of a proxy, perhaps, and {variable} says whom to trust"
    return why, f"add the line {variable}={path} to {own}"


# --- this shell -------------------------------------------------------------------------------------------------------


def this_shell(examined: MachineState) -> Iterator[Finding]:
    """The variables that this shell has, and servers do not get since something else was recorded, or nothing."""
    files = examined.loaded.files
    if not files or (path := environment_file(files[0])) is None:
        return
    try:
        planned = plan_capture(path, examined.machine.environ, examined.config)
    except EditError:  # which the configuration tells
        return
    if any(each.fix.startswith(CAPTURE) for each in last_words(examined)):
        return  # it says so already
    given = examined.loaded.environ if planned.recorded else {}
    differing = [name for name, value in planned.values.items() if name != "PATH" and given.get(name) != value]
    matters = [name for name in differing if any(fnmatchcase(name, each) for each in (*CERTIFICATES, *PROXIES))]
    if planned.recorded is None:
        if matters and any(each.command for _, each in examined.upstreams()):
            what = f"{join_few(matters)} of this shell {'are' if len(matters) > 1 else 'is'} recorded nowhere"
            why = "a hub that a host starts has not got it, and servers may reach nothing"
            yield Finding("environment", "note", what, why, CAPTURE, repair=RunHubd(("env", "capture"), on_config=True))
        return
    missing = _directories(planned.values) - _directories(given)
    if not differing and not missing:
        return
    parts = [f"its PATH lacks {join_few(sorted(missing))}"] if missing else []
    parts += [f"{join_few(differing)} differ{'s' * (len(differing) == 1)}"] if differing else []
    what = f"{path} was recorded from another shell than this: {'; '.join(parts)}"
    why = "servers get what was recorded, whoever starts the hub"
    fix = f"{CAPTURE} if this shell is right; else nothing"
    yield Finding("environment", "warning" if matters else "note", what, why, fix)


def of_this_shell_only(examined: MachineState) -> Iterator[Finding]:
    """Variables that servers refer to, and that a hub lacks which something else than this shell starts."""
    if not examined.loaded.files:
        return
    try:
        found = only_here_of_hub(examined.loaded.files[0])
    except EditError:  # which is told where secrets are read
        return
    for variable, names in found.items():
        what = f"{join_few(names)}: {variable} is set in this shell only"
        why = "a hub that a host or a service starts has not got it"
        fix = f"{CAPTURE}, which asks whether to keep it, or `hubd secret set {variable}`"
        yield Finding("environment", "warning", what, why, fix, names=tuple(names), repair=KeepVariables())


def _directories(environ: Mapping[str, str]) -> set[str]:
    return {each.rstrip("/") for each in environ.get("PATH", "").split(":") if Path(each).is_absolute()}
